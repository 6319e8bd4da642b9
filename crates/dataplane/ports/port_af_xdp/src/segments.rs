//! Packets that are still to be cut into segments when they go out: AF_XDP carries no such state, so they are
//! cut here.

use crate::link::Link;
use crate::outgoing::HEADER;
use packet_memory::{Packet, Pool};
use port::PortCounters;
pub(crate) use virtio_net::is_whole;
use virtio_net::split;

/// Puts its segments in the place of each packet that is still to be cut, in order. One that cannot be cut
/// stays as it is.
#[cold]
pub(crate) fn cut(link: &Link, pool: &Pool, packets: &mut Vec<Packet>, counters: &mut PortCounters) {
    let room = pool.room().min(link.mtu.saturating_add(HEADER)) as usize;
    for packet in std::mem::take(packets) {
        match split(pool, packet, room, packets) {
            Ok(split) => counters.note_split(split),
            Err(packet) => packets.push(packet),
        }
    }
}
