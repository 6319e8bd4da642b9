//! The host as the server sees it.

use super::logs::Logs;
use super::saved::Folder;
use api::{Fault, FunctionMemory, FunctionState, FunctionStatus, Image, Kind, LogLine, ObjectName, Snapshot};
use clock::{Cycles, Nanos};
use daemon::{Control, Exposition, Notices, ObjectChange, Prepared, Refusal, TakenOver, Work};
use engine::{Account, Balancer, Event, InstanceAccount, Removed, Stopped};
use host::{Beginning, Catalog, Checked, Desired, Host, PrepareError, Workshop};
use port::PortEvent;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::Store;

/// How often what switches have learned is aged.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Keys of functions that only `superfluid run` knows.
const ONLY_RUN: [(&str, &str); 2] = [
    ("events", "none: what functions find is among the daemon's events"),
    ("pauses", "none: functions are paused and resumed by request"),
];

/// See the module's documentation.
pub(crate) struct Controller {
    host: Mutex<Host>,
    desired: Mutex<Desired>,
    catalog: Catalog,
    workshop: Arc<Workshop>,
    folder: Folder,
    told: Arc<Told>,
    balancer: Mutex<Option<Balancer>>,
    /// Memory to be given back, where nobody waits for it.
    attic: Sender<Vec<Removed>>,
    /// What a function had used of the processor when it was last asked for, and when.
    shares: Mutex<HashMap<String, (Cycles, Instant, f64)>>,
    /// Since the Unix epoch.
    started: Nanos,
    ends: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the workers tell.
#[derive(Default)]
struct Told {
    notices: OnceLock<Notices>,
    logs: Mutex<Logs>,
}

impl Told {
    fn take(&self, event: Event) {
        let tell = |kind, name: &str, what, text: &str| {
            if let Some(notices) = self.notices.get() {
                notices.tell(kind, name, what, text);
            }
        };
        match event {
            Event::Fault { instance, reason, retry_after } => {
                let ms = retry_after.0 / 1_000_000;
                tell(Kind::Function, &instance, "fault", &format!("{reason}; started again in {ms} ms"));
            }
            Event::Restarted { instance } => tell(Kind::Function, &instance, "restarted", "it runs again"),
            Event::Log { instance, line } => {
                lock(&self.logs).add(&instance, line);
                if let Some(notices) = self.notices.get() {
                    notices.logged();
                }
            }
            Event::Found { instance, events } => {
                for line in &events.lines {
                    tell(Kind::Function, &instance, "found", line);
                }
                if events.lost > 0 {
                    let text = format!("{} more found no room", events.lost);
                    tell(Kind::Function, &instance, "found", &text);
                }
            }
            Event::Port { port, event } => match event {
                PortEvent::WentDown(text) => tell(Kind::Port, &port, "down", &text),
                PortEvent::CameUp(text) => tell(Kind::Port, &port, "up", &text),
                PortEvent::Notice(text) => tell(Kind::Port, &port, "notice", &text),
            },
            Event::Finished => {}
        }
    }
}

impl Controller {
    /// A host with the workers that the store says, and nothing on it.
    ///
    /// # Errors
    /// Why there is none, in words for the operator.
    pub(crate) fn new(store: &Store, state: &Path) -> Result<Controller, String> {
        let catalog = Catalog::new(Path::new("."));
        let told = Arc::<Told>::default();
        let teller = told.clone();
        let workers = workers(store, &catalog)?;
        // Clients may want such a port at any time.
        let host =
            Host::new(&workers, true, move |event| teller.take(event)).map_err(|error| error.to_string())?;
        let (attic, removed) = channel::<Vec<Removed>>();
        let reaper = std::thread::Builder::new().name("reaper".into());
        let reaper = reaper.spawn(move || while removed.recv().is_ok() {});
        let threads = Mutex::new(vec![reaper.map_err(|error| error.to_string())?]);
        Ok(Controller {
            workshop: host.workshop().clone(),
            balancer: Mutex::new(host.balancer()),
            host: Mutex::new(host),
            desired: Mutex::default(),
            catalog,
            folder: Folder::open(state.join("snapshots"))?,
            told,
            attic,
            shares: Mutex::default(),
            started: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().into(),
            ends: Arc::default(),
            threads,
        })
    }

    /// Drains everything and gives the final account.
    ///
    /// # Errors
    /// [`Stopped`]: it was before.
    pub(crate) fn stop(&self) -> Result<Account, Stopped> {
        self.ends.store(true, Relaxed);
        lock(&self.host).stop()
    }

