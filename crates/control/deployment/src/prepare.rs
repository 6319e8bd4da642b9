//! What a plan adds, made ready: memory, programs, started functions, opened ports. Nothing that runs is
//! touched.

use crate::catalog::Catalog;
use crate::deployed::{Deployed, own_pool, pool_of};
use crate::function::{StartedFunction, Unstarted};
use crate::hand_over::{HandedOver, Successor};
use crate::initial_placement::InitialPlacement;
use crate::lives::Around;
use crate::shared_images::SharedImages;
use crate::stripes::Striped;
use crate::workshop::{Unused, Workshop};
use crate::{Host, drivers};
use api::DEFAULT_TENANT;
use engine::FleetInstance;
use guest_wasm::{LOG_LINES, SharedMemory, Slice};
use indexmap::IndexMap;
use offload::Refused;
use packet_memory::{PageKind, Pool, PoolConfig};
use port::Port;
use snapshot::Saved;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use telemetry::steps;
use virtual_switch::Switch;
use wiring::{Instance, InstancePool, Plan, PortIo, Wiring};

/// Said of workers that are wanted and are not those that run.
pub const WORKERS_LATER: &str = "they come when the daemon starts again; until then those of before run";

/// Why a plan is not carried out. Whatever was made for it is given back, and what runs goes on.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A part cannot be made.
    #[error("{what} `{name}`: {reason}")]
    Part {
        /// `function`, `port`, `switch`, `pool`.
        what: &'static str,
        /// Its name.
        name: String,
        /// Why, in words.
        reason: String,
    },
    /// The work of starting or handing over is not done.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Nothing can be placed.
    #[error("{0}")]
    Placement(String),
}

/// How a function begins.
#[derive(Default)]
pub struct Beginning {
    /// It is paused until it is resumed.
    pub paused: bool,
    /// What was saved of one, of the same image and configuration, with which it goes on.
    pub saved: Option<Saved<'static>>,
}

/// A plan, with everything that it adds. Dropped, it leaves all as it was.
pub struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) beginnings: HashMap<String, Beginning>,
    pub(crate) pools: HashMap<String, Arc<Pool>>,
    /// Pools that were there, of which its functions and ports are.
    pub(crate) in_use: HashMap<String, Arc<Pool>>,
    pub(crate) switches: HashMap<String, Arc<Switch>>,
    pub(crate) functions: HashMap<String, StartedFunction>,
    pub(crate) ports: HashMap<String, Box<dyn Port>>,
    /// What is to be in striped bonds, by their names.
    pub(crate) stripes: HashMap<String, Striped>,
    /// Functions that are to hand over.
    pub(crate) successors: Vec<Successor>,
    /// Those that have.
    pub(crate) handed: HandedOver,
    /// Where everything is to begin, when it is a wiring as a whole.
    pub(crate) initial: Option<InitialPlacement>,
    /// Its pools, until it is carried out. After the functions, which leave address space behind.
    pub(crate) unused: Unused,
}

