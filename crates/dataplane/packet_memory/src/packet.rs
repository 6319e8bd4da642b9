//! A packet's descriptor: the owner of this value owns the buffer.

use nf_abi::PacketRecord;

/// The bit of `reserved2` that says that headers of the packet are kept ([`crate::Pool::kept`]).
const KEPT: u16 = 0x8000;

/// A packet: its metadata and the right to its buffer.
///
/// Not `Clone`: a buffer has one owner. Dropping a packet without [`crate::Pool::free`] loses the buffer,
/// which the account of packets shows as an imbalance.
#[must_use = "a packet that is dropped on the floor is a lost buffer"]
#[derive(Debug)]
#[repr(transparent)]
pub struct Packet(PacketRecord);

impl Packet {
    /// Only a pool makes packets.
    pub(crate) fn new(pool: u16, buffer: u32, headroom: u32) -> Packet {
        Packet(PacketRecord { buffer, offset: headroom, reserved2: pool, ..PacketRecord::default() })
    }

    /// The record as the host has it: `reserved2`, which is zero for guests, is the pool's number, and
    /// whether headers of the packet are kept.
    #[inline]
    pub fn record(&self) -> &PacketRecord {
        &self.0
    }

    /// The record as a guest is shown it, and as it is saved.
    #[inline]
    pub fn shown(&self) -> PacketRecord {
        PacketRecord { reserved2: 0, ..self.0 }
    }

    /// Metadata that the host may set freely. Pool, buffer, offset and length are restored to what they were:
    /// the last two have [`Packet::set_extent`].
    #[inline]
    pub fn edit(&mut self, change: impl FnOnce(&mut PacketRecord)) {
        let PacketRecord { buffer, offset, length, reserved2, .. } = self.0;
        change(&mut self.0);
        self.0 = PacketRecord { buffer, offset, length, reserved2, ..self.0 };
    }

    /// The number of the pool that it is of.
    #[inline]
    pub(crate) fn pool(&self) -> u16 {
        self.0.reserved2 & !KEPT
    }

    /// Whether headers that were taken off it are kept.
    #[inline]
    pub(crate) fn has_kept(&self) -> bool {
        self.0.reserved2 & KEPT != 0
    }

    #[inline]
    pub(crate) fn set_kept(&mut self, kept: bool) {
        self.0.reserved2 = self.pool() | if kept { KEPT } else { 0 };
    }

    /// Length in bytes.
    #[inline]
    pub fn length(&self) -> u32 {
        self.0.length
    }

    /// The packet's first byte, from the buffer's first byte.
    #[inline]
    pub fn offset(&self) -> u32 {
        self.0.offset
    }

    /// Guest address of the buffer.
    #[inline]
    pub fn buffer(&self) -> u32 {
        self.0.buffer
    }

    /// Takes over offset and length that a guest or a peer named; false, and nothing is changed, when they
    /// reach out of the buffer. Where checksumming starts is counted from the packet's first byte, so it
    /// moves along; a first byte behind the start of a checksum that is still to be completed is refused.
    #[inline]
    #[must_use]
    pub fn set_extent(&mut self, offset: u32, length: u32, buffer_size: u32) -> bool {
        if u64::from(offset) + u64::from(length) > u64::from(buffer_size) {
            return false;
        }
        if self.0.offload_flags & nf_abi::offload::NEEDS_CHECKSUM != 0 {
            let start = i64::from(self.0.csum_start) + i64::from(self.0.offset) - i64::from(offset);
            match u16::try_from(start) {
                Ok(start) => self.0.csum_start = start,
                Err(_) => return false,
            }
        }
        (self.0.offset, self.0.length) = (offset, length);
        true
    }

    /// The same of what a function names: what a port has verified is not of a packet that begins elsewhere.
    #[inline]
    #[must_use]
    pub fn move_extent(&mut self, offset: u32, length: u32, buffer_size: u32) -> bool {
        let (begin, moved) = (self.0.offset, self.set_extent(offset, length, buffer_size));
        if self.0.offset != begin {
            self.0.offload_flags &= !nf_abi::offload::CHECKSUM_VALID;
        }
        moved
    }

    /// Clears what must not cross to another tenant: what functions say, and what a port has verified, which
    /// a function may have changed since.
    pub fn clear_marks(&mut self) {
        self.0.offload_flags &= !nf_abi::offload::CHECKSUM_VALID;
        self.0.mark = 0;
        self.0.service_id = 0;
        self.0.flow_class = 0;
        self.0.verdict = 0;
    }
}
