//! How long a tenant that uses less than its share waits beside one that always has work.

use super::*;

/// What one step of an entity that always has work costs.
const STEP: u64 = 100;
/// What each entity of the chain uses for one batch; the head also polls.
const HOPS: [u64; 3] = [280, 220, 220];
const SETTINGS: SchedulerSettings = SchedulerSettings {
    slack: Cycles(2_000),
    quantum: Cycles(5_000),
    wakeup: Cycles(500),
    period: Cycles(10_000_000),
};

/// A chain of a tenant of weight 300 that gets a batch every so many cycles, beside a tenant of weight 100
/// whose four entities always have work. Arrivals are noticed after each step. Returns for how long each
/// batch waited for the head of the chain.
fn waits(every: u64) -> Vec<u64> {
    let mut worker = Worker::with(SETTINGS);
    let (_, chain) = worker.tenant(weight(300), &[Claim::default(); HOPS.len()]);
    chain.iter().for_each(|id| worker.scheduler.deactivate(*id));
    worker.tenant(weight(100), &[Claim::default(); 4]);
    let mut queues = [const { Vec::new() }; HOPS.len()];
    let (mut next, mut waits) = (worker.now.0 + every, Vec::new());
    let mut running = None;
    while waits.len() < 2_000 {
        while next <= worker.now.0 {
            queues[0].push(next);
            worker.scheduler.activate(chain[0]);
            next += every;
        }
        let id = match running.take() {
            Some(id) => id,
            None => worker.scheduler.pick(worker.now).expect("the light tenant always has work"),
        };
        let Some(hop) = chain.iter().position(|of| *of == id) else {
            worker.work(id, STEP);
            if worker.scheduler.hand_off(id, worker.now) {
                running = Some(id);
            } else {
                worker.scheduler.activate(id);
            }
            continue;
        };
        let arrived: u64 = queues[hop].remove(0);
        if hop == 0 {
            waits.push(worker.now.0 - arrived);
        }
        worker.work(id, HOPS[hop]);
        if !queues[hop].is_empty() {
            worker.scheduler.activate(id);
        }
        if let Some(next_hop) = chain.get(hop + 1) {
            queues[hop + 1].push(arrived);
            if worker.scheduler.hand_off(*next_hop, worker.now) {
                worker.scheduler.deactivate(*next_hop);
                running = Some(*next_hop);
            } else {
                worker.scheduler.activate(*next_hop);
            }
        }
    }
    waits
}

#[test]
fn a_chain_that_uses_less_than_its_share_waits_for_little_more_than_a_wakeup() {
    // Half of the worker, a third of it, a tenth: its share is three quarters.
    let all: u64 = HOPS.iter().sum();
    for every in [all * 2, all * 3, all * 10] {
        let mut waits = waits(every);
        waits.sort_unstable();
        let (p99, most) = (waits[waits.len() / 100 * 99], waits[waits.len() - 1]);
        // One batch may be in the chain when the next one comes.
        let bound = SETTINGS.wakeup.0 + STEP + all;
        assert!(p99 <= bound && most <= 2 * bound, "every {every}: p99 {p99}, at most {most}, of {bound}");
    }
}

#[test]
fn entities_that_always_have_work_keep_long_turns_beside_such_a_chain_between_its_batches() {
    let mut worker = Worker::with(SETTINGS);
    let (_, chain) = worker.tenant(weight(300), &[Claim::default()]);
    worker.scheduler.deactivate(chain[0]);
    worker.tenant(weight(100), &[Claim::default(); 4]);
    for turn in 0..20 {
        let (id, took) = worker.long_turn(u64::MAX);
        worker.scheduler.activate(id);
        assert!(turn < 8 || took >= SETTINGS.quantum.0, "turn {turn}: {took} cycles");
    }
    worker.scheduler.activate(chain[0]);
    let (id, _) = worker.long_turn(100);
    assert_eq!(id, chain[0]);
}
