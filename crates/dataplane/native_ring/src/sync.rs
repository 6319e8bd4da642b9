//! What both sides meet by. Under loom other types stand in: `interleavings` compiles the files that take
//! these from `super` once more, and tries every order in which loads may see stores.

pub(crate) use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst, fence,
};
