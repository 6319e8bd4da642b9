//! Why a device was not opened.

use std::io;

/// Why a device was not opened, in words for the operator.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No device can have this name.
    #[error(
        "interface `{interface}`: not the name of an interface; allowed are 1 to 15 bytes without `/`, `:`, `%` and spaces"
    )]
    BadName {
        /// The name asked for.
        interface: String,
    },
    /// A port cannot have so many queues.
    #[error("interface `{interface}`: queues: found {found}; allowed: 1 to {}", crate::MAX_QUEUES)]
    BadQueues {
        /// The device.
        interface: String,
        /// What was asked for.
        found: u32,
    },
    /// No interface can have this address.
    #[error(
        "interface `{interface}`: mac: not the address of one interface; allowed: any but multicast ones and zero"
    )]
    BadMac {
        /// The device.
        interface: String,
    },
    /// The host has no such user or group.
    #[error("interface `{interface}`: {key}: there is no `{name}` in {file}; a number is allowed too")]
    NoAccount {
        /// The device.
        interface: String,
        /// `user` or `group`.
        key: &'static str,
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        file: &'static str,
    },
    /// There is none of this name, and none is to be made.
    #[error(
        "interface `{interface}`: there is none of this name in this network namespace, and `create: false` makes none; \
         run `ip tuntap add dev {interface} mode tap multi_queue vnet_hdr`; present: {}", present.join(", ")
    )]
    Absent {
        /// The name asked for.
        interface: String,
        /// The names that there are.
        present: Vec<String>,
    },
    /// This host offers no TAP devices, or not here.
    #[error(
        "interface `{interface}`: {file}: {source}; TAP devices need it: run `modprobe tun`, and where device files are not made \
         by themselves `mkdir -p /dev/net && mknod {file} c 10 200`"
    )]
    NoDriver {
        /// The device.
        interface: String,
        /// The driver's file.
        file: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The process may not open the driver's file.
    #[error(
        "interface `{interface}`: {file} may not be opened by this user; run `chmod 666 {file}`, which gives \
         no user a device of another"
    )]
    DriverDenied {
        /// The device.
        interface: String,
        /// The driver's file.
        file: String,
    },
    /// The process may not make devices.
    #[error(
        "interface `{interface}`: making a TAP device needs the capability CAP_NET_ADMIN: run as root, or `setcap \
         cap_net_admin+ep` the program, or make it once as root: `ip tuntap add dev {interface} mode tap user {user} \
         multi_queue vnet_hdr`"
    )]
    NoPermission {
        /// The device.
        interface: String,
        /// The user that would be its owner.
        user: u32,
    },
    /// The device belongs to another user.
    #[error(
        "interface `{interface}`: the TAP device belongs to {owner}, and this process runs as user {user} without \
         CAP_NET_ADMIN; run as root `ip link del {interface} && ip tuntap add dev {interface} mode tap user {user} \
         multi_queue vnet_hdr`"
    )]
    NotOwner {
        /// The device.
        interface: String,
        /// Whose it is.
        owner: String,
        /// The user that this process runs as.
        user: u32,
    },
    /// The name is taken by something else.
    #[error(
        "interface `{interface}`: the name is taken by {kind}, which is no TAP device; choose another name, or open it \
         with `type: af_packet`"
    )]
    OtherKind {
        /// The name.
        interface: String,
        /// What has it.
        kind: String,
    },
    /// A device of this name is there and is not as the port needs it.
    #[error("interface `{interface}`: {why}; run `{command}`")]
    OtherFlags {
        /// The device.
        interface: String,
        /// What it is like.
        why: String,
        /// The command that makes it fit.
        command: String,
    },
    /// Another process has the device.
    #[error(
        "interface `{interface}`: {why}; end the process that has it (`grep -l 'iff:.*{interface}' /proc/*/fdinfo/*` finds it)"
    )]
    Busy {
        /// The device.
        interface: String,
        /// What is in the way.
        why: String,
    },
    /// The kernel refused a setting.
    #[error("interface `{interface}`: {key}: {source}; `{command}` as root sets it beforehand")]
    Setting {
        /// The device.
        interface: String,
        /// The key.
        key: String,
        /// The command that does it.
        command: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A system call failed that has no reason to.
    #[error("interface `{interface}`: {operation}: {source}")]
    System {
        /// The device.
        interface: String,
        /// What was tried.
        operation: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}
