//! Completes a partial checksum, for ports that cannot ask their outside to.

use crate::segments::{HEADERS, is_beyond, is_of_transport};
use crate::split::is_whole;
use nf_abi::offload::NEEDS_CHECKSUM;
use packet_memory::{Packet, Pool};

/// Sums 16-bit words as in RFC 1071; `bytes` begins at an even place of the whole.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |&odd| u64::from(odd) << 8);
    words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>() + last
}

/// A sum in 16 bits.
pub(crate) fn folded(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// Completes the checksum that a packet's sender left to be completed, if it did. One whose fields name no
/// place in the packet is left as it is, and fails at its receiver as it would have done anyway.
#[inline]
pub fn finish_checksum(pool: &Pool, packet: &mut Packet) {
    if packet.record().offload_flags & NEEDS_CHECKSUM != 0 && complete_checksum(pool, packet) {
        packet.edit(|record| record.offload_flags &= !NEEDS_CHECKSUM);
    }
}

/// Sees to it that what is still to be written into a packet is the checksum of a transport header. Whatever
/// looks at a packet looks at its headers and its data, and a sender may name any two bytes of these for the
/// checksum: they are written here, before anything has looked at them. False: they are outside of the
/// packet, or it is to be cut first, and has to end. A packet in a tunnel of an unknown kind may be cut.
#[inline]
#[must_use]
pub fn settle(pool: &Pool, packet: &mut Packet) -> bool {
    packet.record().offload_flags & NEEDS_CHECKSUM == 0 || settle_partial(pool, packet)
}

fn settle_partial(pool: &Pool, packet: &mut Packet) -> bool {
    let (start, offset) = (usize::from(packet.record().csum_start), usize::from(packet.record().csum_offset));
    let (head, length) = pool.head::<HEADERS>(packet);
    let head = &head[..length];
    if is_of_transport(head, start, offset) {
        return start + offset + 2 <= packet.length() as usize;
    }
    if is_whole(packet) {
        return is_beyond(head, start);
    }
    finish_checksum(pool, packet);
    packet.record().offload_flags & NEEDS_CHECKSUM == 0
}

/// Computes the checksum over everything from `csum_start` on, pseudo-header's share in the field already,
/// and stores it. False when the fields name no place in the packet.
pub fn complete_checksum(pool: &Pool, packet: &mut Packet) -> bool {
    let (start, offset) = (usize::from(packet.record().csum_start), usize::from(packet.record().csum_offset));
    if start + offset + 2 > packet.length() as usize {
        return false;
    }
    let mut chunk = [0; 2048];
    let (mut total, mut at) = (0u64, start);
    loop {
        let count = pool.read(packet, at, &mut chunk);
        if count == 0 {
            break;
        }
        total += sum(&chunk[..count]);
        at += count;
    }
    // A computed zero is sent as all ones: zero means "no checksum" in UDP (RFC 768) and the same in one's
    // complement.
    let checksum = match !folded(total) {
        0 => 0xffff,
        other => other,
    };
    pool.patch(packet, start + offset, &checksum.to_be_bytes()).is_ok()
}
