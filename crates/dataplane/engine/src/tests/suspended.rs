//! Calls that are switched out in the middle: their batch waits untouched, others run, and the guest is not
//! called in between.

use super::*;
use crate::state::accounting::{NO_CALLER, NO_INSTANCE};

/// What a port was sent.
type Sent = Arc<Mutex<Vec<u8>>>;

/// Two functions side by side: one whose calls are switched out so often, and one whose are not.
fn beside(suspend: u32, manner: Manner) -> (Bench, [InstanceId; 2], [Seen; 2], [Sent; 2]) {
    let mut bench = Bench::new(&[512]);
    // Each step is longer than the slack, so that a waiting instance comes in between.
    let long = bench.worker.time.clock.cycles(Nanos(400_000));
    let (first, first_saw) = bench.add(0, Manner { suspend, burn: long, ..manner });
    let (second, second_saw) = bench.add(0, Manner { burn: long, ..Manner::wire() });
    let mut sent = Vec::new();
    for (f, count) in [(first, 1), (second, 10)] {
        let (left, _) = bench.port(0, vec![7; 64 * count]);
        let (right, got) = bench.port(0, vec![]);
        bench.chain((left, right), &[f]);
        sent.push(got);
    }
    let sent = [sent[0].clone(), sent[1].clone()];
    (bench, [first, second], [first_saw, second_saw], sent)
}

fn count(calls: &[Call], which: Call) -> usize {
    calls.iter().filter(|call| **call == which).count()
}

#[test]
fn a_call_goes_on_where_it_was_and_others_run_in_between() {
    let (mut bench, [first, _], [seen, other], [sent, _]) = beside(5, Manner::wire());
    while count(&seen.calls(), Call::Resume) < 5 {
        let before = other.calls().len();
        bench.turn(8);
        let suspended = bench.worker.instances[first.index()].suspended.is_some();
        assert!(!suspended || before >= 10 || other.calls().len() > before, "the other one has its turns");
        assert_eq!(sent.lock().expect("not poisoned").is_empty(), count(&seen.calls(), Call::Resume) < 5);
    }
    assert_eq!(seen.calls(), [&[Call::Process(64)][..], &[Call::Resume; 5]].concat());
    assert_eq!(sent.lock().expect("not poisoned").len(), 64);
    let (account, _) = bench.finish();
    let f = &account.instances[0];
    assert_eq!((f.calls, f.packets, f.suspensions), (1, 64, 5));
    assert_eq!(account.ledger.delivered, 64 * 11);
}

#[test]
fn neither_timer_nor_report_nor_observation_falls_into_a_call() {
    // The scripted function panics when it is called in the middle of a call.
    let every = Some(Nanos(10_000));
    let (mut bench, [first, second], [seen, _], _) = beside(40, Manner { every, ..Manner::wire() });
    let at = Target::Instance(second, 0);
    bench.worker.observe(first, at, View::default()).expect("both are there");
    // It observes and has packets of its own, which end there as an observer's do; here it is a function all
    // the same.
    bench.worker.instances[first.index()].is_observer = false;
    // The call has begun before anything is to be observed.
    bench.worker.pause(second);
    while bench.worker.instances[first.index()].suspended.is_none() {
        bench.turn(1);
    }
    bench.worker.resume_instance(second).expect("it is not frozen");
    // No other waits, so that it could be shown the packets at once.
    let entity = bench.worker.instances[second.index()].entity;
    bench.worker.time.scheduler.deactivate(entity);
    bench.worker.hop(second.index());
    (bench.worker.time.running, bench.worker.time.current) = (NO_INSTANCE, NO_CALLER);
    assert_eq!(bench.worker.instances[first.index()].counters.missed, 64);
    bench.worker.wake_instance(second.index());
    let mut suspended = 0;
    while bench.worker.instances[second.index()].counters.calls < 8 {
        bench.worker.turn();
        let in_the_middle = bench.worker.instances[first.index()].suspended.is_some();
        let before = count(&seen.calls(), Call::Report);
        bench.worker.account(true).balance().expect("balanced at any time");
        assert_eq!(count(&seen.calls(), Call::Report) == before, in_the_middle);
        suspended += usize::from(in_the_middle);
    }
    assert!(suspended > 1, "or nothing was tried");
    while bench.worker.on_the_way() > 0 {
        bench.turn(1);
    }
    let (account, _) = bench.finish();
    assert!(account.instances[0].missed > 0, "what passed meanwhile");
    let calls = seen.calls();
    assert_eq!(count(&calls, Call::Resume) % 40, 0, "every call came to its end");
    let last = calls.iter().rposition(|call| *call == Call::Resume).expect("it was resumed");
    assert!(calls[last..].contains(&Call::Timer), "the timer came when the call had ended");
}

#[test]
fn a_fault_after_it_went_on_loses_that_batch_and_no_other() {
    let faulty = Manner::deciding(|byte, ingress| match byte {
        7 => Action::Fault,
        _ => Action::Give(Verdict::Interface(1 - ingress)),
    });
    let (bench, _, _, [sent, others]) = beside(2, faulty);
    let (account, _) = bench.finish();
    let f = &account.instances[0];
    assert_eq!((f.faults, f.restarts), (1, 1));
    assert_eq!(f.ledger.dropped[DropReason::FunctionTrapped], 64);
    assert_eq!(
        (sent.lock().expect("not poisoned").len(), others.lock().expect("not poisoned").len()),
        (0, 640)
    );
}

#[test]
fn stopping_in_the_middle_of_a_call_counts_its_batch_as_held() {
    let (mut bench, [first, _], [seen, _], _) = beside(u32::MAX, Manner::wire());
    while bench.worker.instances[first.index()].suspended.is_none() {
        bench.turn(1);
    }
    let account = bench.worker.stop();
    assert_whole(&account);
    assert_eq!(account.instances[0].ledger.dropped[DropReason::HeldAtStop], 64);
    assert!(account.instances[0].down.is_some(), "the call was ended before its packets had another owner");
    assert!(count(&seen.calls(), Call::Report) == 0);
}

#[test]
fn an_instance_paused_in_the_middle_of_a_call_goes_on_afterwards() {
    let (mut bench, [first, _], [seen, _], [sent, _]) = beside(20, Manner::wire());
    while bench.worker.instances[first.index()].suspended.is_none() {
        bench.turn(1);
    }
    bench.worker.pause(first);
    let before = seen.calls();
    bench.turn(30);
    assert_eq!(seen.calls(), before);
    bench.worker.resume_instance(first).expect("it is not frozen");
    while bench.worker.on_the_way() > 0 {
        bench.turn(1);
    }
    assert_eq!(sent.lock().expect("not poisoned").len(), 64);
    bench.finish();
}
