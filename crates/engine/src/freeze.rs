//! Paused instances without what running needs: their guests are frozen, and thawed before they go on.

use crate::fault::Life;
use crate::ids::InstanceId;
use crate::takeover::TakeoverError;
use crate::worker::Worker;
use guest::{Cold, NotFrozen};

impl Worker {
    /// Freezes the guest of an instance that is paused and in no call; one that goes on, or is frozen already, stays as it is.
    /// Says whether it is frozen now.
    pub(crate) fn freeze_instance(&mut self, id: InstanceId) -> Result<bool, TakeoverError> {
        let index = id.index();
        let instance = self.instances.get(index).ok_or(TakeoverError::Absent)?;
        if !instance.paused || instance.suspended.is_some() {
            return Ok(false);
        }
        self.collect(index);
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else { return Ok(false) };
        if guest.is_frozen() {
            return Ok(true);
        }
        instance.counters.ledger.generated += guest.take_generated();
        match std::mem::replace(guest, Box::new(Cold::nobody())).freeze() {
            Ok(frozen) => {
                *guest = Box::new(Cold::new(frozen));
                Ok(true)
            }
            Err(NotFrozen { guest: as_it_was, error }) => {
                *guest = as_it_was;
                Err(error.into())
            }
        }
    }

    /// Thaws the guest of an instance that is about to go on.
    ///
    /// # Errors
    /// Why it cannot run at present; it is frozen as before.
    pub(crate) fn thaw_instance(&mut self, id: InstanceId) -> Result<(), String> {
        if let Some(instance) = self.instances.get_mut(id.index())
            && let Life::Up { guest, .. } = &mut instance.life
            && let Some(warm) = guest.thaw()?
        {
            *guest = warm;
        }
        Ok(())
    }
}
