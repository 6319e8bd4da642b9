//! Resets that either end of a connection accepts, and the ICMP error that a sender of UDP gets.
//!
//! A receiver takes a reset whose sequence number is exactly the next that it waits for (RFC 9293 section
//! 3.10.7.4, RFC 5961 section 3.2), and before its SYN was answered one whose acknowledgment is that of the
//! SYN (RFC 9293 section 3.10.7.3).
//!
//! | to | sequence number | acknowledgment |
//! |---|---|---|
//! | the packet's receiver | the packet's own, and the one behind it: whether the packet itself comes to the receiver, and before or after the reset, is not known | the packet's own |
//! | the packet's sender | what the packet acknowledges; without that, as of a first SYN, 0 | the one behind the packet |
//!
//! Frames have the packet's Ethernet header with its tags, to the sender with the addresses exchanged.

use crate::segment::{Numbers, Segment};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use packet::checksum::{self, Endpoints};
use packet::tcp::{self, Flags};
use packet::{icmpv4, icmpv6, ipv4, ipv6, protocol};

/// Hops that a packet of the function's own may take.
const HOPS: u8 = 64;
/// Longest IPv4 packet that carries an error (RFC 1812 section 4.3.2.3), and longest IPv6 packet (RFC 4443
/// section 2.4(c)).
const LONGEST: [usize; 2] = [576, 1280];
/// Network control (RFC 1812 section 4.3.2.5).
const PRECEDENCE: u8 = 0xc0;

/// Resets for the packet's receiver, as from its sender.
pub fn to_receiver(segment: &Segment, packet: &[u8]) -> Vec<Vec<u8>> {
    let Some(Numbers { sequence, length, acknowledgment }) = segment.numbers else { return Vec::new() };
    let ends = (segment.source(), segment.destination());
    let ports = segment.ports();
    let mut numbers = vec![sequence];
    if length > 0 {
        numbers.push(sequence.wrapping_add(length));
    }
    let reset = |sequence| reset(packet, segment, false, ends, ports, sequence, acknowledgment);
    numbers.into_iter().filter_map(reset).collect()
}

/// A reset for the packet's sender, as from its receiver.
pub fn to_sender(segment: &Segment, packet: &[u8]) -> Option<Vec<u8>> {
    let Numbers { sequence, length, acknowledgment } = segment.numbers?;
    let ends = (segment.destination(), segment.source());
    let (from, to) = segment.ports();
    let behind = Some(sequence.wrapping_add(length));
    reset(packet, segment, true, ends, (to, from), acknowledgment.unwrap_or(0), behind)
}

fn reset(
    packet: &[u8],
    segment: &Segment,
    is_back: bool,
    (source, destination): (IpAddr, IpAddr),
    (source_port, destination_port): (u16, u16),
    sequence: u32,
    acknowledgment: Option<u32>,
) -> Option<Vec<u8>> {
    let flags = if acknowledgment.is_some() { Flags::RST.with(Flags::ACK) } else { Flags::RST };
    let header = tcp::Repr {
        source_port,
        destination_port,
        sequence,
        acknowledgment: acknowledgment.unwrap_or(0),
        flags,
        window: 0,
        urgent: 0,
        options: &[],
    };
    let mut body = vec![0; header.header_length()];
    header.emit(&mut body, &Endpoints::new(source, destination)?).ok()?;
    frame(packet.get(..segment.l3)?, is_back, source, destination, protocol::TCP, 0, &body)
}

/// "Port unreachable" (RFC 792, RFC 4443 section 3.1) for the sender of UDP; `None` where no error may be
/// sent about it.
pub fn unreachable(segment: &Segment, packet: &[u8]) -> Option<Vec<u8>> {
    if segment.is_tcp() || !segment.may_be_answered {
        return None;
    }
    let (source, destination) = (segment.destination(), segment.source());
    let whole = packet.get(segment.l3..segment.end)?;
    let [longest_v4, longest_v6] = LONGEST;
    let (kind, code, headers, longest) = match destination {
        IpAddr::V4(_) => (icmpv4::kind::UNREACHABLE, 3, ipv4::HEADER_LENGTH + 8, longest_v4),
        IpAddr::V6(_) => (icmpv6::kind::UNREACHABLE, 4, ipv6::HEADER_LENGTH + 8, longest_v6),
    };
    let mut body = vec![kind, code, 0, 0, 0, 0, 0, 0];
    body.extend(whole.get(..longest - headers).unwrap_or(whole));
    let (protocol, sum) = match destination {
        IpAddr::V4(_) => (protocol::ICMPV4, checksum::of(&body)),
        IpAddr::V6(_) => {
            let ends = Endpoints::new(source, destination)?;
            (protocol::ICMPV6, ends.sum(protocol::ICMPV6, &body).checksum())
        }
    };
    body.get_mut(2..4)?.copy_from_slice(&sum.to_be_bytes());
    frame(packet.get(..segment.l3)?, true, source, destination, protocol, PRECEDENCE, &body)
}

/// A frame with this Ethernet header, its addresses exchanged if it goes back.
fn frame(
    link: &[u8],
    is_back: bool,
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    traffic_class: u8,
    body: &[u8],
) -> Option<Vec<u8>> {
    let mut frame = link.to_vec();
    if is_back {
        let (to, rest) = frame.split_at_mut_checked(6)?;
        to.swap_with_slice(rest.get_mut(..6)?);
    }
    let at = frame.len();
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = ipv4::Repr {
                traffic_class,
                identification: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: HOPS,
                protocol,
                source,
                destination,
                options: &[],
                payload_length: body.len(),
            };
            frame.resize(at + header.header_length(), 0);
            header.emit(frame.get_mut(at..)?).ok()?;
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = ipv6::Repr {
                traffic_class,
                flow_label: 0,
                payload_length: u16::try_from(body.len()).ok()?,
                next_header: protocol,
                hop_limit: HOPS,
                source,
                destination,
            };
            frame.resize(at + header.header_length(), 0);
            header.emit(frame.get_mut(at..)?).ok()?;
        }
        _ => return None,
    }
    frame.extend(body);
    Some(frame)
}
