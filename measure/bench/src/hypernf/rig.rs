//! What every experiment is set up with: functions between switches, placed as one of the four models places
//! them.
//!
//! The life of a rig:
//! 1. [`Kit`] has what is compiled and allocated once: images, a pool.
//! 2. [`Plan`] says which model, which processors, which [`Nf`]s; [`Plan::build`] makes a fleet of it.
//! 3. [`Rig::start`] gives it threads. [`Rig::measure`] opens the gates and counts what is delivered in a
//!    time.
//! 4. [`Rig::end`] stops it and checks that every packet is accounted for.
//!
//! Each function has two switches, one at each interface, as in HyperNF's section 4: source - switch -
//! function - switch - sink.

use super::devices::Devices;
use super::feed::{Counter, Feed, Frames, MemoryPort};
use super::timing::{Echo, Pace, Paced, Pinger, Timing};
use crate::BenchError;
use crate::chain::{Factory, setup};
use crate::guests::{change, configuration, pool, program, stock};
use cpu_share::{Claim, TenantId};
use engine::{
    Account, Balancer, End, Fleet, FleetInstance, FleetPort, GuestFactory, InstanceSetup, PoolId, ThreadPlan,
    WorkerSettings,
};
use guest::Guest;
use guest_wasm::{InstanceSettings, Program, Sandbox};
use image::Image;
use packet_memory::Pool;
use plots::Model;
use port::Port;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use telemetry::clock::{Clock, Cycles, Nanos};
use virtual_switch::{Switch, SwitchSettings};

/// An image, compiled, with a configuration.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) image: Arc<Image>,
    program: Arc<Program>,
    config: Vec<u8>,
}

/// What is made once for all rigs of a bench.
pub(crate) struct Kit {
    pub(crate) sandbox: Sandbox,
    pub(crate) pool: Arc<Pool>,
    pub(crate) clock: Clock,
}

impl Kit {
    pub(crate) fn new(buffers: u32) -> Result<Kit, BenchError> {
        let sandbox = Sandbox::new().map_err(BenchError::setup)?;
        Ok(Kit { sandbox, pool: pool(buffers, None)?, clock: Clock::calibrate() })
    }

    /// Compiles an image and checks its configuration (YAML; empty for none).
    pub(crate) fn prepare(&self, image: Image, config: &str) -> Result<Prepared, BenchError> {
        let config = configuration(&image, config)?;
        self.prepare_with(image, config)
    }

    /// The same with a configuration as the guest gets it.
    pub(crate) fn prepare_with(&self, image: Image, config: Vec<u8>) -> Result<Prepared, BenchError> {
        Ok(Prepared { program: program(&self.sandbox, &image)?, image: Arc::new(image), config })
    }
}

/// The smallest function: it touches the Ethernet header of each frame, and leaves addresses as the switches
/// know them.
pub(crate) fn bridge(kit: &Kit) -> Result<Prepared, BenchError> {
    kit.prepare(stock("forwarder")?, "{mode: rewrite, destination: \"02:00:00:00:00:01\"}")
}

/// A generator whose frames have the addresses that the switches know.
pub(crate) fn generator(size: u32, seed: u64) -> port::generator::Config {
    use port::generator::{Config, Order, Size};
    Config {
        flows: 1 << 17,
        order: Order::Random,
        source: ([172, 16, 0, 0].into(), 12),
        destination: ([198, 18, 0, 0].into(), 15),
        source_ports: (1024, 50_000),
        destination_ports: (1024, 50_000),
        sizes: vec![Size { bytes: size, weight: 1 }],
        source_mac: [2, 0, 0, 0, 0, 2],
        destination_mac: [2, 0, 0, 0, 0, 1],
        seed,
        ..Config::default()
    }
}

/// Where a function's packets come from.
#[derive(Clone)]
pub(crate) enum Source {
    /// As many as it can take.
    Saturated(Frames),
    /// From a generator.
    Generated(port::generator::Config),
    /// At a rate, with the time at which each packet was due.
    Paced(Pace),
    /// One at a time: the next when the one before has come out.
    Pinged(Arc<Timing>),
}

