//! What is due at its time: timers of functions, packets held too long, restarts; and what is looked after
//! now and then.
//!
//! A turn takes notice of a bounded number of deadlines and calls no function for it: an instance that is due
//! waits for its turn in the scheduler. So however early a function sets its deadline, its timer runs at most
//! once in a turn, within its share.

use crate::control::Event;
use crate::fault::Life;
use crate::time::NOBODY;
use crate::worker::Worker;
use port::PortStatus;
use std::cmp::Reverse;
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// How often ports and logs are looked after.
const MAINTENANCE: Nanos = Nanos::from_millis(100);

/// Entries beside those of the instances' next deadlines that are kept at most.
const STALE_TIMERS: usize = 64;

/// The same, when there is nothing to look after.
const IDLE_MAINTENANCE: Nanos = Nanos::from_millis(1000);

/// Most deadlines that one turn takes notice of.
const DUE_AT_ONCE: usize = 256;

/// Most packets of one instance that expire in one turn.
const EXPIRED_AT_ONCE: usize = 256;

/// Most instances whose logs and events are collected in one turn.
const COLLECTED_AT_ONCE: usize = 64;

impl Worker {
    /// When the first instance is due.
    #[inline]
    pub(crate) fn next_timer(&self) -> Nanos {
        self.timers.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at)
    }

    /// The instance is due at a time, unless it is due before.
    #[inline]
    pub(crate) fn schedule(&mut self, index: usize, at: Nanos) {
        let instance = &mut self.instances[index];
        if at < instance.timer_at {
            instance.timer_at = at;
            self.timers.push(Reverse((at, index as u32)));
            if self.timers.len() > STALE_TIMERS + 2 * self.instances.len() {
                self.tidy_timers();
            }
        }
    }

    /// Forgets entries that count for nothing any more: a function may bring its deadline forward at every
    /// call.
    #[cold]
    fn tidy_timers(&mut self) {
        let instances = &self.instances;
        self.timers.retain(|Reverse((at, index))| {
            instances.get(*index as usize).is_some_and(|instance| instance.timer_at == *at)
        });
    }

    /// Takes notice of deadlines that have passed: an instance that is due has work then, and waits for its
    /// turn like one that has packets, so that its timer is charged to it and held to its weight and cap. A
    /// deadline that is set meanwhile, in the past or not, is looked at in the next turn.
    pub(crate) fn look_at_timers(&mut self) {
        let now = self.now.nanos;
        for _ in 0..DUE_AT_ONCE {
            let Some(Reverse((at, index))) =
                self.timers.peek().copied().filter(|Reverse((at, _))| *at <= now)
            else {
                return;
            };
            self.timers.pop();
            let index = index as usize;
            let Some(instance) = self.instances.get_mut(index) else { continue };
            if instance.timer_at != at {
                continue;
            }
            instance.timer_at = Nanos::MAX;
            match instance.life {
                Life::Down { .. } => self.restart_due(index),
                Life::Starting { .. } => {}
                Life::Up { .. } if instance.stands_still() => self.expire_in_pause(index),
                Life::Up { .. } => {
                    instance.due = true;
                    self.wake_instance(index);
                }
            }
        }
    }

    /// The turn of an instance that is due: gives up what it has held for too long, and calls its timer if
    /// its deadline has passed. All of it is in its account.
    #[cold]
    pub(crate) fn serve_due(&mut self, index: usize) {
        let now = self.now;
        let instance = &mut self.instances[index];
        instance.due = false;
        // The length of this call says nothing about batches.
        instance.called_with = 0;
        self.expire_held(index);
        let Life::Up { guest, .. } = &mut self.instances[index].life else { return };
        if guest.deadline().is_none_or(|deadline| deadline > now.nanos) {
            return self.after_call(index);
        }
        let called = guest.timer(now);
        self.note_call(index);
        match called {
            Ok(()) => self.after_call(index),
            Err(fault) => self.bury(index, &fault, None),
        }
    }

    /// Drops what an instance has held for too long, as much as one turn has time for.
    fn expire_held(&mut self, index: usize) {
        let mut expired = Vec::new();
        let Life::Up { guest, .. } = &mut self.instances[index].life else { return };
        guest.slots().expire(self.now.nanos, EXPIRED_AT_ONCE, &mut expired);
        for packet in expired {
            self.drop_packet(index, packet, DropReason::HoldExpired);
        }
    }

    /// A paused function's time stands still; that of packets which it holds does not.
    #[cold]
    fn expire_in_pause(&mut self, index: usize) {
        self.switch_account(self.instances[index].entity);
        self.expire_held(index);
        let Life::Up { guest, .. } = &mut self.instances[index].life else { return };
        if let Some(at) = guest.slots().next_expiry() {
            self.schedule(index, at);
        }
        self.switch_account(NOBODY);
    }

    /// What is looked after now and then: ports, taps, log lines of instances that were called. These are
    /// looked at a few at a time, each in its own account.
    pub(crate) fn maintain(&mut self) {
        if self.now.nanos >= self.next_upkeep {
            self.look_after_ports();
        }
        let some = self.called.len().min(COLLECTED_AT_ONCE);
        for index in self.called.drain(..some).collect::<Vec<_>>() {
            let Some(instance) = self.instances.get_mut(index) else { continue };
            instance.called = false;
            let entity = instance.entity;
            self.switch_account(entity);
            self.collect(index);
        }
        self.switch_account(NOBODY);
        self.next_maintenance = if self.called.is_empty() { self.next_upkeep } else { self.now.nanos };
    }

    fn look_after_ports(&mut self) {
        for n in 0..self.maintained.len() {
            let Some(node) = self.ports.get_mut(self.maintained[n]) else { continue };
            for event in node.port.maintain(self.now.nanos) {
                (self.tell)(Event::Port { port: node.name.clone(), event });
            }
        }
        if self.tapped {
            self.settle_taps();
        }
        let rests = self.maintained.is_empty() && self.called.is_empty() && !self.tapped;
        self.next_upkeep = self.now.nanos.saturating_add(if rests { IDLE_MAINTENANCE } else { MAINTENANCE });
    }

    /// Looks after everything at once, when nothing runs any more.
    pub(crate) fn maintain_all(&mut self) {
        self.next_upkeep = self.now.nanos;
        self.maintain();
        // No function is called meanwhile, so that this comes to an end.
        while !self.called.is_empty() {
            self.maintain();
        }
    }

    /// The instance was called: it may have something to say.
    #[inline]
    pub(crate) fn note_call(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        if !instance.called {
            instance.called = true;
            self.called.push(index);
        }
    }

    /// Tells what an instance has logged and found.
    pub(crate) fn collect(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else { return };
        let (lines, events) = (guest.take_log(), guest.take_events());
        for line in lines {
            (self.tell)(Event::Log { instance: instance.name.clone(), line });
        }
        if !events.is_empty() {
            (self.tell)(Event::Found { instance: instance.name.clone(), events });
        }
    }

    /// Whether all sources have come to their end and nothing is on its way; `None` when there are no sources
    /// here.
    pub(crate) fn finished(&mut self) -> Option<bool> {
        let finished = self.sources_finished();
        if finished != Some(false) && self.instances.iter_mut().any(|(_, instance)| instance.in_flight() > 0)
        {
            return Some(false);
        }
        finished
    }

    /// Whether all sources have come to their end, and nothing is on a wire to another worker.
    fn sources_finished(&self) -> Option<bool> {
        let mut finished = None;
        for (_, node) in self.ports.iter().filter(|(_, node)| node.target.is_some()) {
            if node.relay {
                if node.port.in_flight() > 0 {
                    return Some(false);
                }
                continue;
            }
            let wake = node.port.wake();
            if node.port.status() == PortStatus::Finished {
                finished = Some(true);
            } else if wake.readable.is_some() || wake.at.is_some() {
                return Some(false);
            }
        }
        finished
    }

    /// Tells once when there is nothing more to come.
    pub(crate) fn look_finished(&mut self) {
        // Most have no source that ends: they need not look at all sources, each time that there is nothing
        // to do.
        if !self.told_finished && self.sources_finished() == Some(true) && self.finished() == Some(true) {
            self.told_finished = true;
            self.tell(Event::Finished);
        }
    }
}
