//! Flows: their two ends, which of them began it, and the streams of bytes in both directions.
//!
//! 1. A packet's ends make a [`Key`]; [`table`] finds its [`Flow`] or makes one, in the place of the one that
//!    was idle the longest if need be.
//! 2. [`tcp`] follows the handshake and says which bytes of a segment are new in its stream.
//! 3. [`windows`] keeps the last bytes of each stream, so that what is split over segments is found;
//!    [`reorder`] keeps segments that came too early.
//! 4. [`tracker`] ties them together, and gives back what ended flows hold.

pub mod reorder;
pub mod table;
pub mod tcp;
pub mod tracker;
pub mod windows;

use crate::header::View;
use nf_sdk::Nanos;

/// Both ends (addresses of two words, the smaller end first), in one word ports, and protocol with VLANs, and the
/// tunnels around the packet.
/// Words as wide as they are compared and hashed: two halves written one by one would have to be waited for.
pub type Key = [u64; 6];

/// What became of the packets of a flow as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// Rules decide.
    #[default]
    Open,
    /// A drop rule matched: everything is dropped.
    Dropped,
    /// A pass rule matched in the stream: everything passes.
    Passed,
}

/// What a TCP connection is going through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// No beginning was seen, or it is not TCP.
    #[default]
    Unknown,
    /// A SYN was seen.
    SynSent,
    /// The other side's SYN was seen too.
    SynReceived,
    /// The handshake is complete.
    Established,
    /// Both sides have ended it, or one has reset it.
    Closed,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Sequence number of the next byte.
    pub next: u32,
    /// Number of that byte in the stream.
    pub position: u64,
    /// Window with the last bytes, counted from 1; 0 for none.
    pub window: u32,
    /// Segments that came too early, counted from 1; 0 for none.
    pub held: u32,
    /// No more data follows.
    pub is_finished: bool,
    /// Rules about addresses alone have been applied.
    pub is_judged: bool,
    /// A packet has come.
    pub is_seen: bool,
}

/// A flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The two ends.
    pub key: Key,
    /// When the last packet came.
    pub last: Nanos,
    /// Number for alerts.
    pub id: u64,
    /// Of TCP.
    pub stage: Stage,
    /// What became of it.
    pub fate: Fate,
    /// The client, which began it, is the end that comes second in the key.
    pub client_is_second: bool,
    /// A SYN that may begin another connection of the same ends: whether the second end sent it, and the
    /// number of its first byte.
    pub reopening: Option<(bool, u32)>,
    /// From the client, and from the server.
    pub sides: [Side; 2],
}

impl Flow {
    /// Whether both sides have agreed.
    pub fn is_established(&self) -> bool {
        if self.protocol() == packet::protocol::TCP {
            self.stage >= Stage::Established
        } else {
            self.sides[0].is_seen && self.sides[1].is_seen
        }
    }

    /// The protocol.
    pub fn protocol(&self) -> u8 {
        (self.key[4] >> 32) as u8
    }
}

/// What stands for ports in an ICMP message: its type, and the type of what answers it or is answered by it,
/// so that both are one flow. Messages without such a counterpart are a flow in each direction.
fn icmp_ports(is_ipv4: bool, kind: u8) -> (u16, u16) {
    const NONE: u8 = 255;
    let pairs: &[(u8, u8)] = if is_ipv4 { &[(8, 0), (13, 14), (15, 16), (17, 18)] } else { &[(128, 129)] };
    let counterpart = pairs.iter().find_map(|(request, reply)| match kind {
        _ if kind == *request => Some(*reply),
        _ if kind == *reply => Some(*request),
        _ => None,
    });
    (u16::from(kind), u16::from(counterpart.unwrap_or(NONE)))
}

/// The packet's key, and whether its source is the second end.
pub fn key(view: &View<'_>) -> (Key, bool) {
    let (source_port, destination_port) = match view.icmp {
        Some((kind, _)) => icmp_ports(view.source.is_ipv4, kind),
        None => (view.source_port, view.destination_port),
    };
    let (a, b) = (view.source.words, view.destination.words);
    let second = (a, source_port) > (b, destination_port);
    let (first, other) = if second { (b, a) } else { (a, b) };
    let ports = if second { (destination_port, source_port) } else { (source_port, destination_port) };
    let ports = u32::from(ports.0) << 16 | u32::from(ports.1);
    let vlan = |at: usize| u32::from(view.vlans[at].unwrap_or(0));
    let kind = u32::from(view.protocol) | vlan(0) << 8 | vlan(1) << 20;
    let [a0, a1, a2, a3] = first;
    let [b0, b1, b2, b3] = other;
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    ([pair(a0, a1), pair(a2, a3), pair(b0, b1), pair(b2, b3), pair(ports, kind), view.path.to_bits()], second)
}
