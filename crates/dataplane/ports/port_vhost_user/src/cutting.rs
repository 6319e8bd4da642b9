//! A frame that is longer than a buffer, and that the guest left to be cut into segments: it is cut here.
//!
//! 1. Its bytes were copied into memory of the port's own.
//! 2. [`Cutting::go_on`] makes packets of it, as many as may come now; the rest comes with the next ones.
//! 3. The account has the frame as received and each piece but the first as split.

use packet_memory::{Packet, Pool};
use port::PortCounters;
use telemetry::DropReason;
use telemetry::clock::Nanos;
use virtio_net::{Cut, VnetHeader};

/// The frame that is being cut, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Cutting {
    /// Its bytes.
    pub bytes: Vec<u8>,
    cut: Option<Cut>,
    /// Whether the frame itself, as its first piece, is still to come.
    first: bool,
}

impl Cutting {
    /// Whether there is more to come of a frame.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.cut.is_some()
    }

    /// Begins with the frame whose bytes are there; false when it cannot be cut.
    pub fn begin(&mut self, vnet: &VnetHeader, pool: &Pool) -> bool {
        self.cut = Cut::new(&self.bytes, vnet, pool.room() as usize);
        self.first = true;
        self.cut.is_some()
    }

    /// Makes up to `most` packets of the frame; returns how many pieces that was.
    pub fn go_on(
        &mut self,
        pool: &Pool,
        now: Nanos,
        most: usize,
        counters: &mut PortCounters,
        out: &mut Vec<Packet>,
    ) -> usize {
        let Some(cut) = &mut self.cut else { return 0 };
        let mut pieces = 0;
        while pieces < most {
            let Some(piece) = cut.next() else { break };
            pieces += 1;
            if !std::mem::take(&mut self.first) {
                counters.ledger.split += 1;
            }
            let Some(mut packet) = pool.allocate() else {
                counters.ledger.dropped[DropReason::NoBuffer] += 1;
                continue;
            };
            let (headers, payload) = (piece.headers, &self.bytes[piece.payload.clone()]);
            let written = pool.set_length(&mut packet, headers.len() + payload.len()).is_ok()
                && pool.patch(&mut packet, 0, headers).is_ok()
                && pool.patch(&mut packet, headers.len(), payload).is_ok();
            if !written {
                counters.ledger.dropped[DropReason::TooLong] += 1;
                pool.free(packet);
                continue;
            }
            packet.edit(|record| {
                record.timestamp = now.0;
                piece.vnet.note(record, 0);
            });
            out.push(packet);
        }
        if cut.left() == 0 {
            self.cut = None;
        }
        pieces
    }

    /// Gives up what is left of a frame, counted as held.
    pub fn give_up(&mut self, counters: &mut PortCounters) {
        let Some(cut) = self.cut.take() else { return };
        let left = cut.left() as u64;
        counters.ledger.split += left - u64::from(std::mem::take(&mut self.first));
        counters.ledger.dropped[DropReason::HeldAtStop] += left;
    }
}
