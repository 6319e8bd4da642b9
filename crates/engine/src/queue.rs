//! Packets that wait for an instance: whole batches, so that a batch is handed on by moving one vector.

use nf_abi::MAX_BATCH;
use packet_memory::Packet;
use std::collections::VecDeque;

/// A bounded queue of batches, first in, first out.
#[derive(Debug)]
pub(crate) struct Queue {
    batches: VecDeque<Vec<Packet>>,
    packets: usize,
    longest: usize,
}

impl Queue {
    pub(crate) fn new(longest: usize) -> Queue {
        Queue { batches: VecDeque::new(), packets: 0, longest }
    }

    pub(crate) fn len(&self) -> usize {
        self.packets
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Packets that still fit.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.longest - self.packets
    }

    /// Appends a batch of at most [`MAX_BATCH`] packets, which must fit; an emptied vector comes back.
    #[inline]
    pub(crate) fn push_batch(&mut self, mut batch: Vec<Packet>, spare: &mut Vec<Vec<Packet>>) {
        self.packets += batch.len();
        match self.batches.back_mut() {
            Some(last) if last.len() + batch.len() <= MAX_BATCH => {
                last.append(&mut batch);
                spare.push(batch);
            }
            _ => self.batches.push_back(batch),
        }
    }

    /// Appends one packet, which must fit.
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet, spare: &mut Vec<Vec<Packet>>) {
        self.packets += 1;
        match self.batches.back_mut() {
            Some(last) if last.len() < MAX_BATCH => last.push(packet),
            _ => {
                let mut batch = spare.pop().unwrap_or_else(|| Vec::with_capacity(MAX_BATCH));
                batch.push(packet);
                self.batches.push_back(batch);
            }
        }
    }

    /// Takes the oldest batch.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Vec<Packet>> {
        let batch = self.batches.pop_front()?;
        self.packets -= batch.len();
        Some(batch)
    }
}
