//! From a wiring to a worker: pools, programs, ports, instances, wires, in this order; all of it or nothing.

use crate::catalog::Catalog;
use crate::compile_process;
use crate::hop_capture::{Hop, HopTaps};
use crate::places::{Places, threads};
use cpu_share::TenantId;
use engine::{
    Balancer, End, Event, FailPolicy, Fleet, FleetInstance, FleetPort, GuestFactory, InstanceSetup, PoolId,
    RestartPolicy, SwitchId, ThreadPlan,
};
use guest::{Guest, SlotConfig};
use guest_wasm::{
    Access, CompileCache, InstanceError, InstanceSettings, Program, ProgramFacts, Sandbox, Slice, watchdog,
};
use image::Image;
use packet_memory::{PageKind, Pool, PoolConfig};
use port::Port;
use port::fault::{self, FaultPort};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use virtual_switch::Switch;
use wiring::{Endpoint, FailMode, InstancePool, Wiring};

/// Most packets that wait for an instance.
const QUEUE: usize = 1024;

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("{what} `{name}`: {reason}")]
    Part { what: &'static str, name: String, reason: String },
    #[error("{0}")]
    Process(String),
}

/// Workers, ready to run, and what there is to say about how it came to be.
pub(crate) struct Launched {
    pub(crate) fleet: Fleet,
    /// Their threads.
    pub(crate) threads: Vec<ThreadPlan>,
    /// Who moves functions between them, if somebody is to.
    pub(crate) balancer: Option<Balancer>,
    /// Who is paused or goes on at which time, the first one last.
    pub(crate) pauses: Vec<Turn>,
    pub(crate) notices: Vec<String>,
}

/// An instance is paused, or goes on.
pub(crate) struct Turn {
    /// After the start.
    pub(crate) at: Duration,
    pub(crate) instance: FleetInstance,
    pub(crate) pauses: bool,
}

/// Starts instances of one image in one pool.
struct Factory {
    program: Arc<Program>,
    pool: Arc<Pool>,
    settings: InstanceSettings,
}

impl GuestFactory for Factory {
    fn start(&mut self) -> Result<Box<dyn Guest>, String> {
        self.guest().map_err(|error| error.to_string())
    }
}

impl Factory {
    fn guest(&self) -> Result<Box<dyn Guest>, InstanceError> {
        guest_wasm::start(&self.program, &self.pool, self.settings.clone())
    }

    /// The first start. What a function says of its configuration is told as it is, a line each.
    fn first(&self, name: &str) -> Result<Box<dyn Guest>, LaunchError> {
        self.guest().map_err(|error| match error {
            InstanceError::Refused { log, .. } if !log.is_empty() => {
                let lines: String = log.iter().flat_map(|line| ["\n  ", line.text.as_str()]).collect();
                failed("function", name)(&format!("it refuses its configuration:{lines}"))
            }
            error => failed("function", name)(&error),
        })
    }
}

struct Launch<'a> {
    wiring: &'a Wiring,
    catalog: &'a Catalog,
    sandbox: Sandbox,
    cache: Option<CompileCache>,
    fleet: Fleet,
    threads: Vec<ThreadPlan>,
    places: Places,
    notices: Vec<String>,
    tenants: HashMap<String, TenantId>,
    switches: HashMap<String, (SwitchId, Arc<Switch>)>,
    pools: HashMap<String, (Arc<Pool>, PoolId)>,
    programs: HashMap<String, (Image, Arc<Program>)>,
    ports: HashMap<String, FleetPort>,
    instances: HashMap<String, FleetInstance>,
}

