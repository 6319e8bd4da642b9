//! The host as the server sees it.

use super::change::{Change, Making};
use super::controller::{Controller, lock};
use super::logs::now;
use super::of_tenant;
use super::refusal::{as_host, refused};
use api::{
    Capture, DeviceNeighbours, Fault, FunctionEvent, FunctionReport, Graph, Image, Kind, LogLine, Name,
    ObjectName, RotatedKey, Snapshot, Trace,
};
use api_server::{
    Asker, Control, Exposition, HistoryAsked, NoHistory, Notices, ObjectChange, Outlet, Prepared, Refusal,
    ResolvedImages,
};
use deployment::{Material, WORKERS_LATER};
use engine::{Account, Fleet};
use serde_json::{Value, json};
use snapshot_folder::{FolderError, Rotated};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use store::Store;

/// What an administrator is warned of when the system refuses threads a low priority.
const PRIORITY_REFUSED: &str = "what is done beside the workers has their priority and takes processors from them: the system refuses a lower \
     one; allow it setpriority(2), in a unit by `SystemCallFilter=setpriority`";

/// What the server holds: the controller, which hands itself to what it prepares.
pub(crate) struct Handle(pub(crate) Arc<Controller>);

impl Control for Handle {
    fn begin(&self, objects: Vec<ObjectChange>, notices: Notices) -> Vec<(ObjectName, Fault)> {
        self.0.begin(objects, notices)
    }

    fn resolve_images(
        &self,
        functions: &[(&str, &Value)],
        resolve: bool,
        asker: &Asker,
    ) -> Result<ResolvedImages, Refusal> {
        self.0.resolve_images(functions, resolve, asker)
    }

    fn confined(&self, _: &str, spec: &Value, now: Option<&Value>) -> Vec<Fault> {
        self.0.confined(spec, now)
    }

    fn own_faults(&self, tenant: &str, changes: &[ObjectChange]) -> Vec<Fault> {
        let this = &self.0;
        let material = Material::of(&this.catalog);
        let withheld = this.withheld(changes, Some(tenant), &material);
        let changed: Vec<deployment::ObjectChange> = withheld.changes.iter().map(as_host).collect();
        loop {
            let faults = this.desired().own_faults(tenant, &changed, &this.host, &material);
            if !material.gather() {
                return withheld.faults(faults);
            }
        }
    }

    fn lacks(&self, object: &ObjectName) -> bool {
        !self.0.desired().has(object.kind, &object.name)
    }

    fn has_other_files(&self, function: &str) -> bool {
        // One that is not there any more is told of when something about the function changes.
        self.0.catalog.any_differs(self.0.host.files_of(function))
    }

    fn check(&self, changes: &[ObjectChange], asker: &Asker) -> Result<Vec<Fault>, Refusal> {
        let this = &self.0;
        let tenant = match asker {
            Asker::Administrator => None,
            Asker::Tenant { name, .. } => Some(name.as_str()),
        };
        let material = Material::of(&this.catalog);
        let withheld = this.withheld(changes, tenant, &material);
        // A tenant's check is done in the tenant's turn as a whole.
        if tenant.is_none() {
            this.read_images(&withheld.changes, &material)?;
        }
        let checked = this.check(&withheld.changes, &material, true);
        let checked = checked.map_err(|refusal| withheld.refusal(refusal))?;
        // Files are the host's: no tenant's check says anything of one.
        if tenant.is_none() {
            let plan = &checked.plan;
            let after = plan.ports_after(&this.host.wiring());
            let new = |name: &str| plan.add_ports.contains_key(name);
            let captures = deployment::unusable_captures(&after, new, &this.catalog);
            let fault = |(port, why)| Fault::new(format!("ports.{port}"), why);
            let faults: Vec<Fault> = captures.into_iter().map(fault).collect();
            if !faults.is_empty() {
                return Err(Refusal::Invalid(faults));
            }
        }
        let unanswered = this.launcher_check(&checked.plan, &withheld.changes, tenant)?;
        // Warnings are found by a look at all objects, of which a tenant has some.
        Ok(if tenant.is_none() {
            checked.warnings.into_iter().chain(unanswered).collect()
        } else {
            Vec::new()
        })
    }

