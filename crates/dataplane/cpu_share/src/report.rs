//! Figures of an entity's or tenant's share: promised, used, throttled.

use crate::claim::{Cap, Claim};
use crate::scheduler::{EntityId, Node, Scheduler, State, TenantId};
use telemetry::clock::Cycles;

impl Scheduler {
    /// All that was ever charged to an entity, here and where it was before.
    pub fn used(&self, id: EntityId) -> Cycles {
        self.nodes[id.0 as usize].share.used()
    }

    /// All that was ever charged to a tenant here, also by entities that have gone.
    pub fn tenant_used(&self, id: TenantId) -> Cycles {
        self.nodes[self.tenant(id)].share.used()
    }

    /// How long a cap, its own or its tenant's, held an entity back while it had work and it would have been
    /// its turn.
    pub fn throttled(&self, id: EntityId) -> Cycles {
        let entity = &self.nodes[id.0 as usize];
        match entity.state {
            State::Out | State::Throttled => entity.throttled_for(self.now),
            State::Ready => {
                let tenant = self.nodes[entity.parent].throttled_for(self.now);
                entity.throttled + tenant.since(entity.since)
            }
        }
    }

    /// How long its cap held a tenant back while it had work and it would have been its turn.
    pub fn tenant_throttled(&self, id: TenantId) -> Cycles {
        self.nodes[self.tenant(id)].throttled_for(self.now)
    }

    /// The part of the core that an entity gets if all want all that they may have: its weight's part of what
    /// its tenant gets, caps applied, and what some may not have shared by the others. 0 for one that claims
    /// nothing.
    ///
    /// Takes time in proportion to the tenants, and to all entities where entities of its tenant have caps.
    pub fn promised(&self, id: EntityId) -> f64 {
        let entity = &self.nodes[id.0 as usize];
        let Some(tenant) = self.nodes.get(entity.parent) else { return 0.0 };
        let claim = entity.share.claim;
        let part = self.promised_tenant(tenant);
        if tenant.capped == 0 {
            return part * f64::from(claim.weight.get()) / tenant.weights as f64;
        }
        let siblings = self.nodes.iter().filter(|other| other.parent == entity.parent);
        let mut wants: Vec<_> = siblings.map(|other| Want::of(other.share.claim, 1.0)).collect();
        Want::of(claim, 1.0).at(level(part, &mut wants))
    }

    /// The same of a tenant: of one without entities nothing.
    pub fn promised_to_tenant(&self, id: TenantId) -> f64 {
        let tenant = &self.nodes[self.tenant(id)];
        if tenant.members == 0 { 0.0 } else { self.promised_tenant(tenant) }
    }

    fn promised_tenant(&self, tenant: &Node) -> f64 {
        let wants = |tenant: &Node| Want::of(tenant.share.claim, tenant.attainable());
        let tenants = self.tenants.iter().map(|index| &self.nodes[*index as usize]);
        let others = tenants.filter(|other| other.members > 0);
        wants(tenant).at(level(1.0, &mut others.map(wants).collect::<Vec<_>>()))
    }
}

impl Node {
    /// The most that its entities may use together.
    fn attainable(&self) -> f64 {
        if self.capped < self.members { 1.0 } else { (self.caps as f64 / f64::from(Cap::WHOLE)).min(1.0) }
    }
}

/// What one of them would have: as much as its weight gives, up to a limit.
struct Want {
    weight: f64,
    limit: f64,
}

impl Want {
    fn of(claim: Claim, attainable: f64) -> Want {
        let cap = claim.cap.map_or(1.0, Cap::as_share);
        Want { weight: f64::from(claim.weight.get()), limit: cap.min(attainable) }
    }

    fn at(&self, level: f64) -> f64 {
        (self.weight * level).min(self.limit)
    }
}

/// How much there is for each unit of weight, when `whole` is shared by weight and none takes more than its
/// limit.
fn level(whole: f64, wants: &mut [Want]) -> f64 {
    // The one that reaches its limit at the lowest level takes it and leaves the rest to the others.
    wants.sort_by(|a, b| (a.limit / a.weight).total_cmp(&(b.limit / b.weight)));
    let (mut whole, mut weights) = (whole, wants.iter().map(|want| want.weight).sum::<f64>());
    for want in wants.iter() {
        if want.limit / want.weight >= whole / weights {
            return whole / weights;
        }
        whole -= want.limit;
        weights -= want.weight;
    }
    f64::INFINITY
}
