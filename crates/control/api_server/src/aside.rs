//! Large values are dropped beside the thread that answers: the tree of a document of 4 MiB takes as long to
//! be given back as it took to be read.
//!
//! One thread of low priority drops all of them, one after the other. What waits for it was read by a request
//! within the bounds of its client, and takes less time to be dropped than to be read.

use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

/// A value that is large, or not. What is large is dropped elsewhere.
#[derive(Debug)]
pub(crate) struct Aside<T: Default + Send + 'static> {
    value: T,
    large: bool,
}

impl<T: Default + Send + 'static> Aside<T> {
    pub fn new(value: T, large: bool) -> Aside<T> {
        Aside { value, large }
    }

    /// The value, for code that drops it where it may take its time.
    pub fn take(mut self) -> T {
        self.large = false;
        std::mem::take(&mut self.value)
    }
}

impl<T: Default + Send + 'static> Drop for Aside<T> {
    fn drop(&mut self) {
        if self.large {
            discard(std::mem::take(&mut self.value));
        }
    }
}

/// Nice value of the thread, that of other work beside the workers.
const NICE: i32 = 15;

/// Drops a value on the thread for that.
pub(crate) fn discard(value: impl Send + 'static) {
    static DROPPER: OnceLock<Option<Sender<Box<dyn Send>>>> = OnceLock::new();
    let dropper = DROPPER.get_or_init(|| {
        let (sender, values) = channel::<Box<dyn Send>>();
        let serve = move || {
            // Of a thread, on Linux. A refusal leaves it as it is.
            let _ = rustix::process::setpriority_process(None, NICE);
            values.into_iter().for_each(drop);
        };
        // Where the system has no thread, what is large is dropped where it is.
        Builder::new().name("dropper".into()).spawn(serve).ok().map(|_| sender)
    });
    if let Some(dropper) = dropper {
        // The thread ends with the program.
        let _ = dropper.send(Box::new(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::Sender;
    use std::thread::{ThreadId, current};

    /// Tells on which thread it is dropped.
    #[derive(Default)]
    struct Tells(Option<Sender<ThreadId>>);

    impl Drop for Tells {
        fn drop(&mut self) {
            if let Some(tell) = self.0.take() {
                let _ = tell.send(current().id());
            }
        }
    }

    #[test]
    fn what_is_large_is_dropped_elsewhere_unless_it_was_taken() {
        let (tell, told) = channel();
        let value = || Tells(Some(tell.clone()));
        drop(Aside::new(value(), true));
        assert_ne!(told.recv().expect("it is dropped"), current().id());
        drop(Aside::new(value(), false));
        assert_eq!(told.recv().expect("it is dropped"), current().id());
        drop(Aside::new(value(), true).take());
        assert_eq!(told.recv().expect("it is dropped"), current().id());
    }
}
