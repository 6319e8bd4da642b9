//! Changes of what runs: checked, made ready, carried out.

use super::containers::parts;
use super::controller::{Controller, lock};
use super::refusal::{as_host, into_host, refused, unknown_here};
use api::{Fault, FaultKind, Kind, ObjectName};
use api_server::{ObjectChange, Prepared, Refusal, Work, deleted_tenants};
use deployment::{Beginning, Checked, Gathered, Material, PrepareError};
use engine::Stopped;
use snapshot_folder::FolderError;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::time::Instant;
use telemetry::steps;

/// How changes are made ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Making {
    /// What takes long is for the caller to do first.
    Now,
    /// The same, and nothing of the host is touched.
    Tried,
    /// However long it takes.
    Waiting,
}

/// A fault of what names an object that is to be deleted, in words for that: other names are of no help.
fn still_named(mut fault: Fault, deleted: &[ObjectChange]) -> Fault {
    let FaultKind::NotFound { kinds, name } = &fault.kind else { return fault };
    // Of several of one name it is that of a kind which was looked for.
    let names = |change: &&ObjectChange| kinds.contains(&change.kind) && change.name == **name;
    if let Some(change) = deleted.iter().find(names) {
        let name = ObjectName::new(change.kind, change.name.as_str());
        fault.message = format!("{name} is named here; allowed: to delete this first, or to change it");
    }
    fault
}

impl Controller {
    /// Checks changes, and says what they come to. Images and files are read with no lock held, if it
    /// `reads`; what was read is in `material`.
    pub(super) fn check(
        &self,
        changes: &[ObjectChange],
        material: &Material<'_>,
        reads: bool,
    ) -> Result<Checked, Refusal> {
        let faults = unknown_here(changes);
        if !faults.is_empty() {
            return Err(Refusal::Invalid(faults));
        }
        let changed: Vec<deployment::ObjectChange> = changes.iter().map(as_host).collect();
        let anew = changes.iter().filter(|change| change.snapshot.is_some());
        let anew: Vec<String> = anew.map(|change| change.name.clone()).collect();
        let checked = loop {
            let checked = self.desired().check(&changed, &anew, &self.host, material);
            if !reads || !material.gather() {
                break checked;
            }
        };
        checked.map_err(|faults| {
            // What goes is right by itself: something else still names it.
            if changes.iter().all(|change| change.spec.is_none()) {
                Refusal::Conflict(faults.into_iter().map(|fault| still_named(fault, changes)).collect())
            } else {
                Refusal::Invalid(faults)
            }
        })
    }

    /// Makes changes ready beside whatever else is done: with no lock held but for short looks at what runs.
    pub(super) fn make(&self, changes: &[ObjectChange], how: Making) -> Result<Ready, Refusal> {
        let wait = how == Making::Waiting;
        let material = Material::of(&self.catalog);
        let generation = self.generation.load(Acquire);
        let Checked { plan, .. } = self.check(changes, &material, true)?;
        steps::done("check");
        let mut uncompiled = Vec::new();
        for instance in plan.add_instances.values().chain(plan.change_instances.values()).filter(|_| !wait) {
            match self.workshop.has(&self.catalog, &instance.image) {
                Ok(true) => {}
                Ok(false) if uncompiled.iter().any(|(image, _)| *image == instance.image) => {}
                Ok(false) => uncompiled.push((instance.image.clone(), instance.tenant.clone())),
                Err(reason) => return Err(Refusal::Broken(reason)),
            }
        }
        if !uncompiled.is_empty() {
            return Err(self.work(uncompiled));
        }
        // What begins with the daemon is started when the launcher lets it.
        if let Some(work) = self.launcher_work(&plan, changes).filter(|_| !wait) {
            return Err(work);
        }
        let restarted = plan.remove_instances.iter().filter(|name| plan.add_instances.contains_key(*name));
        let restarted: Vec<String> = restarted.cloned().collect();
        let mut beginnings = HashMap::new();
        for change in changes.iter().filter(|change| change.spec.is_some()) {
            let saved = match &change.snapshot {
                Some(name) => {
                    let unreadable = |error: FolderError| {
                        Refusal::Conflict(vec![Fault::of_request(
                            format!("snapshots.{name}"),
                            error.to_string(),
                        )])
                    };
                    Some(self.folder.load(name).map_err(unreadable)?.1)
                }
                None => None,
            };
            if change.paused || saved.is_some() {
                beginnings.insert(change.name.clone(), Beginning { paused: change.paused, saved });
            }
        }
        let prepared = match how {
            Making::Tried => self.host.try_out(plan, beginnings, &self.catalog),
            Making::Now | Making::Waiting => self.host.prepare(plan, beginnings, &self.catalog),
        };
        let prepared = prepared.map_err(refused)?;
        Ok(Ready { prepared, restarted, generation, material: material.gathered() })
    }

