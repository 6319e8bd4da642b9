//! What a device is made with.

use encapsulation::{Encapsulation, LayerKind};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use telemetry::clock::Nanos;
use virtual_switch::SwitchPort;

/// Ports of a device that a packet's record can remember.
pub const MAX_PORTS: usize = 255;

/// What a device does. Plugs are numbers of ends in it; each is used once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSettings {
    /// How its ports are organised.
    pub mode: Mode,
    /// Which of several openers get what comes in.
    pub share: Share,
    /// The plug of each port, in the order of the configuration.
    pub ports: Vec<SwitchPort>,
    /// Ports, by their indices, outside of which packets have headers that openers do not see.
    pub tunnels: BTreeMap<usize, Arc<Tunnels>>,
    /// By which port that leaves which came by one, by their indices; what is not in it leaves as the mode
    /// says.
    pub send: BTreeMap<usize, usize>,
    /// Those that open it: the first one that receives a packet gets the packet itself, others copies.
    pub openers: Vec<Opener>,
}

impl DeviceSettings {
    /// Of a device without tunnels, whose openers send as the mode says.
    pub fn new(mode: Mode, share: Share, ports: Vec<SwitchPort>, openers: Vec<Opener>) -> DeviceSettings {
        DeviceSettings { mode, share, ports, openers, tunnels: BTreeMap::new(), send: BTreeMap::new() }
    }
}

/// Headers around packets outside of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnels {
    /// Taken off what comes in, outermost first.
    pub decapsulate: Vec<LayerKind>,
    /// Put on what goes out, unless headers are kept that were taken off by another port with the same
    /// `decapsulate`.
    pub encapsulate: Option<Encapsulation>,
    /// Where what is put on goes to, if that is found out while packets pass.
    pub next_hop: Option<Arc<NextHop>>,
}

/// The Ethernet address of a tunnel's next hop, which the control plane finds out and workers read.
#[derive(Debug, Default)]
pub struct NextHop(AtomicU64);

impl NextHop {
    /// A bit above those of the address: it is known.
    const KNOWN: u64 = 1 << 48;

    /// The address, while it is known.
    #[inline]
    pub fn get(&self) -> Option<[u8; 6]> {
        // The address is all that is read: nothing is ordered by it.
        let value = self.0.load(Relaxed);
        let [.., a, b, c, d, e, f] = value.to_be_bytes();
        (value & NextHop::KNOWN != 0).then_some([a, b, c, d, e, f])
    }

    /// Sets it; `None`: it is not known.
    pub fn set(&self, address: Option<[u8; 6]>) {
        let known =
            |[a, b, c, d, e, f]: [u8; 6]| NextHop::KNOWN | u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        self.0.store(address.map_or(0, known), Relaxed);
    }
}

/// One is another's equal if both are the same: what they hold changes.
impl PartialEq for NextHop {
    fn eq(&self, other: &NextHop) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for NextHop {}

/// What opens a device: a function, or the head of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opener {
    /// Its plug.
    pub plug: SwitchPort,
    /// It opens the side of one port alone: an index into [`DeviceSettings::ports`].
    pub side: Option<usize>,
    /// It gets packets. One that does not only sends, as a service's senders do.
    pub receives: bool,
}

/// How the ports of a device are organised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One port.
    Direct,
    /// Ports that together are one link.
    Bond(Balance),
    /// Ports between which its openers stand.
    Bridge,
    /// No ports: what one opener sends the others get.
    Rootless,
}

/// By which port of a bond a packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Each packet by the next one. Packets of a flow may overtake each other.
    RoundRobin,
    /// By the flow hash.
    Flow,
    /// A flow goes by another port when it has paused for so long, and by the same one until then.
    Flowlet {
        /// The pause: longer than the ports' ways differ.
        gap: Nanos,
    },
    /// The first one that is up.
    ActiveBackup,
}

/// Which of several openers get a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// There is one; of more, the first.
    Single,
    /// Each of them.
    Duplicate,
    /// One of them, by the symmetric flow hash.
    Balance,
}
