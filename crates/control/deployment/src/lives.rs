//! What is done to a function that runs: pause and resume, a new beginning, another image, a snapshot.

use crate::Host;
use crate::catalog::Catalog;
use crate::deployed::{Deployed, own_pool};
use crate::difference;
use crate::function::{StartedFunction, Unstarted};
use crate::hand_over::{Starting, Successor, TakenOver};
use crate::prepare::{PrepareError, failed};
use engine::{FleetError, FleetInstance, InstanceAccount, PortAccount, TakeoverError};
use guest_wasm::Slice;
use packet_memory::Pool;
use snapshot::Saved;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wiring::{Container, Instance, InstancePool};

impl Host {
    /// Lets a function stand still, or go on; one that is frozen is thawed here, beside the workers, first.
    /// Says whether there is one of this name.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn set_paused(&self, name: &str, paused: bool) -> Result<bool, FleetError> {
        let Some(id) = self.function(name) else { return Ok(false) };
        if !paused {
            let frozen = |error: TakeoverError| FleetError::Frozen {
                instance: name.to_owned(),
                reason: error.to_string(),
            };
            self.fleet.thaw(id).map_err(frozen)?;
        }
        self.fleet.change(|change| change.set_paused(id, paused))??;
        let mut deployed = self.deployed();
        if paused {
            deployed.paused.entry(name.to_owned()).or_insert_with(Instant::now);
        } else {
            deployed.paused.remove(name);
        }
        Ok(true)
    }

    /// Freezes functions that have been paused for so long, `most` of them at once, and says how many it
    /// were. What runs on the same worker goes on meanwhile.
    pub fn freeze_paused(&self, since: Duration, most: usize) -> usize {
        let due: Vec<(String, FleetInstance)> = {
            let deployed = self.deployed();
            let long = deployed.paused.iter().filter(|(_, began)| began.elapsed() >= since);
            let known = long.filter_map(|(name, _)| Some((name.clone(), *deployed.instances.get(name)?)));
            known.take(most).collect()
        };
        for (name, id) in &due {
            // One that cannot be frozen, as in the middle of a call, stays paused as it is; the next pause
            // tries again.
            let _ = self.fleet.freeze(*id);
            self.deployed().paused.remove(name);
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
        let instance = self.deployed().wiring.instances.get(name).cloned();
        let instance = instance.ok_or_else(|| failed("function", name)(&"there is none of this name"))?;
        let around = Around::of(&self.deployed(), name, &instance)?;
        let started = self.start_beside(name, &instance, catalog, around)?.taking_over();
        let swapped = self.fleet.change(move |change| change.swap_guest(id, started));
        let swapped = swapped.map_err(|error| failed("function", name)(&error))?;
        // The one before gives its memory back here, where no worker waits for it.
        swapped.map(drop).map_err(|error| failed("function", name)(&error))
    }

    /// Lets a function of another image, or with another configuration, take over between two batches, with
    /// the state that the one before gives and the new one takes. Nothing but image and configuration may
    /// differ.
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
        let before = self.deployed().wiring.instances.get(name).cloned().ok_or_else(absent)?;
        if before.interfaces != instance.interfaces {
            return Err(failed("function", name)(&format!(
                "the new image has {} interfaces; allowed: {}, as many as the one before",
                instance.interfaces, before.interfaces
            )));
        }
        let around = Around::of(&self.deployed(), name, instance)?;
        let successor = self.successor(name, id, (before, instance), catalog, around)?;
        self.succeed(successor)
    }

    /// A function that is to hand over, with the guest that takes over from it, started.
    pub(crate) fn successor(
        &self,
        name: &str,
        id: FleetInstance,
        (before, instance): (Instance, &Instance),
        catalog: &Catalog,
        around: Around,
    ) -> Result<Successor, PrepareError> {
        let layout = |image: &str| {
            let program = self.workshop.program(catalog, image);
            program.map(|(_, program)| program.facts().layout)
        };
        let alike = before.config == instance.config
            && matches!((layout(&before.image), layout(&instance.image)), (Ok(old), Ok(new)) if old == new);
        let program = self.workshop.program(catalog, &before.image);
        let unstarted = self.unstarted(name, instance, catalog, around)?;
        let difference = match alike || before.image != instance.image {
            true => None,
            false => self.difference(&before, instance, catalog)?,
        };
        let (hands_over, starting) = match difference {
            Some(lines) => (unstarted.hands_over(), Starting::IfRefused(unstarted, lines)),
            None => {
                // The memory that is to be moved brings its pages along. Pages of its own would be given back
                // in the move, while the worker waits.
                let resident = if alike { Some(0) } else { instance.resident };
                let start = move || unstarted.with_resident(resident).start();
                let started = self.run_start(instance.payer(), start)?;
                let started = started.map_err(|reason| failed("function", name)(&reason))?;
                let started = started.restarting_with(instance.resident);
                // An image that is here no more cannot be asked; its function may hand over all the same.
                let hands_over = program.map_or(true, |(_, program)| started.can_follow(&program));
                (hands_over, Starting::Started(started))
            }
        };
        Ok(Successor {
            name: name.to_owned(),
            id,
            instance: instance.clone(),
            before,
            starting,
            hands_over,
            alike,
        })
    }

    /// What has changed about a file of a function's configuration, if the function takes that while it runs.
    fn difference(
        &self,
        before: &Instance,
        after: &Instance,
        catalog: &Catalog,
    ) -> Result<Option<Vec<u8>>, PrepareError> {
        let files = match catalog.load(&after.image) {
            Ok(image) if !image.manifest().differences.is_empty() => image.manifest().differences.clone(),
            _ => return Ok(None),
        };
        let (payer, before, after) = (after.payer().to_owned(), before.clone(), after.clone());
        Ok(self.run_start(&payer, move || difference::of(before, after, &files))?)
    }

    /// Everything that a function is now, and the packets that it has. It goes on.
    ///
    /// # Errors
    /// [`PrepareError`].
    pub fn save(&self, name: &str) -> Result<Saved<'static>, PrepareError> {
        let id =
            self.function(name).ok_or_else(|| failed("function", name)(&"there is none of this name"))?;
        self.fleet.save(id).map_err(|error| failed("function", name)(&error))
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

    /// Whose a device is.
    pub fn tenant_of_device(&self, name: &str) -> Option<String> {
        self.deployed().wiring.devices.get(name).map(|device| device.tenant.clone())
    }

    /// What is known of a container: its part of the wiring.
    pub fn container(&self, name: &str) -> Option<Container> {
        self.deployed().wiring.containers.get(name).cloned()
    }

    /// What is known of a function: its part of the wiring.
    pub fn instance(&self, name: &str) -> Option<Instance> {
        self.deployed().wiring.instances.get(name).cloned()
    }

    /// Starts a guest for a function that runs, beside it.
    fn start_beside(
        &self,
        name: &str,
        instance: &Instance,
        catalog: &Catalog,
        around: Around,
    ) -> Result<StartedFunction, PrepareError> {
        let unstarted = self.unstarted(name, instance, catalog, around)?;
        let started = self.run_start(instance.payer(), move || unstarted.start())?;
        started.map_err(|reason| failed("function", name)(&reason))
    }

    fn unstarted(
        &self,
        name: &str,
        instance: &Instance,
        catalog: &Catalog,
        Around { pool, observes }: Around,
    ) -> Result<Unstarted, PrepareError> {
        let program = self.workshop.program(catalog, &instance.image);
        let program = program.map_err(|reason| failed("function", name)(&reason))?;
        let slice = Slice(self.workers.slice);
        Ok(Unstarted::new(instance, program, pool, slice, observes, guest_wasm::LOG_LINES))
    }
}

/// What a function that runs has around it.
pub(crate) struct Around {
    pool: Arc<Pool>,
    observes: bool,
}

impl Around {
    pub(crate) fn of(deployed: &Deployed, name: &str, instance: &Instance) -> Result<Around, PrepareError> {
        let pool = match &instance.pool {
            InstancePool::Tenant => deployed.pools.get(&instance.tenant),
            InstancePool::Own(_) => deployed.pools.get(&own_pool(name)),
        };
        let pool = pool.map(|(pool, _)| pool.clone());
        let observes = deployed.wiring.observations.iter().any(|seen| seen.observer == name);
        Ok(Around { pool: pool.ok_or_else(|| failed("function", name)(&"it has no pool"))?, observes })
    }
}
