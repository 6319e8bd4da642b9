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
    /// The process may not do what AF_XDP needs.
    #[error(
        "interface `{interface}`: AF_XDP needs the capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF of the host, not \
         of a user namespace ({missing}; {step}: {source}): run as root, or `setcap \
         cap_net_raw,cap_net_admin,cap_bpf+ep` the program; the port type `af_packet` needs CAP_NET_RAW alone"
    )]
    NoPermission {
        /// The interface.
        interface: String,
        /// What was tried.
        step: String,
        /// Which of them the process does not have.
        missing: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The interface does not carry Ethernet frames.
    #[error("interface `{interface}`: not an Ethernet interface (its hardware type is {hardware_type})")]
    NotEthernet {
        /// The interface.
        interface: String,
        /// `ARPHRD_` number, see `linux/if_arp.h`.
        hardware_type: u16,
    },
    /// Queues were asked for that the interface does not have.
    #[error(
        "interface `{interface}`: {what}; it has {receive} queues to receive by and {transmit} to send by"
    )]
    Queues {
        /// The interface.
        interface: String,
        /// What is wrong with the queues asked for.
        what: String,
        /// Queues to receive by.
        receive: u32,
        /// Queues to send by.
        transmit: u32,
    },
    /// An XDP program is attached already.
    #[error(
        "interface `{interface}`: another XDP program is attached to it ({source}); `ip link set dev {interface} xdp off` \
         removes one that no process holds, `bpftool net` shows which it is"
    )]
    ProgramAttached {
        /// The interface.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A queue is in use.
    #[error(
        "interface `{interface}`: queue {queue} is in use by another AF_XDP socket ({source}); `queues` chooses others"
    )]
    QueueTaken {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// No mode works.
    #[error("interface `{interface}`: {tried}")]
    NoMode {
        /// The interface.
        interface: String,
        /// What was tried, and what the kernel said.
        tried: String,
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
