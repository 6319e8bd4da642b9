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

    /// All packets, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.batches.iter().flatten()
    }

    /// More than half of it is used.
    #[inline]
    pub(crate) fn is_congested(&self) -> bool {
        self.packets * 2 > self.longest
    }

    /// Packets that still fit.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.longest.saturating_sub(self.packets)
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

    /// Puts a batch in front of all others.
    pub(crate) fn push_front(&mut self, batch: Vec<Packet>) {
        self.packets += batch.len();
        self.batches.push_front(batch);
    }

    /// Takes the oldest batch, or so many packets of it.
    #[inline]
    pub(crate) fn pop(&mut self, most: usize, spare: &mut Vec<Vec<Packet>>) -> Option<Vec<Packet>> {
        let first = self.batches.front_mut()?;
        if first.len() > most {
            let mut part = spare.pop().unwrap_or_else(|| Vec::with_capacity(MAX_BATCH));
            part.extend(first.drain(..most));
            self.packets -= most;
            return Some(part);
        }
        self.packets -= first.len();
        self.batches.pop_front()
    }

    /// Takes everything.
    pub(crate) fn drain(&mut self, out: &mut Vec<Packet>) {
        self.packets = 0;
        out.extend(self.batches.drain(..).flatten());
    }
}
