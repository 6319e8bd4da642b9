//! The scheduler at work: what happens between packets.

use crate::queue::{Entries, Queue};
use crate::share::Share;
use crate::throttling::Throttled;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use telemetry::clock::Cycles;

/// Number of an entity, given by [`Scheduler::add`]. Numbers are small, and those of removed entities are
/// used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u32);

/// Number of a tenant, given by [`Scheduler::add_tenant`]. Numbers are small, and those of removed tenants
/// are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

/// How a scheduler works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerSettings {
    /// Minimum granularity: how many cycles the running entity, or one that is handed packets, may get ahead
    /// of the waiting one with the smallest virtual runtime, whatever it weighs: a light one has fewer turns
    /// than a heavy one, not shorter ones. Larger: fewer changes from one to the next; smaller: less lag.
    pub slack: Cycles,
    /// The quantum: the same, if it is more, as long as few wait ([`FEW`]) and none of them is fresh:
    /// entities that always have work gain by caches that stay warm.
    pub quantum: Cycles,
    /// Wake-up granularity: the same, if it is less, while a fresh entity waits: one that owed nothing within
    /// its tenant when it got work, or whose tenant had no work before and owes no more than this. An entity
    /// that has work now and then, and uses less than its share, does not wait for those that always have
    /// work.
    pub wakeup: Cycles,
    /// Over how long caps hold: one that did not use its cap may use for once, on top of it, what the cap
    /// gives in this time.
    pub period: Cycles,
}

/// So many wait without each other's turns becoming too long for them.
pub const FEW: u32 = 40;

/// Whether an entity or tenant waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Has no work, or is running.
    Out,
    /// Waits for its turn.
    Ready,
    /// Has work and is throttled by its own cap.
    Throttled,
}

/// No tenant: that of removed entities and of such that only count.
pub(crate) const NO_TENANT: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Entity {
    pub(crate) share: Share,
    pub(crate) tenant: u32,
    pub(crate) state: State,
    /// While throttled: since when. While ready: its tenant's [`Tenant::throttled_for`] when it began to
    /// wait.
    pub(crate) since: Cycles,
    /// How long caps throttled it, up to `since`.
    pub(crate) throttled: Cycles,
    /// Waits, and it or its tenant owed nothing when it got work; see [`SchedulerSettings::wakeup`].
    pub(crate) fresh: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) share: Share,
    /// `Out` if and only if `ready` is empty.
    pub(crate) state: State,
    /// While throttled: since when.
    pub(crate) since: Cycles,
    /// How long its cap throttled it, up to `since`.
    pub(crate) throttled: Cycles,
    /// One of its entities was picked since it took its place: it goes behind tenants of the same virtual
    /// runtime, or one whose turns cost nothing would keep them waiting.
    pub(crate) had_turn: bool,
    /// Its entities that wait for their turn, by virtual runtime. One that is charged while it waits is put
    /// right when it comes first.
    pub(crate) ready: Queue,
    /// Virtual runtime of the one of its entities that ran last.
    pub(crate) min_vruntime: i128,
    /// How many entities it has, and the sum of their weights.
    pub(crate) entities: u32,
    pub(crate) weights: u64,
    /// How many of them have caps, and the sum of these in millionths.
    pub(crate) capped: u32,
    pub(crate) caps: u64,
    /// It was not removed.
    pub(crate) exists: bool,
}

impl Tenant {
    /// How long its cap has throttled it.
    pub(crate) fn throttled_for(&self, now: Cycles) -> Cycles {
        match self.state {
            State::Throttled => self.throttled + now.min(self.share.release()).since(self.since),
            State::Ready | State::Out => self.throttled,
        }
    }
}

/// The scheduler of one worker. See the crate's page.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(crate) entities: Vec<Entity>,
    pub(crate) entity_entries: Entries,
    pub(crate) free_entities: Vec<u32>,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) tenant_entries: Entries,
    pub(crate) free_tenants: Vec<u32>,
    /// Tenants with entities that wait for their turn, by virtual runtime.
    pub(crate) ready: Queue,
    /// Those throttled by their caps, by when they may run again.
    pub(crate) throttled: BinaryHeap<Reverse<(Cycles, Throttled)>>,
    /// Virtual runtime of the tenant that ran last.
    pub(crate) min_vruntime: i128,
    /// The latest time that any caller gave.
    pub(crate) now: Cycles,
    slack: Cycles,
    quantum: Cycles,
    wakeup: Cycles,
    /// How many wait for their turn, and how many of them are fresh.
    waiting: u32,
    fresh: u32,
    period: Cycles,
}