/// Makes a worker of a wiring, its packets shown to taps. `tell` gets the worker's events.
///
/// # Errors
/// [`LaunchError`]; whatever was opened is closed again.
pub(crate) fn launch(
    wiring: &Wiring,
    catalog: &Catalog,
    taps: HopTaps,
    tell: impl Fn(Event) + Send + Sync + 'static,
) -> Result<Launched, LaunchError> {
    let mut launch = prepare(wiring, catalog, tell)?;
    launch.pools()?;
    launch.tenants()?;
    launch.instances()?;
    launch.ports()?;
    launch.switches()?;
    launch.wires()?;
    launch.taps(taps)?;
    let balances = wiring.workers.balance && wiring.workers.list.len() > 1;
    let Launch { fleet, threads, notices, instances, .. } = launch;
    let balancer = balances.then(|| {
        let mut balancer = Balancer::new(wiring.workers.list.len());
        for (name, worker) in wiring.homes() {
            if let Some(instance) = instances.get(name) {
                balancer.pin(*instance, worker);
            }
        }
        balancer
    });
    let pauses = turns(wiring, &instances);
    Ok(Launched { fleet, threads, balancer, pauses, notices })
}

/// Starts every function of a wiring with its configuration, and nothing else.
///
/// # Errors
/// What each function that refuses has to say.
pub(crate) fn rehearse(wiring: &Wiring, catalog: &Catalog) -> Result<(), Vec<LaunchError>> {
    let mut launch = prepare(wiring, catalog, |_| {}).map_err(|error| vec![error])?;
    let small = PoolConfig { buffers: 64, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
    let pool = Pool::new("rehearsal", small).map_err(|error| vec![failed("pool", "rehearsal")(&error)])?;
    let pool = Arc::new(pool);
    let mut refused = Vec::new();
    for (name, instance) in &wiring.instances {
        let started = launch.program(&instance.image).map_err(|reason| failed("function", name)(&reason));
        let started = started.and_then(|(_, program)| {
            let settings =
                InstanceSettings { config: instance.config.to_cbor(), ..InstanceSettings::default() };
            Factory { program, pool: pool.clone(), settings }.first(name)
        });
        refused.extend(started.err());
    }
    if refused.is_empty() { Ok(()) } else { Err(refused) }
}

fn prepare<'a>(
    wiring: &'a Wiring,
    catalog: &'a Catalog,
    tell: impl Fn(Event) + Send + Sync + 'static,
) -> Result<Launch<'a>, LaunchError> {
    let process = |error: &dyn std::fmt::Display| LaunchError::Process(error.to_string());
    let sandbox = Sandbox::new().map_err(|error| process(&error))?;
    let clock = *watchdog::clock();
    let (settings, threads) = threads(wiring);
    let fleet = Fleet::new(&settings, clock, tell).map_err(|error| process(&error))?;
    let mut notices = Vec::new();
    let cache = match CompileCache::open(&cache_directory("compiled")) {
        Ok(cache) => Some(cache),
        Err(error) => {
            notices.push(format!("{error}; images are compiled at every start"));
            None
        }
    };
    Ok(Launch {
        wiring,
        catalog,
        sandbox,
        cache,
        fleet,
        threads,
        places: Places::of(wiring).map_err(|error| process(&error))?,
        notices,
        tenants: HashMap::new(),
        switches: HashMap::new(),
        pools: HashMap::new(),
        programs: HashMap::new(),
        ports: HashMap::new(),
        instances: HashMap::new(),
    })
}

/// Where this program keeps what it can have again.
pub(crate) fn cache_directory(below: &str) -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .unwrap_or_else(std::env::temp_dir);
    base.join("superfluid").join(below)
}

fn failed(what: &'static str, name: &str) -> impl FnOnce(&dyn std::fmt::Display) -> LaunchError {
    let name = name.to_owned();
    move |reason| LaunchError::Part { what, name, reason: reason.to_string() }
}

