//! Accounts that are read while the workers run.

use super::stream::Rig;
use super::*;
use crate::control::board::Wanted;
use crate::control::quiesce::here;
use std::sync::Condvar;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A call that does not end before the test lets it.
#[derive(Default)]
struct Gate {
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    /// Is in the call, until it may go on.
    fn pass(&self) {
        let mut state = self.state.lock().expect("not poisoned");
        state.0 = true;
        self.changed.notify_all();
        while !state.1 {
            state = self.changed.wait(state).expect("not poisoned");
        }
    }

    fn wait_for_call(&self) {
        let mut state = self.state.lock().expect("not poisoned");
        while !state.0 {
            state = self.changed.wait(state).expect("not poisoned");
        }
    }

    fn open(&self) {
        self.state.lock().expect("not poisoned").1 = true;
        self.changed.notify_all();
    }
}

#[test]
fn what_is_counted_can_be_read_while_a_worker_is_in_a_call() {
    let rig = Rig::new(2, 1);
    let gate = Arc::new(Gate::default());
    let held = gate.clone();
    let slow = Manner::deciding(move |_, ingress| {
        held.pass();
        Action::Give(Verdict::Interface(1 - ingress))
    });
    let (left, right) = (rig.script(0, 0, vec![1; 10]).0, rig.script(0, 0, vec![]).0);
    let f = rig.add(0, 0, slow).0;
    rig.chain((left, right), &[f]);
    let (ports, others) = rig.both_ways(&[1], 500);
    rig.start();
    gate.wait_for_call();
    // A thread that asks the worker for itself waits for the end of the call: here that would be for ever.
    let there = rig.fleet.counters_of(f).expect("it is there");
    assert_eq!((there.name.as_str(), there.worker), ("function", 0));
    assert!(rig.fleet.counters_of_port(left).is_some());
    let begin = std::time::Instant::now();
    let seen = || rig.fleet.counters_of(others[0]).expect("it is there").packets;
    while seen() < 1000 && begin.elapsed() < Duration::from_secs(20) {}
    assert_eq!(seen(), 1000, "the other worker tells what is new");
    assert_eq!(rig.fleet.counters_of_port(ports[0]).expect("it is there").counters.ledger.delivered, 500);
    // So would a thread that wants to see all at one moment.
    assert!(rig.fleet.account_within(Duration::from_millis(5)).expect("it has not stopped").is_none());
    let survey = rig.fleet.survey().expect("it has not stopped");
    assert!(!survey.at_one_moment);
    let functions: Vec<_> = survey.instances.iter().map(|one| (one.worker, one.packets)).collect();
    assert_eq!(functions, [(0, 0), (1, 1000)]);
    assert_eq!((survey.ports.len(), survey.workers.len(), survey.pools.len()), (4, 2, 1));
    let delivered: u64 = survey.ports.iter().map(|port| port.counters.ledger.delivered).sum();
    assert_eq!(delivered, 1000);
    assert!(!rig.fleet.answers(0, Duration::from_millis(5)), "it is in its call");
    let begin = std::time::Instant::now();
    while !rig.fleet.answers(1, Duration::from_millis(100)) {
        assert!(begin.elapsed() < Duration::from_secs(20), "the other one answers");
    }
    gate.open();
    rig.wait("all answer", || rig.fleet.answers(0, Duration::from_millis(100)));
    rig.wait("all come together", || {
        let account = rig.fleet.account_within(Duration::from_secs(1)).expect("it has not stopped");
        account.is_some_and(|account| account.at_one_moment && account.balance().is_ok())
    });
    assert_eq!(rig.fleet.survey().expect("it has not stopped").instances.len(), 2);
    let begin = std::time::Instant::now();
    let seen = || rig.fleet.counters_of(f).expect("it is there").packets;
    while seen() < 10 && begin.elapsed() < Duration::from_secs(20) {}
    assert_eq!(seen(), 10);
    rig.stop();
}

#[test]
fn boards_go_along_with_moves_and_end_with_what_they_are_of() {
    let rig = Rig::new(2, 1);
    let (ports, functions) = rig.both_ways(&[0], 100);
    rig.turn(50);
    let f = functions[0];
    assert_eq!(rig.fleet.counters_of(f).expect("it is there").packets, 200);
    rig.fleet.move_to(&[End::Instance(f, 0)], 1).expect("it moves");
    assert_eq!(rig.fleet.counters_of(f).expect("it is there").worker, 1);
    rig.start();
    rig.fleet.pause(f).expect("it has not stopped");
    rig.wait("it is told", || rig.fleet.counters_of(f).expect("it is there").paused);
    rig.fleet.change(move |change| drop(change.remove_instance(f))).expect("it has not stopped");
    assert!(rig.fleet.counters_of(f).is_none());
    let port = ports[0];
    rig.fleet.change(move |change| drop(change.remove_port(port))).expect("it has not stopped");
    assert!(rig.fleet.counters_of_port(port).is_none());
    rig.stop();
}

