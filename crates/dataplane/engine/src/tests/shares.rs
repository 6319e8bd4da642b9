//! Shares of a worker, on simulated time.

use super::*;
use cpu_share::{Cap, Meter, Weight};

/// Offers without end.
pub(super) struct Endless {
    byte: u8,
    /// What sending a batch costs, and what fetching one does.
    burn: Cycles,
    fetch: Cycles,
    /// How long it sleeps before it gives a batch.
    nap: Duration,
    /// On which both pass.
    clock: Option<Clock>,
    counters: PortCounters,
}

impl Endless {
    pub(super) fn boxed(byte: u8) -> Box<Endless> {
        let (burn, fetch, nap) = (Cycles(0), Cycles(0), Duration::ZERO);
        Box::new(Endless { byte, burn, fetch, nap, clock: None, counters: PortCounters::default() })
    }
}

impl Port for Endless {
    fn receive(&mut self, pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        if let Some(clock) = self.clock.filter(|_| budget > 0 && self.nap > Duration::ZERO) {
            super::nap(&clock, self.nap);
        }
        if let Some(clock) = self.clock.filter(|_| budget > 0) {
            pass(&clock, self.fetch);
        }
        let before = out.len();
        pool.allocate_batch(budget, out);
        for packet in &mut out[before..] {
            let mut frame = [0; 14];
            (frame[0], frame[6]) = (self.byte, 2);
            pool.write(packet, &frame).expect("it fits");
            self.counters.ledger.received += 1;
        }
    }
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        if let Some(clock) = self.clock {
            pass(&clock, self.burn);
        }
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

/// A function between an endless port and one that takes everything.
pub(super) fn busy(bench: &mut Bench, manner: Manner) -> InstanceId {
    let (left, right) = (bench.add_port(0, Endless::boxed(1)), bench.add_port(0, Endless::boxed(1)));
    let f = bench.add(0, manner).0;
    bench.link(left, Target::Instance(f, 0));
    bench.worker.lead(Target::Instance(f, 1), right).expect("a free wire");
    f
}

/// Sends everything out by the second interface.
fn out() -> Manner {
    Manner::deciding(|_, _| Action::Give(Verdict::Interface(1)))
}

fn weight(weight: u32) -> Claim {
    Claim { weight: Weight::new(weight).expect("a weight"), cap: None }
}

/// The worker steps for so long; returns what all of its time came to in cycles.
pub(super) fn work(bench: &mut Bench, span: Duration) -> Cycles {
    let clock = bench.worker.time.clock;
    let began = clock.moment();
    while clock.now().since(began.nanos) < span.into() {
        pass(&clock, LEAST);
        bench.worker.step();
    }
    clock.read().since(began.cycles)
}

/// The worker steps until this is so, for 10 s at most.
pub(super) fn work_until(bench: &mut Bench, done: impl Fn(&Worker) -> bool) {
    let clock = bench.worker.time.clock;
    let began = clock.now();
    while !done(&bench.worker) && clock.now().since(began) < Nanos::from_millis(10_000) {
        work(bench, Duration::from_millis(20));
    }
}

#[test]
fn what_an_instance_fetches_for_itself_is_charged_to_it() {
    let mut bench = Bench::new(&[1024]);
    let clock = bench.worker.time.clock;
    let fetch = clock.cycles(Nanos(10_000));
    let source = bench.add_port(0, Box::new(Endless { fetch, clock: Some(clock), ..*Endless::boxed(1) }));
    let (sink, _) = bench.port(0, vec![]);
    let (function, _) = bench.add(0, Manner::wire());
    bench.chain((source, sink), &[function]);
    for _ in 0..200 {
        bench.worker.turn();
    }
    let time = &bench.worker.time;
    let used = time.scheduler.used(bench.worker.instances[function.index()].entity);
    let overhead = time.spent.overhead;
    assert!(used.0 > 9 * overhead.0, "{used:?} of its own, {overhead:?} of the worker's");
    assert_whole(&bench.worker.stop());
}

/// A port whose packets cost so much to fetch, without end, and so much to send.
fn costly(bench: &mut Bench) -> Target {
    let clock = bench.worker.time.clock;
    let (fetch, burn) = (clock.cycles(Nanos(10_000)), clock.cycles(Nanos(20_000)));
    bench.add_port(0, Box::new(Endless { fetch, burn, clock: Some(clock), ..*Endless::boxed(1) }))
}

/// A meter of this port's.
fn metered(bench: &mut Bench, port: Target) -> Arc<Meter> {
    let meter = Arc::new(Meter::new(bench.worker.time.clock.cycles(cpu_share::meter::BURST)));
    let Target::Port(id) = port else { panic!("it is a port") };
    bench.worker.set_meter(id, meter.clone(), true);
    meter
}

#[test]
fn what_passes_between_two_ports_is_charged_to_the_meter_of_one_and_held_to_its_rate() {
    let mut bench = Bench::new(&[1024]);
    let (lan, container) = (costly(&mut bench), costly(&mut bench));
    let meter = metered(&mut bench, container);
    bench.link(lan, container);
    let all = work(&mut bench, Duration::from_millis(200));
    assert!(meter.used().0 > all.0 / 10 * 9, "{:?} of {all:?}", meter.used());
    assert!(bench.worker.time.spent.overhead.0 < all.0 / 10, "no cycle is charged twice, or to nothing");
    for rate in [500_000, 200_000, 20_000] {
        meter.set_rate(Some(rate));
        // What was used before is paid for.
        work(&mut bench, Duration::from_millis(100));
        let before = meter.used();
        let all = work(&mut bench, Duration::from_millis(500));
        let part = meter.used().since(before).0 as f64 / all.0 as f64;
        let (rate, turns) = (f64::from(rate) / 1e6, 0.03);
        assert!((part - rate).abs() < turns, "{part} at a rate of {rate}");
    }
    let asleep = bench.worker.time.spent.asleep;
    assert!(asleep > Cycles(0), "a worker whose ports are held back sleeps");
    assert_whole(&bench.worker.stop());
}

#[test]
fn what_a_function_pays_for_is_not_charged_to_a_meter() {
    let mut bench = Bench::new(&[1024]);
    let (lan, container) = (costly(&mut bench), costly(&mut bench));
    let meter = metered(&mut bench, container);
    let (function, _) = bench.add(0, Manner::wire());
    bench.chain((lan, container), &[function]);
    // Nothing holds the function's packets back either.
    meter.set_rate(Some(1));
    let all = work(&mut bench, Duration::from_millis(100));
    let used = bench.worker.time.scheduler.used(bench.worker.instances[function.index()].entity);
    assert!(meter.used() == Cycles(0) && used.0 > all.0 / 2, "{used:?} of {all:?}");
    assert_whole(&bench.worker.stop());
}

#[test]
fn tenants_that_are_held_to_their_promises_leave_the_rest_to_what_claims_beside_them() {
    let mut bench = Bench::new(&[1024]);
    busy(&mut bench, Manner { burn: Cycles(20_000), ..out() });
    let beside = bench.worker.add_tenant(weight(300));
    let claimed = bench.worker.time.scheduler.add(beside, Claim::default());
    let promised = |bench: &Bench| bench.worker.time.scheduler.promised(claimed);
    assert!((promised(&bench) - 0.75).abs() < 0.001);
    let mut share = |hold| {
        bench.worker.hold_to_promises(hold);
        let used = |bench: &Bench| {
            bench
                .worker
                .instances
                .iter()
                .map(|(_, one)| one.entity)
                .map(|entity| bench.worker.time.scheduler.used(entity).0)
                .sum::<u64>()
        };
        work(&mut bench, Duration::from_millis(50));
        let before = used(&bench);
        let all = work(&mut bench, Duration::from_millis(500));
        (used(&bench) - before) as f64 / all.0 as f64
    };
    let [free, held, again] = [false, true, false].map(&mut share);
    assert!(free > 0.9 && again > 0.9, "{free} and {again}");
    assert!((held - 0.25).abs() < 0.02, "{held}");
    assert!((promised(&bench) - 0.75).abs() < 0.001, "what is promised stays the same");
    assert_whole(&bench.worker.stop());
}

#[test]
fn weights_divide_the_worker_whatever_a_call_costs() {
    let mut bench = Bench::new(&[1024]);
    for (share, burn) in [(100, 60_000), (300, 20_000)] {
        bench.claim = weight(share);
        busy(&mut bench, Manner { burn: Cycles(burn), ..out() });
    }
    let enough = bench.worker.time.clock.cycles(Nanos::from_millis(200));
    work_until(&mut bench, |worker| {
        worker.instances.iter().map(|(_, one)| worker.time.scheduler.used(one.entity).0).sum::<u64>()
            > enough.0
    });
    let account = bench.worker.stop();
    assert_whole(&account);
    let ratio = account.instances[1].cycles.0 as f64 / account.instances[0].cycles.0 as f64;
    assert!((2.85..3.15).contains(&ratio), "{ratio}");
    assert!((account.instances[1].promised - 0.75).abs() < 0.001);
}

#[test]
fn a_turn_that_is_interrupted_for_the_ports_goes_on() {
    let mut bench = Bench::new(&[1024]);
    let order = Arc::new(Mutex::new(Vec::new()));
    for (name, share) in [(0, 100), (1, 1_000)] {
        bench.claim = weight(share);
        let order = order.clone();
        let decide = Manner::deciding(move |_, _| {
            order.lock().expect("one thread").push(name);
            Action::Give(Verdict::Interface(1))
        });
        busy(&mut bench, Manner { burn: Cycles(20_000), ..decide });
    }
    let (turn, quantum) = (bench.worker.time.turn, bench.worker.time.clock.cycles(Nanos(500_000)));
    assert!(turn.0 * 2 < quantum.0, "the ports have their turn several times in one of a function");
    let turns = || {
        let order = order.lock().expect("one thread");
        order.chunk_by(|a, b| a == b).filter(|turn| turn[0] == 0).count() as u64
    };
    work_until(&mut bench, |_| turns() >= 8);
    let account = bench.worker.stop();
    assert_whole(&account);
    let turns = turns();
    let light = account.instances[0].cycles.0;
    assert!(turns >= 5 && light / turns >= quantum.0 / 10 * 9, "{turns} turns of {} cycles", light / turns);
}

/// Never has anything, and counts how often it was asked.
struct Silent {
    asked: Arc<std::sync::atomic::AtomicU64>,
    counters: PortCounters,
}

impl Port for Silent {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, _budget: usize, _out: &mut Vec<Packet>) {
        self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        pool.free_batch(packets.drain(..));
    }
    fn wake(&self) -> Wake<'_> {
        Wake::NOW
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

#[test]
fn ports_of_idle_functions_are_looked_at_often_while_others_work() {
    let mut bench = Bench::new(&[1024]);
    let asked = Arc::default();
    let silent = Silent { asked: Arc::clone(&asked), counters: PortCounters::default() };
    let port = bench.add_port(0, Box::new(silent));
    let idle = bench.add(0, out()).0;
    bench.link(port, Target::Instance(idle, 0));
    let call = Cycles(20_000);
    busy(&mut bench, Manner { burn: call, ..out() });
    let used = |worker: &Worker| {
        worker.instances.iter().map(|(_, one)| worker.time.scheduler.used(one.entity).0).sum::<u64>()
    };
    let enough = bench.worker.time.clock.cycles(Nanos::from_millis(50));
    work_until(&mut bench, |worker| used(worker) > enough.0);
    let (used, wakeup) = (used(&bench.worker), bench.worker.time.wakeup);
    let looks = asked.load(std::sync::atomic::Ordering::Relaxed);
    // Each turn ends with the call that is under way. Where others had the processor for a while a turn is
    // shorter for that.
    let most = wakeup.0 + 2 * call.0;
    assert!(looks >= used / most, "{looks} looks in {used} cycles, of {most} at most");
}

#[test]
fn looks_that_are_expensive_are_taken_less_often() {
    let mut bench = Bench::new(&[64]);
    let worker = &mut bench.worker;
    let (wakeup, turn) = (worker.time.wakeup, worker.time.turn);
    assert!(wakeup < turn);
    for (cost, length) in
        [(0, wakeup.0), (wakeup.0 / 32, wakeup.0), (wakeup.0 / 8, 2 * (wakeup.0 / 8 * 8)), (turn.0, turn.0)]
    {
        worker.time.look_cost = Cycles(cost);
        assert_eq!(worker.time.turn_length(), Cycles(length), "a look of {cost} cycles");
    }
}

#[test]
fn a_cap_holds_on_a_worker_with_nothing_else_to_do() {
    let mut bench = Bench::new(&[1024]);
    bench.claim = Claim { cap: Cap::from_millionths(200_000), ..Claim::default() };
    busy(&mut bench, Manner { burn: Cycles(20_000), ..out() });
    let all = work(&mut bench, Duration::from_millis(200));
    let account = bench.worker.stop();
    assert_whole(&account);
    let f = &account.instances[0];
    let share = f.cycles.0 as f64 / all.0 as f64;
    // At most the cap of all and of a period of 10 ms, and a turn.
    assert!(share < 0.20 + 0.2 * 0.05 + 0.02, "{share}");
    assert!(share > 0.19, "{share}");
    assert!(f.throttled > Cycles(0));
    assert!(account.workers[0].asleep.0 > all.0 / 4, "it does not look on in vain: {:?}", account.workers[0]);
}

#[test]
fn who_overruns_its_slice_gets_smaller_batches_and_who_does_not_keeps_them_whole() {
    let settings = WorkerSettings { slice: Nanos(100_000), ..patient() };
    let mut bench = Bench::with(settings, &[1024]);
    let each = bench.worker.time.clock.cycles(Nanos(10_000));
    let dear = busy(&mut bench, Manner { burn_each: each, ..out() });
    let cheap = busy(&mut bench, out());
    work(&mut bench, Duration::from_millis(100));
    let batch = |id: InstanceId| bench.worker.instances[id.index()].batch;
    assert!((1..=20).contains(&batch(dear)), "ten packets fit: {}", batch(dear));
    assert!(batch(cheap) > 20, "{}", batch(cheap));
    let account = bench.worker.stop();
    assert_whole(&account);
    let overruns = |n: usize| account.instances[n].overruns;
    assert!(overruns(0) > 0, "{}", overruns(0));
    assert!(overruns(1) < overruns(0), "{} and {}", overruns(0), overruns(1));
}

#[test]
fn small_batches_grow_again_and_never_beyond_the_workers() {
    let settings = WorkerSettings { batch: 50, slice: Nanos::from_millis(1000), ..patient() };
    let mut bench = Bench::with(settings, &[1024]);
    let f = busy(&mut bench, out());
    bench.worker.instances[f.index()].batch = 1;
    work(&mut bench, Duration::from_millis(20));
    assert_eq!(bench.worker.instances[f.index()].batch, 50);
    assert_whole(&bench.worker.stop());
}

#[test]
fn an_instance_whose_call_holds_the_worker_for_long_gets_preemptible_guests() {
    // The one call is far beyond ten slices, the other one never is, however busy the machine.
    for (slice, long) in [(Nanos(10_000), true), (Nanos::from_millis(10_000), false)] {
        let mut bench = Bench::with(WorkerSettings { slice, ..patient() }, &[64]);
        let burn = bench.worker.time.clock.cycles(Nanos::from_millis(5));
        let (left, _) = bench.port(0, vec![1; 3]);
        let (right, _) = bench.port(0, vec![]);
        let (f, seen) = bench.add(0, Manner { burn, ..Manner::wire() });
        bench.chain((left, right), &[f]);
        bench.turn(5);
        assert_eq!(seen.preemptible.load(std::sync::atomic::Ordering::SeqCst), long, "{slice:?}");
        assert_eq!(bench.worker.stop().ledger.delivered, 3);
    }
}

#[test]
fn time_that_a_function_did_not_have_is_not_charged() {
    // The host may take the processor away where nothing tells of it, but not for so long.
    let settings = WorkerSettings { slice: Nanos::from_millis(25), ..patient() };
    let mut bench = Bench::with(settings, &[64]);
    let (left, _) = bench.port(0, vec![1; 3]);
    let (right, _) = bench.port(0, vec![]);
    let (f, _) = bench.add(0, Manner { nap: Duration::from_millis(100), ..Manner::wire() });
    bench.chain((left, right), &[f]);
    bench.turn(5);
    let clock = bench.worker.time.clock;
    let account = bench.worker.stop();
    let charged = clock.span(account.instances[0].cycles);
    assert!(charged < Nanos::from_millis(25), "{charged:?} of 100 ms asleep");
    assert!(account.workers[0].withheld >= clock.cycles(Nanos::from_millis(75)), "{:?}", account.workers[0]);
    assert_eq!(account.instances[0].overruns, 0);
    assert_eq!(account.ledger.delivered, 3);
}

#[test]
fn a_port_is_heard_beside_a_neighbour_that_always_has_more() {
    let mut bench = Bench::new(&[4096]);
    let long = bench.worker.time.clock.cycles(Nanos(50_000));
    // The first hands the second more than it can do; the second has a port of its own.
    let (flood, own) = (bench.add_port(0, Endless::boxed(1)), bench.add_port(0, Endless::boxed(200)));
    let (first, _) = bench.add(0, out());
    let seen = Arc::new(Mutex::new(0u64));
    let count = seen.clone();
    let slow = Manner::deciding(move |byte, _| {
        *count.lock().expect("not poisoned") += u64::from(byte == 200);
        Action::Give(Verdict::Interface(2))
    });
    let (second, _) = bench.add(0, Manner { burn: long, ..slow });
    bench.link(flood, Target::Instance(first, 0));
    bench.link(Target::Instance(first, 1), Target::Instance(second, 0));
    bench.link(own, Target::Instance(second, 1));
    // A third one sees to it that the second does not run as often as it is handed packets.
    busy(&mut bench, Manner { burn: long, ..out() });
    // Until the neighbour has filled the queue, and as much again.
    let mut run = |calls| {
        while bench.worker.instances[second.index()].counters.calls < calls {
            bench.worker.step();
        }
        *seen.lock().expect("not poisoned")
    };
    let before = run(500);
    let came = run(700) - before;
    let full = bench.worker.instances[second.index()].counters.ledger.dropped[DropReason::QueueFull];
    assert_eq!(full, 0, "the neighbour fetches nothing for an instance where it would only be lost");
    assert!(came >= 15 * 64, "{came} by its own port, in 200 batches");
    assert_whole(&bench.worker.stop());
}

#[test]
fn a_meeting_is_charged_to_no_instance() {
    let rig = super::stream::Rig::standing(2);
    // Little comes at once: what is received after a meeting is received by the worker, not by an instance
    // that always has more.
    let ports = (rig.stream(0, 0, 0, u64::MAX, 1), rig.stream(1, 0, 1, u64::MAX, 1));
    let functions = [rig.wire(0), rig.wire(1)];
    rig.chain(ports, &functions);
    rig.start();
    rig.arrive(&[0, 1], 10);
    let before = rig.balanced();
    for _ in 0..5 {
        rig.fleet.dawdle(rig.clock.simulation().expect("it is"), Nanos::from_millis(20));
    }
    let after = rig.balanced();
    let clock = rig.clock;
    for (before, after) in before.instances.iter().zip(&after.instances) {
        let charged = after.cycles.since(before.cycles);
        assert!(charged < clock.cycles(Nanos::from_millis(1)), "{charged:?} of 100 ms at meetings");
        assert_eq!(after.overruns, 0);
    }
    rig.stop();
}

#[test]
fn what_passes_from_port_to_port_is_charged_to_no_instance() {
    let mut bench = Bench::new(&[1024]);
    let burn = bench.worker.time.clock.cycles(Nanos(100_000));
    let (from, to) = (
        bench.add_port(0, Endless::boxed(1)),
        Box::new(Endless { burn, clock: Some(bench.worker.time.clock), ..*Endless::boxed(1) }),
    );
    let to = bench.add_port(0, to);
    bench.worker.lead(from, to).expect("a free wire");
    busy(&mut bench, out());
    let all = work(&mut bench, Duration::from_millis(50));
    let account = bench.worker.stop();
    assert_whole(&account);
    let passed = account.ports[1].counters.ledger.delivered / 64;
    assert!(passed > 20 && account.instances[0].calls > 20, "both had their turns");
    let overhead = account.workers[0].overhead;
    assert!(overhead.0 > passed * burn.0 / 2, "{overhead:?} of {all:?}: {passed} batches");
}

#[test]
fn what_a_switch_brings_is_charged_by_packets_and_for_time_that_was_had() {
    use virtual_switch::{Switch, SwitchSettings};
    let mut bench = Bench::new(&[1024]);
    let table = Arc::new(Switch::new(SwitchSettings::default()).expect("good settings"));
    let id = bench.worker.add_switch("switch", table.clone()).expect("few switches");
    let plug = || Target::Switch(id, table.attach().expect("few ports"));
    let plugs = [plug(), plug(), plug()];
    let nap = Duration::from_millis(2);
    // Frames to a group: both functions get each of them.
    let group = Box::new(Endless { nap, clock: Some(bench.worker.time.clock), ..*Endless::boxed(1) });
    let group = bench.add_port(0, group);
    bench.link(group, plugs[0]);
    for plug in &plugs[1..] {
        let f = bench.add(0, Manner::deciding(|_, _| Action::Give(Verdict::Drop(0)))).0;
        bench.link(*plug, Target::Instance(f, 0));
    }
    let all = work(&mut bench, Duration::from_millis(60));
    let account = bench.worker.stop();
    let of = |n: usize| account.instances[n].cycles.0;
    assert!(account.instances.iter().all(|f| f.packets > 64), "both were sent something");
    assert!(of(0) + of(1) < all.0 / 3, "{} and {} of {all:?}, of which most was slept", of(0), of(1));
    assert!(account.workers[0].withheld.0 > all.0 / 3);
}
