//! Quiesced workers: nothing of them runs while a thread has them here, so that it may change everything.
//!
//! A worker is quiesced when it is first touched: taken from its slot if its thread sleeps, and else when
//! its thread lends it between two turns. Those that a change does not touch work on. What has to see
//! several workers at one moment gathers them first. All go back when this is dropped, if they have not been
//! released before.
//!
//! Only one thread has quiesced workers at a time: two that waited for each other's would wait for ever.

use crate::parking::WorkerSlot;
use crate::parking::slot::Asked;
use crate::worker::Worker;
use port::Bell;
use std::cell::OnceCell;
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::time::Instant;
use telemetry::clock::Nanos;

/// What the present thread does to workers that have threads, for tests of what is done meanwhile.
#[cfg(test)]
pub(crate) mod here {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local! {
        static EVER: Cell<u64> = const { Cell::new(0) };
        static NOW: Cell<usize> = const { Cell::new(0) };
        static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
        static LASTED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// How often it has quiesced one.
    pub(crate) fn ever() -> u64 {
        EVER.get()
    }

    /// How many of them are quiesced by it now.
    pub(crate) fn now() -> usize {
        NOW.get()
    }

    /// How long it was from the first one that it quiesced last until all went on.
    pub(crate) fn lasted() -> Duration {
        LASTED.get()
    }

    pub(super) fn took_one() {
        if NOW.get() == 0 {
            SINCE.set(Some(Instant::now()));
        }
        EVER.set(EVER.get() + 1);
        NOW.set(NOW.get() + 1);
    }

    pub(super) fn gave_one_back() {
        NOW.set(NOW.get() - 1);
        if NOW.get() == 0 {
            LASTED.set(SINCE.get().map_or(Duration::ZERO, |since| since.elapsed()));
        }
    }
}

/// How a worker that has a thread is reached.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) bell: Arc<Bell>,
    pub(crate) slot: Arc<WorkerSlot>,
}

impl Remote {
    /// Asks the thread for something, and wakes it if it sleeps.
    pub(crate) fn ask(&self, asked: Asked) {
        self.slot.ask(asked);
        self.bell.ring_if_asleep();
    }
}

/// See the module's documentation.
pub(crate) struct Quiesced<'a> {
    workers: Vec<OnceCell<Box<Worker>>>,
    /// Those of threads; none if the workers have none, and all are here.
    remotes: &'a [Remote],
}

impl<'a> Quiesced<'a> {
    /// For the workers of these threads, with none of them quiesced yet.
    pub(crate) fn empty(remotes: &'a [Remote]) -> Quiesced<'a> {
        Quiesced { workers: remotes.iter().map(|_| OnceCell::new()).collect(), remotes }
    }

    /// Workers without threads.
    #[expect(clippy::vec_box, reason = "workers are handed on by their address")]
    pub(crate) fn of(workers: Vec<Box<Worker>>) -> Quiesced<'static> {
        Quiesced { workers: workers.into_iter().map(OnceCell::from).collect(), remotes: &[] }
    }

    /// The workers, if they have no threads.
    #[expect(clippy::vec_box, reason = "workers are handed on by their address")]
    pub(crate) fn into_workers(mut self) -> Vec<Box<Worker>> {
        std::mem::take(&mut self.workers).into_iter().filter_map(OnceCell::into_inner).collect()
    }

    /// How many workers there are, quiesced or not.
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Those that are quiesced.
    #[cfg(test)]
    pub(crate) fn held(&self) -> Vec<usize> {
        (0..self.workers.len()).filter(|number| self.workers[*number].get().is_some()).collect()
    }

    /// Takes one from its slot.
    fn found(&self, number: usize) -> Option<Box<Worker>> {
        let mut worker = self.remotes[number].slot.take()?;
        worker.time.restart_asleep();
        #[cfg(test)]
        here::took_one();
        Some(worker)
    }

    /// Takes one that has been asked for.
    fn arrived(&self, number: usize) -> Box<Worker> {
        let slot = &self.remotes[number].slot;
        match slot.take_when_here() {
            Some(mut worker) => {
                if !slot.lends() {
                    worker.time.restart_asleep();
                }
                #[cfg(test)]
                here::took_one();
                worker
            }
            None => {
                panic!("the thread of worker {number} has ended, which it does only when the fleet stops")
            }
        }
    }

