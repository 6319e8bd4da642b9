//! How a packet's beginning changes.

use crate::MAX_BYTES;

/// Another beginning of a packet: so many bytes go, and these come.
///
/// It is made in place, by a caller that keeps it: it is not copied on the way of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Front {
    pub(crate) removes: u16,
    pub(crate) length: u16,
    pub(crate) bytes: [u8; MAX_BYTES],
}

impl Front {
    /// Nothing changes.
    pub const NONE: Front = Front { removes: 0, length: 0, bytes: [0; MAX_BYTES] };

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
