//! What a chain does when one of its functions has more than it can do.

use super::shares::Endless;
use super::stream::Rig;
use super::*;
use crate::ids::Holder;
use crate::state::backpressure::{WIRE_WAIT, WireWait};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Functions in the chain: more batches than a queue holds would be under way if each were told one batch
/// later than the next.
const LONG: usize = 40;

/// A chain behind a port that always has more, at whose end a function works slowly.
fn slow_at_the_end(bench: &mut Bench, each: Nanos) -> Vec<InstanceId> {
    let burn_each = bench.worker.time.clock.cycles(each);
    let source = bench.add_port(0, Endless::boxed(1));
    let (sink, _) = bench.port(0, vec![]);
    // A turn ends somewhere on the way through the chain, each time elsewhere.
    let burn = bench.worker.time.clock.cycles(Nanos(2_000));
    let wire = Manner { burn, ..Manner::wire() };
    let mut functions: Vec<InstanceId> = (1..LONG).map(|_| bench.add(0, wire.clone()).0).collect();
    functions.push(bench.add(0, Manner { burn_each, ..Manner::wire() }).0);
    bench.chain((source, sink), &functions);
    functions
}

fn works_for(bench: &mut Bench, span: Duration) {
    let clock = bench.worker.time.clock;
    let began = clock.now();
    while clock.now().since(began) < span.into() {
        pass(&clock, LEAST);
        bench.worker.turn();
    }
}

#[test]
fn a_long_chain_takes_in_no_more_than_its_slowest_function_has_room_for() {
    let mut bench = Bench::with(WorkerSettings { slice: Nanos(100_000), ..patient() }, &[8192]);
    let functions = slow_at_the_end(&mut bench, Nanos(20_000));
    works_for(&mut bench, Duration::from_millis(200));
    let last = bench.worker.instances[functions[LONG - 1].index()].batch;
    assert!(last < 20, "it gets a few packets at once: {last}");
    let account = bench.worker.stop();
    assert_whole(&account);
    assert!(account.ledger.delivered > 0);
    for (number, instance) in account.instances.iter().enumerate() {
        // What is still on its way when the time to stop is over is not lost to congestion.
        let lost = instance.ledger.dropped.nonzero().filter(|(reason, _)| *reason != DropReason::HeldAtStop);
        let lost: Vec<_> = lost.collect();
        assert!(lost.is_empty(), "function {number} of {} packets: {lost:?}", account.ledger.delivered);
    }
}

#[test]
fn a_throttled_instance_goes_on_when_the_congestion_is_over() {
    let mut bench = Bench::with(WorkerSettings { slice: Nanos(100_000), ..patient() }, &[8192]);
    let functions = slow_at_the_end(&mut bench, Nanos(5_000));
    works_for(&mut bench, Duration::from_millis(100));
    let worker = &mut bench.worker;
    let packets = |worker: &mut Worker| worker.account(false).instances[0].packets;
    let before = packets(worker);
    let held = |worker: &Worker| {
        functions.iter().filter(|id| worker.instances[id.index()].throttled_by.is_some()).count()
    };
    // As soon as the queue at the end is short, the head fetches again, and no instance bears a mark of what
    // is over.
    let mut free = false;
    let clock = worker.time.clock;
    let began = clock.now();
    while clock.now().since(began) < Nanos::from_millis(10_000) && !(free && packets(worker) > before) {
        pass(&clock, LEAST);
        worker.turn();
        free |= held(worker) == 0;
    }
    assert!(free, "{} are throttled", held(worker));
    assert!(packets(worker) > before);
    assert_whole(&bench.worker.stop());
}

/// A function that takes its time.
fn slow(rig: &Rig, worker: usize, each: Nanos) -> FleetInstance {
    rig.add(worker, 0, Manner { burn_each: rig.clock.cycles(each), ..Manner::wire() }).0
}

