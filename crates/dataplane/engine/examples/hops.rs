//! Fifty functions that do nothing, one behind the other on one worker: what the engine adds to each hop.
//!
//! `hops BATCH ROUNDS` passes so many batches of so many packets through all of them, on simulated time: a call
//! takes a microsecond, so every run is the same. Counted by callgrind at two numbers of rounds, the difference is
//! what fifty hops a round cost. `hops BATCH ROUNDS real` does so by the processor's clock, to be timed.

use cpu_share::Claim;
use engine::{
    FailPolicy, GuestFactory, InstanceSetup, RestartPolicy, StartWork, Target, Worker, WorkerSettings,
};
use guest::{
    Answers, Events, Guest, GuestFault, LogLine, NotFrozen, Progress, SaveError, SlotConfig, SlotTable,
};
use nf_abi::Verdict;
use packet_memory::{Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortCounters, Wake};
use std::sync::Arc;
use telemetry::clock::{Clock, Moment, Nanos};

const FUNCTIONS: usize = 50;

struct Pass {
    clock: Clock,
    slots: SlotTable,
    emitted: Vec<Packet>,
}

impl Pass {
    fn boxed(clock: Clock) -> Box<Pass> {
        let slots = SlotTable::new(SlotConfig { quota: 16, longest_hold: Nanos(1_000_000) });
        Box::new(Pass { clock, slots, emitted: Vec::new() })
    }
}

impl Guest for Pass {
    fn process(&mut self, packets: &mut [Packet], _: Moment) -> Result<Progress, GuestFault> {
        if let Some(time) = self.clock.simulation() {
            time.advance(Nanos(1_000));
        }
        let verdict = Verdict::Interface(1).encode();
        packets.iter_mut().for_each(|packet| packet.edit(|record| record.verdict = verdict));
        Ok(Progress::Done(Answers { alike: true, bytes: 60 * packets.len() as u64 }))
    }
    fn observe(&mut self, _: &[Packet], _: Moment) -> Result<(), GuestFault> {
        Ok(())
    }
    fn deadline(&self) -> Option<Nanos> {
        None
    }
    fn timer(&mut self, _: Moment) -> Result<(), GuestFault> {
        Ok(())
    }
    fn take_emitted(&mut self) -> &mut Vec<Packet> {
        &mut self.emitted
    }
    fn slots(&mut self) -> &mut SlotTable {
        &mut self.slots
    }
    fn take_generated(&mut self) -> u64 {
        0
    }
    fn surrender(&mut self, _: &mut Vec<Packet>) {}
    fn counters(&self) -> &[u64] {
        &[]
    }
    fn take_log(&mut self) -> Vec<LogLine> {
        Vec::new()
    }
    fn take_events(&mut self) -> Events {
        Events::default()
    }
    fn report(&mut self, _: Moment) -> Result<Option<String>, GuestFault> {
        Ok(None)
    }
    fn export_state(&mut self) -> Result<Option<Vec<u8>>, GuestFault> {
        Ok(None)
    }
    fn import_state(&mut self, _: Vec<u8>) -> Result<bool, GuestFault> {
        Ok(false)
    }
    fn freeze(self: Box<Self>) -> Result<Box<dyn guest::Frozen>, NotFrozen> {
        Err(NotFrozen { guest: self, error: SaveError::Unable })
    }
}

struct Factory(Clock);

impl GuestFactory for Factory {
    fn work(&self) -> StartWork {
        let clock = self.0;
        Box::new(move || Ok(Pass::boxed(clock) as Box<dyn Guest>))
    }
}

/// Gives a batch whenever it is asked, and takes everything.
struct Endless {
    batch: usize,
    counters: PortCounters,
}

impl Port for Endless {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let count = pool.allocate_batch(budget.min(self.batch), out);
        for packet in out {
            if pool.set_length(packet, 60).is_ok() {
                packet.edit(|record| record.timestamp = now.0);
            }
        }
        self.counters.ledger.received += count as u64;
    }
    fn transmit(&mut self, pool: &Pool, _: Nanos, packets: &mut Vec<Packet>) {
        self.counters.ledger.delivered += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }
    fn wake(&self) -> Wake<'_> {
        Wake::NOW
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number = |n: usize, usual: u64| std::env::args().nth(n).map_or(Ok(usual), |text| text.parse::<u64>());
    let (batch, rounds) = (number(1, 64)? as usize, number(2, 1_000)?);
    let settings = WorkerSettings { spin: Nanos::MAX, ..WorkerSettings::default() };
    let real = std::env::args().nth(3).is_some_and(|word| word == "real");
    let clock = if real { Clock::calibrate() } else { Clock::simulated() };
    let mut worker = Worker::new(settings, clock, |_| {})?;
    let config = PoolConfig { buffers: 2048, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
    let pool = worker.add_pool(Arc::new(Pool::new("hops", config)?))?;
    let tenant = worker.default_tenant();
    let port = |worker: &mut Worker, name| {
        let counters = PortCounters::default();
        Target::Port(worker.add_port(name, pool, Box::new(Endless { batch, counters })))
    };
    let (source, sink) = (port(&mut worker, "source"), port(&mut worker, "sink"));
    let mut last = source;
    let mut first = None;
    for number in 0..FUNCTIONS {
        let setup = InstanceSetup {
            name: format!("pass-{number}"),
            pool,
            tenant,
            owner: "default".to_owned(),
            claim: Claim::default(),
            interfaces: 2,
            flow_hash: false,
            drop_reasons: Vec::new(),
            counters: Vec::new(),
            factory: Box::new(Factory(clock)),
            fail: FailPolicy::Closed,
            restart: RestartPolicy::default(),
            queue: 512,
        };
        let id = worker.add_instance(setup, Pass::boxed(clock));
        first.get_or_insert(id);
        worker.link(last, Target::Instance(id, 0))?;
        last = Target::Instance(id, 1);
    }
    worker.lead(last, sink)?;
    let sent = |worker: &mut Worker| worker.account(false).ledger.delivered;
    let mut turns = 0u64;
    while sent(&mut worker) < rounds * batch as u64 {
        // The account is not to be what is measured.
        for _ in 0..rounds.div_ceil(16) {
            worker.turn();
            turns += 1;
        }
    }
    let account = worker.stop();
    account.balance()?;
    let delivered = account.ledger.delivered;
    println!("{delivered} packets in {} batches, {turns} turns", delivered / batch as u64);
    Ok(())
}