    /// Whether what was made ready is what the changes come to now.
    fn fits(&self, ready: &mut Ready, changes: &[ObjectChange]) -> Result<bool, Refusal> {
        let generation = self.generation.load(Acquire);
        if generation == ready.generation {
            return Ok(true);
        }
        let material = Material::again(&self.catalog, &ready.material);
        let checked = self.check(changes, &material, false);
        // To read something may take its time: that is for another attempt.
        if material.is_missing() {
            return Ok(false);
        }
        let fits = self.host.fits(&ready.prepared, &checked?.plan);
        ready.generation = generation;
        Ok(fits)
    }

    /// Compiling images, each for a tenant, which takes its time.
    pub(super) fn work(&self, images: Vec<(String, String)>) -> Refusal {
        let (workshop, offload) = (self.workshop.clone(), self.host.offload().clone());
        let names: Vec<&str> = images.iter().map(|(image, _)| image.as_str()).collect();
        let what = format!("compiling {}", names.join(", "));
        let load = |(image, tenant): (String, String)| (self.catalog.load(&image), tenant);
        let loaded: Vec<(Result<_, String>, String)> = images.into_iter().map(load).collect();
        Refusal::Work(Work {
            what,
            run: Box::new(move || {
                loaded.into_iter().try_for_each(|(loaded, tenant)| {
                    let image = loaded.map_err(Refusal::Broken)?;
                    workshop.compile_for(&offload, &tenant, &image).map_err(not_compiled)
                })
            }),
        })
    }

    pub(super) fn carry_out(&self, ready: Ready, changes: Vec<ObjectChange>) {
        let host = &self.host;
        let plan = ready.prepared.plan();
        let pins: Vec<(String, Option<usize>)> = plan
            .add_instances
            .iter()
            .map(|(name, instance)| (name.clone(), instance.worker))
            .chain(plan.change_instances.iter().map(|(name, instance)| (name.clone(), instance.worker)))
            .chain(plan.adjust_instances.iter().map(|(name, adjustment)| (name.clone(), adjustment.worker)))
            .collect();
        let gone = plan.remove_instances.iter().chain(&plan.remove_containers);
        let gone: Vec<String> = gone.cloned().collect();
        let closed = plan.remove_ports.iter().filter(|name| !plan.add_ports.contains_key(*name));
        let closed: Vec<String> = closed.cloned().collect();
        let opened: Vec<String> = plan.add_ports.keys().cloned().collect();
        let containers = !(plan.remove_containers.is_empty() && plan.add_containers.is_empty());
        let tenants: Vec<(String, String)> = plan
            .add_instances
            .iter()
            .chain(plan.change_instances.iter())
            .map(|(name, instance)| (name, &instance.tenant))
            .chain(plan.add_containers.iter().map(|(name, container)| (name, &container.tenant)))
            .map(|(name, tenant)| (name.clone(), tenant.clone()))
            .collect();
        // What a new one tells first is kept; what is there already may be another tenant's from now on.
        let (there, new): (Vec<_>, Vec<_>) =
            tenants.into_iter().partition(|(name, _)| host.function(name).is_some());
        new.iter().for_each(|(name, tenant)| self.told.know(name, tenant));
        self.end_watches_of_others(plan);
        let began = Instant::now();
        match host.carry_out(ready.prepared) {
            Ok(done) => {
                for trouble in &done.troubles {
                    let what = "a change that had been checked did not go as it should have";
                    console::error().line(&format!("{what}: {trouble}"));
                }
                if done.has_remains() {
                    // The reaper ends with the program.
                    let _ = self.attic.send(done);
                }
            }
            // The daemon is ending: what was acknowledged is in the store, and begins with the next start.
            Err(Stopped) => return,
        }
        steps::done("workers");
        self.ports_changed(&closed, &opened, began);
        there.iter().for_each(|(name, tenant)| self.told.know(name, tenant));
        if let Some(balancer) = lock(&self.balancer).as_mut() {
            for (name, worker) in pins {
                match (host.function(&name), worker) {
                    (Some(id), Some(worker)) => balancer.pin(id, worker),
                    (Some(id), None) => balancer.unpin(id),
                    (None, _) => {}
                }
            }
        }
        for tenant in deleted_tenants(&changes) {
            self.shelf.end_tenant(tenant);
            self.sampled.end_tenant(tenant);
        }
        self.changed(changes.into_iter().map(into_host));
        if containers {
            self.containers_changed();
        }
        let is_there = |name: &String| host.function(name).is_some() || host.container(name).is_some();
        for name in gone.iter().filter(|name| !is_there(name)) {
            self.told.forget(name);
            let mut shares = lock(&self.shares);
            shares.remove(name);
            let [engine, processes] = parts(name);
            shares.remove(&engine);
            shares.remove(&processes);
        }
        for notice in host.take_notices() {
            if let Some(notices) = self.told.sink.notices.get() {
                notices.tell(Kind::Workers, "workers", "notice", &notice);
            }
        }
    }

