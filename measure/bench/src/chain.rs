//! Chains of fifty on one core: what the engine costs for each hop, and what the sandboxes cost against
//! native code.

use crate::feed::{Counter, Feed, drive};
use crate::frames::{BATCH, DISTINCT, Flow, Frame, Numbers};
use crate::functions::ten_rules;
use crate::guests::{configuration, module, pool, program, stock};
use crate::native_guest::NativeGuest;
use crate::{BenchError, Measurement, RUNS};
use cpu_share::{Claim, TenantId};
use engine::{
    FailPolicy, GuestFactory, InstanceSetup, PoolId, RestartPolicy, StartWork, Target, Worker,
    WorkerSettings, classify,
};
use guest_wasm::{InstanceSettings, Program, Sandbox, WasmGuest};
use image::Image;
use nf_sdk::native::Runner;
use packet_memory::{Packet, Pool};
use port::Port;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use telemetry::clock::{Clock, Nanos};
use virtual_device::{Device, DeviceSettings, Mode, Opener, Share, SwitchPort};

/// Functions in a chain.
const HOPS: usize = 50;

/// Starts sandboxes of one program.
#[derive(Clone)]
pub(crate) struct Factory {
    pub(crate) program: Arc<Program>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) settings: InstanceSettings,
}

impl GuestFactory for Factory {
    fn work(&self) -> StartWork {
        let Factory { program, pool, settings } = self.clone();
        Box::new(move || match WasmGuest::new(&program, &pool, settings) {
            Ok(guest) => Ok(Box::new(guest)),
            Err(error) => Err(error.to_string()),
        })
    }
}

/// What a function of an image is made of, with what is usual where nothing else is said.
pub(crate) fn setup(
    image: &Image,
    factory: Box<dyn GuestFactory>,
    tenant: TenantId,
    pool: PoolId,
) -> InstanceSetup {
    InstanceSetup {
        name: image.manifest().name.as_str().to_owned(),
        pool,
        tenant,
        owner: "default".to_owned(),
        claim: Claim::default(),
        interfaces: image.manifest().interfaces.len() as u16,
        flow_hash: false,
        drop_reasons: image.manifest().drop_reasons.clone(),
        counters: image.manifest().counters.clone(),
        factory,
        fail: FailPolicy::Closed,
        restart: RestartPolicy::default(),
        queue: 1024,
    }
}

/// What the functions of a chain are made by.
trait MakeGuests {
    fn factory(&self) -> Result<Box<dyn GuestFactory>, BenchError>;
}

/// Sandboxed functions.
struct Sandboxed {
    program: Arc<Program>,
    pool: Arc<Pool>,
    settings: InstanceSettings,
}

impl MakeGuests for Sandboxed {
    fn factory(&self) -> Result<Box<dyn GuestFactory>, BenchError> {
        let Sandboxed { program, pool, settings } = self;
        Ok(Box::new(Factory { program: program.clone(), pool: pool.clone(), settings: settings.clone() }))
    }
}

/// The firewall, natively.
#[derive(Clone)]
struct Native {
    config: Vec<u8>,
    pool: Arc<Pool>,
}

impl Native {
    fn guest(&self) -> Result<NativeGuest<Runner<firewall::Firewall>>, BenchError> {
        let runner =
            Runner::new(&self.config).map_err(|error| BenchError::Setup(format!("firewall: {error:?}")))?;
        Ok(NativeGuest::new(runner, self.pool.clone()))
    }
}

impl MakeGuests for Native {
    fn factory(&self) -> Result<Box<dyn GuestFactory>, BenchError> {
        Ok(Box::new(self.clone()))
    }
}

impl GuestFactory for Native {
    fn work(&self) -> StartWork {
        let native = self.clone();
        Box::new(move || match native.guest() {
            Ok(guest) => Ok(Box::new(guest)),
            Err(error) => Err(error.to_string()),
        })
    }
}

/// How long a chain is, and what its packets come in.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Functions.
    pub(crate) hops: usize,
    /// Most packets of a batch.
    pub(crate) batch: usize,
    /// Packets that pass.
    pub(crate) packets: usize,
    /// The worker's clock.
    pub(crate) clock: Clock,
    /// Longest time of a call.
    pub(crate) max_call: Nanos,
    /// Functions are joined by rootless devices in place of wires.
    pub(crate) rootless: bool,
}

impl Shape {
    /// With everything else as it is by default.
    pub(crate) fn of(hops: usize) -> Shape {
        let max_call = InstanceSettings::default().max_call;
        Shape {
            hops,
            batch: BATCH,
            packets: usize::MAX,
            clock: Clock::calibrate(),
            max_call,
            rootless: false,
        }
    }
}

