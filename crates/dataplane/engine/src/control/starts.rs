//! Starts of guests after a fault, beside the workers: a start takes up to seconds, and a worker has other
//! functions.
//!
//! 1. [`Worker::restart_due`] takes the work of a start from the instance's factory and hands it to the
//!    [`Background`], in its tenant's account. The instance is [`Life::Starting`]; its packets go the way of
//!    its fail policy.
//! 2. Elsewhere the work is done, and its outcome left in the [`Start`]. The worker that has the instance is
//!    woken if it sleeps.
//! 3. [`Worker::take_started`], once a turn, looks whether there is an outcome: the guest takes its place,
//!    or the next attempt is scheduled after a longer delay.
//!
//! An instance that is removed, or taken over by another guest, drops its [`Start`]; a guest that comes
//! afterwards is dropped where it was made. Work that is never done, or is called off, counts as a failed
//! start once it is dropped.

use crate::control::events::Event;
use crate::control::fault::Life;
use crate::worker::Worker;
use guest::Guest;
use offload::Offload;
use port::Bell;
use std::sync::{Arc, Mutex, PoisonError};

/// What a start comes to: a guest, or why there is none, in words for the operator.
pub type Started = Result<Box<dyn Guest>, String>;

/// The work of one start, complete in itself.
pub type StartWork = Box<dyn FnOnce() -> Started + Send>;

/// Where work that takes long is done, so that packets do not wait for it.
pub trait Background: Send + Sync {
    /// Takes a job in, for a tenant. Must not wait, and not do the job where the caller is, if the caller is
    /// a packet worker.
    ///
    /// # Errors
    /// Why not, in words for the operator; the job is dropped.
    fn submit(&self, tenant: &str, job: Box<dyn FnOnce() + Send>) -> Result<(), String>;
}

impl Background for Offload {
    fn submit(&self, tenant: &str, job: Box<dyn FnOnce() + Send>) -> Result<(), String> {
        Offload::submit(self, tenant, job).map_err(|refused| refused.to_string())
    }
}

/// Does every job at once: for workers of tests and benchmarks, whose functions start quickly.
pub(crate) struct AtOnce;

impl Background for AtOnce {
    fn submit(&self, _tenant: &str, job: Box<dyn FnOnce() + Send>) -> Result<(), String> {
        job();
        Ok(())
    }
}

/// A start that is under way, as the instance sees it.
pub(crate) struct Start {
    outcome: Mutex<Option<Started>>,
    /// Of the worker that has the instance.
    bell: Mutex<Arc<Bell>>,
}

impl Start {
    fn new(bell: Arc<Bell>) -> Start {
        Start { outcome: Mutex::default(), bell: Mutex::new(bell) }
    }

    /// The outcome, once there is one. One that is being left at this moment is found the next time.
    fn take(&self) -> Option<Started> {
        self.outcome.try_lock().ok()?.take()
    }

    /// Whether there is one.
    fn is_done(&self) -> bool {
        self.outcome.try_lock().is_ok_and(|outcome| outcome.is_some())
    }

    /// The instance is on another worker now.
    pub(crate) fn report_to(&self, bell: Arc<Bell>) {
        *self.bell.lock().unwrap_or_else(PoisonError::into_inner) = bell;
    }
}

/// A start that is under way, as the thread that does the work sees it; empty once its outcome was left.
struct Ticket(Option<Arc<Start>>);

impl Ticket {
    fn leave(&mut self, outcome: Started) {
        let Some(start) = self.0.take() else { return };
        *start.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        // The lock is free by now: a worker that found it taken, and sleeps, is woken.
        let bell = start.bell.lock().unwrap_or_else(PoisonError::into_inner).clone();
        bell.ring_if_asleep();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave(Err("the start was called off".to_owned()));
    }
}

/// Most starts that one turn looks at.
const LOOKED_AT: usize = 64;

impl Worker {
    /// Asks for the start of an instance that is due to be started again.
    pub(crate) fn restart_due(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        let Life::Down { retry_at, next_delay, reason } = &mut instance.life else { return };
        let (retry_at, next_delay) = (*retry_at, *next_delay);
        if retry_at > self.time.now.nanos {
            return self.schedule(index, retry_at);
        }
        let start = Arc::new(Start::new(self.parking.bell.clone()));
        let (mut ticket, work) = (Ticket(Some(start.clone())), instance.factory.work());
        instance.life = Life::Starting { start, next_delay, reason: std::mem::take(reason) };
        let job = Box::new(move || ticket.leave(work()));
        match self.upkeep.background.submit(&instance.owner, job) {
            Ok(()) => self.upkeep.starting.push_back(index),
            Err(reason) => drop(self.take_down(index, next_delay, reason)),
        }
    }

    /// Looks which starts have come to an end. Nothing is waited for.
    pub(crate) fn take_started(&mut self) {
        for _ in 0..self.upkeep.starting.len().min(LOOKED_AT) {
            let Some(index) = self.upkeep.starting.pop_front() else { return };
            let Some(instance) = self.instances.get_mut(index) else { continue };
            let Life::Starting { start, next_delay, .. } = &instance.life else { continue };
            let (outcome, delay) = (start.take(), *next_delay);
            match outcome {
                None => self.upkeep.starting.push_back(index),
                Some(Ok(mut guest)) => {
                    if let Some((max_call, slots)) = instance.bounds {
                        guest.set_limits(max_call, slots);
                    }
                    instance.life = Life::Up { guest, since: self.time.now.nanos, next_delay: delay };
                    instance.counters.restarts += 1;
                    (self.upkeep.tell)(Event::Restarted { instance: instance.name.clone() });
                    // What it said while it was started.
                    self.upkeep.note_call(index, &mut self.instances[index].called);
                    self.give_devices(index);
                    self.after_call(index);
                }
                Some(Err(reason)) => drop(self.take_down(index, delay, reason)),
            }
        }
    }

    /// An instance whose start is under way has come to this worker.
    pub(crate) fn await_start(&mut self, index: usize) {
        if let Life::Starting { start, .. } = &self.instances[index].life {
            start.report_to(self.parking.bell.clone());
            self.upkeep.starting.push_back(index);
        }
    }

    /// Whether a start has come to an end that has not been looked at.
    pub(crate) fn has_started(&self) -> bool {
        let done = |index: &usize| {
            let life = self.instances.get(*index).map(|instance| &instance.life);
            matches!(life, Some(Life::Starting { start, .. }) if start.is_done())
        };
        self.upkeep.starting.iter().any(done)
    }

    /// Gives the memory of a guest back, which takes its time when it is much: not here.
    pub(crate) fn dispose(&self, owner: &str, guest: Box<dyn Guest>) {
        // Where no more is taken in it is dropped at once.
        let _ = self.upkeep.background.submit(owner, Box::new(move || drop(guest)));
    }
}