/// A chain with a switch between any two.
fn chain_of_switches(rig: &Rig, ends: (FleetPort, FleetPort), functions: &[FleetInstance]) {
    let inner = functions.iter().flat_map(|id| [End::Instance(*id, 0), End::Instance(*id, 1)]);
    let ends: Vec<End> = [End::Port(ends.0)].into_iter().chain(inner).chain([End::Port(ends.1)]).collect();
    for pair in ends.chunks(2) {
        let table = Arc::new(virtual_switch::Switch::new(Default::default()).expect("the usual settings"));
        let id = rig.fleet.add_switch("switch", table.clone(), None).expect("few");
        pair.iter().for_each(|end| rig.link(*end, End::Switch(id, table.attach().expect("two"))));
    }
}

/// A function that drops a packet now and then, so that batches are divided.
fn fussy(rig: &Rig, worker: usize) -> FleetInstance {
    let seen = AtomicU64::new(0);
    let decide = move |_, _| match seen.fetch_add(1, SeqCst) % 50 {
        0 => Action::Give(Verdict::Drop(0)),
        _ => Action::Give(Verdict::Interface(1)),
    };
    rig.add(worker, 0, Manner::deciding(decide)).0
}

/// What was lost while it worked, by reason.
fn lost(account: &Account) -> Vec<(DropReason, u64)> {
    let meant = [DropReason::HeldAtStop, DropReason::Function];
    account.ledger.dropped.nonzero().filter(|(reason, _)| !meant.contains(reason)).collect()
}

#[test]
fn a_chain_over_several_workers_takes_in_no_more_than_its_slowest_function_has_room_for() {
    let places = [&[0, 1][..], &[0, 1, 0, 2, 1], &[0, 0, 1, 1, 1]];
    for (places, switched) in places.into_iter().flat_map(|places| [(places, false), (places, true)]) {
        // Time stands: a worker that sleeps over a wire that has been emptied sleeps for ever.
        let rig = Rig::standing(3);
        let source = rig.fleet.add_port(0, "endless", rig.pools[0].1, Endless::boxed(1)).expect("a worker");
        let (last, before) = places.split_last().expect("some");
        let (sink, sent) = rig.script(*last, 0, vec![]);
        let mut functions: Vec<_> = before.iter().map(|&worker| fussy(&rig, worker)).collect();
        functions.push(slow(&rig, *last, Nanos(5_000)));
        if switched {
            chain_of_switches(&rig, (source, sink), &functions);
        } else {
            rig.chain((source, sink), &functions);
        }
        rig.start();
        rig.wait_asleep("a chain", || sent.lock().expect("not poisoned").len() > 6_000);
        let account = rig.stop();
        assert!(
            lost(&account).is_empty(),
            "{places:?}: {:?} of {}",
            lost(&account),
            account.ledger.delivered
        );
    }
}

#[test]
fn two_overloaded_instances_that_hand_packets_to_each_other_go_on() {
    let settings = WorkerSettings { slice: Nanos(100_000), spin: Nanos(0), ..patient() };
    let rig = Rig::simulated_with(&[settings; 2], 1);
    let ports = (rig.stream(0, 0, 0, u64::MAX, u64::MAX), rig.stream(1, 0, 1, u64::MAX, u64::MAX));
    let functions = [slow(&rig, 0, Nanos(2_000)), slow(&rig, 1, Nanos(2_000))];
    rig.chain(ports, &functions);
    rig.pass_until_arrived(&[0, 1], 25_000);
    let account = rig.stop();
    assert!(lost(&account).is_empty(), "{:?} of {}", lost(&account), account.ledger.delivered);
}

