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

use crate::worker::Worker;
use std::sync::atomic::{AtomicU8, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread polls for the other before it sleeps. No third thread is let in meanwhile: on a busy
/// machine that could take long.
const LOOK: Duration = Duration::from_micros(20);

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

#[derive(Default)]
struct Place {
    worker: Option<Box<Worker>>,
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
#[derive(Default)]
pub(crate) struct WorkerSlot {
    place: Mutex<Place>,
    changed: Condvar,
    asked: AtomicU8,
}

impl WorkerSlot {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_in<'a>(&self, mut place: MutexGuard<'a, Place>) -> MutexGuard<'a, Place> {
        place.waiting += 1;
        let mut place = self.changed.wait(place).unwrap_or_else(PoisonError::into_inner);
        place.waiting -= 1;
        place
    }

    /// Wakes the threads that wait for a change; usually there is none, and a system call is saved.
    fn tell(&self, place: MutexGuard<'_, Place>) {
        let waiting = place.waiting;
        drop(place);
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

    /// The thread is about to sleep, and leaves its worker.
    pub(crate) fn park(&self, worker: Box<Worker>) {
        self.leave(worker, false);
    }

    fn leave(&self, worker: Box<Worker>, lends: bool) {
        let mut place = self.place();
        (place.worker, place.lends) = (Some(worker), lends);
        self.tell(place);
    }

    /// The thread is awake again, and takes its worker as soon as no other thread wants it.
    pub(crate) fn unpark(&self) -> Box<Worker> {
        let mut place = self.place();
        loop {
            if self.asked.load(Acquire) != Asked::Worker as u8
                && let Some(worker) = place.worker.take()
            {
                place.wakeups += 1;
                self.tell(place);
                return worker;
            }
            place = self.wait_in(place);
        }
    }

    /// The thread, which works, was asked for its worker: leaves it here until it is brought back.
    pub(crate) fn lend(&self, worker: Box<Worker>) -> Box<Worker> {
        self.leave(worker, true);
        let began = Instant::now();
        while self.asked.load(Acquire) == Asked::Worker as u8 && began.elapsed() < LOOK {
            std::hint::spin_loop();
        }
        self.unpark()
    }

    /// The thread ends.
    pub(crate) fn end(&self) {
        let mut place = self.place();
        place.ended = true;
        self.tell(place);
    }

    /// Asks the thread for something. Its bell is to be rung then.
    pub(crate) fn ask(&self, asked: Asked) {
        self.asked.store(asked as u8, Release);
    }

    /// Takes the worker if it is here.
    pub(crate) fn take(&self) -> Option<Box<Worker>> {
        self.place().worker.take()
    }

    /// Takes the worker, which has been asked for, as soon as it is here; `None`: its thread has ended.
    pub(crate) fn take_when_here(&self) -> Option<Box<Worker>> {
        let began = Instant::now();
        while began.elapsed() < LOOK {
            if let Some(worker) = self.take() {
                return Some(worker);
            }
            std::hint::spin_loop();
        }
        let mut place = self.place();
        loop {
            match place.worker.take() {
                Some(worker) => return Some(worker),
                None if place.ended => return None,
                None => place = self.wait_in(place),
            }
        }
    }

    /// The same until `until`. A worker that has not come by then is not asked for any more: its thread keeps
    /// it, or takes it again.
    pub(crate) fn take_until(&self, until: Instant) -> Option<Box<Worker>> {
        let mut place = self.place();
        loop {
            if let Some(worker) = place.worker.take() {
                return Some(worker);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || place.ended {
                let (asked, nothing) = (Asked::Worker as u8, Asked::Nothing as u8);
                // It may have been asked to end.
                let _ = self.asked.compare_exchange(asked, nothing, Release, Relaxed);
                self.tell(place);
                return None;
            }
            place.waiting += 1;
            (place, _) = self.changed.wait_timeout(place, left).unwrap_or_else(PoisonError::into_inner);
            place.waiting -= 1;
        }
    }

    /// Whether the thread whose worker was taken lends, and does not sleep.
    pub(crate) fn lends(&self) -> bool {
        self.place().lends
    }

    /// Brings a worker back. Returns the wakeups, for [`WorkerSlot::wait_for_wakeup`], and whether the thread
    /// lends, and has to be told of nothing.
    pub(crate) fn put_back(&self, worker: Box<Worker>) -> (u64, bool) {
        let mut place = self.place();
        place.worker = Some(worker);
        if self.asked() == Asked::Worker {
            self.asked.store(Asked::Nothing as u8, Release);
        }
        let brought = (place.wakeups, place.lends);
        self.tell(place);
        brought
    }

    /// Waits until the thread, whose bell was rung, was woken since, so that it waits for nothing any more
    /// that is gone.
    pub(crate) fn wait_for_wakeup(&self, wakeups: u64) {
        let mut place = self.place();
        while place.wakeups == wakeups && !place.ended {
            place = self.wait_in(place);
        }
    }

    /// How often the thread was woken.
    #[cfg(test)]
    pub(crate) fn wakeups(&self) -> u64 {
        self.place().wakeups
    }
}

impl std::fmt::Debug for WorkerSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerSlot").field("taken", &self.place().worker.is_some()).finish()
    }
}