/// A function of a plan.
#[derive(Clone)]
pub(crate) struct Nf {
    pub(crate) what: Prepared,
    pub(crate) source: Source,
    pub(crate) claim: Claim,
    /// Its tenant, by its place among [`Plan::tenants`]; `None`: the tenant that is always there.
    pub(crate) tenant: Option<usize>,
}

impl Nf {
    /// One with the usual claim and as many packets as it can take.
    pub(crate) fn new(what: &Prepared, frames: Frames) -> Nf {
        Nf { what: what.clone(), source: Source::Saturated(frames), claim: Claim::default(), tenant: None }
    }

    pub(crate) fn claim(mut self, claim: Claim) -> Nf {
        self.claim = claim;
        self
    }
}

/// How functions are wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Each by itself, between a source and a sink of its own.
    Apart,
    /// One after another, the first one's source to one sink, with a switch between any two.
    Chain,
    /// The same with wires instead of switches.
    WiredChain,
}

/// What is to be set up.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) model: Model,
    pub(crate) shape: Shape,
    pub(crate) functions: Vec<Nf>,
    /// Claims of tenants beside the one that is always there.
    pub(crate) tenants: Vec<Claim>,
    /// The processors that there are for it.
    pub(crate) cores: Vec<usize>,
    /// Processors of workers beside, on which nothing is placed.
    pub(crate) spare: Vec<usize>,
    /// How many of them `split` sets aside for I/O.
    pub(crate) io_cores: usize,
    /// Parts of its time in percent that a function worker and an I/O worker work; for `split` with as many
    /// cores too many.
    pub(crate) duty: Option<(u32, u32)>,
    pub(crate) settings: WorkerSettings,
    /// What a sink does that takes the time of packets.
    pub(crate) timing: Option<Arc<Timing>>,
    /// Where sinks are devices of the kernel.
    pub(crate) devices: Option<Arc<Devices>>,
    /// Whether sinks copy packets into memory of their own.
    pub(crate) copies: bool,
}

/// Rests, after what was worked, for as long as makes that `PERCENT` of all.
fn rest<const PERCENT: u64>(worked: Cycles) {
    let (began, longest) = (Cycles::now(), Cycles(worked.0 * (100 - PERCENT) / PERCENT));
    while Cycles::now().since(began) < longest {
        std::hint::spin_loop();
    }
}

/// What makes a core of a part of one, in percent: tens from 20 to 80.
fn rest_at(percent: u32) -> fn(Cycles) {
    match percent {
        20 => rest::<20>,
        30 => rest::<30>,
        40 => rest::<40>,
        50 => rest::<50>,
        60 => rest::<60>,
        70 => rest::<70>,
        80 => rest::<80>,
        other => unreachable!("no plan has a worker with {other}% of a core"),
    }
}

impl Plan {
    /// One function or several on one processor's worth of time, as in HyperNF's section 4.1: `split` and
    /// `mix` have two processors, and half of each.
    pub(crate) fn one_core(model: Model, functions: Vec<Nf>) -> Plan {
        let (cores, duty) = match model {
            Model::Split | Model::Mix => (vec![0, 1], Some((50, 50))),
            _ => (vec![1], None),
        };
        Plan {
            model,
            shape: Shape::Apart,
            functions,
            tenants: Vec::new(),
            cores,
            spare: Vec::new(),
            io_cores: 1,
            duty,
            settings: WorkerSettings { batch: crate::frames::BATCH, ..WorkerSettings::default() },
            timing: None,
            devices: None,
            copies: false,
        }
    }

    /// All of some processors, `io_cores` of them for I/O in `split`, as in sections 4.2 and 5.
    pub(crate) fn cores(model: Model, functions: Vec<Nf>, cores: Vec<usize>, io_cores: usize) -> Plan {
        Plan { cores, io_cores, duty: None, ..Plan::one_core(model, functions) }
    }

