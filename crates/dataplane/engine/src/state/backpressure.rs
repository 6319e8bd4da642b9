//! Backpressure: the instance at the head of a chain fetches nothing while one behind it has more than it can
//! do. Packets wait outside, or are lost there, before work was put into them (the back pressure of NFVnice).
//!
//! An instance that hands packets to one whose queue is more than half full (its high watermark), or that is
//! throttled itself, is throttled. That goes up the chain at once, to the instance that handed it its last
//! batch and so on, as far as the instance that polls ports: a long chain holds no more than fits. What is in
//! the chain then goes on as far as there is room: an instance that would hand packets to one that has none
//! waits, unless that one waits for it in its turn, or does not work.
//!
//! A wire to another worker is like such a queue: an instance that finds it more than half full is throttled,
//! and one that finds it full waits. What comes over a wire has had work put into it: a throttled instance
//! takes it all the same, as long as its own queue has room. That another worker has stopped taking anything,
//! or waits in a circle, cannot be seen from here. So no instance waits for longer than [`WIRE_WAIT`] for
//! a wire on which nothing moves; from then on what finds no room is lost, and counted, until half of it is
//! free.
//!
//! A port behind which a process takes packets from a ring ([`Port::capacity`](port::Port::capacity)) is like
//! such a wire: what leads to it is throttled, or not polled, and what it brings is taken all the same. The
//! process wakes no worker when it has made room; one that sleeps looks again every 20 us.
//!
//! Where an instance picks the way at run time, by a service or a switch with more than two ends, it alone is
//! held up: it waits while the receiver that it handed packets to has no room for a batch, and works. Nothing
//! goes up the chain, where packets may take other ways, before its own queue fills; and a receiver that
//! stands still stops none that sends to others. Processes behind such a switch are not waited for.
//!
//! That is for functions that belong together. Between tenants no sender is throttled: a receiver that takes
//! too long loses packets itself, and cannot stop instances of others. A function with a pool of its own is
//! its tenant's.
//!
//! So nothing is lost in a chain that packets pass one way, on one worker or several. Functions in a circle
//! lose what is too much: a chain on one worker whose both directions are overloaded is one.

use crate::control::fault::Life;
use crate::ids::{Holder, PoolId, Target};
use crate::state::accounting::NO_CALLER;
use crate::worker::Worker;
use telemetry::clock::{Clock, Cycles, Nanos};

/// Longest time to wait for room in a wire from which nothing is taken.
pub(crate) const WIRE_WAIT: Nanos = Nanos::from_millis(100);

/// How long an instance that hands packets to a wire waits for room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WireWait {
    /// How much room there was when that changed last, and when that was.
    seen: Option<(usize, Cycles)>,
    /// It has come to its end: what finds no room is lost.
    pub(crate) over: bool,
}

impl WireWait {
    /// Whether to wait for more room than this.
    pub(crate) fn lasts(&mut self, room: usize, now: Cycles, limit: Cycles) -> bool {
        let since = self.seen.filter(|(seen, _)| *seen == room).map_or(now, |(_, since)| since);
        self.seen = Some((room, since));
        self.over |= now.since(since) >= limit;
        !self.over
    }
}

/// What waits for room, and what is filling up.
///
/// What holds: an instance in `waiting` has `waits_for` set and is not in the scheduler's queue; a wire in
/// `congested` was above its high watermark when it was last looked at.
pub(crate) struct Backpressure {
    /// Wires to other workers that were more than half full when they were last looked at.
    pub(crate) congested: Vec<usize>,
    /// Instances that wait for others to have room.
    pub(crate) waiting: Vec<usize>,
    wire_wait: Cycles,
}

impl Backpressure {
    pub(crate) fn new(clock: &Clock) -> Backpressure {
        Backpressure { congested: Vec::new(), waiting: Vec::new(), wire_wait: clock.cycles(WIRE_WAIT) }
    }
}

impl Worker {
    /// Whether packets of two pools are one tenant's.
    #[inline]
    pub(crate) fn have_one_owner(&self, one: PoolId, other: PoolId) -> bool {
        self.owners[usize::from(one.0)] == self.owners[usize::from(other.0)]
    }

