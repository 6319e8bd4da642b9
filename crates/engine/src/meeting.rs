//! A meeting of all workers of a fleet: the quiet point at which anything may be changed.
//!
//! 1. Every worker is sent the same [`Meeting`] and comes to it between two turns. Those whose threads sleep are brought, and go on
//!    sleeping (`berth.rs`): when all do, there is no meeting, and whoever called it does all himself.
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
        let mut workers = vec![worker];
        self.bring(&mut workers);
        match workers.pop() {
            Some(worker) => worker,
            None => unreachable!("whoever is brought comes back"),
        }
    }

    /// Brings workers to the meeting; they are back when it is over, in the order of their numbers.
    #[expect(clippy::vec_box, reason = "workers are handed on by their address")]
    pub(crate) fn bring(&self, workers: &mut Vec<Box<Worker>>) {
        let numbers: Vec<u16> = workers.iter().map(|worker| worker.number).collect();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.present.append(workers);
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
        let mine = state.present.extract_if(.., |worker| numbers.contains(&worker.number));
        workers.extend(mine);
    }
}