#[test]
fn no_instance_waits_for_ever_for_a_wire_that_is_not_emptied() {
    let mut bench = Bench::new(&[8192]);
    let bell = || Arc::new(port::Bell::new().expect("an event descriptor"));
    let (here, mut there) = port::relay::one_way(bell(), bell());
    let wire = bench.add_port(0, Box::new(here));
    let watermark = port::relay::RELAY_PACKETS / 2;
    bench.worker.ports.iter_mut().for_each(|(_, node)| node.watermark = watermark);
    // Those before the wire have more than it has room for when they begin.
    let senders: Vec<_> = (0..3)
        .map(|_| {
            let (source, functions) = (bench.add_port(0, Endless::boxed(1)), [bench.wire(0), bench.wire(0)]);
            bench.link(source, Target::Instance(functions[0], 0));
            bench.link(Target::Instance(functions[0], 1), Target::Instance(functions[1], 0));
            bench.worker.lead(Target::Instance(functions[1], 1), wire).expect("a free wire");
            bench.worker.pause(functions[1]);
            functions[1]
        })
        .collect();
    for _ in 0..100 {
        bench.worker.turn();
    }
    for sender in senders {
        assert!(bench.worker.instances[sender.index()].queue.is_congested());
        bench.worker.resume_instance(sender).expect("nothing is frozen");
    }
    let lost = |bench: &mut Bench| bench.worker.account(false).ledger.dropped[DropReason::QueueFull];
    let clock = bench.worker.time.clock;
    let (began, mut have_waited) = (clock.now(), false);
    while lost(&mut bench) == 0 {
        pass(&clock, Cycles(10_000));
        bench.worker.turn();
        have_waited |= bench.worker.backpressure.waiting.len() == 2;
        assert!(clock.now().since(began) < Nanos::from_millis(20_000), "they wait");
    }
    assert!(have_waited, "two wait before anything is lost");
    let waited = clock.now().since(began);
    assert!(waited >= WIRE_WAIT, "{waited:?}");
    // From now on no instance waits, until the wire is emptied.
    for _ in 0..50 {
        bench.worker.turn();
    }
    assert!(bench.worker.backpressure.waiting.is_empty());
    let before = lost(&mut bench);
    let pool = bench.pools[0].0.clone();
    for _ in 0..20 {
        let mut batch = Vec::new();
        while there.in_flight() > 0 {
            there.receive(&pool, Nanos(0), 64, &mut batch);
            pool.free_batch(batch.drain(..));
        }
        there.signal();
        bench.worker.turn();
    }
    assert_eq!(lost(&mut bench), before);
}

/// A port to a process that takes packets when it is told to.
struct Process {
    ring: Arc<Mutex<Vec<Packet>>>,
    counters: PortCounters,
}

/// Places in its ring.
const RING: usize = 256;

impl Process {
    fn boxed() -> (Box<Process>, Arc<Mutex<Vec<Packet>>>) {
        let ring = Arc::<Mutex<Vec<Packet>>>::default();
        (Box::new(Process { ring: ring.clone(), counters: PortCounters::default() }), ring)
    }
}

impl Port for Process {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, _budget: usize, _out: &mut Vec<Packet>) {}
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        let count = packets.len().min(self.room());
        self.counters.ledger.delivered += count as u64;
        self.ring.lock().expect("not poisoned").extend(packets.drain(..count));
        self.counters.ledger.dropped[DropReason::PortFull] += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }
    fn capacity(&self) -> Option<usize> {
        Some(RING)
    }
    fn room(&self) -> usize {
        RING - self.ring.lock().expect("not poisoned").len()
    }
    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// A port from a process that has forwarded as many packets as are asked for.
struct Forwarded(Box<Endless>);

impl Port for Forwarded {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        self.0.receive(pool, now, budget, out);
    }
    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>) {
        self.0.transmit(pool, now, packets);
    }
    fn capacity(&self) -> Option<usize> {
        Some(RING)
    }
    fn wake(&self) -> Wake<'_> {
        Wake::NOW
    }
    fn counters(&self) -> &PortCounters {
        self.0.counters()
    }
}

