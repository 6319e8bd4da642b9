//! Entities and tenants that their caps throttle: set aside when their turn comes, and released when the cap
//! has allowed for what they used.

use crate::queue::Queue;
use crate::scheduler::{EntityId, Scheduler, State};
use telemetry::clock::Cycles;

impl Scheduler {
    /// When the first throttled entity or tenant may run again. It may turn out then that it has been charged
    /// meanwhile, and has to wait longer. Tells of all when [`Scheduler::is_idle`].
    pub fn next_release(&self) -> Option<Cycles> {
        let first =
            |queue: &Queue| queue.first().map(|(at, _)| Cycles(u64::try_from(at).unwrap_or(u64::MAX)));
        [first(&self.throttled_entities), first(&self.throttled_tenants)].into_iter().flatten().min()
    }

    /// Sets aside an entity that waits for its turn, until its cap lets it run.
    #[cold]
    pub(crate) fn throttle(&mut self, index: usize) {
        self.leave(index);
        let entity = &mut self.entities[index];
        let release = entity.share.release();
        (entity.state, entity.since) = (State::Throttled, self.now);
        self.throttled_entities.push(&mut self.entity_places, index, i128::from(release.0));
        self.release_at = self.release_at.min(release);
    }

    /// An entity is throttled no more.
    pub(crate) fn unthrottle(&mut self, index: usize) {
        self.throttled_entities.remove(&mut self.entity_places, index);
        let entity = &mut self.entities[index];
        entity.throttled += self.now.min(entity.share.release()).since(entity.since);
        entity.state = State::Out;
    }

    /// Sets aside a tenant that waits for its turn, until its cap lets it run.
    #[cold]
    pub(crate) fn throttle_tenant(&mut self, owner: usize) {
        self.ready.remove(&mut self.tenant_places, owner);
        let tenant = &mut self.tenants[owner];
        let release = tenant.share.release();
        (tenant.state, tenant.since) = (State::Throttled, self.now);
        self.throttled_tenants.push(&mut self.tenant_places, owner, i128::from(release.0));
        self.release_at = self.release_at.min(release);
    }

    /// Lets those wait for their turn whose caps let them run.
    #[cold]
    pub(crate) fn release_due(&mut self) {
        let now = i128::from(self.now.0);
        while let Some((_, owner)) = self.throttled_tenants.first().filter(|(at, _)| *at <= now) {
            let share = &self.tenants[owner].share;
            // Not `may_run`: that forgets by how much the worker is late, which is not the cap's doing.
            if share.release() <= self.now {
                self.leave_tenant(owner);
                self.enter(owner);
            } else {
                let release = i128::from(share.release().0);
                self.throttled_tenants.rekey(&mut self.tenant_places, owner, release);
            }
        }
        while let Some((_, index)) = self.throttled_entities.first().filter(|(at, _)| *at <= now) {
            let share = &self.entities[index].share;
            if share.release() <= self.now {
                self.unthrottle(index);
                self.activate(EntityId(index as u32));
            } else {
                let release = i128::from(share.release().0);
                self.throttled_entities.rekey(&mut self.entity_places, index, release);
            }
        }
        self.release_at = self.next_release().unwrap_or(Cycles(u64::MAX));
    }
}