#[test]
fn many_questions_are_answered_a_few_in_a_turn() {
    let mut bench = Bench::new(&[64]);
    let all: Vec<_> = (0..100).map(|_| bench.add(0, Manner::wire()).0).collect();
    let viewer = bench.worker.upkeep.viewer.clone();
    let last = all.iter().map(|id| viewer.ask(Wanted::Instance(id.index()))).max();
    let written =
        |worker: &Worker| worker.instances.iter().filter(|(_, one)| one.board.read().is_some()).count();
    for turn in 1..=6 {
        bench.worker.turn();
        assert_eq!(written(&bench.worker), turn * 16);
    }
    assert!(bench.worker.is_asked_to_show());
    bench.worker.turn();
    assert!(!bench.worker.is_asked_to_show());
    assert_eq!((written(&bench.worker), last), (100, Some(100)));
    // There is no port of that number: the question is answered all the same.
    viewer.wait(viewer.ask(Wanted::Port(77)), std::time::Instant::now());
    bench.worker.turn();
    assert!(!bench.worker.is_asked_to_show());
    assert_whole(&bench.worker.stop());
}

/// A port that asks its driver for details, which takes its time: it notes how often, and whether the thread
/// that asks keeps workers from their work.
#[derive(Default)]
struct Detailed {
    counters: PortCounters,
    asked: Arc<AtomicU64>,
    asked_of_quiesced: Arc<AtomicU64>,
}

impl Port for Detailed {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, _budget: usize, _out: &mut Vec<Packet>) {}
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.ledger.delivered += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }
    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
    fn details(&self) -> Vec<(&'static str, u64)> {
        let asked = self.asked.fetch_add(1, SeqCst);
        self.asked_of_quiesced.fetch_add(u64::from(here::now() > 0), SeqCst);
        vec![("asked", asked)]
    }
}

#[test]
fn workers_are_quiesced_for_what_is_of_one_moment_alone() {
    let rig = Rig::new(2, 1);
    let (asked, asked_of_quiesced) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    for worker in [0, 1] {
        let (asked, asked_of_quiesced) = (asked.clone(), asked_of_quiesced.clone());
        let port = Box::new(Detailed { asked, asked_of_quiesced, ..Detailed::default() });
        rig.fleet.add_port(worker, "detailed", rig.pools[0].1, port).expect("a worker");
    }
    rig.both_ways(&[0, 1], 2000);
    rig.start();
    rig.arrive(&[0, 1], 2000);
    let asked_before = asked.load(SeqCst);
    let before = here::ever();
    rig.wait("details are asked for", || {
        let account = rig.fleet.account(false).expect("it has not stopped");
        account.balance().expect("balanced at any time");
        asked.load(SeqCst) > asked_before + 2
    });
    assert!(here::ever() >= before + 2, "both workers are quiesced for the ledgers");
    assert!(rig.fleet.account_within(Duration::from_secs(20)).expect("it has not stopped").is_some());
    assert_eq!(asked_of_quiesced.load(SeqCst), 0);
    // What needs no moment in common keeps no worker from its work.
    let before = here::ever();
    let survey = rig.fleet.survey().expect("it has not stopped");
    assert_eq!((survey.instances.len(), survey.ports.len(), survey.pools.len()), (2, 4, 1));
    rig.fleet.sweep_switches().expect("it has not stopped");
    assert_eq!(here::ever(), before);
    let account = rig.stop();
    let counted: Vec<u64> = account.instances.iter().map(|instance| instance.packets).collect();
    assert_eq!(counted, [4000; 2]);
}

/// For how long an account stops workers, beside one that is made while they are quiesced as a whole: `cargo
/// test --release -p engine -- --ignored --nocapture accounts`.
#[test]
#[ignore = "a measurement, not a test"]
fn what_accounts_cost_the_workers() {
    for count in [1_000, 10_000] {
        let rig = Rig::new(2, 1);
        let functions: Vec<_> = (0..count).map(|n| rig.wire(n % 2)).collect();
        rig.start();
        let measure = |what: &str, account: &dyn Fn() -> usize| {
            let times = (0..21).map(|_| {
                let begin = std::time::Instant::now();
                assert_eq!(account(), count);
                (here::lasted(), begin.elapsed())
            });
            let (mut stopped, mut took): (Vec<_>, Vec<_>) = times.unzip();
            stopped.sort();
            took.sort();
            println!("{count} functions, {what}: workers stopped for {:?} of {:?}", stopped[10], took[10]);
        };
        measure("ledgers", &|| rig.fleet.account(false).expect("it has not stopped").instances.len());
        measure("all of it", &|| {
            let all = |change: &mut Change<'_, '_>| -> Vec<_> {
                functions.iter().filter_map(|function| change.account_of(*function)).collect()
            };
            rig.fleet.change(all).expect("it has not stopped").len()
        });
        rig.stop();
    }
}
