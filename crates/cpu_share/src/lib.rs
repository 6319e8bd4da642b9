//! Who runs next on a worker: weighted fairness in cycles, as a state machine without a clock of its own.
//!
//! The life of an entity (an instance, as the scheduler sees it):
//! 1. [`Scheduler::add`] gives it a number and a weight.
//! 2. [`Scheduler::activate`] says that it has work. It joins at the present virtual time, or later when it is in
//!    debt from before.
//! 3. [`Scheduler::pick`] takes the entity that has had least for its weight; [`Scheduler::hand_off`] tells whether
//!    one that packets were just handed to may run before it.
//! 4. [`Scheduler::charge`] adds what it used, whenever and by whomever it was used on its behalf.
//!
//! Virtual time counts cycles at the default weight: an entity of twice that weight ages half as fast. Debts carry
//! over: nothing is forgiven while an entity sleeps.
//!
//! Limits: one worker's entities; picking costs the logarithm of how many have work.

use clock::Cycles;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of an entity, given by [`Scheduler::add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u32);

/// An entity's claim on the worker, relative to the others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(u32);

impl Weight {
    /// The weight of everybody who is given none.
    pub const DEFAULT: Weight = Weight(100);

    /// `None` unless it is in 1 to 10,000.
    pub const fn new(weight: u32) -> Option<Weight> {
        if weight >= 1 && weight <= 10_000 { Some(Weight(weight)) } else { None }
    }
}

#[derive(Clone, Debug)]
struct Entity {
    /// Virtual time: cycles used, divided by weight.
    age: u64,
    weight: Weight,
    active: bool,
    used: Cycles,
}

/// The scheduler of one worker.
#[derive(Clone, Debug)]
pub struct Scheduler {
    entities: Vec<Entity>,
    /// Those that have work, youngest first. An entity's age changes only while it is outside, or is put right when
    /// it is taken out.
    ready: BinaryHeap<Reverse<(u64, EntityId)>>,
    /// Age of whoever ran last: the present, in virtual time.
    present: u64,
    /// How far ahead of the youngest one a preferred entity may be.
    slack: u64,
}

/// Virtual time counts parts of a cycle, or turns of a few cycles would round to nothing at large weights. Ages last
/// for three years of an entity's own CPU time.
const PARTS: u32 = 6;

/// How much older cycles make an entity: at the default weight, by one cycle for each.
#[inline]
fn aged(cycles: Cycles, weight: Weight) -> u64 {
    if weight == Weight::DEFAULT {
        return cycles.0.saturating_mul(1 << PARTS);
    }
    let parts = (u128::from(cycles.0) * u128::from(Weight::DEFAULT.0)) << PARTS;
    u64::try_from(parts / u128::from(weight.0)).unwrap_or(u64::MAX)
}

impl Scheduler {
    /// A scheduler that lets hand-offs jump the queue by up to `slack` cycles at default weight.
    pub fn new(slack: Cycles) -> Scheduler {
        Scheduler {
            entities: Vec::new(),
            ready: BinaryHeap::new(),
            present: 0,
            slack: aged(slack, Weight::DEFAULT),
        }
    }

    /// Takes an entity in, at the present virtual time.
    pub fn add(&mut self, weight: Weight) -> EntityId {
        let id = EntityId(u32::try_from(self.entities.len()).unwrap_or(u32::MAX));
        self.entities.push(Entity { age: self.present, weight, active: false, used: Cycles(0) });
        id
    }

    /// The entity has work. Without effect when it had.
    #[inline]
    pub fn activate(&mut self, id: EntityId) {
        let entity = &mut self.entities[id.0 as usize];
        if !entity.active {
            entity.active = true;
            entity.age = entity.age.max(self.present);
            self.ready.push(Reverse((entity.age, id)));
        }
    }

    /// Adds what was used on an entity's behalf.
    #[inline]
    pub fn charge(&mut self, id: EntityId, cycles: Cycles) {
        let entity = &mut self.entities[id.0 as usize];
        entity.used += cycles;
        entity.age = entity.age.saturating_add(aged(cycles, entity.weight));
    }

    /// All that was ever charged to an entity.
    pub fn used(&self, id: EntityId) -> Cycles {
        self.entities[id.0 as usize].used
    }

    /// Nobody has work.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty()
    }

    /// Takes out the entity with work that has had least for its weight. It has no work any more until it is
    /// activated again.
    #[inline]
    pub fn pick(&mut self) -> Option<EntityId> {
        while let Some(Reverse((age, id))) = self.ready.pop() {
            let entity = &mut self.entities[id.0 as usize];
            if entity.age > age {
                // Charged while it waited: back to where it now belongs.
                self.ready.push(Reverse((entity.age, id)));
                continue;
            }
            entity.active = false;
            self.present = self.present.max(entity.age);
            return Some(id);
        }
        None
    }

    /// Lets an entity that packets were just handed to run before those that wait, if it is entitled to: not older
    /// than the youngest of them by more than the slack. False when it has to wait like everybody else.
    #[inline]
    pub fn hand_off(&mut self, id: EntityId) -> bool {
        let youngest = self.ready.peek().map_or(self.present, |Reverse((age, _))| *age);
        let entity = &mut self.entities[id.0 as usize];
        let entitled = entity.age <= youngest.saturating_add(self.slack);
        if entitled {
            entity.age = entity.age.max(self.present);
        }
        entitled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs entities that always have work, each taking its own number of cycles a turn.
    fn saturate(weights: &[u32], cost: &[u64], turns: usize) -> Vec<u64> {
        let mut scheduler = Scheduler::new(Cycles(0));
        let ids: Vec<_> =
            weights.iter().map(|w| scheduler.add(Weight::new(*w).expect("a legal weight"))).collect();
        ids.iter().for_each(|id| scheduler.activate(*id));
        for _ in 0..turns {
            let id = scheduler.pick().expect("all have work");
            scheduler.charge(id, Cycles(cost[id.0 as usize]));
            scheduler.activate(id);
        }
        ids.iter().map(|id| scheduler.used(*id).0).collect()
    }

    proptest! {
        #[test]
        fn shares_follow_weights_whatever_a_turn_costs(
            entities in prop::collection::vec((1u32..=100, 1u64..10_000), 2..8),
        ) {
            let (weights, cost): (Vec<u32>, Vec<u64>) = entities.into_iter().unzip();
            let used = saturate(&weights, &cost, 20_000);
            // Nobody is behind another by more than one turn of each, in virtual time (lag is bounded), beside what
            // rounding each turn to a part of a cycle adds up to.
            let rounding = 20_000.0 / f64::from(1u32 << PARTS);
            let age: Vec<f64> = used.iter().zip(&weights).map(|(u, w)| *u as f64 * 100.0 / f64::from(*w)).collect();
            let turn: Vec<f64> = cost.iter().zip(&weights).map(|(c, w)| *c as f64 * 100.0 / f64::from(*w)).collect();
            let longest = turn.iter().copied().fold(0.0, f64::max);
            for a in &age {
                for b in &age {
                    prop_assert!((a - b).abs() <= 2.0 * longest + rounding, "{age:?}");
                }
            }
        }

        #[test]
        fn whoever_has_work_is_picked_exactly_once_per_activation(
            steps in prop::collection::vec((0u32..6, any::<bool>(), 0u64..1000), 1..300),
        ) {
            let mut scheduler = Scheduler::new(Cycles(100));
            let ids: Vec<_> = (0..6).map(|_| scheduler.add(Weight::DEFAULT)).collect();
            let mut active = [false; 6];
            for (n, pick, cycles) in steps {
                if pick {
                    match scheduler.pick() {
                        Some(id) => {
                            prop_assert!(std::mem::take(&mut active[id.0 as usize]));
                            scheduler.charge(id, Cycles(cycles));
                        }
                        None => prop_assert!(active.iter().all(|a| !a)),
                    }
                } else {
                    scheduler.charge(ids[n as usize], Cycles(cycles));
                    scheduler.activate(ids[n as usize]);
                    active[n as usize] = true;
                }
                prop_assert_eq!(scheduler.is_idle(), active.iter().all(|a| !a));
            }
        }
    }

    #[test]
    fn debts_outlast_sleep_and_sleep_earns_nothing() {
        let mut scheduler = Scheduler::new(Cycles(0));
        let (greedy, modest) = (scheduler.add(Weight::DEFAULT), scheduler.add(Weight::DEFAULT));
        scheduler.activate(greedy);
        assert_eq!(scheduler.pick(), Some(greedy));
        scheduler.charge(greedy, Cycles(100_000));
        let mut turns = 0;
        scheduler.activate(greedy);
        scheduler.activate(modest);
        while scheduler.pick() == Some(modest) {
            scheduler.charge(modest, Cycles(1_000));
            scheduler.activate(modest);
            turns += 1;
        }
        assert_eq!(turns, 100, "the debt is paid back in full, and not more");
    }

    #[test]
    fn a_hand_off_may_jump_the_queue_within_the_slack() {
        let mut scheduler = Scheduler::new(Cycles(500));
        let (a, b) = (scheduler.add(Weight::DEFAULT), scheduler.add(Weight::DEFAULT));
        scheduler.activate(a);
        scheduler.charge(b, Cycles(500));
        assert!(scheduler.hand_off(b));
        scheduler.charge(b, Cycles(1));
        assert!(!scheduler.hand_off(b));
    }
}
