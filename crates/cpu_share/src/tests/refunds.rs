//! What the worker itself did not get is charged to nobody.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_refund_undoes_a_charge_exactly(
        w in 1u32..=10_000,
        cap in 1u32..=1_000_000,
        charges in prop::collection::vec((0u64..1_000_000, 0u64..1_000_000), 1..50),
        waits in any::<bool>(),
    ) {
        let claim = Claim { cap: Cap::from_millionths(cap), ..weight(w) };
        let mut twins: [_; 2] = std::array::from_fn(|_| {
            let mut worker = Worker::new(0, 100_000);
            let (tenant, ids) = worker.tenant(claim, &[claim]);
            if !waits {
                worker.scheduler.deactivate(ids[0]);
            }
            (worker.scheduler, tenant, ids[0])
        });
        for (kept, refunded) in charges {
            let [(one, _, id), (other, ..)] = &mut twins;
            one.charge(*id, Cycles(kept));
            other.charge(*id, Cycles(kept + refunded));
            other.refund(*id, Cycles(refunded));
        }
        let [(mut one, tenant, id), (mut other, ..)] = twins;
        prop_assert_eq!(one.used(id), other.used(id));
        prop_assert_eq!(one.tenant_used(tenant), other.tenant_used(tenant));
        prop_assert_eq!(one.tenants[0].share.age, other.tenants[0].share.age);
        prop_assert_eq!(one.remove(id), other.remove(id));
    }

    #[test]
    fn no_refund_gives_more_than_was_charged(
        steps in prop::collection::vec((0u64..10_000, 0u64..10_000), 1..50),
    ) {
        let mut worker = Worker::new(0, 100_000);
        let (tenant, ids) = worker.tenant(Claim::default(), &[Claim::default(); 2]);
        let mut model = 0u64;
        for (charged, refunded) in steps {
            worker.work(ids[0], charged);
            worker.scheduler.refund(ids[0], Cycles(refunded));
            model = (model + charged).saturating_sub(refunded);
            prop_assert_eq!(worker.used(ids[0]), model);
            prop_assert_eq!(worker.scheduler.tenant_used(tenant).0, model);
            prop_assert_eq!(worker.scheduler.entities[0].share.age, i128::from(model) << 32);
        }
    }
}

#[test]
fn who_waits_and_is_refunded_comes_first_again() {
    let mut worker = Worker::new(0, 100_000);
    let (_, ids) = worker.tenant(Claim::default(), &[Claim::default(); 3]);
    let (_, others) = worker.tenant(Claim::default(), &[Claim::default()]);
    worker.work(ids[1], 10);
    worker.work(ids[2], 20);
    worker.work(ids[0], 1_000);
    worker.work(others[0], 500);
    // Everybody's place is put right by their charges, then by the refund.
    assert!(!worker.scheduler.hand_off(ids[0], worker.now));
    worker.scheduler.refund(ids[0], Cycles(1_000));
    assert_eq!(worker.scheduler.pick(worker.now), Some(ids[0]));
}

#[test]
fn a_refund_does_not_reach_behind_a_sleep() {
    let mut worker = Worker::new(0, 100_000);
    let (_, ids) = worker.tenant(Claim::default(), &[Claim::default(); 2]);
    worker.scheduler.deactivate(ids[1]);
    worker.work(ids[1], 5_000);
    for _ in 0..100 {
        worker.turn(|_| 1_000);
    }
    // It comes back at the present, 99,000; what is taken back was over long ago.
    worker.scheduler.activate(ids[1]);
    worker.scheduler.refund(ids[1], Cycles(5_000));
    assert_eq!(worker.used(ids[1]), 0);
    assert_eq!(worker.turn(|_| 1_000), Some(ids[1]));
    assert_eq!(worker.turn(|_| 1_000), Some(ids[0]), "ahead of it by the one turn, not by five more");
    // From here on a refund is worth what it was.
    let age = worker.scheduler.entities[1].share.age;
    worker.work(ids[1], 3_000);
    worker.scheduler.refund(ids[1], Cycles(3_000));
    assert_eq!(worker.scheduler.entities[1].share.age, age);
}

#[test]
fn a_tenant_is_refunded_only_what_was_charged_to_it() {
    let mut here = Worker::new(0, 100_000);
    let (_, ids) = here.tenant(Claim::default(), &[Claim::default()]);
    here.work(ids[0], 100_000);
    let standing = here.scheduler.remove(ids[0]);

    let mut there = Worker::new(0, 100_000);
    let (tenant, _) = there.tenant(capped(100_000), &[]);
    let moved = there.scheduler.add_with(tenant, Claim::default(), standing);
    there.scheduler.activate(moved);
    let begin = there.now;
    assert_eq!(there.turn(|_| 1_000), Some(moved));
    there.scheduler.refund(moved, Cycles(90_000));
    assert_eq!(there.used(moved), 11_000);
    assert_eq!(there.scheduler.tenant_used(tenant), Cycles(0));
    // So the tenant's cap is where it was at the beginning, and not far in credit.
    assert_eq!(there.turn(|_| 1_000), Some(moved));
    assert_eq!(there.scheduler.pick(there.now), None);
    assert_eq!(there.scheduler.next_release(), Some(begin + Cycles(10_000)));
}

#[test]
fn a_refund_releases_who_was_held_back_for_it() {
    for own in [true, false] {
        let mut worker = Worker::new(0, 100_000);
        let (entity, tenant) =
            if own { (capped(100_000), Claim::default()) } else { (Claim::default(), capped(100_000)) };
        let (_, ids) = worker.tenant(tenant, &[entity]);
        let begin = worker.now;
        worker.turn(|_| 10_000);
        assert_eq!(worker.scheduler.pick(worker.now), None);
        assert_eq!(worker.scheduler.next_release(), Some(begin + Cycles(100_000)));
        worker.scheduler.refund(ids[0], Cycles(4_000));
        assert_eq!(worker.scheduler.next_release(), Some(begin + Cycles(60_000)));
        assert_eq!(worker.scheduler.pick(begin + Cycles(59_999)), None);
        assert_eq!(worker.scheduler.pick(begin + Cycles(60_000)), Some(ids[0]));
    }
}
