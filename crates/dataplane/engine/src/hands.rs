//! Workers in the hands of a thread that changes something: nothing of them runs meanwhile, so everything may
//! be changed.
//!
//! A worker is taken into hand when it is first touched: from its berth if its thread sleeps, and else when
//! its thread leaves it between two turns. Those that a change does not touch work on. What has to see
//! several workers at one moment gathers them first. All go back when the hands are dropped, if they have not
//! been released before.
//!
//! Only one thread has workers in hand at a time: two that waited for each other's would wait for ever.

use crate::berth::{Asked, Berth};
use crate::worker::Worker;
use port::Bell;
use std::cell::OnceCell;
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::time::Instant;
use telemetry::clock::Nanos;

/// How a worker that has a thread is reached.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) bell: Arc<Bell>,
    pub(crate) berth: Arc<Berth>,
}

impl Remote {
    /// Asks the thread for something, and wakes it if it sleeps.
    pub(crate) fn ask(&self, asked: Asked) {
        self.berth.ask(asked);
        self.bell.ring_if_asleep();
    }
}

/// See the module's documentation.
pub(crate) struct Hands<'a> {
    workers: Vec<OnceCell<Box<Worker>>>,
    /// Those of threads; none if the workers have none, and all are in hand.
    remotes: &'a [Remote],
}

impl<'a> Hands<'a> {
    /// Hands for the workers of these threads, with none of them yet.
    pub(crate) fn empty(remotes: &'a [Remote]) -> Hands<'a> {
        Hands { workers: remotes.iter().map(|_| OnceCell::new()).collect(), remotes }
    }

    /// Workers without threads.
    #[expect(clippy::vec_box, reason = "workers are handed on by their address")]
    pub(crate) fn of(workers: Vec<Box<Worker>>) -> Hands<'static> {
        Hands { workers: workers.into_iter().map(OnceCell::from).collect(), remotes: &[] }
    }

    /// The workers, if they have no threads.
    #[expect(clippy::vec_box, reason = "workers are handed on by their address")]
    pub(crate) fn into_workers(mut self) -> Vec<Box<Worker>> {
        std::mem::take(&mut self.workers).into_iter().filter_map(OnceCell::into_inner).collect()
    }

    /// How many workers there are, in hand or not.
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Those that are in hand.
    #[cfg(test)]
    pub(crate) fn held(&self) -> Vec<usize> {
        (0..self.workers.len()).filter(|number| self.workers[*number].get().is_some()).collect()
    }

    /// Takes one from its berth.
    fn found(&self, number: usize) -> Option<Box<Worker>> {
        let mut worker = self.remotes[number].berth.take()?;
        worker.look_at_clock_asleep();
        Some(worker)
    }

    /// Takes one that has been asked for.
    fn arrived(&self, number: usize) -> Box<Worker> {
        let berth = &self.remotes[number].berth;
        match berth.take_when_here() {
            Some(mut worker) => {
                if !berth.attends() {
                    worker.look_at_clock_asleep();
                }
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

    /// Takes all into hand. They come at the same time, and nothing runs until the hands are dropped.
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

    /// Takes all into hand that come until then; whether all have. Those that have not are not asked for any
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
            let berth = &self.remotes[number].berth;
            if let Some(mut worker) = berth.take_until(until) {
                if !berth.attends() {
                    worker.look_at_clock_asleep();
                }
                let _ = self.workers[number].set(worker);
            }
        }
        (0..self.workers.len()).all(|number| !missing(&number))
    }

    /// Takes these into hand.
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

impl Hands<'_> {
    /// Gives one back before the others. Workers without threads stay in hand.
    pub(crate) fn release(&mut self, number: usize) {
        if let Some(remote) = self.remotes.get(number)
            && let Some(worker) = self.workers[number].take()
        {
            give_back(worker, remote);
        }
    }

    /// Since when the first of those in hand has been stopped: each one's clock stopped when it came.
    pub(crate) fn still_since(&self) -> Option<Nanos> {
        self.workers.iter().filter_map(OnceCell::get).map(|worker| worker.now.nanos).min()
    }
}

/// Brings a worker back to its thread, which is woken if there is something to do.
pub(crate) fn give_back(mut worker: Box<Worker>, remote: &Remote) {
    worker.settle_wires();
    let (wakes, released) = (worker.has_reason_to_wake(), std::mem::take(&mut worker.released));
    let (night, attends) = remote.berth.bring_back(worker);
    if !attends && (wakes || released) {
        remote.bell.ring();
    }
    if released {
        remote.berth.wait_for_morning(night);
    }
}

impl Index<usize> for Hands<'_> {
    type Output = Worker;

    fn index(&self, number: usize) -> &Worker {
        self.take(number)
    }
}

impl IndexMut<usize> for Hands<'_> {
    fn index_mut(&mut self, number: usize) -> &mut Worker {
        self.take(number);
        match self.workers[number].get_mut() {
            Some(worker) => worker,
            None => unreachable!("it was taken into hand just now"),
        }
    }
}

impl Drop for Hands<'_> {
    fn drop(&mut self) {
        for (worker, remote) in self.workers.iter_mut().zip(self.remotes) {
            if let Some(worker) = worker.take() {
                give_back(worker, remote);
            }
        }
    }
}
