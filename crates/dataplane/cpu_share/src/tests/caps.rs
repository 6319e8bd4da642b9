//! Caps hold from above and from below, and what they withhold goes to the others.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_cap_is_exact_on_an_idle_worker(
        millionths in 1_000u32..=1_000_000,
        longest in 1u64..100_000,
        of_tenant in any::<bool>(),
        greedy in any::<bool>(),
        seed in 1u64..,
    ) {
        let mut worker = Worker::new(1_000, 1_000_000);
        let mut random = Random(seed);
        let (own, claim) = if of_tenant { (capped(millionths), Claim::default()) } else { (Claim::default(), capped(millionths)) };
        let (tenant, ids) = worker.tenant(own, &[claim]);
        let (begin, cap) = (worker.now, f64::from(millionths) / 1e6);
        for _ in 0..3_000 {
            worker.turn(|_| if greedy { 100_000 } else { 1 + random.below(longest) });
            let most = (worker.now - begin).0 as f64 * cap + if greedy { 100_000.0 } else { longest as f64 };
            prop_assert!(worker.used(ids[0]) as f64 <= most + 1.0);
        }
        let least = (worker.now - begin).0 as f64 * cap - if greedy { 100_000.0 } else { longest as f64 };
        prop_assert!(worker.used(ids[0]) as f64 >= least - 1.0, "it wanted all the time");
        worker.scheduler.is_idle(worker.now);
        let throttled = (worker.now - begin).0 - worker.used(ids[0]);
        prop_assert_eq!(worker.scheduler.throttled(ids[0]).0, throttled);
        let of_tenant = if of_tenant { throttled } else { 0 };
        prop_assert_eq!(worker.scheduler.tenant_throttled(tenant).0, of_tenant);
    }

    #[test]
    fn in_any_span_at_most_the_cap_of_it_and_of_the_period_and_a_turn(
        millionths in 1_000u32..=900_000,
        steps in prop::collection::vec((0u64..5_000, 0u64..200_000, any::<bool>()), 1..300),
    ) {
        const PERIOD: u64 = 100_000;
        let mut worker = Worker::new(1_000, PERIOD);
        let (_, ids) = worker.tenant(Claim::default(), &[capped(millionths)]);
        let cap = f64::from(millionths) / 1e6;
        // Time and use at the ends of all turns, and at their beginnings.
        let mut marks = vec![(worker.now.0, 0u64)];
        for (turn, pause, received) in steps {
            worker.now += Cycles(pause);
            if received {
                // On its behalf while it does not run, as receiving is.
                marks.push((worker.now.0, worker.used(ids[0])));
                worker.work(ids[0], 100);
            }
            if worker.scheduler.pick(worker.now).is_some() {
                marks.push((worker.now.0, worker.used(ids[0])));
                worker.work(ids[0], turn);
                worker.scheduler.activate(ids[0]);
                // Whatever the span that ends here.
                let turn = 5_000.0 + 100.0;
                for (from, used) in &marks {
                    let most = (worker.now.0 - from + PERIOD) as f64 * cap + turn;
                    prop_assert!((worker.used(ids[0]) - used) as f64 <= most + 1.0);
                }
            }
        }
    }

    #[test]
    fn what_caps_withhold_goes_to_the_others(
        tenants in prop::collection::vec((claim(), prop::collection::vec(claim(), 1..4)), 1..4),
        seed in 1u64..,
    ) {
        let mut worker = Worker::new(2_000, 1_000_000);
        let mut random = Random(seed);
        let members: Vec<_> = tenants.iter().map(|(own, claims)| worker.tenant(*own, claims)).collect();
        let begin = worker.now;
        while (worker.now - begin).0 < 40_000_000 {
            worker.turn(|_| 500 + random.below(2_000));
        }
        let all = (worker.now - begin).0 as f64;
        for id in members.iter().flat_map(|(_, ids)| ids) {
            let (got, promised) = (worker.used(*id) as f64 / all, worker.scheduler.promised(*id));
            prop_assert!((got - promised).abs() < 0.005, "{id:?} got {got}, was promised {promised}");
        }
    }
}

fn claim() -> impl Strategy<Value = Claim> {
    (1u32..=500, prop::option::of(20_000u32..=1_000_000))
        .prop_map(|(w, cap)| Claim { cap: cap.and_then(Cap::from_millionths), ..weight(w) })
}

#[test]
fn twenty_percent_beside_a_greedy_one() {
    let mut worker = Worker::new(10_000, 26_000_000);
    let (_, ids) = worker.tenant(Claim::default(), &[capped(200_000), Claim::default()]);
    let begin = worker.now;
    for _ in 0..100_000 {
        worker.turn(|id| if id == ids[0] { 3_000 } else { 100_000 });
    }
    let share = worker.used(ids[0]) as f64 / (worker.now - begin).0 as f64;
    assert!((0.199..=0.201).contains(&share), "{share}");
    assert_eq!(worker.scheduler.throttled(ids[1]), Cycles(0));
}

