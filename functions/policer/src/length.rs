//! What a packet counts for: bytes and packets as they will be on the wire, for one that is yet to be
//! segmented those of its segments.

use nf_sdk::offload::{GSO_ECN, GSO_NONE, GSO_UDP};
use packet::{dissect, protocol};

/// What the bytes of a packet are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// The IP packet alone, not the frame.
    pub ip: bool,
    /// Added for each packet.
    pub overhead: u32,
}

impl Counting {
    /// Bytes and packets of a packet in one piece: `frame` and `network` are its lengths from the Ethernet
    /// and from the network header on.
    #[inline(always)]
    pub fn whole(&self, frame: u32, network: u32) -> (u32, u32) {
        ((if self.ip { network } else { frame }).saturating_add(self.overhead), 1)
    }

    /// Bytes and packets of one that is to be segmented, each segment with headers of its own. `kind` and
    /// `size` are the packet's segmentation type and the payload bytes of a segment (Virtio 1.2 section
    /// 5.1.6.2).
    #[cold]
    #[inline(never)]
    pub fn segmented(&self, packet: &[u8], kind: u8, size: u16) -> (u32, u32) {
        let frame = packet.len() as u32;
        let Some(headers) = headers(packet, kind & !GSO_ECN) else {
            return self.whole(frame, frame.saturating_sub(14));
        };
        let payload = frame.saturating_sub(headers.length);
        let segments = payload.div_ceil(u32::from(size).max(1)).max(1);
        // In one piece it has the headers once, and no fragment header.
        let again =
            u64::from(headers.length - if self.ip { headers.link } else { 0 }) * u64::from(segments - 1);
        let added = if segments > 1 { headers.added + self.overhead } else { self.overhead };
        let whole = frame - if self.ip { headers.link } else { 0 };
        let bytes = u64::from(whole) + again + u64::from(added) * u64::from(segments);
        (u32::try_from(bytes).unwrap_or(u32::MAX), segments)
    }
}

/// What each segment repeats, in bytes.
struct Headers {
    /// Where the network header begins.
    link: u32,
    /// Where the payload begins.
    length: u32,
    /// What is not in the packet yet.
    added: u32,
}

/// `None` when it is no packet that could be segmented.
fn headers(packet: &[u8], kind: u8) -> Option<Headers> {
    if kind == GSO_NONE {
        return None;
    }
    let frame = dissect(packet).ok()?;
    let network = frame.network?;
    let transport = network.l4_offset;
    let (length, added) = match (kind, network.protocol) {
        // Fragments of a datagram: only the first has its header, which is payload as far as they are
        // concerned. In IPv6 each gets a fragment header.
        (GSO_UDP, _) => (transport, if network.source.is_ipv6() { 8 } else { 0 }),
        (_, protocol::TCP) => (transport + usize::from(packet.get(transport + 12)? >> 4).max(5) * 4, 0),
        (_, protocol::UDP) => (transport + 8, 0),
        _ => return None,
    };
    Some(Headers { link: frame.l3_offset as u32, length: length.min(packet.len()) as u32, added })
}
