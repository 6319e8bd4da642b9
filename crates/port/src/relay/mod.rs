//! A wire from one worker to another: a rootless device, that is, a queue with a port at either end.
//!
//! 1. [`one_way`] makes both ends. Each belongs to one worker, and all of its packets to one pool.
//! 2. `transmit` puts a batch as a whole into the ring to the other end and wakes the other worker if it sleeps. A batch that
//!    finds no room is dropped as `queue-full`; [`Port::room`] says how much there is.
//! 3. `receive` takes the oldest batch out, as it was put in: nothing is classified or counted again. One that is longer than
//!    what is asked for comes in parts.
//! 4. A sender that finds no room and has nothing else to do asks to be woken ([`Port::want_room`]) when half of the ring
//!    is free again.
//! 5. [`RelayPort::drain`] empties the ring into the hands of whoever takes the wire away.
//!
//! What a batch costs is one pointer in a ring, not its packets; the packets' records follow it from one core's cache to
//! the other's.
//!
//! Limits: one direction, so that two make a wire; 1,024 packets, as in the rings of VALE (HyperNF, section 4). Packets in the ring are counted
//! by the end that will receive them.

#[cfg(test)]
mod tests;

use crate::{Bell, Port, PortCounters, Wake};
use clock::Nanos;
use packet_memory::{Packet, Pool};
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use telemetry::DropReason;

/// Most packets on their way in one direction.
pub const RELAY_PACKETS: usize = 1024;

/// One direction, from its sender's side.
struct Sending {
    ring: Producer<Vec<Packet>>,
    /// Emptied vectors that come back.
    spare: Consumer<Vec<Packet>>,
    waiting: Arc<AtomicUsize>,
    bell: Arc<Bell>,
    wants_room: Arc<AtomicBool>,
}

/// One direction, from its receiver's side.
struct Receiving {
    ring: Consumer<Vec<Packet>>,
    /// What is left of a batch that was longer than what was asked for.
    rest: VecDeque<Packet>,
    spare: Producer<Vec<Packet>>,
    waiting: Arc<AtomicUsize>,
    /// The sender's.
    bell: Arc<Bell>,
    wants_room: Arc<AtomicBool>,
}

/// One end. See the module's documentation.
pub struct RelayPort {
    end: End,
    counters: PortCounters,
}

enum End {
    Sending(Sending),
    Receiving(Receiving),
}

/// Both ends of a wire from the worker that hears the first bell to the one that hears the second: first the sending end,
/// then the receiving one.
pub fn one_way(from: Arc<Bell>, to: Arc<Bell>) -> (RelayPort, RelayPort) {
    // Batches may be of one packet each.
    let (ring, other) = RingBuffer::new(RELAY_PACKETS);
    let (back, spare) = RingBuffer::new(RELAY_PACKETS);
    let waiting = Arc::new(AtomicUsize::new(0));
    let wants_room = Arc::new(AtomicBool::new(false));
    let sending = Sending { ring, spare, waiting: waiting.clone(), bell: to, wants_room: wants_room.clone() };
    let receiving =
        Receiving { ring: other, rest: VecDeque::new(), spare: back, waiting, bell: from, wants_room };
    let port = |end| RelayPort { end, counters: PortCounters::default() };
    (port(End::Sending(sending)), port(End::Receiving(receiving)))
}

impl Receiving {
    /// Takes out what there is room for of a batch that came in parts.
    #[cold]
    fn take_rest(&mut self, budget: usize, out: &mut Vec<Packet>) {
        let count = budget.saturating_sub(out.len()).min(self.rest.len());
        out.extend(self.rest.drain(..count));
        self.waiting.fetch_sub(count, SeqCst);
        self.tell_of_room();
    }

    /// Wakes a sender that waits for room, when there is enough of it to be worth waking for.
    #[inline]
    fn tell_of_room(&self) {
        if self.wants_room.load(SeqCst)
            && self.waiting.load(Relaxed) <= RELAY_PACKETS / 2
            && self.wants_room.swap(false, SeqCst)
        {
            self.bell.ring_if_asleep();
        }
    }
}

