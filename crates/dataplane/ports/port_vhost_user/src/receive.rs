//! From a chain of the guest's to a packet in the pool.

use crate::guest_memory::Piece;
use crate::ring::{Chain, Queue};
use packet_memory::{Packet, Pool};
use telemetry::DropReason;
use virtio_net::VnetHeader;

/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;
/// No frame is longer, with a tag.
pub(crate) const LONGEST: u32 = (64 << 10) + 64;

/// A header, if it is read and says anything, and what lies behind it.
type Headed<'a> = (Option<[u8; VnetHeader::LENGTH]>, Piece, &'a [Piece]);

/// What became of a chain.
pub(crate) enum Taken {
    /// A packet.
    Packet,
    /// A frame that a buffer has no room for and that is to be cut into segments; its bytes were copied to
    /// where they were asked for.
    Long(VnetHeader),
    /// Nothing; some of it may be in the buffer.
    Lost(DropReason),
}

impl Queue {
    /// Copies the frame of the next chain that was read into an empty buffer of the pool, if there is one.
    /// The chain is then to be given back.
    #[inline]
    pub(crate) fn take(
        &self,
        chain: &Chain,
        pool: &Pool,
        into: Option<&mut Packet>,
        state: bool,
        long: &mut Vec<u8>,
    ) -> Taken {
        let length = chain.bytes.wrapping_sub(self.header_length);
        if chain.is_wrong || chain.bytes < self.header_length + ETHERNET {
            return Taken::Lost(DropReason::Malformed);
        }
        let pieces = self.pieces(chain);
        let Some((header, first, rest)) = self.header(pieces) else {
            return Taken::Lost(DropReason::Malformed);
        };
        let vnet = match header {
            // What a device has verified, a driver says nothing of (Virtio 1.2, section 5.1.6.2.1).
            Some(header) if state => VnetHeader::from_bytes(&header).unverified(),
            _ => VnetHeader::default(),
        };
        if length > pool.room() {
            if vnet.gso_type == nf_abi::offload::GSO_NONE || length > LONGEST {
                return Taken::Lost(DropReason::TooLong);
            }
            self.copy_long(first, rest, length, long);
            return Taken::Long(vnet);
        }
        let Some(packet) = into else { return Taken::Lost(DropReason::NoBuffer) };
        let mut fits = self.memory.append(first, pool, packet);
        for piece in rest {
            fits = fits && self.memory.append(*piece, pool, packet);
        }
        if !fits {
            return Taken::Lost(DropReason::TooLong);
        }
        if vnet != VnetHeader::default() && !vnet.admit(pool, packet, 0) {
            return Taken::Lost(DropReason::Malformed);
        }
        Taken::Packet
    }

    /// The header in front of a frame, if it is read and says anything, and the pieces behind it, of which
    /// the first may be empty.
    #[inline]
    fn header<'a>(&self, pieces: &'a [Piece]) -> Option<Headed<'a>> {
        let (first, rest) = pieces.split_first()?;
        if first.length >= self.header_length {
            // A line that is not needed is not fetched from the other processor.
            let header = if self.has_state { Some(self.memory.read(*first)?) } else { None };
            // Compared as it was read: taken apart, each packet would wait for its own bytes to be written.
            let header = header.filter(|bytes| *bytes != [0; VnetHeader::LENGTH]);
            return Some((header, first.behind(self.header_length), rest));
        }
        self.gather(pieces)
    }

    #[cold]
    fn gather<'a>(&self, pieces: &'a [Piece]) -> Option<Headed<'a>> {
        let (mut header, mut at) = ([0; 12], 0);
        for (n, piece) in pieces.iter().enumerate() {
            let part = piece.first(self.header_length - at);
            self.memory.read_into(part, header.get_mut(at as usize..)?);
            at += part.length;
            if at == self.header_length {
                let (known, _) = header.split_first_chunk()?;
                let known = Some(*known).filter(|known| self.has_state && *known != [0; VnetHeader::LENGTH]);
                return Some((known, piece.behind(part.length), &pieces[n + 1..]));
            }
        }
        None
    }

    #[cold]
    fn copy_long(&self, first: Piece, rest: &[Piece], length: u32, into: &mut Vec<u8>) {
        into.clear();
        into.resize(length as usize, 0);
        let mut at = 0;
        for piece in std::iter::once(&first).chain(rest) {
            at += self.memory.read_into(*piece, &mut into[at..]);
        }
    }
}
