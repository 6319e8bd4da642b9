//! What becomes of an instance whose guest trapped or ran too long: its packets, and its next life.

use crate::control::events::Event;
use crate::control::starts::Start;
use crate::control::tap::Passage;
use crate::ids::Holder;
use crate::state::instances::Instance;
use crate::worker::Worker;
use guest::{Guest, GuestFault};
use packet_memory::Packet;
use std::sync::Arc;
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// What happens to packets that arrive while the function is down. Those that it had when it faulted are lost
/// in any case: what they contain is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailPolicy {
    /// They are dropped.
    #[default]
    Closed,
    /// They pass to the other interface of a function that has two; otherwise they are dropped.
    Open,
}

/// When a function is started again after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Wait before the first attempt; doubled after each further one.
    pub first_delay: Nanos,
    /// Longest wait. A life of that length makes the next wait the first one again.
    pub longest_delay: Nanos,
}

impl Default for RestartPolicy {
    fn default() -> RestartPolicy {
        RestartPolicy { first_delay: Nanos::from_millis(10), longest_delay: Nanos::from_millis(5000) }
    }
}

/// Whether the guest lives.
pub(crate) enum Life {
    Up {
        guest: Box<dyn Guest>,
        since: Nanos,
        next_delay: Nanos,
    },
    Down {
        retry_at: Nanos,
        next_delay: Nanos,
        reason: String,
    },
    /// The next guest is being started beside the workers.
    Starting {
        start: Arc<Start>,
        next_delay: Nanos,
        reason: String,
    },
}

impl Worker {
    /// Ends a guest: every packet that it had is lost, that of the call with a `batch` among them, and every
    /// buffer returns at once.
    #[cold]
    pub(crate) fn on_guest_fault(&mut self, index: usize, fault: &GuestFault, batch: Option<Vec<Packet>>) {
        if let Some(batch) = &batch {
            self.show_instance(index, batch, Passage::Trapped);
        }
        self.collect(index);
        let now = self.time.now.nanos;
        let instance = &mut self.instances[index];
        let Life::Up { guest, since, next_delay } = &mut instance.life else { return };
        instance.counters.faults += 1;
        instance.counters.ledger.generated += std::mem::take(&mut guest.kept_mut().generated);
        for (sum, count) in instance.counters.former.iter_mut().zip(&guest.kept().counters) {
            *sum = sum.wrapping_add(*count);
        }
        let is_first = now.since(*since) >= instance.restart.longest_delay;
        let delay = if is_first { instance.restart.first_delay } else { *next_delay };
        let mut lost = batch.or(instance.suspended.take()).unwrap_or_default();
        guest.surrender(&mut lost);
        let owner = instance.owner.clone();
        if let Life::Up { guest, .. } = self.take_down(index, delay, fault.to_string()) {
            self.dispose(&owner, guest);
        }
        self.drop_batch(Holder::Instance(index), lost, DropReason::FunctionTrapped);
    }

    /// An instance has no guest, and the next one is started after a delay. Returns what it was before.
    pub(crate) fn take_down(&mut self, index: usize, delay: Nanos, reason: String) -> Life {
        let instance = &mut self.instances[index];
        let retry_at = self.time.now.nanos.saturating_add(delay);
        let next_delay = Nanos(delay.0.saturating_mul(2)).min(instance.restart.longest_delay);
        let down = Life::Down { retry_at, next_delay, reason: reason.clone() };
        let before = std::mem::replace(&mut instance.life, down);
        let name = instance.name.clone();
        self.schedule(index, retry_at);
        (self.upkeep.tell)(Event::Fault { instance: name, reason, retry_after: delay });
        before
    }

    /// An instance is an observer from now on, or no more: the copies that still wait for it would pass for
    /// packets then, and are missed.
    pub(crate) fn set_observer(&mut self, index: usize, observes: bool) {
        let mut copies = self.batches.spare();
        let instance = &mut self.instances[index];
        if instance.is_observer && !observes {
            instance.queue.drain(&mut copies);
            instance.counters.missed += copies.len() as u64;
        }
        instance.is_observer = observes;
        self.consume(Holder::Instance(index), copies);
    }

    /// A batch has come to an instance that is down, and goes by its policy.
    #[cold]
    pub(crate) fn bypass(&mut self, index: usize, mut batch: Vec<Packet>) {
        if !self.instances[index].taps.is_empty() {
            self.show_instance(index, &batch, Passage::Down);
        }
        // The copies that an observer was sent are waited for by no function.
        let open = self.instances[index].fail == FailPolicy::Open && !self.instances[index].is_observer;
        let source = Holder::Instance(index);
        while let Some(ingress) = batch.first().map(|packet| packet.record().ingress) {
            let alike = self.batches.take_if(&mut batch, |_, packet| packet.record().ingress == ingress);
            match other_interface(&self.instances[index], ingress).filter(|_| open) {
                Some(target) => self.hand_on(source, target, alike),
                None => self.drop_batch(source, alike, DropReason::FunctionDown),
            }
        }
        self.batches.recycle(batch);
    }
}

fn other_interface(instance: &Instance, ingress: u16) -> Option<crate::Target> {
    let [first, second] = *instance.links else { return None };
    if ingress == 0 { second } else { first }
}
