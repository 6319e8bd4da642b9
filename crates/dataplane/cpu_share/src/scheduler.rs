//! The scheduler at work: what happens between packets.

use crate::claim::Claim;
use crate::queue::{Entries, Queue};
use crate::share::Share;
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

/// Whether a node waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Has no work, or is running.
    Out,
    /// Waits for its turn.
    Ready,
    /// Has work and is throttled by its own cap.
    Throttled,
}

/// The root of the tree: the worker, of which the tenants are parts.
pub(crate) const ROOT: usize = 0;

/// No node: what something belongs to that was removed, or that only counts.
pub(crate) const NOWHERE: usize = usize::MAX;

/// An entity, a tenant or the worker: what shares its parent's part with others, and its own among its
/// members. Entities have none, and the worker has no parent.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) share: Share,
    /// What it belongs to.
    pub(crate) parent: usize,
    /// `Out` if and only if `ready` is empty, of one that has members.
    pub(crate) state: State,
    /// While throttled: since when. While ready: its parent's [`Node::throttled_for`] when it began to wait.
    pub(crate) since: Cycles,
    /// How long caps throttled it, up to `since`.
    pub(crate) throttled: Cycles,
    /// Waits, is an entity, and it or its tenant owed nothing when it got work; see
    /// [`SchedulerSettings::wakeup`].
    pub(crate) fresh: bool,
    /// A member of it was picked since it took its place: it goes behind others of the same virtual runtime,
    /// or one whose turns cost nothing would keep them waiting.
    pub(crate) had_turn: bool,
    /// Its members that wait for their turn, by virtual runtime. One that is charged while it waits is put
    /// right when it comes first.
    pub(crate) ready: Queue,
    /// Virtual runtime of the one of its members that ran last.
    pub(crate) min_vruntime: i128,
    /// How many members it has, and the sum of their weights.
    pub(crate) members: u32,
    pub(crate) weights: u64,
    /// How many of them have caps, and the sum of these in millionths.
    pub(crate) capped: u32,
    pub(crate) caps: u64,
}

impl Node {
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
    /// The worker, tenants and entities; the latter by their numbers.
    pub(crate) nodes: Vec<Node>,
    pub(crate) entries: Entries,
    pub(crate) free_entities: Vec<u32>,
    /// The nodes of tenants, by their numbers.
    pub(crate) tenants: Vec<u32>,
    pub(crate) free_tenants: Vec<u32>,
    /// Those throttled by their caps, by when they may run again.
    pub(crate) throttled: BinaryHeap<Reverse<(Cycles, usize)>>,
    /// The latest time that any caller gave.
    pub(crate) now: Cycles,
    slack: Cycles,
    quantum: Cycles,
    wakeup: Cycles,
    /// How many entities wait for their turn, and how many of them are fresh.
    waiting: u32,
    fresh: u32,
    period: Cycles,
}

impl Scheduler {
    /// A scheduler without tenants.
    pub fn new(settings: SchedulerSettings, now: Cycles) -> Scheduler {
        let mut scheduler = Scheduler {
            nodes: Vec::new(),
            entries: Entries::default(),
            free_entities: Vec::new(),
            tenants: Vec::new(),
            free_tenants: Vec::new(),
            throttled: BinaryHeap::new(),
            now,
            slack: settings.slack,
            quantum: settings.quantum.max(settings.slack),
            wakeup: settings.wakeup.min(settings.slack),
            waiting: 0,
            fresh: 0,
            period: settings.period,
        };
        let all = Share::new(Claim::default(), 0, Cycles(0), 0, now);
        scheduler.insert(Node::new(all, NOWHERE, Cycles(0)));
        scheduler
    }

    /// The entity has work. Without effect when it had.
    #[inline]
    pub fn activate(&mut self, id: EntityId) {
        self.start(id.0 as usize);
    }

    /// The entity has no work any more, or is paused. Without effect when it had none.
    pub fn deactivate(&mut self, id: EntityId) {
        self.stop(id.0 as usize);
    }

    /// Takes out the entity with the smallest virtual runtime of the tenant with the smallest, of those that
    /// have work and that no cap throttles. It has no work any more until it is activated again.
    #[inline]
    pub fn pick(&mut self, now: Cycles) -> Option<EntityId> {
        let (owner, index) = self.next(now)?;
        self.stop(index);
        for node in [index, owner] {
            let vruntime = self.nodes[node].share.vruntime();
            self.grant(node, vruntime);
        }
        self.nodes[owner].had_turn = true;
        Some(EntityId(index as u32))
    }

    /// Whether an entity may run before those that wait: one that packets were just handed to, or the running
    /// one that would go on. It may if its virtual runtime exceeds the smallest that waits in its tenant, and
    /// its tenant's the smallest tenant's that waits, by no more than the quantum or the slack, and no cap
    /// throttles either. When it may not, it has to be activated and wait like the others. One that waits
    /// already goes on waiting in either case.
    #[inline(always)]
    pub fn hand_off(&mut self, id: EntityId, now: Cycles) -> bool {
        let entity = &self.nodes[id.0 as usize];
        match self.nodes.get(entity.parent) {
            Some(tenant) if entity.share.is_granted() && tenant.share.is_granted() => true,
            Some(_) => self.compare(id.0 as usize, now),
            None => false,
        }
    }

