//! One descriptor for a port and for what stands before it.

use crate::Wake;
use rustix::event::epoll;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Becomes readable when the inner port, or what stands before it, has something.
#[derive(Debug)]
pub(crate) struct Merged {
    readable: OwnedFd,
    /// The inner port's descriptor that is watched; -1: none.
    watched: AtomicI32,
}

impl Merged {
    /// With the descriptor of what stands before the port.
    ///
    /// # Errors
    /// The kernel's refusal of a descriptor.
    pub(crate) fn with(own: BorrowedFd<'_>) -> io::Result<Merged> {
        let readable = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&readable, own, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Merged { readable, watched: AtomicI32::new(-1) })
    }

    /// What a worker waits for, of what the inner port waits for.
    pub(crate) fn wake<'a>(&'a self, inner: Wake<'a>) -> Wake<'a> {
        match inner.readable {
            Some(fd) if !self.watch(fd) => inner,
            _ => Wake { readable: Some(self.readable.as_fd()), ..inner },
        }
    }

    /// The inner port may have another descriptor of the same number.
    pub(crate) fn forget(&self) {
        self.watched.store(-1, Relaxed);
    }

    /// Has the one descriptor become readable when the inner port's does.
    fn watch(&self, inner: BorrowedFd<'_>) -> bool {
        let number = inner.as_raw_fd();
        // A descriptor that was closed is watched no more, and another one may have its number: only one that
        // is watched already is refused.
        let event = epoll::EventData::new_u64(1);
        if self.watched.load(Relaxed) == number {
            return true;
        }
        let watches = match epoll::add(&self.readable, inner, event, epoll::EventFlags::IN) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => true,
            Err(_) => false,
        };
        if watches {
            self.watched.store(number, Relaxed);
        }
        watches
    }
}