    /// Keeps workers equally busy and switches up to date, until the end.
    fn look_after(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        let ends = self.ends.clone();
        let looking = std::thread::Builder::new().name("balance".into()).spawn(move || {
            let mut swept = Instant::now();
            while !ends.load(Relaxed) {
                let Some(this) = this.upgrade() else { return };
                let fleet = lock(&this.host).fleet().clone();
                let pause = match lock(&this.balancer).as_mut() {
                    Some(balancer) => {
                        if let Some(moved) = balancer.look(&fleet)
                            && let Some(notices) = this.told.notices.get()
                        {
                            let text = format!("{} moved to worker {}", moved.names.join(", "), moved.to);
                            notices.tell(Kind::Workers, "workers", "moved", &text);
                        }
                        balancer.pause()
                    }
                    None => SWEEP_EVERY,
                };
                if swept.elapsed() >= SWEEP_EVERY {
                    swept = Instant::now();
                    // Workers that have stopped have nothing to sweep.
                    let _ = fleet.sweep_switches();
                }
                drop(this);
                std::thread::sleep(pause);
            }
        });
        if let Ok(thread) = looking {
            lock(&self.threads).push(thread);
        }
    }

    /// Checks changes, and says what they come to.
    fn check(&self, host: &Host, changes: &[ObjectChange]) -> Result<Checked, Refusal> {
        let faults = unknown_here(changes);
        if !faults.is_empty() {
            return Err(Refusal::Invalid(faults));
        }
        let changed: Vec<host::ObjectChange> = changes.iter().map(as_host).collect();
        let anew = changes.iter().filter(|change| change.snapshot.is_some());
        let anew: Vec<String> = anew.map(|change| change.name.clone()).collect();
        let checked = lock(&self.desired).check(&changed, &anew, host, &self.catalog);
        checked.map_err(|faults| {
            // What goes is right by itself: somebody else still names it.
            if changes.iter().all(|change| change.spec.is_none()) {
                Refusal::Conflict(faults)
            } else {
                Refusal::Invalid(faults)
            }
        })
    }

    fn make(&self, changes: &[ObjectChange], wait: bool) -> Result<Ready, Refusal> {
        let mut host = lock(&self.host);
        let Checked { plan, .. } = self.check(&host, changes)?;
        for instance in plan.add_instances.values().filter(|_| !wait) {
            let image = instance.image.clone();
            match self.workshop.has(&self.catalog, &image) {
                Ok(true) => {}
                Ok(false) => return Err(self.work(image)),
                Err(reason) => return Err(Refusal::Broken(reason)),
            }
        }
        let restarted = plan.remove_instances.iter().filter(|name| plan.add_instances.contains_key(*name));
        let restarted: Vec<String> = restarted.cloned().collect();
        let mut beginnings = HashMap::new();
        for change in changes.iter().filter(|change| change.spec.is_some()) {
            let saved = match &change.snapshot {
                Some(name) => Some(self.folder.load(name).map_err(Refusal::Broken)?.1),
                None => None,
            };
            if change.paused || saved.is_some() {
                beginnings.insert(change.name.clone(), Beginning { paused: change.paused, saved });
            }
        }
        let prepared = host.prepare(plan, beginnings, &self.catalog).map_err(refused)?;
        Ok(Ready { prepared, restarted })
    }

    /// Compiling an image, which takes its time.
    fn work(&self, image: String) -> Refusal {
        let workshop = self.workshop.clone();
        let loaded = self.catalog.load(&image);
        let what = format!("compiling {image}");
        Refusal::Work(Work {
            what,
            run: Box::new(move || {
                let loaded = loaded.map_err(Refusal::Broken)?;
                workshop.compile(&loaded).map_err(Refusal::Broken)
            }),
        })
    }