    /// The workers: settings and threads, and how many of them run functions. I/O workers come last.
    fn workers(&self) -> (Vec<WorkerSettings>, Vec<ThreadPlan>, usize) {
        let plan = |name: String, processors: Vec<usize>| ThreadPlan { name, processors: Some(processors) };
        let functions: Vec<usize> = match self.model {
            Model::Split => self.cores[..self.cores.len().saturating_sub(self.io_cores).max(1)].to_vec(),
            _ => self.cores.clone(),
        };
        let io: Vec<usize> = match self.model {
            Model::Hyper => Vec::new(),
            Model::Split => self.cores[functions.len()..].to_vec(),
            // With half of two processors, there is one thread of each kind.
            _ => self.cores.clone(),
        };
        let (functions, io) = match (self.model, self.duty) {
            (Model::Mix, Some(_)) => (vec![self.cores[0]], vec![self.cores[0]]),
            _ => (functions, io),
        };
        // Threads with a processor of their own look for work all the time, which is their best; those that
        // share one sleep, or the other one would not get it.
        let own = WorkerSettings { spin: Nanos::MAX, ..self.settings };
        let shared = WorkerSettings { spin: Nanos(0), moderation: Nanos(0), ..self.settings };
        let base = match self.model {
            Model::Hyper => self.settings,
            Model::Split => own,
            _ => shared,
        };
        let mut settings = Vec::new();
        let mut threads = Vec::new();
        for (n, core) in functions.iter().enumerate() {
            settings.push(WorkerSettings { rest: self.duty.map(|(percent, _)| rest_at(percent)), ..base });
            let processors = if self.model == Model::Mix { self.cores.clone() } else { vec![*core] };
            threads.push(plan(format!("function-{n}"), processors));
        }
        for (n, core) in io.iter().enumerate() {
            settings.push(WorkerSettings { rest: self.duty.map(|(_, percent)| rest_at(percent)), ..base });
            let processors = if self.model == Model::Mix { self.cores.clone() } else { vec![*core] };
            threads.push(plan(format!("io-{n}"), processors));
        }
        for (n, core) in self.spare.iter().enumerate() {
            settings.push(self.settings);
            threads.push(plan(format!("spare-{n}"), vec![*core]));
        }
        (settings, threads, functions.len())
    }

    /// Sets it up.
    pub(crate) fn build(&self, kit: &Kit) -> Result<Rig, BenchError> {
        let (settings, threads, function_workers) = self.workers();
        let fleet = Fleet::new(&settings, kit.clock, |_| {}).map_err(BenchError::setup)?;
        let pool = change(&fleet, |change| change.add_pool(kit.pool.clone()))?;
        let claims = self.tenants.iter();
        let tenants: Vec<TenantId> =
            change(&fleet, |change| Ok(claims.map(|claim| change.add_tenant(*claim)).collect()))?;
        let mut rig = Rig {
            fleet,
            threads,
            function_workers,
            io_workers: settings.len() - function_workers - self.spare.len(),
            clock: kit.clock,
            pool,
            gates: self.functions.iter().map(|_| Arc::default()).collect(),
            delivered: Vec::new(),
            instances: Vec::new(),
            sources: Vec::new(),
            echo: self.timing.clone(),
            devices: self.devices.clone(),
            copies: self.copies,
        };
        let mut last = None;
        for (n, nf) in self.functions.iter().enumerate() {
            let tenant = nf.tenant.map_or(TenantId(0), |place| tenants[place]);
            rig.place(kit, self.shape, n, self.functions.len(), nf, tenant, &mut last)?;
        }
        Ok(rig)
    }
}

/// A fleet that is set up, with what there is to see of it.
pub(crate) struct Rig {
    pub(crate) fleet: Fleet,
    threads: Vec<ThreadPlan>,
    function_workers: usize,
    io_workers: usize,
    clock: Clock,
    pool: PoolId,
    /// What lets sources that always have packets give them, by function.
    gates: Vec<Arc<AtomicBool>>,
    /// Packets that came out, by function; of a chain, the last one's.
    pub(crate) delivered: Vec<Arc<AtomicU64>>,
    pub(crate) instances: Vec<FleetInstance>,
    pub(crate) sources: Vec<FleetPort>,
    echo: Option<Arc<Timing>>,
    devices: Option<Arc<Devices>>,
    copies: bool,
}

