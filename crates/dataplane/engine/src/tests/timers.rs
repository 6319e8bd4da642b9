//! Deadlines: each is served once in a turn, in its function's account, within its share.

use super::shares::{busy, work, work_until};
use super::*;
use cpu_share::{Cap, Weight};

/// How often a function's timer ran.
fn timers(seen: &Seen) -> usize {
    seen.calls().iter().filter(|call| **call == Call::Timer).count()
}

/// Its timer is due again as soon as it has run.
fn storm(burn: Nanos, clock: &Clock) -> Manner {
    Manner { overdue: true, burn: clock.cycles(burn), ..Manner::wire() }
}

#[test]
fn a_deadline_in_the_past_is_served_once_a_turn_and_others_have_theirs() {
    let mut bench = Bench::new(&[512]);
    let offers: Vec<u8> = (0..200).collect();
    let (left, _) = bench.port(0, offers.clone());
    let (right, sent) = bench.port(0, vec![]);
    let (_, storming) = bench.add(0, storm(Nanos(0), &Clock::simulated()));
    let f = bench.wire(0);
    bench.chain((left, right), &[f]);
    for turn in 1..=50 {
        bench.turn(1);
        assert!(timers(&storming) <= turn, "{} in {turn} turns", timers(&storming));
    }
    assert!(timers(&storming) >= 45, "it has its turns: {}", timers(&storming));
    assert_eq!(*sent.lock().expect("not poisoned"), offers);
    assert_whole(&bench.worker.stop());
}

#[test]
fn a_timer_storm_stays_within_its_cap() {
    let mut bench = Bench::new(&[64]);
    bench.claim = Claim { cap: Cap::from_millionths(50_000), ..Claim::default() };
    let clock = bench.worker.time.clock;
    bench.add(0, storm(Nanos(20_000), &clock));
    let all = work(&mut bench, Duration::from_millis(300));
    let account = bench.worker.stop();
    let f = &account.instances[0];
    let share = f.cycles.0 as f64 / all.0 as f64;
    // At most the cap of all and of a period of 10 ms, and a turn.
    assert!(share < 0.05 + 0.05 * 0.04 + 0.005, "{share}");
    assert!(f.throttled > Cycles(0) && f.cycles > Cycles(0));
}

#[test]
fn a_timer_storm_counts_towards_its_weight() {
    let mut bench = Bench::new(&[1024]);
    let clock = bench.worker.time.clock;
    let weight = |share| Claim { weight: Weight::new(share).expect("a weight"), ..Claim::default() };
    bench.claim = weight(100);
    bench.add(0, storm(Nanos(20_000), &clock));
    bench.claim = weight(300);
    let forward = Manner::deciding(|_, _| Action::Give(Verdict::Interface(1)));
    busy(&mut bench, Manner { burn: clock.cycles(Nanos(20_000)), ..forward });
    let enough = clock.cycles(Nanos::from_millis(200));
    work_until(&mut bench, |worker| {
        worker.instances.iter().map(|(_, one)| worker.time.scheduler.used(one.entity).0).sum::<u64>()
            > enough.0
    });
    let account = bench.worker.stop();
    let part = |n: usize| account.instances[n].cycles.0 as f64;
    let share = part(0) / (part(0) + part(1));
    // Its deadline is looked at once a turn, so that it may have less than a quarter, and never more.
    assert!(share < 0.27 && share > 0.02, "{share}");
}

#[test]
fn many_that_are_due_at_once_are_noticed_over_several_turns() {
    let mut bench = Bench::new(&[64]);
    let manner = Manner { every: Some(Nanos::from_millis(1_000_000)), ..Manner::wire() };
    let seen: Vec<Seen> = (0..1000).map(|_| bench.add(0, manner.clone()).1).collect();
    let all = || seen.iter().map(timers).sum::<usize>();
    bench.worker.turn();
    let first = all();
    assert!(first <= 256, "{first} in one turn");
    for _ in 0..2000 {
        bench.worker.turn();
    }
    assert_eq!(all(), 1000, "each once");
    assert!(bench.worker.instances.iter().all(|(_, one)| !one.due));
    assert_whole(&bench.worker.stop());
}

