//! A wire from one worker to another: a rootless device, that is, a queue with a port at either end.
//!
//! 1. [`one_way`] makes both ends. Each belongs to one worker, and all of its packets to one pool.
//! 2. `transmit` puts a batch as a whole into the ring to the other end and wakes the other worker if it is
//!    seen to sleep. A batch that finds no room is dropped as `queue-full`; [`Port::room`] says how much
//!    there is at least.
//! 3. `receive` takes the oldest batch out, as it was put in: nothing is classified or counted again. One
//!    that is longer than what is asked for comes in parts.
//! 4. A sender that finds no room and has nothing else to do asks to be woken ([`Port::want_room`]) when half
//!    of the ring is free again.
//! 5. [`Port::signal`] follows at the end of the worker's turn and does not miss a receiver that was just
//!    falling asleep. To look that closely with each batch would cost more than the batch: all stores would
//!    have to reach the other core first.
//! 6. [`RelayPort::drain`] empties the ring when the wire is taken away.
//!
//! What a batch costs is one pointer in a ring, not its packets; the packets' records follow it from one
//! core's cache to the other's. What is counted does not follow with each batch: each end writes a count of
//! its own, and looks at the other's when it has to.
//!
//! Limits: one direction, so that two make a wire; 1,024 packets, as in the rings of VALE (HyperNF, section
//! 4). Packets in the ring are counted by the end that will receive them.

#[cfg(test)]
mod tests;

use crate::{Bell, Port, PortCounters, Wake};
use packet_memory::{Packet, Pool};
use rtrb::{Consumer, Producer, RingBuffer};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst, fence,
};
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// Most packets on their way in one direction.
pub const RELAY_PACKETS: usize = 1024;

/// A count that one end writes; in cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count(AtomicUsize);

impl Count {
    /// Adds to it. Only the end that writes this count may do so.
    #[inline]
    fn add(&self, count: usize) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Release);
    }
}

/// What both ends know of one direction.
#[derive(Debug, Default)]
struct Passed {
    /// Packets put in, by the sender.
    sent: Count,
    /// Packets taken out, by the receiver.
    taken: Count,
    /// The sender waits for room.
    wants_room: AtomicBool,
}

impl Passed {
    /// Packets on their way.
    fn waiting(&self) -> usize {
        let taken = self.taken.0.load(Acquire);
        self.sent.0.load(Acquire).wrapping_sub(taken)
    }
}

/// One direction, from its sender's side.
struct Sending {
    ring: Producer<Vec<Packet>>,
    /// Emptied vectors that come back.
    spare: Consumer<Vec<Packet>>,
    passed: Arc<Passed>,
    /// What was known last of the packets that were taken out.
    known_taken: Cell<usize>,
    /// The receiver's.
    bell: Arc<Bell>,
}

/// One direction, from its receiver's side.
struct Receiving {
    ring: Consumer<Vec<Packet>>,
    /// What is left of a batch that was longer than what was asked for.
    rest: VecDeque<Packet>,
    spare: Producer<Vec<Packet>>,
    passed: Arc<Passed>,
    /// The sender's.
    bell: Arc<Bell>,
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

/// Both ends of a wire from the worker that hears the first bell to the one that hears the second: first the
/// sending end, then the receiving one.
pub fn one_way(from: Arc<Bell>, to: Arc<Bell>) -> (RelayPort, RelayPort) {
    // Batches may be of one packet each.
    let (ring, other) = RingBuffer::new(RELAY_PACKETS);
    let (back, spare) = RingBuffer::new(RELAY_PACKETS);
    let passed = Arc::new(Passed::default());
    let sending = Sending { ring, spare, passed: passed.clone(), known_taken: Cell::new(0), bell: to };
    let receiving = Receiving { ring: other, rest: VecDeque::new(), spare: back, passed, bell: from };
    let port = |end| RelayPort { end, counters: PortCounters::default() };
    (port(End::Sending(sending)), port(End::Receiving(receiving)))
}

impl Sending {
    /// Packets that there is room for, at least. The other end's count is looked at only when that may be
    /// less than half.
    #[inline]
    fn room(&self) -> usize {
        let sent = self.passed.sent.0.load(Relaxed);
        let beside = |taken: usize| RELAY_PACKETS.saturating_sub(sent.wrapping_sub(taken));
        let known = beside(self.known_taken.get());
        if known > RELAY_PACKETS / 2 {
            return known;
        }
        self.known_taken.set(self.passed.taken.0.load(Acquire));
        beside(self.known_taken.get())
    }
}

impl Receiving {
    /// Takes out what there is room for of a batch that came in parts.
    #[cold]
    fn take_rest(&mut self, budget: usize, out: &mut Vec<Packet>) {
        let count = budget.saturating_sub(out.len()).min(self.rest.len());
        out.extend(self.rest.drain(..count));
        self.passed.taken.add(count);
        self.signal_room();
    }

