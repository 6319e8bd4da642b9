//! ICMP errors: what they say (RFC 792, RFC 1812 section 4.3.2, RFC 4443).

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use packet::checksum::{self, Endpoints};
use packet::{icmpv4, icmpv6, protocol};

/// Where an IP packet begins in the frames made here.
const AT: usize = crate::header::ETHERNET;
/// Longest IPv4 packet that carries an error (RFC 1812 section 4.3.2.3).
const LONGEST_V4: usize = 576;
/// Longest IPv6 packet that carries one (RFC 4443 section 2.4).
const LONGEST_V6: usize = 1280;
/// Hops that an error may take.
const HOPS: u8 = 64;

/// What the sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The time to live or hop limit came to its end.
    HopsExceeded,
    /// There is no route.
    NoRoute,
    /// The route rejects.
    Rejected,
    /// The next hop does not answer.
    NoNeighbour,
    /// The next link takes packets of so many bytes.
    TooBig(u32),
}

impl Fault {
    /// Type, code, and the four bytes after the checksum.
    fn four(self) -> (u8, u8, [u8; 4]) {
        let unreachable = icmpv4::kind::UNREACHABLE;
        match self {
            Fault::HopsExceeded => (icmpv4::kind::TIME_EXCEEDED, 0, [0; 4]),
            Fault::NoRoute => (unreachable, 0, [0; 4]),
            Fault::NoNeighbour => (unreachable, 1, [0; 4]),
            Fault::Rejected => (unreachable, 13, [0; 4]),
            // RFC 1191 section 4: the lower two bytes.
            Fault::TooBig(mtu) => (unreachable, 4, mtu.min(0xffff).to_be_bytes()),
        }
    }

    fn six(self) -> (u8, u8, [u8; 4]) {
        let unreachable = icmpv6::kind::UNREACHABLE;
        match self {
            Fault::HopsExceeded => (icmpv6::kind::TIME_EXCEEDED, 0, [0; 4]),
            Fault::NoRoute => (unreachable, 0, [0; 4]),
            Fault::Rejected => (unreachable, 1, [0; 4]),
            Fault::NoNeighbour => (unreachable, 3, [0; 4]),
            Fault::TooBig(mtu) => (icmpv6::kind::PACKET_TOO_BIG, 0, mtu.to_be_bytes()),
        }
    }
}

/// A frame with an error about `packet`, an IP packet; its Ethernet addresses are to be written. `None` when
/// the two addresses are of different families.
pub fn error(from: IpAddr, to: IpAddr, fault: Fault, packet: &[u8]) -> Option<Vec<u8>> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let (kind, code, rest) = fault.four();
            let quoted = packet.get(..LONGEST_V4 - 28).unwrap_or(packet);
            let mut frame = frame4(from, to, 8 + quoted.len());
            frame.extend([kind, code, 0, 0]);
            frame.extend(rest);
            frame.extend(quoted);
            let sum = checksum::of(frame.get(AT + 20..)?);
            frame.get_mut(AT + 22..AT + 24)?.copy_from_slice(&sum.to_be_bytes());
            Some(frame)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let (kind, code, rest) = fault.six();
            let quoted = packet.get(..LONGEST_V6 - 48).unwrap_or(packet);
            let mut message = vec![kind, code, 0, 0];
            message.extend(rest);
            message.extend(quoted);
            Some(frame6(from, to, HOPS, message))
        }
        _ => None,
    }
}

/// The headers of an IPv4 packet with ICMP.
fn frame4(from: Ipv4Addr, to: Ipv4Addr, payload: usize) -> Vec<u8> {
    let mut frame = vec![0; AT];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    // Precedence 6 (RFC 1812 section 4.3.2.5), not to be fragmented.
    frame.extend([0x45, 0xc0]);
    frame.extend(((20 + payload) as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, HOPS, protocol::ICMPV4, 0, 0]);
    frame.extend(from.octets());
    frame.extend(to.octets());
    let sum = checksum::of(&frame[AT..]);
    frame[AT + 10..AT + 12].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// A frame with an ICMPv6 message, whose checksum is written here.
pub fn frame6(from: Ipv6Addr, to: Ipv6Addr, hops: u8, mut message: Vec<u8>) -> Vec<u8> {
    let sum = Endpoints::V6 { source: from, destination: to }.sum(protocol::ICMPV6, &message).checksum();
    if let Some(place) = message.get_mut(2..4) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
    let mut frame = vec![0; AT];
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    frame.extend([0x60, 0, 0, 0]);
    frame.extend((message.len() as u16).to_be_bytes());
    frame.extend([protocol::ICMPV6, hops]);
    frame.extend(from.octets());
    frame.extend(to.octets());
    frame.extend(message);
    frame
}