    fn carry_out(&self, ready: Ready, changes: Vec<ObjectChange>) {
        let mut host = lock(&self.host);
        let plan = ready.prepared.plan();
        let pins: Vec<(String, Option<usize>)> = plan
            .add_instances
            .iter()
            .map(|(name, instance)| (name.clone(), instance.worker))
            .chain(plan.adjust_instances.iter().map(|(name, adjustment)| (name.clone(), adjustment.worker)))
            .collect();
        let gone: Vec<String> = plan.remove_instances.iter().cloned().collect();
        match host.carry_out(ready.prepared) {
            Ok(done) => {
                for trouble in &done.troubles {
                    eprintln!("a change that had been checked did not go as it should have: {trouble}");
                }
                // The reaper ends with the program.
                let _ = self.attic.send(done.removed);
            }
            // The daemon is ending: what was acknowledged is in the store, and begins with the next start.
            Err(Stopped) => return,
        }
        if let Some(balancer) = lock(&self.balancer).as_mut() {
            for (name, worker) in pins {
                match (host.function(&name), worker) {
                    (Some(id), Some(worker)) => balancer.pin(id, worker),
                    (Some(id), None) => balancer.unpin(id),
                    (None, _) => {}
                }
            }
        }
        lock(&self.desired).take_over(changes.iter().map(as_host));
        for name in gone.iter().filter(|name| host.function(name).is_none()) {
            lock(&self.told.logs).forget(name);
            lock(&self.shares).remove(name);
        }
        for notice in host.take_notices() {
            if let Some(notices) = self.told.notices.get() {
                notices.tell(Kind::Workers, "workers", "notice", &notice);
            }
        }
    }

    fn function_status(&self, name: &str) -> Option<FunctionStatus> {
        let host = lock(&self.host);
        let (account, instance) = (host.account_of(name)?, host.instance(name)?);
        drop(host);
        let image = self.catalog.load(&instance.image).map(|image| digest(&image));
        let got_share = self.share(name, account.cycles);
        Some(status_of(account, image.unwrap_or_default(), got_share))
    }

    /// The share of a core that a function got since it was last asked for, a tenth of a second ago or more.
    fn share(&self, name: &str, cycles: Cycles) -> f64 {
        let now = Instant::now();
        let mut shares = lock(&self.shares);
        let Some(before) = shares.get_mut(name) else {
            shares.insert(name.to_owned(), (cycles, now, 0.0));
            return 0.0;
        };
        let passed = now.duration_since(before.1);
        if passed >= Duration::from_millis(100) {
            let spent = guest_wasm::watchdog::clock().span(cycles.since(before.0));
            *before = (cycles, now, spent.as_secs_f64() / passed.as_secs_f64());
        }
        before.2
    }
}

/// A change that was made ready, and the functions that begin anew with it.
struct Ready {
    prepared: host::Prepared,
    restarted: Vec<String>,
}

/// The same, for the server.
struct Change {
    controller: Arc<Controller>,
    ready: Ready,
    changes: Vec<ObjectChange>,
}

impl Prepared for Change {
    fn restarted(&self) -> Vec<String> {
        self.ready.restarted.clone()
    }

    fn carry_out(self: Box<Self>) {
        let Change { controller, ready, changes } = *self;
        controller.carry_out(ready, changes);
    }
}

/// A function with a new image, for the server.
struct Upgraded {
    controller: Arc<Controller>,
    taken: host::TakenOver,
    change: ObjectChange,
}

impl TakenOver for Upgraded {
    fn keep(self: Box<Self>) {
        lock(&self.controller.desired).take_over([as_host(&self.change)]);
    }

    fn roll_back(self: Box<Self>) {
        let Upgraded { controller, taken, .. } = *self;
        if let Err(error) = lock(&controller.host).roll_back(taken) {
            eprintln!("a new image could not be taken back: {error}");
        }
    }
}

/// What the server holds: the controller, which hands itself to what it prepares.
pub(crate) struct Handle(pub(crate) Arc<Controller>);

impl Control for Handle {
    fn begin(&self, objects: Vec<ObjectChange>, notices: Notices) -> Vec<(ObjectName, Fault)> {
        let this = &self.0;
        // It is called once.
        let _ = this.told.notices.set(notices);
        let mut faults = Vec::new();
        let mut wanted = objects;
        // Each time round, whatever is told to be wrong is left out.
        loop {
            let refusal = match this.make(&wanted, true) {
                Ok(ready) => {
                    this.carry_out(ready, wanted);
                    break;
                }
                Err(refusal) => refusal,
            };
            let told = faults_of(refusal);
            let before = wanted.len();
            for fault in told {
                let culprit = wanted.iter().position(|object| is_about(&fault, object));
                // A fault of the whole is nobody's in particular: the last kinds go first.
                let culprit = culprit.or_else(|| wanted.len().checked_sub(1));
                if let Some(at) = culprit {
                    let object = wanted.remove(at);
                    faults.push((ObjectName::new(object.kind, object.name), fault));
                }
            }
            if wanted.len() == before {
                break;
            }
        }
        if let Err(error) = lock(&this.host).start() {
            let workers = ObjectName::new(Kind::Workers, "workers");
            let message = format!("the workers' threads: {error}");
            faults.push((workers, Fault { at: "workers".to_owned(), message }));
        }
        this.look_after();
        faults
    }

