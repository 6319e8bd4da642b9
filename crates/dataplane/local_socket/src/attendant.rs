//! The thread that deals with a port's socket, so that the worker does not have to.

use crate::doorbells::{Doorbells, ring};
use crate::prompt::be_prompt;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the end of the thread is waited for.
const FAREWELL: Duration = Duration::from_secs(2);

/// The thread at a port's socket, until [`Attendant::end`] or until this is dropped: it gets the stop bell of
/// its [`Doorbells`] then, and is waited for when this is dropped.
///
/// It ends at once, unless a hostile peer has filled its eventfd and made it blocking between two of the
/// thread's calls. Such a thread is left behind after 2 s, and ends when the eventfd is read.
#[derive(Debug)]
pub struct Attendant<D: HasBells> {
    desk: Arc<D>,
    thread: Option<JoinHandle<()>>,
}

/// What a worker and its attendant have together, the bells among it.
pub trait HasBells {
    /// Those of the port.
    fn bells(&self) -> &Doorbells;
}

impl<D: HasBells> Attendant<D> {
    /// Begins: `run` returns when the stop bell rings.
    ///
    /// # Errors
    /// No threads are left.
    pub fn start(name: &str, desk: Arc<D>, run: impl FnOnce() + Send + 'static) -> io::Result<Attendant<D>> {
        let run = move || {
            be_prompt();
            run();
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Attendant { desk, thread: Some(thread) })
    }

    /// Has the thread end. It is waited for when this is dropped.
    pub fn end(&self) {
        ring(self.desk.bells().stop());
    }

    /// What the two have together.
    pub fn desk(&self) -> &Arc<D> {
        &self.desk
    }
}

impl<D: HasBells> Drop for Attendant<D> {
    fn drop(&mut self) {
        self.end();
        let Some(thread) = self.thread.take() else { return };
        let begun = Instant::now();
        while !thread.is_finished() && begun.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_micros(500));
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}
