//! Whether a packet's checksums are right: a receiver throws away what they do not fit, and so what was
//! changed to be seen on the way alone.

use crate::header::{Address, View};
use nf_sdk::headers::checksum::{self, Sum};
use nf_sdk::{PacketRecord, offload};
use packet::protocol;

/// A checksum that is not computed yet, as the port says that the packet came by.
#[derive(Clone, Copy, Debug)]
pub struct Unfinished {
    /// Where in the frame that begins what it is of.
    start: usize,
    /// Where it stands.
    field: usize,
    /// The packet is still to be cut into segments, too.
    is_whole: bool,
}

/// That of a packet, if there is one.
pub fn unfinished(record: &PacketRecord) -> Option<Unfinished> {
    let is_unfinished = record.offload_flags & offload::NEEDS_CHECKSUM != 0;
    let is_whole = record.gso_type != offload::GSO_NONE;
    let (start, offset) = (usize::from(record.csum_start), usize::from(record.csum_offset));
    is_unfinished.then_some(Unfinished { start, field: start + offset, is_whole })
}

/// Whether the packet's checksums are computed for each of the segments that it is still to be cut into.
pub fn are_of_segments(record: &PacketRecord) -> bool {
    record.gso_type != offload::GSO_NONE && record.offload_flags & offload::NEEDS_CHECKSUM == 0
}

/// Whether the port has verified the outermost transport checksum.
pub fn are_verified(record: &PacketRecord) -> bool {
    record.offload_flags & offload::CHECKSUM_VALID != 0
}

/// Whether the checksums of IPv4, TCP, UDP, ICMP and ICMPv6 are right. What was cut short cannot be computed,
/// and is.
pub fn are_right(view: &View<'_>) -> bool {
    header_is_right(view, false) && transport_is_right(view, |segment| Sum::ZERO.add_bytes(segment))
}

/// The sum of bytes is told by `sum`.
fn transport_is_right(view: &View<'_>, sum: impl Fn(&[u8]) -> Sum) -> bool {
    if view.is_cut || view.is_fragment {
        return true;
    }
    let segment = view.segment;
    match view.protocol {
        protocol::ICMPV4 => !view.source.is_ipv4 || sum(segment).folded() == 0xffff,
        protocol::TCP | protocol::ICMPV6 => sum_is_right(view, view.protocol, segment, sum),
        protocol::UDP => {
            let (Some(&[a, b]), Some(&[c, d])) = (
                segment.get(4..6).and_then(<[u8]>::first_chunk),
                segment.get(6..8).and_then(<[u8]>::first_chunk),
            ) else {
                return false;
            };
            let length = usize::from(u16::from_be_bytes([a, b]));
            // A length of 0 over IPv6 is a jumbogram's (RFC 2675 section 4), and Linux takes it in any
            // packet.
            let datagram =
                if length == 0 && !view.source.is_ipv4 { Some(segment) } else { segment.get(..length) };
            match datagram {
                // None was computed: over IPv6 that is for tunnels alone (RFC 8200 section 8.1, RFC 6936).
                _ if [c, d] == [0, 0] => view.source.is_ipv4,
                Some(datagram) if datagram.len() >= 8 => sum_is_right(view, protocol::UDP, datagram, sum),
                _ => false,
            }
        }
        _ => true,
    }
}

/// Of a packet that is still to be cut, or not.
fn header_is_right(view: &View<'_>, is_whole: bool) -> bool {
    match view.ip_header {
        // On a wire no receiver takes an IPv4 packet whose length is 0.
        [_, _, 0, 0, ..] if !is_whole => false,
        header => header.is_empty() || checksum::verify(header),
    }
}

/// Whether they will be right when the one that is unfinished is computed: that of the packet whose transport
/// header is at `at` in the frame, of another one around it, or of one inside. Until then the sum of the
/// pseudo header stands in its place: a receiver throws a packet away for another one as well.
pub fn will_be_right(view: &View<'_>, at: usize, unfinished: Unfinished) -> bool {
    let Unfinished { start, is_whole, .. } = unfinished;
    let field = match view.protocol {
        protocol::TCP => 16..18,
        protocol::UDP => 6..8,
        _ => 0..0,
    };
    if start < at || view.is_fragment || view.is_cut || start == at && field.is_empty() {
        return are_right(view);
    }
    let is_there = || {
        let sum = pseudo_header(view, view.protocol, view.segment.len()).folded();
        view.segment.get(field) == Some(&sum.to_be_bytes()[..])
    };
    // Of each segment checksums around it are made when it is cut.
    let is_around = || is_whole || transport_is_right(view, |bytes| sum_around(bytes, at, unfinished));
    header_is_right(view, is_whole) && if start > at { is_around() } else { is_there() }
}

/// The sum of bytes that begin at `at` in the frame once the unfinished checksum among them is computed: what
/// it is of comes to the complement of what stands there until then (`Documentation/networking/
/// checksum-offloads.rst` of Linux, local checksum offload).
fn sum_around(bytes: &[u8], at: usize, Unfinished { start, field, .. }: Unfinished) -> Sum {
    let until = bytes.get(field - at..).and_then(<[u8]>::first_chunk).map(|word| u16::from_be_bytes(*word));
    match (bytes.get(..start - at), until) {
        (Some(before), Some(until)) => Sum::ZERO.add_bytes(before).add_u16(!until),
        _ => Sum::ZERO.add_bytes(bytes),
    }
}

/// The sum of the pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1), of words as the view has them.
fn pseudo_header(view: &View<'_>, protocol: u8, length: usize) -> Sum {
    let add = |sum: Sum, Address { words: [a, b, c, d], is_ipv4 }: Address| {
        if is_ipv4 { sum.add_u32(d) } else { sum.add_u32(a).add_u32(b).add_u32(c).add_u32(d) }
    };
    let pseudo = Sum::ZERO.add_u16(u16::from(protocol)).add_u32(length as u32);
    add(add(pseudo, view.source), view.destination)
}

fn sum_is_right(view: &View<'_>, protocol: u8, segment: &[u8], sum: impl Fn(&[u8]) -> Sum) -> bool {
    pseudo_header(view, protocol, segment.len()).add_u16(sum(segment).folded()).folded() == 0xffff
}
