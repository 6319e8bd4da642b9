//! Whether a function with a large table is stopped for the pages that it touches first: a stateful firewall
//! for four million flows, with default settings, flat out from its first packet on, until its table is full.

use crate::chain::{Factory, last_rule_flow, setup};
use crate::feed::{Counter, Feed, Supply};
use crate::frames::{BATCH, Numbers};
use crate::guests::{configuration, pool, program, stock};
use crate::{BenchError, Measurement};
use engine::{Event, GuestFactory, InstanceSetup, Target, Worker, WorkerSettings};
use guest_wasm::{InstanceSettings, Program, Sandbox};
use image::Image;
use packet_memory::{Packet, Pool};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use telemetry::clock::{Clock, Nanos};

/// Flows that the table has room for, the most that the firewall allows.
const FLOWS: usize = 4_000_000;
/// Starts; each is a result.
const STARTS: usize = 10;
/// Turns after which a worker that delivers nothing has failed.
const IDLE_POLLS: usize = 10_000_000;

/// Each packet is the first of another flow.
struct NewFlows;

impl Supply for NewFlows {
    fn count(&self) -> usize {
        FLOWS
    }

    #[inline]
    fn fill(&self, pool: &Pool, packet: &mut Packet, _now: Nanos, number: usize) {
        let frame = last_rule_flow(&mut Numbers::at(3, number as u64)).frame(0, number as u32);
        let written = pool.write(packet, &frame);
        debug_assert!(written.is_ok(), "a frame fits into a buffer");
    }
}

/// What one start came to.
struct Outcome {
    /// How often the function was stopped because a call took too long.
    stopped: u64,
    /// Milliseconds until it was ready for packets, beside any worker.
    start: f64,
    /// Nanoseconds for each of the flows.
    flow: f64,
}

fn start(
    image: &Image,
    program: &Arc<Program>,
    pool: &Arc<Pool>,
    config: &[u8],
) -> Result<Outcome, BenchError> {
    let faults: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = faults.clone();
    let tell = move |event| {
        if let Event::Fault { reason, .. } = event {
            told.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
        }
    };
    let mut worker =
        Worker::new(WorkerSettings::default(), Clock::calibrate(), tell).map_err(BenchError::setup)?;
    let pool_id = worker.add_pool(pool.clone()).map_err(BenchError::setup)?;
    let settings = InstanceSettings { config: config.to_vec(), ..InstanceSettings::default() };
    let factory = Factory { program: program.clone(), pool: pool.clone(), settings };
    let began = Instant::now();
    let guest = factory.start().map_err(BenchError::Setup)?;
    let start = began.elapsed().as_secs_f64() * 1e3;
    let setup = InstanceSetup {
        name: "firewall".to_owned(),
        ..setup(image, Box::new(factory), worker.default_tenant(), pool_id)
    };
    let id = worker.add_instance(setup, guest);
    let source = worker.add_port("feed", pool_id, Box::new(Feed::open(NewFlows).at_most(BATCH)));
    let delivered = Arc::new(AtomicU64::new(0));
    let out = worker.add_port("sink", pool_id, Box::new(Counter::new(delivered.clone())));
    worker.link(Target::Port(source), Target::Instance(id, 0)).map_err(BenchError::setup)?;
    worker.link(Target::Instance(id, 1), Target::Port(out)).map_err(BenchError::setup)?;

    let (began, mut idle, mut seen) = (Instant::now(), 0, 0);
    while seen < FLOWS as u64 && idle < IDLE_POLLS {
        worker.turn();
        // A function that is stopped loses packets: what it got is counted, not what it passed on.
        let now = delivered.load(Relaxed);
        let stopped = !faults.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if stopped {
            break;
        }
        idle = if now == seen { idle + 1 } else { 0 };
        seen = now;
    }
    let flow = began.elapsed().as_nanos() as f64 / seen.max(1) as f64;
    let faults = std::mem::take(&mut *faults.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(other) = faults.iter().find(|reason| !reason.contains("one call took longer")) {
        return Err(BenchError::Invalid(format!("the firewall ended for another reason: {other}")));
    }
    if faults.is_empty() && seen < FLOWS as u64 {
        return Err(BenchError::Invalid(format!("{seen} of {FLOWS} packets came through")));
    }
    Ok(Outcome { stopped: faults.len() as u64, start, flow })
}

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let image = stock("firewall")?;
    let (program, pool) = (program(&sandbox, &image)?, pool(4096, None)?);
    let config = configuration(
        &image,
        &format!(
            "stateful: true\nmax_flows: {FLOWS}\ndefault_action: drop\nrules:\n  - {{action: accept, protocol: udp}}\n"
        ),
    )?;
    let (mut stopped, mut starts, mut flows) = (0, Vec::new(), Vec::new());
    for n in 0..STARTS {
        progress(n as f64 / STARTS as f64, "a firewall for four million flows");
        let outcome = start(&image, &program, &pool, &config)?;
        stopped += outcome.stopped;
        starts.push(outcome.start);
        flows.push(outcome.flow);
    }
    Ok(vec![
        Measurement::new("stopped", "functions", &[stopped as f64]),
        Measurement::new("start-ms", "ms", &starts),
        Measurement::new("new-flow-ns", "ns", &flows),
    ])
}
