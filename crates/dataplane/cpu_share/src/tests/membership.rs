//! Coming, going, changing claims.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_standing_survives_the_way_to_another_worker(
        w in 1u32..=10_000,
        millionths in prop::option::of(1u32..=1_000_000),
        turns in prop::collection::vec(0u64..1_000_000, 1..20),
    ) {
        let claim = Claim { cap: millionths.and_then(Cap::from_millionths), ..weight(w) };
        let mut here = Worker::new(0, 100_000);
        let (_, ids) = here.tenant(Claim::default(), &[claim, Claim::default()]);
        for turn in turns {
            here.turn(|_| turn);
        }
        here.work(ids[0], 12_345);
        let standing = here.scheduler.remove(ids[0]);
        prop_assert!(here.used(ids[0]) >= 12_345);

        // There it is another time, and others are old already.
        let mut there = Worker::new(0, 100_000);
        there.now += Cycles(1 << 30);
        there.scheduler.is_idle(there.now);
        let (tenant, _) = there.tenant(Claim::default(), &[Claim::default()]);
        for _ in 0..10 {
            there.turn(|_| 77_777);
        }
        there.scheduler.is_idle(there.now);
        let moved = there.scheduler.add_with(tenant, claim, standing);
        prop_assert_eq!(there.scheduler.used(moved), standing.used());
        let again = there.scheduler.remove(moved);
        // A bucket counts time and its standing cycles, each to a part of 2^32.
        prop_assert!((again.overdrawn - standing.overdrawn).abs() <= 1);
        prop_assert_eq!(Standing { overdrawn: standing.overdrawn, ..again }, standing);
    }

    #[test]
    fn another_weight_or_cap_changes_no_debt_in_cycles(
        from in (1u32..=10_000, 1u32..=1_000_000),
        to in (1u32..=10_000, 1u32..=1_000_000),
        debt in 0u64..10_000_000,
        of_tenant in any::<bool>(),
    ) {
        let claim = |(w, cap)| Claim { cap: Cap::from_millionths(cap), ..weight(w) };
        let mut worker = Worker::new(0, 100_000);
        let (own, entity) = if of_tenant { (claim(from), Claim::default()) } else { (Claim::default(), claim(from)) };
        let (tenant, ids) = worker.tenant(own, &[entity]);
        // Charged, without time passing: all of it is owed.
        worker.scheduler.charge(ids[0], Cycles(debt));
        if of_tenant {
            worker.scheduler.set_tenant_claim(tenant, claim(to));
        } else {
            worker.scheduler.set_claim(ids[0], claim(to));
        }
        let node = if of_tenant { worker.scheduler.tenant(tenant) } else { ids[0].0 as usize };
        let share = &mut worker.scheduler.nodes[node].share;
        let cycles = |parts: i128| parts as f64 / f64::from(1u32 << 31) / 2.0;
        let (owed, overdrawn) = (cycles(share.vruntime()) * f64::from(to.0) / 100.0, cycles(share.overdrawn(worker.now)));
        let near = |a: f64| (a - debt as f64).abs() <= 1e-6 * debt as f64 + 1e-3;
        prop_assert!(near(owed), "{owed} of {debt}");
        prop_assert!(near(overdrawn), "{overdrawn} of {debt}");
    }
}

#[test]
fn a_debt_goes_along_and_is_paid_where_it_comes_to() {
    let mut here = Worker::new(0, 10_000_000);
    let (_, ids) = here.tenant(Claim::default(), &[Claim::default()]);
    here.turn(|_| 100_000);
    let standing = here.scheduler.remove(ids[0]);
    assert_eq!(here.scheduler.pick(here.now), None, "its work goes with it");

    let mut there = Worker::new(0, 10_000_000);
    let (tenant, modest) = there.tenant(Claim::default(), &[Claim::default()]);
    let greedy = there.scheduler.add_with(tenant, Claim::default(), standing);
    there.scheduler.activate(greedy);
    let turns = std::iter::from_fn(|| there.turn(|_| 1_000)).take_while(|id| *id == modest[0]).count();
    assert_eq!(turns, 100);
}

