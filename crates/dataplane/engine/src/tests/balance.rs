//! Functions that are moved because their worker has too much to do, on simulated time.

use super::stream::Rig;
use super::*;
use crate::state::accounting::Calls;
use crate::{Balanced, Balancer, Reason};

/// A wire whose packets cost a microsecond each.
fn slow_wire() -> Manner {
    Manner { burn_each: Cycles(1_000), ..Manner::wire() }
}

/// Three functions between two ports each, all on the first of two workers, which has more to do than it can.
fn loaded(rig: &Rig) -> Vec<FleetInstance> {
    (0..3)
        .map(|n| {
            let ports = [rig.stream(0, 0, 2 * n, u64::MAX, 200), rig.stream(0, 0, 2 * n + 1, u64::MAX, 200)];
            let function = rig.add(0, 0, slow_wire()).0;
            rig.chain((ports[0], ports[1]), &[function]);
            function
        })
        .collect()
}

/// The first move of a balancer that looks as often as it asks to.
fn first_move(rig: &Rig, balancer: &mut Balancer) -> Balanced {
    for _ in 0..200 {
        rig.pass(balancer.pause().into());
        rig.balanced();
        if let Some(moved) = balancer.look(&rig.fleet) {
            return moved;
        }
    }
    panic!("nothing moves")
}

#[test]
fn a_worker_with_time_to_spare_takes_a_function_over_with_its_ports() {
    let rig = Rig::simulated(2);
    loaded(&rig);
    let mut balancer = Balancer::new(2);
    let moved = first_move(&rig, &mut balancer);
    assert_eq!(moved.to, 1, "{moved:?}");
    assert!(matches!(moved.why, Reason::Help | Reason::Relief), "{moved:?}");
    assert_eq!(moved.names.iter().filter(|name| *name == "stream").count() % 2, 0, "{moved:?}");
    assert!(moved.names.len() >= 3, "a function and both of its ports: {moved:?}");
    let before = rig.flows.arrived(0);
    rig.pass(Nanos::from_millis(20));
    assert!(rig.flows.arrived(0) > before + 1_000, "packets go on");
    assert_eq!(rig.stop().ledger.dropped.total(), 0);
}

#[test]
fn a_worker_that_is_busy_with_small_batches_has_time_to_spare() {
    let rig = Rig::simulated(2);
    loaded(&rig);
    // The second one always has something to do, two packets at a time.
    let ports = [rig.stream(1, 0, 6, u64::MAX, 2), rig.stream(1, 0, 7, u64::MAX, 2)];
    let function = rig.wire(1);
    rig.chain((ports[0], ports[1]), &[function]);
    let mut balancer = Balancer::new(2);
    let busy = rig.fleet.busy()[1];
    let moved = first_move(&rig, &mut balancer);
    assert_eq!(moved.to, 1, "{moved:?}");
    assert!(rig.fleet.busy()[1] > busy, "it had its own to do meanwhile");
    assert_eq!(rig.stop().ledger.dropped.total(), 0);
}

#[test]
fn calls_that_were_not_needed_do_not_count() {
    let needed = |calls, packets, room| Calls { calls, packets, room }.needed(Cycles(1_000_000)).0;
    assert_eq!(needed(0, 0, 0), 1_000_000, "timers");
    assert_eq!(needed(10, 320, 320), 1_000_000, "full batches");
    assert_eq!(needed(100, 100, 100), 1_000_000, "one packet each, and no room for more");
    // 320 packets and ten calls instead of forty, each as dear as sixteen packets.
    assert_eq!(needed(40, 320, 1_280), 1_000_000 * (320 + 160) / (320 + 640));
    assert!(needed(100, 100, 6_400) < 100_000);
}

#[test]
fn a_pinned_part_is_brought_there_and_stays() {
    let rig = Rig::simulated(2);
    let functions = loaded(&rig);
    let mut balancer = Balancer::new(2);
    functions.iter().for_each(|function| balancer.pin(*function, 1));
    for _ in 0..20 {
        rig.pass(balancer.pause().into());
        rig.balanced();
        assert_eq!(balancer.look(&rig.fleet), None, "they are where they are to be");
    }
    let busy = rig.fleet.busy();
    rig.pass(Nanos::from_millis(20));
    let grown: Vec<u64> =
        rig.fleet.busy().iter().zip(&busy).map(|(now, before)| now.since(*before).0).collect();
    assert!(grown[0] < 1_000_000 && grown[1] > 15_000_000, "the other one works: {grown:?}");
    assert_eq!(rig.stop().ledger.dropped.total(), 0);
}
