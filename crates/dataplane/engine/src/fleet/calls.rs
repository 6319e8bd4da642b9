//! What is asked of a fleet that works: pauses, claims and moves.

use super::state::{End, FleetInstance};
use super::{Fleet, FleetError};
use cpu_share::Claim;
use std::sync::Arc;
use telemetry::clock::Nanos;

/// What was moved, and for how long the workers were stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Ports and instances that are now on another worker.
    pub parts: usize,
    /// From when the first worker was stopped until all went on.
    pub stood_still: Nanos,
}

impl Fleet {
    /// Pauses an instance: packets wait in its queue, and what finds no room there is its loss.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn pause(&self, instance: FleetInstance) -> Result<(), FleetError> {
        self.with(move |workers, state| {
            if let Some(home) = state.instance(instance) {
                workers[home.worker].pause(home.id);
            }
        })
    }

    /// Lets a paused instance go on.
    ///
    /// # Errors
    /// See [`Change::set_paused`](super::Change::set_paused), or [`FleetError::Stopped`].
    pub fn resume(&self, instance: FleetInstance) -> Result<(), FleetError> {
        self.change(move |change| change.set_paused(instance, false))?
    }

    /// Changes an instance's claim on its worker.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn set_claim(&self, instance: FleetInstance, claim: Claim) -> Result<(), FleetError> {
        self.with(move |workers, state| {
            if let Some(home) = state.instance(instance) {
                workers[home.worker].set_claim(home.id, claim);
            }
        })
    }

    /// What each of these instances reads of the devices behind its interfaces from now on, see
    /// `nf_abi::stream::DEVICES`. Their workers come to a stop once for all of them.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn set_devices(&self, told: Vec<(FleetInstance, Arc<[u8]>)>) -> Result<(), FleetError> {
        self.with(move |workers, state| {
            for (instance, entries) in told {
                if let Some(home) = state.instance(instance) {
                    workers[home.worker].set_devices(home.id, entries);
                }
            }
        })
    }

    /// Moves ports and instances, with their queues and standing, to a worker. Observers come along with what
    /// they observe, and the reverse. No packet is lost or overtaken: what was on its way to them arrives
    /// before what is sent afterwards.
    ///
    /// # Errors
    /// [`FleetError`], and nothing is moved.
    pub fn move_to(&self, parts: &[End], worker: usize) -> Result<Moved, FleetError> {
        self.check(worker)?;
        let (parts, clock) = (parts.to_vec(), self.clock);
        self.with(move |workers, state| {
            workers.gather();
            let first = workers.still_since().unwrap_or_default();
            let parts = state.move_to(workers, &parts, worker)?;
            Ok(Moved { parts, stood_still: clock.now().since(first) })
        })?
    }

    /// Whether all sources have come to their end and nothing is on its way.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn finished(&self) -> Result<bool, FleetError> {
        self.with(|workers, _| {
            let told: Vec<_> = workers.iter_mut().map(|worker| worker.finished()).collect();
            told.contains(&Some(true)) && !told.contains(&Some(false))
        })
    }
}
