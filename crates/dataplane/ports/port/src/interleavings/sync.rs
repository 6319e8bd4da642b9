//! Stands for `crate::sync` under loom.

pub use super::event::Event;
pub use loom::sync::atomic::{
    AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst, fence,
};
pub use rtrb::PushError;
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::Arc;

/// What both ends of a ring share. Entries are behind a lock that loom does not see, so that it orders
/// nothing.
struct Shared<T> {
    entries: std::sync::Mutex<VecDeque<T>>,
    head: AtomicUsize,
    tail: AtomicUsize,
    capacity: usize,
}

pub struct Producer<T>(Arc<Shared<T>>);

pub struct Consumer<T>(Arc<Shared<T>>, OnceCell<T>);

pub struct RingBuffer;

impl RingBuffer {
    #[expect(clippy::new_ret_no_self, reason = "as rtrb has it")]
    pub fn new<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
        let (head, tail) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let shared = Arc::new(Shared { entries: std::sync::Mutex::default(), head, tail, capacity });
        (Producer(shared.clone()), Consumer(shared, OnceCell::new()))
    }
}

impl<T> Producer<T> {
    pub fn push(&mut self, value: T) -> Result<(), PushError<T>> {
        let tail = self.0.tail.load(Relaxed);
        if tail - self.0.head.load(Acquire) == self.0.capacity {
            return Err(PushError::Full(value));
        }
        self.0.entries.lock().expect("no panic").push_back(value);
        self.0.tail.store(tail + 1, Release);
        Ok(())
    }
}

impl<T> Consumer<T> {
    pub fn is_empty(&self) -> bool {
        self.0.head.load(Relaxed) == self.0.tail.load(Acquire)
    }

    pub fn peek(&self) -> Result<&T, ()> {
        if self.is_empty() {
            return Err(());
        }
        Ok(self
            .1
            .get_or_init(|| self.0.entries.lock().expect("no panic").pop_front().expect("it was pushed")))
    }

    pub fn pop(&mut self) -> Result<T, ()> {
        self.peek()?;
        let head = self.0.head.load(Relaxed);
        let value = self.1.take().expect("it was looked at");
        self.0.head.store(head + 1, Release);
        Ok(value)
    }
}