#[test]
fn what_is_overdrawn_is_paid_back_before_the_next_turn() {
    let mut worker = Worker::new(0, 10_000);
    let (_, ids) = worker.tenant(Claim::default(), &[capped(200_000)]);
    let begin = worker.now;
    worker.turn(|_| 100_000);
    assert!(!worker.scheduler.hand_off(ids[0], worker.now), "nor does it go on");
    assert_eq!(worker.scheduler.pick(worker.now), None);
    assert!(worker.scheduler.is_idle(worker.now));
    assert_eq!(worker.scheduler.next_release(), Some(begin + Cycles(500_000)));
    assert!(worker.scheduler.is_idle(begin + Cycles(499_999)));
    assert!(!worker.scheduler.is_idle(begin + Cycles(500_000)));
    assert_eq!(worker.scheduler.throttled(ids[0]), Cycles(400_000));
    assert_eq!(worker.scheduler.pick(begin + Cycles(600_000)), Some(ids[0]));
    // The period gave it 2,000 in advance; 8,000 more take 40,000.
    worker.now = begin + Cycles(600_000);
    worker.work(ids[0], 10_000);
    worker.scheduler.activate(ids[0]);
    assert_eq!(worker.scheduler.pick(worker.now), None);
    assert_eq!(worker.scheduler.pick(begin + Cycles(700_000)), Some(ids[0]));
    assert_eq!(worker.scheduler.throttled(ids[0]), Cycles(430_000), "being late is not its cap's doing");
}

#[test]
fn what_is_charged_after_a_long_sleep_counts_though_the_bucket_is_full() {
    let mut worker = Worker::new(0, 10_000);
    let (_, ids) = worker.tenant(Claim::default(), &[capped(100_000)]);
    worker.now += Cycles(1 << 40);
    let begin = worker.now;
    // Received for it before the cap was looked at: all that it had saved up, but for what the time itself
    // gives.
    worker.work(ids[0], 1_000);
    assert_eq!(worker.turn(|_| 1_000), Some(ids[0]));
    assert_eq!(worker.scheduler.pick(worker.now), None);
    assert_eq!(worker.scheduler.next_release(), Some(begin + Cycles(10_000)));
}

#[test]
fn a_capped_sibling_that_waits_does_not_stand_in_the_way() {
    let mut worker = Worker::new(0, 10_000);
    let (_, ids) = worker.tenant(Claim::default(), &[capped(100_000), Claim::default()]);
    let (_, others) = worker.tenant(capped(100_000), &[Claim::default()]);
    // The entity and the tenant with the smallest virtual runtime have overdrawn their caps.
    assert_eq!(worker.turn(|_| 3_000), Some(ids[0]));
    assert_eq!(worker.turn(|_| 5_000), Some(others[0]));
    worker.work(ids[1], 6_000);
    worker.scheduler.deactivate(ids[1]);
    assert!(worker.scheduler.hand_off(ids[1], worker.now));
}

#[test]
fn a_tenants_cap_holds_for_hand_offs_to_any_of_its_entities() {
    let mut worker = Worker::new(1_000_000, 10_000);
    let (_, ids) = worker.tenant(capped(100_000), &[Claim::default(); 2]);
    worker.scheduler.deactivate(ids[1]);
    assert_eq!(worker.turn(|_| 1_000), Some(ids[0]));
    assert!(!worker.scheduler.hand_off(ids[1], worker.now));
    assert!(worker.scheduler.hand_off(ids[1], worker.now + Cycles(9_000)));
}

#[test]
fn a_cap_may_be_lifted_and_laid_on() {
    let mut worker = Worker::new(0, 10_000);
    let (tenant, ids) = worker.tenant(Claim::default(), &[capped(100_000)]);
    worker.turn(|_| 10_000);
    assert_eq!(worker.scheduler.pick(worker.now), None);
    // 90,000 to wait, for 9,000 cycles: at twice the cap half of it.
    assert_eq!(worker.scheduler.next_release(), Some(worker.now + Cycles(90_000)));
    worker.scheduler.set_claim(ids[0], capped(200_000));
    assert_eq!(worker.scheduler.pick(worker.now), None);
    assert_eq!(worker.scheduler.next_release(), Some(worker.now + Cycles(45_000)));
    worker.scheduler.set_claim(ids[0], Claim::default());
    assert_eq!(worker.turn(|_| 1_000), Some(ids[0]));
    assert!(!worker.scheduler.is_idle(worker.now));
    // On the tenant: what it used before the cap is not held against it.
    worker.scheduler.set_tenant_claim(tenant, capped(500_000));
    assert_eq!(worker.turn(|_| 1_000), Some(ids[0]));
    assert_eq!(worker.turn(|_| 1_000), None);
    worker.scheduler.set_tenant_claim(tenant, Claim::default());
    assert_eq!(worker.turn(|_| 1_000), Some(ids[0]));
}

#[test]
fn what_is_promised_sums_up() {
    let mut worker = Worker::new(0, 10_000);
    let (_, a) = worker.tenant(Claim::default(), &[capped(100_000), weight(300), weight(100)]);
    let (_, b) = worker.tenant(weight(300), &[capped(200_000)]);
    // The second may have three quarters and has use for a fifth; of the rest, a tenth is all the first one
    // may have.
    let promised = |id| worker.scheduler.promised(id);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(promised(b[0]), 0.2));
    assert!(near(promised(a[0]), 0.1));
    assert!(near(promised(a[1]), 0.7 * 0.75));
    assert!(near(promised(a[2]), 0.7 * 0.25));

    // With other claims, and no cap in the first tenant.
    worker.scheduler.set_claim(a[0], weight(300));
    worker.scheduler.set_claim(a[1], weight(400));
    let promised = |id| worker.scheduler.promised(id);
    assert!(near(promised(a[0]), 0.8 * 0.375));
    assert!(near(promised(a[1]), 0.8 * 0.5));
}
