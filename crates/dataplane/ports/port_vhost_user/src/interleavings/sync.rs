//! Stands for `crate::sync` under loom.

pub use loom::sync::atomic::{
    AtomicU16, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst, fence,
};