impl Prepared {
    /// What it does.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl Host {
    /// Makes ready what a plan adds to what runs, each function as `beginnings` says. It takes as long as
    /// functions take to start and holds no lock meanwhile: several plans may be made ready at once, and
    /// [`fits`](Host::fits) says whether one still is what it was.
    ///
    /// # Errors
    /// [`PrepareError`].
    pub fn prepare(
        &self,
        plan: Plan,
        beginnings: HashMap<String, Beginning>,
        catalog: &Catalog,
    ) -> Result<Prepared, PrepareError> {
        let mut notices = Vec::new();
        let prepared = self.make(plan, beginnings, catalog, Some(&mut notices))?;
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).append(&mut notices);
        Ok(prepared)
    }

    /// Finds out whether a plan could be made ready: as [`Host::prepare`], but what ports lead to is as it is
    /// after it. None is opened; captures are looked at. Others wait for what is not there, and are refused
    /// for nothing that a look at their settings does not show.
    ///
    /// # Errors
    /// [`PrepareError`].
    pub fn try_out(
        &self,
        plan: Plan,
        beginnings: HashMap<String, Beginning>,
        catalog: &Catalog,
    ) -> Result<Prepared, PrepareError> {
        self.make(plan, beginnings, catalog, None)
    }

    /// Without `notices` it is tried alone.
    fn make(
        &self,
        plan: Plan,
        mut beginnings: HashMap<String, Beginning>,
        catalog: &Catalog,
        notices: Option<&mut Vec<String>>,
    ) -> Result<Prepared, PrepareError> {
        let (opens, mut untold) = (notices.is_some(), Vec::new());
        let notices = notices.unwrap_or(&mut untold);
        // Taken out of what runs, so that functions start and devices open while others look at it.
        let (in_use, nothing_runs, changed) = {
            let deployed = self.deployed();
            if plan.add_ports.values().any(drivers::names_another) {
                let after = plan.ports_after(&deployed.wiring);
                drivers::pair(&after).map_err(|(name, reason)| failed("port", &name)(&reason))?;
            }
            let changed: Result<Vec<_>, _> =
                plan.change_instances.iter().map(|(name, next)| changed(&deployed, name, next)).collect();
            (
                pools_in_use(&plan, &deployed),
                deployed.instances.is_empty() && deployed.ports.is_empty(),
                changed?,
            )
        };
        if plan.workers.as_ref().is_some_and(|workers| *workers != self.workers) {
            notices.push(format!("workers: {WORKERS_LATER}"));
        }
        self.check_workers(&plan)?;
        let pools = pools(&plan, notices)?;
        steps::done("memory");
        // First of all, so that it is dropped last.
        let unused = Unused { pools: pools.values().cloned().collect(), workshop: self.workshop.clone() };
        let find_pool = |name: &str| {
            let pool = pools.get(name).or_else(|| in_use.get(name)).cloned();
            pool.ok_or_else(|| failed("pool", name)(&"there is none of this name"))
        };
        let mut switches = HashMap::new();
        for (name, switch) in &plan.add_switches {
            let table = Switch::new(switch.settings()).map_err(|error| failed("switch", name)(&error))?;
            switches.insert(name.clone(), Arc::new(table));
        }
        let mut functions = HashMap::new();
        for (name, instance) in &plan.add_instances {
            let program = self.workshop.program(catalog, &instance.image);
            let program = program.map_err(|reason| failed("function", name)(&reason))?;
            steps::done("image");
            let pool = find_pool(&pool_of(name, instance))?;
            let observes = plan.observe.iter().any(|seen| &seen.observer == name);
            let slice = Slice(self.workers.slice);
            let saved = beginnings.get_mut(name).and_then(|beginning| beginning.saved.take());
            let sharing = saved.is_some().then(|| self.sharing(&plan, catalog));
            let pauses = beginnings.get(name).is_some_and(|beginning| beginning.paused);
            let theirs = instance.clone();
            let start = move || {
                let started = Sharing::memory(sharing, &theirs, saved.as_ref()).and_then(|shared| {
                    let from = saved.as_ref().map(|saved| (saved, shared));
                    Unstarted::new(&theirs, program, pool, slice, observes, LOG_LINES).start_from(from)
                });
                (if pauses { started.and_then(StartedFunction::frozen) } else { started }, saved)
            };
            // Where nothing runs yet, there is no other function to disturb.
            let (started, saved) = if nothing_runs {
                self.offload.run_here(instance.payer(), start)
            } else {
                self.run_start(instance.payer(), start)?
            };
            if let Some(beginning) = beginnings.get_mut(name) {
                beginning.saved = saved;
            }
            functions.insert(name.clone(), started.map_err(|reason| failed("function", name)(&reason))?);
        }
        let mut successors = Vec::new();
        for (name, (id, before, around)) in plan.change_instances.keys().zip(changed) {
            let instance = &plan.change_instances[name];
            successors.push(self.successor(name, id, (before, instance), catalog, around)?);
        }
        steps::done("shell");
        let mut ports = HashMap::new();
        self.check_captures(&plan, catalog, opens)?;
        for (name, port) in plan.add_ports.iter().filter(|_| opens) {
            let pool = find_pool(&port.tenant)?;
            let opened = drivers::open(name, port, &pool, (catalog, &self.stations), notices);
            ports.insert(name.clone(), opened.map_err(|reason| failed("port", name)(&reason))?);
        }
        let mut stripes = HashMap::new();
        for (name, device) in &plan.add_devices {
            let striped = Striped::of(name, device).map_err(|error| failed("device", name)(&error))?;
            stripes.extend(striped.map(|striped| (name.clone(), striped)));
        }
        steps::done("ports");
        let initial = nothing_runs.then(|| self.initial_placement(&plan)).transpose()?;
        let handed = HandedOver::none(self.fleet.clone(), self.offload.clone(), self.handing.clone());
        Ok(Prepared {
            plan,
            beginnings,
            pools,
            in_use,
            switches,
            functions,
            ports,
            stripes,
            successors,
            handed,
            initial,
            unused,
        })
    }

    /// Whether the workers run that functions are to be on.
    fn check_workers(&self, plan: &Plan) -> Result<(), PrepareError> {
        let running = self.workers.list.len();
        let come = plan.add_instances.iter().chain(&plan.change_instances);
        let come = come.map(|(name, instance)| (name, instance.worker));
        let stay = plan.adjust_instances.iter().map(|(name, adjusted)| (name, adjusted.worker));
        for (name, worker) in come.chain(stay) {
            if let Some(worker) = worker.filter(|worker| *worker >= running) {
                let found = format!("worker {worker} comes when the daemon starts again; {running} run now");
                return Err(failed("function", name)(&found));
            }
        }
        Ok(())
    }

    /// Whether the captures that ports read or write can be had. A port that is opened finds out by itself
    /// what is wrong with its own.
    fn check_captures(&self, plan: &Plan, catalog: &Catalog, opens: bool) -> Result<(), PrepareError> {
        if !plan.add_ports.values().any(|port| port.driver == "pcap") {
            return Ok(());
        }
        let (after, new) = (plan.ports_after(&self.wiring()), |name: &str| plan.add_ports.contains_key(name));
        let unusable = match opens {
            true => drivers::shared_capture(&after, new, catalog),
            false => drivers::unusable_captures(&after, new, catalog).pop(),
        };
        unusable.map_or(Ok(()), |(name, why)| Err(failed("port", &name)(&why)))
    }

    /// Where everything is to begin when nothing runs yet.
    fn initial_placement(&self, plan: &Plan) -> Result<InitialPlacement, PrepareError> {
        let mut whole = Wiring {
            workers: self.workers.clone(),
            ports: plan.add_ports.clone(),
            instances: plan.add_instances.clone(),
            devices: plan.add_devices.clone(),
            edges: plan.wire.clone(),
            observations: plan.observe.clone(),
            ..Wiring::default()
        };
        if self.io_worker().is_none() {
            whole.ports.values_mut().for_each(|port| port.io = PortIo::Inline);
        }
        InitialPlacement::of(&whole).map_err(|error| PrepareError::Placement(error.to_string()))
    }

    /// Runs the start of a tenant's guest beside the workers. What names no tenant is the operator's own, and
    /// starts without the way to another thread and back.
    pub(crate) fn run_start<T: Send + 'static>(
        &self,
        tenant: &str,
        start: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refused> {
        if tenant == DEFAULT_TENANT {
            return Ok(self.offload.run_here(tenant, start));
        }
        self.offload.run(tenant, start)
    }

    fn sharing(&self, plan: &Plan, catalog: &Catalog) -> Sharing {
        Sharing {
            images: self.shared_images.clone(),
            deployed: self.deployed.clone(),
            coming: plan.add_instances.values().cloned().collect(),
            going: plan.remove_instances.clone(),
            limit: config::Catalog::memory(catalog),
        }
    }

    /// Whether what was prepared goes with what runs now: `plan` is what the same change comes to now.
    pub fn fits(&self, prepared: &Prepared, plan: &Plan) -> bool {
        let deployed = self.deployed();
        let nothing_runs = deployed.instances.is_empty() && deployed.ports.is_empty();
        // A tenant that went and came back has another pool.
        let same = |(name, pool): (&String, &Arc<Pool>)| {
            prepared.plan.remove_tenants.contains(name)
                || deployed.pools.get(name).is_some_and(|(there, _)| Arc::ptr_eq(there, pool))
        };
        // What is said of a function that has handed over does not change before the change is carried out.
        let is_still = |name: &str, id, before| {
            deployed.instances.get(name) == Some(&id) && deployed.wiring.instances.get(name) == Some(before)
        };
        prepared.plan == *plan
            && prepared.initial.is_some() == nothing_runs
            && prepared.in_use.iter().all(same)
            && prepared.successors.iter().all(|one| is_still(&one.name, one.id, &one.before))
            && prepared.handed.done.iter().all(|one| is_still(&one.name, one.id, &one.instances.0))
    }

    /// The worker of ports that have a thread of their own, if there is one.
    pub(crate) fn io_worker(&self) -> Option<usize> {
        Some(self.workers.list.len()).filter(|worker| *worker < self.fleet.workers())
    }
}

