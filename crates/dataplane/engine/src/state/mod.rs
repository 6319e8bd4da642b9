//! What a worker owns, each part with its own state, its invariants and what can be done with that state
//! alone.

pub(crate) mod accounting;
pub(crate) mod backpressure;
pub(crate) mod instances;
pub(crate) mod ports;
pub(crate) mod sparse;
pub(crate) mod timers;

use crate::path::devices::Onward;
use nf_abi::MAX_BATCH;
use packet_memory::Packet;
use virtual_switch::SwitchPort;

/// A batch on its way to an instance that may run at once.
#[derive(Debug)]
pub(crate) struct HandOff {
    pub(crate) to: usize,
    pub(crate) batch: Vec<Packet>,
}

/// So many emptied batches are kept.
const SPARE: usize = 256;

/// Vectors that are used again and again, so that nothing is allocated on the way of a packet.
#[derive(Default)]
pub(crate) struct Batches {
    /// Emptied batches, [`SPARE`] at the most.
    pub(crate) spare: Vec<Vec<Packet>>,
    /// What the instance gets that runs next, if packets were handed to it and nothing waits before them:
    /// they need not be queued. There is none but from one hop to the next.
    pub(crate) in_hand: Option<HandOff>,
    /// Where the packets of the batch go on that passes a switch.
    pub(crate) ways: Vec<Onward>,
    /// Where packets of it belong that are brought together: by what tells the ways apart, then their place.
    pub(crate) order: Vec<(u64, u32)>,
    /// Packets of it, by their position, that a device sees which does not take them.
    pub(crate) seen: Vec<(usize, SwitchPort)>,
    /// Of the outer IPv4 packet that was made last (RFC 6864).
    pub(crate) identification: u16,
    /// How many devices it has passed since it was handed on.
    pub(crate) in_a_row: u8,
    /// An observer is being called that was shown packets at once.
    pub(crate) showing: bool,
}

impl Batches {
    /// An empty batch.
    #[inline]
    pub(crate) fn spare(&mut self) -> Vec<Packet> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(MAX_BATCH))
    }

    /// Takes an emptied batch back.
    #[inline]
    pub(crate) fn recycle(&mut self, batch: Vec<Packet>) {
        debug_assert!(batch.is_empty(), "packets would be lost");
        if self.spare.len() < SPARE {
            self.spare.push(batch);
        }
    }

    /// Takes the packets out of a batch of which something holds, all of it if it holds of all. Each is told
    /// by its position as well.
    pub(crate) fn take_if(
        &mut self,
        batch: &mut Vec<Packet>,
        holds: impl Fn(usize, &Packet) -> bool,
    ) -> Vec<Packet> {
        let mut taken = self.spare();
        if batch.iter().enumerate().all(|(n, packet)| holds(n, packet)) {
            std::mem::swap(batch, &mut taken);
        } else {
            let mut positions = 0..;
            taken.extend(batch.extract_if(.., |packet| positions.next().is_some_and(|n| holds(n, packet))));
        }
        taken
    }
}
