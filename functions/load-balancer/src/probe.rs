//! Frames that the balancer makes: checks of servers, and resets.

use crate::balancer::{Segment, flag};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::headers::checksum::{self, Endpoints};
use nf_sdk::headers::{icmpv4, icmpv6, ipv4, protocol};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Hops that a packet may take.
const HOPS: u8 = 64;

/// An end: address and port.
pub type End = (IpAddr, u16);

/// An IP packet in a frame whose Ethernet addresses are to be written; `None` when the addresses are of
/// different families. The transport checksum, of which the message has zeros, is written `at` bytes behind
/// its beginning.
pub fn packet(from: IpAddr, to: IpAddr, protocol: u8, message: &[u8], at: usize) -> Option<Vec<u8>> {
    let ends = Endpoints::new(from, to)?;
    let mut message = message.to_vec();
    let sum = match protocol {
        protocol::ICMPV4 => checksum::of(&message),
        protocol::UDP => checksum::udp_wire(ends.sum(protocol, &message).checksum()),
        _ => ends.sum(protocol, &message).checksum(),
    };
    message.get_mut(at..at + 2)?.copy_from_slice(&sum.to_be_bytes());
    let length = u16::try_from(message.len()).ok()?;
    let mut frame = vec![0; ETHERNET];
    match ends {
        Endpoints::V4 { source, destination } => {
            frame[12..].copy_from_slice(&[0x08, 0x00]);
            frame.extend([0x45, 0]);
            frame.extend(length.checked_add(20)?.to_be_bytes());
            // Not to be fragmented.
            frame.extend([0, 0, 0x40, 0, HOPS, protocol, 0, 0]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
            let sum = checksum::of(frame.get(ETHERNET..)?);
            let place = ETHERNET + ipv4::field::CHECKSUM.start;
            frame.get_mut(place..place + 2)?.copy_from_slice(&sum.to_be_bytes());
        }
        Endpoints::V6 { source, destination } => {
            frame[12..].copy_from_slice(&[0x86, 0xdd]);
            frame.extend([0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([protocol, HOPS]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
        }
    }
    frame.extend(message);
    Some(frame)
}

/// A TCP segment without data.
pub fn tcp(from: End, to: End, segment: Segment) -> Option<Vec<u8>> {
    let mut message = vec![];
    message.extend(from.1.to_be_bytes());
    message.extend(to.1.to_be_bytes());
    message.extend(segment.sequence.to_be_bytes());
    message.extend(segment.acknowledgment.to_be_bytes());
    message.extend([0x50, segment.flags, 0x04, 0x00, 0, 0, 0, 0]);
    packet(from.0, to.0, protocol::TCP, &message, 16)
}

/// A UDP datagram.
pub fn udp(from: End, to: End, payload: &[u8]) -> Option<Vec<u8>> {
    let mut message = vec![];
    message.extend(from.1.to_be_bytes());
    message.extend(to.1.to_be_bytes());
    message.extend(u16::try_from(8 + payload.len()).ok()?.to_be_bytes());
    message.extend([0, 0]);
    message.extend(payload);
    packet(from.0, to.0, protocol::UDP, &message, 6)
}

/// An echo request.
pub fn echo(from: IpAddr, to: IpAddr, identifier: u16, sequence: u16) -> Option<Vec<u8>> {
    let (kind, protocol) = match to {
        IpAddr::V4(_) => (icmpv4::kind::ECHO_REQUEST, protocol::ICMPV4),
        IpAddr::V6(_) => (icmpv6::kind::ECHO_REQUEST, protocol::ICMPV6),
    };
    let mut message = vec![kind, 0, 0, 0];
    message.extend(identifier.to_be_bytes());
    message.extend(sequence.to_be_bytes());
    packet(from, to, protocol, &message, 2)
}

/// The reset that answers a segment with `length` bytes of data (RFC 9293 section 3.10.7.1).
pub fn reset(from: End, to: End, segment: Segment, length: u32) -> Option<Vec<u8>> {
    if segment.flags & flag::ACK != 0 {
        let sequence = segment.acknowledgment;
        return tcp(from, to, Segment { flags: flag::RST, sequence, acknowledgment: 0 });
    }
    let controls = segment.flags & (flag::SYN | flag::FIN);
    let acknowledgment = segment.sequence.wrapping_add(length).wrapping_add(controls.count_ones());
    tcp(from, to, Segment { flags: flag::RST | flag::ACK, sequence: 0, acknowledgment })
}
