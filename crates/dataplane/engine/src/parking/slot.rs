//! Where a worker is parked by its thread, for other threads to take it: while its thread sleeps in the
//! kernel, and when another thread asks for it.
//!
//! 1. A thread that sleeps leaves its worker here. Another thread that wants to change something takes it
//!    from here and wakes no thread.
//! 2. A thread that is awake is asked for its worker between two turns. One that has had nothing to do for
//!    long leaves it and sleeps as in 1, so that further questions soon after find it; one that works leaves
//!    it and waits to have it back.
//! 3. The thread that took a worker brings it back. If there is something to do for the worker now, or
//!    something else to wait for than its sleeping thread waits for, its bell is rung.
//! 4. The thread takes its worker again, or waits until it has been brought back.
//!
//! A worker is a value that one thread has at a time, so the types say that no other thread has it meanwhile.

use super::sync::{AtomicU8, Condvar, Mutex, MutexGuard, poll_for};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

/// What a thread is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Asked {
    /// Nothing.
    Nothing = 0,
    /// To leave its worker here.
    Worker = 1,
    /// To end.
    Stop = 2,
}

/// Where a worker of type `T` is.
struct State<T> {
    worker: Option<T>,
    /// The thread has ended: no worker will come.
    ended: bool,
    /// How often the thread was woken.
    wakeups: u64,
    /// The thread waits for its worker, and for nothing else.
    lends: bool,
    /// How many wait for a change here.
    waiting: u32,
}

/// See the module's documentation.
pub(crate) struct Slot<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    asked: AtomicU8,
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        let state = State { worker: None, ended: false, wakeups: 0, lends: false, waiting: 0 };
        let asked = AtomicU8::new(Asked::Nothing as u8);
        Slot { state: Mutex::new(state), changed: Condvar::new(), asked }
    }
}

impl<T> Slot<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_in<'a>(&self, mut state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        state.waiting += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    /// Wakes the threads that wait for a change; usually there is none, and a system call is saved.
    fn tell(&self, state: MutexGuard<'_, State<T>>) {
        let waiting = state.waiting;
        drop(state);
        if waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// What the thread is asked for. A worker looks between two turns.
    #[inline]
    pub(crate) fn asked(&self) -> Asked {
        match self.asked.load(Relaxed) {
            0 => Asked::Nothing,
            1 => Asked::Worker,
            _ => Asked::Stop,
        }
    }

    /// The thread leaves its worker here while it sleeps, that is, while `wait` waits for the worker's bell
    /// and ports.
    pub(crate) fn sleep_parked(&self, worker: T, wait: impl FnOnce()) -> T {
        self.leave(worker, false);
        if self.asked() != Asked::Stop {
            wait();
        }
        self.unpark()
    }

    /// The thread sleeps with its worker in its hands, unless it is asked for something: what asked before
    /// the bell said that the thread will sleep has not rung.
    pub(crate) fn sleep_unparked(&self, wait: impl FnOnce()) {
        if self.asked() == Asked::Nothing {
            wait();
        }
    }

    fn leave(&self, worker: T, lends: bool) {
        let mut state = self.state();
        (state.worker, state.lends) = (Some(worker), lends);
        self.tell(state);
    }

    /// The thread is awake again, and takes its worker as soon as no other thread wants it.
    fn unpark(&self) -> T {
        let mut state = self.state();
        loop {
            if self.asked.load(Acquire) != Asked::Worker as u8
                && let Some(worker) = state.worker.take()
            {
                state.wakeups += 1;
                self.tell(state);
                return worker;
            }
            state = self.wait_in(state);
        }
    }

    /// The thread, which works, was asked for its worker: leaves it here until it is brought back.
    pub(crate) fn lend(&self, worker: T) -> T {
        self.leave(worker, true);
        let _ = poll_for(|| (self.asked.load(Acquire) != Asked::Worker as u8).then_some(()));
        self.unpark()
    }

    /// The thread ends.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        self.tell(state);
    }

    /// Asks the thread for something. Its bell is to be rung then.
    pub(crate) fn ask(&self, asked: Asked) {
        self.asked.store(asked as u8, Release);
    }

    /// The worker is not asked for any more. A thread that was asked to end still is.
    fn ask_no_more(&self) {
        let (asked, nothing) = (Asked::Worker as u8, Asked::Nothing as u8);
        let _ = self.asked.compare_exchange(asked, nothing, Release, Relaxed);
    }

    /// Takes the worker if it is here.
    pub(crate) fn take(&self) -> Option<T> {
        self.state().worker.take()
    }

    /// Takes the worker, which has been asked for, as soon as it is here; `None`: its thread has ended.
    pub(crate) fn take_when_here(&self) -> Option<T> {
        if let Some(worker) = poll_for(|| self.take()) {
            return Some(worker);
        }
        let mut state = self.state();
        loop {
            match state.worker.take() {
                Some(worker) => return Some(worker),
                None if state.ended => return None,
                None => state = self.wait_in(state),
            }
        }
    }

    /// The same until `until`. A worker that has not come by then is not asked for any more: its thread keeps
    /// it, or takes it again.
    pub(crate) fn take_until(&self, until: Instant) -> Option<T> {
        let mut state = self.state();
        loop {
            if let Some(worker) = state.worker.take() {
                return Some(worker);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.ended {
                self.ask_no_more();
                self.tell(state);
                return None;
            }
            state.waiting += 1;
            (state, _) = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Whether the thread whose worker was taken lends, and does not sleep.
    pub(crate) fn lends(&self) -> bool {
        self.state().lends
    }

    /// Brings a worker back. Returns the wakeups, for [`Slot::wait_for_wakeup`], and whether the thread
    /// lends, and has to be told of nothing.
    pub(crate) fn put_back(&self, worker: T) -> (u64, bool) {
        let mut state = self.state();
        state.worker = Some(worker);
        self.ask_no_more();
        let brought = (state.wakeups, state.lends);
        self.tell(state);
        brought
    }

    /// Waits until the thread, whose bell was rung, was woken since, so that it waits for nothing any more
    /// that is gone.
    pub(crate) fn wait_for_wakeup(&self, wakeups: u64) {
        let mut state = self.state();
        while state.wakeups == wakeups && !state.ended {
            state = self.wait_in(state);
        }
    }

    /// How often the thread was woken.
    #[cfg(test)]
    pub(crate) fn wakeups(&self) -> u64 {
        self.state().wakeups
    }
}

impl<T> std::fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("taken", &self.state().worker.is_some()).finish()
    }
}
