//! Packets that are still to be cut into segments, where what is ahead of them cannot do it: each segment
//! becomes a packet.

use crate::segments::{HEADERS, Layout};
use crate::tunnel::Outer;
use crate::{Cut, VnetHeader};
use nf_abi::offload;
use packet_memory::{Packet, Pool};

/// Whether a packet is still to be cut.
#[inline]
pub fn is_whole(packet: &Packet) -> bool {
    packet.record().gso_type & !offload::GSO_ECN != offload::GSO_NONE
}

/// Bytes of the longest packet, with its headers, that a packet becomes when it is cut: its own where it is
/// not to be, or where its headers do not say how.
pub fn longest_segment(pool: &Pool, packet: &Packet) -> u32 {
    let record = packet.record();
    if !is_whole(packet) {
        return packet.length();
    }
    let (head, length) = pool.head::<HEADERS>(packet);
    let layout = Layout::of(&head[..length], packet.length() as usize, &VnetHeader::of(record));
    layout.map_or(packet.length(), |layout| layout.header_length as u32 + u32::from(record.gso_size))
}

/// What became of a packet that was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Packets that there are more than before.
    pub more: u64,
    /// Segments for which there was no buffer, which are among those.
    pub lost: u64,
}

/// Cuts a packet into segments of at most `room` bytes with their headers, which are appended to `out` in
/// order. They have the packet's metadata and the headers that are kept for it; their checksums are partial.
///
/// # Errors
/// The packet as it was, when it is not to be cut, or cannot be.
///
/// # Panics
/// When the packet is of another pool.
#[cold]
pub fn split(pool: &Pool, packet: Packet, room: usize, out: &mut Vec<Packet>) -> Result<Split, Packet> {
    let bytes = if is_whole(&packet) { pool.to_vec(&packet) } else { Vec::new() };
    let Some(cut) = Cut::new(&bytes, &VnetHeader::of(packet.record()), room) else { return Err(packet) };
    let (mut cut, mut pieces, mut split) = (cut.singly(), 0, Split::default());
    let likeness = pool.likeness(&packet);
    // Its buffer may be the one that is needed.
    pool.free(packet);
    while let Some(piece) = cut.next() {
        pieces += 1;
        let segment = pool.make_like(&likeness, [piece.headers, &bytes[piece.payload.clone()]]);
        match segment {
            Some(mut segment) => {
                segment.edit(|record| piece.vnet.note(record, 0));
                out.push(segment);
            }
            None => split.lost += 1,
        }
    }
    split.more = u64::saturating_sub(pieces, 1);
    Ok(split)
}

/// Puts its segments in the place of each packet that is still to be cut inside of a tunnel, in order: the
/// header in front of a frame cannot say so, and the kernel cuts no such frame. One that cannot be cut stays
/// as it is.
#[inline]
pub fn split_in_tunnels(pool: &Pool, packets: &mut Vec<Packet>) -> Split {
    if packets.iter().any(is_whole) { split_some(pool, packets) } else { Split::default() }
}

#[cold]
fn split_some(pool: &Pool, packets: &mut Vec<Packet>) -> Split {
    let mut all = Split::default();
    for packet in std::mem::take(packets) {
        let (head, length) = pool.head::<HEADERS>(&packet);
        let record = packet.record();
        let checksum =
            (record.offload_flags & offload::NEEDS_CHECKSUM != 0).then_some(record.csum_start.into());
        let in_tunnel = is_whole(&packet)
            && Outer::of(&head[..length], checksum).is_some_and(|(outer, _)| !outer.is_empty());
        let cut = if in_tunnel { split(pool, packet, pool.room() as usize, packets) } else { Err(packet) };
        match cut {
            Ok(split) => (all.more, all.lost) = (all.more + split.more, all.lost + split.lost),
            Err(packet) => packets.push(packet),
        }
    }
    all
}
