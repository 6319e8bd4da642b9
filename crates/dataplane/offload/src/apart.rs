//! Work on a thread of its own that may never come back: a look at a file of a file system that is gone is
//! over when that answers, and nothing in the program can end it.
//!
//! 1. [`Apart::begin`] starts the thread, and does not wait.
//! 2. [`Apart::wait`] waits until the work is done or a moment has come, and then no longer. Within a job
//!    that is [`waiting`].
//! 3. What is late goes on by itself, and what it comes to is dropped.
//!
//! Its processor time is charged to the tenant for which the calling thread does a job, if it does one.
//!
//! Limits: what begins such work bounds how much of it may be late.

use crate::pool::{charging, processor_time, waiting};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::Instant;

/// Work that has begun.
#[derive(Debug)]
pub struct Apart<T> {
    done: Receiver<T>,
}

/// Why there is no result of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoResult {
    /// It is not done yet.
    #[error("it is not done in time")]
    Late,
    /// It panicked.
    #[error("the work broke off: a defect of the program")]
    Broken,
}

impl<T: Send + 'static> Apart<T> {
    /// Begins it.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn begin(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Apart<T>> {
        let charge = charging();
        let (give, done) = sync_channel(1);
        Builder::new().name("apart".into()).spawn(move || {
            let before = processor_time();
            let result = work();
            charge.into_iter().for_each(|charge| charge(processor_time().since(before)));
            // What was late is not waited for.
            let _ = give.send(result);
        })?;
        Ok(Apart { done })
    }

    /// What it has come to.
    ///
    /// # Errors
    /// [`NoResult`].
    pub fn wait(&self, until: Instant) -> Result<T, NoResult> {
        let within = || until.saturating_duration_since(Instant::now());
        waiting(|| self.done.recv_timeout(within())).map_err(|error| match error {
            RecvTimeoutError::Timeout => NoResult::Late,
            RecvTimeoutError::Disconnected => NoResult::Broken,
        })
    }
}
