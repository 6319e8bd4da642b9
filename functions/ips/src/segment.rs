//! What is read of a packet whose connection is to end.

use core::net::IpAddr;
use packet::tcp::{self, Flags};
use packet::{Fragment, Transport, dissect, protocol};

/// A connection, the same for both directions: protocol, and both ends in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// TCP or UDP.
    pub protocol: u8,
    /// The outermost VLAN's identifier; 0 without a tag.
    pub vlan: u16,
    /// Its ends: address and port.
    pub ends: [(IpAddr, u16); 2],
}

impl Key {
    /// Of a packet from one end to the other.
    fn new(protocol: u8, vlan: u16, from: (IpAddr, u16), to: (IpAddr, u16)) -> Key {
        let mut ends = [from, to];
        ends.sort();
        Key { protocol, vlan, ends }
    }
}

/// Why a packet ends no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A header is cut short or contradicts itself, or it is a fragment without ports.
    Malformed,
    /// It is a first fragment of this connection: its end is not there, so that no number is known to reset
    /// by.
    First(Key),
    /// It is neither TCP nor UDP.
    NotTcp,
    /// It is a reset, which is never answered by one (RFC 9293 section 3.5.2).
    Reset,
}

/// What TCP says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Sequence number of the segment.
    pub sequence: u32,
    /// What it takes of the sequence: bytes of data, and one each for SYN and FIN.
    pub length: u32,
    /// Acknowledgment number, where it is meant.
    pub acknowledgment: Option<u32>,
}

/// A packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
    vlan: u16,
    /// `None` for UDP.
    pub numbers: Option<Numbers>,
    /// Where the IP header begins and the packet ends, in the frame.
    pub l3: usize,
    /// See `l3`.
    pub end: usize,
    /// An ICMP error may be sent about it.
    pub may_be_answered: bool,
}

impl Segment {
    /// The sender's address.
    pub fn source(&self) -> IpAddr {
        self.source.0
    }

    /// The receiver's address.
    pub fn destination(&self) -> IpAddr {
        self.destination.0
    }

    /// The ports of sender and receiver.
    pub fn ports(&self) -> (u16, u16) {
        (self.source.1, self.destination.1)
    }

    /// Whether it is TCP.
    pub fn is_tcp(&self) -> bool {
        self.numbers.is_some()
    }

    /// Its connection.
    pub fn key(&self) -> Key {
        let protocol = if self.is_tcp() { protocol::TCP } else { protocol::UDP };
        Key::new(protocol, self.vlan, self.source, self.destination)
    }
}

/// Whether an end of a connection may have this address.
fn is_end(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_multicast() || address.is_unspecified() || is_broadcast)
}

/// Reads a frame.
///
/// # Errors
/// [`Unreadable`].
pub fn read(frame: &[u8]) -> Result<Segment, Unreadable> {
    let found = dissect(frame).map_err(|_| Unreadable::Malformed)?;
    let network = found.network.ok_or(Unreadable::NotTcp)?;
    if !matches!(network.protocol, protocol::TCP | protocol::UDP) {
        return Err(Unreadable::NotTcp);
    }
    let is_to_one = frame.first().is_some_and(|first| first & 1 == 0);
    let is_from_one = frame.get(6).is_some_and(|first| first & 1 == 0);
    let is_between_ends = is_end(network.source) && is_end(network.destination) && is_to_one && is_from_one;
    let Transport::Ports { source, destination } = network.transport else {
        return Err(Unreadable::Malformed);
    };
    if network.end > frame.len() || !is_between_ends {
        return Err(Unreadable::Malformed);
    }
    let (sender, receiver) = ((network.source, source), (network.destination, destination));
    let vlan = found.vlan() & 0xfff;
    if network.fragment != Fragment::Whole {
        return Err(Unreadable::First(Key::new(network.protocol, vlan, sender, receiver)));
    }
    let mut numbers = None;
    if network.protocol == protocol::TCP {
        let bytes = frame.get(network.l4_offset..network.end).unwrap_or_default();
        let segment = tcp::View::new(bytes).map_err(|_| Unreadable::Malformed)?;
        let flags = segment.flags();
        if flags.has(Flags::RST) {
            return Err(Unreadable::Reset);
        }
        let length = segment.payload().len() as u32
            + u32::from(flags.has(Flags::SYN))
            + u32::from(flags.has(Flags::FIN));
        let acknowledgment = flags.has(Flags::ACK).then(|| segment.acknowledgment());
        numbers = Some(Numbers { sequence: segment.sequence(), length, acknowledgment });
    }
    Ok(Segment {
        source: sender,
        destination: receiver,
        vlan,
        numbers,
        l3: found.l3_offset,
        end: network.end,
        may_be_answered: network.may_be_answered(),
    })
}