impl Launch<'_> {
    /// A pool for each tenant, and for each instance that has one of its own.
    fn pools(&mut self) -> Result<(), LaunchError> {
        let own = self.wiring.instances.iter().filter_map(|(name, instance)| match &instance.pool {
            InstancePool::Own(config) => Some((own_pool(name), *config)),
            InstancePool::Tenant => None,
        });
        let tenants = self.wiring.tenants.iter().map(|(name, tenant)| (name.clone(), tenant.pool));
        for (name, config) in tenants.chain(own).collect::<Vec<_>>() {
            let pool = Pool::new(&name, config).map_err(|error| failed("pool", &name)(&error))?;
            if pool.memory().pages() == PageKind::Ordinary && config.pages.is_none() {
                let needed = pool.memory().len().div_ceil(PageKind::Huge.size());
                self.notices.push(format!(
                    "pool `{name}`: on ordinary pages, which costs speed; {needed} free huge pages would be used: \
                     sysctl -w vm.nr_hugepages={needed}"
                ));
            }
            let pool = Arc::new(pool);
            let id = self.fleet.add_pool(pool.clone()).map_err(|error| failed("pool", &name)(&error))?;
            self.pools.insert(name, (pool, id));
        }
        Ok(())
    }

    /// Claims of tenants on every worker.
    fn tenants(&mut self) -> Result<(), LaunchError> {
        for (name, tenant) in &self.wiring.tenants {
            let id =
                self.fleet.add_tenant(tenant.cpu.claim()).map_err(|error| failed("tenant", name)(&error))?;
            self.tenants.insert(name.clone(), id);
        }
        Ok(())
    }

    fn switches(&mut self) -> Result<(), LaunchError> {
        for (name, switch) in &self.wiring.switches {
            let table = Switch::new(switch.settings()).map_err(|error| failed("switch", name)(&error))?;
            let table = Arc::new(table);
            // Forwarding is done in the sender's context, whatever worker that is on.
            let id = self
                .fleet
                .add_switch(name, table.clone(), None)
                .map_err(|error| failed("switch", name)(&error))?;
            self.switches.insert(name.clone(), (id, table));
        }
        Ok(())
    }

    fn pool(&self, name: &str) -> Result<(Arc<Pool>, PoolId), LaunchError> {
        self.pools.get(name).cloned().ok_or_else(|| failed("pool", name)(&"there is none of this name"))
    }

    fn instances(&mut self) -> Result<(), LaunchError> {
        for (name, instance) in &self.wiring.instances {
            let (image, program) =
                self.program(&instance.image).map_err(|reason| failed("function", name)(&reason))?;
            let (pool, pool_id) = match &instance.pool {
                InstancePool::Tenant => self.pool(&instance.tenant)?,
                InstancePool::Own(_) => self.pool(&own_pool(name))?,
            };
            let buffers = pool.config().buffers;
            let quota = instance.quota.of(buffers);
            let observes = self.wiring.observations.iter().any(|observation| &observation.observer == name);
            // An observer's copies are bounded like any packets of its own: they must not starve those who forward.
            let queue = if observes { QUEUE.min(quota as usize).max(1) } else { QUEUE };
            let settings = InstanceSettings {
                config: instance.config.to_cbor(),
                slots: SlotConfig { quota, longest_hold: instance.longest_hold },
                max_call: instance.max_call,
                preemptible: instance.preemptible.then_some(Slice(self.wiring.workers.slice)),
                ..InstanceSettings::default()
            };
            let factory = Factory { program, pool, settings };
            let guest = factory.first(name)?;
            let setup = InstanceSetup {
                name: name.clone(),
                pool: pool_id,
                tenant: self.tenants.get(&instance.tenant).copied().unwrap_or(TenantId(0)),
                claim: instance.cpu.claim(),
                interfaces: instance.interfaces,
                flow_hash: image.manifest().flow_hash,
                drop_reasons: image.manifest().drop_reasons.clone(),
                counters: image.manifest().counters.clone(),
                factory: Box::new(factory),
                fail: match instance.fail {
                    FailMode::Closed => FailPolicy::Closed,
                    FailMode::Open => FailPolicy::Open,
                },
                restart: RestartPolicy {
                    first_delay: instance.restart.first,
                    longest_delay: instance.restart.longest,
                },
                queue,
            };
            let id = self
                .fleet
                .add_instance(self.places.of_name(name), setup, guest)
                .map_err(|error| failed("function", name)(&error))?;
            self.instances.insert(name.clone(), id);
        }
        Ok(())
    }

    /// The compiled image, compiled at its first use.
    fn program(&mut self, reference: &str) -> Result<(Image, Arc<Program>), String> {
        if let Some(known) = self.programs.get(reference) {
            return Ok(known.clone());
        }
        let image = self.catalog.load(reference)?;
        let artifact = |sandbox: &Sandbox, wasm: &[u8]| compile_process::compile(sandbox, wasm);
        let program = match &self.cache {
            Some(cache) => self.sandbox.compile_cached(cache, image.wasm(), facts(&image), artifact),
            None => artifact(&self.sandbox, image.wasm())
                .and_then(|artifact| self.sandbox.load(&artifact, facts(&image))),
        }
        .map_err(|error| error.to_string())?;
        self.programs.insert(reference.to_owned(), (image.clone(), program.clone()));
        Ok((image, program))
    }

    fn ports(&mut self) -> Result<(), LaunchError> {
        for (name, port) in &self.wiring.ports {
            let (memory, pool) = self.pool(&port.tenant)?;
            let opened = self.open(name, &port.driver, &port.settings, &memory);
            let mut opened = opened.map_err(|error| failed("port", name)(&error))?;
            if let Some(fault) = &port.fault {
                let config =
                    fault::Config::from_value(fault).map_err(|error| failed("port", name)(&error))?;
                opened = Box::new(FaultPort::new(opened, config));
            }
            opened.maintain(watchdog::clock().now());
            let id = self
                .fleet
                .add_port(self.places.of_name(name), name, pool, opened)
                .map_err(|error| failed("port", name)(&error))?;
            self.ports.insert(name.clone(), id);
        }
        Ok(())
    }

    fn open(
        &mut self,
        name: &str,
        driver: &str,
        settings: &schema::Value,
        pool: &Arc<Pool>,
    ) -> Result<Box<dyn Port>, String> {
        use port::{generator, null, pcap, sink};
        Ok(match driver {
            "af_packet" => {
                use port_af_packet::{AfPacketPort, Settings};
                let settings = Settings::from_value(settings);
                let opened = AfPacketPort::open(settings.clone());
                Box::new(self.open_or_wait(name, opened, || AfPacketPort::waiting(settings))?)
            }
            "af_xdp" => {
                use port_af_xdp::{AfXdpPort, Settings};
                let settings = Settings::from_value(settings);
                let opened = AfXdpPort::open(settings.clone(), pool.clone());
                Box::new(self.open_or_wait(name, opened, || AfXdpPort::waiting(settings, pool.clone()))?)
            }
            "tap" => {
                use port_tap::{Settings, TapPort};
                let settings = Settings::from_value(settings);
                let opened = TapPort::open(settings.clone());
                Box::new(self.open_or_wait(name, opened, || TapPort::waiting(settings))?)
            }
            "generator" => Box::new(generator::GeneratorPort::new(generator::Config::from_value(settings)?)?),
            "null" => Box::new(null::NullPort::new(null::Config::from_value(settings)?)),
            "pcap" => {
                let mut config = pcap::Config::from_value(settings)?;
                // As they stand in the file, they are relative to the file.
                for path in [&mut config.read, &mut config.write].into_iter().flatten() {
                    *path = self.catalog.path(&*path);
                }
                Box::new(pcap::PcapPort::open(config).map_err(|error| error.to_string())?)
            }
            "sink" => Box::new(sink::SinkPort::new(sink::Config::from_value(settings)?)),
            other => return Err(format!("there is no driver `{other}`")),
        })
    }

    /// A port that was opened, or one that waits: the rest can work without it, and it is taken up when it can be.
    fn open_or_wait<P, E: std::fmt::Display>(
        &mut self,
        name: &str,
        opened: Result<P, E>,
        wait: impl FnOnce() -> Result<P, E>,
    ) -> Result<P, String> {
        match opened {
            Ok(port) => Ok(port),
            Err(error) => {
                self.notices.push(format!("port `{name}`: {error}"));
                wait().map_err(|error| error.to_string())
            }
        }
    }

    fn wires(&mut self) -> Result<(), LaunchError> {
        for edge in &self.wiring.edges {
            let [a, b] = edge.ends();
            let (from, to) = (self.target(a)?, self.target(b)?);
            let observes =
                |end: &Endpoint| self.wiring.observations.iter().any(|seen| seen.observer == end.name());
            // What an observer makes goes out, and nothing comes to it but what it observes.
            let laid = match (observes(a), observes(b)) {
                (true, false) => self.fleet.lead(from, to),
                (false, true) => self.fleet.lead(to, from),
                _ => self.fleet.link(from, to),
            };
            laid.map_err(|error| failed("wire", a.name())(&error))?;
        }
        for observation in &self.wiring.observations {
            let find = |name: &String| {
                self.instances.get(name).copied().ok_or_else(|| failed("observer", name)(&"there is none"))
            };
            let (observer, at) = (find(&observation.observer)?, find(&observation.at)?);
            self.fleet
                .observe(observer, at, observation.interface)
                .map_err(|error| failed("observer", &observation.observer)(&error))?;
        }
        for (service, endpoint) in &self.wiring.services {
            let target = self.target(endpoint)?;
            let served = self.fleet.serve(*service, target);
            served.map_err(|error| failed("service", &service.to_string())(&error))?;
        }
        Ok(())
    }

    fn taps(&mut self, taps: HopTaps) -> Result<(), LaunchError> {
        for (hop, tap) in taps {
            let tapped = match &hop {
                Hop::Port(name) => self.ports.get(name).map(|port| self.fleet.tap_port(*port, tap)),
                Hop::Function(name) => {
                    self.instances.get(name).map(|instance| self.fleet.tap_instance(*instance, tap))
                }
            };
            tapped.unwrap_or(Ok(())).map_err(|error| LaunchError::Process(error.to_string()))?;
        }
        Ok(())
    }

    fn target(&self, endpoint: &Endpoint) -> Result<End, LaunchError> {
        let found = match endpoint {
            Endpoint::Port(name) => self.ports.get(name).map(|port| End::Port(*port)),
            Endpoint::Interface(name, interface) => {
                self.instances.get(name).map(|instance| End::Instance(*instance, *interface))
            }
            // Each wire is plugged into a port of its own.
            Endpoint::Switch(name) => match self.switches.get(name) {
                Some((id, table)) => {
                    let port = table.attach().map_err(|error| failed("switch", name)(&error))?;
                    Some(End::Switch(*id, port))
                }
                None => None,
            },
        };
        found.ok_or_else(|| {
            failed("wire", endpoint.name())(&"there is no port, switch or function of this name")
        })
    }
}

