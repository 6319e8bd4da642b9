//! How a packet's beginning changes.

use crate::fields::put;
use crate::udp::datagram;
use crate::{MAX_BYTES, MAX_LAYERS};
use packet::checksum::Sum;

/// Another beginning of a packet: so many bytes go, and these come.
///
/// It is made in place, by a caller that keeps it: it is not copied on the way of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Front {
    pub(crate) removes: u16,
    pub(crate) length: u16,
    pub(crate) bytes: [u8; MAX_BYTES],
    /// Where the IP headers in front of UDP begin whose checksum is wanted, outermost first; 0 for none.
    pub(crate) sums: [u8; MAX_LAYERS],
}

impl Front {
    /// Nothing changes.
    pub const NONE: Front = Front { removes: 0, length: 0, bytes: [0; MAX_BYTES], sums: [0; MAX_LAYERS] };

    /// Bytes of the packet's beginning that go.
    #[inline]
    pub fn removes(&self) -> usize {
        self.removes.into()
    }

    /// Bytes that come in their place.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or(&self.bytes)
    }

    /// Whether checksums of UDP are still to be computed, by [`Front::complete`].
    #[inline]
    pub fn is_incomplete(&self) -> bool {
        self.sums != [0; MAX_LAYERS]
    }

    /// Computes the checksums of UDP, with the sum of what follows these bytes: of the packet behind those
    /// that go.
    #[cold]
    pub fn complete(&mut self, rest: Sum) {
        // What is further inside is summed by what is around it.
        for at in std::mem::take(&mut self.sums).into_iter().rev().filter(|at| *at > 0) {
            let Some((pseudo, range)) = datagram(&self.bytes, at) else { continue };
            let own = self.bytes.get(range.start..self.length.into()).unwrap_or_default();
            let checksum = match pseudo.add_bytes(own).add_u16(rest.folded()).checksum() {
                // Zero says that there is none (RFC 768).
                0 => 0xffff,
                other => other,
            };
            put(&mut self.bytes, range.start + 6, checksum.to_be_bytes());
        }
    }

    /// Has the frame go to this Ethernet address, of the next hop.
    #[inline]
    pub fn set_destination(&mut self, destination: [u8; 6]) {
        if let Some(to) = self.bytes.first_chunk_mut::<6>() {
            *to = destination;
        }
    }
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Front {{ removes: {}, bytes: {:02x?} }}", self.removes, self.bytes())
    }
}