/// What comes in by the source goes out again by the process, and would be lost there.
#[test]
fn more_is_taken_from_processes_in_a_turn_than_from_outside() {
    let mut bench = Bench::new(&[8192]);
    let (outside, inside) =
        (bench.add_port(0, Endless::boxed(1)), bench.add_port(0, Box::new(Forwarded(Endless::boxed(2)))));
    let end = bench.add_port(0, Endless::boxed(3));
    for from in [outside, inside] {
        bench.worker.lead(from, end).expect("free");
    }
    for turn in 1..4 {
        bench.turn(1);
        let account = bench.worker.account(false);
        let [outside, inside] = [0, 1].map(|n: usize| account.ports[n].counters.ledger.received);
        assert!(outside > 0 && inside == 2 * outside, "turn {turn}: {outside}, {inside}");
    }
}

/// Turns, between which a process takes so many packets.
fn turns(bench: &mut Bench, ring: &Mutex<Vec<Packet>>, times: usize, taken: usize) {
    for _ in 0..times {
        bench.turn(1);
        let mut ring = ring.lock().expect("not poisoned");
        let taken = taken.min(ring.len());
        bench.pools[0].0.free_batch(ring.drain(..taken));
    }
}

/// A port that always has more, and so many functions, before a process of the same tenant.
fn before_process(functions: usize) -> (Bench, Arc<Mutex<Vec<Packet>>>) {
    let mut bench = Bench::new(&[8192]);
    let (port, ring) = Process::boxed();
    let (source, end) = (bench.add_port(0, Endless::boxed(1)), bench.add_port(0, port));
    let functions: Vec<_> = (0..functions).map(|_| bench.wire(0)).collect();
    bench.chain((source, end), &functions);
    (bench, ring)
}

/// Lost at ports for want of room.
fn lost_at_ports(bench: &mut Bench) -> u64 {
    bench.worker.account(false).ledger.dropped[DropReason::PortFull]
}

#[test]
fn a_process_that_takes_packets_slowly_throttles_its_tenants_senders_and_loses_nothing() {
    // Behind functions, and behind a port.
    for functions in [2, 0] {
        let (mut bench, ring) = before_process(functions);
        turns(&mut bench, &ring, 2000, 8);
        let account = bench.worker.account(false);
        assert_eq!(lost(&account), [], "of {}", account.ledger.delivered);
        assert!(
            account.ledger.delivered > 2000 * 7,
            "{}: what it takes is fetched",
            account.ledger.delivered
        );
        let outside = account.ledger.received - account.ledger.delivered;
        assert!(outside < 1024, "the rest waits outside, and {outside} inside");
        turns(&mut bench, &ring, 1, RING);
    }
}

/// It would be called with the batch at once, but for what others have done meanwhile.
#[test]
fn what_is_handed_a_batch_waits_where_others_have_filled_what_it_leads_to() {
    let mut bench = Bench::new(&[8192]);
    let (port, ring) = Process::boxed();
    let ((source, _), end) = (bench.port(0, vec![1; 8]), bench.add_port(0, port));
    let (first, last) = (bench.wire(0), bench.wire(0));
    bench.chain((source, end), &[first, last]);
    let Target::Port(wire) = end else { panic!("a port") };
    bench.pools[0].0.allocate_batch(RING, &mut ring.lock().expect("not poisoned"));
    bench.worker.backpressure.congested.push(wire.index());
    bench.turn(2);
    let [first, last] = [first, last].map(|id| &bench.worker.instances[id.index()]);
    assert_eq!((first.counters.calls, last.counters.calls, last.queue.len()), (1, 0, 8));
    turns(&mut bench, &ring, 3, RING);
    assert_eq!(bench.worker.account(false).ledger.delivered, 8);
    assert_eq!(lost_at_ports(&mut bench), 0);
}

