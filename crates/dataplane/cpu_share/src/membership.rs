//! Tenants and entities: added, removed, given other claims.

use crate::claim::{Claim, Weight};
use crate::queue::Queue;
use crate::scheduler::{EntityId, NOWHERE, Node, ROOT, Scheduler, State, TenantId};
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
        let share = Share::new(claim, self.nodes[ROOT].min_vruntime, Cycles(0), 0, self.now);
        let node = Node::new(share, ROOT, Cycles(0));
        if let Some(free) = self.free_tenants.pop() {
            let index = self.tenant(TenantId(free));
            self.nodes[index] = node;
            return TenantId(free);
        }
        let index = self.insert(node);
        self.tenants.push(index);
        TenantId((self.tenants.len() - 1) as u32)
    }

    /// The node of a tenant.
    pub(crate) fn tenant(&self, id: TenantId) -> usize {
        self.tenants[id.0 as usize] as usize
    }

    /// Gives a tenant another claim. It goes on owing the cycles that it owes.
    pub fn set_tenant_claim(&mut self, id: TenantId, claim: Claim) {
        self.reclaim(self.tenant(id), claim);
    }

    /// Takes a tenant off. False, and nothing is done, as long as it has entities.
    pub fn remove_tenant(&mut self, id: TenantId) -> bool {
        let index = self.tenant(id);
        let tenant = &mut self.nodes[index];
        if tenant.members > 0 || tenant.parent == NOWHERE {
            return false;
        }
        tenant.parent = NOWHERE;
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
        let index = self.tenant(tenant);
        let owner = &mut self.nodes[index];
        let node = if owner.parent == NOWHERE {
            Node::new(Share::new(Claim::default(), 0, Cycles(0), 0, self.now), NOWHERE, Cycles(0))
        } else {
            let debt = in_weight(standing.debt, standing.weight, claim.weight);
            let vruntime = owner.min_vruntime + debt;
            owner.count(claim);
            let share = Share::new(claim, vruntime, standing.used, standing.overdrawn, self.now);
            Node::new(share, index, standing.throttled)
        };
        if let Some(free) = self.free_entities.pop() {
            self.nodes[free as usize] = node;
            return EntityId(free);
        }
        EntityId(self.insert(node))
    }

    /// Takes one more node in; its number.
    pub(crate) fn insert(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.entries.grow();
        (self.nodes.len() - 1) as u32
    }

    /// Gives an entity another claim. It goes on owing the cycles that it owes.
    pub fn set_claim(&mut self, id: EntityId, claim: Claim) {
        self.reclaim(id.0 as usize, claim);
    }

    fn reclaim(&mut self, index: usize, claim: Claim) {
        let (waits, owner) = (self.nodes[index].state != State::Out, self.nodes[index].parent);
        let old = self.nodes[index].share.claim;
        self.stop(index);
        let Some(parent) = self.nodes.get_mut(owner) else { return };
        if owner != ROOT {
            parent.discount(old);
            parent.count(claim);
        }
        let min_vruntime = parent.min_vruntime;
        let share = &mut self.nodes[index].share;
        share.join(min_vruntime);
        share.set_claim(claim, min_vruntime, self.now);
        if waits {
            // If its cap throttles it all the same, that will show when it comes first.
            self.start(index);
        }
    }

    /// Takes an entity off, whatever it is doing, and tells its standing. Its tenant keeps what was charged
    /// to it.
    pub fn remove(&mut self, id: EntityId) -> Standing {
        self.deactivate(id);
        let entity = &mut self.nodes[id.0 as usize];
        let (claim, owner) = (entity.share.claim, entity.parent);
        let (used, vruntime, throttled) = (entity.share.used(), entity.share.vruntime(), entity.throttled);
        let overdrawn = entity.share.overdrawn(self.now);
        let Some(tenant) = self.nodes.get_mut(owner) else { return Standing { used, ..Standing::default() } };
        tenant.discount(claim);
        let debt = (vruntime - tenant.min_vruntime).max(0);
        self.nodes[id.0 as usize].parent = NOWHERE;
        self.free_entities.push(id.0);
        Standing { debt, weight: claim.weight, overdrawn, used, throttled }
    }
}

impl Node {
    /// One that has no work yet.
    pub(crate) fn new(share: Share, parent: usize, throttled: Cycles) -> Node {
        Node {
            share,
            parent,
            state: State::Out,
            since: Cycles(0),
            throttled,
            fresh: false,
            had_turn: false,
            ready: Queue::default(),
            min_vruntime: 0,
            members: 0,
            weights: 0,
            capped: 0,
            caps: 0,
        }
    }

    fn count(&mut self, claim: Claim) {
        self.members += 1;
        self.weights += u64::from(claim.weight.get());
        if let Some(cap) = claim.cap {
            self.capped += 1;
            self.caps += u64::from(cap.get());
        }
    }

    fn discount(&mut self, claim: Claim) {
        self.members -= 1;
        self.weights -= u64::from(claim.weight.get());
        if let Some(cap) = claim.cap {
            self.capped -= 1;
            self.caps -= u64::from(cap.get());
        }
    }
}
