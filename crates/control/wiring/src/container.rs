//! Functions that are containers, or programs of the host: ordinary programs, which the launcher starts.
//!
//! Each interface of one leads to a port of the wiring, whatever it is inside: packets get to it and from it
//! like to and from any other port. The port is called after both, `ids:in`, which no port that an operator
//! names can be.

use crate::{Endpoint, RestartDelays, Wiring};
use cpu_share::{Cap, Claim, Weight};
use neighbours::Settings;
use std::collections::BTreeMap;
use std::net::IpAddr;
use telemetry::clock::Nanos;

/// Where the files of a function come from that the launcher starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContainerKind {
    /// Of an image.
    #[default]
    Container,
    /// Of the host: what the launcher's file names.
    Program,
    /// Of the host: QEMU, with a virtual machine.
    Vm,
}

impl ContainerKind {
    /// All of them.
    pub const ALL: [ContainerKind; 3] = [ContainerKind::Container, ContainerKind::Program, ContainerKind::Vm];

    /// The kind of this name.
    pub fn of(name: &str) -> Option<ContainerKind> {
        ContainerKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// What it is, in a word, as the key `guest` says it.
    pub fn as_str(self) -> &'static str {
        match self {
            ContainerKind::Container => "container",
            ContainerKind::Program => "program",
            ContainerKind::Vm => "vm",
        }
    }
}

/// A function that runs as a container, or as a program of the host, confined as a container is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Whose it is.
    pub tenant: String,
    /// Which of these.
    pub kind: ContainerKind,
    /// The folder of an OCI image layout, or an image in a registry, as the operator named it; empty of a
    /// program.
    pub image: String,
    /// The digest that the image's manifest must have.
    pub digest: Option<String>,
    /// Program and arguments; the image's own where it is empty.
    pub command: Vec<String>,
    /// Its interfaces, in the order of the operator's file.
    pub interfaces: Vec<ContainerInterface>,
    /// Files and folders of the host that it may read, as the operator named them, by their path inside.
    pub mounts: BTreeMap<String, String>,
    /// The most memory of each of its processes' groups, in bytes: of its own, and of one that stands by.
    pub memory: u64,
    /// How many more of it are started, to take over from it.
    pub standby: u32,
    /// Its part of the processors in relation to other containers, and of its worker's in relation to the
    /// tenants there.
    pub weight: u32,
    /// The most processor time, of its processes and of its packets, in thousandths of one processor.
    pub cap: Option<u32>,
    /// The worker on whose processors its processes stay, and on which its ports are; `None`: its processes
    /// run anywhere.
    pub worker: Option<usize>,
    /// The most processes and threads.
    pub processes: u32,
    /// The most open files of each process.
    pub files: u32,
    /// Whether it gets `/dev/kvm`; of a virtual machine alone.
    pub kvm: KvmUse,
    /// When it is started again after its end.
    pub restart: RestartDelays,
    /// How it is found out whether it still works.
    pub probe: Option<ContainerProbe>,
    /// How long it may run until there is something of it at each of its sockets; `None`: it has none.
    pub attach_within: Option<Nanos>,
    /// What interfaces that open devices are on the links of these, by their number, where they have
    /// addresses.
    pub stations: BTreeMap<u16, Settings>,
}

impl Container {
    /// Whether an interface has a network stack behind it, which answers for its addresses: the kernel's, in
    /// the container or in the virtual machine. Of the other ones the platform answers for what they have.
    pub fn answers_itself(&self, interface: u16) -> bool {
        let kind = self.interfaces.get(usize::from(interface)).map(|it| it.kind);
        self.kind == ContainerKind::Vm || kind.is_some_and(InterfaceKind::has_stack)
    }

    /// What it may have of its worker's core, beside the tenants there.
    pub fn claim(&self) -> Claim {
        let weight = Weight::new(self.weight).unwrap_or(Weight::DEFAULT);
        let cap = self.cap.map(|thousandths| thousandths.saturating_mul(1000));
        Claim { weight, cap: cap.and_then(Cap::from_millionths) }
    }

    /// What it may have of memory, with those that stand by it.
    pub fn promised_memory(&self) -> u64 {
        self.memory.saturating_mul(1 + u64::from(self.standby))
    }
}

