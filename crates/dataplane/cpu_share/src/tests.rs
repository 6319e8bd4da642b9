//! The scheduler on a simulated clock.

use crate::{Cap, Claim, EntityId, FEW, Scheduler, SchedulerSettings, Standing, TenantId, Weight};
use telemetry::clock::Cycles;

mod activations;
mod caps;
mod fairness;
mod fluid;
mod membership;
mod wakeup;

/// A worker: a scheduler, and the time, which passes as cycles are used.
struct Worker {
    scheduler: Scheduler,
    now: Cycles,
}

impl Worker {
    fn new(slack: u64, period: u64) -> Worker {
        Worker::with_quantum(slack, slack, period)
    }

    fn with_quantum(slack: u64, quantum: u64, period: u64) -> Worker {
        Worker::with(SchedulerSettings {
            slack: Cycles(slack),
            quantum: Cycles(quantum),
            wakeup: Cycles(slack),
            period: Cycles(period),
        })
    }

    fn with(settings: SchedulerSettings) -> Worker {
        // Not zero, as a counter is when a worker starts.
        let now = Cycles(1 << 50);
        Worker { scheduler: Scheduler::new(settings, now), now }
    }

    /// A tenant with entities that have work.
    fn tenant(&mut self, own: Claim, claims: &[Claim]) -> (TenantId, Vec<EntityId>) {
        let tenant = self.scheduler.add_tenant(own);
        let ids: Vec<_> = claims.iter().map(|claim| self.scheduler.add(tenant, *claim)).collect();
        ids.iter().for_each(|id| self.scheduler.activate(*id));
        (tenant, ids)
    }

    /// Uses cycles on an entity's behalf.
    fn work(&mut self, id: EntityId, cycles: u64) {
        self.scheduler.charge(id, Cycles(cycles));
        self.now += Cycles(cycles);
    }

    /// One turn of the entity that is picked, which has work again afterwards. Without one, sleeps until one
    /// is released, and returns `None`.
    fn turn(&mut self, cost: impl FnOnce(EntityId) -> u64) -> Option<EntityId> {
        match self.scheduler.pick(self.now) {
            Some(id) => {
                self.work(id, cost(id));
                self.scheduler.activate(id);
                Some(id)
            }
            None => {
                let release = self.scheduler.next_release().expect("one has work and is throttled");
                assert!(release > self.now, "none is throttled any longer than it has to be");
                self.now = release;
                None
            }
        }
    }

    /// A turn of the entity that is picked, which goes on in steps of 100 cycles for as long as it may, but
    /// no longer than `most`. Tells which it was, and what it used.
    fn long_turn(&mut self, most: u64) -> (EntityId, u64) {
        let id = self.scheduler.pick(self.now).expect("one has work");
        let before = self.used(id);
        loop {
            self.work(id, 100);
            let took = self.used(id) - before;
            if took >= most || !self.scheduler.hand_off(id, self.now) {
                return (id, took);
            }
        }
    }

    fn used(&self, id: EntityId) -> u64 {
        self.scheduler.used(id).0
    }
}

fn weight(weight: u32) -> Claim {
    Claim { weight: Weight::new(weight).expect("a legal weight"), cap: None }
}

/// A claim of default weight, capped in millionths.
fn capped(millionths: u32) -> Claim {
    Claim { cap: Some(Cap::from_millionths(millionths).expect("a legal cap")), ..Claim::default() }
}

/// Random numbers that a seed repeats (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[test]
fn weights_and_caps_are_only_what_they_may_be() {
    assert_eq!(Weight::new(0), None);
    assert_eq!(Weight::new(10_001), None);
    assert_eq!(Weight::new(10_000).map(Weight::get), Some(10_000));
    assert_eq!(Weight::new(100), Some(Weight::default()));
    assert_eq!(Cap::from_millionths(0), None);
    assert_eq!(Cap::from_millionths(1_000_001), None);
    assert_eq!(Cap::from_millionths(200_000).map(Cap::as_share), Some(0.2));
}
