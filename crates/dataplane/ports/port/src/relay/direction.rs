//! One direction of a wire: batches in a ring, the counts of both ends, and when one end wakes the other.
//!
//! Nothing here knows pools or ports, so that loom can run it as it is (`interleavings`). The ring itself is
//! `rtrb`'s.

use super::Bell;
use super::sync::{
    Acquire, AtomicBool, AtomicUsize, Consumer, Producer, PushError, Relaxed, Release, RingBuffer, SeqCst,
    fence,
};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

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

/// The sender's end, of at most `N` packets on their way.
pub(crate) struct Sending<T, const N: usize> {
    ring: Producer<Vec<T>>,
    /// Emptied vectors that come back.
    spare: Consumer<Vec<T>>,
    passed: Arc<Passed>,
    /// What was known last of the packets that were taken out.
    known_taken: Cell<usize>,
    /// The receiver's.
    bell: Arc<Bell>,
}

/// The receiver's end.
pub(crate) struct Receiving<T, const N: usize> {
    ring: Consumer<Vec<T>>,
    /// What is left of a batch that was longer than what was asked for.
    rest: VecDeque<T>,
    spare: Producer<Vec<T>>,
    passed: Arc<Passed>,
    /// The sender's.
    bell: Arc<Bell>,
}

/// Both ends, of a sender that hears the first bell and a receiver that hears the second.
pub(crate) fn direction<T, const N: usize>(
    from: Arc<Bell>,
    to: Arc<Bell>,
) -> (Sending<T, N>, Receiving<T, N>) {
    // Batches may be of one packet each.
    let (ring, other) = RingBuffer::new(N);
    let (back, spare) = RingBuffer::new(N);
    let passed = Arc::new(Passed::default());
    let sending = Sending { ring, spare, passed: passed.clone(), known_taken: Cell::new(0), bell: to };
    (sending, Receiving { ring: other, rest: VecDeque::new(), spare: back, passed, bell: from })
}

impl<T, const N: usize> Sending<T, N> {
    /// Packets that there is room for, at least. The other end's count is looked at only when that may be
    /// less than half.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        let sent = self.passed.sent.0.load(Relaxed);
        let beside = |taken: usize| N.saturating_sub(sent.wrapping_sub(taken));
        let known = beside(self.known_taken.get());
        if known > N / 2 {
            return known;
        }
        self.known_taken.set(self.passed.taken.0.load(Acquire));
        beside(self.known_taken.get())
    }

    /// Sends a batch as a whole, and leaves an empty one; whether there was room.
    #[inline]
    pub(crate) fn send(&mut self, packets: &mut Vec<T>) -> bool {
        let count = packets.len();
        if count > self.room() {
            return false;
        }
        let empty = self.spare.pop().unwrap_or_else(|_| Vec::with_capacity(nf_abi::MAX_BATCH));
        let batch = std::mem::replace(packets, empty);
        // Before they can be taken out: of what is on its way there is never less than nothing.
        self.passed.sent.add(count);
        if let Err(PushError::Full(batch)) = self.ring.push(batch) {
            // As many batches as packets at most: there is a place for each.
            self.passed.sent.add(count.wrapping_neg());
            *packets = batch;
            return false;
        }
        self.bell.ring_if_seen_asleep();
        true
    }

    /// Asks to be woken when there is room, and comes before the last look for it.
    pub(crate) fn want_room(&self) {
        self.passed.wants_room.swap(true, SeqCst);
        // Either the receiver sees this after it takes packets out, or what it has taken out is seen now.
        fence(SeqCst);
    }

    /// Follows what was sent, at the end of a turn.
    pub(crate) fn signal(&self) {
        self.bell.ring_if_asleep();
    }
}

impl<T, const N: usize> Receiving<T, N> {
    /// Takes out the oldest batches, as many as `out` has room for within `budget`, or a part of one that is
    /// longer.
    #[inline]
    pub(crate) fn receive(&mut self, budget: usize, out: &mut Vec<T>) {
        if !self.rest.is_empty() {
            return self.take_rest(budget, out);
        }
        while let Ok(next) = self.ring.peek() {
            let fits = out.len() + next.len() <= budget;
            if !fits && (next.len() <= budget || budget == 0) {
                return;
            }
            let Ok(mut batch) = self.ring.pop() else { return };
            if !fits {
                self.rest.extend(batch.drain(..));
                return self.take_rest(budget, out);
            }
            self.passed.taken.add(batch.len());
            if out.is_empty() {
                std::mem::swap(out, &mut batch);
            } else {
                out.append(&mut batch);
            }
            // A vector that finds no room is freed.
            let _ = self.spare.push(batch);
            self.signal_room();
        }
    }

    /// Takes out what there is room for of a batch that came in parts.
    #[cold]
    fn take_rest(&mut self, budget: usize, out: &mut Vec<T>) {
        let count = budget.saturating_sub(out.len()).min(self.rest.len());
        out.extend(self.rest.drain(..count));
        self.passed.taken.add(count);
        self.signal_room();
    }

    /// Wakes a sender that waits for room, when there is enough of it to be worth waking for.
    #[inline]
    fn signal_room(&self) {
        let wants_room = &self.passed.wants_room;
        if wants_room.load(Relaxed) && self.passed.waiting() <= N / 2 && wants_room.swap(false, SeqCst) {
            self.bell.ring_if_asleep();
        }
    }

    /// Follows what was taken out, at the end of a turn.
    pub(crate) fn signal(&self) {
        fence(SeqCst);
        self.signal_room();
    }

    /// Takes out everything.
    pub(crate) fn drain(&mut self, out: &mut Vec<T>) {
        let before = out.len();
        out.extend(self.rest.drain(..));
        while let Ok(mut batch) = self.ring.pop() {
            out.append(&mut batch);
        }
        self.passed.taken.add(out.len() - before);
        self.signal();
    }

    /// Whether there is nothing to take out.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.rest.is_empty()
    }

    /// Packets on their way.
    pub(crate) fn waiting(&self) -> usize {
        self.passed.waiting()
    }
}