#[test]
fn a_process_that_takes_nothing_is_waited_for_no_longer_than_a_wire() {
    for functions in [2, 0] {
        let (mut bench, ring) = before_process(functions);
        let (clock, began) = (bench.worker.time.clock, bench.worker.time.clock.now());
        while lost_at_ports(&mut bench) == 0 {
            pass(&clock, Cycles(10_000));
            bench.worker.turn();
            assert!(clock.now().since(began) < Nanos::from_millis(20_000), "its sender waits");
        }
        assert!(clock.now().since(began) >= WIRE_WAIT);
        // It is lost where it is counted, and none waits any more.
        bench.turn(50);
        assert!(lost_at_ports(&mut bench) > 50);
        assert!(bench.worker.backpressure.waiting.is_empty());
        // Once half of the ring is free, it is waited for again.
        turns(&mut bench, &ring, 1, RING);
        turns(&mut bench, &ring, 1, 0);
        let before = lost_at_ports(&mut bench);
        turns(&mut bench, &ring, 500, 8);
        assert_eq!(lost_at_ports(&mut bench), before);
    }
}

#[test]
fn a_worker_that_sleeps_looks_for_room_at_a_process() {
    let (mut bench, ring) = before_process(0);
    bench.turn(50);
    assert!(RING - ring.lock().expect("not poisoned").len() < bench.worker.settings.batch);
    // Its thread sleeps, though the source has more.
    let clock = bench.worker.time.clock;
    let before = clock.now();
    bench.worker.sleep_unparked();
    let asleep = clock.now().since(before);
    assert!(asleep > Nanos(10_000) && asleep < Nanos::from_millis(1), "{asleep:?}");
    turns(&mut bench, &ring, 1, RING);
}

#[test]
fn a_process_stops_no_other_tenants_senders() {
    let mut bench = Bench::new(&[8192, 8192]);
    let (port, ring) = Process::boxed();
    let (source, end) = (bench.add_port(1, Endless::boxed(1)), bench.add_port(0, port));
    let function = bench.wire(1);
    bench.chain((source, end), &[function]);
    bench.turn(100);
    assert!(lost_at_ports(&mut bench) > 1000);
    assert!(bench.worker.instances[function.index()].throttled_by.is_none());
    turns(&mut bench, &ring, 1, RING);
}

/// Instances are known by their places, which others get later.
#[test]
fn what_comes_to_the_place_of_a_sender_that_is_gone_is_not_throttled_for_another_tenant() {
    let mut bench = Bench::new(&[8192, 8192]);
    let (port, ring) = Process::boxed();
    let (source, end) = (bench.add_port(0, Endless::boxed(1)), bench.add_port(0, port));
    let (first, last) = (bench.wire(0), bench.wire(0));
    bench.chain((source, end), &[first, last]);
    turns(&mut bench, &ring, 3, RING);
    assert_eq!(bench.worker.instances[last.index()].handed_by, first.index());
    let Target::Port(cut) = source else { panic!("a port") };
    let node = &mut bench.worker.ports[cut.index()];
    (node.target, node.consumer) = (None, None);
    bench.worker.instances[last.index()].links[0] = None;
    let gone = bench.worker.take_instance(first).expect("it is there");
    let other = bench.wire(1);
    assert_eq!(other.index(), first.index());
    bench.worker.put_instance(gone);
    let theirs = bench.add_port(1, Endless::boxed(1));
    bench.chain((theirs, Target::Instance(last, 0)), &[other]);
    bench.turn(100);
    assert!(bench.worker.instances[last.index()].throttled_by.is_some());
    assert!(bench.worker.instances[other.index()].throttled_by.is_none());
    turns(&mut bench, &ring, 1, RING);
}

#[test]
fn what_comes_to_the_place_of_a_receiver_that_is_gone_is_waited_for_by_no_other_tenant() {
    for owner in 0..2 {
        let mut bench = Bench::new(&[8192, 8192]);
        let picks = bench.wire(0);
        bench.queue = 16;
        let (other, (port, _)) = (bench.wire(owner), bench.port(owner, vec![1; 8]));
        bench.link(port, Target::Instance(other, 0));
        bench.worker.receive();
        let receiver = &bench.worker.instances[other.index()];
        assert!(!receiver.queue.is_empty() && receiver.queue.room() < bench.worker.settings.batch);
        // As if it had been another one's place when packets were handed there.
        let instance = &mut bench.worker.instances[picks.index()];
        (instance.throttled_by, instance.picked) = (Some(Holder::Instance(other.index())), true);
        assert_eq!(bench.worker.waits_for_room(picks.index()), owner == 0);
        bench.finish();
    }
}