/// A worker with a chain between a feed and a sink.
pub(crate) struct EngineChain {
    worker: Worker,
    delivered: Arc<AtomicU64>,
}

impl EngineChain {
    /// A chain of sandboxes.
    pub(crate) fn sandboxed(
        sandbox: &Sandbox,
        image: &Image,
        config: &str,
        shape: Shape,
        frames: Arc<Vec<Frame>>,
        pool: &Arc<Pool>,
    ) -> Result<EngineChain, BenchError> {
        let program = program(sandbox, image)?;
        let settings = InstanceSettings {
            config: configuration(image, config)?,
            max_call: shape.max_call,
            ..InstanceSettings::default()
        };
        EngineChain::new(image, &Sandboxed { program, pool: pool.clone(), settings }, shape, frames, pool)
    }

    fn new(
        image: &Image,
        guests: &dyn MakeGuests,
        shape: Shape,
        frames: Arc<Vec<Frame>>,
        pool: &Arc<Pool>,
    ) -> Result<EngineChain, BenchError> {
        let mut worker =
            Worker::new(WorkerSettings::default(), shape.clock, |_| {}).map_err(BenchError::setup)?;
        let pool_id = worker.add_pool(pool.clone()).map_err(BenchError::setup)?;
        let delivered = Arc::new(AtomicU64::new(0));
        let source = worker.add_port(
            "feed",
            pool_id,
            Box::new(Feed::open(frames).at_most(shape.batch).in_all(shape.packets)),
        );
        let mut last = Target::Port(source);
        for hop in 0..shape.hops {
            let factory = guests.factory()?;
            let guest = factory.start().map_err(BenchError::Setup)?;
            let setup = InstanceSetup {
                name: format!("hop-{hop}"),
                ..setup(image, factory, worker.default_tenant(), pool_id)
            };
            let id = worker.add_instance(setup, guest);
            let mut next = Target::Instance(id, 0);
            if shape.rootless && hop > 0 {
                let device = worker.add_switch("hop", rootless()).map_err(BenchError::setup)?;
                worker.link(Target::Switch(device, SwitchPort(1)), next).map_err(BenchError::setup)?;
                next = Target::Switch(device, SwitchPort(0));
            }
            worker.link(last, next).map_err(BenchError::setup)?;
            last = Target::Instance(id, 1);
        }
        let out = worker.add_port("sink", pool_id, Box::new(Counter::new(delivered.clone())));
        worker.link(last, Target::Port(out)).map_err(BenchError::setup)?;
        Ok(EngineChain { worker, delivered })
    }

    /// Sends packets through; nanoseconds a packet.
    pub(crate) fn run(&mut self, packets: usize) -> Result<f64, BenchError> {
        drive(&mut self.worker, &self.delivered, packets)
    }

    /// Packets that have come out.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Relaxed)
    }

    /// Checks that nothing was lost and every function saw every packet.
    pub(crate) fn check(mut self) -> Result<(), BenchError> {
        let account = self.worker.account(false);
        account.balance().map_err(BenchError::setup)?;
        let generated = account.ledger.generated;
        let lost = account.ledger.dropped.total();
        if lost > 0 || account.instances.iter().any(|i| i.packets + account.in_flight < generated) {
            let why: Vec<_> = account
                .ledger
                .dropped
                .nonzero()
                .map(|(reason, count)| format!("{reason}: {count}"))
                .collect();
            return Err(BenchError::Invalid(format!(
                "{lost} of {generated} packets were lost in the chain: {}",
                why.join(", ")
            )));
        }
        Ok(())
    }
}

/// A rootless device with an opener at plug 0 and one at 1.
fn rootless() -> Arc<Device> {
    let opener = |plug| Opener { plug: SwitchPort(plug), side: None, receives: true };
    let openers = vec![opener(0), opener(1)];
    let (mode, share) = (Mode::Rootless, Share::Single);
    Arc::new(Device::new(DeviceSettings::new(mode, share, Vec::new(), openers), None))
}

/// The same functions natively in a bare loop: the same feed, and no engine between them.
struct BareChain {
    feed: Feed<Arc<Vec<Frame>>>,
    pool: Arc<Pool>,
    functions: Vec<NativeGuest<Runner<firewall::Firewall>>>,
    clock: Clock,
}

/// What a bare loop does with its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loop {
    /// Calls all functions.
    Whole,
    /// The same, and looks at what each of them has decided.
    Checked,
    /// Nothing: what is left is the feed's cost and the sink's.
    Empty,
}