    fn prepare(&self, changes: &[ObjectChange]) -> Result<Box<dyn Prepared>, Refusal> {
        let ready = self.0.make(changes, false)?;
        Ok(Box::new(Change { controller: self.0.clone(), ready, changes: changes.to_vec() }))
    }

    fn take_over(&self, change: &ObjectChange) -> Result<Box<dyn TakenOver>, Refusal> {
        let this = &self.0;
        // A file may have another content than when it was last read.
        if let Some(image) = change.spec.as_ref().and_then(|spec| spec["image"].as_str()) {
            this.catalog.forget(image);
        }
        let host = lock(&this.host);
        let Checked { plan, .. } = this.check(&host, std::slice::from_ref(change))?;
        let instance = match plan.add_instances.get(&change.name) {
            Some(instance) => instance.clone(),
            None => host
                .instance(&change.name)
                .ok_or_else(|| Refusal::NotFound(format!("there is no function `{}`", change.name)))?,
        };
        match this.workshop.has(&this.catalog, &instance.image) {
            Ok(true) => {}
            Ok(false) => return Err(this.work(instance.image)),
            Err(reason) => return Err(Refusal::Broken(reason)),
        }
        let taken = host.take_over(&change.name, &instance, &this.catalog).map_err(refused)?;
        Ok(Box::new(Upgraded { controller: this.clone(), taken, change: change.clone() }))
    }

    fn pause(&self, function: &str) -> Result<(), Refusal> {
        set_paused(&self.0, function, true)
    }

    fn resume(&self, function: &str) -> Result<(), Refusal> {
        set_paused(&self.0, function, false)
    }

    fn restart(&self, function: &str) -> Result<(), Refusal> {
        let host = lock(&self.0.host);
        if host.function(function).is_none() {
            return Err(Refusal::NotFound(format!("there is no function `{function}`")));
        }
        host.restart(function, &self.0.catalog).map_err(refused)
    }

    fn status(&self, kind: Kind, name: &str) -> Option<Value> {
        match kind {
            Kind::Function => serde_json::to_value(self.0.function_status(name)?).ok(),
            Kind::Port => {
                let account = lock(&self.0.host).account_of_port(name)?;
                Some(json!({
                    "state": format!("{:?}", account.status).to_lowercase(),
                    "packets": crate::json::ledger(&account.counters.ledger),
                    "received_bytes": account.counters.received_bytes,
                    "delivered_bytes": account.counters.delivered_bytes,
                    "in_flight": account.in_flight,
                }))
            }
            _ => None,
        }
    }

    fn logs(&self, function: &str, after: u64, limit: usize) -> Vec<LogLine> {
        lock(&self.0.told.logs).after(function, after, limit)
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        self.0.folder.list()
    }

    fn snapshot(&self, name: &str) -> Option<Snapshot> {
        self.0.folder.read(name)
    }

    fn save(&self, function: &str, name: &str) -> Result<Snapshot, Refusal> {
        let this = &self.0;
        let spec = lock(&this.desired).spec(Kind::Function, function);
        let spec = spec.ok_or_else(|| Refusal::NotFound(format!("there is no function `{function}`")))?;
        let saved = lock(&this.host).save(function).map_err(refused)?;
        this.folder.write(name, function, &spec, &saved).map_err(Refusal::NoRoom)
    }

    fn delete_snapshot(&self, name: &str) -> Result<bool, Refusal> {
        self.0.folder.remove(name).map_err(Refusal::Broken)
    }

    fn images(&self) -> Vec<Image> {
        let this = &self.0;
        let of = |(reference, image): (String, image::Image)| Image {
            digest: digest(&image),
            bytes: image.wasm().len() as u64,
            compiled: this.workshop.has(&this.catalog, &reference).unwrap_or(false),
            version: Some(image.manifest().version.to_string()),
            summary: Some(image.manifest().summary.clone()),
            reference,
        };
        this.catalog.known().into_iter().map(of).collect()
    }

    fn account(&self) -> Value {
        let fleet = lock(&self.0.host).fleet().clone();
        fleet.account(false).map_or(Value::Null, |account| crate::json::account("account", &account))
    }

    fn memory(&self) -> Value {
        let fleet = lock(&self.0.host).fleet().clone();
        let Ok(account) = fleet.account(false) else { return Value::Null };
        super::memory::of(&account)
    }

