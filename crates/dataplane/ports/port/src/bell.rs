//! How a worker that sleeps in the kernel is woken by another thread.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};

/// A worker's bell.
///
/// Another thread first leaves something for the worker and then rings; the worker first says that it will
/// sleep and then looks once more. So one of the two sees the other, in whatever order they run.
#[derive(Debug)]
pub struct Bell {
    asleep: AtomicBool,
    fd: OwnedFd,
}

impl Bell {
    /// A bell that has not been rung.
    ///
    /// # Errors
    /// The kernel's refusal of an event descriptor.
    pub fn new() -> io::Result<Bell> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { asleep: AtomicBool::new(false), fd })
    }

    /// Wakes the worker, or keeps it from sleeping next time.
    pub fn ring(&self) {
        // Fails only when the counter is full, and then the worker is being woken anyway.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
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
        self.asleep.store(true, Relaxed);
        fence(SeqCst);
    }

    /// The worker is awake: what rang is forgotten.
    pub fn awake(&self) {
        self.asleep.store(false, Relaxed);
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.fd, &mut count);
    }

    /// Becomes readable when it rings.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