/// What it takes to share a snapshot's memory, in a job beside the workers: to compare it, or to copy it,
/// takes as long as it is large.
struct Sharing {
    images: Arc<SharedImages>,
    deployed: Arc<Mutex<Deployed>>,
    /// What the plan brings and takes away.
    coming: Vec<Instance>,
    going: BTreeSet<String>,
    /// What the host may promise.
    limit: Option<u64>,
}

impl Sharing {
    /// The memory of a snapshot for a function of a plan, if there is a snapshot and room for its memory.
    fn memory(
        sharing: Option<Sharing>,
        instance: &Instance,
        saved: Option<&Saved<'_>>,
    ) -> Result<Option<Arc<SharedMemory>>, String> {
        let (Some(Sharing { images, deployed, coming, going, limit }), Some(saved)) = (sharing, saved) else {
            return Ok(None);
        };
        // One that is refused when it is restored takes nothing before.
        if saved.memory.size() > instance.memory {
            return Ok(None);
        }
        let tenant = instance.tenant.as_str();
        let has_room = |more| {
            let deployed = deployed.lock().unwrap_or_else(PoisonError::into_inner);
            let going = going.iter().filter_map(|name| deployed.wiring.instances.get(name));
            let beside = |of: &str| images.bytes_of(of) + if of == tenant { more } else { 0 };
            deployed.fits(coming.iter(), going, limit, beside)
        };
        images.of(tenant, saved, has_room).map_err(|error| error.to_string())
    }
}

