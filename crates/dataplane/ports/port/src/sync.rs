//! What threads meet by. Under loom other types stand in: `interleavings` compiles the files that take these
//! from `super` once more, and tries every order in which loads may see stores.

pub(crate) use crate::event::Event;
pub(crate) use rtrb::{Consumer, Producer, PushError, RingBuffer};
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst, fence,
};
