//! An entity that has work is picked, once.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Activate(usize),
    Deactivate(usize),
    Charge(usize, u64),
    HandOff(usize),
    Replace(usize),
    Pick,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0usize..6;
    prop_oneof![
        4 => who.clone().prop_map(Step::Activate),
        1 => who.clone().prop_map(Step::Deactivate),
        2 => (who.clone(), 0u64..100_000).prop_map(|(who, cycles)| Step::Charge(who, cycles)),
        1 => who.clone().prop_map(Step::HandOff),
        1 => who.prop_map(Step::Replace),
        4 => Just(Step::Pick),
        1 => (0u64..100_000).prop_map(Step::Pass),
    ]
}

/// Six entities of three tenants; the last two have a cap, and so has their tenant.
fn six() -> (Worker, [TenantId; 6], [EntityId; 6]) {
    let mut worker = Worker::new(100, 10_000);
    let tenants =
        [Claim::default(), weight(300), capped(500_000)].map(|own| worker.scheduler.add_tenant(own));
    let tenants = [0, 0, 1, 1, 2, 2].map(|n: usize| tenants[n]);
    let mut ids = [EntityId(0); 6];
    for (n, tenant) in tenants.iter().enumerate() {
        let claim = if n < 4 { Claim::default() } else { capped(300_000) };
        ids[n] = worker.scheduler.add(*tenant, claim);
    }
    (worker, tenants, ids)
}

proptest! {
    #[test]
    fn an_entity_with_work_is_picked_exactly_once_per_activation(
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let (mut worker, tenants, mut ids) = six();
        let mut active = [false; 6];
        for step in steps {
            match step {
                Step::Activate(who) => {
                    worker.scheduler.activate(ids[who]);
                    active[who] = true;
                }
                Step::Deactivate(who) => {
                    worker.scheduler.deactivate(ids[who]);
                    active[who] = false;
                }
                Step::Charge(who, cycles) => worker.work(ids[who], cycles),
                Step::HandOff(who) => {
                    worker.scheduler.hand_off(ids[who], worker.now);
                }
                Step::Replace(who) => {
                    let claim = if who < 4 { Claim::default() } else { capped(300_000) };
                    let standing = worker.scheduler.remove(ids[who]);
                    ids[who] = worker.scheduler.add_with(tenants[who], claim, standing);
                    active[who] = false;
                }
                Step::Pass(cycles) => worker.now += Cycles(cycles),
                Step::Pick => {
                    let idle = worker.scheduler.is_idle(worker.now);
                    let picked = worker.scheduler.pick(worker.now);
                    prop_assert_eq!(picked.is_none(), idle);
                    match picked {
                        Some(id) => {
                            let who = ids.iter().position(|other| *other == id).expect("it exists");
                            prop_assert!(std::mem::take(&mut active[who]), "it has work");
                        }
                        // Work conserving: no entity that its cap does not throttle is left.
                        None => {
                            prop_assert!(active[..4].iter().all(|active| !active));
                            let held = active[4] || active[5];
                            prop_assert_eq!(worker.scheduler.next_release().is_some(), held);
                        }
                    }
                }
            }
        }
        // In the end each one's turn comes, and it comes once.
        while active.contains(&true) {
            match worker.scheduler.pick(worker.now) {
                Some(id) => {
                    let who = ids.iter().position(|other| *other == id).expect("it exists");
                    prop_assert!(std::mem::take(&mut active[who]), "it has work");
                }
                None => worker.now = worker.scheduler.next_release().expect("they are held back"),
            }
        }
        worker.now += Cycles(1 << 40);
        prop_assert_eq!(worker.scheduler.pick(worker.now), None);
    }
}

#[test]
fn turns_that_cost_nothing_delay_no_other() {
    let mut worker = Worker::new(0, 10_000);
    let (_, first) = worker.tenant(Claim::default(), &[Claim::default(); 2]);
    let (_, second) = worker.tenant(Claim::default(), &[Claim::default()]);
    let mut order = Vec::new();
    for _ in 0..4 {
        order.extend(worker.turn(|_| 0));
    }
    assert_eq!(order, [first[0], second[0], first[1], second[0]]);
}

#[test]
fn one_of_a_removed_tenant_never_runs_and_claims_nothing() {
    let mut worker = Worker::new(1_000, 10_000);
    let (removed, _) = worker.tenant(Claim::default(), &[]);
    assert!(worker.scheduler.remove_tenant(removed));
    let stray = worker.scheduler.add(removed, Claim::default());
    let (_, ids) = worker.tenant(Claim::default(), &[Claim::default()]);
    worker.scheduler.activate(stray);
    worker.work(stray, 500);
    assert!(!worker.scheduler.hand_off(stray, worker.now));
    assert_eq!(worker.scheduler.pick(worker.now), Some(ids[0]));
    assert_eq!(worker.scheduler.pick(worker.now), None);
    assert_eq!(worker.used(stray), 500);
    assert_eq!(worker.scheduler.promised(stray), 0.0);
    assert_eq!(worker.scheduler.promised(ids[0]), 1.0);
}
