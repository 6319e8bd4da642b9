//! Why an interface was not opened.

use std::io;

/// Why an interface was not opened, in words for the operator.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No interface can have this name.
    #[error(
        "interface `{interface}`: not the name of an interface; allowed are 1 to 15 bytes without `/` and spaces"
    )]
    BadName {
        /// The name asked for.
        interface: String,
    },
    /// There is none of this name.
    #[error("interface `{interface}`: there is none of this name in this network namespace; present: {}", present.join(", "))]
    NoInterface {
        /// The name asked for.
        interface: String,
        /// The names that there are.
        present: Vec<String>,
    },
    /// The process may not open packet sockets.
    #[error(
        "interface `{interface}`: a packet socket needs the capability CAP_NET_RAW: run as root, or \
         `setcap cap_net_raw+ep` the program, or run it in a user namespace (`unshare --user --map-root-user --net`)"
    )]
    NoPermission {
        /// The interface.
        interface: String,
    },
    /// The interface does not carry Ethernet frames.
    #[error("interface `{interface}`: not an Ethernet interface (its hardware type is {hardware_type})")]
    NotEthernet {
        /// The interface.
        interface: String,
        /// `ARPHRD_` number, see `linux/if_arp.h`.
        hardware_type: u16,
    },
    /// The interface's settings change frames in a way that cannot be carried.
    #[error("interface `{interface}`: {why}; run `ethtool -K {interface} {switches}`")]
    Offloads {
        /// The interface.
        interface: String,
        /// What the settings do.
        why: &'static str,
        /// Arguments of `ethtool -K` that switch it off.
        switches: String,
    },
    /// The kernel does not carry checksum and segmentation state here.
    #[error(
        "interface `{interface}`: the kernel gives no virtio-net headers here ({source}); set `offload: off` and run \
         `ethtool -K {interface} gro off lro off gso off tso off tx off rxvlan off`"
    )]
    NoVnetHeader {
        /// The interface.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused the memory of the ring.
    #[error("interface `{interface}`: a receive ring of {bytes} bytes: {source}; a smaller `ring` may do")]
    Ring {
        /// The interface.
        interface: String,
        /// Bytes asked for.
        bytes: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// A system call failed that has no reason to.
    #[error("interface `{interface}`: {operation}: {source}")]
    System {
        /// The interface.
        interface: String,
        /// What was tried.
        operation: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}
