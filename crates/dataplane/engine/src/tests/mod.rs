//! What the tests share: ports that keep what they are sent, and a worker to try things on.

mod balance;
mod congestion;
mod cost;
mod counters;
mod detached;
mod devices;
mod fleet;
mod fleet_calls;
mod freezing;
mod idle;
mod interleavings;
mod moves;
mod observers;
mod property;
mod quiescing;
mod scripted;
mod shares;
mod starts;
mod storms;
mod stream;
mod suspended;
mod switch;
mod timers;
mod tunnels;
mod worker;

use crate::*;
use cpu_share::{Claim, TenantId};
use guest::{Answers, Guest, GuestFault, Kept, Progress, SlotConfig};
use nf_abi::Verdict;
use packet_memory::{Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortCounters, PortStatus, Wake};
use scripted::{Action, Call, Factory, Manner, Seen};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use telemetry::DropReason;
use telemetry::clock::{Clock, Cycles, Moment, Nanos};

/// An instance and its first guest.
fn instance(
    pool: &(Arc<Pool>, PoolId),
    tenant: cpu_share::TenantId,
    manner: Manner,
    seen: &Seen,
    clock: Clock,
) -> (InstanceSetup, Box<dyn Guest>) {
    let factory = Factory { starts: Arc::default(), pool: pool.0.clone(), manner, seen: seen.clone(), clock };
    let guest = factory.start().expect("scripted guests start");
    let setup = InstanceSetup {
        name: "function".into(),
        pool: pool.1,
        tenant,
        owner: "owner".into(),
        claim: Claim::default(),
        interfaces: 2,
        flow_hash: false,
        drop_reasons: vec!["own".into()],
        counters: vec![],
        factory: Box::new(factory),
        fail: FailPolicy::Closed,
        restart: RestartPolicy { first_delay: Nanos(1000), longest_delay: Nanos(2000) },
        queue: 1024,
    };
    (setup, guest)
}

/// A service of the tenant that every function here is of unless it says another.
fn service(number: u16) -> ServiceId {
    ServiceId { tenant: cpu_share::TenantId(0), number }
}