#[test]
fn a_throttled_entity_stays_so_elsewhere() {
    let mut here = Worker::new(0, 10_000);
    let (_, ids) = here.tenant(Claim::default(), &[capped(100_000)]);
    here.turn(|_| 10_000);
    assert_eq!(here.scheduler.pick(here.now), None);
    here.now += Cycles(40_000);
    assert_eq!(here.scheduler.pick(here.now), None);
    let standing = here.scheduler.remove(ids[0]);
    assert_eq!(here.scheduler.next_release(), None);
    assert_eq!(standing.throttled(), Cycles(40_000));

    let mut there = Worker::new(0, 10_000);
    let (tenant, _) = there.tenant(Claim::default(), &[]);
    let moved = there.scheduler.add_with(tenant, capped(100_000), standing);
    there.scheduler.activate(moved);
    assert_eq!(there.scheduler.pick(there.now), None);
    assert_eq!(there.scheduler.next_release(), Some(there.now + Cycles(50_000)));
    there.now += Cycles(50_000);
    assert_eq!(there.scheduler.pick(there.now), Some(moved));
    assert_eq!(there.scheduler.throttled(moved), Cycles(90_000));
}

#[test]
fn numbers_are_used_again_and_stand_for_none_meanwhile() {
    let mut worker = Worker::new(0, 10_000);
    let (tenant, ids) = worker.tenant(Claim::default(), &[Claim::default(); 2]);
    worker.work(ids[0], 1_000);
    assert!(!worker.scheduler.remove_tenant(tenant), "it has entities");
    assert_eq!(worker.scheduler.remove(ids[0]).used(), Cycles(1_000));
    worker.scheduler.remove(ids[0]);
    worker.scheduler.activate(ids[0]);
    worker.scheduler.charge(ids[0], Cycles(5));
    worker.scheduler.set_claim(ids[0], weight(7));
    assert!(!worker.scheduler.hand_off(ids[0], worker.now));
    assert_eq!(worker.scheduler.tenant_used(tenant), Cycles(1_000), "it keeps what was charged to it");
    assert_eq!(worker.scheduler.promised(ids[1]), 1.0);

    let again = worker.scheduler.add(tenant, Claim::default());
    assert_eq!(again, ids[0]);
    assert_eq!(worker.used(again), 0);
    assert_eq!(worker.scheduler.promised(again), 0.5);
    assert_ne!(worker.scheduler.add(tenant, Claim::default()), again);

    // The last of a tenant that waits: none is left to be picked.
    let (other, lonely) = worker.tenant(Claim::default(), &[Claim::default()]);
    worker.scheduler.remove(lonely[0]);
    assert_eq!(worker.scheduler.pick(worker.now), Some(ids[1]));
    assert_eq!(worker.scheduler.pick(worker.now), None);
    assert!(worker.scheduler.remove_tenant(other));
    assert!(!worker.scheduler.remove_tenant(other));
    let nowhere = worker.scheduler.add(other, Claim::default());
    worker.scheduler.activate(nowhere);
    assert_eq!(worker.scheduler.pick(worker.now), None);
    assert_eq!(worker.scheduler.add_tenant(Claim::default()), other);
}

#[test]
fn pausing_takes_out_what_waits_or_is_throttled() {
    let mut worker = Worker::new(0, 10_000);
    let (_, ids) = worker.tenant(capped(500_000), &[Claim::default(), capped(100_000)]);
    worker.scheduler.deactivate(ids[0]);
    assert_eq!(worker.turn(|_| 1_000), Some(ids[1]));
    assert!(worker.scheduler.is_idle(worker.now));
    worker.scheduler.deactivate(ids[1]);
    assert_eq!(worker.scheduler.next_release(), None);
    worker.scheduler.activate(ids[0]);
    // The tenant is throttled with one that waits.
    assert!(worker.scheduler.is_idle(worker.now));
    assert!(worker.scheduler.next_release().is_some());
    worker.scheduler.deactivate(ids[0]);
    assert_eq!(worker.scheduler.next_release(), None);
    worker.now += Cycles(1_000_000);
    assert_eq!(worker.scheduler.pick(worker.now), None);
}
