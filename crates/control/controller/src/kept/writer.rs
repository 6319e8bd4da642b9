//! The thread that writes events to disk.

use super::{Kept, Writing, file};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// How often what is new is written.
const EVERY: Duration = Duration::from_millis(500);
/// Longest time that the end waits for a disk that does not answer.
const LONGEST: Duration = Duration::from_secs(2);

/// Writes at intervals for as long as the daemon runs.
#[derive(Debug)]
pub(crate) struct Writer {
    end: Sender<()>,
    ended: Mutex<Receiver<()>>,
}

impl Writer {
    /// Begins.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn begin(kept: Arc<Mutex<Kept>>) -> io::Result<Writer> {
        let (end, ends) = channel();
        let (tells, ended) = channel();
        let run = move || {
            let mut failed = false;
            while ends.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                write(&kept, &mut failed);
            }
            write(&kept, &mut failed);
            // The other side may have given up.
            let _ = tells.send(());
        };
        Builder::new().name("events".into()).spawn(run)?;
        Ok(Writer { end, ended: Mutex::new(ended) })
    }

    /// Writes what is left, and ends.
    pub(crate) fn end(&self) {
        if self.end.send(()).is_ok() {
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(LONGEST);
        }
    }
}

/// Writes what is new. The first failure is told, and the end of failing.
fn write(kept: &Mutex<Kept>, failed: &mut bool) {
    let lock = || kept.lock().unwrap_or_else(PoisonError::into_inner);
    let writings = lock().to_write();
    let mut failure = None;
    for writing in writings {
        match put(&writing) {
            Ok(bytes) => lock().written(&writing, bytes),
            Err(error) => failure = Some(format!("{}: {error}", writing.path.display())),
        }
    }
    match &failure {
        Some(failure) if !*failed => {
            console::error().line(&format!("events of functions are not on disk: {failure}"));
        }
        None if *failed => console::error().line("events of functions are on disk again"),
        _ => {}
    }
    *failed = failure.is_some();
}

fn put(writing: &Writing) -> io::Result<u64> {
    if writing.anew {
        file::replace(&writing.path, &writing.lines)?;
        return Ok(writing.lines.len() as u64);
    }
    file::append(&writing.path, &writing.lines)
}