impl Scheduler {
    /// A scheduler without tenants.
    pub fn new(settings: SchedulerSettings, now: Cycles) -> Scheduler {
        Scheduler {
            entities: Vec::new(),
            entity_entries: Entries::default(),
            free_entities: Vec::new(),
            tenants: Vec::new(),
            tenant_entries: Entries::default(),
            free_tenants: Vec::new(),
            ready: Queue::default(),
            throttled: BinaryHeap::new(),
            min_vruntime: 0,
            now,
            slack: settings.slack,
            quantum: settings.quantum.max(settings.slack),
            wakeup: settings.wakeup.min(settings.slack),
            waiting: 0,
            fresh: 0,
            period: settings.period,
        }
    }

    /// The entity has work. Without effect when it had.
    #[inline]
    pub fn activate(&mut self, id: EntityId) {
        let index = id.0 as usize;
        let entity = &mut self.entities[index];
        if entity.state != State::Out || entity.tenant == NO_TENANT {
            return;
        }
        let owner = entity.tenant as usize;
        let tenant = &mut self.tenants[owner];
        // The head of a chain pays for polling too, so it is a little ahead of its tenant's other entities,
        // however little the tenant has used: what a tenant without work owes others counts as well.
        entity.fresh = entity.share.vruntime() <= tenant.min_vruntime
            || tenant.state == State::Out
                && tenant.share.vruntime() <= self.min_vruntime + tenant.share.vruntime_of(self.wakeup);
        self.waiting += 1;
        self.fresh += u32::from(entity.fresh);
        entity.share.join(tenant.min_vruntime);
        entity.state = State::Ready;
        entity.since = tenant.throttled_for(self.now);
        tenant.ready.push(&mut self.entity_entries, index, entity.share.vruntime());
        if tenant.state == State::Out {
            self.enter(owner);
        }
    }

    /// The entity has no work any more, or is paused. Without effect when it had none.
    pub fn deactivate(&mut self, id: EntityId) {
        let index = id.0 as usize;
        match self.entities[index].state {
            State::Out => {}
            State::Ready => self.leave(index),
            State::Throttled => {
                self.unthrottle(index);
                self.forget(Throttled::Entity(index));
            }
        }
    }

    /// Takes out the entity with the smallest virtual runtime of the tenant with the smallest, of those that
    /// have work and that no cap throttles. It has no work any more until it is activated again.
    #[inline]
    pub fn pick(&mut self, now: Cycles) -> Option<EntityId> {
        let (owner, index) = self.next(now)?;
        self.leave(index);
        let (entity, tenant) = (&mut self.entities[index].share, &mut self.tenants[owner]);
        tenant.min_vruntime = tenant.min_vruntime.max(entity.vruntime());
        self.min_vruntime = self.min_vruntime.max(tenant.share.vruntime());
        entity.grant(tenant.min_vruntime, self.wakeup);
        tenant.share.grant(self.min_vruntime, self.wakeup);
        tenant.had_turn = true;
        Some(EntityId(index as u32))
    }

    /// Whether an entity may run before those that wait: one that packets were just handed to, or the running
    /// one that would go on. It may if its virtual runtime exceeds the smallest that waits in its tenant, and
    /// its tenant's the smallest tenant's that waits, by no more than the quantum or the slack, and no cap
    /// throttles either. When it may not, it has to be activated and wait like the others. One that waits
    /// already goes on waiting in either case.
    #[inline(always)]
    pub fn hand_off(&mut self, id: EntityId, now: Cycles) -> bool {
        let entity = &self.entities[id.0 as usize];
        match self.tenants.get(entity.tenant as usize) {
            Some(tenant) if entity.share.is_granted() && tenant.share.is_granted() => true,
            Some(_) => self.compare(id.0 as usize, now),
            None => false,
        }
    }

    /// The same for an entity of a tenant, by the virtual runtimes of those that wait. One that may run is
    /// granted some time, so that the next look is a comparison of two numbers.
    fn compare(&mut self, index: usize, now: Cycles) -> bool {
        let owner = self.entities[index].tenant as usize;
        self.advance_to(now);
        let (entity, tenant) = (&mut self.entities[index], &mut self.tenants[owner]);
        if !entity.share.may_run(self.now, self.period) || !tenant.share.may_run(self.now, self.period) {
            return false;
        }
        if entity.state == State::Out {
            entity.share.join(tenant.min_vruntime);
        }
        if tenant.state == State::Out {
            tenant.share.join(self.min_vruntime);
        }
        let lead = match (self.fresh, self.waiting) {
            (1.., _) => self.wakeup,
            (0, waiting) if waiting > FEW => self.slack,
            (0, _) => self.quantum,
        };
        let (entity_lead, tenant_lead) = (entity.share.vruntime_of(lead), tenant.share.vruntime_of(lead));
        let (vruntime, tenant_vruntime) = (entity.share.vruntime(), tenant.share.vruntime());

        let smallest =
            self.first_entity(owner).map_or(vruntime, |first| self.entities[first].share.vruntime());
        let smallest_tenant = match self.first() {
            Some((first, _)) if first != owner => self.tenants[first].share.vruntime(),
            _ => tenant_vruntime,
        };
        if vruntime > smallest + entity_lead || tenant_vruntime > smallest_tenant + tenant_lead {
            return false;
        }
        // The minimum virtual runtime moves on for entities that join later, but never beyond one that waits.
        let tenant = &mut self.tenants[owner];
        tenant.min_vruntime = tenant.min_vruntime.max(vruntime.min(smallest));
        self.min_vruntime = self.min_vruntime.max(tenant_vruntime.min(smallest_tenant));
        self.entities[index].share.grant(tenant.min_vruntime, self.wakeup);
        tenant.share.grant(self.min_vruntime, self.wakeup);
        true
    }

