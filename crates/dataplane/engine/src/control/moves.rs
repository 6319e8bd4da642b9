//! What is done to a worker's parts at a quiescent point: pausing, other claims, moving away and in.

use crate::control::fault::Life;
use crate::ids::{Holder, InstanceId, PortId, Target};
use crate::state::instances::{Instance, Policies};
use crate::state::ports::PortNode;
use crate::worker::Worker;
use cpu_share::{Claim, Standing};
use nf_abi::MAX_BATCH;
use packet_memory::Packet;
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// An instance between two workers, with what the one it comes from owes it.
pub(crate) struct Moving {
    instance: Box<Instance>,
    standing: Standing,
}

impl Moving {
    /// The instance, and what it is owed.
    pub(crate) fn apart(self) -> (Box<Instance>, Standing) {
        (self.instance, self.standing)
    }
}

impl Worker {
    /// Pauses an instance until it is resumed; packets wait in its queue.
    pub fn pause(&mut self, id: InstanceId) {
        if let Some(instance) = self.instances.get_mut(id.index()) {
            instance.paused = true;
            let (entity, was_due) = (instance.entity, std::mem::take(&mut instance.due));
            self.time.scheduler.deactivate(entity);
            if was_due {
                // What it holds expires all the same.
                self.schedule(id.index(), self.time.now.nanos);
            }
        }
    }

    /// Lets a paused instance go on.
    ///
    /// # Errors
    /// It is frozen, and has to be thawed first; it is as it was.
    pub fn resume_instance(&mut self, id: InstanceId) -> Result<(), String> {
        let Some(instance) = self.instances.get_mut(id.index()) else { return Ok(()) };
        if matches!(&instance.life, Life::Up { guest, .. } if guest.is_frozen()) {
            return Err("it has to be thawed first".to_owned());
        }
        instance.paused = false;
        if instance.has_work() {
            self.wake_instance(id.index());
        }
        // A timer that fell due meanwhile is late, and not lost.
        self.reschedule(id.index());
        Ok(())
    }

    /// Changes an instance's claim.
    pub fn set_claim(&mut self, id: InstanceId, claim: Claim) {
        if let Some(instance) = self.instances.get_mut(id.index()) {
            instance.claim = claim;
            let entity = instance.entity;
            self.time.scheduler.set_claim(entity, claim);
        }
    }

    /// Changes what holds for an instance and its guests.
    pub(crate) fn set_policies(&mut self, id: InstanceId, policies: Policies) {
        let Some(instance) = self.instances.get_mut(id.index()) else { return };
        let Policies { fail, restart, max_call, slots } = policies;
        (instance.fail, instance.restart) = (fail, restart);
        instance.factory.set_limits(max_call, slots);
        // A guest that is being started has other ones.
        instance.bounds = Some((max_call, slots));
        match &mut instance.life {
            Life::Up { guest, .. } => guest.set_limits(max_call, slots),
            Life::Down { next_delay, .. } | Life::Starting { next_delay, .. } => {
                *next_delay = (*next_delay).min(restart.longest_delay)
            }
        }
    }

    /// Takes an instance out, wires and observers cut, its queue with it.
    pub(crate) fn take_instance(&mut self, id: InstanceId) -> Option<Moving> {
        let mut instance = self.instances.remove(id.index())?;
        self.upkeep.called.retain(|number| *number != id.index());
        self.upkeep.starting.retain(|number| *number != id.index());
        self.timers.due.remove(&(instance.timer_at, id.index()));
        (instance.called, instance.timer_at, instance.due) = (false, Nanos::MAX, false);
        let standing = self.time.scheduler.remove(instance.entity);
        instance.links.iter_mut().for_each(|link| *link = None);
        instance.observers.clear();
        instance.feeds.clear();
        instance.more_outside = false;
        (instance.handed_by, instance.throttled_by, instance.waits_for) = (usize::MAX, None, None);
        Some(Moving { instance, standing })
    }

    /// Takes an instance in that comes from another worker.
    pub(crate) fn put_instance(&mut self, moving: Moving) -> InstanceId {
        let Moving { mut instance, standing } = moving;
        instance.entity = self.time.scheduler.add_with(instance.tenant, instance.claim, standing);
        instance.batch = instance.batch.min(self.settings.batch);
        let id = self.insert_instance(instance);
        self.reschedule(id.index());
        self.await_start(id.index());
        if self.instances[id.index()].has_work() {
            self.wake_instance(id.index());
        }
        id
    }

    /// Takes a port out, its wire and observers cut.
    pub(crate) fn take_port(&mut self, id: PortId) -> Option<Box<PortNode>> {
        self.polling.maintained.retain(|number| *number != id.index());
        let mut node = self.ports.remove(id.index())?;
        node.observers.clear();
        Some(node)
    }

    /// Enters an instance's deadlines again.
    pub(crate) fn reschedule(&mut self, index: usize) {
        match &self.instances[index].life {
            Life::Up { .. } => self.after_call(index),
            Life::Down { retry_at, .. } => {
                let retry_at = *retry_at;
                self.schedule(index, retry_at);
            }
            Life::Starting { .. } => {}
        }
    }

    /// Hands everything in a relay on to where it leads. For once a queue may become longer than it
    /// should: nothing is lost by a move.
    pub(crate) fn absorb_relay(&mut self, id: PortId) {
        let Some(node) = self.ports.get_mut(id.index()) else { return };
        let Some(relay) = node.port.relay() else { return };
        let mut waiting = Vec::new();
        relay.drain(&mut waiting);
        let Some(target) = node.target else { return };
        let (source, pool) = (Holder::Port(id.index()), node.pool);
        if let Target::Instance(to, interface) = target {
            self.bring(source, pool, Holder::Instance(to.index()), &mut waiting);
            return self.enqueue_beyond(to.index(), interface, waiting);
        }
        while !waiting.is_empty() {
            let rest = waiting.split_off(waiting.len().min(MAX_BATCH));
            self.hand_on(source, target, waiting);
            waiting = rest;
        }
    }

    /// Puts packets into an instance's queue, whether there is room or not.
    pub(crate) fn enqueue_beyond(&mut self, to: usize, interface: u16, packets: Vec<Packet>) {
        for mut packet in packets {
            let budget = packet.record().hop_budget;
            if budget == 0 {
                self.drop_batch(Holder::Instance(to), vec![packet], DropReason::HopBudget);
                continue;
            }
            packet.edit(|record| (record.ingress, record.hop_budget) = (interface, budget - 1));
            let mut one = self.batches.spare();
            one.push(packet);
            self.instances[to].queue.push_batch(one, &mut self.batches.spare);
        }
        if !self.instances[to].queue.is_empty() {
            self.wake_instance(to);
        }
    }
}
