//! From a packet to chains of the guest's.

use crate::features::MRG_RXBUF;
use crate::ring::{BATCH, OutOfStep, Queue};
use packet_memory::{Packet, Pool};
use telemetry::DropReason;
use virtio_net::VnetHeader;

/// Most chains that a packet may lie in.
const CHAINS_MAX: usize = 256;

/// Why a packet was not given to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// It is lost for this reason.
    Lost(DropReason),
    /// See [`OutOfStep`].
    OutOfStep,
}

impl From<OutOfStep> for Unsent {
    fn from(OutOfStep: OutOfStep) -> Unsent {
        Unsent::OutOfStep
    }
}

impl Queue {
    /// Copies a packet into as many of the guest's chains as it needs, behind its header.
    ///
    /// # Errors
    /// [`Unsent`], and the guest sees nothing of the packet.
    #[inline]
    pub(crate) fn give(&mut self, pool: &Pool, packet: &Packet, vnet: VnetHeader) -> Result<(), Unsent> {
        let count = self.find_room(self.header_length.saturating_add(packet.length()))?;
        let header = vnet.with_buffers(count as u16);
        // Most chains are one piece, with the header in front.
        if let Some(chain) = self.chains.get(self.next)
            && let (1, &[piece]) = (count, self.pieces(chain))
            && self.header_length as usize == header.len()
        {
            let part = self.memory.change(piece, &header) as u32;
            let written = part + self.memory.put(piece.behind(part), pool, packet, 0) as u32;
            self.wrote(piece.first(written));
            self.give_back(written);
            return Ok(());
        }
        let mut header = &header[..self.header_length as usize];
        let mut at = 0;
        for _ in 0..count {
            let Some(chain) = self.chains.get(self.next) else { return Err(Unsent::OutOfStep) };
            let mut written = 0;
            for piece in self.pieces(chain) {
                let mut piece = *piece;
                if !header.is_empty() {
                    let part = match (<&[u8; 12]>::try_from(header), piece.length >= 12) {
                        (Ok(whole), true) => self.memory.change(piece, whole),
                        _ => self.memory.write(piece, header),
                    };
                    header = &header[part..];
                    self.wrote(piece.first(part as u32));
                    piece = piece.behind(part as u32);
                    written += part;
                }
                let part = self.memory.put(piece, pool, packet, at);
                self.wrote(piece.first(part as u32));
                at += part;
                written += part;
                if at == packet.length() as usize {
                    break;
                }
            }
            self.give_back(written as u32);
        }
        Ok(())
    }

    /// How many of the next chains have so many bytes.
    #[inline]
    fn find_room(&mut self, needed: u32) -> Result<usize, Unsent> {
        let (mut count, mut room) = (0, 0u32);
        loop {
            let at = self.next + count;
            if at == self.chains.len() && self.fetch(BATCH)? == 0 {
                return Err(Unsent::Lost(DropReason::PortFull));
            }
            let chain = &self.chains[at];
            // An empty buffer has a place, and one behind others too.
            if chain.is_wrong || chain.bytes == 0 {
                return Err(Unsent::OutOfStep);
            }
            count += 1;
            room = room.saturating_add(chain.bytes);
            if room >= needed {
                return Ok(count);
            }
            if self.features & MRG_RXBUF == 0 || count == CHAINS_MAX {
                return Err(Unsent::Lost(DropReason::TooLong));
            }
        }
    }

    #[inline]
    fn wrote(&self, piece: crate::guest_memory::Piece) {
        if let Some(log) = &self.log {
            self.memory.note(piece, log);
        }
    }
}