/// Whether a virtual machine runs by the processor, with KVM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvmUse {
    /// It is emulated, or no virtual machine.
    #[default]
    No,
    /// Where the host can and the launcher's file lets it; else it is emulated.
    IfPossible,
    /// It does not run without.
    Required,
}

/// How it is found out whether a container still works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerProbe {
    /// What is asked.
    pub asks: ProbeAsks,
    /// How long after one the next begins.
    pub every: Nanos,
    /// How long one may take.
    pub within: Nanos,
    /// After so many failures in a row it is killed.
    pub failures: u32,
    /// Failures do not count for so long after the start, until one has succeeded.
    pub start: Nanos,
}

/// What a probe asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAsks {
    /// A program inside, with its arguments.
    Exec(Vec<String>),
    /// A TCP port of the container's own.
    Tcp(u16),
}

/// What an interface is: what the program sees, and the port that leads to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterfaceKind {
    /// An end of a veth pair; `af_packet` at the other end.
    #[default]
    Veth,
    /// The same, with `af_xdp` at the other end.
    AfXdp,
    /// A TAP device that the launcher makes, and whose queue it hands over; `tap`.
    Tap,
    /// A socket at which the program attaches by the library; `native`.
    Library,
    /// A socket at which the program connects as a slave; `memif`.
    Memif,
    /// A socket at which the program connects as a front end; `vhost-user`.
    VhostUser,
}

impl InterfaceKind {
    /// All of them.
    pub const ALL: [InterfaceKind; 6] = [
        InterfaceKind::Veth,
        InterfaceKind::AfXdp,
        InterfaceKind::Tap,
        InterfaceKind::Library,
        InterfaceKind::Memif,
        InterfaceKind::VhostUser,
    ];

    /// Its name, as the key `as` says it.
    pub fn as_str(self) -> &'static str {
        match self {
            InterfaceKind::Veth => "veth",
            InterfaceKind::AfXdp => "af_xdp",
            InterfaceKind::Tap => "tap",
            InterfaceKind::Library => "library",
            InterfaceKind::Memif => "memif",
            InterfaceKind::VhostUser => "vhost-user",
        }
    }

    /// The kind of this name.
    pub fn of(name: &str) -> Option<InterfaceKind> {
        InterfaceKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The driver of its port.
    pub fn driver(self) -> &'static str {
        match self {
            InterfaceKind::Veth => "af_packet",
            InterfaceKind::AfXdp => "af_xdp",
            InterfaceKind::Tap => "tap",
            InterfaceKind::Library => "native",
            InterfaceKind::Memif => "memif",
            InterfaceKind::VhostUser => "vhost-user",
        }
    }

    /// Whether the guest's kernel has it, with a stack of its own.
    pub fn has_stack(self) -> bool {
        !self.is_socket()
    }

    /// Whether it is a socket in the folder of the guest's sockets, and no interface of the kernel's.
    pub fn is_socket(self) -> bool {
        matches!(self, InterfaceKind::Library | InterfaceKind::Memif | InterfaceKind::VhostUser)
    }
}

/// An interface of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerInterface {
    /// Its name among the function's interfaces, `in`.
    pub name: String,
    /// What it is.
    pub kind: InterfaceKind,
    /// The name that the program sees: `eth0`, or that of the socket without its ending.
    pub inside: String,
    /// Where its port is: the name of the other end of the pair, the one that a TAP device's queue is handed
    /// over by, or the socket's path in the folder of all guests' sockets.
    pub outer: String,
    /// Addresses with their prefix lengths, `192.0.2.1/24`.
    pub addresses: Vec<String>,
    /// Routers of its default routes, one of each version of IP at most among all interfaces.
    pub gateways: Vec<IpAddr>,
    /// The longest IP packet of a TAP device, if it is said.
    pub mtu: Option<u32>,
    /// Its Ethernet address, if it is said or has to be known: of a TAP device or a veth pair's inner end.
    pub mac: Option<[u8; 6]>,
}

/// One of the two sides of a container that [fails open](crate::FailMode::Open).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BypassSide {
    /// The container.
    pub container: String,
    /// Its second interface; else its first.
    pub second: bool,
}

/// The port of a container's interface.
pub fn container_port(function: &str, interface: &str) -> String {
    format!("{function}:{interface}")
}

/// The container of a port, if it is one's.
pub fn container_of_port(port: &str) -> Option<&str> {
    Some(port.split_once(':')?.0)
}