impl RelayPort {
    /// Takes out what is on its way to this end.
    pub fn drain(&mut self, out: &mut Vec<Packet>) {
        let End::Receiving(receiving) = &mut self.end else { return };
        receiving.waiting.fetch_sub(receiving.rest.len(), SeqCst);
        out.extend(receiving.rest.drain(..));
        while let Ok(mut batch) = receiving.ring.pop() {
            receiving.waiting.fetch_sub(batch.len(), SeqCst);
            out.append(&mut batch);
        }
        receiving.tell_of_room();
    }
}

impl Port for RelayPort {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let End::Receiving(receiving) = &mut self.end else { return };
        if !receiving.rest.is_empty() {
            return receiving.take_rest(budget, out);
        }
        while let Ok(next) = receiving.ring.peek() {
            let fits = out.len() + next.len() <= budget;
            if !fits && (next.len() <= budget || budget == 0) {
                return;
            }
            let Ok(mut batch) = receiving.ring.pop() else { return };
            if !fits {
                receiving.rest.extend(batch.drain(..));
                return receiving.take_rest(budget, out);
            }
            receiving.waiting.fetch_sub(batch.len(), SeqCst);
            if out.is_empty() {
                std::mem::swap(out, &mut batch);
            } else {
                out.append(&mut batch);
            }
            // A vector that finds no room is freed.
            let _ = receiving.spare.push(batch);
            receiving.tell_of_room();
        }
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        if packets.is_empty() {
            return;
        }
        let count = packets.len();
        let End::Sending(sending) = &mut self.end else {
            self.counters.ledger.dropped[DropReason::NoRoute] += count as u64;
            return pool.free_batch(packets.drain(..));
        };
        if sending.waiting.load(Relaxed) + count > RELAY_PACKETS {
            self.counters.ledger.dropped[DropReason::QueueFull] += count as u64;
            pool.free_batch(packets.drain(..));
            return;
        }
        let empty = sending.spare.pop().unwrap_or_else(|_| Vec::with_capacity(nf_abi::MAX_BATCH));
        let batch = std::mem::replace(packets, empty);
        sending.waiting.fetch_add(count, Relaxed);
        if let Err(rtrb::PushError::Full(mut batch)) = sending.ring.push(batch) {
            // As many batches as packets at most: there is a place for each.
            sending.waiting.fetch_sub(count, Relaxed);
            self.counters.ledger.dropped[DropReason::QueueFull] += count as u64;
            pool.free_batch(batch.drain(..));
            return;
        }
        sending.bell.ring_if_asleep();
    }

    fn room(&self) -> usize {
        match &self.end {
            End::Sending(sending) => RELAY_PACKETS.saturating_sub(sending.waiting.load(SeqCst)),
            End::Receiving(_) => 0,
        }
    }

    fn relay(&mut self) -> Option<&mut RelayPort> {
        Some(self)
    }

    fn want_room(&self) {
        if let End::Sending(sending) = &self.end {
            sending.wants_room.store(true, SeqCst);
        }
    }

    fn wake(&self) -> Wake<'_> {
        match &self.end {
            End::Receiving(receiving) if !receiving.ring.is_empty() || !receiving.rest.is_empty() => {
                Wake::NOW
            }
            _ => Wake::default(),
        }
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn patience(&self) -> usize {
        usize::MAX
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn in_flight(&self) -> u64 {
        match &self.end {
            End::Receiving(receiving) => receiving.waiting.load(Relaxed) as u64,
            End::Sending(_) => 0,
        }
    }

    fn close(&mut self, pool: &Pool) -> Result<(), String> {
        let mut held = Vec::new();
        self.drain(&mut held);
        self.counters.ledger.dropped[DropReason::HeldAtStop] += held.len() as u64;
        pool.free_batch(held);
        Ok(())
    }
}

impl std::fmt::Debug for RelayPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayPort").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}