#[test]
fn a_slow_function_with_a_pool_of_its_own_throttles_its_tenants_senders() {
    for owner in 0..2 {
        let mut bench = Bench::with(WorkerSettings { slice: Nanos(100_000), ..patient() }, &[4096, 4096]);
        bench.worker.owners[1] = TenantId(owner);
        let burn_each = bench.worker.time.clock.cycles(Nanos(5_000));
        let (source, (sink, _)) = (bench.add_port(0, Endless::boxed(1)), bench.port(1, vec![]));
        let fast = bench.wire(0);
        let slow = bench.add(1, Manner { burn_each, ..Manner::wire() }).0;
        bench.chain((source, sink), &[fast, slow]);
        works_for(&mut bench, Duration::from_millis(100));
        let account = bench.worker.stop();
        let lost = lost(&account);
        assert_eq!(lost.is_empty(), owner == 0, "{lost:?} of {}", account.ledger.delivered);
        assert!(account.ledger.delivered > 1000);
    }
}

#[test]
fn a_slow_instance_stops_no_other_tenant() {
    for worker in 0..2 {
        let rig = Rig::new(2, 2);
        let source = rig.fleet.add_port(0, "endless", rig.pools[0].1, Endless::boxed(1)).expect("a worker");
        let (sink, _) = rig.script(worker, 1, vec![]);
        let (mine, theirs) = (rig.wire(0), rig.add(worker, 1, Manner::wire()).0);
        rig.chain((source, sink), &[mine, theirs]);
        rig.fleet.pause(theirs).expect("it has not stopped");
        rig.turn(200);
        let account = rig.balanced();
        let of = |n: usize| account.instances[n].packets;
        assert!(of(0) > 4_000 && of(1) == 0, "worker {worker}: {} packets", of(0));
        assert!(account.ledger.dropped[DropReason::QueueFull] > 0);
        rig.stop();
    }
}

#[test]
fn a_wait_lasts_as_long_as_something_moves() {
    let mut wait = WireWait::default();
    let limit = Cycles(100);
    assert!(wait.lasts(60, Cycles(1000), limit) && wait.lasts(60, Cycles(1099), limit));
    assert!(wait.lasts(59, Cycles(1150), limit) && wait.lasts(59, Cycles(1200), limit));
    assert!(!wait.lasts(59, Cycles(1250), limit));
    assert!(!wait.lasts(61, Cycles(1251), limit), "until half of it is free");
}

/// How a function reaches the one of several that it picks.
#[derive(Clone, Copy, Debug)]
enum Pick {
    Service,
    Switch,
}

/// A function behind a port that always has more, the one after it, which picks the way at run time, and the
/// slow one, on some worker and of some tenant, that it always picks.
fn picking(rig: &Rig, pick: Pick, (there, whose): (usize, usize)) -> [FleetInstance; 3] {
    let source = rig.fleet.add_port(0, "endless", rig.pools[0].1, Endless::boxed(4)).expect("a worker");
    let verdict = match pick {
        Pick::Service => Verdict::Service(7),
        Pick::Switch => Verdict::Interface(1),
    };
    let quick = |manner| Manner { burn_each: rig.clock.cycles(Nanos(100)), ..manner };
    let picks = rig.add(0, 0, quick(Manner::deciding(move |_, _| Action::Give(verdict)))).0;
    let consume = || Manner::deciding(|_, _| Action::Give(Verdict::Consume));
    let burn_each = rig.clock.cycles(Nanos(5_000));
    let slow = rig.add(there, whose, Manner { burn_each, ..consume() }).0;
    let (first, other) = (rig.add(0, 0, quick(Manner::wire())).0, rig.add(0, 0, consume()).0);
    rig.link(End::Port(source), End::Instance(first, 0));
    rig.link(End::Instance(first, 1), End::Instance(picks, 0));
    match pick {
        Pick::Service => {
            for (number, end) in [(7, slow), (8, other)] {
                rig.fleet.serve(service(number), End::Instance(end, 0)).expect("it is there");
            }
        }
        Pick::Switch => {
            let table =
                Arc::new(virtual_switch::Switch::new(Default::default()).expect("the usual settings"));
            let id = rig.fleet.add_switch("switch", table.clone(), None).expect("few");
            let ends = [End::Instance(picks, 1), End::Instance(slow, 0), End::Instance(other, 0)];
            let plugs = ends.map(|end| {
                let plug = table.attach().expect("few");
                rig.link(end, End::Switch(id, plug));
                plug
            });
            // The slow one is the station to which the frames go.
            let mut head = [0; virtual_switch::HEAD];
            (head[0], head[6]) = (6, 4);
            table.decide(plugs[1], &head, rig.clock.now());
        }
    }
    [first, picks, slow]
}