/// An interface that is something on the link of a device that it opens.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceStation<'a> {
    /// The function, of the sandbox or not.
    pub function: &'a str,
    /// The interface's number.
    pub interface: u16,
    /// Its addresses.
    pub settings: &'a Settings,
    /// Whether it answers for them itself.
    pub answers_itself: bool,
}

impl Wiring {
    /// A container and the number of its interface, if a port is one's.
    pub fn container_interface<'a>(&'a self, port: &str) -> Option<(&'a str, &'a Container, u16)> {
        let (name, interface) = port.split_once(':')?;
        let (name, container) = self.containers.get_key_value(name)?;
        let number = container.interfaces.iter().position(|it| it.name == interface)?;
        Some((name, container, u16::try_from(number).ok()?))
    }

    /// What an opener is on its device's link, if it has addresses of its own.
    pub fn station_of<'a>(&'a self, opener: &'a Endpoint) -> Option<InterfaceStation<'a>> {
        match opener {
            Endpoint::Interface(function, number) => {
                let settings = self.instances.get(function)?.stations.get(number)?;
                Some(InterfaceStation { function, interface: *number, settings, answers_itself: false })
            }
            Endpoint::Port(port) => {
                let (function, container, interface) = self.container_interface(port)?;
                let settings = container.stations.get(&interface)?;
                let answers_itself = container.answers_itself(interface);
                Some(InterfaceStation { function, interface, settings, answers_itself })
            }
            Endpoint::Switch(_) | Endpoint::Device(_) => None,
        }
    }

    /// Whether an opener answers for what it has itself, see [`Container::answers_itself`].
    pub fn answers_itself(&self, opener: &Endpoint) -> bool {
        let Endpoint::Port(port) = opener else { return false };
        self.container_interface(port).is_some_and(|(_, container, number)| container.answers_itself(number))
    }

    /// Whose an opener of a device is.
    pub fn tenant_of_opener(&self, opener: &Endpoint) -> Option<&str> {
        match opener {
            Endpoint::Interface(function, _) => self.instances.get(function).map(|it| it.tenant.as_str()),
            Endpoint::Port(port) => self.ports.get(port).map(|it| it.tenant.as_str()),
            Endpoint::Switch(_) | Endpoint::Device(_) => None,
        }
    }
}

/// The socket of a container's interface, in the folder of all guests' sockets.
pub fn container_socket(function: &str, inside: &str) -> String {
    format!("{function}/{inside}.sock")
}

/// Whether a port is one of a container's.
pub fn is_container_port(port: &str) -> bool {
    port.contains(':')
}

/// Most guests that stand by another one.
pub const STANDBY_MAX: u8 = 8;

/// The outer end of the same interface of the `number`th guest that stands by a container, by the first one's
/// outer end; of number 0 that itself.
pub fn standby_link(first: &str, number: u8) -> String {
    match first.rsplit_once('-') {
        Some((function, interface)) if number > 0 => format!("{function}{number}{interface}"),
        _ => first.to_owned(),
    }
}

/// The outer end of a container's interface, by its number below 16: `sfg`, ten digits for the function's
/// name and one for the number. Two names may have the same; the reader of a file reports that.
pub fn container_link(function: &str, number: u8) -> String {
    // FNV-1a, of which 40 bits are used: an interface's name has at most 15 characters.
    let hash = function.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("sfg{:010x}-{number:x}", hash >> 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_that_stands_by_has_outer_ends_of_its_own() {
        let first = [container_link("ids", 0), container_link("ids", 15)];
        let all = first.iter().flat_map(|first| (0..=STANDBY_MAX).map(|number| standby_link(first, number)));
        let mut all: Vec<String> = all.collect();
        assert!(first.iter().all(|first| all.contains(first)), "{all:?}");
        assert!(all.iter().all(|link| link.len() == 15 && link.starts_with("sfg")), "{all:?}");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 18);
    }

    #[test]
    fn the_outer_end_fits_into_an_interfaces_name_and_differs_by_function_and_number() {
        let names = [("ids", 0), ("ids", 15), ("idt", 0), (&*"a".repeat(32), 1)];
        let mut links: Vec<String> =
            names.iter().map(|(name, number)| container_link(name, *number)).collect();
        assert!(links.iter().all(|link| link.len() == 15 && link.starts_with("sfg")), "{links:?}");
        links.sort();
        links.dedup();
        assert_eq!(links.len(), names.len());
    }
}
