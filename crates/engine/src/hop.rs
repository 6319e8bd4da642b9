//! One hop: an instance is shown its next batch, and its verdicts are carried out, all in that instance's account.

use crate::fault::Life;
use crate::worker::{PoolId, Worker};
use guest::BAD_VERDICT;
use nf_abi::Verdict;
use packet_memory::Packet;
use telemetry::DropReason;

impl Worker {
    /// Runs the oldest batch of an instance. Returns the instance that all of its packets went on to, if that is so
    /// and it may run at once.
    pub(crate) fn hop(&mut self, index: usize) -> Option<usize> {
        let mut batch = self.instances[index].queue.pop()?;
        if !self.instances[index].observers.is_empty() {
            self.show_to_observers(index, &batch);
        }
        let now = self.now;
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else {
            self.pass_by(index, batch);
            return None;
        };
        instance.counters.calls += 1;
        instance.counters.packets += batch.len() as u64;

        if instance.is_observer {
            // What an observer is sent is its own copy, and ends here.
            instance.counters.count_bytes(&batch);
            let observed = guest.observe(&batch, now);
            instance.counters.ledger.consumed += batch.len() as u64;
            self.free(index, batch);
            match observed {
                Ok(()) => self.after_call(index),
                Err(fault) => self.bury(index, &fault, None),
            }
            return None;
        }
        match guest.process(&mut batch, now) {
            Ok(()) => {
                let next = self.carry_out(index, batch);
                self.after_call(index);
                next
            }
            Err(fault) => {
                self.bury(index, &fault, Some(batch));
                None
            }
        }
    }

    /// Carries out the verdicts of a batch.
    #[inline]
    fn carry_out(&mut self, index: usize, batch: Vec<Packet>) -> Option<usize> {
        // Mostly all packets of a batch go the same way; then the batch moves as a whole. One pass without a branch
        // tells, and adds the lengths on its way.
        let first = batch.first()?.record().verdict;
        let (mut differ, mut bytes) = (0, 0);
        for packet in &batch {
            differ |= packet.record().verdict ^ first;
            bytes += u64::from(packet.length());
        }
        self.instances[index].counters.bytes += bytes;
        if differ == 0
            && let Some(Verdict::Interface(k)) = Verdict::decode(first)
            && let Some(target) = self.instances[index].links[usize::from(k)]
        {
            return self.forward_batch(index, batch, target);
        }
        let mut batch = batch;
        for packet in batch.drain(..) {
            self.route(index, packet);
        }
        self.spare.push(batch);
        self.flush_ports();
        None
    }

    /// Carries out the verdict of one packet.
    pub(crate) fn route(&mut self, index: usize, mut packet: Packet) {
        let instance = &mut self.instances[index];
        let verdict = packet.record().verdict;
        match Verdict::decode(verdict) {
            Some(Verdict::Interface(k)) => match instance.links.get(usize::from(k)).copied().flatten() {
                Some(target) => self.forward(index, packet, target),
                None => self.drop_packet(index, packet, DropReason::NoRoute),
            },
            Some(Verdict::Service(id)) => match self.services.get(&id).copied() {
                Some(target) => {
                    packet.edit(|record| record.service_id = id);
                    self.forward(index, packet, target);
                }
                None => self.drop_packet(index, packet, DropReason::UnknownService),
            },
            Some(Verdict::Hold(slot)) => {
                let Life::Up { guest, .. } = &mut instance.life else {
                    return self.drop_packet(index, packet, DropReason::FunctionDown);
                };
                if let Err((packet, _)) = guest.slots().keep(slot, packet, self.now.nanos) {
                    self.drop_packet(index, packet, DropReason::HoldQuota);
                }
            }
            Some(Verdict::Drop(reason)) => {
                if let Some(count) = instance.counters.own_drops.get_mut(usize::from(reason)) {
                    *count += 1;
                }
                self.drop_packet(index, packet, DropReason::Function);
            }
            Some(Verdict::Consume) => {
                instance.counters.ledger.consumed += 1;
                self.free(index, [packet]);
            }
            Some(Verdict::None) => self.drop_packet(index, packet, DropReason::NoVerdict),
            None => {
                debug_assert_eq!(verdict, BAD_VERDICT);
                self.drop_packet(index, packet, DropReason::BadVerdict);
            }
        }
    }

    /// What a call leaves behind beside verdicts: packets given up or made, a new deadline.
    #[inline]
    pub(crate) fn after_call(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else { return };
        let due = [guest.deadline(), guest.slots().next_expiry()];
        for deadline in due.into_iter().flatten() {
            self.next_timer = self.next_timer.min(deadline);
        }
        if guest.take_emitted().is_empty() {
            return;
        }
        instance.counters.ledger.generated += guest.take_generated();
        let emitted = std::mem::take(guest.take_emitted());
        for packet in emitted {
            self.route(index, packet);
        }
        self.flush_ports();
    }

    /// Shows a batch, which stays its owner's, to those who observe the instance.
    fn show_to_observers(&mut self, index: usize, batch: &[Packet]) {
        let owner = self.instances[index].pool;
        for n in 0..self.instances[index].observers.len() {
            let observer = self.instances[index].observers[n];
            let seen = observer.instance.0 as usize;
            match observer.interface {
                None => self.show(seen, batch, owner),
                Some(interface) => {
                    // Runs of packets that came in by the interface observed.
                    let by_interface = |packet: &Packet| packet.record().ingress == interface;
                    for run in batch.chunk_by(|a, b| by_interface(a) == by_interface(b)) {
                        if run.first().is_some_and(by_interface) {
                            self.show(seen, run, owner);
                        }
                    }
                }
            }
        }
    }

    fn show(&mut self, index: usize, packets: &[Packet], owner: PoolId) {
        let instance = &mut self.instances[index];
        if matches!(instance.life, Life::Down { .. }) {
            instance.counters.missed += packets.len() as u64;
            return;
        }
        let (entity, pool) = (instance.entity, instance.pool);
        let owner_account = self.switch_account(entity);
        if pool == owner && self.scheduler.hand_off(entity) {
            let instance = &mut self.instances[index];
            instance.counters.calls += 1;
            instance.counters.packets += packets.len() as u64;
            instance.counters.count_bytes(packets);
            if let Life::Up { guest, .. } = &mut instance.life {
                match guest.observe(packets, self.now) {
                    Ok(()) => self.after_call(index),
                    Err(fault) => self.bury(index, &fault, None),
                }
            }
        } else {
            self.copy_to_observer(index, packets, owner);
        }
        self.switch_account(owner_account);
    }
}
