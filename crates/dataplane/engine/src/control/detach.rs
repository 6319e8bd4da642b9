//! Guests that are taken out of their instances for a while, so that what takes long is done beside the
//! workers: handing state over, freezing, thawing.
//!
//! 1. [`Worker::detach_guest`], at a quiescent point, puts a [`StandIn`] in the guest's place. The instance
//!    does not run from then on: its packets wait in its queue, and instances that send to it are throttled
//!    as by a full queue. The worker goes on with the others.
//! 2. The thread that detached it works on the [`Detached`] guest for as long as it takes.
//! 3. [`Worker::attach_guest`], at another quiescent point, puts a guest back, and the instance goes on.
//!
//! Packets that the guest holds stay with it and are in flight meanwhile. When its instance is removed, or
//! the workers stop, they are counted as held at stop, and their buffers come back with the guest.

use crate::control::fault::Life;
use crate::control::takeover::TakeoverError;
use crate::ids::InstanceId;
use crate::worker::Worker;
use guest::{Guest, GuestFault, Kept, NotFrozen, Progress, SaveError};
use packet_memory::{Packet, Pool};
use std::sync::Arc;
use telemetry::clock::Moment;

/// A guest that was taken out of its instance. Dropped, it gives its packets' buffers back to their pool; the
/// instance does not run until another guest is attached.
pub struct Detached {
    pub(crate) guest: Option<Box<dyn Guest>>,
    fault: Option<GuestFault>,
    pool: Arc<Pool>,
}

impl Detached {
    /// The guest.
    pub fn guest(&mut self) -> &mut dyn Guest {
        // It is there until it is attached, which takes all of this.
        &mut **self.guest.get_or_insert_with(|| Box::new(StandIn::default()))
    }

    /// Takes the guest away, for another thread to work on; [`Detached::give_back`] is to follow.
    pub fn lend(&mut self) -> Option<Box<dyn Guest>> {
        self.guest.take()
    }

    /// Takes the guest back.
    pub fn give_back(&mut self, guest: Box<dyn Guest>) {
        self.guest = Some(guest);
    }

    /// The guest has ended for this reason: when it is attached, that is its fault.
    pub fn end_with(&mut self, fault: GuestFault) {
        self.fault = Some(fault);
    }

    /// Makes another one of the guest, in its place.
    pub fn replace(&mut self, make: impl FnOnce(Box<dyn Guest>) -> Box<dyn Guest>) {
        self.guest = self.guest.take().map(make);
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        let mut left = Vec::new();
        if let Some(guest) = &mut self.guest {
            guest.surrender(&mut left);
        }
        self.pool.free_batch(left);
    }
}

impl Worker {
    /// Takes the guest of an instance out.
    pub(crate) fn detach_guest(&mut self, id: InstanceId) -> Result<Detached, TakeoverError> {
        let index = id.index();
        self.check_present(id)?;
        self.collect(index);
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else { return Err(TakeoverError::Absent) };
        instance.counters.ledger.generated += std::mem::take(&mut guest.kept_mut().generated);
        instance.detached = Some(guest.kept().packets());
        let mut stand_in =
            StandIn { kept: Kept::nothing(), memory: guest.memory(), frozen: guest.is_frozen() };
        stand_in.kept.counters = guest.kept().counters.clone();
        let guest = std::mem::replace(guest, Box::new(stand_in));
        // Deadlines are looked at when a guest is back.
        instance.due = false;
        let (entity, pool) = (instance.entity, instance.pool);
        self.time.scheduler.deactivate(entity);
        Ok(Detached { guest: Some(guest), fault: None, pool: self.pools[usize::from(pool.0)].clone() })
    }

    /// Puts a guest back. `Err`: its instance has ended, or the workers have.
    pub(crate) fn attach_guest(
        &mut self,
        id: InstanceId,
        mut detached: Detached,
    ) -> Result<(), TakeoverError> {
        let index = id.index();
        let instance = self.instances.get_mut(index).ok_or(TakeoverError::Absent)?;
        let Life::Up { guest: place, .. } = &mut instance.life else { return Err(TakeoverError::Absent) };
        let (Some(_), Some(guest)) = (instance.detached.take(), detached.guest.take()) else {
            return Err(TakeoverError::Absent);
        };
        *place = guest;
        self.upkeep.note_call(index, &mut self.instances[index].called);
        if let Some(fault) = detached.fault.take() {
            self.on_guest_fault(index, &fault, None);
            return Ok(());
        }
        self.give_devices(index);
        self.reschedule(index);
        if self.instances[index].has_work() {
            self.wake_instance(index);
        }
        Ok(())
    }

    /// Whether an instance has its guest, which is in no call.
    pub(crate) fn check_present(&self, id: InstanceId) -> Result<(), TakeoverError> {
        self.check_in_no_call(id)?;
        let instance = &self.instances[id.index()];
        match &instance.life {
            Life::Up { .. } => Ok(()),
            Life::Down { reason, .. } | Life::Starting { reason, .. } => {
                Err(TakeoverError::Down(instance.name.clone(), reason.clone()))
            }
        }
    }

    /// Whether an instance is in no call, and its guest, if it has one, is in its place.
    pub(crate) fn check_in_no_call(&self, id: InstanceId) -> Result<(), TakeoverError> {
        let instance = self.instances.get(id.index()).ok_or(TakeoverError::Absent)?;
        if instance.suspended.is_some() {
            return Err(TakeoverError::Suspended(instance.name.clone()));
        }
        match instance.detached {
            Some(_) => Err(TakeoverError::Detached(instance.name.clone())),
            None => Ok(()),
        }
    }
}

/// Stands in the place of a guest that is elsewhere: it shows what was counted, and is never called.
struct StandIn {
    kept: Kept,
    memory: usize,
    frozen: bool,
}

impl Default for StandIn {
    fn default() -> StandIn {
        StandIn { kept: Kept::nothing(), memory: 0, frozen: false }
    }
}

fn elsewhere<T>() -> Result<T, GuestFault> {
    Err(GuestFault::Contract("it was called while it was detached".to_owned()))
}

impl Guest for StandIn {
    fn process(&mut self, _: &mut [Packet], _: Moment) -> Result<Progress, GuestFault> {
        elsewhere()
    }

    fn observe(&mut self, _: &[Packet], _: Moment) -> Result<(), GuestFault> {
        elsewhere()
    }

    fn kept(&self) -> &Kept {
        &self.kept
    }

    fn kept_mut(&mut self) -> &mut Kept {
        &mut self.kept
    }

    fn timer(&mut self, _: Moment) -> Result<(), GuestFault> {
        elsewhere()
    }

    fn report(&mut self, _: Moment) -> Result<Option<String>, GuestFault> {
        Ok(None)
    }

    fn export_state(&mut self) -> Result<Option<Vec<u8>>, GuestFault> {
        elsewhere()
    }

    fn import_state(&mut self, _: Vec<u8>) -> Result<bool, GuestFault> {
        elsewhere()
    }

    fn memory(&mut self) -> usize {
        self.memory
    }

    fn is_frozen(&self) -> bool {
        self.frozen
    }

    fn freeze(self: Box<Self>) -> Result<Box<dyn guest::Frozen>, NotFrozen> {
        Err(NotFrozen { guest: self, error: SaveError::Unable })
    }
}