    /// Whether an entity waits for its turn: it has work, and was not found throttled by a cap.
    #[inline]
    pub fn is_ready(&self, id: EntityId) -> bool {
        self.entities[id.0 as usize].state == State::Ready
    }

    /// Adds what was used on an entity's behalf.
    #[inline]
    pub fn charge(&mut self, id: EntityId, cycles: Cycles) {
        let entity = &mut self.entities[id.0 as usize];
        entity.share.charge(cycles);
        if let Some(tenant) = self.tenants.get_mut(entity.tenant as usize) {
            tenant.share.charge(cycles);
        }
    }

    /// No entity has work and may run: [`Scheduler::pick`] would find none.
    #[inline]
    pub fn is_idle(&mut self, now: Cycles) -> bool {
        self.next(now).is_none()
    }

    /// Takes notice of the time, and finds whose turn it is: a tenant, and an entity of it.
    #[inline]
    fn next(&mut self, now: Cycles) -> Option<(usize, usize)> {
        self.advance_to(now);
        self.first()
    }

    /// Takes notice of the time.
    #[inline]
    fn advance_to(&mut self, now: Cycles) {
        self.now = self.now.max(now);
        if self.next_release().is_some_and(|release| release <= self.now) {
            self.release_due();
        }
    }

    /// The tenant with the smallest virtual runtime that may run and has an entity that may, and the first
    /// such. One that turns out to be throttled by a cap is set aside.
    #[inline]
    fn first(&mut self) -> Option<(usize, usize)> {
        while let Some((key, owner)) = self.ready.first(&self.tenant_entries) {
            let tenant = &mut self.tenants[owner];
            let vruntime = tenant.share.vruntime();
            if vruntime != key || tenant.had_turn {
                tenant.had_turn = false;
                self.ready.rekey_first(&mut self.tenant_entries, vruntime);
            } else if !tenant.share.may_run(self.now, self.period) {
                self.throttle_tenant(owner);
            } else if let Some(index) = self.first_entity(owner) {
                return Some((owner, index));
            }
        }
        None
    }

    /// The entity of a tenant with the smallest virtual runtime that waits and may run. Without one, the
    /// tenant waits no more.
    #[inline]
    fn first_entity(&mut self, owner: usize) -> Option<usize> {
        while let Some((key, index)) = self.tenants[owner].ready.first(&self.entity_entries) {
            let share = &mut self.entities[index].share;
            let vruntime = share.vruntime();
            if vruntime != key {
                self.tenants[owner].ready.rekey_first(&mut self.entity_entries, vruntime);
            } else if share.may_run(self.now, self.period) {
                return Some(index);
            } else {
                self.throttle(index);
            }
        }
        None
    }

    /// A tenant waits no more, be it for its turn or for its cap.
    pub(crate) fn leave_tenant(&mut self, owner: usize) {
        let tenant = &mut self.tenants[owner];
        tenant.throttled = tenant.throttled_for(self.now);
        match std::mem::replace(&mut tenant.state, State::Out) {
            State::Out => {}
            State::Ready => self.ready.remove(&mut self.tenant_entries, owner),
            State::Throttled => self.forget(Throttled::Tenant(owner)),
        }
    }

    /// A tenant that did not wait waits for its turn.
    pub(crate) fn enter(&mut self, owner: usize) {
        let tenant = &mut self.tenants[owner];
        tenant.share.join(self.min_vruntime);
        tenant.state = State::Ready;
        tenant.had_turn = false;
        self.ready.push(&mut self.tenant_entries, owner, tenant.share.vruntime());
    }

    /// An entity waits for its turn no more, and its tenant neither if it was the last.
    #[inline]
    pub(crate) fn leave(&mut self, index: usize) {
        let entity = &mut self.entities[index];
        let owner = entity.tenant as usize;
        let tenant = &mut self.tenants[owner];
        tenant.ready.remove(&mut self.entity_entries, index);
        entity.throttled += tenant.throttled_for(self.now).since(entity.since);
        entity.state = State::Out;
        self.waiting -= 1;
        self.fresh -= u32::from(std::mem::take(&mut entity.fresh));
        if tenant.ready.is_empty() {
            self.leave_tenant(owner);
        }
    }
}