/// What a function that is to hand over is, and has around it.
fn changed(
    deployed: &Deployed,
    name: &str,
    next: &Instance,
) -> Result<(FleetInstance, Instance, Around), PrepareError> {
    let absent = || failed("function", name)(&"there is none of this name");
    let id = deployed.instances.get(name).copied().ok_or_else(absent)?;
    let before = deployed.wiring.instances.get(name).cloned().ok_or_else(absent)?;
    Ok((id, before, Around::of(deployed, name, next)?))
}

/// Pools that a plan finds, by their owners' names, of those that it needs.
fn pools_in_use(plan: &Plan, deployed: &Deployed) -> HashMap<String, Arc<Pool>> {
    let functions = plan.add_instances.iter().map(|(name, instance)| pool_of(name, instance));
    let names = functions.chain(plan.add_ports.values().map(|port| port.tenant.clone()));
    names.filter_map(|name| deployed.pools.get(&name).map(|(pool, _)| (name, pool.clone()))).collect()
}

/// A pool for each new tenant, and for each new function that has one of its own.
fn pools(plan: &Plan, notices: &mut Vec<String>) -> Result<HashMap<String, Arc<Pool>>, PrepareError> {
    let own = own_pools(&plan.add_instances);
    let tenants = plan.add_tenants.iter().map(|(name, tenant)| (name.clone(), tenant.pool));
    let mut pools = HashMap::new();
    for (name, config) in tenants.chain(own) {
        let pool = Pool::new(&name, config).map_err(|error| failed("pool", &name)(&error))?;
        if pool.memory().pages() == PageKind::Ordinary && config.pages.is_none() {
            let needed = pool.memory().len().div_ceil(PageKind::Huge.size());
            notices.push(format!(
                "pool `{name}`: on ordinary pages, which costs speed; {needed} free huge pages would be used: \
                 sysctl -w vm.nr_hugepages={needed}"
            ));
        }
        pools.insert(name, Arc::new(pool));
    }
    Ok(pools)
}

fn own_pools(instances: &IndexMap<String, Instance>) -> impl Iterator<Item = (String, PoolConfig)> {
    instances.iter().filter_map(|(name, instance)| match &instance.pool {
        InstancePool::Own(config) => Some((own_pool(name), *config)),
        InstancePool::Tenant => None,
    })
}

/// Starts every function of a wiring with its configuration, and nothing else: the warnings of those that
/// start, a line each, with the functions' names. Of what a function says it tells at most `log_lines` lines.
///
/// # Errors
/// What each function that refuses has to say.
pub fn rehearse(
    wiring: &Wiring,
    catalog: &Catalog,
    log_lines: usize,
) -> Result<Vec<(String, String)>, Vec<PrepareError>> {
    let place = |reason: String| vec![PrepareError::Placement(reason)];
    let (workshop, _) = Workshop::open().map_err(place)?;
    let small = PoolConfig { buffers: 64, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
    let pool = Pool::new("rehearsal", small).map_err(|error| vec![failed("pool", "rehearsal")(&error)])?;
    let pool = Arc::new(pool);
    let (mut refused, mut warnings) = (Vec::new(), Vec::new());
    for (name, instance) in &wiring.instances {
        let program = workshop.program(catalog, &instance.image);
        let started = program.and_then(|program| {
            let slice = Slice(wiring.workers.slice);
            Unstarted::new(instance, program, pool.clone(), slice, false, log_lines).start()
        });
        match started {
            Ok(mut started) => warnings.extend(started.warnings().map(|line| (name.clone(), line))),
            Err(reason) => refused.push(failed("function", name)(&reason)),
        }
    }
    refused.extend(drivers::pair(&wiring.ports).err().map(|(name, reason)| failed("port", &name)(&reason)));
    if refused.is_empty() { Ok(warnings) } else { Err(refused) }
}

pub(crate) fn failed(what: &'static str, name: &str) -> impl FnOnce(&dyn std::fmt::Display) -> PrepareError {
    let name = name.to_owned();
    move |reason| PrepareError::Part { what, name, reason: reason.to_string() }
}
