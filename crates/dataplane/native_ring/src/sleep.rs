//! How a side that sleeps is woken, and one that is awake is not.
//!
//! A side that will sleep says so and then looks at its rings once more; the other first publishes and then
//! looks whether it sleeps. So one of the two sees the other, in whatever order they run.

use super::sync::{AtomicU32, Relaxed, SeqCst, fence};

/// This side says that it will sleep. It looks at its rings once more, and sleeps then.
///
/// Writes are swaps throughout, for the reason that the engine's bell gives.
pub fn will_sleep(flag: &AtomicU32) {
    flag.swap(1, Relaxed);
    fence(SeqCst);
}

/// This side is awake.
pub fn awake(flag: &AtomicU32) {
    flag.swap(0, Relaxed);
}

/// Whether the other side is to be woken, after something was published for it; true once for each sleep.
#[inline]
pub fn should_wake(flag: &AtomicU32) -> bool {
    fence(SeqCst);
    flag.load(Relaxed) != 0 && flag.swap(0, Relaxed) != 0
}