/// All pauses of a wiring, the first one last.
fn turns(wiring: &Wiring, instances: &HashMap<String, FleetInstance>) -> Vec<Turn> {
    let mut turns = Vec::new();
    for (name, instance) in &wiring.instances {
        let Some(id) = instances.get(name).copied() else { continue };
        for pause in &instance.pauses {
            turns.push(Turn { at: pause.from.into(), instance: id, pauses: true });
            turns.push(Turn { at: pause.to.into(), instance: id, pauses: false });
        }
    }
    // Of two at one time that which ends comes first: whoever is paused again stays paused.
    turns.sort_by_key(|turn| (std::cmp::Reverse(turn.at), !turn.pauses));
    turns
}

fn own_pool(instance: &str) -> String {
    format!("function {instance}")
}

/// What the sandbox must know of an image.
fn facts(image: &Image) -> ProgramFacts {
    let manifest = image.manifest();
    ProgramFacts {
        name: manifest.name.as_str().to_owned(),
        image: *image.digest().as_bytes(),
        access: match manifest.access {
            manifest::Access::Read => Access::Read,
            manifest::Access::Write => Access::Write,
        },
        memory_limit: manifest.memory_limit,
        interfaces: manifest.interfaces.len() as u16,
        drop_reasons: manifest.drop_reasons.len() as u16,
        counters: manifest.counters.len() as u16,
    }
}