#[test]
fn an_instance_that_picks_its_way_is_throttled_and_nothing_is_lost() {
    for (pick, there) in [(Pick::Service, 0), (Pick::Switch, 0), (Pick::Service, 1), (Pick::Switch, 1)] {
        let rig = Rig::simulated(2);
        let [first, picks, slow] = picking(&rig, pick, (there, 0));
        // A worker that finds nothing sleeps until the span ends.
        (0..200).for_each(|_| rig.pass(Nanos(500_000)));
        let account = rig.balanced();
        let got = |of| rig.fleet.counters_of(of).expect("it is there").packets;
        assert!(got(slow) > 5_000, "{pick:?}, worker {there}: {} packets", got(slow));
        assert!(got(first) < got(slow) + 4 * 1024, "{pick:?}, worker {there}: the rest waits outside");
        assert!(got(picks) <= got(first));
        assert_eq!(lost(&account), [], "{pick:?}, worker {there}, of {} packets", got(slow));
        rig.stop();
    }
}

/// A port that brings a few packets now and then: its worker sleeps in between.
struct Ticking {
    next: Nanos,
    counters: PortCounters,
}

impl Port for Ticking {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        if now < self.next || budget == 0 {
            return;
        }
        self.next = now.saturating_add(Nanos(100_000));
        for mut packet in (0..budget.min(8)).map_while(|_| pool.allocate()) {
            pool.write(&mut packet, &[4; 60]).expect("it fits");
            self.counters.ledger.received += 1;
            out.push(packet);
        }
    }
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.ledger.delivered += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }
    fn wake(&self) -> Wake<'_> {
        Wake::at(self.next)
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

#[test]
fn an_instance_that_picks_one_that_stands_still_goes_on_with_others() {
    for there in [0, 1] {
        let rig = Rig::simulated(2);
        let port = Box::new(Ticking { next: rig.clock.now(), counters: PortCounters::default() });
        let source = rig.fleet.add_port(0, "ticking", rig.pools[0].1, port).expect("a worker");
        let seen = AtomicU64::new(0);
        let turns = move |_, _| Action::Give(Verdict::Service(7 + (seen.fetch_add(1, SeqCst) % 2) as u16));
        let picks = rig.add(0, 0, Manner::deciding(turns)).0;
        let consume = || Manner::deciding(|_, _| Action::Give(Verdict::Consume));
        let (stuck, other) = (rig.add(there, 0, consume()).0, rig.add(0, 0, consume()).0);
        for (number, end) in [(7, stuck), (8, other)] {
            rig.fleet.serve(service(number), End::Instance(end, 0)).expect("it is there");
        }
        rig.link(End::Port(source), End::Instance(picks, 0));
        rig.fleet.pause(stuck).expect("it has not stopped");
        rig.pass(Nanos::from_millis(500));
        let got = rig.fleet.counters_of(other).expect("it is there").packets;
        assert!(got > 5_000, "worker {there}: {got} packets");
        rig.fleet.resume(stuck).expect("it has not stopped");
        rig.stop();
    }
}