impl BareChain {
    fn run(&mut self, packets: usize, what: Loop) -> Result<f64, BenchError> {
        let through = nf_abi::Verdict::Interface(1).encode();
        let lost = |batch: &[Packet]| batch.iter().any(|packet| packet.record().verdict != through);
        let mut batch = Vec::with_capacity(BATCH);
        let began = Instant::now();
        let mut done = 0;
        while done < packets {
            let now = self.clock.moment();
            self.feed.receive(&self.pool, now.nanos, BATCH, &mut batch);
            classify(&self.pool, &mut batch, true);
            done += batch.len();
            for function in self.functions.iter_mut().filter(|_| what != Loop::Empty) {
                function.call(&mut batch, now);
                if what == Loop::Checked && lost(&batch) {
                    return Err(BenchError::Invalid("the native chain lost a packet".into()));
                }
            }
            self.feed.transmit(&self.pool, now.nanos, &mut batch);
        }
        Ok(began.elapsed().as_nanos() as f64 / done as f64)
    }
}

/// Frames that only the last of ten rules matches.
pub(crate) fn frames() -> Arc<Vec<Frame>> {
    Arc::new((0..DISTINCT).map(numbered).collect())
}

/// One of them, by its number.
#[inline]
pub(crate) fn numbered(n: usize) -> Frame {
    last_rule_flow(&mut Numbers::at(1, n as u64)).frame(0, n as u32)
}

/// A flow that only the last rule of [`ten_rules`] and its like matches.
pub(crate) fn last_rule_flow(numbers: &mut Numbers) -> Flow {
    let n = numbers.next();
    Flow {
        source: 0xac10_0000 | (n as u32 & 0xf_ffff),
        destination: 0xc612_0000 | ((n >> 20) as u32 & 0x1_ffff),
        source_port: 1024 + ((n >> 40) as u16 % 50_000),
        destination_port: 1024 + ((n >> 48) as u16 % 50_000),
        protocol: 17,
    }
}

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let packets = pool(2048, None)?;
    let frames = frames();
    let empty = module("empty")?;
    let firewall = stock("firewall")?;
    let config = ten_rules(10);

    let mut idle = EngineChain::sandboxed(&sandbox, &empty, "", Shape::of(HOPS), frames.clone(), &packets)?;
    let mut sandboxed =
        EngineChain::sandboxed(&sandbox, &firewall, &config, Shape::of(HOPS), frames.clone(), &packets)?;
    let guests = Native { config: configuration(&firewall, &config)?, pool: packets.clone() };
    let mut native = EngineChain::new(&firewall, &guests, Shape::of(HOPS), frames.clone(), &packets)?;
    let functions = (0..HOPS).map(|_| guests.guest()).collect::<Result<Vec<_>, _>>()?;
    let mut bare =
        BareChain { feed: Feed::open(frames), pool: packets.clone(), functions, clock: Clock::calibrate() };

    bare.run(DISTINCT, Loop::Checked)?;
    let (mut hop, mut ours, mut theirs, mut bare_loop, mut harness) =
        (vec![], vec![], vec![], vec![], vec![]);
    for run in 0..=RUNS {
        progress(run as f64 / (RUNS + 1) as f64, "chains of fifty");
        let engine = idle.run(4 * DISTINCT)? / HOPS as f64;
        let without = bare.run(DISTINCT, Loop::Empty)?;
        let (a, b, c) = (sandboxed.run(DISTINCT)?, native.run(DISTINCT)?, bare.run(DISTINCT, Loop::Whole)?);
        if run > 0 {
            hop.push(engine);
            ours.push(a - without);
            theirs.push(b - without);
            bare_loop.push(c - without);
            harness.push(without);
        }
    }
    for chain in [idle, sandboxed, native] {
        chain.check()?;
    }
    let ratio = |others: &[f64]| ours.iter().zip(others).map(|(a, b)| a / b).collect::<Vec<f64>>();
    Ok(vec![
        Measurement::new("ratio-50", "x", &ratio(&bare_loop)),
        Measurement::new("engine-ns", "ns", &hop),
        Measurement::new("ratio-50-same-engine", "x", &ratio(&theirs)),
        Measurement::new("sandboxed-50-ns", "ns", &ours),
        Measurement::new("native-50-same-engine-ns", "ns", &theirs),
        Measurement::new("native-50-ns", "ns", &bare_loop),
        Measurement::new("harness-ns", "ns", &harness),
    ])
}