impl Rig {
    #[expect(clippy::too_many_arguments, reason = "one caller, which has them all at hand")]
    fn place(
        &mut self,
        kit: &Kit,
        shape: Shape,
        n: usize,
        of: usize,
        nf: &Nf,
        tenant: TenantId,
        last: &mut Option<End>,
    ) -> Result<(), BenchError> {
        let worker = match shape {
            Shape::Apart => n % self.function_workers,
            // Neighbours stay together as far as it goes.
            Shape::Chain | Shape::WiredChain => n * self.function_workers / of,
        };
        // Switches and ports are on an I/O worker, or with the function.
        let (home, ports_at) = match self.io_workers {
            0 => (None, worker),
            io => (Some(self.function_workers + n % io), self.function_workers + n % io),
        };
        let (setup, guest) = self.function(kit, &nf.what, &format!("function-{n}"))?;
        let setup = InstanceSetup { tenant, claim: nf.claim, ..setup };
        let instance = change(&self.fleet, |change| change.add_instance(worker, setup, guest))?;
        self.instances.push(instance);
        let ends = shape == Shape::Apart;
        let from = match last.take().filter(|_| !ends) {
            Some(before) => before,
            None => {
                let source: Box<dyn Port> = match &nf.source {
                    Source::Saturated(frames) => {
                        Box::new(Feed::new(frames.clone(), n * 4099, self.gates[n].clone()))
                    }
                    Source::Generated(config) => Box::new(
                        port::generator::GeneratorPort::new(config.clone()).map_err(BenchError::Setup)?,
                    ),
                    Source::Paced(rate) => Box::new(Paced::new(rate.clone(), n * 4099)),
                    Source::Pinged(ends) => Box::new(Pinger::new(ends.clone())),
                };
                let source = self.port(ports_at, &format!("source-{n}"), source)?;
                self.sources.push(source);
                End::Port(source)
            }
        };
        self.join(shape, home, from, End::Instance(instance, 0))?;
        if ends || n + 1 == of {
            let delivered = Arc::new(AtomicU64::new(0));
            self.delivered.push(delivered.clone());
            let sink: Box<dyn Port> = match (&self.echo, &self.devices) {
                (Some(ends), _) => Box::new(Echo::new(ends.clone())),
                (None, Some(devices)) => devices.open(n)?,
                (None, None) if self.copies => Box::new(MemoryPort::new(kit.pool.buffer_size(), delivered)),
                (None, None) => Box::new(Counter::new(delivered)),
            };
            let sink = self.port(ports_at, &format!("sink-{n}"), sink)?;
            self.join(shape, home, End::Instance(instance, 1), End::Port(sink))?;
        } else {
            *last = Some(End::Instance(instance, 1));
        }
        Ok(())
    }

    /// A function that has started, for this rig's pool.
    pub(crate) fn function(
        &self,
        kit: &Kit,
        what: &Prepared,
        name: &str,
    ) -> Result<(InstanceSetup, Box<dyn Guest>), BenchError> {
        let settings = InstanceSettings { config: what.config.clone(), ..InstanceSettings::default() };
        let factory = Factory { program: what.program.clone(), pool: kit.pool.clone(), settings };
        let guest = factory.start().map_err(BenchError::Setup)?;
        let setup = setup(&what.image, Box::new(factory), TenantId(0), self.pool);
        Ok((InstanceSetup { name: name.to_owned(), ..setup }, guest))
    }

    /// The first worker on which nothing is placed.
    pub(crate) fn spare_worker(&self) -> usize {
        self.function_workers + self.io_workers
    }

    /// The balancer that moves functions between the workers that run them, as the program does.
    pub(crate) fn balancer(&self) -> Balancer {
        Balancer::new(self.function_workers)
    }

    /// What opens and closes another source together with the others.
    pub(crate) fn gate(&mut self) -> Arc<AtomicBool> {
        let gate = Arc::<AtomicBool>::default();
        self.gates.push(gate.clone());
        gate
    }

    /// A count of what comes out somewhere, to be seen by [`Rig::counts`].
    pub(crate) fn count(&mut self) -> Arc<AtomicU64> {
        let count = Arc::new(AtomicU64::new(0));
        self.delivered.push(count.clone());
        count
    }

    /// Adds a source and a sink with nothing but a switch between them: both are where functions are.
    pub(crate) fn add_pair(&mut self, source: Box<dyn Port>, sink: Box<dyn Port>) -> Result<(), BenchError> {
        let home = (self.io_workers > 0).then_some(self.function_workers);
        let source = End::Port(self.port(0, "sender", source)?);
        let sink = End::Port(self.port(0, "receiver", sink)?);
        self.through_switch(home, source, sink)
    }