/// Packets that a function holds for an answer that never comes, a next hop's for example, end by themselves:
/// no packet, timer or change of its devices is needed for that.
#[test]
fn what_is_held_ends_in_time_though_nothing_happens() {
    let mut bench = Bench::new(&[64]);
    let (left, _) = bench.port(0, vec![1, 2, 3]);
    let hold = Manner::deciding(|byte, _| Action::Give(Verdict::Hold(u16::from(byte))));
    let longest = Nanos::from_millis(1_000);
    let (f, seen) = bench.add(0, Manner { hold: longest, ..hold });
    bench.link(left, Target::Instance(f, 0));
    while bench.worker.instances[f.index()].counters.packets < 3 {
        bench.turn(1);
    }
    let clock = bench.worker.time.clock;
    let expired =
        |worker: &Worker| worker.instances[f.index()].counters.ledger.dropped[DropReason::HoldExpired];
    pass(&clock, clock.cycles(Nanos(longest.0 / 2)));
    bench.turn(1);
    assert_eq!(expired(&bench.worker), 0);
    let called = seen.calls();
    pass(&clock, clock.cycles(longest));
    bench.turn(10);
    assert_eq!((expired(&bench.worker), seen.calls()), (3, called));
    assert_whole(&bench.worker.stop());
}

#[test]
fn in_a_pause_no_timer_runs_and_held_packets_expire() {
    let mut bench = Bench::new(&[64]);
    let (left, _) = bench.port(0, vec![1, 2, 3]);
    let hold = Manner::deciding(|byte, _| Action::Give(Verdict::Hold(u16::from(byte))));
    let (f, seen) = bench.add(0, Manner { overdue: true, ..hold });
    bench.link(left, Target::Instance(f, 0));
    while bench.worker.instances[f.index()].counters.packets < 3 {
        bench.turn(1);
    }
    bench.worker.pause(f);
    let before = timers(&seen);
    let expired =
        |worker: &Worker| worker.instances[f.index()].counters.ledger.dropped[DropReason::HoldExpired];
    while expired(&bench.worker) < 3 {
        bench.turn(1);
        assert_eq!(timers(&seen), before, "its time stands still");
    }
    bench.worker.resume_instance(f).expect("it is not frozen");
    bench.turn(2);
    assert!(timers(&seen) > before, "it goes on");
    assert_whole(&bench.worker.stop());
}

#[test]
fn logs_of_many_are_collected_a_few_at_a_time_and_in_their_accounts() {
    let mut bench = Bench::new(&[64]);
    for _ in 0..200 {
        bench.add(0, Manner::wire());
    }
    let used = |worker: &Worker| -> Vec<Cycles> {
        worker.instances.iter().map(|(_, one)| worker.time.scheduler.used(one.entity)).collect()
    };
    bench.worker.upkeep.next = Nanos(0);
    for collected in [64, 128, 192, 200] {
        bench.worker.maintain();
        assert_eq!(bench.worker.upkeep.called.len(), 200 - collected);
        let charged = used(&bench.worker).iter().filter(|used| **used > Cycles(0)).count();
        assert_eq!(charged, collected);
    }
    assert_whole(&bench.worker.stop());
}

#[test]
fn what_a_function_asks_for_is_told_in_its_next_turn() {
    let mut bench = Bench::new(&[64]);
    let (f, seen) = bench.add(0, Manner::wire());
    bench.worker.set_devices(f, Arc::new([7]));
    let asks = |bench: &Bench| {
        let events = bench.events.lock().expect("not poisoned");
        events.iter().filter(|event| matches!(event, Event::Asked { .. })).count()
    };
    // Logs, which are collected now and then, are not looked at meanwhile.
    (bench.worker.upkeep.next, bench.worker.upkeep.next_ports) = (Nanos::MAX, Nanos::MAX);
    bench.turn(1);
    assert_eq!((seen.calls().len(), asks(&bench)), (1, 0), "it is told of its devices, and asks");
    bench.turn(1);
    assert_eq!((seen.calls().len(), asks(&bench)), (1, 1), "it is not called for that");
    bench.turn(5);
    assert_eq!((seen.calls().len(), asks(&bench)), (1, 1));
    assert_whole(&bench.worker.stop());
}

#[test]
fn a_report_is_charged_to_its_instance() {
    let mut bench = Bench::new(&[64]);
    bench.add(0, Manner::wire());
    let used = |worker: &Worker| worker.time.scheduler.used(worker.instances[0].entity);
    let before = used(&bench.worker);
    bench.worker.account(true);
    assert!(used(&bench.worker) > before);
    assert_whole(&bench.worker.stop());
}
