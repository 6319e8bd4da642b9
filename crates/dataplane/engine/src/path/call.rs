//! The call: an instance gets its oldest batch, after its observers, all in its own account.

use crate::control::fault::Life;
use crate::control::tap::Passage;
use crate::ids::PoolId;
use crate::worker::Worker;
use guest::{GuestFault, LeftOver, Progress};
use packet_memory::Packet;
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
        let mut batch = instance.queue.pop(instance.batch, &mut self.batches.spare)?;
        if !instance.feeds.is_empty() {
            self.remember_feeds(index);
        }
        if !self.instances[index].observers.is_empty() {
            self.show_to_observers(index, &batch);
        }
        let now = self.time.now;
        if !self.instances[index].taps.is_empty() {
            self.show_instance(index, &batch, Passage::Arrived);
        }
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else {
            if !instance.taps.is_empty() {
                self.show_instance(index, &batch, Passage::Down);
            }
            self.bypass(index, batch);
            return None;
        };
        instance.counters.calls += 1;
        instance.counters.packets += batch.len() as u64;
        instance.called_with = batch.len();
        self.time.calls.count(batch.len(), instance.batch);
        self.upkeep.note_call(index, &mut instance.called);

        if instance.is_observer {
            // What an observer is sent is its own copy, and ends here.
            instance.counters.count_bytes(&batch);
            let observed = guest.observe(&batch, now);
            instance.counters.ledger.consumed += batch.len() as u64;
            self.free(index, batch);
            match observed {
                Ok(()) => self.after_call(index),
                Err(fault) => self.on_guest_fault(index, &fault, None),
            }
            return None;
        }
        let processed = guest.process(&mut batch, now);
        self.end_call(index, batch, processed)
    }

    /// Goes on with a call that was switched out.
    #[cold]
    fn resume(&mut self, index: usize) -> Option<usize> {
        let instance = &mut self.instances[index];
        let mut batch = instance.suspended.take()?;
        let Life::Up { guest, .. } = &mut instance.life else {
            // A guest that faulted has given up its batch already.
            self.bypass(index, batch);
            return None;
        };
        let processed = guest.resume(&mut batch, self.time.now);
        self.end_call(index, batch, processed)
    }

    /// A call has come to its end, or to a stop on the way.
    #[inline]
    fn end_call(
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
        instance.received = batch.first().map_or(0, |packet| packet.record().timestamp);
        if !instance.taps.is_empty() {
            let passage = if answers.is_ok() { Passage::Decided } else { Passage::Trapped };
            self.show_instance(index, &batch, passage);
        }
        match answers {
            Ok(answers) => {
                let next = self.carry_out(index, batch, answers);
                self.after_call(index);
                next
            }
            Err(fault) => {
                self.on_guest_fault(index, &fault, Some(batch));
                None
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
        let owner_account = self.time.switch(entity);
        if at_once && self.time.scheduler.hand_off(entity, self.time.now.cycles) {
            let instance = &mut self.instances[index];
            instance.counters.calls += 1;
            instance.counters.packets += packets.len() as u64;
            instance.counters.count_bytes(packets);
            self.upkeep.note_call(index, &mut instance.called);
            if let Life::Up { guest, .. } = &mut instance.life {
                match guest.observe(packets, self.time.now) {
                    Ok(()) => self.after_call(index),
                    Err(fault) => self.on_guest_fault(index, &fault, None),
                }
            }
        } else {
            self.copy_to_observer(index, packets, owner);
        }
        self.time.switch(owner_account);
    }
}
