//! What is done to guests beside the workers, on the thread that asks for it: see [`crate::detach`].

use super::state::FleetInstance;
use super::{Change, Fleet};
use crate::control::detach::Detached;
use crate::control::events::Stopped;
use crate::control::fault::Life;
use crate::control::takeover::TakeoverError;
use guest::{Cold, NotFrozen};
use snapshot::Saved;

/// A detached guest that goes back into its instance, at the latest when this is dropped.
pub struct Beside<'a> {
    fleet: &'a Fleet,
    instance: FleetInstance,
    detached: Option<Detached>,
}

impl Beside<'_> {
    /// The guest that is beside the workers; `None` when it has gone back.
    pub fn detached(&mut self) -> Option<&mut Detached> {
        self.detached.as_mut()
    }

    /// Puts the guest back and does something else at the same quiescent point.
    ///
    /// # Errors
    /// [`TakeoverError`]: there is no instance for it any more, and nothing else was done.
    pub fn attach_and<R>(mut self, then: impl FnOnce(&mut Change<'_, '_>) -> R) -> Result<R, TakeoverError> {
        let (instance, detached) = (self.instance, self.detached.take());
        self.fleet.change(move |change| {
            if let Some(detached) = detached {
                change.attach(instance, detached)?;
            }
            Ok(then(change))
        })?
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        let (instance, Some(detached)) = (self.instance, self.detached.take()) else { return };
        // When there is no instance for it any more, it ends here.
        let _ = self.fleet.change(move |change| change.attach(instance, detached).is_ok());
    }
}

impl Fleet {
    /// Looks after a guest that was detached.
    pub fn beside(&self, instance: FleetInstance, detached: Detached) -> Beside<'_> {
        Beside { fleet: self, instance, detached: Some(detached) }
    }

    /// Gives up what a paused instance needs to run, and keeps what it is, which takes as long as copying
    /// what the function has touched of its memory. It is thawed before it goes on. Says whether it is frozen
    /// now: one that is not paused is not.
    ///
    /// # Errors
    /// [`TakeoverError`]; it is as it was.
    pub fn freeze(&self, instance: FleetInstance) -> Result<bool, TakeoverError> {
        let detached = self.change(|change| change.detach_paused(instance, false))??;
        let Some(detached) = detached else {
            return Ok(self.change(|change| change.is_frozen(instance))?);
        };
        let mut beside = self.beside(instance, detached);
        let mut failed = None;
        if let Some(detached) = beside.detached() {
            detached.replace(|guest| match guest.freeze() {
                Ok(frozen) => Box::new(Cold::new(frozen)),
                Err(NotFrozen { guest, error }) => {
                    failed = Some(error);
                    guest
                }
            });
        }
        beside.attach_and(|_| ())?;
        failed.map_or(Ok(true), |error| Err(error.into()))
    }

    /// Makes a frozen instance able to run again, which takes as long as it takes to copy its memory. It
    /// stays paused.
    ///
    /// # Errors
    /// [`TakeoverError`]; it is frozen as before.
    pub fn thaw(&self, instance: FleetInstance) -> Result<(), TakeoverError> {
        let detached = self.change(|change| change.detach_paused(instance, true))??;
        let Some(detached) = detached else { return Ok(()) };
        let mut beside = self.beside(instance, detached);
        let mut failed = None;
        if let Some(detached) = beside.detached() {
            match detached.guest().thaw() {
                Ok(Some(warm)) => detached.replace(|_| warm),
                Ok(None) => {}
                Err(reason) => failed = Some(reason),
            }
        }
        beside.attach_and(|_| ())?;
        failed.map_or(Ok(()), |reason| Err(TakeoverError::Frozen(reason)))
    }

    /// Whether an instance is frozen.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn is_frozen(&self, instance: FleetInstance) -> Result<bool, Stopped> {
        self.change(|change| change.is_frozen(instance))
    }

    /// Everything that an instance is now, what waits for it included, without its help. It stands still for
    /// as long as it takes to copy what the function has touched of its memory, and goes on.
    ///
    /// # Errors
    /// [`TakeoverError`].
    pub fn save(&self, instance: FleetInstance) -> Result<Saved<'static>, TakeoverError> {
        let detached = self.change(|change| change.detach(instance))??;
        let mut beside = self.beside(instance, detached);
        let saved = beside.detached().map(|detached| detached.guest().save());
        beside.attach_and(|change| {
            let mut saved = saved.ok_or(TakeoverError::Absent)??;
            let home = change.home(instance)?;
            change.worker(home.worker).save_rest(home.id, &mut saved)?;
            Ok(saved)
        })?
    }
}

impl Change<'_, '_> {
    /// Whether an instance has its guest, which is in no call.
    ///
    /// # Errors
    /// [`TakeoverError`]: why not.
    pub fn check_present(&mut self, instance: FleetInstance) -> Result<(), TakeoverError> {
        let home = self.home(instance)?;
        self.worker(home.worker).check_present(home.id)
    }

    /// Takes the guest of an instance out, which stands still until one is attached.
    ///
    /// # Errors
    /// [`TakeoverError`]; it is as it was.
    pub fn detach(&mut self, instance: FleetInstance) -> Result<Detached, TakeoverError> {
        let home = self.home(instance)?;
        self.worker(home.worker).detach_guest(home.id)
    }

    /// Takes the guest of a paused instance out if it is frozen, or is not.
    fn detach_paused(
        &mut self,
        instance: FleetInstance,
        frozen: bool,
    ) -> Result<Option<Detached>, TakeoverError> {
        let home = self.home(instance)?;
        let worker = self.worker(home.worker);
        let there = worker.instances.get(home.id.index()).ok_or(TakeoverError::Absent)?;
        let is_frozen = matches!(&there.life, Life::Up { guest, .. } if guest.is_frozen());
        let is_up = matches!(there.life, Life::Up { .. });
        if !there.paused || !is_up || is_frozen != frozen {
            return Ok(None);
        }
        worker.detach_guest(home.id).map(Some)
    }

    /// Whether an instance is frozen.
    fn is_frozen(&mut self, instance: FleetInstance) -> bool {
        let Ok(home) = self.home(instance) else { return false };
        let there = self.worker(home.worker).instances.get(home.id.index());
        there.is_some_and(
            |there| matches!(&there.life, Life::Up { guest, .. } if there.paused && guest.is_frozen()),
        )
    }

    /// Puts a guest into the instance that it, or another one, was taken out of.
    ///
    /// # Errors
    /// [`TakeoverError::Absent`]: the instance has ended, or is not without its guest.
    pub fn attach(&mut self, instance: FleetInstance, detached: Detached) -> Result<(), TakeoverError> {
        let home = self.home(instance)?;
        self.worker(home.worker).attach_guest(home.id, detached)
    }
}

impl From<Stopped> for TakeoverError {
    fn from(_: Stopped) -> TakeoverError {
        TakeoverError::Stopped
    }
}
