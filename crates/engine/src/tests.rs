//! The worker with functions written for the test and ports that keep what they are sent.

use crate::*;
use clock::{Clock, Cycles, Moment, Nanos};
use guest::{Events, Guest, GuestFault, LogLine, Progress, SlotConfig, SlotTable};
use nf_abi::Verdict;
use packet_memory::{Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortCounters, PortEvent, PortStatus, Wake};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use telemetry::DropReason;

/// Decides by the packet's first byte.
type Decide = Arc<dyn Fn(u8, u16) -> Action + Send + Sync>;

#[derive(Clone, Copy)]
enum Action {
    Give(Verdict),
    Fault,
}

struct Scripted {
    pool: Arc<Pool>,
    decide: Decide,
    slots: SlotTable,
    emitted: Vec<Packet>,
    seen: Arc<Mutex<Vec<u8>>>,
    /// Gives up this slot at the next call.
    emit: Option<u16>,
}

impl Guest for Scripted {
    fn process(&mut self, packets: &mut [Packet], _now: Moment) -> Result<Progress, GuestFault> {
        if let Some(mut packet) = self.emit.take().and_then(|slot| self.slots.take(slot)) {
            packet.edit(|record| record.verdict = Verdict::Interface(1).encode());
            self.emitted.push(packet);
        }
        for packet in packets {
            let byte = self.pool.to_vec(packet)[0];
            match (self.decide)(byte, packet.record().ingress) {
                Action::Give(verdict) => {
                    packet.edit(|record| record.verdict = verdict.encode());
                    if let Verdict::Hold(slot) = verdict {
                        self.emit = Some(slot);
                    }
                }
                Action::Fault => return Err(GuestFault::Trap("scripted".into())),
            }
        }
        Ok(Progress::Done)
    }
    fn observe(&mut self, packets: &[Packet], _now: Moment) -> Result<(), GuestFault> {
        let mut seen = self.seen.lock().expect("not poisoned");
        seen.extend(packets.iter().map(|packet| self.pool.to_vec(packet)[0]));
        Ok(())
    }
    fn deadline(&self) -> Option<Nanos> {
        None
    }
    fn timer(&mut self, _now: Moment) -> Result<(), GuestFault> {
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
    fn surrender(&mut self, out: &mut Vec<Packet>) {
        out.append(&mut self.emitted);
        self.slots.surrender(out);
    }
    fn counters(&self) -> &[u64] {
        &[]
    }
    fn take_log(&mut self) -> Vec<LogLine> {
        Vec::new()
    }
    fn take_events(&mut self) -> Events {
        Events::default()
    }
    fn report(&mut self, _now: Moment) -> Result<Option<String>, GuestFault> {
        Ok(None)
    }
    fn export_state(&mut self) -> Result<Option<Vec<u8>>, GuestFault> {
        Ok(None)
    }
    fn import_state(&mut self, _state: &[u8]) -> Result<bool, GuestFault> {
        Ok(false)
    }
}

struct Factory {
    pool: Arc<Pool>,
    decide: Decide,
    hold: Nanos,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl GuestFactory for Factory {
    fn start(&mut self) -> Result<Box<dyn Guest>, String> {
        Ok(Box::new(Scripted {
            pool: self.pool.clone(),
            decide: self.decide.clone(),
            slots: SlotTable::new(SlotConfig { quota: 4, longest_hold: self.hold }),
            emitted: Vec::new(),
            seen: self.seen.clone(),
            emit: None,
        }))
    }
}

/// Offers packets of one byte each and keeps the bytes of those it is sent.
struct Script {
    offers: Vec<u8>,
    sent: Arc<Mutex<Vec<u8>>>,
    counters: PortCounters,
}

impl Port for Script {
    fn receive(&mut self, pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let count = budget.min(self.offers.len());
        for byte in self.offers.drain(..count) {
            self.counters.ledger.received += 1;
            match pool.allocate() {
                Some(mut packet) => {
                    pool.write(&mut packet, &[byte]).expect("one byte fits");
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
    fn maintain(&mut self, _now: Nanos) -> Vec<PortEvent> {
        Vec::new()
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
    fn close(&mut self, _pool: &Pool) -> Result<(), String> {
        Ok(())
    }
}

struct Bench {
    worker: Worker,
    events: Arc<Mutex<Vec<Event>>>,
    pools: Vec<(Arc<Pool>, PoolId)>,
    fail: FailPolicy,
    queue: usize,
    hold: Nanos,
}

impl Bench {
    fn new(buffers: &[u32]) -> Bench {
        let events = Arc::new(Mutex::new(Vec::new()));
        let told = events.clone();
        let settings = WorkerSettings { drain: Nanos::from_millis(20), ..WorkerSettings::default() };
        let mut worker = Worker::new(settings, Clock::calibrate(), move |event| {
            told.lock().expect("not poisoned").push(event);
        })
        .expect("an event descriptor");
        let pools = buffers
            .iter()
            .map(|&buffers| {
                let config = PoolConfig { buffers, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
                let pool = Arc::new(Pool::new("test", config).expect("a small pool"));
                let id = worker.add_pool(pool.clone()).expect("few pools");
                (pool, id)
            })
            .collect();
        let hold = Nanos::from_millis(1);
        Bench { worker, events, pools, fail: FailPolicy::Closed, queue: 1024, hold }
    }

    fn port(&mut self, pool: usize, offers: Vec<u8>) -> (Target, Arc<Mutex<Vec<u8>>>) {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let port = Script { offers, sent: sent.clone(), counters: PortCounters::default() };
        (
            Target::Port(
                self.worker.add_port("port", self.pools[pool].1, Box::new(port)).expect("few ports"),
            ),
            sent,
        )
    }

    fn function(
        &mut self,
        pool: usize,
        decide: impl Fn(u8, u16) -> Action + Send + Sync + 'static,
    ) -> (InstanceId, Arc<Mutex<Vec<u8>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (pool, id) = self.pools[pool].clone();
        let mut factory = Factory { pool, decide: Arc::new(decide), hold: self.hold, seen: seen.clone() };
        let guest = factory.start().expect("scripted guests start");
        let setup = InstanceSetup {
            name: "function".into(),
            pool: id,
            interfaces: 2,
            flow_hash: false,
            drop_reasons: vec!["own".into()],
            counters: vec![],
            factory: Box::new(factory),
            fail: self.fail,
            restart: RestartPolicy { first_delay: Nanos(1000), longest_delay: Nanos(2000) },
            queue: self.queue,
        };
        (self.worker.add_instance(setup, guest).expect("few instances"), seen)
    }

    /// A function that passes everything to its other interface.
    fn wire(&mut self, pool: usize) -> InstanceId {
        self.function(pool, |_, ingress| Action::Give(Verdict::Interface(1 - ingress))).0
    }

    fn link(&mut self, a: Target, b: Target) {
        self.worker.link(a, b).expect("a free wire");
    }

    /// Turns until nothing moves, checks the account and that no buffer is lost, and returns it.
    fn finish(mut self) -> (Account, Vec<Event>) {
        for _ in 0..2000 {
            self.worker.turn();
            self.worker.account(false).balance().expect("balanced at any time");
        }
        let account = self.worker.stop();
        account.balance().expect("balanced at the end");
        assert_eq!(account.in_flight, 0);
        for (pool, _) in &self.pools {
            assert_eq!(pool.available(), pool.config().buffers as usize, "every buffer is back");
        }
        let events = std::mem::take(&mut *self.events.lock().expect("not poisoned"));
        (account, events)
    }
}

fn chain(bench: &mut Bench, ends: (Target, Target), functions: &[InstanceId]) {
    let mut last = ends.0;
    for &id in functions {
        bench.link(last, Target::Instance(id, 0));
        last = Target::Instance(id, 1);
    }
    bench.link(last, ends.1);
}

#[test]
fn a_chain_delivers_in_order_both_ways() {
    let mut bench = Bench::new(&[512]);
    let there: Vec<u8> = (0..200).collect();
    let back: Vec<u8> = (50..120).collect();
    let (left, left_sent) = bench.port(0, there.clone());
    let (right, right_sent) = bench.port(0, back.clone());
    let functions: Vec<_> = (0..5).map(|_| bench.wire(0)).collect();
    chain(&mut bench, (left, right), &functions);
    let (account, _) = bench.finish();
    assert_eq!(*right_sent.lock().expect("not poisoned"), there);
    assert_eq!(*left_sent.lock().expect("not poisoned"), back);
    assert_eq!(account.ledger.delivered, 270);
    assert!(account.instances.iter().all(|instance| instance.packets == 270 && instance.cycles > Cycles(0)));
}

#[test]
fn a_loop_ends_when_the_hop_budget_does() {
    let mut bench = Bench::new(&[16]);
    let (port, _) = bench.port(0, vec![1, 2, 3]);
    let (a, b) = (bench.wire(0), bench.function(0, |_, _| Action::Give(Verdict::Interface(0))).0);
    bench.link(port, Target::Instance(a, 0));
    bench.link(Target::Instance(a, 1), Target::Instance(b, 0));
    bench.worker.serve(1, Target::Instance(b, 0));
    let (c, _) = bench.function(0, |_, _| Action::Give(Verdict::Service(1)));
    bench.worker.serve(2, Target::Instance(c, 0));
    let (d, _) = bench.function(0, |_, _| Action::Give(Verdict::Service(3)));
    bench.worker.serve(3, Target::Instance(d, 0));
    let (other, _) = bench.port(0, vec![4, 5]);
    bench.link(other, Target::Instance(d, 1));
    let (account, _) = bench.finish();
    assert_eq!(account.ledger.dropped[DropReason::HopBudget], 2, "d sends to itself");
    assert_eq!(account.ports[0].counters.ledger.delivered, 3, "a and b return what they got");
}

#[test]
fn verdicts_end_packets_for_the_right_reason() {
    let mut bench = Bench::new(&[64]);
    let (port, _) = bench.port(0, (0..8).collect());
    let (f, _) = bench.function(0, |byte, _| {
        Action::Give(match byte {
            0 => Verdict::Drop(0),
            1 => Verdict::None,
            2 => Verdict::Consume,
            3 => Verdict::Interface(1),
            4 => Verdict::Service(77),
            5 | 6 => Verdict::Hold(9),
            _ => Verdict::Interface(0),
        })
    });
    bench.link(port, Target::Instance(f, 0));
    bench.hold = Nanos::from_millis(1);
    let (account, _) = bench.finish();
    let f = &account.instances[0];
    assert_eq!(f.own_drops, [("own".to_owned(), 1)]);
    assert_eq!(f.ledger.consumed, 1);
    let dropped: Vec<_> = f.ledger.dropped.nonzero().collect();
    for (reason, count) in [
        (DropReason::Function, 1),
        (DropReason::NoVerdict, 1),
        (DropReason::NoRoute, 1),
        (DropReason::UnknownService, 1),
        (DropReason::HoldQuota, 1),
    ] {
        assert!(dropped.contains(&(reason, count)), "{reason}: {dropped:?}");
    }
    let held = f.ledger.dropped[DropReason::HoldExpired] + f.ledger.dropped[DropReason::HeldAtStop];
    assert_eq!(held, 1, "{dropped:?}");
    assert_eq!(account.ledger.delivered, 1);
}

#[test]
fn a_fault_loses_the_batch_and_the_function_comes_back() {
    for fail in [FailPolicy::Closed, FailPolicy::Open] {
        let mut bench = Bench::new(&[512]);
        bench.fail = fail;
        let mut offers = vec![9; 64];
        offers.push(0);
        offers.extend([9; 63]);
        offers.extend([9; 64]);
        let (left, _) = bench.port(0, offers);
        let (right, _) = bench.port(0, vec![]);
        let (f, _) = bench.function(0, |byte, ingress| match byte {
            0 => Action::Fault,
            _ => Action::Give(Verdict::Interface(1 - ingress)),
        });
        chain(&mut bench, (left, right), &[f]);
        let (account, events) = bench.finish();
        let f = &account.instances[0];
        assert_eq!(f.ledger.dropped[DropReason::FunctionTrapped], 64);
        let down = f.ledger.dropped[DropReason::FunctionDown];
        assert!(if fail == FailPolicy::Open { down == 0 } else { down == 64 || down == 0 });
        assert_eq!(account.ledger.delivered + down, 128);
        assert_eq!((f.faults, f.restarts), (1, 1), "{events:?}");
    }
}

#[test]
fn tenants_exchange_copies_and_observers_see_everything() {
    let mut bench = Bench::new(&[512, 512]);
    let offers: Vec<u8> = (0..100).collect();
    let (left, _) = bench.port(0, offers.clone());
    let (right, sent) = bench.port(1, vec![]);
    let (here, there) = (bench.wire(0), bench.wire(1));
    chain(&mut bench, (left, right), &[here, there]);
    let (near, near_saw) = bench.function(0, |_, _| Action::Fault);
    let (far, far_saw) = bench.function(1, |_, _| Action::Fault);
    bench.worker.observe(near, here, None);
    bench.worker.observe(far, here, Some(0));
    let (account, _) = bench.finish();
    assert_eq!(*sent.lock().expect("not poisoned"), offers);
    assert_eq!(*near_saw.lock().expect("not poisoned"), offers);
    let missed = account.instances[3].missed as usize;
    assert_eq!(far_saw.lock().expect("not poisoned").len() + missed, offers.len());
    assert_eq!(account.instances[1].ledger.copied, 100, "the receiver's");
    assert_eq!(account.instances[0].ledger.consumed, 100, "ended at the boundary");
}

#[test]
fn a_full_queue_is_counted() {
    let mut bench = Bench::new(&[512]);
    bench.queue = 10;
    let (left, _) = bench.port(0, vec![1; 64]);
    let (right, _) = bench.port(0, vec![]);
    let f = bench.wire(0);
    chain(&mut bench, (left, right), &[f]);
    let (account, _) = bench.finish();
    assert_eq!(account.instances[0].ledger.dropped[DropReason::QueueFull], 54);
    assert_eq!(account.ledger.delivered, 10);
}

#[test]
fn wires_that_cannot_be_are_refused_whole() {
    let mut bench = Bench::new(&[16]);
    let (port, _) = bench.port(0, vec![]);
    let f = bench.wire(0);
    assert_eq!(
        bench.worker.link(port, Target::Instance(f, 2)),
        Err(WireError::NoInterface { interface: 2, interfaces: 2 })
    );
    bench.link(port, Target::Instance(f, 0));
    let (other, _) = bench.port(0, vec![]);
    assert_eq!(bench.worker.link(other, Target::Instance(f, 0)), Err(WireError::Taken));
    assert_eq!(bench.worker.link(other, other), Err(WireError::Taken));
    bench.link(other, Target::Instance(f, 1));
    bench.finish();
}

#[test]
fn a_remote_asks_and_stops() {
    let mut bench = Bench::new(&[16]);
    let (left, _) = bench.port(0, vec![1, 2, 3]);
    let (right, sent) = bench.port(0, vec![]);
    let f = bench.wire(0);
    chain(&mut bench, (left, right), &[f]);
    let (remote, events) = (bench.worker.remote(), bench.events.clone());
    let worker = bench.worker;
    let running = std::thread::spawn(move || worker.run());
    while !events.lock().expect("not poisoned").contains(&Event::Finished) {
        remote.account(true).expect("it runs").balance().expect("balanced");
        std::thread::yield_now();
    }
    remote.stop().expect("it runs");
    let account = running.join().expect("no panic");
    assert_eq!(account.ledger.delivered, 3);
    assert_eq!(*sent.lock().expect("not poisoned"), [1, 2, 3]);
    assert_eq!(remote.account(false).err(), Some(Stopped));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn whatever_functions_decide_every_packet_is_accounted_for(
        offers in prop::collection::vec(any::<u8>(), 0..300),
        buffers in (8u32..128, 8u32..64),
        seed in any::<u8>(),
        second_tenant in any::<bool>(),
        queue in 1usize..100,
    ) {
        let mut bench = Bench::new(&[buffers.0, buffers.1]);
        bench.queue = queue;
        bench.hold = Nanos(10_000);
        let decide = move |byte: u8, ingress: u16| match byte.wrapping_mul(37).wrapping_add(seed) % 16 {
            0 => Action::Give(Verdict::Drop(u16::from(byte))),
            1 => Action::Give(Verdict::None),
            2 => Action::Give(Verdict::Consume),
            3 => Action::Give(Verdict::Interface(u16::from(byte))),
            4 => Action::Give(Verdict::Service(u16::from(byte % 3))),
            5 => Action::Give(Verdict::Hold(u16::from(byte))),
            6 if byte.is_multiple_of(5) => Action::Fault,
            _ => Action::Give(Verdict::Interface(1 - ingress)),
        };
        let half = offers.len() / 2;
        let (left, _) = bench.port(0, offers[..half].to_vec());
        let (right, _) = bench.port(usize::from(second_tenant), offers[half..].to_vec());
        let (a, _) = bench.function(0, decide);
        let (b, _) = bench.function(usize::from(second_tenant), decide);
        let (eye, _) = bench.function(0, |_, _| Action::Fault);
        chain(&mut bench, (left, right), &[a, b]);
        bench.worker.observe(eye, b, None);
        bench.worker.serve(1, Target::Instance(a, 0));
        bench.worker.serve(2, right);
        bench.finish();
    }
}

/// Counts the packets of each passage.
struct Counting(Arc<Mutex<Vec<(Passage, usize)>>>);

impl Tap for Counting {
    fn see(&mut self, _pool: &Pool, packets: &[Packet], passage: Passage, _now: Nanos) {
        let mut seen = self.0.lock().expect("not poisoned");
        match seen.iter_mut().find(|(known, _)| *known == passage) {
            Some((_, count)) => *count += packets.len(),
            None => seen.push((passage, packets.len())),
        }
    }
    fn settle(&mut self) {}
}

#[test]
fn taps_see_every_packet_and_what_becomes_of_it() {
    let mut bench = Bench::new(&[64]);
    let (left, _) = bench.port(0, (0..20).collect());
    let (right, _) = bench.port(0, vec![]);
    let (f, _) = bench
        .function(0, |byte, _| Action::Give(if byte < 5 { Verdict::Drop(0) } else { Verdict::Interface(1) }));
    chain(&mut bench, (left, right), &[f]);
    let seen: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    for (port, seen) in [left, right].into_iter().zip(&seen) {
        let Target::Port(port) = port else { unreachable!("a port") };
        bench.worker.tap_port(port, Box::new(Counting(seen.clone())));
    }
    bench.worker.tap_instance(f, Box::new(Counting(seen[2].clone())));
    bench.finish();
    let seen: Vec<_> = seen.iter().map(|seen| seen.lock().expect("not poisoned").clone()).collect();
    assert_eq!(seen[0], [(Passage::Received, 20)]);
    assert_eq!(seen[1], [(Passage::Transmitted, 15)]);
    assert_eq!(seen[2], [(Passage::Decided, 20)]);
}

#[test]
fn a_wire_that_leads_one_way_brings_nothing_back() {
    let mut bench = Bench::new(&[32]);
    let (source, _) = bench.port(0, (0..5).collect());
    let (collector, collected) = bench.port(0, (100..110).collect());
    let (f, _) = bench.function(0, |_, _| Action::Give(Verdict::Interface(1)));
    bench.link(source, Target::Instance(f, 0));
    bench.worker.lead(Target::Instance(f, 1), collector).expect("a free wire");
    assert_eq!(bench.worker.lead(Target::Instance(f, 1), source), Err(WireError::Taken));
    let (account, _) = bench.finish();
    assert_eq!(*collected.lock().expect("not poisoned"), [0, 1, 2, 3, 4]);
    assert_eq!(account.instances[0].packets, 5, "the collector is not heard");
}
