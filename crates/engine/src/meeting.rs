//! A meeting of all workers of a fleet: the quiet point at which anything may be changed.
//!
//! 1. Every worker is sent the same [`Meeting`] and comes to it between two turns.
//! 2. The last one to come does what is to be done, with all of them in its hands: nothing else runs, no packet is
//!    between two owners, and what is in the rings between workers stays there in order.
//! 3. All go on.
//!
//! A worker is handed in as a value and handed back, so the types say that nobody else has it meanwhile.

use crate::worker::Worker;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is done with all workers, in the order of their numbers.
pub(crate) type Deed = Box<dyn FnOnce(&mut [Box<Worker>]) + Send>;

/// How long a worker looks for the end of a meeting before it sleeps.
const LOOK: Duration = Duration::from_micros(50);

struct State {
    expected: usize,
    #[expect(clippy::vec_box, reason = "workers are handed in and back as they are, by their address")]
    present: Vec<Box<Worker>>,
    deed: Option<Deed>,
}

/// See the module's documentation.
pub(crate) struct Meeting {
    state: Mutex<State>,
    over: AtomicBool,
    changed: Condvar,
}

impl Meeting {
    /// A meeting of so many workers.
    pub(crate) fn new(workers: usize, deed: Deed) -> Meeting {
        let state = State { expected: workers, present: Vec::with_capacity(workers), deed: Some(deed) };
        Meeting { state: Mutex::new(state), over: AtomicBool::new(false), changed: Condvar::new() }
    }

    /// Comes to the meeting; back when it is over.
    pub(crate) fn attend(&self, worker: Box<Worker>) -> Box<Worker> {
        let number = worker.number;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.present.push(worker);
        if state.present.len() == state.expected {
            state.present.sort_by_key(|worker| worker.number);
            if let Some(deed) = state.deed.take() {
                deed(&mut state.present);
            }
            self.over.store(true, Release);
            self.changed.notify_all();
        } else {
            drop(state);
            let began = Instant::now();
            while !self.over.load(Acquire) && began.elapsed() < LOOK {
                std::thread::yield_now();
            }
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            while !self.over.load(Acquire) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        match state.present.iter().position(|worker| worker.number == number) {
            Some(at) => state.present.swap_remove(at),
            None => unreachable!("a worker is handed back to the thread that handed it in"),
        }
    }
}