    fn prepare(&self, changes: &[ObjectChange]) -> Result<Box<dyn Prepared>, Refusal> {
        let ready = self.0.make(changes, Making::Now)?;
        Ok(Box::new(Change { controller: self.0.clone(), ready, changes: changes.to_vec() }))
    }

    fn try_out(&self, changes: &[ObjectChange]) -> Result<Box<dyn Prepared>, Refusal> {
        let ready = self.0.make(changes, Making::Tried)?;
        Ok(Box::new(Change { controller: self.0.clone(), ready, changes: changes.to_vec() }))
    }

    fn pause(&self, function: &str) -> Result<(), Refusal> {
        set_paused(&self.0, function, true)
    }

    fn resume(&self, function: &str) -> Result<(), Refusal> {
        set_paused(&self.0, function, false)
    }

    fn restart(&self, function: &str) -> Result<(), Refusal> {
        let host = &self.0.host;
        if host.function(function).is_none() {
            return if self.0.restart_container(function) {
                Ok(())
            } else {
                Err(self.0.no_function(function))
            };
        }
        host.restart(function, &self.0.catalog).map_err(refused)
    }

    fn status(&self, kind: Kind, name: &str, tenant: Option<&str>) -> Option<Value> {
        match kind {
            Kind::Function => {
                let status = self.0.function_status(name).or_else(|| self.0.container_status(name, tenant));
                let status = status.or_else(|| self.0.status_left_out(name, tenant));
                serde_json::to_value(status?).ok()
            }
            Kind::Device => serde_json::to_value(self.0.device_status(name, tenant)?).ok(),
            Kind::Port => {
                let account = self.0.host.account_of_port(name)?;
                let (state, reason) = ::metrics::json::port_state(&account.status);
                Some(json!({
                    "state": state,
                    "reason": reason,
                    "packets": ::metrics::json::ledger(&account.counters.ledger),
                    "received_bytes": account.counters.received_bytes,
                    "delivered_bytes": account.counters.delivered_bytes,
                    "in_flight": account.in_flight,
                }))
            }
            _ => None,
        }
    }

    fn logs(&self, function: &str, after: u64, limit: usize) -> Vec<LogLine> {
        lock(&self.0.told.sink.logs).after(function, after, limit)
    }

    fn function_events(&self, function: &str, after: u64, limit: usize) -> Vec<FunctionEvent> {
        self.0.function_events(function, after, limit)
    }

    fn report(&self, function: &str) -> Result<FunctionReport, Refusal> {
        self.0.report(function)
    }

    fn neighbours(
        &self,
        device: &str,
        tenant: Option<&str>,
        after: Option<IpAddr>,
        limit: usize,
    ) -> DeviceNeighbours {
        self.0.neighbours(device, tenant, after, limit)
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        self.0.folder.list()
    }

    fn snapshots_of(&self, tenant: &str) -> Vec<Snapshot> {
        self.0.folder.list_of(tenant)
    }

    fn aside(&self, tenant: &str, job: Box<dyn FnOnce() + Send>) -> Result<(), Refusal> {
        self.0.requests.submit(tenant, job).map_err(|refused| Refusal::Busy(refused.to_string()))
    }

    fn in_account(&self, tenant: &str, job: Box<dyn FnOnce() + '_>) {
        self.0.requests.run_here(tenant, job);
    }

    fn snapshot(&self, name: &Name) -> Option<Snapshot> {
        self.0.folder.read(name)
    }

