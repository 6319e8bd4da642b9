//! Reads one slot of a TPACKET_V2 receive ring: `struct tpacket2_hdr`, the link-layer address behind it, and
//! the frame (`linux/if_packet.h`).
//!
//! The kernel wrote the slot and does not touch it while we have it. Every offset and length is checked all
//! the same: one comparison each is cheaper than trusting another's arithmetic.

use telemetry::clock::Nanos;
use virtio_net::VnetHeader;

/// Offsets in a slot, and the length of the header with the link-layer address that follows it.
mod header {
    pub const STATUS: usize = 0;
    pub const LENGTH: usize = 4;
    pub const CAPTURED: usize = 8;
    pub const MAC: usize = 12;
    pub const SECONDS: usize = 16;
    pub const NANOSECONDS: usize = 20;
    pub const VLAN_TCI: usize = 24;
    pub const VLAN_TPID: usize = 26;
    pub const PACKET_TYPE: usize = 32 + 10;
    pub const SIZE: usize = libc::TPACKET2_HDRLEN;
}

/// The 802.1Q tag protocol identifier, for kernels that do not say which it was.
const TPID_DEFAULT: u16 = 0x8100;

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

/// The frame in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What the kernel copied of the frame, from the destination address on.
    pub bytes: &'a [u8],
    /// How long the frame is; more than `bytes` when it did not fit into the slot.
    pub length: u32,
    /// The whole frame waits in the socket's queue.
    pub queued: bool,
    /// Checksum and segmentation state, when the socket carries it.
    pub vnet: Option<VnetHeader>,
    /// The tag that is missing behind the addresses.
    pub vlan: Option<VlanTag>,
    /// When the kernel saw the frame, since the Unix epoch.
    pub timestamp: Nanos,
    /// This host sent the frame by the same interface.
    pub outgoing: bool,
    /// The frame's checksum is not computed yet; without `vnet` it is not known which checksum.
    pub checksum_missing: bool,
}

/// A slot whose header points out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header of a ring slot of {slot} bytes points out of it")]
pub struct MalformedSlot {
    /// Bytes in the slot.
    pub slot: usize,
}

/// Reads the frame in `slot`; `vnet` says whether a virtio-net header stands in front of it.
///
/// # Errors
/// [`MalformedSlot`].
#[inline]
pub fn parse(slot: &[u8], vnet: bool) -> Result<Frame<'_>, MalformedSlot> {
    frame(slot, vnet).ok_or(MalformedSlot { slot: slot.len() })
}

#[inline]
fn frame(slot: &[u8], vnet: bool) -> Option<Frame<'_>> {
    // One slice of the whole header: the compiler then knows that the fields lie in it.
    let head: &[u8; header::SIZE] = slot.first_chunk()?;
    let word =
        |field: usize| u32::from_ne_bytes([head[field], head[field + 1], head[field + 2], head[field + 3]]);
    let half = |field: usize| u16::from_ne_bytes([head[field], head[field + 1]]);

    let data = usize::from(half(header::MAC));
    let in_front = if vnet { VnetHeader::LENGTH } else { 0 };
    if data < header::SIZE + in_front {
        return None;
    }
    let bytes = slot.get(data..data.checked_add(word(header::CAPTURED) as usize)?)?;
    let vnet = match vnet {
        true => Some(VnetHeader::from_bytes(slot[data - VnetHeader::LENGTH..].first_chunk()?)),
        false => None,
    };
    let status = word(header::STATUS);
    let vlan = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| VlanTag {
        tpid: match status & libc::TP_STATUS_VLAN_TPID_VALID {
            0 => TPID_DEFAULT,
            _ => half(header::VLAN_TPID),
        },
        tci: half(header::VLAN_TCI),
    });
    let seconds = u64::from(word(header::SECONDS)) * 1_000_000_000;
    Some(Frame {
        bytes,
        length: word(header::LENGTH),
        queued: status & libc::TP_STATUS_COPY != 0,
        vnet,
        vlan,
        timestamp: Nanos(seconds + u64::from(word(header::NANOSECONDS))),
        outgoing: head[header::PACKET_TYPE] == libc::PACKET_OUTGOING,
        checksum_missing: status & libc::TP_STATUS_CSUMNOTREADY != 0,
    })
}
