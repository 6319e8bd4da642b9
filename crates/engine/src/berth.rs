//! Where a worker lies while its thread sleeps in the kernel: whoever has something to change finds it there, and wakes nobody.
//!
//! 1. The thread puts its worker here, and sleeps.
//! 2. Whoever calls a meeting takes it from here, does what is to be done, and brings it back. If there is something to do for the
//!    worker now, or something else to wait for, its bell is rung.
//! 3. The thread awakes, whatever woke it, and takes its worker again, or waits until it has been brought back.
//!
//! As everywhere, a worker is a value that one thread has at a time.

use crate::worker::Worker;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Place {
    worker: Option<Box<Worker>>,
    /// How often the thread has got up.
    nights: u64,
    /// How many wait for a change here.
    waiting: u32,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Berth {
    place: Mutex<Place>,
    changed: Condvar,
}

impl Berth {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread is about to sleep.
    pub(crate) fn lie_down(&self, worker: Box<Worker>) {
        self.place().worker = Some(worker);
    }

    /// The thread is awake again.
    pub(crate) fn get_up(&self) -> Box<Worker> {
        let mut place = self.place();
        loop {
            if let Some(worker) = place.worker.take() {
                place.nights += 1;
                self.tell(place);
                return worker;
            }
            place = self.wait_in(place);
        }
    }

    fn wait_in<'a>(&self, mut place: MutexGuard<'a, Place>) -> MutexGuard<'a, Place> {
        place.waiting += 1;
        let mut place = self.changed.wait(place).unwrap_or_else(PoisonError::into_inner);
        place.waiting -= 1;
        place
    }

    /// Wakes whoever waits for a change; nobody usually does, and a system call is saved.
    fn tell(&self, place: MutexGuard<'_, Place>) {
        let waiting = place.waiting;
        drop(place);
        if waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// How often the thread has got up.
    #[cfg(test)]
    pub(crate) fn nights(&self) -> u64 {
        self.place().nights
    }

    /// Takes the worker while its thread sleeps; `None`: it does not.
    pub(crate) fn borrow(&self) -> Option<Box<Worker>> {
        self.place().worker.take()
    }

    /// Brings a borrowed worker back. What is returned is for [`Berth::wait`].
    pub(crate) fn bring_back(&self, worker: Box<Worker>) -> u64 {
        let mut place = self.place();
        place.worker = Some(worker);
        let night = place.nights;
        self.tell(place);
        night
    }

    /// Waits until the thread, whose bell was rung, has got up since, so that it waits for nothing any more that is gone.
    pub(crate) fn wait(&self, night: u64) {
        let mut place = self.place();
        while place.nights == night {
            place = self.wait_in(place);
        }
    }
}

impl std::fmt::Debug for Berth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Berth").field("taken", &self.place().worker.is_some()).finish()
    }
}

/// Workers in the hands of whoever called a meeting, who brings them back however it goes.
pub(crate) struct Borrowed {
    #[expect(clippy::vec_box, reason = "workers are handed on by their address")]
    workers: Vec<Box<Worker>>,
}

impl Borrowed {
    /// Workers that were borrowed just now.
    #[expect(clippy::vec_box, reason = "workers are handed on by their address")]
    pub(crate) fn new(mut workers: Vec<Box<Worker>>) -> Borrowed {
        workers.iter_mut().for_each(|worker| worker.look_at_clock_asleep());
        Borrowed { workers }
    }

    /// All of them, in the order of their numbers.
    #[expect(clippy::vec_box, reason = "workers are handed on by their address")]
    pub(crate) fn workers(&mut self) -> &mut Vec<Box<Worker>> {
        &mut self.workers
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        for mut worker in self.workers.drain(..) {
            let (wakes, released) = (worker.has_reason_to_wake(), std::mem::take(&mut worker.released));
            let (berth, bell) = (worker.berth.clone(), worker.bell());
            let night = berth.bring_back(worker);
            if wakes || released {
                bell.ring();
            }
            if released {
                berth.wait(night);
            }
        }
    }
}