    fn save(&self, function: &str, name: &Name, most: u64) -> Result<Snapshot, Refusal> {
        let this = &self.0;
        let none = || this.no_function(function);
        if this.host.function(function).is_none() {
            return Err(none());
        }
        let spec = this.desired().spec(Kind::Function, function).ok_or_else(none)?;
        let (saved, wiring) = (this.host.save(function).map_err(refused)?, this.host.wiring());
        // The tenant in whose pool it runs, which is what its spec means.
        let tenant = &wiring.instances.get(function).ok_or_else(none)?.tenant;
        let checked = |text: &str| Name::new(text).map_err(|error| Refusal::Broken(error.to_string()));
        let image: String = saved.identity.image.iter().map(|byte| format!("{byte:02x}")).collect();
        let told = Snapshot {
            name: name.clone(),
            function: checked(function)?,
            image: format!("sha256:{image}"),
            saved: now(),
            bytes: 0,
            tenant: Some(checked(tenant)?),
            imported: false,
            spec,
        };
        this.folder.write(&told, &saved, most).map_err(not_kept)
    }

    fn adopt_snapshot(&self, name: &Name, tenant: &Name) -> Result<Snapshot, Refusal> {
        self.0.folder.adopt(name, tenant).map_err(not_kept)
    }

    fn rotate_snapshot_key(&self) -> Result<RotatedKey, Refusal> {
        let Rotated { key, sealed, imported } = self.0.folder.rotate().map_err(not_kept)?;
        Ok(RotatedKey { key, sealed, imported })
    }

    fn delete_snapshot(&self, name: &Name) -> Result<bool, Refusal> {
        self.0.folder.remove(name).map_err(not_kept)
    }

    fn troubles(&self) -> Vec<String> {
        let this = &self.0;
        let mut removed = this.folder.removed();
        removed.extend(this.shelf.kept.as_ref().ok().and_then(|images| images.removed()));
        removed.extend(this.shelf.containers.as_ref().ok().and_then(|images| images.removed()));
        removed.extend(this.told.removed());
        removed
    }

    fn warnings(&self, tenant: Option<&str>) -> Vec<String> {
        let own = tenant.map(|tenant| self.0.names_of(tenant));
        let mut all = lock(&self.0.told.sink.port_health)
            .warnings(|port| own.as_ref().is_none_or(|own| own.ports.contains(port)));
        let wiring = self.0.host.wiring();
        let health = lock(&self.0.told.sink.function_health);
        all.extend(health.warnings(tenant.is_some(), |function| match &own {
            Some(own) => own.functions.contains(function),
            None => wiring.instances.contains_key(function) || wiring.containers.contains_key(function),
        }));
        drop(health);
        let tight =
            self.0.host.tight_links(|device| own.as_ref().is_none_or(|own| own.devices.contains(device)));
        all.extend(tight.iter().map(|(device, link)| format!("device `{device}`: {}", link.in_words())));
        if tenant.is_none() {
            let desired = self.0.desired();
            let left_out = lock(&self.0.left_out);
            let lacks = left_out.iter().filter(|(object, _)| !desired.has(object.kind, &object.name));
            all.extend(
                lacks.map(|(object, why)| format!("{object} could not be started with the daemon: {why}")),
            );
        }
        if tenant.is_none() && self.0.host.awaits_workers() {
            all.push(format!("workers: {WORKERS_LATER}"));
        }
        if tenant.is_none() && self.0.requests.was_refused_priority() {
            all.push(PRIORITY_REFUSED.to_owned());
        }
        all
    }

    fn images(&self) -> Vec<Image> {
        self.0.images_here()
    }

    fn account(&self, tenant: Option<&str>) -> Option<String> {
        let fleet = self.0.host.fleet();
        let containers = |account: &Account| self.0.container_accounts(account, tenant);
        match tenant {
            None => exact(fleet, ACCOUNT_TIME)
                .map(|account| ::metrics::json::account("account", &account, &containers(&account))),
            Some(tenant) => self
                .0
                .account_of(tenant, || fleet.survey().ok())
                .map(|(account, _)| ::metrics::json::account_of_tenant(&account, &containers(&account))),
        }
    }

