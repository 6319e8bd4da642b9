//! The log is carried over into the main file before it grows long: a thread of its own, so that neither
//! commits nor the writing of groups to disk wait for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::settings::{LOG_CARRY, LOG_MAX};
use crate::table::{Carried, CarryFailure, Table};

/// After a failure, a full disk say, it is tried again in this time.
const AGAIN: Duration = Duration::from_secs(1);
/// After a part was carried over while commits went on, the rest follows in this time.
const REST: Duration = Duration::from_millis(20);

/// How long the log is.
pub(crate) struct Carry {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    log: u64,
    stop: bool,
    failed: Option<String>,
}

impl Carry {
    pub fn new() -> Self {
        // What is in the log from before is not known; the first round tells.
        Self { state: Mutex::new(State { log: LOG_CARRY, ..State::default() }), work: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log grew by about so many bytes.
    pub fn grew(&self, bytes: u64) {
        let mut state = self.state();
        let before = state.log;
        state.log += bytes;
        if before < LOG_CARRY && state.log >= LOG_CARRY {
            self.work.notify_one();
        }
    }

    /// Bytes of the log, about, and why it could not be carried over when that was last tried.
    pub fn standing(&self) -> (u64, Option<String>) {
        let state = self.state();
        (state.log, state.failed.clone())
    }

    /// What the thread does until [`stop`](Self::stop). `alone` calls its argument while no commit is under
    /// way.
    ///
    /// # Errors
    /// What the system said when a write to disk failed that it had accepted.
    pub fn run(
        &self,
        table: &Table,
        alone: impl Fn(&dyn Fn() -> Result<Carried, CarryFailure>) -> Result<Carried, CarryFailure>,
    ) -> Result<(), String> {
        let mut state = self.state();
        while !state.stop {
            if state.log < LOG_CARRY {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (begin, hold_up) = (state.log, state.log >= LOG_MAX);
            drop(state);
            let carry = || table.carry_log();
            let carried = if hold_up { alone(&carry) } else { carry() };
            state = self.state();
            let since = state.log - begin;
            let pause = match carried {
                Ok(carried) => {
                    state.log = since + if carried.whole { 0 } else { carried.log };
                    state.failed = None;
                    REST
                }
                Err(CarryFailure::NotDurable(what)) => return Err(what),
                Err(CarryFailure::Other(what)) => {
                    state.failed = Some(what);
                    AGAIN
                }
            };
            if state.log >= LOG_CARRY {
                let paused = self.work.wait_timeout_while(state, pause, |state| !state.stop);
                state = paused.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        Ok(())
    }

    /// Lets the thread come to an end.
    pub fn stop(&self) {
        self.state().stop = true;
        self.work.notify_one();
    }
}