    /// Notes whether a wire that the running instance has handed packets to is filling up.
    #[inline]
    pub(crate) fn note_congested_wire(&mut self, wire: usize) {
        let (sender, ahead, node) = (self.time.current, Holder::Port(wire), &self.ports[wire]);
        let leads = |relay| if relay { self.is_own(sender, ahead) } else { self.leads_to(sender, ahead) };
        if node.port.room() >= node.watermark {
            self.ports[wire].wait = WireWait::default();
        } else if node.is_responsive() && (sender == NO_CALLER || leads(node.relay)) {
            if !self.backpressure.congested.contains(&wire) {
                self.backpressure.congested.push(wire);
            }
            self.throttle(sender, ahead);
        }
    }

    /// Takes those from the congested wires that are so no more, or that nothing moves on.
    pub(crate) fn forget_free_wires(&mut self) {
        let (now, limit, ports) = (self.time.now.cycles, self.backpressure.wire_wait, &mut self.ports);
        self.backpressure.congested.retain(|wire| {
            let node = ports.get_mut(*wire).filter(|node| node.is_filling_up());
            node.is_some_and(|node| node.wait.lasts(node.port.room(), now, limit) || node.relay)
        });
    }

    /// Throttles an instance, and those from which its packets come. Where the running one has picked its way
    /// itself, it alone is.
    #[cold]
    pub(crate) fn throttle(&mut self, mut sender: usize, mut to: Holder) {
        // No chain is longer than packets may hop.
        for _ in 0..nf_abi::HOP_BUDGET {
            // The instance that handed packets on may be gone by now, and another one in its place.
            let picked = !self.leads_to(sender, to);
            if picked && sender != self.time.current {
                return;
            }
            let Some(instance) = self.instances.get_mut(sender) else { return };
            instance.picked = picked;
            if instance.throttled_by.replace(to) == Some(to) || picked {
                return;
            }
            (to, sender) = (Holder::Instance(sender), instance.handed_by);
        }
    }

    /// Whether an instance is there, and what is ahead of it its tenant's: something else may have come to
    /// either's place.
    fn is_own(&self, index: usize, ahead: Holder) -> bool {
        let is_own = |pool| self.instances.get(index).is_some_and(|it| self.have_one_owner(it.pool, pool));
        match ahead {
            Holder::Instance(next) => self.instances.get(next).is_some_and(|receiver| is_own(receiver.pool)),
            Holder::Port(wire) => self.ports.get(wire).is_some_and(|node| is_own(node.pool)),
        }
    }

    /// Whether an instance is there and wired to the next one of its tenant, be it over a switch without
    /// other ends.
    fn leads_to(&self, index: usize, ahead: Holder) -> bool {
        let leads = |link: &Target| self.only_end(*link) == Some(ahead);
        self.is_own(index, ahead) && self.instances[index].links.iter().flatten().any(leads)
    }

    /// Whether the chain from an instance on is congested: where it is, is followed. One that has picked its
    /// way goes on with others.
    #[cold]
    pub(crate) fn find_congestion(&self, mut index: usize) -> bool {
        // No chain is longer than packets may hop.
        for _ in 0..nf_abi::HOP_BUDGET {
            let ahead = self.instances.get(index).filter(|it| !it.picked).and_then(|it| it.throttled_by);
            let next = match ahead.filter(|ahead| self.is_own(index, *ahead)) {
                Some(Holder::Instance(next)) => next,
                Some(Holder::Port(wire)) => {
                    return self.ports.get(wire).is_some_and(|node| node.is_filling_up());
                }
                None => return false,
            };
            if self.instances.get(next).is_some_and(|receiver| receiver.queue.is_congested()) {
                return true;
            }
            index = next;
        }
        false
    }

    /// Whether an instance that polls ports should leave what comes outside. When that is over, what
    /// throttled it and those behind it is forgotten.
    #[inline]
    pub(crate) fn is_throttled(&mut self, index: usize) -> bool {
        if self.instances[index].throttled_by.is_none() || self.instances[index].picked {
            return false;
        }
        let throttled = self.find_congestion(index);
        let mut next = Some(index).filter(|_| !throttled);
        while let Some(instance) = next.and_then(|index| self.instances.get_mut(index)) {
            let Some(Holder::Instance(ahead)) = instance.throttled_by.take() else { break };
            next = Some(ahead);
        }
        throttled
    }