    fn memory(&self, tenant: Option<&str>) -> Value {
        // Looking at memory stops no worker.
        let survey = || self.0.host.fleet().survey().ok();
        let account = match tenant {
            None => survey(),
            Some(tenant) => self.0.account_of(tenant, survey).map(|(account, _)| account),
        };
        let Some(account) = account else { return Value::Null };
        let known =
            super::memory::Known::of(&self.0.host, &account, self.0.container_memory(), self.0.memory);
        let mut whole = super::memory::of(&account, &known, &self.0.folder, &self.0.state);
        if let Some(tenant) = tenant {
            return of_tenant::memory(&whole, tenant);
        }
        whole["history"] = self.0.sampled.memory();
        whole
    }

    fn graph(&self, tenant: Option<&str>) -> Option<Graph> {
        self.0.graph(tenant)
    }

    fn history(&self, asked: &HistoryAsked, tenant: Option<&str>) -> Result<Arc<[u8]>, NoHistory> {
        self.0.history(asked, tenant)
    }

    fn trace(&self, wanted: &Trace, tenant: Option<&str>, outlet: Outlet) -> Result<(), Refusal> {
        self.0.trace(wanted, tenant, outlet)
    }

    fn capture(&self, wanted: &Capture, tenant: Option<&str>, outlet: Outlet) -> Result<(), Refusal> {
        self.0.capture(wanted, tenant, outlet)
    }

    fn back_up(&self, store: &Store, outlet: Outlet) -> Result<(), Refusal> {
        self.0.back_up(store, outlet)
    }

    fn metrics(&self, exposition: Exposition, tenant: Option<&str>, to: &mut String) {
        let host = &self.0.host;
        let (fleet, wiring, memory) = (host.fleet().clone(), host.wiring(), host.memory());
        let write = |account: &Account, to: &mut String| {
            let (busy, started) = (fleet.busy(), self.0.started);
            let (background, stations) = (self.0.background(), host.station_frames());
            let beside = host.beside(true);
            let known = super::metrics::Known {
                wiring: &wiring,
                memory: &memory,
                beside: &beside,
                condition: &|name| self.0.containers.get()?.condition(name),
                attaching: &self.0.attaching,
                limit: self.0.memory,
                background: &background,
                stations: &stations,
            };
            let events = |name: &str| lock(&self.0.told.sink.kept).counts(name);
            let to = (exposition, to);
            super::metrics::write(account, &busy, &known, &self.0.catalog, started, events, to);
        };
        match tenant {
            None => {
                if let Some(account) = exact(&fleet, METRICS_TIME) {
                    write(&account, to);
                }
            }
            Some(tenant) => {
                let survey = || fleet.survey().ok();
                let Some((account, names)) = self.0.account_of(tenant, survey) else { return };
                let mut whole = String::new();
                write(&account, &mut whole);
                of_tenant::metrics(&whole, tenant, &names, to);
            }
        }
    }
}

/// For how long it is tried to see all workers at one moment for an account, and for metrics.
const ACCOUNT_TIME: Duration = Duration::from_secs(1);
const METRICS_TIME: Duration = Duration::from_millis(250);

/// An account of one moment if the workers come together within that time, and else of a moment of each part.
/// `None`: they have stopped.
fn exact(fleet: &Fleet, time: Duration) -> Option<Account> {
    match fleet.account_within(time) {
        Ok(Some(account)) => Some(account),
        Ok(None) => fleet.survey().ok(),
        Err(_) => None,
    }
}

/// Why the folder of snapshots does not do something.
fn not_kept(error: FolderError) -> Refusal {
    match &error {
        FolderError::Io { .. } if error.is_full() => Refusal::NoRoom(error.to_string()),
        FolderError::TooMuch { .. } => Refusal::TooMuch(error.to_string()),
        FolderError::Io { .. } | FolderError::Key { .. } | FolderError::Random => {
            Refusal::Broken(error.to_string())
        }
        _ => Refusal::Conflict(vec![Fault::of_request("snapshots", error.to_string())]),
    }
}

fn set_paused(this: &Controller, function: &str, paused: bool) -> Result<(), Refusal> {
    match this.host.set_paused(function, paused) {
        Ok(true) => Ok(()),
        Ok(false) => Err(this.no_function(function)),
        Err(error) => Err(Refusal::Busy(error.to_string())),
    }
}
