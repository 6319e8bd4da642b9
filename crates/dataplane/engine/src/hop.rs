//! One hop: an instance is shown its next batch, and its verdicts are carried out, all in that instance's
//! account.

use crate::fault::Life;
use crate::ids::{PoolId, Target};
use crate::switching::Source;
use crate::tap::Passage;
use crate::worker::Worker;
use guest::{Answers, BAD_VERDICT, GuestFault, LeftOver, Progress};
use nf_abi::Verdict;
use packet_memory::Packet;
use telemetry::DropReason;
use telemetry::clock::Nanos;

impl Worker {
    /// Runs the oldest batch of an instance. Returns the instance that all of its packets went on to, if that
    /// is so and it may run at once.
    pub(crate) fn hop(&mut self, index: usize) -> Option<usize> {
        let instance = &mut self.instances[index];
        if instance.suspended.is_some() {
            return self.resume(index);
        }
        if instance.due {
            self.serve_due(index);
            return None;
        }
        if instance.queue.is_empty() && !self.poll_feeds(index) {
            return None;
        }
        let instance = &mut self.instances[index];
        let mut batch = instance.queue.pop(instance.batch, &mut self.spare)?;
        if !instance.feeds.is_empty() {
            self.remember_feeds(index);
        }
        if !self.instances[index].observers.is_empty() {
            self.show_to_observers(index, &batch);
        }
        let now = self.now;
        if !self.instances[index].taps.is_empty() {
            self.show_instance(index, &batch, Passage::Arrived);
        }
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else {
            if !instance.taps.is_empty() {
                self.show_instance(index, &batch, Passage::Down);
            }
            self.pass_by(index, batch);
            return None;
        };
        instance.counters.calls += 1;
        instance.counters.packets += batch.len() as u64;
        instance.called_with = batch.len();
        self.calls.count(batch.len(), instance.batch);
        if !instance.called {
            instance.called = true;
            self.called.push(index);
        }

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
        let processed = guest.process(&mut batch, now);
        self.conclude(index, batch, processed)
    }

    /// Goes on with a call that was switched out.
    #[cold]
    fn resume(&mut self, index: usize) -> Option<usize> {
        let instance = &mut self.instances[index];
        let mut batch = instance.suspended.take()?;
        let Life::Up { guest, .. } = &mut instance.life else {
            // A guest that faulted has given up its batch already.
            self.pass_by(index, batch);
            return None;
        };
        let processed = guest.resume(&mut batch, self.now);
        self.conclude(index, batch, processed)
    }

    /// A call has come to its end, or to a stop on the way.
    #[inline]
    fn conclude(
        &mut self,
        index: usize,
        batch: Vec<Packet>,
        processed: Result<Progress, GuestFault>,
    ) -> Option<usize> {
        let instance = &mut self.instances[index];
        let answers = match processed {
            Ok(Progress::Done(answers)) => Ok(answers),
            Ok(Progress::Suspended) => {
                instance.counters.suspensions += 1;
                instance.suspended = Some(batch);
                return None;
            }
            Err(fault) => Err(fault),
        };
        if !instance.taps.is_empty() {
            let passage = if answers.is_ok() { Passage::Decided } else { Passage::Trapped };
            self.show_instance(index, &batch, passage);
        }
        self.instances[index].received = batch.first().map_or(0, |packet| packet.record().timestamp);
        match answers {
            Ok(answers) => {
                let next = self.carry_out(index, batch, answers);
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
    fn carry_out(&mut self, index: usize, mut batch: Vec<Packet>, answers: Answers) -> Option<usize> {
        let first = batch.first()?.record().verdict;
        // Mostly all packets of a batch go the same way; then the batch moves as a whole.
        let target = match Verdict::decode(first) {
            Some(Verdict::Interface(k)) => self.instances[index].links.get(usize::from(k)).copied().flatten(),
            _ => None,
        };
        let whole = answers.alike;
        self.instances[index].counters.bytes += answers.bytes;
        match target {
            Some(Target::Instance(to, interface)) if whole => {
                if address_to(&mut batch, interface) {
                    match self.enqueue_batch(self.instances[index].pool, to, batch) {
                        Ok(next) => return next,
                        Err(refused) => batch = refused,
                    }
                }
                address_back(&mut batch, interface);
            }
            Some(Target::Port(port))
                if whole && self.transmit_batch(self.instances[index].pool, port, &mut batch) =>
            {
                self.spare.push(batch);
                return None;
            }
            Some(Target::Switch(id, from)) if whole => {
                return self.switch_batch(Source::Instance(index), id, from, batch);
            }
            _ => {}
        }
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
                Some(target) => self.forward(Source::Instance(index), packet, target),
                None => self.drop_packet(index, packet, DropReason::NoRoute),
            },
            Some(Verdict::Service(id)) => match self.service(self.instances[index].tenant, id) {
                Some(target) => {
                    packet.edit(|record| record.service_id = id);
                    self.forward(Source::Instance(index), packet, target);
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
        let LeftOver { due, has_emitted } = guest.left_over();
        if due < Nanos::MAX {
            self.schedule(index, due);
        }
        if !has_emitted {
            return;
        }
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else { return };
        instance.counters.ledger.generated += guest.take_generated();
        let emitted = std::mem::take(guest.take_emitted());
        if !instance.taps.is_empty() {
            self.show_instance(index, &emitted, Passage::Emitted);
        }
        for packet in emitted {
            self.route(index, packet);
        }
        self.flush_ports();
    }

    /// Shows a batch, which stays its owner's, to the observers of the instance.
    fn show_to_observers(&mut self, index: usize, batch: &[Packet]) {
        let owner = self.instances[index].pool;
        for n in 0..self.instances[index].observers.len() {
            let observer = self.instances[index].observers[n];
            let seen = observer.instance.index();
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
        if !matches!(instance.life, Life::Up { .. }) || instance.suspended.is_some() {
            instance.counters.missed += packets.len() as u64;
            return;
        }
        let (entity, at_once) = (instance.entity, instance.pool == owner && !instance.stands_still());
        // What it was sent before comes first.
        let at_once = at_once && instance.queue.is_empty();
        let owner_account = self.switch_account(entity);
        if at_once && self.scheduler.hand_off(entity, self.now.cycles) {
            let instance = &mut self.instances[index];
            instance.counters.calls += 1;
            instance.counters.packets += packets.len() as u64;
            instance.counters.count_bytes(packets);
            if !instance.called {
                instance.called = true;
                self.called.push(index);
            }
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

/// Addresses packets to the next instance's interface, in one pass without a branch. Whether every packet had
/// a hop left: more than [`nf_abi::HOP_BUDGET`], which is half of what the field can tell, it never has.
#[inline]
fn address_to(batch: &mut [Packet], interface: u16) -> bool {
    let mut left = 0;
    for packet in batch {
        packet.edit(|record| {
            record.ingress = interface;
            record.hop_budget = record.hop_budget.wrapping_sub(1);
            left |= record.hop_budget;
        });
    }
    left < nf_abi::HOP_BUDGET
}

/// Takes the hop back that [`address_to`] counted: the packets go their ways one by one, and it is counted
/// there.
#[cold]
fn address_back(batch: &mut [Packet], interface: u16) {
    for packet in batch {
        debug_assert_eq!(packet.record().ingress, interface);
        packet.edit(|record| record.hop_budget = record.hop_budget.wrapping_add(1));
    }
}