/// Over a wire between workers that leads to another tenant's as well.
#[test]
fn an_instance_that_picks_another_tenants_never_waits_for_it() {
    let settings = WorkerSettings { spin: Nanos(0), ..patient() };
    for (pick, there) in [(Pick::Service, 0), (Pick::Switch, 0), (Pick::Service, 1), (Pick::Switch, 1)] {
        let rig = Rig::simulated_with(&[settings; 2], 2);
        let [_, picks, slow] = picking(&rig, pick, (there, 1));
        for _ in 0..50 {
            rig.pass(Nanos(500_000));
            assert!(!rig.fleet.throttled(picks), "{pick:?}, worker {there}");
        }
        let account = rig.balanced();
        let got = |of| rig.fleet.counters_of(of).expect("it is there").packets;
        assert!(got(slow) > 500, "{pick:?}, worker {there}: {} packets", got(slow));
        assert!(got(picks) > 2 * got(slow), "{pick:?}, worker {there}: {} beside {}", got(picks), got(slow));
        assert!(account.ledger.dropped[DropReason::QueueFull] > 0);
        rig.stop();
    }
}

#[test]
fn those_before_an_instance_that_picks_its_way_go_on_until_its_own_queue_fills() {
    let rig = Rig::simulated_with(&[WorkerSettings { spin: Nanos(0), turn: Nanos(5_000), ..patient() }], 1);
    let [first, picks, slow] = picking(&rig, Pick::Service, (0, 0));
    let queued = |of: FleetInstance| rig.fleet.counters_of(of).expect("it is there").queue;
    let mut alone = 0;
    while queued(picks) < 256 {
        assert!(
            !rig.fleet.throttled(first),
            "{} wait for what picks, {} behind it",
            queued(picks),
            queued(slow)
        );
        alone += u64::from(rig.fleet.throttled(picks));
        rig.pass(Nanos(5_000));
        assert!(rig.clock.now() < Nanos(1 << 40).saturating_add(Nanos::from_millis(1000)), "its queue fills");
    }
    assert!(alone > 0, "it alone was throttled");
    while !rig.fleet.throttled(first) {
        rig.pass(Nanos(5_000));
        assert!(
            rig.clock.now() < Nanos(1 << 40).saturating_add(Nanos::from_millis(1000)),
            "its queue is full"
        );
    }
    rig.stop();
}

/// Answers that go back by a service to what asked wait for nothing that waits for them.
#[test]
fn two_instances_that_pick_each_other_go_on() {
    for there in [0, 1] {
        pick_each_other(there);
    }
}

/// One that asks and the one that answers, which is slow, on some worker.
fn pick_each_other(there: usize) {
    let rig = Rig::simulated(2);
    let source = rig.fleet.add_port(0, "endless", rig.pools[0].1, Endless::boxed(4)).expect("a worker");
    let asks = rig.add(
        0,
        0,
        Manner::deciding(|_, ingress| match ingress {
            0 => Action::Give(Verdict::Service(7)),
            _ => Action::Give(Verdict::Consume),
        }),
    );
    let burn_each = rig.clock.cycles(Nanos(5_000));
    let answers = Manner::deciding(|_, _| Action::Give(Verdict::Service(8)));
    let answers = rig.add(there, 0, Manner { burn_each, ..answers });
    rig.fleet.serve(service(7), End::Instance(answers.0, 0)).expect("it is there");
    rig.fleet.serve(service(8), End::Instance(asks.0, 1)).expect("it is there");
    rig.link(End::Port(source), End::Instance(asks.0, 0));
    // A worker that finds nothing sleeps until the span ends.
    let pass = || (0..100).for_each(|_| rig.pass(Nanos(500_000)));
    pass();
    let consumed = || rig.fleet.counters_of(asks.0).expect("it is there").ledger.consumed;
    let before = consumed();
    pass();
    assert!(before > 5_000 && consumed() > before + 5_000, "{there}: {before}, then {}", consumed());
    rig.stop();
}
