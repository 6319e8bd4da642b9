//! Walks one block of a TPACKET_V3 ring: `struct tpacket_block_desc` and the `struct tpacket3_hdr`s in it
//! (`linux/if_packet.h`).
//!
//! The kernel wrote the block and does not touch it while we have it. Every offset and length is checked all the
//! same: one comparison each is cheaper than trusting another's arithmetic.

use clock::Nanos;
use virtio_net::VnetHeader;

/// Offsets in the block's descriptor.
mod descriptor {
    pub const COUNT: usize = 12;
    pub const FIRST: usize = 16;
}

/// Offsets in a frame's header, and the header's length with the link-layer address that follows it.
mod header {
    pub const NEXT: usize = 0;
    pub const SECONDS: usize = 4;
    pub const NANOSECONDS: usize = 8;
    pub const CAPTURED: usize = 12;
    pub const LENGTH: usize = 16;
    pub const STATUS: usize = 20;
    pub const MAC: usize = 24;
    pub const VLAN_TCI: usize = 32;
    pub const VLAN_TPID: usize = 36;
    pub const PACKET_TYPE: usize = 48 + 10;
    pub const SIZE: usize = libc::TPACKET3_HDRLEN;
}

/// Where in the block descriptor the ownership word is; used by the ring.
pub(crate) const STATUS_OFFSET: usize = 8;

/// The 802.1Q tag protocol identifier, for kernels that do not say which it was.
const TPID_DEFAULT: u16 = 0x8100;

/// Frames of the block as far as they were walked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    at: usize,
    remaining: u32,
}

/// A VLAN tag that the kernel took off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// Tag protocol identifier.
    pub tpid: u16,
    /// Tag control information.
    pub tci: u16,
}

impl VlanTag {
    /// Bytes of a tag in a frame.
    pub const LENGTH: usize = 4;

    /// The tag as it stands in a frame.
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let ([a, b], [c, d]) = (self.tpid.to_be_bytes(), self.tci.to_be_bytes());
        [a, b, c, d]
    }
}

/// One frame in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What the kernel copied of the frame, from the destination address on.
    pub bytes: &'a [u8],
    /// How long the frame is; more than `bytes` when it did not fit into a block.
    pub length: u32,
    /// Checksum and segmentation state, when the socket carries it.
    pub vnet: Option<VnetHeader>,
    /// The tag that is missing behind the addresses.
    pub vlan: Option<VlanTag>,
    /// When the kernel saw the frame, since the Unix epoch.
    pub timestamp: Nanos,
    /// This host sent the frame by the same interface.
    pub outgoing: bool,
    /// The frame's checksum is not computed yet; without `vnet` nobody knows which.
    pub checksum_missing: bool,
}

/// A block whose headers point out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the frame header at byte {at} of a ring block of {block} bytes points out of it")]
pub struct MalformedBlock {
    /// Where the header is.
    pub at: usize,
    /// Bytes in the block.
    pub block: usize,
}

impl Reader {
    /// Begins at the first frame of `block`.
    pub fn new(block: &[u8]) -> Reader {
        match (word(block, descriptor::FIRST), word(block, descriptor::COUNT)) {
            (Some(first), Some(count)) => Reader { at: first as usize, remaining: count },
            _ => Reader::default(),
        }
    }

    /// Frames not walked yet.
    pub fn remaining(&self) -> u32 {
        self.remaining
    }

    /// Gives the rest of the block up; returns how many frames that are.
    pub(crate) fn abandon(&mut self) -> u32 {
        std::mem::take(&mut self.remaining)
    }

    /// The next frame of the same `block`; `vnet` says whether a virtio-net header stands before each frame.
    /// `None` when all were walked.
    ///
    /// # Errors
    /// [`MalformedBlock`]: nothing further can be found in it.
    #[inline]
    pub fn next<'a>(&mut self, block: &'a [u8], vnet: bool) -> Result<Option<Frame<'a>>, MalformedBlock> {
        if self.remaining == 0 {
            return Ok(None);
        }
        let malformed = MalformedBlock { at: self.at, block: block.len() };
        let (frame, next) = parse(block, self.at, vnet).ok_or(malformed)?;
        self.remaining -= 1;
        if self.remaining > 0 {
            // Frames only ever follow one another, so a walk ends.
            if next < header::SIZE {
                return Err(malformed);
            }
            self.at = self.at.checked_add(next).ok_or(malformed)?;
        }
        Ok(Some(frame))
    }
}

#[inline]
fn parse(block: &[u8], at: usize, vnet: bool) -> Option<(Frame<'_>, usize)> {
    // One slice of the whole header: the compiler then knows that the fields lie in it.
    let head: &[u8; header::SIZE] = block.get(at..)?.first_chunk()?;
    let word =
        |field: usize| u32::from_ne_bytes([head[field], head[field + 1], head[field + 2], head[field + 3]]);
    let half = |field: usize| u16::from_ne_bytes([head[field], head[field + 1]]);

    let data = at.checked_add(usize::from(half(header::MAC)))?;
    let in_front = if vnet { VnetHeader::LENGTH } else { 0 };
    if data < at + header::SIZE + in_front {
        return None;
    }
    let bytes = block.get(data..data.checked_add(word(header::CAPTURED) as usize)?)?;
    let vnet = match vnet {
        true => Some(VnetHeader::from_bytes(block[data - VnetHeader::LENGTH..].first_chunk()?)),
        false => None,
    };
    let status = word(header::STATUS);
    let vlan = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| VlanTag {
        tpid: match status & libc::TP_STATUS_VLAN_TPID_VALID {
            0 => TPID_DEFAULT,
            _ => half(header::VLAN_TPID),
        },
        tci: word(header::VLAN_TCI) as u16,
    });
    let seconds = u64::from(word(header::SECONDS)) * 1_000_000_000;
    let frame = Frame {
        bytes,
        length: word(header::LENGTH),
        vnet,
        vlan,
        timestamp: Nanos(seconds + u64::from(word(header::NANOSECONDS))),
        outgoing: head[header::PACKET_TYPE] == libc::PACKET_OUTGOING,
        checksum_missing: status & libc::TP_STATUS_CSUMNOTREADY != 0,
    };
    Some((frame, word(header::NEXT) as usize))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