fn pool(buffers: u32) -> Arc<Pool> {
    let config = PoolConfig { buffers, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
    Arc::new(Pool::new("test", config).expect("a small pool"))
}

/// Checks that the account balances with nothing in flight and that every buffer is back.
fn assert_whole(account: &Account) {
    account.balance().expect("balanced at the end");
    assert_eq!(account.in_flight, 0);
    for (name, free, all) in &account.pools {
        assert_eq!(free, all, "every buffer of {name} is back");
    }
}

/// Offers packets that are told apart by their first byte, and keeps that of those it is sent. For a switch
/// they are frames to the station, or the group, of that byte.
struct Script {
    offers: Vec<u8>,
    sent: Arc<Mutex<Vec<u8>>>,
    counters: PortCounters,
}

impl Script {
    fn boxed(offers: Vec<u8>) -> (Box<Script>, Arc<Mutex<Vec<u8>>>) {
        let sent = Arc::new(Mutex::new(Vec::new()));
        (Box::new(Script { offers, sent: sent.clone(), counters: PortCounters::default() }), sent)
    }
}

impl Port for Script {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let count = budget.min(self.offers.len());
        for byte in self.offers.drain(..count) {
            self.counters.ledger.received += 1;
            match pool.allocate() {
                Some(mut packet) => {
                    let mut frame = [0; 14];
                    (frame[0], frame[6]) = (byte, (byte ^ 2) & !1);
                    pool.write(&mut packet, &frame).expect("it fits");
                    packet.edit(|record| record.timestamp = now.0);
                    out.push(packet);
                }
                None => self.counters.ledger.dropped[DropReason::NoBuffer] += 1,
            }
        }
    }
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.ledger.delivered += packets.len() as u64;
        for packet in packets.drain(..) {
            self.sent.lock().expect("not poisoned").push(pool.to_vec(&packet)[0]);
            pool.free(packet);
        }
    }
    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }
    fn status(&self) -> PortStatus {
        if self.offers.is_empty() { PortStatus::Finished } else { PortStatus::Up }
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// Lets time pass: simulated time at once, real time by spinning.
fn pass(clock: &Clock, span: Cycles) {
    if let Some(time) = clock.simulation() {
        return time.advance(clock.span(span));
    }
    let until = clock.read() + span;
    while clock.read() < until {
        std::hint::spin_loop();
    }
}

/// Lets time pass in which the thread has no processor.
fn nap(clock: &Clock, span: Duration) {
    match clock.simulation() {
        Some(time) => time.withhold(span.into()),
        None => std::thread::sleep(span),
    }
}

/// What a call and a turn take at least on simulated time, or it would stand still.
const LEAST: Cycles = Cycles(500);

/// One worker, on simulated time.
struct Bench {
    worker: Worker,
    events: Arc<Mutex<Vec<Event>>>,
    pools: Vec<(Arc<Pool>, PoolId)>,
    fail: FailPolicy,
    queue: usize,
    claim: Claim,
}

/// Settings under which batches stay whole on a machine that is busy with other things.
fn patient() -> WorkerSettings {
    let slice = Nanos::from_millis(10_000);
    WorkerSettings { drain: Nanos::from_millis(20), slice, ..WorkerSettings::default() }
}

impl Bench {
    fn new(buffers: &[u32]) -> Bench {
        Bench::with(patient(), buffers)
    }

    fn with(settings: WorkerSettings, buffers: &[u32]) -> Bench {
        let events = Arc::new(Mutex::new(Vec::new()));
        let told = events.clone();
        let tell = move |event| told.lock().expect("not poisoned").push(event);
        let mut worker = Worker::new(settings, Clock::simulated(), tell).expect("an event descriptor");
        let pools = buffers
            .iter()
            .zip(0..)
            .map(|(&buffers, owner)| {
                let pool = pool(buffers);
                // Each is another tenant's.
                let id = worker.add_pool_of(TenantId(owner), pool.clone()).expect("few pools");
                (pool, id)
            })
            .collect();
        let claim = Claim::default();
        Bench { worker, events, pools, fail: FailPolicy::Closed, queue: 1024, claim }
    }

    fn port(&mut self, pool: usize, offers: Vec<u8>) -> (Target, Arc<Mutex<Vec<u8>>>) {
        let (port, sent) = Script::boxed(offers);
        (self.add_port(pool, port), sent)
    }

    fn add_port(&mut self, pool: usize, port: Box<dyn Port>) -> Target {
        Target::Port(self.worker.add_port("port", self.pools[pool].1, port))
    }

    fn add(&mut self, pool: usize, manner: Manner) -> (InstanceId, Seen) {
        let seen = Seen::default();
        let tenant = self.worker.default_tenant();
        let (mut setup, guest) = instance(&self.pools[pool], tenant, manner, &seen, self.worker.time.clock);
        (setup.fail, setup.queue, setup.claim) = (self.fail, self.queue, self.claim);
        (self.worker.add_instance(setup, guest), seen)
    }

    fn function(
        &mut self,
        pool: usize,
        decide: impl Fn(u8, u16) -> Action + Send + Sync + 'static,
    ) -> (InstanceId, Seen) {
        self.add(pool, Manner::deciding(decide))
    }

    fn wire(&mut self, pool: usize) -> InstanceId {
        self.add(pool, Manner::wire()).0
    }

    fn link(&mut self, a: Target, b: Target) {
        self.worker.link(a, b).expect("a free wire");
    }

    fn chain(&mut self, ends: (Target, Target), functions: &[InstanceId]) {
        let mut last = ends.0;
        for &id in functions {
            self.link(last, Target::Instance(id, 0));
            last = Target::Instance(id, 1);
        }
        self.link(last, ends.1);
    }

    fn turn(&mut self, times: usize) {
        for _ in 0..times {
            pass(&self.worker.time.clock, LEAST);
            self.worker.turn();
            self.worker.account(false).balance().expect("balanced at any time");
        }
    }

    /// Turns until nothing moves, checks the account and that no buffer is lost, and returns it.
    fn finish(mut self) -> (Account, Vec<Event>) {
        self.turn(2000);
        let account = self.worker.stop();
        assert_whole(&account);
        let events = std::mem::take(&mut *self.events.lock().expect("not poisoned"));
        (account, events)
    }
}
