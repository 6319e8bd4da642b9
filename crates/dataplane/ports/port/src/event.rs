//! What a thread waits for in the kernel beside its ports.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An event descriptor: readable from the first signal on, until it is cleared.
#[derive(Debug)]
pub(crate) struct Event(OwnedFd);

impl Event {
    /// One that was not signalled.
    ///
    /// # Errors
    /// The kernel's refusal of a descriptor.
    pub(crate) fn new() -> io::Result<Event> {
        Ok(Event(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn signal(&self) {
        // Fails only when the counter is full, and then whatever waits is being woken anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn clear(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0, &mut count);
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
