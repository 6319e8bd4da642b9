//! A packet's descriptor: who owns this value owns the buffer.

use nf_abi::PacketRecord;

/// A packet: its metadata and the right to its buffer.
///
/// Not `Clone`: a buffer has one owner. Dropping a packet without [`crate::Pool::free`] loses the buffer, which
/// the account of packets shows as an imbalance.
#[must_use = "a packet that is dropped on the floor is a lost buffer"]
#[derive(Debug)]
#[repr(transparent)]
pub struct Packet(PacketRecord);

impl Packet {
    /// Only a pool makes packets.
    pub(crate) fn new(buffer: u32, headroom: u32) -> Packet {
        Packet(PacketRecord { buffer, offset: headroom, ..PacketRecord::default() })
    }

    /// The record as a guest is shown it.
    #[inline]
    pub fn record(&self) -> &PacketRecord {
        &self.0
    }

    /// Metadata that the host may set freely. Buffer, offset and length are restored to what they were: they have
    /// [`Packet::set_extent`].
    #[inline]
    pub fn edit(&mut self, change: impl FnOnce(&mut PacketRecord)) {
        let (buffer, offset, length) = (self.0.buffer, self.0.offset, self.0.length);
        change(&mut self.0);
        (self.0.buffer, self.0.offset, self.0.length) = (buffer, offset, length);
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

    /// Takes over offset and length that a guest or a peer named; false, and nothing is changed, when they reach out
    /// of the buffer.
    #[inline]
    #[must_use]
    pub fn set_extent(&mut self, offset: u32, length: u32, buffer_size: u32) -> bool {
        let fits = u64::from(offset) + u64::from(length) <= u64::from(buffer_size);
        if fits {
            (self.0.offset, self.0.length) = (offset, length);
        }
        fits
    }

    /// Clears what must not cross to another tenant.
    pub fn clear_marks(&mut self) {
        self.0.mark = 0;
        self.0.service_id = 0;
        self.0.flow_class = 0;
        self.0.verdict = 0;
    }
}
