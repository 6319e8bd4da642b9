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
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use telemetry::clock::Nanos;

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
    done: AtomicBool,
    outcome: Mutex<Option<Started>>,
    /// Of the worker that has the instance.
    bell: Mutex<Arc<Bell>>,
}

impl Start {
    fn new(bell: Arc<Bell>) -> Start {
        Start { done: AtomicBool::new(false), outcome: Mutex::default(), bell: Mutex::new(bell) }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Acquire)
    }

    fn outcome(&self) -> MutexGuard<'_, Option<Started>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instance is on another worker now.
    pub(crate) fn report_to(&self, bell: Arc<Bell>) {
        *self.bell.lock().unwrap_or_else(PoisonError::into_inner) = bell;
    }
}

/// A start that is under way, as the thread that does the work sees it.
struct Ticket(Arc<Start>);

impl Ticket {
    fn leave(&self, outcome: Started) {
        *self.0.outcome() = Some(outcome);
        // The lock is free by now: the worker that sees this waits for nothing.
        self.0.done.store(true, Release);
        let bell = self.0.bell.lock().unwrap_or_else(PoisonError::into_inner).clone();
        bell.ring_if_asleep();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.0.is_done() {
            self.leave(Err("the start was called off".to_owned()));
        }
    }
}

/// Most starts that one turn looks at.
const LOOKED_AT: usize = 64;

impl Worker {
    /// Asks for the start of an instance that is due to be started again.
    pub(crate) fn restart_due(&mut self, index: usize) {
        let now = self.time.now.nanos;
        let instance = &mut self.instances[index];
        let Life::Down { retry_at, next_delay, reason } = &mut instance.life else { return };
        if *retry_at > now {
            let retry_at = *retry_at;
            return self.schedule(index, retry_at);
        }
        let start = Arc::new(Start::new(self.parking.bell.clone()));
        let (ticket, work) = (Ticket(start.clone()), instance.factory.work());
        instance.life = Life::Starting { start, next_delay: *next_delay, reason: std::mem::take(reason) };
        let job = Box::new(move || ticket.leave(work()));
        let submitted = self.upkeep.background.submit(&instance.owner, job);
        match submitted {
            Ok(()) => self.upkeep.starting.push_back(index),
            Err(reason) => self.start_failed(index, reason),
        }
    }

    /// Looks which starts have come to an end. Nothing is waited for.
    pub(crate) fn take_started(&mut self) {
        for _ in 0..self.upkeep.starting.len().min(LOOKED_AT) {
            let Some(index) = self.upkeep.starting.pop_front() else { return };
            let Some(instance) = self.instances.get_mut(index) else { continue };
            let Life::Starting { start, next_delay, .. } = &instance.life else { continue };
            if !start.is_done() {
                self.upkeep.starting.push_back(index);
                continue;
            }
            let (outcome, delay) = (start.outcome().take(), *next_delay);
            match outcome.unwrap_or_else(|| Err("the start was called off".to_owned())) {
                Ok(mut guest) => {
                    if let Some((max_call, slots)) = instance.bounds {
                        guest.set_limits(max_call, slots);
                    }
                    instance.life = Life::up(guest, delay, self.time.now.nanos);
                    instance.counters.restarts += 1;
                    let name = instance.name.clone();
                    self.tell(Event::Restarted { instance: name });
                    // What it said while it was started.
                    self.upkeep.note_call(index, &mut self.instances[index].called);
                    self.give_devices(index);
                    self.after_call(index);
                }
                Err(reason) => self.start_failed(index, reason),
            }
        }
    }

    /// The next attempt is made after a while, each time a longer one.
    fn start_failed(&mut self, index: usize, reason: String) {
        let now = self.time.now.nanos;
        let instance = &mut self.instances[index];
        let Life::Starting { next_delay, .. } = &instance.life else { return };
        let (delay, longest) = (*next_delay, instance.restart.longest_delay);
        let retry_at = now.saturating_add(delay);
        let next_delay = Nanos(delay.0.saturating_mul(2)).min(longest);
        instance.life = Life::Down { retry_at, next_delay, reason: reason.clone() };
        let name = instance.name.clone();
        self.schedule(index, retry_at);
        self.tell(Event::Fault { instance: name, reason, retry_after: delay });
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
