//! What is done to a function that runs: pause and resume, a new beginning, another image, a snapshot.

use crate::Host;
use crate::catalog::Catalog;
use crate::deployed::{Deployed, pool_of};
use crate::difference;
use crate::function::{StartedFunction, Unstarted};
use crate::hand_over::{Starting, Successor, TakenOver};
use crate::prepare::{PrepareError, failed};
use crate::present::await_present;
use api::DEFAULT_TENANT;
use engine::{FleetError, FleetInstance, InstanceAccount, PortAccount, TakeoverError};
use guest_wasm::{LOG_LINES, Slice};
use packet_memory::Pool;
use port::PortStatus;
use snapshot::Saved;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wiring::{Container, Instance};

impl Host {
    /// Lets a function stand still, or go on; one that is frozen is thawed first, beside the workers and in
    /// its tenant's share. Says whether there is one of this name.
    ///
    /// # Errors
    /// [`FleetError::Stopped`]; [`FleetError::Frozen`]: it stays as it is.
    pub fn set_paused(&self, name: &str, paused: bool) -> Result<bool, FleetError> {
        let Some((id, payer)) = self.with_payer(name) else { return Ok(false) };
        match paused {
            true => self.fleet.change(|change| change.set_paused(id, true))??,
            false => self.resume(name, id, &payer)?,
        }
        let mut deployed = self.deployed();
        if paused {
            deployed.paused.entry(name.to_owned()).or_insert_with(Instant::now);
        } else {
            deployed.paused.remove(name);
        }
        Ok(true)
    }

    fn resume(&self, name: &str, id: FleetInstance, payer: &str) -> Result<(), FleetError> {
        // What is not frozen, or is being frozen at this moment, waits for no share.
        match self.fleet.resume(id) {
            Err(FleetError::Frozen { .. }) => {}
            resumed => return resumed,
        }
        let frozen = |reason: &dyn std::fmt::Display| FleetError::Frozen {
            instance: name.to_owned(),
            reason: reason.to_string(),
        };
        let fleet = self.fleet.clone();
        let thawed = self.run_start(payer, move || fleet.thaw(id));
        thawed.map_err(|refused| frozen(&refused))?.map_err(|error| frozen(&error))
    }

    /// The function of a name, and the tenant in whose account it works.
    fn with_payer(&self, name: &str) -> Option<(FleetInstance, String)> {
        let deployed = self.deployed();
        let payer = deployed.wiring.instances.get(name)?.payer().to_owned();
        Some((*deployed.instances.get(name)?, payer))
    }

    /// Freezes functions that have been paused for so long, `most` of them at once, and says how many it
    /// were. What runs on the same worker goes on meanwhile. Functions of tenants wait for their tenant's
    /// share of time beside the workers, and are frozen later.
    pub fn freeze_paused(&self, since: Duration, most: usize) -> usize {
        let due: Vec<(String, FleetInstance, String)> = {
            let mut deployed = self.deployed();
            let long = deployed.paused.iter().filter(|(_, began)| began.elapsed() >= since);
            let names: Vec<String> = long.take(most).map(|(name, _)| name.clone()).collect();
            let known = |name: String| {
                deployed.paused.remove(&name);
                let payer = deployed.wiring.instances.get(&name)?.payer().to_owned();
                let id = *deployed.instances.get(&name)?;
                Some((name, id, payer))
            };
            names.into_iter().filter_map(known).collect()
        };
        let number = due.len();
        for (name, id, payer) in due {
            let fleet = self.fleet.clone();
            // One that cannot be frozen, as in the middle of a call, stays paused as it is; the next pause
            // tries again.
            let freeze = move || drop(fleet.freeze(id));
            if payer == DEFAULT_TENANT {
                self.offload.run_here(&payer, freeze);
            } else if self.offload.submit(&payer, freeze).is_err() {
                // So much of its tenant's waits already that it comes after others.
                self.deployed().paused.insert(name, Instant::now());
            }
        }
        number
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
        let mut started = self.start_beside(name, &instance, catalog, around)?.taking_over();
        let swapped = loop {
            let tried = self.fleet.change(move |change| match change.check_present(id) {
                Err(away @ TakeoverError::Detached(_)) => (Err(away), Some(started)),
                _ => (change.swap_guest(id, started), None),
            });
            match tried.map_err(|error| failed("function", name)(&error))? {
                (Err(_), Some(again)) if await_present(&self.fleet, id) => started = again,
                (swapped, _) => break swapped,
            }
        };
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

    /// Everything that a function is now, and the packets that it has. It goes on. The copy is made beside
    /// the workers, in its tenant's share.
    ///
    /// # Errors
    /// [`PrepareError`].
    pub fn save(&self, name: &str) -> Result<Saved<'static>, PrepareError> {
        let absent = || failed("function", name)(&"there is none of this name");
        let (id, payer) = self.with_payer(name).ok_or_else(absent)?;
        let fleet = self.fleet.clone();
        let save = move || loop {
            match fleet.save(id) {
                Err(TakeoverError::Detached(_)) if await_present(&fleet, id) => {}
                saved => return saved,
            }
        };
        self.run_start(&payer, save)?.map_err(|error| failed("function", name)(&error))
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

    /// How a port was when it was read last, or opened; no worker is asked.
    pub fn last_status_of_port(&self, name: &str) -> Option<PortStatus> {
        let id = self.port(name)?;
        self.fleet.last_counters_of_port(id).map(|account| account.status)
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

    /// The image of a function, as the operator named it: for what asks for nothing else of it.
    pub fn image_of(&self, name: &str) -> Option<String> {
        self.deployed().wiring.instances.get(name).map(|instance| instance.image.clone())
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
        Ok(Unstarted::new(instance, program, pool, slice, observes, LOG_LINES))
    }
}

/// What a function that runs has around it.
pub(crate) struct Around {
    pool: Arc<Pool>,
    observes: bool,
}

impl Around {
    pub(crate) fn of(deployed: &Deployed, name: &str, instance: &Instance) -> Result<Around, PrepareError> {
        let pool = deployed.pools.get(&pool_of(name, instance));
        let pool = pool.map(|(pool, _)| pool.clone());
        let observes = deployed.wiring.observations.iter().any(|seen| seen.observer == name);
        Ok(Around { pool: pool.ok_or_else(|| failed("function", name)(&"it has no pool"))?, observes })
    }
}
