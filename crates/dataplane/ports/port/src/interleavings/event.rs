//! Stands for `crate::event` under loom; the engine's tests use it too.

use loom::sync::{Condvar, Mutex};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// The kernel's event descriptor.
#[derive(Debug, Default)]
pub struct Event {
    signalled: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    pub fn new() -> io::Result<Event> {
        Ok(Event::default())
    }

    pub fn signal(&self) {
        *self.signalled.lock().expect("no panic") = true;
        self.changed.notify_all();
    }

    pub fn clear(&self) {
        *self.signalled.lock().expect("no panic") = false;
    }

    fn wait(&self) {
        let mut signalled = self.signalled.lock().expect("no panic");
        while !*signalled {
            signalled = self.changed.wait(signalled).expect("no panic");
        }
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        unreachable!("no kernel waits here")
    }
}

impl super::bell::Bell {
    /// Stands for waiting in the kernel until the bell is heard.
    pub fn wait(&self) {
        self.event().wait();
    }
}