    /// The same for an entity of a tenant, by the virtual runtimes of those that wait. One that may run is
    /// granted some time, so that the next look is a comparison of two numbers.
    fn compare(&mut self, index: usize, now: Cycles) -> bool {
        let levels = [index, self.nodes[index].parent];
        self.advance_to(now);
        if levels.iter().any(|node| !self.nodes[*node].share.may_run(self.now, self.period)) {
            return false;
        }
        let lead = match (self.fresh, self.waiting) {
            (1.., _) => self.wakeup,
            (0, waiting) if waiting > FEW => self.slack,
            (0, _) => self.quantum,
        };
        let mut smallest = [0; 2];
        for (node, smallest) in levels.into_iter().zip(&mut smallest) {
            let parent = self.nodes[node].parent;
            let first =
                if parent == ROOT { self.first().map(|(owner, _)| owner) } else { self.first_of(parent) };
            let min_vruntime = self.nodes[parent].min_vruntime;
            let waiting = &mut self.nodes[node];
            if waiting.state == State::Out {
                waiting.share.join(min_vruntime);
            }
            let (vruntime, lead) = (waiting.share.vruntime(), waiting.share.vruntime_of(lead));
            *smallest = first
                .filter(|first| *first != node)
                .map_or(vruntime, |first| self.nodes[first].share.vruntime());
            if vruntime > *smallest + lead {
                return false;
            }
            // The minimum virtual runtime moves on for others that join later, never beyond one that waits.
            *smallest = vruntime.min(*smallest);
        }
        levels.into_iter().zip(smallest).for_each(|(node, vruntime)| self.grant(node, vruntime));
        true
    }

    /// A node runs, of which nothing that waits beside it is behind this virtual runtime: others join there,
    /// and it is granted some time.
    #[inline]
    fn grant(&mut self, index: usize, vruntime: i128) {
        let parent = self.nodes[index].parent;
        let min_vruntime = self.nodes[parent].min_vruntime.max(vruntime);
        self.nodes[parent].min_vruntime = min_vruntime;
        self.nodes[index].share.grant(min_vruntime, self.wakeup);
    }

    /// Takes out an entity that waits for its turn if it [may run](Scheduler::hand_off) before the others, as
    /// one whose run was interrupted. Returns whether it did.
    pub fn take_back(&mut self, id: EntityId, now: Cycles) -> bool {
        let goes_on = self.nodes[id.0 as usize].state == State::Ready && self.hand_off(id, now);
        if goes_on {
            self.stop(id.0 as usize);
        }
        goes_on
    }

    /// Adds what was used on an entity's behalf.
    #[inline]
    pub fn charge(&mut self, id: EntityId, cycles: Cycles) {
        let entity = &mut self.nodes[id.0 as usize];
        entity.share.charge(cycles);
        let parent = entity.parent;
        if let Some(tenant) = self.nodes.get_mut(parent) {
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
    /// such.
    #[inline]
    fn first(&mut self) -> Option<(usize, usize)> {
        while let Some(owner) = self.first_of(ROOT) {
            if let Some(index) = self.first_of(owner) {
                return Some((owner, index));
            }
        }
        None
    }

    /// The member of a node with the smallest virtual runtime that waits and may run. One that turns out to
    /// be throttled by a cap is set aside; without another one its parent waits no more.
    #[inline]
    fn first_of(&mut self, parent: usize) -> Option<usize> {
        while let Some((key, index)) = self.nodes[parent].ready.first(&self.entries) {
            let node = &mut self.nodes[index];
            let vruntime = node.share.vruntime();
            if vruntime != key || node.had_turn {
                node.had_turn = false;
                self.nodes[parent].ready.rekey_first(&mut self.entries, vruntime);
            } else if node.share.may_run(self.now, self.period) {
                return Some(index);
            } else {
                self.throttle(index);
            }
        }
        None
    }

    /// A node has work, and with it its parent: it waits for its turn from now on, unless it did.
    #[inline]
    pub(crate) fn start(&mut self, index: usize) {
        let owner = self.nodes[index].parent;
        if self.nodes[index].state != State::Out || owner == NOWHERE {
            return;
        }
        let (least, is_entity) = (self.nodes[ROOT].min_vruntime, owner != ROOT);
        let parent = &mut self.nodes[owner];
        let (min_vruntime, since) = (parent.min_vruntime, parent.throttled_for(self.now));
        // The head of a chain pays for polling too, so it is a little ahead of its tenant's other entities,
        // however little the tenant has used: what a tenant without work owes others counts as well.
        let is_first = is_entity && parent.state == State::Out;
        let owes = !is_first || parent.share.vruntime() > least + parent.share.vruntime_of(self.wakeup);
        let node = &mut self.nodes[index];
        node.fresh = is_entity && (node.share.vruntime() <= min_vruntime || !owes);
        self.waiting += u32::from(is_entity);
        self.fresh += u32::from(node.fresh);
        node.share.join(min_vruntime);
        (node.state, node.since, node.had_turn) = (State::Ready, since, false);
        let vruntime = node.share.vruntime();
        self.nodes[owner].ready.push(&mut self.entries, index, vruntime);
        if is_first {
            self.start(owner);
        }
    }

    /// A node has no work any more: it waits neither for its turn nor for its cap, and its parent neither if
    /// it was the last.
    #[inline]
    pub(crate) fn stop(&mut self, index: usize) {
        let (owner, node) = (self.nodes[index].parent, &self.nodes[index]);
        let throttled = match node.state {
            State::Out => return,
            State::Throttled => node.throttled_for(self.now),
            State::Ready => node.throttled + self.nodes[owner].throttled_for(self.now).since(node.since),
        };
        let node = &mut self.nodes[index];
        node.throttled = throttled;
        let fresh = std::mem::take(&mut node.fresh);
        if std::mem::replace(&mut node.state, State::Out) == State::Throttled {
            return self.forget(index);
        }
        self.waiting -= u32::from(owner != ROOT);
        self.fresh -= u32::from(fresh);
        let parent = &mut self.nodes[owner];
        parent.ready.remove(&mut self.entries, index);
        if parent.ready.is_empty() && owner != ROOT {
            self.stop(owner);
        }
    }
}