    fn join(&self, shape: Shape, home: Option<usize>, a: End, b: End) -> Result<(), BenchError> {
        match shape {
            Shape::WiredChain => change(&self.fleet, |change| change.link(a, b)),
            Shape::Apart | Shape::Chain => self.through_switch(home, a, b),
        }
    }

    /// Plugs two ends into a switch of their own, which knows the station at the second one.
    fn through_switch(&self, home: Option<usize>, a: End, b: End) -> Result<(), BenchError> {
        let table = Arc::new(
            Switch::new(SwitchSettings { entries: 64, ..SwitchSettings::default() })
                .map_err(BenchError::setup)?,
        );
        let ports = (table.attach().map_err(BenchError::setup)?, table.attach().map_err(BenchError::setup)?);
        // The addresses of all frames: the receiver has been heard of.
        let mut head = [0; 16];
        head[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        table.decide(ports.1, &head, self.clock.now());
        change(&self.fleet, |change| {
            let id = change.add_switch("switch", table, home)?;
            change.link(a, End::Switch(id, ports.0))?;
            change.link(End::Switch(id, ports.1), b)
        })
    }

    fn port(&self, worker: usize, name: &str, mut port: Box<dyn Port>) -> Result<FleetPort, BenchError> {
        port.maintain(self.clock.now());
        change(&self.fleet, |change| change.add_port(worker, name, self.pool, port))
    }

    /// Gives it its threads.
    pub(crate) fn start(&self) -> Result<(), BenchError> {
        self.fleet.start(&self.threads).map_err(BenchError::setup)
    }

    /// Lets sources that are gated give, or stop giving.
    pub(crate) fn open(&self, open: bool) -> Result<(), BenchError> {
        self.open_those(|_| open)
    }

    /// Lets the sources of some functions give, and those of the others not.
    fn open_those(&self, open: impl Fn(usize) -> bool) -> Result<(), BenchError> {
        for (n, gate) in self.gates.iter().enumerate() {
            gate.store(open(n), Relaxed);
        }
        // The workers look again.
        self.fleet.finished().map(drop).map_err(BenchError::setup)
    }

    /// Packets that have come out so far, by function.
    pub(crate) fn counts(&self) -> Vec<u64> {
        self.delivered.iter().map(|count| count.load(Relaxed)).collect()
    }

    /// The same where devices count for themselves.
    fn completions(&self) -> Result<Vec<u64>, BenchError> {
        if self.devices.is_none() {
            return Ok(self.counts());
        }
        let account = self.account()?;
        let sinks = account.ports.iter().filter(|port| port.name.starts_with("sink-"));
        Ok(sinks.map(|port| port.counters.ledger.delivered).collect())
    }

    /// Packets a second that come out, by function, over this time, after a while to warm up.
    pub(crate) fn measure(&self, warm_up: Duration, window: Duration) -> Result<Vec<f64>, BenchError> {
        self.measure_those(|_| true, warm_up, window)
    }

    /// The same while some functions have packets to take, and the others none.
    pub(crate) fn measure_those(
        &self,
        busy: impl Fn(usize) -> bool,
        warm_up: Duration,
        window: Duration,
    ) -> Result<Vec<f64>, BenchError> {
        self.open_those(busy)?;
        std::thread::sleep(warm_up);
        let (before, began) = (self.completions()?, Instant::now());
        std::thread::sleep(window);
        let (after, took) = (self.completions()?, began.elapsed().as_secs_f64());
        self.open(false)?;
        Ok(before.iter().zip(&after).map(|(before, after)| (after - before) as f64 / took).collect())
    }

    /// The account of now.
    pub(crate) fn account(&self) -> Result<Account, BenchError> {
        self.fleet.account(false).map_err(BenchError::setup)
    }

    /// Ends it, and checks that every packet is accounted for.
    pub(crate) fn end(self) -> Result<Account, BenchError> {
        let account = self.fleet.stop().map_err(BenchError::setup)?;
        account.balance().map_err(BenchError::setup)?;
        Ok(account)
    }
}
