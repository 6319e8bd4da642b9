//! What is done to guests beside the workers, on the thread that asks for it: see [`crate::detach`].

use super::state::FleetInstance;
use super::{Change, Fleet, FleetError};
use crate::control::detach::Detached;
use crate::control::events::Stopped;
use crate::control::fault::Life;
use crate::control::takeover::TakeoverError;
use guest::{Cold, GuestFault, NotFrozen};
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

    /// Puts the guest back if its instance is still paused, and says so. One that was resumed meanwhile goes
    /// on without its guest until that is put back in another way.
    fn attach_paused(&mut self) -> Result<bool, TakeoverError> {
        let (instance, Some(detached)) = (self.instance, self.detached.take()) else { return Ok(true) };
        self.detached = self.fleet.change(move |change| change.attach_paused(instance, detached))??;
        Ok(self.detached.is_none())
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
    /// now: one that is not paused is not. One that is resumed while it is being frozen is thawed here before
    /// it goes on, so that its worker never does that.
    ///
    /// # Errors
    /// [`TakeoverError`]; it is as it was.
    pub fn freeze(&self, instance: FleetInstance) -> Result<bool, TakeoverError> {
        let detached = self.change(|change| change.detach_to_freeze(instance))??;
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
        if let Some(error) = failed {
            beside.attach_and(|_| ())?;
            return Err(error.into());
        }
        let is_paused = beside.attach_paused()?;
        if !is_paused {
            if let Some(detached) = beside.detached()
                && let Err(reason) = thaw(detached)
            {
                // It was said to go on: what cannot is started again, beside the workers too.
                detached.end_with(GuestFault::Contract(format!("it cannot be thawed: {reason}")));
            }
            beside.attach_and(|_| ())?;
        }
        Ok(is_paused)
    }

    /// Lets a paused instance go on, whether it is frozen or not. To make a frozen one able to run takes as
    /// long as copying its memory does; it goes on at the moment at which it gets its guest back, so that
    /// nothing freezes it in between.
    ///
    /// # Errors
    /// [`TakeoverError`]; it is paused as before.
    pub fn thaw(&self, instance: FleetInstance) -> Result<(), TakeoverError> {
        let detached = self.change(|change| change.resume_or_detach(instance))??;
        let Some(detached) = detached else { return Ok(()) };
        let mut beside = self.beside(instance, detached);
        match beside.detached().map_or(Ok(()), thaw) {
            Ok(()) => {
                let resumed = beside.attach_and(|change| change.set_paused(instance, false))?;
                resumed.map_err(|_| TakeoverError::Absent)
            }
            Err(reason) => {
                beside.attach_and(|_| ())?;
                Err(TakeoverError::Frozen(reason))
            }
        }
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

/// Makes a guest able to run again.
fn thaw(detached: &mut Detached) -> Result<(), String> {
    if let Some(warm) = detached.guest().thaw()? {
        detached.replace(|_| warm);
    }
    Ok(())
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

    /// Takes the guest of a paused instance out unless it is frozen.
    fn detach_to_freeze(&mut self, instance: FleetInstance) -> Result<Option<Detached>, TakeoverError> {
        let home = self.home(instance)?;
        let worker = self.worker(home.worker);
        let there = worker.instances.get(home.id.index()).ok_or(TakeoverError::Absent)?;
        let is_warm = matches!(&there.life, Life::Up { guest, .. } if !guest.is_frozen());
        if !there.paused || !is_warm {
            return Ok(None);
        }
        worker.detach_guest(home.id).map(Some)
    }

    /// Lets an instance go on, or takes its guest out if that is frozen.
    fn resume_or_detach(&mut self, instance: FleetInstance) -> Result<Option<Detached>, TakeoverError> {
        match self.set_paused(instance, false) {
            Ok(()) => Ok(None),
            Err(FleetError::Frozen { .. }) => self.detach(instance).map(Some),
            Err(_) => Err(TakeoverError::Absent),
        }
    }

    /// Puts a guest into its instance if that is paused; else it comes back.
    fn attach_paused(
        &mut self,
        instance: FleetInstance,
        detached: Detached,
    ) -> Result<Option<Detached>, TakeoverError> {
        let home = self.home(instance)?;
        let there = self.worker(home.worker).instances.get(home.id.index()).ok_or(TakeoverError::Absent)?;
        if !there.paused {
            return Ok(Some(detached));
        }
        self.attach(instance, detached).map(|()| None)
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
