//! What entities get while others of all tenants come and go, against the fluid model that the scheduler
//! stands for: at each moment all that have work are served at once, each by its part of its tenant's part.

use super::*;
use proptest::prelude::*;

/// Most that one turn costs, and how far the running one may get ahead.
const LONGEST: u64 = 20_000;
const SLACK: u64 = 10_000;

struct Member {
    tenant: usize,
    id: EntityId,
    claim: Claim,
    /// Since it last got work: what it was to get, and had used before.
    span: Option<(f64, u64)>,
}

/// A worker, and what its entities would have in the fluid model.
struct Model {
    worker: Worker,
    tenants: Vec<(TenantId, Claim)>,
    members: Vec<Member>,
    changes: u64,
}

impl Model {
    fn weight(claim: Claim) -> f64 {
        f64::from(claim.weight.get())
    }

    /// Lets all that have work have so many cycles together.
    fn flow(&mut self, cycles: u64) {
        let has_work = |tenant: usize| self.members.iter().any(|it| it.tenant == tenant && it.span.is_some());
        let active = self.tenants.iter().enumerate().filter(|(number, _)| has_work(*number));
        let all: f64 = active.map(|(_, (_, claim))| Model::weight(*claim)).sum();
        let mut of_tenants = vec![0.0; self.tenants.len()];
        for it in self.members.iter().filter(|it| it.span.is_some()) {
            of_tenants[it.tenant] += Model::weight(it.claim);
        }
        for it in &mut self.members {
            if let Some((ideal, _)) = &mut it.span {
                let of_tenant = Model::weight(self.tenants[it.tenant].1) / all;
                *ideal += cycles as f64 * of_tenant * Model::weight(it.claim) / of_tenants[it.tenant];
            }
        }
    }

    /// An entity gets work, or has none any more.
    fn switch(&mut self, number: usize) {
        self.changes += 1;
        let id = self.members[number].id;
        let used = self.worker.used(id);
        match self.members[number].span.take() {
            None => {
                self.members[number].span = Some((0.0, used));
                self.worker.scheduler.activate(id);
            }
            Some(_) => self.worker.scheduler.deactivate(id),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_entities_get_is_the_fluid_models_whoever_comes_and_goes(
        tenants in prop::collection::vec((20u32..=500, prop::collection::vec(20u32..=500, 1..4)), 1..5),
        leaves in prop::collection::vec(any::<bool>(), 40),
        seed in 1u64..,
    ) {
        let mut model = Model {
            worker: Worker::new(SLACK, 10_000_000), tenants: Vec::new(), members: Vec::new(), changes: 0,
        };
        let mut random = Random(seed);
        for (number, (own, claims)) in tenants.iter().enumerate() {
            let id = model.worker.scheduler.add_tenant(weight(*own));
            model.tenants.push((id, weight(*own)));
            for claim in claims.iter().map(|claim| weight(*claim)) {
                let id = model.worker.scheduler.add(model.tenants[number].0, claim);
                model.members.push(Member { tenant: number, id, claim, span: None });
            }
        }
        // The first one always has work, whatever the others do.
        (0..model.members.len()).for_each(|number| model.switch(number));
        for gone in leaves {
            for _ in 0..1 + random.below(60) {
                let cost = 1 + random.below(LONGEST);
                let ran = model.worker.turn(|_| cost).expect("one has work");
                let number = model.members.iter().position(|it| it.id == ran).expect("one of these");
                // Only what has work is run.
                prop_assert!(model.members[number].span.is_some());
                model.flow(cost);
            }
            // What gets work may have one turn before those that have some: so much, every second change.
            let bound = (LONGEST + SLACK) * (4 + model.changes / 2);
            for it in &model.members {
                if let Some((ideal, before)) = it.span {
                    let got = (model.worker.used(it.id) - before) as f64;
                    prop_assert!((got - ideal).abs() <= bound as f64, "{got} of {ideal}, {bound}");
                }
            }
            if model.members.len() > 1 {
                let number = 1 + random.below(model.members.len() as u64 - 1) as usize;
                model.switch(number);
                if gone && model.members[number].span.is_none() {
                    // One that goes for good, and another one in its place, which has no debt.
                    let (claim, tenant) = (model.members[number].claim, model.members[number].tenant);
                    model.worker.scheduler.remove(model.members[number].id);
                    model.members[number].id = model.worker.scheduler.add(model.tenants[tenant].0, claim);
                }
            }
        }
    }
}
