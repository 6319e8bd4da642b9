//! What is done to a function that runs: pause and resume, a new beginning, another image, a snapshot.

use crate::Host;
use crate::catalog::Catalog;
use crate::function::StartedFunction;
use crate::parts::own_pool;
use crate::prepare::{PrepareError, failed};
use clock::Nanos;
use engine::{FleetError, FleetInstance, GuestSetup, InstanceAccount, PortAccount, TakeoverError};
use guest::GuestFault;
use guest_wasm::{Slice, watchdog};
use snapshot::Saved;
use std::time::{Duration, Instant};
use wiring::{Instance, InstancePool};

/// A function that another guest has taken over, with the one before kept aside.
pub struct TakenOver {
    name: String,
    id: FleetInstance,
    before: GuestSetup,
    /// What the wiring said of it.
    instance: Instance,
    /// It goes on with the memory of the one before, which it lays out alike.
    pub moved: bool,
    /// Whether it had state, and the new one has it now.
    pub state_carried: bool,
    /// For how long its worker did nothing else.
    pub stood_still: Nanos,
}

/// Another guest in the place of one.
struct Succession {
    before: GuestSetup,
    carried: bool,
    moved: bool,
    stood_still: Nanos,
}

/// Memory of a new guest that is made ready however little the one before uses.
const AS_WELL: u64 = 1 << 20;