    fn metrics(&self, exposition: Exposition, to: &mut String) {
        let host = lock(&self.0.host);
        let (fleet, wiring) = (host.fleet().clone(), host.wiring());
        drop(host);
        if let Ok(account) = fleet.account(false) {
            let (busy, started) = (fleet.busy(), self.0.started);
            super::metrics::write(&account, &busy, &wiring, &self.0.catalog, started, exposition, to);
        }
    }
}

/// The digest of an image, as others name it.
fn digest(image: &image::Image) -> String {
    format!("sha256:{}", image.digest())
}

/// How a function is.
fn status_of(account: InstanceAccount, image: String, got_share: f64) -> FunctionStatus {
    let mut drops: std::collections::BTreeMap<String, u64> =
        account.own_drops.iter().map(|(name, count)| (format!("function:{name}"), *count)).collect();
    drops.extend(account.ledger.dropped.nonzero().map(|(reason, count)| (reason.to_string(), count)));
    let state = match (&account.down, account.paused) {
        (Some(_), _) => FunctionState::Down,
        (None, true) => FunctionState::Paused,
        (None, false) => FunctionState::Running,
    };
    FunctionStatus {
        state,
        reason: account.down,
        worker: Some(u32::from(account.worker)),
        image,
        packets: account.packets,
        bytes: account.bytes,
        calls: account.calls,
        cycles: account.cycles.0,
        promised_share: account.promised,
        got_share,
        queue: account.queue,
        drops,
        memory: FunctionMemory { private: account.memory, ..FunctionMemory::default() },
        faults: account.faults,
        restarts: account.restarts,
    }
}

fn set_paused(this: &Controller, function: &str, paused: bool) -> Result<(), Refusal> {
    match lock(&this.host).set_paused(function, paused) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Refusal::NotFound(format!("there is no function `{function}`"))),
        Err(error) => Err(Refusal::Busy(error.to_string())),
    }
}

/// The workers that the store says.
fn workers(store: &Store, catalog: &Catalog) -> Result<wiring::Workers, String> {
    let object = store.read(Kind::Workers.as_str(), "workers");
    let spec = match &object {
        Some(object) => daemon::spec_of(object).ok_or("the store's object `workers` cannot be read")?,
        None => return Ok(wiring::Workers::default()),
    };
    let document = json!({"superfluid": 1, "workers": spec}).to_string();
    match config::check("workers", &document, catalog) {
        Ok(read) => Ok(read.wiring.workers),
        Err(faults) => Err(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

fn as_host(change: &ObjectChange) -> host::ObjectChange {
    host::ObjectChange { kind: change.kind, name: change.name.clone(), spec: change.spec.clone() }
}

/// What may stand in a file, and means nothing here.
fn unknown_here(changes: &[ObjectChange]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for change in changes.iter().filter(|change| change.kind == Kind::Function) {
        for (key, allowed) in ONLY_RUN {
            if change.spec.as_ref().is_some_and(|spec| spec.get(key).is_some()) {
                faults.push(Fault {
                    at: format!("functions.{}.{key}", change.name),
                    message: format!("`{key}` is for `superfluid run`; allowed here: {allowed}"),
                });
            }
        }
    }
    faults
}

fn refused(error: PrepareError) -> Refusal {
    match &error {
        PrepareError::Part { what, name, reason } => {
            let section = match *what {
                "function" => "functions",
                "port" => "ports",
                "switch" => "switches",
                "pool" => "tenants",
                other => other,
            };
            Refusal::Invalid(vec![Fault { at: format!("{section}.{name}"), message: reason.clone() }])
        }
        PrepareError::Workers => {
            Refusal::Conflict(vec![Fault { at: "workers".to_owned(), message: error.to_string() }])
        }
        PrepareError::Placement(_) => Refusal::Broken(error.to_string()),
    }
}

fn faults_of(refusal: Refusal) -> Vec<Fault> {
    let whole = |message: String| vec![Fault { at: String::new(), message }];
    match refusal {
        Refusal::Invalid(faults) | Refusal::Conflict(faults) => faults,
        Refusal::NotFound(text) | Refusal::NoRoom(text) | Refusal::Busy(text) | Refusal::Broken(text) => {
            whole(text)
        }
        Refusal::Work(work) => whole(work.what),
    }
}

/// Whether a fault's place is in an object.
fn is_about(fault: &Fault, object: &ObjectChange) -> bool {
    let place = match object.kind {
        Kind::Workers => "workers".to_owned(),
        kind => format!("{}.{}", kind.plural(), object.name),
    };
    fault.at == place || fault.at.strip_prefix(&place).is_some_and(|rest| rest.starts_with(['.', '[']))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
