//! What both sides of a ring meet by. Under loom other types stand in: `interleavings` compiles the file that
//! takes these from `super` once more, and tries every order in which loads may see stores.

pub(crate) use std::sync::atomic::{
    AtomicU16, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst, fence,
};
