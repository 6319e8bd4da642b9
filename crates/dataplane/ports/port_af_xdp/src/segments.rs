//! Packets that are still to be cut into segments when they go out: AF_XDP carries no such state, so they are
//! cut here.

use crate::link::Link;
use crate::outgoing::HEADER;
use nf_abi::offload;
use packet_memory::{Packet, Pool};
use port::PortCounters;
use telemetry::DropReason;
use virtio_net::{Cut, VnetHeader};

/// Whether a packet is still to be cut.
#[inline]
pub(crate) fn is_whole(packet: &Packet) -> bool {
    packet.record().gso_type & !offload::GSO_ECN != offload::GSO_NONE
}

/// Puts its segments in the place of each packet that is still to be cut, in order. One that cannot be cut
/// stays as it is.
#[cold]
pub(crate) fn cut(link: &Link, pool: &Pool, packets: &mut Vec<Packet>, counters: &mut PortCounters) {
    let room = pool.room().min(link.mtu.saturating_add(HEADER)) as usize;
    for packet in std::mem::take(packets) {
        let bytes = if is_whole(&packet) { pool.to_vec(&packet) } else { Vec::new() };
        let Some(cut) = Cut::new(&bytes, &VnetHeader::of(packet.record()), room) else {
            packets.push(packet);
            continue;
        };
        let (mut cut, mut first) = (cut.singly(), true);
        let (timestamp, flow_hash) = (packet.record().timestamp, packet.record().flow_hash);
        // Its buffer may be the one that is needed.
        pool.free(packet);
        while let Some(piece) = cut.next() {
            counters.ledger.split += u64::from(!std::mem::take(&mut first));
            let written = pool.allocate().and_then(|mut segment| {
                let payload = &bytes[piece.payload.clone()];
                let written = pool.set_length(&mut segment, piece.headers.len() + payload.len()).is_ok()
                    && pool.patch(&mut segment, 0, piece.headers).is_ok()
                    && pool.patch(&mut segment, piece.headers.len(), payload).is_ok();
                if !written {
                    pool.free(segment);
                    return None;
                }
                segment.edit(|record| {
                    (record.timestamp, record.flow_hash) = (timestamp, flow_hash);
                    piece.vnet.note(record, 0);
                });
                Some(segment)
            });
            match written {
                Some(segment) => packets.push(segment),
                None => counters.ledger.dropped[DropReason::NoBuffer] += 1,
            }
        }
    }
}