    /// Wakes a sender that waits for room, when there is enough of it to be worth waking for.
    #[inline]
    fn signal_room(&self) {
        let wants_room = &self.passed.wants_room;
        if wants_room.load(Relaxed)
            && self.passed.waiting() <= RELAY_PACKETS / 2
            && wants_room.swap(false, SeqCst)
        {
            self.bell.ring_if_asleep();
        }
    }
}

impl RelayPort {
    /// Takes out what is on its way to this end.
    pub fn drain(&mut self, out: &mut Vec<Packet>) {
        let End::Receiving(receiving) = &mut self.end else { return };
        let before = out.len();
        out.extend(receiving.rest.drain(..));
        while let Ok(mut batch) = receiving.ring.pop() {
            out.append(&mut batch);
        }
        receiving.passed.taken.add(out.len() - before);
        fence(SeqCst);
        receiving.signal_room();
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
            receiving.passed.taken.add(batch.len());
            if out.is_empty() {
                std::mem::swap(out, &mut batch);
            } else {
                out.append(&mut batch);
            }
            // A vector that finds no room is freed.
            let _ = receiving.spare.push(batch);
            receiving.signal_room();
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
        if count > sending.room() {
            self.counters.ledger.dropped[DropReason::QueueFull] += count as u64;
            pool.free_batch(packets.drain(..));
            return;
        }
        let empty = sending.spare.pop().unwrap_or_else(|_| Vec::with_capacity(nf_abi::MAX_BATCH));
        let batch = std::mem::replace(packets, empty);
        // Before they can be taken out: of what is on its way there is never less than nothing.
        sending.passed.sent.add(count);
        if let Err(rtrb::PushError::Full(mut batch)) = sending.ring.push(batch) {
            // As many batches as packets at most: there is a place for each.
            sending.passed.sent.add(count.wrapping_neg());
            self.counters.ledger.dropped[DropReason::QueueFull] += count as u64;
            pool.free_batch(batch.drain(..));
            return;
        }
        sending.bell.ring_if_seen_asleep();
    }

    fn room(&self) -> usize {
        match &self.end {
            End::Sending(sending) => sending.room(),
            End::Receiving(_) => 0,
        }
    }

    fn relay(&mut self) -> Option<&mut RelayPort> {
        Some(self)
    }

    fn want_room(&self) {
        if let End::Sending(sending) = &self.end {
            sending.passed.wants_room.store(true, SeqCst);
            // Either the receiver sees this after it takes packets out, or what it has taken out is seen now.
            fence(SeqCst);
        }
    }

    fn signal(&mut self) {
        match &self.end {
            End::Sending(sending) => sending.bell.ring_if_asleep(),
            End::Receiving(receiving) => {
                fence(SeqCst);
                receiving.signal_room();
            }
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

    fn backlog(&self) -> usize {
        usize::MAX
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn in_flight(&self) -> u64 {
        match &self.end {
            End::Receiving(receiving) => receiving.passed.waiting() as u64,
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
