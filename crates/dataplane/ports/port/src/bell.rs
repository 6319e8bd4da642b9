//! How a worker that sleeps in the kernel is woken by another thread.

use super::sync::{AtomicBool, Event, Relaxed, SeqCst, fence};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A worker's bell.
///
/// Another thread first leaves something for the worker and then rings; the worker first says that it will
/// sleep and then looks once more. So one of the two sees the other, in whatever order they run.
///
/// Writes are swaps throughout: loom takes a store to be possible between what a swap reads and what it
/// writes, which no machine does, and finds threads that sleep for ever. On the way to a sleep they cost
/// nothing that matters.
#[derive(Debug)]
pub struct Bell {
    asleep: AtomicBool,
    event: Event,
}

impl Bell {
    /// A bell that has not been rung.
    ///
    /// # Errors
    /// The kernel's refusal of an event descriptor.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell { asleep: AtomicBool::new(false), event: Event::new()? })
    }

    /// Wakes the worker, or keeps it from sleeping next time.
    pub fn ring(&self) {
        self.event.signal();
    }

    /// Wakes the worker if it sleeps or is about to. What it is to find was left before.
    #[inline]
    pub fn ring_if_asleep(&self) {
        fence(SeqCst);
        self.ring_if_seen_asleep();
    }

    /// Wakes the worker if it is seen to sleep. One that is about to sleep, and has not seen what was left
    /// for it, may be missed: [`Bell::ring_if_asleep`] is to follow soon. It is what costs, for it waits
    /// until all that was written can be seen.
    #[inline]
    pub fn ring_if_seen_asleep(&self) {
        if self.asleep.load(Relaxed) && self.asleep.swap(false, Relaxed) {
            self.ring();
        }
    }

    /// The worker says that it will sleep. It looks once more for whatever may have been left, and sleeps
    /// then.
    pub fn will_sleep(&self) {
        self.asleep.swap(true, Relaxed);
        fence(SeqCst);
    }

    /// The worker is awake: what rang is forgotten.
    pub fn awake(&self) {
        self.asleep.swap(false, Relaxed);
        self.event.clear();
    }

    /// What a ring signals.
    pub(super) fn event(&self) -> &Event {
        &self.event
    }

    /// Becomes readable when it rings.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event().as_fd()
    }
}