    /// What `health` says is of the ports that there are now, after a change that began at this time.
    fn ports_changed(&self, closed: &[String], opened: &[String], began: Instant) {
        if closed.is_empty() && opened.is_empty() {
            return;
        }
        let known = opened.iter().filter_map(|name| Some((name, self.host.last_status_of_port(name)?)));
        let opened: Vec<(&String, _)> = known.collect();
        let (mut health, now) = (lock(&self.told.sink.port_health), Instant::now());
        closed.iter().for_each(|name| health.closed(name, now));
        opened.iter().for_each(|(name, status)| health.opened(name, status, (began, now)));
    }
}

/// A change that was made ready, and the functions that begin anew with it.
pub(super) struct Ready {
    prepared: deployment::Prepared,
    restarted: Vec<String>,
    /// When it was checked.
    generation: u64,
    /// What was read for the check.
    material: Gathered,
}

/// A change that was made ready, for the server.
pub(super) struct Change {
    pub(super) controller: Arc<Controller>,
    pub(super) ready: Ready,
    pub(super) changes: Vec<ObjectChange>,
}

impl Prepared for Change {
    fn restarted(&self) -> Vec<String> {
        let Ready { prepared, restarted, .. } = &self.ready;
        let all = restarted.iter().cloned().chain(prepared.cannot_hand_over()).chain(prepared.began_anew());
        all.collect()
    }

    fn would_restart(&mut self) -> Vec<String> {
        let would = self.ready.prepared.would_begin_anew();
        self.ready.restarted.iter().cloned().chain(would).collect()
    }

    fn hand_over(&mut self, allow_restart: bool) -> Result<(), Refusal> {
        self.ready.prepared.hand_over(allow_restart).map_err(refused)
    }

    fn fits(&mut self) -> Result<bool, Refusal> {
        let Change { controller, ready, changes } = self;
        controller.fits(ready, changes)
    }

    fn carry_out(self: Box<Self>) {
        let Change { controller, ready, changes } = *self;
        controller.carry_out(ready, changes);
    }
}

/// Why an image is not compiled.
fn not_compiled(error: PrepareError) -> Refusal {
    match error {
        PrepareError::Part { reason, .. } => Refusal::Broken(reason),
        error => refused(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_still_names_one_of_several_of_a_name_names_it_by_its_kind() {
        let change = |kind, name: &str| ObjectChange {
            kind,
            name: name.to_owned(),
            spec: None,
            paused: false,
            snapshot: None,
        };
        let deleted = [change(Kind::Device, "web"), change(Kind::Group, "web"), change(Kind::Port, "web2")];
        let told =
            |kind| still_named(Fault { kind, ..Fault::new("chains.edge[1]", "not found") }, &deleted).message;
        let not_found =
            |kinds: &[Kind], name: &str| FaultKind::NotFound { kinds: kinds.into(), name: name.into() };
        let named =
            |name: &str| format!("{name} is named here; allowed: to delete this first, or to change it");
        let ends = [Kind::Port, Kind::Switch, Kind::Device, Kind::Function];
        for (kinds, name, object) in [
            (&ends[..], "web", "device/web"),
            (&[Kind::Group], "web", "group/web"),
            (&[Kind::Port], "web2", "port/web2"),
        ] {
            assert_eq!(told(not_found(kinds, name)), named(object));
        }
        for other in [
            not_found(&[Kind::Port], "lan"),
            not_found(&[Kind::Port], "web"),
            FaultKind::Value,
            FaultKind::UnknownKey,
        ] {
            assert_eq!(told(other), "not found");
        }
    }
}