    fn take(&self, number: usize) -> &Worker {
        self.workers[number].get_or_init(|| {
            self.found(number).unwrap_or_else(|| {
                self.remotes[number].ask(Asked::Worker);
                self.arrived(number)
            })
        })
    }

    /// Quiesces all. They come at the same time, and nothing runs until this is dropped.
    pub(crate) fn gather(&self) {
        let mut asked = Vec::new();
        for (number, worker) in self.workers.iter().enumerate() {
            if worker.get().is_some() {
                continue;
            }
            match self.found(number) {
                Some(found) => drop(worker.set(found)),
                None => {
                    self.remotes[number].ask(Asked::Worker);
                    asked.push(number);
                }
            }
        }
        for number in asked {
            self.workers[number].get_or_init(|| self.arrived(number));
        }
    }

    /// Quiesces all that come until then; whether all have. Those that have not are not asked for any
    /// more.
    pub(crate) fn gather_until(&self, until: Instant) -> bool {
        let missing = |number: &usize| self.workers[*number].get().is_none();
        let mut asked = Vec::new();
        for number in (0..self.workers.len()).filter(missing) {
            match self.found(number) {
                Some(found) => drop(self.workers[number].set(found)),
                None => {
                    self.remotes[number].ask(Asked::Worker);
                    asked.push(number);
                }
            }
        }
        for number in asked {
            let slot = &self.remotes[number].slot;
            if let Some(mut worker) = slot.take_until(until) {
                if !slot.lends() {
                    worker.time.restart_asleep();
                }
                #[cfg(test)]
                here::took_one();
                let _ = self.workers[number].set(worker);
            }
        }
        (0..self.workers.len()).all(|number| !missing(&number))
    }

    /// Quiesces these.
    pub(crate) fn hold(&self, numbers: &[usize]) {
        for number in numbers {
            self.take(*number);
        }
    }

    /// All of them, gathered, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Worker> {
        self.gather();
        self.workers.iter().filter_map(OnceCell::get).map(|worker| &**worker)
    }

    /// All of them, gathered, in the order of their numbers.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Worker> {
        self.gather();
        self.workers.iter_mut().filter_map(OnceCell::get_mut).map(|worker| &mut **worker)
    }
}

impl Quiesced<'_> {
    /// Gives one back before the others. Workers without threads stay.
    pub(crate) fn release(&mut self, number: usize) {
        if let Some(remote) = self.remotes.get(number)
            && let Some(worker) = self.workers[number].take()
        {
            give_back(worker, remote);
            #[cfg(test)]
            here::gave_one_back();
        }
    }

    /// Since when the first of the quiesced ones has been stopped: each one's clock stopped when it came.
    pub(crate) fn still_since(&self) -> Option<Nanos> {
        self.workers.iter().filter_map(OnceCell::get).map(|worker| worker.time.now.nanos).min()
    }
}

/// Brings a worker back to its thread, which is woken if there is something to do.
pub(crate) fn give_back(mut worker: Box<Worker>, remote: &Remote) {
    worker.signal_wires();
    let (wakes, released) = (worker.has_reason_to_wake(), std::mem::take(&mut worker.parking.released));
    let (wakeups, lends) = remote.slot.put_back(worker);
    if !lends && (wakes || released) {
        remote.bell.ring();
    }
    if released {
        remote.slot.wait_for_wakeup(wakeups);
    }
}

impl Index<usize> for Quiesced<'_> {
    type Output = Worker;

    fn index(&self, number: usize) -> &Worker {
        self.take(number)
    }
}

impl IndexMut<usize> for Quiesced<'_> {
    fn index_mut(&mut self, number: usize) -> &mut Worker {
        self.take(number);
        match self.workers[number].get_mut() {
            Some(worker) => worker,
            None => unreachable!("it was taken just now"),
        }
    }
}

impl Drop for Quiesced<'_> {
    fn drop(&mut self) {
        for (worker, remote) in self.workers.iter_mut().zip(self.remotes) {
            if let Some(worker) = worker.take() {
                give_back(worker, remote);
                #[cfg(test)]
                here::gave_one_back();
            }
        }
    }
}
