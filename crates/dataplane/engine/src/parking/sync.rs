//! What threads meet by at a worker's slot. Under loom other types stand in: `tests::interleavings` compiles
//! the slot once more.

pub(crate) use std::sync::atomic::AtomicU8;
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a thread polls for another one before it sleeps. No third thread is let in meanwhile: on a busy
/// machine that could take long.
const LOOK: Duration = Duration::from_micros(20);

/// Polls until something is found, for a short time.
pub(crate) fn poll_for<T>(mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    while began.elapsed() < LOOK {
        let found = found();
        if found.is_some() {
            return found;
        }
        std::hint::spin_loop();
    }
    None
}
