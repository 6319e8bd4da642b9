//! What threads meet by in a set. Under loom other types stand in: `tests::interleavings` compiles `set`,
//! which takes these from `super`, once more.

pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
pub(crate) use std::thread::yield_now;

/// Attempts of a reader that others keep replacing entries under. Then it has found nothing.
pub(crate) const ATTEMPTS: usize = 8;
