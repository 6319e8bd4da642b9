//! Shares follow weights in both levels; lag is bounded; debts are paid back.

use super::*;
use proptest::prelude::*;

/// What an entity used, at default weight: the exact model of a virtual runtime.
fn vruntime(used: u64, claim: Claim) -> f64 {
    used as f64 * 100.0 / f64::from(claim.weight.get())
}

/// Of any two, by how much more one is ahead of the other, in virtual runtime, than it may be: the quantum
/// and a turn of its own, and a turn of the other.
fn excess(used: &[u64], claims: &[Claim], longest: &[u64], quantum: u64) -> f64 {
    let mut excess = f64::MIN;
    for (n, claim) in claims.iter().enumerate() {
        for (m, other) in claims.iter().enumerate().filter(|(m, _)| *m != n) {
            let ahead = vruntime(used[n], *claim) - vruntime(used[m], *other);
            excess =
                excess.max(ahead - vruntime(quantum + longest[n], *claim) - vruntime(longest[m], *other));
        }
    }
    excess
}

fn claims(n: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Claim>> {
    prop::collection::vec((1u32..=10_000).prop_map(weight), n)
}

proptest! {
    #[test]
    fn no_entity_lags_in_either_level(
        tenants in prop::collection::vec(((1u32..=10_000).prop_map(weight), claims(1..5)), 1..5),
        costs in prop::collection::vec(1u64..100_000, 20),
        slack in 0u64..100_000,
        longer in 0u64..200_000,
        seed in 1u64..,
    ) {
        let quantum = slack + longer;
        let mut worker = Worker::with_quantum(slack, quantum, 10_000_000);
        let mut random = Random(seed);
        let members: Vec<_> = tenants.iter().map(|(own, claims)| worker.tenant(*own, claims)).collect();
        let cost = |id: EntityId| costs[id.0 as usize % costs.len()];
        for turn in 0..5_000 {
            let mut running = worker.scheduler.pick(worker.now).expect("all have work");
            // It goes on, or hands packets to others, as long as it may.
            loop {
                worker.work(running, random.below(cost(running)) + 1);
                worker.scheduler.activate(running);
                let (_, ids) = &members[random.below(members.len() as u64) as usize];
                let next = ids[random.below(ids.len() as u64) as usize];
                if random.below(4) == 0 || !worker.scheduler.hand_off(next, worker.now) {
                    break;
                }
                worker.scheduler.deactivate(next);
                running = next;
            }
            if turn % 100 != 0 {
                continue;
            }
            for ((_, ids), (_, claims)) in members.iter().zip(&tenants) {
                let used: Vec<_> = ids.iter().map(|id| worker.used(*id)).collect();
                let costs: Vec<_> = ids.iter().map(|id| cost(*id)).collect();
                let excess = excess(&used, claims, &costs, quantum);
                prop_assert!(excess <= 1.0, "an entity is further ahead than it may be, by {excess}");
            }
            let used: Vec<_> = members.iter().map(|(id, _)| worker.scheduler.tenant_used(*id).0).collect();
            let own: Vec<_> = tenants.iter().map(|(own, _)| *own).collect();
            let longest: Vec<_> =
                members.iter().map(|(_, ids)| ids.iter().map(|id| cost(*id)).max().unwrap_or(0)).collect();
            let excess = excess(&used, &own, &longest, quantum);
            prop_assert!(excess <= 1.0, "a tenant is further ahead than it may be, by {excess}");
        }
    }

    #[test]
    fn shares_are_exact_whatever_turns_cost(
        tenants in prop::collection::vec(((1u32..=50).prop_map(weight), prop::collection::vec((1u32..=50).prop_map(weight), 1..4)), 1..4),
        greedy in 0u32..4,
        seed in 1u64..,
    ) {
        let mut worker = Worker::new(5_000, 10_000_000);
        let mut random = Random(seed);
        let members: Vec<_> = tenants.iter().map(|(own, claims)| worker.tenant(*own, claims)).collect();
        let begin = worker.now;
        // Until even the least has had so many turns that one more or less is nothing.
        let least = members.iter().flat_map(|(_, ids)| ids).map(|id| worker.scheduler.promised(*id)).fold(1.0, f64::min);
        while ((worker.now - begin).0 as f64) < 400.0 * 100_000.0 / least {
            worker.turn(|id| if id.0 == greedy { 100_000 } else { 10_000 + random.below(20_000) });
        }
        let all = (worker.now - begin).0 as f64;
        for id in members.iter().flat_map(|(_, ids)| ids) {
            let (got, promised) = (worker.used(*id) as f64 / all, worker.scheduler.promised(*id));
            prop_assert!((got / promised - 1.0).abs() < 0.01, "{id:?} got {got}, was promised {promised}");
        }
    }

    #[test]
    fn no_entity_starves(
        weights in prop::collection::vec(1u32..=10_000, 2..10),
        costs in prop::collection::vec(1u64..50_000, 10),
    ) {
        // Between two turns of one, another gets no more than both weights say, and a turn.
        let mut worker = Worker::new(0, 10_000_000);
        let claims: Vec<_> = weights.iter().map(|w| weight(*w)).collect();
        let (_, ids) = worker.tenant(Claim::default(), &claims);
        let mut last: Vec<Vec<u64>> = vec![vec![0; ids.len()]; ids.len()];
        for _ in 0..2_000 {
            let number = |id: EntityId| ids.iter().position(|other| *other == id).expect("one of these");
            let me = number(worker.turn(|id| costs[number(id)]).expect("all have work"));
            for (other, claim) in claims.iter().enumerate().filter(|(other, _)| *other != me) {
                let meanwhile = worker.used(ids[other]) - last[me][other];
                let bound = 2.0 * (vruntime(costs[me], claims[me]) + vruntime(costs[other], *claim));
                prop_assert!(vruntime(meanwhile, *claim) <= bound + 1.0, "{other} got {meanwhile} before {me}");
            }
            last[me] = ids.iter().map(|id| worker.used(*id)).collect();
        }
    }
}

#[test]
fn a_debt_is_paid_back_in_full_and_not_more() {
    let mut worker = Worker::new(0, 10_000_000);
    let (_, ids) = worker.tenant(Claim::default(), &[Claim::default(); 2]);
    let (greedy, modest) = (ids[0], ids[1]);
    worker.scheduler.deactivate(modest);
    assert_eq!(worker.turn(|_| 100_000), Some(greedy));
    // Neither forgets while one sleeps.
    worker.scheduler.deactivate(greedy);
    worker.now += Cycles(1 << 40);
    worker.scheduler.activate(greedy);
    worker.scheduler.activate(modest);
    let turns = std::iter::from_fn(|| worker.turn(|_| 1_000)).take_while(|id| *id == modest).count();
    assert_eq!(turns, 100);
}

#[test]
fn tenants_pay_their_debts_too() {
    let mut worker = Worker::new(0, 10_000_000);
    let (_, greedy) = worker.tenant(weight(200), &[Claim::default(); 2]);
    assert_eq!(worker.turn(|_| 100_000), Some(greedy[0]));
    let (_, modest) = worker.tenant(Claim::default(), &[Claim::default()]);
    // It owes 50,000 at its weight, and an entity of it that did not run does not bear its sibling's debt
    // alone.
    let turns = std::iter::from_fn(|| worker.turn(|_| 1_000)).take_while(|id| *id == modest[0]).count();
    assert_eq!(turns, 50);
    assert_eq!(worker.used(greedy[1]), 1_000, "the one that has had nothing comes first");
}

#[test]
fn sleep_earns_nothing_and_idle_shares_cost_nothing() {
    for by_hand_off in [false, true] {
        let mut worker = Worker::new(0, 10_000_000);
        let (_, ids) = worker.tenant(Claim::default(), &[Claim::default(); 2]);
        worker.scheduler.deactivate(ids[1]);
        let (_, other) = worker.tenant(Claim::default(), &[Claim::default()]);
        worker.scheduler.deactivate(other[0]);
        // One has the worker to itself for long, by being picked or by going on.
        assert_eq!(worker.turn(|_| 1_000), Some(ids[0]));
        for _ in 0..10_000 {
            if by_hand_off {
                worker.scheduler.deactivate(ids[0]);
                assert!(worker.scheduler.hand_off(ids[0], worker.now));
                worker.work(ids[0], 1_000);
            } else {
                assert_eq!(worker.turn(|_| 1_000), Some(ids[0]));
            }
        }
        worker.scheduler.activate(ids[0]);
        worker.scheduler.activate(ids[1]);
        worker.scheduler.activate(other[0]);
        let before = worker.used(ids[0]);
        for _ in 0..400 {
            worker.turn(|_| 1_000);
        }
        let got = [worker.used(ids[0]) - before, worker.used(ids[1]), worker.used(other[0])];
        assert!((99_000..=101_000).contains(&got[0]), "{got:?}");
        assert!((99_000..=101_000).contains(&got[1]), "{got:?}");
        assert!((199_000..=201_000).contains(&got[2]), "{got:?}");
    }
}

#[test]
fn a_hand_off_may_jump_the_queue_within_the_slack() {
    let mut worker = Worker::new(500, 10_000_000);
    let (_, ids) = worker.tenant(Claim::default(), &[Claim::default(), weight(200)]);
    let (_, other) = worker.tenant(weight(50), &[Claim::default()]);
    worker.scheduler.deactivate(other[0]);
    worker.scheduler.deactivate(ids[1]);
    worker.work(ids[1], 500);
    assert!(worker.scheduler.hand_off(ids[1], worker.now), "500 cycles ahead, whatever it weighs");
    worker.work(ids[1], 1);
    assert!(!worker.scheduler.hand_off(ids[1], worker.now));

    // Of another tenant: its virtual runtime counts as well. It joins at 500, where the first tenant was when
    // its entity might run, which is at 501 now, and its own grows twice as fast.
    worker.scheduler.deactivate(ids[0]);
    worker.scheduler.activate(ids[1]);
    assert!(worker.scheduler.hand_off(other[0], worker.now));
    worker.work(other[0], 500);
    assert!(worker.scheduler.hand_off(other[0], worker.now), "at 1,500, 500 cycles from 500");
    worker.work(other[0], 1);
    assert!(!worker.scheduler.hand_off(other[0], worker.now), "at 1,502");
}

#[test]
fn turns_are_long_until_an_entity_without_debt_gets_work() {
    let mut worker = Worker::with_quantum(500, 5_000, 10_000_000);
    let (_, ids) = worker.tenant(Claim::default(), &[Claim::default(); 3]);
    worker.scheduler.deactivate(ids[2]);
    // At first all that wait have just got work.
    for _ in 0..2 {
        let (id, _) = worker.long_turn(100_000);
        worker.scheduler.activate(id);
    }
    for _ in 0..10 {
        let (id, took) = worker.long_turn(100_000);
        assert!((5_000..=5_600 + 5_000).contains(&took), "{took}");
        worker.scheduler.activate(id);
    }
    // One is in the midst of its turn when a third gets work.
    let (running, _) = worker.long_turn(1_000);
    worker.scheduler.activate(ids[2]);
    let before = worker.used(running);
    while worker.scheduler.hand_off(running, worker.now) {
        worker.work(running, 100);
    }
    assert!(worker.used(running) - before <= 5_000 + 600, "it does not get further ahead");
    worker.scheduler.activate(running);
    assert_eq!(worker.long_turn(100).0, ids[2], "the one that comes first");
    // With nothing left to do it delays no other; with more, it owes something.
    worker.scheduler.activate(ids[2]);
    let (_, took) = worker.long_turn(100_000);
    assert!(took >= 5_000, "{took}");
}

#[test]
fn a_thousand_have_equal_shares() {
    let mut worker = Worker::new(1_000, 10_000_000);
    let (_, ids) = worker.tenant(Claim::default(), &[Claim::default(); 1_000]);
    let mut random = Random(7);
    for _ in 0..200_000 {
        worker.turn(|_| 500 + random.below(1_000));
    }
    let used: Vec<_> = ids.iter().map(|id| worker.used(*id)).collect();
    let (least, most) = (used.iter().min().expect("some"), used.iter().max().expect("some"));
    assert!(most - least <= 3_000, "{least} to {most}");
}

#[test]
fn turns_are_as_long_for_the_light_as_for_the_heavy() {
    // In the turns of the light, caches are to become warm too.
    for weights in [[1, 128], [100, 6_400], [10_000, 10_000]] {
        let mut worker = Worker::new(10_000, 10_000_000);
        worker.tenant(Claim::default(), &weights.map(weight));
        for turn in 0..1_000 {
            let (id, took) = worker.long_turn(u64::MAX);
            worker.scheduler.activate(id);
            assert!(turn == 0 || took >= 10_000, "{weights:?}: a turn of {took} cycles");
        }
    }
}

#[test]
fn turns_are_short_where_many_wait_for_theirs() {
    for (others, longest) in [(FEW as usize, 5_000), (FEW as usize + 1, 500)] {
        let mut worker = Worker::with_quantum(500, 5_000, 10_000_000);
        worker.tenant(Claim::default(), &vec![Claim::default(); others + 1]);
        for turn in 0..10 * others {
            let (id, took) = worker.long_turn(u64::MAX);
            worker.scheduler.activate(id);
            // At first all that wait have just got work. One that is behind may use what it is behind as
            // well.
            let most = longest * 2 + 300;
            assert!(turn <= 2 * others || (longest..=most).contains(&took), "{took} beside {others}");
        }
    }
}
