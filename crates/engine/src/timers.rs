//! What is due at its time: timers of functions, packets held too long, restarts; and what is looked after now and then.

use crate::control::Event;
use crate::fault::Life;
use crate::time::NOBODY;
use crate::worker::Worker;
use clock::Nanos;
use port::PortStatus;
use std::cmp::Reverse;
use telemetry::DropReason;

/// How often ports and logs are looked after.
const MAINTENANCE: Nanos = Nanos::from_millis(100);

/// Entries beside those of the instances' next deadlines that are kept at most.
const STALE_TIMERS: usize = 64;

/// The same, when there is nothing to look after.
const IDLE_MAINTENANCE: Nanos = Nanos::from_millis(1000);

/// How soon a timer is tried again whose function is in the middle of a call that was switched out.
const TRY_AGAIN: Nanos = Nanos(100_000);

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

    /// Forgets entries that count for nothing any more: a function may bring its deadline forward at every call.
    #[cold]
    fn tidy_timers(&mut self) {
        let instances = &self.instances;
        self.timers.retain(|Reverse((at, index))| {
            instances.get(*index as usize).is_some_and(|instance| instance.timer_at == *at)
        });
    }

    /// Runs whoever is due.
    pub(crate) fn run_timers(&mut self) {
        let now = self.now.nanos;
        while let Some(Reverse((at, index))) = self.timers.peek().copied() {
            if at > now {
                return;
            }
            self.timers.pop();
            let index = index as usize;
            let Some(instance) = self.instances.get_mut(index) else { continue };
            if instance.timer_at != at {
                continue;
            }
            instance.timer_at = Nanos::MAX;
            self.run_due(index);
        }
    }

    fn run_due(&mut self, index: usize) {
        let now = self.now;
        let mut expired = Vec::new();
        let instance = &mut self.instances[index];
        let entity = instance.entity;
        let Life::Up { guest, .. } = &mut instance.life else { return self.restart_due(index) };
        guest.slots().expire(now.nanos, &mut expired);
        let due = guest.deadline().is_some_and(|deadline| deadline <= now.nanos);
        if due && (instance.paused || instance.suspended.is_some()) {
            // It would be a second call in the middle of the first; a paused function's time stands still.
            for packet in expired.drain(..) {
                self.drop_packet(index, packet, DropReason::HoldExpired);
            }
            if !self.instances[index].paused {
                self.schedule(index, now.nanos.saturating_add(TRY_AGAIN));
            }
            return;
        }
        for packet in expired.drain(..) {
            self.drop_packet(index, packet, DropReason::HoldExpired);
        }
        if due {
            self.note_call(index);
            self.switch_account(entity);
            let called = match &mut self.instances[index].life {
                Life::Up { guest, .. } => guest.timer(self.now),
                Life::Down { .. } => Ok(()),
            };
            match called {
                Ok(()) => self.after_call(index),
                Err(fault) => self.bury(index, &fault, None),
            }
            self.switch_account(NOBODY);
        } else {
            self.after_call(index);
        }
    }

    /// What is looked after now and then: ports, taps, log lines of whoever was called.
    pub(crate) fn maintain(&mut self) {
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
        self.next_maintenance =
            self.now.nanos.saturating_add(if rests { IDLE_MAINTENANCE } else { MAINTENANCE });
        for index in std::mem::take(&mut self.called) {
            let Some(instance) = self.instances.get_mut(index) else { continue };
            instance.called = false;
            self.collect(index);
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

    /// Whether all sources have come to their end and nothing is on its way; `None` when there are no sources here.
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
        // Most have no source that ends: they need not look at everybody, each time that there is nothing to do.
        if !self.told_finished && self.sources_finished() == Some(true) && self.finished() == Some(true) {
            self.told_finished = true;
            self.tell(Event::Finished);
        }
    }
}
