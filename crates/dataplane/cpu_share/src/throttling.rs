//! Entities and tenants that their caps throttle: set aside when their turn comes, and released when the cap
//! has allowed for what they used.

use crate::scheduler::{EntityId, Scheduler, State};
use std::cmp::Reverse;
use telemetry::clock::Cycles;

/// What a cap throttles, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Throttled {
    Tenant(usize),
    Entity(usize),
}

impl Scheduler {
    /// When the first throttled entity or tenant may run again. It may turn out then that it has been charged
    /// meanwhile, and has to wait longer. Tells of all when [`Scheduler::is_idle`].
    #[inline]
    pub fn next_release(&self) -> Option<Cycles> {
        self.throttled.peek().map(|Reverse((release, _))| *release)
    }

    /// Sets aside an entity that waits for its turn, until its cap lets it run.
    #[cold]
    pub(crate) fn throttle(&mut self, index: usize) {
        self.leave(index);
        let entity = &mut self.entities[index];
        (entity.state, entity.since) = (State::Throttled, self.now);
        self.throttled.push(Reverse((entity.share.release(), Throttled::Entity(index))));
    }

    /// An entity is throttled no more.
    pub(crate) fn unthrottle(&mut self, index: usize) {
        let entity = &mut self.entities[index];
        entity.throttled += self.now.min(entity.share.release()).since(entity.since);
        entity.state = State::Out;
    }

    /// Sets aside a tenant that waits for its turn, until its cap lets it run.
    #[cold]
    pub(crate) fn throttle_tenant(&mut self, owner: usize) {
        self.ready.remove(&mut self.tenant_entries, owner);
        let tenant = &mut self.tenants[owner];
        (tenant.state, tenant.since) = (State::Throttled, self.now);
        self.throttled.push(Reverse((tenant.share.release(), Throttled::Tenant(owner))));
    }

    /// Nothing waits for a cap any more that was throttled by it: it was paused, removed, or given another
    /// claim.
    #[cold]
    pub(crate) fn forget(&mut self, throttled: Throttled) {
        self.throttled.retain(|Reverse((_, other))| *other != throttled);
    }

    /// Lets those wait for their turn whose caps let them run.
    #[cold]
    pub(crate) fn release_due(&mut self) {
        while self.next_release().is_some_and(|release| release <= self.now)
            && let Some(Reverse((_, throttled))) = self.throttled.pop()
        {
            // Not `may_run`: that forgets by how much the worker is late, which is not the cap's doing.
            let release = match throttled {
                Throttled::Tenant(owner) => self.tenants[owner].share.release(),
                Throttled::Entity(index) => self.entities[index].share.release(),
            };
            if release > self.now {
                self.throttled.push(Reverse((release, throttled)));
                continue;
            }
            match throttled {
                Throttled::Tenant(owner) => {
                    let tenant = &mut self.tenants[owner];
                    tenant.throttled = tenant.throttled_for(self.now);
                    self.enter(owner);
                }
                Throttled::Entity(index) => {
                    self.unthrottle(index);
                    self.activate(EntityId(index as u32));
                }
            }
        }
    }
}