impl Host {
    /// Lets a function stand still, or go on. Says whether there is one of this name.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn set_paused(&self, name: &str, paused: bool) -> Result<bool, FleetError> {
        let Some(id) = self.function(name) else { return Ok(false) };
        self.fleet.change(|change| change.set_paused(id, paused))??;
        let mut parts = self.parts();
        if paused {
            parts.paused.entry(name.to_owned()).or_insert_with(Instant::now);
        } else {
            parts.paused.remove(name);
        }
        Ok(true)
    }

    /// Freezes functions that have been paused for so long, `most` of them at once, and says how many it were. What runs on the same
    /// worker waits for one of them at a time.
    pub fn freeze_paused(&self, since: Duration, most: usize) -> usize {
        let due: Vec<(String, FleetInstance)> = {
            let parts = self.parts();
            let long = parts.paused.iter().filter(|(_, began)| began.elapsed() >= since);
            let known = long.filter_map(|(name, _)| Some((name.clone(), *parts.instances.get(name)?)));
            known.take(most).collect()
        };
        for (name, id) in &due {
            // One that cannot be frozen, as in the middle of a call, stays paused as it is; the next pause tries again.
            let _ = self.fleet.change(|change| change.freeze(*id));
            self.parts().paused.remove(name);
        }
        due.len()
    }

    /// Starts a function anew, without what it knew. Packets that it held are shown to it again.
    ///
    /// # Errors
    /// [`PrepareError`]; it runs on as it was.
    pub fn restart(&self, name: &str, catalog: &Catalog) -> Result<(), PrepareError> {
        let id =
            self.function(name).ok_or_else(|| failed("function", name)(&"there is none of this name"))?;
        let instance = self.parts().wiring.instances.get(name).cloned();
        let instance = instance.ok_or_else(|| failed("function", name)(&"there is none of this name"))?;
        let started = self.start_beside(name, &instance, catalog)?.taking_over();
        let swapped = self.fleet.change(move |change| change.swap_guest(id, started));
        let swapped = swapped.map_err(|error| failed("function", name)(&error))?;
        // The one before gives its memory back here, where nobody waits for it.
        swapped.map(drop).map_err(|error| failed("function", name)(&error))
    }

    /// Lets a function of another image, or with another configuration, take over between two batches, with the state that the
    /// one before gives and the new one takes. Nothing but image and configuration may differ.
    ///
    /// # Errors
    /// [`PrepareError`]; it runs on as it was.
    pub fn take_over(
        &self,
        name: &str,
        instance: &Instance,
        catalog: &Catalog,
    ) -> Result<TakenOver, PrepareError> {
        let absent = || failed("function", name)(&"there is none of this name");
        let id = self.function(name).ok_or_else(absent)?;
        let before = self.parts().wiring.instances.get(name).cloned().ok_or_else(absent)?;
        if before.interfaces != instance.interfaces {
            return Err(failed("function", name)(&format!(
                "the new image has {} interfaces; allowed: {}, as many as the one before",
                instance.interfaces, before.interfaces
            )));
        }
        let mut started = self.start_beside(name, instance, catalog)?;
        if before.config != instance.config
            || !started.is_laid_out_as(self.workshop.program(catalog, &before.image))
        {
            self.expect_state(name, &mut started);
        }
        let started = started.taking_over();
        let swapped = self.fleet.change(move |change| {
            let since = change.still_since(id);
            let done = |before, carried, moved| {
                let stood_still = watchdog::clock().now().since(since.unwrap_or_default());
                Ok(Some(Succession { before, carried, moved, stood_still }))
            };
            // Whoever lays out its memory alike goes on with it as it is; others are told what the one before knows.
            let mut started = match change.succeed_guest(id, started)? {
                Ok(before) => return done(before, true, true),
                Err(started) => started,
            };
            let state = change.export_state(id)?;
            let carried = state.is_some();
            let taken = match (state, &mut started.guest) {
                (Some(state), Some(guest)) => guest.import_state(state)?,
                _ => true,
            };
            if !taken {
                return Ok(None);
            }
            done(change.swap_guest(id, started)?, carried, false)
        });
        let swapped: Result<_, TakeoverError> = swapped.map_err(|error| failed("function", name)(&error))?;
        match swapped.map_err(|error| failed("function", name)(&error))? {
            Some(Succession { before: guest, carried: state_carried, moved, stood_still }) => {
                self.parts().put_instance(name, instance.clone());
                Ok(TakenOver {
                    name: name.to_owned(),
                    id,
                    before: guest,
                    instance: before,
                    moved,
                    state_carried,
                    stood_still,
                })
            }
            None => Err(failed("function", name)(
                &"the new image does not take the state that the one before has given",
            )),
        }
    }

    /// Lets the guest that was kept aside take over again.
    ///
    /// # Errors
    /// [`PrepareError`]; the new one stays.
    pub fn roll_back(&self, taken: TakenOver) -> Result<(), PrepareError> {
        let TakenOver { name, id, before, instance, moved, .. } = taken;
        let swapped = self.fleet.change(move |change| {
            if !moved {
                return change.swap_guest(id, before);
            }
            let back = change.succeed_guest(id, before)?;
            back.map_err(|_| GuestFault::Contract("its memory does not come back".to_owned()).into())
        });
        let swapped = swapped.map_err(|error| failed("function", &name)(&error))?;
        swapped.map_err(|error| failed("function", &name)(&error))?;
        self.parts().put_instance(&name, instance);
        Ok(())
    }

    /// Everything that a function is now, and the packets that it has. It goes on.
    ///
    /// # Errors
    /// [`PrepareError`].
    pub fn save(&self, name: &str) -> Result<Saved<'static>, PrepareError> {
        let id =
            self.function(name).ok_or_else(|| failed("function", name)(&"there is none of this name"))?;
        let saved = self.fleet.change(move |change| change.save(id));
        let saved = saved.map_err(|error| failed("function", name)(&error))?;
        saved.map_err(|error| failed("function", name)(&error))
    }

    /// The account of one function, read without its worker; see [`engine::Fleet::counters_of`].
    pub fn account_of(&self, name: &str) -> Option<InstanceAccount> {
        let id = self.function(name)?;
        self.fleet.counters_of(id)
    }

    /// The account of one port, read in the same way.
    pub fn account_of_port(&self, name: &str) -> Option<PortAccount> {
        let id = self.port(name)?;
        self.fleet.counters_of_port(id)
    }

    /// What is known of a function: its part of the wiring.
    pub fn instance(&self, name: &str) -> Option<Instance> {
        self.parts().wiring.instances.get(name).cloned()
    }

    /// Makes the memory of a guest ready that will be told what the one before knows, so that it does not wait for pages then; not
    /// when it has far more than the one before uses.
    fn expect_state(&self, name: &str, started: &mut StartedFunction) {
        let Some(account) = self.account_of(name) else { return };
        let used = guest_wasm::resident(account.memory_place, account.memory as usize);
        let (place, bytes) = started.memory();
        if bytes as u64 <= used * 2 + AS_WELL {
            guest_wasm::make_resident(place, bytes);
        }
    }

    /// Starts a guest for a function that runs, beside it.
    fn start_beside(
        &self,
        name: &str,
        instance: &Instance,
        catalog: &Catalog,
    ) -> Result<StartedFunction, PrepareError> {
        let program = self.workshop.program(catalog, &instance.image);
        let program = program.map_err(|reason| failed("function", name)(&reason))?;
        let parts = self.parts();
        let pool = match &instance.pool {
            InstancePool::Tenant => parts.pools.get(&instance.tenant),
            InstancePool::Own(_) => parts.pools.get(&own_pool(name)),
        };
        let pool = pool.map(|(pool, _)| pool.clone());
        let observes = parts.wiring.observations.iter().any(|seen| seen.observer == name);
        drop(parts);
        let pool = pool.ok_or_else(|| failed("function", name)(&"it has no pool"))?;
        StartedFunction::start(instance, program, pool, Slice(self.workers.slice), observes, None)
            .map_err(|reason| failed("function", name)(&reason))
    }
}
