//! The header that packet sockets and TAP devices put before a frame (Virtio 1.2, section 5.1.6;
//! `linux/virtio_net.h`).

use crate::checksum::settle;
use nf_abi::{PacketRecord, offload};
use packet_memory::{Packet, Pool};

/// Most segments that one packet is cut into: 64 KiB of a maximum segment size of 220, where Linux announces
/// none below 256 (`min_adv_mss`), and more than the 128 that it makes of a datagram.
const MOST_SEGMENTS: usize = 300;

/// Checksum and segmentation state of a frame, as the kernel says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    /// See [`offload::NEEDS_CHECKSUM`] and [`offload::CHECKSUM_VALID`].
    pub flags: u8,
    /// See [`offload::GSO_NONE`] and the others.
    pub gso_type: u8,
    /// Bytes of headers, a hint; 0 lets the kernel find out.
    pub header_length: u16,
    /// Payload bytes per segment.
    pub gso_size: u16,
    /// Where checksumming starts, from the frame's first byte.
    pub csum_start: u16,
    /// Where the checksum is stored, from `csum_start`.
    pub csum_offset: u16,
}

impl VnetHeader {
    /// Bytes of the header in front of a frame: the kernel's default, without `num_buffers`.
    pub const LENGTH: usize = 10;

    /// Reads the header. Packet sockets and TAP devices speak the legacy byte order, the processor's own.
    pub fn from_bytes(bytes: &[u8; Self::LENGTH]) -> VnetHeader {
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        VnetHeader {
            flags: bytes[0],
            gso_type: bytes[1],
            header_length: half(2),
            gso_size: half(4),
            csum_start: half(6),
            csum_offset: half(8),
        }
    }

    /// The header's bytes.
    #[inline]
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        *self.with_buffers(0).first_chunk().unwrap_or(&[0; Self::LENGTH])
    }

    /// The same with the number of buffers that a frame lies in behind it (Virtio 1.2, section 5.1.6). Made
    /// as one number: what is written in pieces and then read as a whole has to reach memory first.
    #[inline]
    pub fn with_buffers(self, count: u16) -> [u8; Self::LENGTH + 2] {
        let [first, second] = [self.flags, self.gso_type].map(u128::from);
        let halves = [self.header_length, self.gso_size, self.csum_start, self.csum_offset];
        let [a, b, c, d] = halves.map(|half| u128::from(half.to_le()));
        let all = first | second << 8 | a << 16 | b << 32 | c << 48 | d << 64 | u128::from(count) << 80;
        *all.to_le_bytes().first_chunk().unwrap_or(&[0; Self::LENGTH + 2])
    }

    /// What the kernel is to be told about a packet. That a checksum was verified is no news to it.
    pub fn of(record: &PacketRecord) -> VnetHeader {
        VnetHeader {
            flags: record.offload_flags & offload::NEEDS_CHECKSUM,
            gso_type: record.gso_type,
            header_length: 0,
            gso_size: if record.gso_type == offload::GSO_NONE { 0 } else { record.gso_size },
            csum_start: record.csum_start,
            csum_offset: record.csum_offset,
        }
    }

    /// As one says it whose word for a checksum is none: a guest, or a process.
    #[inline]
    #[must_use]
    pub fn unverified(self) -> VnetHeader {
        VnetHeader { flags: self.flags & !offload::CHECKSUM_VALID, ..self }
    }

    /// Notes the state of a packet that comes in, as [`VnetHeader::note`]; false, and the packet is to end,
    /// when it cannot be as it says: see [`settle`], or its segments are too many.
    #[inline]
    #[must_use]
    pub fn admit(&self, pool: &Pool, packet: &mut Packet, shift: u16) -> bool {
        packet.edit(|record| self.note(record, shift));
        self.can_be(pool, packet)
    }

    /// Whether a packet whose state was [noted](VnetHeader::note) can be as it says; [`settle`]s it.
    #[inline]
    #[must_use]
    pub fn can_be(&self, pool: &Pool, packet: &mut Packet) -> bool {
        !self.has_too_many_segments(packet.length() as usize) && settle(pool, packet)
    }

    /// Whether a frame of so many bytes would be cut into more segments than one may cost: each is as much
    /// work as a packet, and a sender may say that each has one byte.
    #[inline]
    pub(crate) fn has_too_many_segments(&self, length: usize) -> bool {
        let is_whole = self.gso_type & !offload::GSO_ECN != offload::GSO_NONE;
        is_whole && length > MOST_SEGMENTS * usize::from(self.gso_size)
    }

    /// Notes the state in a packet's record; `shift` bytes were put in front of where checksumming starts.
    #[inline]
    pub fn note(&self, record: &mut PacketRecord, shift: u16) {
        record.offload_flags = self.flags & (offload::NEEDS_CHECKSUM | offload::CHECKSUM_VALID);
        record.gso_type = self.gso_type;
        record.gso_size = if self.gso_type == offload::GSO_NONE { 0 } else { self.gso_size };
        let partial = self.flags & offload::NEEDS_CHECKSUM != 0;
        record.csum_start = if partial { self.csum_start.saturating_add(shift) } else { 0 };
        record.csum_offset = if partial { self.csum_offset } else { 0 };
    }
}
