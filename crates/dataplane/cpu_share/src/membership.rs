//! Tenants and entities: added, removed, given other claims.

use crate::claim::{Claim, Weight};
use crate::queue::Queue;
use crate::scheduler::{Entity, EntityId, NO_TENANT, Scheduler, State, Tenant, TenantId};
use crate::share::{Share, in_weight};
use telemetry::clock::Cycles;

/// What goes with an entity to another worker: what it owes and what it used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Parts of virtual runtime beyond its tenant's minimum virtual runtime, at this weight. Never less than
    /// the minimum virtual runtime: an entity that waits is at it or beyond it, and sleep earns nothing.
    pub(crate) debt: i128,
    pub(crate) weight: Weight,
    /// Parts of a cycle by which its cap is overdrawn; below zero: which it has saved up.
    pub(crate) overdrawn: i128,
    pub(crate) used: Cycles,
    pub(crate) throttled: Cycles,
}

impl Standing {
    /// All that was ever charged to it.
    pub fn used(&self) -> Cycles {
        self.used
    }

    /// How long caps throttled it while it had work.
    pub fn throttled(&self) -> Cycles {
        self.throttled
    }
}

impl Scheduler {
    /// Takes a tenant in.
    pub fn add_tenant(&mut self, claim: Claim) -> TenantId {
        let tenant = Tenant {
            share: Share::new(claim, self.min_vruntime, Cycles(0), 0, self.now),
            state: State::Out,
            since: Cycles(0),
            throttled: Cycles(0),
            had_turn: false,
            ready: Queue::default(),
            min_vruntime: 0,
            entities: 0,
            weights: 0,
            capped: 0,
            caps: 0,
            exists: true,
        };
        if let Some(free) = self.free_tenants.pop() {
            self.tenants[free as usize] = tenant;
            return TenantId(free);
        }
        self.tenants.push(tenant);
        self.tenant_entries.grow();
        TenantId((self.tenants.len() - 1) as u32)
    }

    /// Gives a tenant another claim. It goes on owing the cycles that it owes.
    pub fn set_tenant_claim(&mut self, id: TenantId, claim: Claim) {
        let owner = id.0 as usize;
        let waits = self.tenants[owner].state != State::Out;
        self.leave_tenant(owner);
        self.tenants[owner].share.join(self.min_vruntime);
        self.tenants[owner].share.set_claim(claim, self.min_vruntime, self.now);
        if waits {
            // If its cap throttles it all the same, that will show when it comes first.
            self.enter(owner);
        }
    }

    /// Takes a tenant off. False, and nothing is done, as long as it has entities.
    pub fn remove_tenant(&mut self, id: TenantId) -> bool {
        let tenant = &mut self.tenants[id.0 as usize];
        if tenant.entities > 0 || !tenant.exists {
            return false;
        }
        tenant.exists = false;
        self.free_tenants.push(id.0);
        true
    }

    /// Takes an entity in that owes nothing. In a tenant that was removed it only counts cycles: it has no
    /// tenant, claims nothing, never has work, and no other's share depends on it.
    pub fn add(&mut self, tenant: TenantId, claim: Claim) -> EntityId {
        self.add_with(tenant, claim, Standing::default())
    }

    /// Takes an entity in with the standing that it had on another worker, or in another tenant.
    pub fn add_with(&mut self, tenant: TenantId, claim: Claim, standing: Standing) -> EntityId {
        let owner = &mut self.tenants[tenant.0 as usize];
        if !owner.exists {
            let share = Share::new(Claim::default(), 0, Cycles(0), 0, self.now);
            return self.number(share, NO_TENANT, Cycles(0));
        }
        let debt = in_weight(standing.debt, standing.weight, claim.weight);
        let share = Share::new(claim, owner.min_vruntime + debt, standing.used, standing.overdrawn, self.now);
        owner.count(claim);
        self.number(share, tenant.0, standing.throttled)
    }

    fn number(&mut self, share: Share, tenant: u32, throttled: Cycles) -> EntityId {
        let entity = Entity { share, tenant, state: State::Out, since: Cycles(0), throttled, fresh: false };
        if let Some(free) = self.free_entities.pop() {
            self.entities[free as usize] = entity;
            return EntityId(free);
        }
        self.entities.push(entity);
        self.entity_entries.grow();
        EntityId((self.entities.len() - 1) as u32)
    }

    /// Gives an entity another claim. It goes on owing the cycles that it owes.
    pub fn set_claim(&mut self, id: EntityId, claim: Claim) {
        let index = id.0 as usize;
        let waits = self.entities[index].state != State::Out;
        self.deactivate(id);
        let entity = &mut self.entities[index];
        let Some(tenant) = self.tenants.get_mut(entity.tenant as usize) else { return };
        tenant.discount(entity.share.claim);
        tenant.count(claim);
        entity.share.join(tenant.min_vruntime);
        entity.share.set_claim(claim, tenant.min_vruntime, self.now);
        if waits {
            self.activate(id);
        }
    }

    /// Takes an entity off, whatever it is doing, and tells its standing. Its tenant keeps what was charged
    /// to it.
    pub fn remove(&mut self, id: EntityId) -> Standing {
        self.deactivate(id);
        let entity = &mut self.entities[id.0 as usize];
        let Some(tenant) = self.tenants.get_mut(entity.tenant as usize) else {
            return Standing { used: entity.share.used(), ..Standing::default() };
        };
        let claim = entity.share.claim;
        tenant.discount(claim);
        entity.tenant = NO_TENANT;
        self.free_entities.push(id.0);
        Standing {
            debt: (entity.share.vruntime() - tenant.min_vruntime).max(0),
            weight: claim.weight,
            overdrawn: entity.share.overdrawn(self.now),
            used: entity.share.used(),
            throttled: entity.throttled,
        }
    }
}

impl Tenant {
    fn count(&mut self, claim: Claim) {
        self.entities += 1;
        self.weights += u64::from(claim.weight.get());
        if let Some(cap) = claim.cap {
            self.capped += 1;
            self.caps += u64::from(cap.get());
        }
    }

    fn discount(&mut self, claim: Claim) {
        self.entities -= 1;
        self.weights -= u64::from(claim.weight.get());
        if let Some(cap) = claim.cap {
            self.capped -= 1;
            self.caps -= u64::from(cap.get());
        }
    }
}
