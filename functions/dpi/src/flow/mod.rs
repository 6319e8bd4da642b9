//! Flows: their two ends, which of them began it, and the streams of bytes in both directions.
//!
//! 1. A packet's ends make a [`Key`]; [`table`] finds its [`Flow`] or makes one, in the place of the one that
//!    was idle the longest if need be.
//! 2. [`tcp`] follows a connection as its ends do: which segments they take, and which bytes are new.
//! 3. [`windows`] keeps the last bytes of each stream, so that what is split over segments is found;
//!    the SDK's [`reorder`](nf_sdk::reorder) keeps segments that came too early.
//! 4. [`tracker`] ties them together, and gives back what ended flows hold once that has been looked at.

pub mod table;
pub mod tcp;
pub mod tracker;
pub mod windows;

use crate::header::flag::ACK;
use crate::header::{Address, Tcp, View};
use nf_sdk::Nanos;
use packet::tunnel::Path;

/// Both ends (addresses of two words, the smaller end first), in one word ports, and protocol with VLANs, and
/// the tunnels around the packet. Words as wide as they are compared and hashed: two halves written one by
/// one would have to be waited for.
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
    /// Both sides have ended it, or one has reset it. What comes all the same is looked at.
    Closed,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Sequence number of the next byte.
    pub next: u32,
    /// Sequence number behind the last byte that was sent.
    pub sent: u32,
    /// Sequence number of the first byte that the other side has not acknowledged.
    pub acked: u32,
    /// Sequence number of the first byte that is behind the other side's window, if that is known.
    pub edge: u32,
    /// Number of the next byte in the stream.
    pub position: u64,
    /// Window with the last bytes, counted from 1; 0 for none.
    pub window: u32,
    /// Segments that came too early, counted from 1; 0 for none.
    pub held: u32,
    /// The latest timestamp that the other side goes by.
    pub stamp: u32,
    /// The widest window that it has told, in bytes.
    pub widest: u32,
    /// Sequence numbers of the first byte that was dropped and of the one behind the last such: its receiver
    /// never gets them.
    pub lost: (u32, u32),
    /// By how many bits its own windows are shifted, if the other side's are too.
    pub scale: Option<u8>,
    /// It begins with a timestamp: its segments have one, if the other side's do too.
    pub has_stamp: bool,
    /// Its SYN, or its answer, is signed: its segments are, if the other side's are too.
    pub has_digest: bool,
    /// It has sent a reset.
    pub has_reset: bool,
    /// The interface that it comes by.
    pub from: u16,
    /// It is certain that it does: that of the SYN, or of the answer.
    pub is_pinned: bool,
    /// `edge` says something.
    pub knows_edge: bool,
    /// What is held has been shown to the rules as it is.
    pub is_told: bool,
    /// Its last bytes were forgotten, to make room for another stream's.
    pub is_robbed: bool,
    /// No more data follows.
    pub is_finished: bool,
    /// Rules about addresses alone have been applied.
    pub is_judged: bool,
    /// A packet has come.
    pub is_seen: bool,
}

/// A SYN that may begin a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// The second end of the key sent it.
    pub is_second: bool,
    /// The interface that it came by.
    pub from: u16,
    /// It is another answer to the SYN that is known, which the client may take for the first one.
    pub is_answer: bool,
    /// Sequence number of the first byte.
    pub next: u32,
    /// Window.
    pub window: u16,
    /// By how many bits later windows are shifted.
    pub scale: Option<u8>,
    /// Timestamp.
    pub stamp: Option<u32>,
    /// It is signed.
    pub has_digest: bool,
}

