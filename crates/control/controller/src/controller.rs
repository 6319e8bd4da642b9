//! The host, what is wanted of it, and what is kept beside it.

use super::Settings;
use super::attaching::Attaching;
use super::containers::keeper_name;
use super::launcher_check::Answered;
use super::sampling::Sampled;
use super::shelf::Shelf;
use super::told::Told;
use super::watch::TenantWatch;
use api::{DEFAULT_TENANT, Kind, ObjectName};
use deployment::{CarriedOut, Catalog, Desired, Host, Workshop};
use engine::{Account, Balancer, Stopped};
use launcher::Keeper;
use offload::{Offload, Usage};
use serde_json::json;
use snapshot_folder::Folder;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, Release},
};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use store::Store;
use telemetry::clock::{Cycles, Nanos};

/// See the module's documentation.
pub(crate) struct Controller {
    pub(super) host: Host,
    /// Looked at as it is at one moment, with no lock held meanwhile.
    pub(super) desired: Mutex<Arc<Desired>>,
    /// How often what runs was changed.
    pub(super) generation: AtomicU64,
    pub(super) catalog: Catalog,
    pub(super) shelf: Shelf,
    pub(super) workshop: Arc<Workshop>,
    /// Does what tenants' requests ask for. It is another one than the host's, so that a tenant whose
    /// functions have used up its share for their starts can still be asked to give them up.
    pub(super) requests: Offload,
    /// What the host may promise, in bytes.
    pub(super) memory: Option<u64>,
    /// Registries that tenants may have images of.
    pub(super) tenant_registries: Vec<String>,
    /// Where everything is kept.
    pub(super) state: PathBuf,
    pub(super) folder: Folder,
    pub(super) told: Arc<Told>,
    pub(super) balancer: Mutex<Option<Balancer>>,
    /// What passed in the last hour.
    pub(super) sampled: Sampled,
    /// Memory to be given back, where no worker waits for it.
    pub(super) attic: Sender<CarriedOut>,
    /// What a function had used of the processor when it was last asked for, and when.
    pub(super) shares: Mutex<HashMap<String, (Cycles, Instant, f64)>>,
    /// What could not be started when the daemon began, and why.
    pub(super) left_out: Mutex<BTreeMap<ObjectName, String>>,
    /// Held by each trace and capture.
    pub(super) watching: Arc<()>,
    /// Traces and captures of tenants.
    pub(super) tenant_watches: Mutex<Vec<TenantWatch>>,
    /// Held by the backup that is being written.
    pub(super) backing_up: Arc<()>,
    /// Since the Unix epoch, and by the clock of what lasts.
    pub(super) started: Nanos,
    pub(super) begun: Instant,
    /// The launcher's socket.
    pub(super) launcher: PathBuf,
    /// What the launcher has nothing against, of what it was asked lately.
    pub(super) answered: Arc<Answered>,
    /// Keeps containers, from when all that the store says has begun.
    pub(super) containers: OnceLock<Arc<Keeper>>,
    /// Sees to it that guests attach.
    pub(super) attaching: Attaching,
    /// What containers are promised of their workers' cores.
    pub(super) promised: Mutex<HashMap<String, f64>>,
    pub(super) ends: Arc<AtomicBool>,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Controller {
    /// A host with the workers that the store says, and nothing on it. It may promise so many bytes of
    /// `memory`; `None`: any number.
    ///
    /// # Errors
    /// Why there is none, in words for the operator.
    pub(crate) fn new(store: &Store, settings: &Settings) -> Result<Controller, String> {
        let (state, memory) = (&settings.state, settings.memory.or_else(super::cgroup::limit));
        let shelf = Shelf::open(settings)?;
        let catalog = Catalog::with_kept(Path::new("."), shelf.kept())
            .promising(memory)
            .with_guest_sockets(&settings.guest_sockets)
            .with_owner(launcher::owner_of(&keeper_name(state)));
        let told = Told::begin(state).map_err(|error| format!("a thread: {error}"))?;
        let told = Arc::new(told);
        let teller = told.clone();
        let workers = workers(store, &catalog).unwrap_or_else(|why| {
            // The fault is told of the object as well, and what can run does.
            console::error().line(&format!("the store's workers: {why}; one runs, on any processor"));
            wiring::Workers::default()
        });
        // Clients may want such a port at any time.
        let host =
            Host::new(&workers, true, move |event| teller.take(event)).map_err(|error| error.to_string())?;
        let catalog = catalog.counting(host.shared_images());
        if settings.perf_map {
            console::error().line(&format!("superfluid: {}", host.workshop().write_perf_map()?));
        }
        let requests = Offload::new(&offload::Settings::default()).map_err(|error| error.to_string())?;
        // The operator's own has no bound, as for the host's.
        requests.set_share(DEFAULT_TENANT, None);
        let (attic, reaper) = super::attic::begin().map_err(|error| error.to_string())?;
        let threads = Mutex::new(vec![reaper]);
        Ok(Controller {
            workshop: host.workshop().clone(),
            requests,
            balancer: Mutex::new(host.balancer()),
            host,
            desired: Mutex::default(),
            generation: AtomicU64::new(0),
            catalog,
            shelf,
            memory,
            tenant_registries: settings.tenant_registries.clone(),
            state: state.to_owned(),
            folder: {
                let (folder, lines) = Folder::open(state).map_err(|error| error.to_string())?;
                lines.iter().for_each(|line| console::error().line(line));
                folder
            },
            told,
            sampled: Sampled::new(),
            attic,
            shares: Mutex::default(),
            left_out: Mutex::default(),
            watching: Arc::default(),
            tenant_watches: Mutex::default(),
            backing_up: Arc::default(),
            started: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().into(),
            begun: Instant::now(),
            launcher: settings.launcher.clone(),
            answered: Arc::default(),
            containers: OnceLock::new(),
            attaching: Attaching::default(),
            promised: Mutex::default(),
            ends: Arc::default(),
            threads,
        })
    }

    /// What is wanted, as it is now.
    pub(super) fn desired(&self) -> Arc<Desired> {
        lock(&self.desired).clone()
    }

    /// What is done beside the workers for each tenant: for its functions, and for its requests.
    pub(super) fn background(&self) -> BTreeMap<String, Usage> {
        let mut all = self.host.offload().usages();
        for (tenant, theirs) in self.requests.usages() {
            let sum = all.entry(tenant).or_default();
            sum.used = sum.used.saturating_add(theirs.used);
            sum.waiting += theirs.waiting;
            sum.running += theirs.running;
            sum.done += theirs.done;
            sum.refused += theirs.refused;
            sum.overdrawn |= theirs.overdrawn;
        }
        all
    }

    /// What is wanted and what runs have changed together.
    pub(super) fn changed(&self, changes: impl IntoIterator<Item = deployment::ObjectChange>) {
        // It is copied only if it is being looked at.
        Arc::make_mut(&mut *lock(&self.desired)).take_over(changes);
        self.generation.fetch_add(1, Release);
    }

    /// Drains everything and gives the final account.
    ///
    /// # Errors
    /// [`Stopped`]: it was before.
    pub(crate) fn stop(&self) -> Result<Account, Stopped> {
        self.ends.store(true, Relaxed);
        if let Some(keeper) = self.containers.get() {
            keeper.leave();
        }
        self.host.stop()
    }
}

/// The workers that the store says.
fn workers(store: &Store, catalog: &Catalog) -> Result<wiring::Workers, String> {
    let object = store.read(Kind::Workers.as_str(), "workers");
    let spec = match &object {
        Some(object) => api_server::spec_of(object).ok_or("the store's object `workers` cannot be read")?,
        None => return Ok(wiring::Workers::default()),
    };
    let document = json!({"superfluid": 1, "workers": spec}).to_string();
    match config::check("workers", &document, catalog) {
        Ok(read) => Ok(read.wiring.workers),
        Err(faults) => Err(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
