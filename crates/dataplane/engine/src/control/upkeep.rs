//! What is looked after now and then, a bounded number of things in a turn: ports, taps, log lines of
//! instances that were called; and what a worker tells.

use crate::control::board::Viewer;
use crate::control::events::Event;
use crate::control::fault::Life;
use crate::control::starts::{AtOnce, Background};
use crate::state::accounting::NO_INSTANCE;
use crate::worker::{Tell, Worker};
use port::PortStatus;
use std::collections::VecDeque;
use std::sync::Arc;
use telemetry::clock::Nanos;

/// How often ports and logs are looked after.
const MAINTENANCE: Nanos = Nanos::from_millis(100);

/// The same, when there is nothing to look after.
const IDLE_MAINTENANCE: Nanos = Nanos::from_millis(1000);

/// Most instances whose logs and events are collected in one turn.
const COLLECTED_AT_ONCE: usize = 64;

/// See the module's documentation.
pub(crate) struct Upkeep {
    pub(crate) tell: Tell,
    /// When something is looked after next, and when ports are.
    pub(crate) next: Nanos,
    pub(crate) next_ports: Nanos,
    /// Instances that were called since logs were last collected.
    pub(crate) called: Vec<usize>,
    /// Instances whose starts are under way.
    pub(crate) starting: VecDeque<usize>,
    /// Where starts are made.
    pub(crate) background: Arc<dyn Background>,
    /// There are taps, which keep things back until they are flushed.
    pub(crate) tapped: bool,
    /// How readers of accounts ask.
    pub(crate) viewer: Arc<Viewer>,
    /// How many of their questions were answered.
    pub(crate) shown: u64,
}

impl Upkeep {
    pub(crate) fn new(tell: Tell, viewer: Arc<Viewer>, now: Nanos) -> Upkeep {
        Upkeep {
            tell,
            next: now,
            next_ports: now,
            called: Vec::new(),
            starting: VecDeque::new(),
            background: Arc::new(AtOnce),
            tapped: false,
            viewer,
            shown: 0,
        }
    }

    /// An instance was called: it may have something to say.
    #[inline]
    pub(crate) fn note_call(&mut self, index: usize, called: &mut bool) {
        if !std::mem::replace(called, true) {
            self.called.push(index);
        }
    }
}

impl Worker {
    /// What is looked after now and then: ports, taps, log lines of instances that were called. These are
    /// looked at a few at a time, each in its own account.
    pub(crate) fn maintain(&mut self) {
        if self.time.now.nanos >= self.upkeep.next_ports {
            self.look_after_ports();
        }
        let some = self.upkeep.called.len().min(COLLECTED_AT_ONCE);
        for index in self.upkeep.called.drain(..some).collect::<Vec<_>>() {
            let Some(instance) = self.instances.get_mut(index) else { continue };
            instance.called = false;
            self.time.switch(instance.entity);
            self.collect(index);
        }
        self.time.switch(NO_INSTANCE);
        self.upkeep.next =
            if self.upkeep.called.is_empty() { self.upkeep.next_ports } else { self.time.now.nanos };
    }

    fn look_after_ports(&mut self) {
        for n in 0..self.polling.maintained.len() {
            let number = self.polling.maintained[n];
            let Some(node) = self.ports.get_mut(number) else { continue };
            for event in node.port.maintain(self.time.now.nanos) {
                (self.upkeep.tell)(Event::Port { port: node.name.clone(), event });
            }
            self.note_link(number);
        }
        if self.upkeep.tapped {
            self.flush_taps();
        }
        let is_idle =
            self.polling.maintained.is_empty() && self.upkeep.called.is_empty() && !self.upkeep.tapped;
        self.upkeep.next_ports =
            self.time.now.nanos.saturating_add(if is_idle { IDLE_MAINTENANCE } else { MAINTENANCE });
    }

    /// Looks after ports as soon as it runs: something about their interfaces has changed.
    pub(crate) fn look_at_ports(&mut self) {
        (self.upkeep.next, self.upkeep.next_ports) = (Nanos(0), Nanos(0));
    }

    /// Looks after everything at once, when nothing runs any more.
    pub(crate) fn maintain_all(&mut self) {
        self.upkeep.next_ports = self.time.now.nanos;
        self.maintain();
        // No function is called meanwhile, so that this comes to an end.
        while !self.upkeep.called.is_empty() {
            self.maintain();
        }
    }

    /// Tells what an instance has logged and found.
    pub(crate) fn collect(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else { return };
        let kept = guest.kept_mut();
        let (lines, events) = (kept.take_log(), kept.take_events());
        for line in lines {
            (self.upkeep.tell)(Event::Log { instance: instance.name.clone(), line });
        }
        if !events.is_empty() {
            (self.upkeep.tell)(Event::Found { instance: instance.name.clone(), events });
        }
        self.tell_asks(index);
    }

    /// Tells which addresses an instance asks for.
    pub(crate) fn tell_asks(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else { return };
        let asks = guest.kept_mut().take_asks();
        if !asks.is_empty() {
            (self.upkeep.tell)(Event::Asked { instance: instance.name.clone(), asks });
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
}
