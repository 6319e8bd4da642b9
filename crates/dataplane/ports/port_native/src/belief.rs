//! What is believed of a descriptor that the process sends, of a packet that it had.

use native_abi::Descriptor;
use nf_abi::PacketRecord;
use packet_memory::{Packet, Pool};
use telemetry::clock::Nanos;
use virtio_net::VnetHeader;

/// Bytes of an Ethernet header.
const HEADER: u32 = 14;

/// Takes over what the process says of a packet that it had, as far as it may say it; whether that makes a
/// packet. One that may not write has its packet back as it was.
#[inline]
#[must_use]
pub fn believe(packet: &mut Packet, descriptor: &Descriptor, pool: &Pool, write: bool, now: Nanos) -> bool {
    let Descriptor { offset, length, mark, .. } = *descriptor;
    if length < HEADER {
        return false;
    }
    let (timestamp, fresh) = (now.0, PacketRecord::default());
    if !write {
        let unchanged = offset == packet.offset() && length == packet.length();
        packet.edit(|record| {
            let PacketRecord { offload_flags, gso_type, gso_size, csum_start, csum_offset, .. } = *record;
            *record = PacketRecord {
                timestamp,
                mark,
                offload_flags,
                gso_type,
                gso_size,
                csum_start,
                csum_offset,
                ..fresh
            };
        });
        return unchanged;
    }
    packet.edit(|record| *record = PacketRecord { timestamp, mark, ..fresh });
    if !packet.set_extent(offset, length, pool.buffer_size()) {
        return false;
    }
    let header = VnetHeader {
        flags: descriptor.flags,
        gso_type: descriptor.gso_type,
        header_length: 0,
        gso_size: descriptor.gso_size,
        csum_start: descriptor.csum_start,
        csum_offset: descriptor.csum_offset,
    };
    header.unverified().admit(pool, packet, 0)
}
