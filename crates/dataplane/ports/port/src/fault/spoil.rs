//! What is done to a packet's bytes.

use crate::random::below;
use nf_abi::{PacketRecord, offload};
use packet_memory::{Packet, Pool};
use virtio_net::finish_checksum;

/// Bytes of an Ethernet header: no port gives less.
const HEADER: u32 = 14;

/// Cuts a packet to a random length of an Ethernet header at least; false when it is no longer than that.
///
/// What was to be segmented is so no longer, and a checksum whose place is gone is not to be completed.
pub(super) fn cut(pool: &Pool, packet: &mut Packet, place: u32) -> bool {
    let length = packet.length();
    if length <= HEADER {
        return false;
    }
    let left = HEADER + below(place, length - HEADER);
    // Cannot fail: it is shorter than it was.
    let done = pool.set_length(packet, left as usize).is_ok();
    packet.edit(|record| {
        record.offload_flags &= !offload::CHECKSUM_VALID;
        (record.gso_type, record.gso_size) = (offload::GSO_NONE, 0);
        if checksum_place(record) + 2 > u64::from(left) {
            record.offload_flags &= !offload::NEEDS_CHECKSUM;
            (record.csum_start, record.csum_offset) = (0, 0);
        }
    });
    done
}

/// Flips one bit; false when there is none.
///
/// The receiver is to find out by the checksum, so one that is still to be completed is completed before. In
/// a packet that is still to be cut into segments that cannot be done: there the bit is one of the partial
/// checksum, which spoils them all.
pub(super) fn flip(pool: &Pool, packet: &mut Packet, bit: u64) -> bool {
    let record = *packet.record();
    let length = u64::from(packet.length());
    let partial = record.offload_flags & offload::NEEDS_CHECKSUM != 0;
    let field = checksum_place(&record);
    let (start, bytes) = match partial && record.gso_type != offload::GSO_NONE && field + 2 <= length {
        true => (field, 2),
        false => (0, length),
    };
    if bytes == 0 {
        return false;
    }
    if partial && bytes == length {
        finish_checksum(pool, packet);
    }
    packet.edit(|record| record.offload_flags &= !offload::CHECKSUM_VALID);
    let bit = ((u128::from(bit) * u128::from(bytes * 8)) >> 64) as u64;
    let at = (start + bit / 8) as usize;
    let mut byte = [0];
    pool.read(packet, at, &mut byte);
    pool.patch(packet, at, &[byte[0] ^ (1 << (bit % 8))]).is_ok()
}

fn checksum_place(record: &PacketRecord) -> u64 {
    u64::from(record.csum_start) + u64::from(record.csum_offset)
}
