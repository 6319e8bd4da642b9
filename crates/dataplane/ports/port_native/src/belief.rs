//! What is believed of a descriptor that the process sends, of a packet that it had.

use crate::custody::{Described, Lent};
use native_abi::Descriptor;
use nf_abi::PacketRecord;
use packet_memory::{Buffer, Packet, Pool};
use telemetry::clock::Nanos;
use virtio_net::VnetHeader;

/// Bytes of an Ethernet header.
const HEADER: u32 = 14;

/// Makes a packet of what the process had, with what it says of it as far as it may say it, and appends it.
/// One that may not write has its packet back as it was.
///
/// # Errors
/// The buffer, when this makes no packet.
#[inline(always)]
pub fn believe(
    lent: Lent,
    descriptor: &Descriptor,
    pool: &Pool,
    write: bool,
    now: Nanos,
    out: &mut Vec<Packet>,
) -> Result<(), Buffer> {
    let Descriptor { offset, length, mark, .. } = *descriptor;
    let Lent { buffer, packet: had } = lent;
    if length < HEADER || !write && (offset, length) != (had.offset, had.length) {
        return Err(buffer);
    }
    let mut packet = pool.into_packet(buffer, offset, length)?;
    let (timestamp, fresh) = (now.0, PacketRecord::default());
    if !write {
        let Described { offload_flags, gso_type, gso_size, csum_start, csum_offset, .. } = had;
        packet.edit(|record| {
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
        out.push(packet);
        return Ok(());
    }
    let said = VnetHeader {
        flags: descriptor.flags,
        gso_type: descriptor.gso_type,
        header_length: 0,
        gso_size: descriptor.gso_size,
        csum_start: descriptor.csum_start,
        csum_offset: descriptor.csum_offset,
    };
    let said = said.unverified();
    packet.edit(|record| {
        *record = PacketRecord { timestamp, mark, ..fresh };
        said.note(record, 0);
    });
    // From here on where it lies: a packet that is changed and then moved waits for what was just written.
    out.push(packet);
    let can_be = out.last_mut().is_some_and(|packet| said.can_be(pool, packet));
    if can_be { Ok(()) } else { out.pop().map_or(Ok(()), |packet| Err(pool.into_buffer(packet))) }
}