/// A flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The two ends.
    pub key: Key,
    /// When the last packet came.
    pub last: Nanos,
    /// Number for alerts. With the highest bit it is when the flow began, and the number is made of that
    /// when the first alert tells it: [`tracker::Tracker::id`].
    pub id: u64,
    /// Of TCP.
    pub stage: Stage,
    /// What became of it.
    pub fate: Fate,
    /// The client, which began it, is the end that comes second in the key.
    pub client_is_second: bool,
    /// Its packets pass by here twice, once by each interface.
    pub is_twice: bool,
    /// With [`Fate::Dropped`], without a connection: the side, in the lowest bit, and the interface of the
    /// packet that matched, and 1; 0 for none.
    pub barred: u16,
    /// A SYN that may begin another connection of the same ends.
    pub reopening: Option<Opening>,
    /// Messages and bits, counted from 1; 0 for none.
    pub session: u32,
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

    /// Both sides have agreed, or rules have decided: what a flood does not bring about.
    pub fn is_agreed(&self) -> bool {
        self.is_established() && self.stage != Stage::Closed || self.fate != Fate::Open
    }

    /// Tells the client's address: of IPv6 the network's half, which its hosts choose from.
    pub fn client(&self) -> u64 {
        let at = if self.client_is_second { 2 } else { 0 };
        if self.key[at] == 0 { self.key[at + 1] } else { self.key[at] }
    }

    /// The other side acknowledges bytes of this one's that are not part of its stream.
    pub fn is_behind(&self, side: usize) -> bool {
        let side = &self.sides[side & 1];
        side.acked.wrapping_sub(side.next) as i32 > 0 && !side.is_finished
    }

    /// By how many bits a side's windows are shifted: by both or by none.
    pub fn scale(&self, side: usize) -> u8 {
        let [client, server] = [self.sides[0].scale, self.sides[1].scale];
        client.zip(server).map_or(0, |(client, server)| if side == 0 { client } else { server })
    }

    /// Both sides send timestamps: the server does only in answer to the client's. Which of several SYN
    /// packets it has answered is not known.
    pub fn has_stamps(&self) -> bool {
        self.sides[1].has_stamp
    }

    /// Both sides sign their segments.
    pub fn has_digests(&self) -> bool {
        self.sides[0].has_digest && self.sides[1].has_digest
    }

    /// Whether bytes of a side include some that were dropped.
    pub fn is_lost(&self, side: usize, seq: u32, length: usize) -> bool {
        let (first, end) = self.sides[side & 1].lost;
        let behind = |a: u32, b: u32| a.wrapping_sub(b) as i32 > 0;
        first != end && behind(end, seq) && behind(seq.wrapping_add(length as u32), first)
    }

    /// Notes that bytes of a side were dropped.
    pub fn lose(&mut self, side: usize, seq: u32, length: usize) {
        let lost = &mut self.sides[side & 1].lost;
        let (first, end) = (seq, seq.wrapping_add(length as u32));
        if lost.0 == lost.1 {
            *lost = (first, end);
            return;
        }
        // What lies between was not dropped, but no receiver comes as far.
        if lost.0.wrapping_sub(first) as i32 > 0 {
            lost.0 = first;
        }
        if end.wrapping_sub(lost.1) as i32 > 0 {
            lost.1 = end;
        }
    }

    /// Whether a packet of a side comes by another interface than the side does, or by that of the other
    /// side.
    pub fn is_stranger(&self, side: usize, from: u16) -> bool {
        let (me, other) = (&self.sides[side & 1], &self.sides[1 - (side & 1)]);
        let differs = if me.is_pinned { me.from != from } else { other.is_pinned && other.from == from };
        differs && !self.is_twice
    }

    /// Whether a packet is dropped with the one that matched a drop rule: without a connection the packets of
    /// that side by that interface, and those of the other side by others.
    pub fn bars(&self, side: usize, from: u16) -> bool {
        let Some(barred) = self.barred.checked_sub(1) else { return true };
        (usize::from(barred & 1) == side) == (barred >> 1 == from & 0x3fff)
    }

    /// Notes of which packets that is.
    pub fn bar(&mut self, side: usize, from: u16) {
        self.barred = ((from & 0x3fff) << 1 | (side & 1) as u16) + 1;
    }

    /// What an alert says of a packet that one side of this TCP connection has sent, when there is none.
    pub fn view(&self, side: usize) -> View<'static> {
        let address = |at: usize| {
            let [low, high] = [self.key[at], self.key[at + 1]];
            let words = [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32];
            Address { words, is_ipv4: words[..3] == [0, 0, 0xffff] }
        };
        let (first, second) = (self.key[4] as u32 >> 16, self.key[4] as u32 & 0xffff);
        let mut ends = [(address(0), first as u16), (address(2), second as u16)];
        if self.client_is_second != (side == 1) {
            ends.swap(0, 1);
        }
        let kind = (self.key[4] >> 32) as u32;
        let vlan = |bits: u32| Some(bits as u16 & 0xfff).filter(|vlan| *vlan != 0);
        let [(source, source_port), (destination, destination_port)] = ends;
        View {
            source,
            destination,
            source_port,
            destination_port,
            protocol: self.protocol(),
            ttl: 0,
            vlans: [vlan(kind >> 8), vlan(kind >> 20)],
            path: Path::from_bits(self.key[5]).unwrap_or(Path::OUTSIDE),
            tcp: Tcp { flags: ACK, ..Tcp::default() },
            icmp: None,
            is_fragment: false,
            ip_header: &[],
            segment: &[],
            is_cut: false,
            payload: &[],
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

#[cfg(test)]
mod tests {
    use super::*;
    use nf_sdk::Line;

    /// What the README says of the key `max_flows`.
    #[test]
    fn a_flow_takes_as_much_memory_as_the_readme_says() {
        let readme = include_str!("../../README.md");
        let told = readme.split("most flows, ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        // A group of the index, one line, is there for eight flows at least.
        let most = size_of::<Flow>() + size_of::<Line>() / 8;
        assert_eq!(told, Some(most), "{} bytes of a flow", size_of::<Flow>());
    }
}