    /// Whether an instance has to wait until there is room for what it hands on. It is woken when there is.
    #[inline]
    pub(crate) fn waits_for_room(&mut self, index: usize) -> bool {
        match self.instances[index].throttled_by {
            Some(to) => self.look_for_room(index, to),
            None => !self.backpressure.congested.is_empty() && self.look_at_congested_wires(index),
        }
    }

    /// Whether an instance has to wait that has not noticed yet how full the wire is that it leads to: others
    /// have filled it. An instance that reaches a wire through a switch notices with its next batch.
    #[cold]
    pub(crate) fn look_at_congested_wires(&mut self, index: usize) -> bool {
        let leads = |wire: &&usize| self.leads_to(index, Holder::Port(**wire));
        let Some(wire) = self.backpressure.congested.iter().find(leads).copied() else { return false };
        self.throttle(index, Holder::Port(wire));
        self.look_for_room(index, Holder::Port(wire))
    }

    #[cold]
    fn look_for_room(&mut self, index: usize, to: Holder) -> bool {
        let waits = match to {
            Holder::Instance(next) => self.instances.get(next).is_some_and(|receiver| {
                let works = !receiver.paused && matches!(receiver.life, Life::Up { .. });
                works && !receiver.queue.is_empty() && receiver.queue.room() < self.settings.batch
            }),
            Holder::Port(wire) => self.waits_for_wire(wire),
        };
        let waits = waits && self.is_own(index, to) && !self.waits_in_circle(index, to);
        let instance = &mut self.instances[index];
        if instance.picked && !waits {
            instance.throttled_by = None;
        }
        if waits && instance.waits_for.replace(to).is_none() {
            self.backpressure.waiting.push(index);
        }
        waits
    }

    /// Whether a wire has no room for a batch, and one more of an instance that has not noticed yet, and it
    /// is not vain to wait for it.
    fn waits_for_wire(&mut self, wire: usize) -> bool {
        let enough = 2 * self.settings.batch;
        let Some(node) = self.ports.get_mut(wire) else { return false };
        let room = node.port.room();
        if room >= enough {
            node.wait.seen = None;
            return false;
        }
        node.wait.lasts(room, self.time.now.cycles, self.backpressure.wire_wait)
    }

    /// Wires to other workers that an instance waits for.
    pub(crate) fn awaited_wires(&self) -> impl Iterator<Item = usize> {
        self.backpressure.waiting.iter().filter_map(|index| match self.instances.get(*index)?.waits_for? {
            Holder::Port(wire) if self.ports.get(wire).is_some() => Some(wire),
            Holder::Port(_) | Holder::Instance(_) => None,
        })
    }

    /// When an instance that waits for a wire goes on at the latest, if it is not woken before.
    pub(crate) fn room_expected(&self, wire: usize) -> Nanos {
        let node = &self.ports[wire];
        match node.wait.seen {
            Some((_, since)) if node.port.room() < 2 * self.settings.batch => {
                self.time.clock.nanos(since + self.backpressure.wire_wait)
            }
            _ => Nanos(0),
        }
    }

    /// Whether an instance waits, others in between or not, for the one that is about to wait for it.
    fn waits_in_circle(&self, index: usize, to: Holder) -> bool {
        let next = |ahead: &Holder| match ahead {
            Holder::Instance(next) => self.instances.get(*next)?.waits_for,
            Holder::Port(_) => None,
        };
        // No instance waits for itself, so that this comes to an end.
        std::iter::successors(Some(to), next).any(|ahead| ahead == Holder::Instance(index))
    }

    /// Wakes the instances that wait no longer for room.
    pub(crate) fn release_waiting(&mut self) {
        self.forget_free_wires();
        for index in std::mem::take(&mut self.backpressure.waiting) {
            let waited = self.instances.get_mut(index).and_then(|instance| instance.waits_for.take());
            if waited.is_some_and(|to| !self.look_for_room(index, to)) {
                self.wake_instance(index);
            }
        }
    }
}
