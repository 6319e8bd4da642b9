//! Packets on their way into a snapshot, and out of one.

use nf_abi::{HOP_BUDGET, PacketRecord};
use packet_memory::{Packet, Pool};
use snapshot::{PacketState, SavedPacket};

/// Why a saved packet did not become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// The pool has no free buffer.
    #[error("no free buffer in the pool")]
    NoBuffer,
    /// It does not fit a buffer of the pool.
    #[error("a packet of {found} bytes; buffers of this pool have room for {allowed}")]
    TooLong {
        /// Bytes of the packet.
        found: usize,
        /// Bytes that a buffer has room for.
        allowed: u32,
    },
}

/// A copy of a packet, for a snapshot.
pub fn pack(pool: &Pool, packet: &Packet, state: PacketState) -> SavedPacket {
    SavedPacket::new(state, &packet.shown(), pool.to_vec(packet))
}

/// A packet made of a saved one: its bytes at the same offset in a buffer, where that leaves room for them,
/// and its metadata. Nothing of that is believed more than what a port reads from outside; the caller checks
/// the interface.
///
/// # Errors
/// [`UnpackError`]; no buffer is kept.
pub fn unpack(pool: &Pool, saved: &SavedPacket) -> Result<Packet, UnpackError> {
    let mut packet = pool.allocate().ok_or(UnpackError::NoBuffer)?;
    let (record, found, size) = (saved.record(), saved.bytes().len(), pool.buffer_size());
    // Where the bytes do not fit behind that offset, they may behind the one that fresh packets have.
    let fits = record.offset as usize + found <= size as usize;
    let placed = !fits || packet.set_extent(record.offset, 0, size);
    if !placed || pool.write(&mut packet, saved.bytes()).is_err() {
        pool.free(packet);
        return Err(UnpackError::TooLong { found, allowed: pool.room() });
    }
    packet.edit(|target| *target = PacketRecord { hop_budget: record.hop_budget.min(HOP_BUDGET), ..*record });
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nf_abi::offload;
    use packet_memory::{PageKind, PoolConfig};

    fn pool(buffers: u32) -> Pool {
        let config = PoolConfig { buffers, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
        Pool::new("packed", config).expect("a small pool")
    }

    #[test]
    fn a_packet_comes_back_with_bytes_and_metadata() {
        let (from, to) = (pool(2), pool(2));
        let mut packet = from.allocate().expect("a buffer");
        assert!(packet.set_extent(77, 0, from.buffer_size()));
        from.write(&mut packet, &[1, 2, 3]).expect("it fits");
        packet.edit(|record| {
            (record.mark, record.ingress, record.hop_budget, record.verdict) = (9, 3, 40, 5);
            (record.offload_flags, record.csum_start, record.csum_offset) = (offload::NEEDS_CHECKSUM, 1, 2);
        });
        let saved = pack(&from, &packet, PacketState::Queued);
        let back = unpack(&to, &saved).expect("room");
        assert_eq!(to.to_vec(&back), [1, 2, 3]);
        let expected = PacketRecord { buffer: back.buffer(), verdict: 0, ..packet.shown() };
        assert_eq!(back.shown(), expected);
        assert_eq!(saved.record().reserved2, 0, "the pool's number is this process' alone");
        from.free(packet);
        to.free(back);
    }

    #[test]
    fn what_does_not_fit_takes_no_buffer() {
        let pool = pool(1);
        let size = pool.buffer_size();
        let record = PacketRecord { hop_budget: 255, offset: u32::MAX, ..PacketRecord::default() };
        let long = SavedPacket::new(PacketState::Queued, &record, vec![7; size as usize + 1]);
        let refused = UnpackError::TooLong { found: size as usize + 1, allowed: pool.room() };
        assert_eq!(unpack(&pool, &long).map(drop), Err(refused));
        assert_eq!(pool.available(), 1);
        let far = SavedPacket::new(PacketState::Queued, &record, vec![7; pool.room() as usize]);
        let packet = unpack(&pool, &far).expect("it fits behind the usual offset");
        assert_eq!(packet.record().hop_budget, HOP_BUDGET);
        assert_eq!(unpack(&pool, &far).map(drop), Err(UnpackError::NoBuffer));
        pool.free(packet);
    }
}
