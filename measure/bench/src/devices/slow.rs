//! A chain's throughput beside an observer that takes ten times as long for a packet as the chain's function,
//! on a worker of its own.
//!
//! Throughput is of the chain's worker: packets for the processor time that it charged, which is not
//! disturbed by what else runs on the machine. The observer comes and goes between windows of one run.

use super::line::{ROUNDS, direct, factory};
use crate::chain::setup;
use crate::feed::{Counter, Feed, Frames};
use crate::frames::BATCH;
use crate::guests::{change, module, pool};
use crate::{BenchError, Measurement};
use cpu_share::TenantId;
use engine::{End, Fleet, GuestFactory, Place, ThreadPlan, View, WorkerSettings};
use guest_wasm::Sandbox;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use telemetry::clock::Clock;
use virtual_device::SwitchPort;

/// How long each window is, and what passes before it.
const WINDOW: Duration = Duration::from_millis(200);
const WARM_UP: Duration = Duration::from_millis(50);

pub(super) fn run(sandbox: &Sandbox, into: &mut Vec<Measurement>) -> Result<(), BenchError> {
    let fleet = Fleet::new(&[WorkerSettings::default(); 2], Clock::calibrate(), |_| {});
    let fleet = fleet.map_err(BenchError::setup)?;
    let (work, slow, packets) = (module("work")?, module("slow")?, pool(8192, None)?);
    let pool_id = change(&fleet, |change| change.add_pool(packets.clone()))?;
    let add = |worker, image| {
        let factory = factory(sandbox, image, &packets)?;
        let guest = factory.start().map_err(BenchError::Setup)?;
        let setup = setup(image, Box::new(factory), TenantId(0), pool_id);
        change(&fleet, |change| change.add_instance(worker, setup, guest))
    };
    let (function, observer) = (add(0, &work)?, add(1, &slow)?);
    let delivered = Arc::new(AtomicU64::new(0));
    let port = |name, port| change(&fleet, |change| change.add_port(0, name, pool_id, port));
    let source = port("feed", Box::new(Feed::open(Frames::Computed { size: 64 }).at_most(BATCH)))?;
    let sink = port("sink", Box::new(Counter::new(delivered.clone())))?;
    let device = change(&fleet, |change| change.add_switch("device", direct(), None))?;
    for (a, b) in [
        (End::Port(source), End::Switch(device, SwitchPort(0))),
        (End::Switch(device, SwitchPort(1)), End::Instance(function, 0)),
        (End::Instance(function, 1), End::Port(sink)),
    ] {
        change(&fleet, |change| change.link(a, b))?;
    }
    fleet.start(&[ThreadPlan::default(), ThreadPlan::default()]).map_err(BenchError::setup)?;
    let at = Place::Switch(device, Some(SwitchPort(0)));
    let throughput = || {
        std::thread::sleep(WARM_UP);
        let sample = || (delivered.load(Relaxed), fleet.busy()[0].0);
        let before = sample();
        std::thread::sleep(WINDOW);
        let after = sample();
        (after.0 - before.0) as f64 / (after.1 - before.1) as f64
    };
    let mut percent = Vec::new();
    for round in 0..ROUNDS {
        let alone = throughput();
        change(&fleet, |change| change.observe(observer, at, View::default()))?;
        let beside = throughput();
        change(&fleet, |change| change.unobserve(observer, at))?;
        if round > 0 {
            percent.push(100.0 * beside / alone);
        }
    }
    let account = fleet.stop().map_err(BenchError::setup)?;
    account.balance().map_err(BenchError::setup)?;
    let [chain, watching] = &account.instances[..] else {
        return Err(BenchError::Invalid("two functions were there".to_owned()));
    };
    let lost = account.ports.iter().map(|port| port.counters.ledger.dropped.total()).sum::<u64>();
    if lost + chain.ledger.dropped.total() > 0 {
        return Err(BenchError::Invalid(format!("the chain lost packets: {:?}", account.ledger.dropped)));
    }
    // It sees some, and misses most.
    if watching.packets == 0 || watching.missed < watching.packets {
        let (saw, missed) = (watching.packets, watching.missed);
        return Err(BenchError::Invalid(format!("the observer saw {saw} packets and missed {missed}")));
    }
    into.push(Measurement::new("slow-observer-percent", "%", &percent));
    Ok(())
}
