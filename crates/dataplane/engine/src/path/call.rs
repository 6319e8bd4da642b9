//! The call: an instance gets its oldest batch, after its observers, all in its own account.

use crate::control::fault::Life;
use crate::control::tap::Passage;
use crate::path::deliver::HandOff;
use crate::path::observers::Seen;
use crate::worker::Worker;
use guest::{GuestFault, LeftOver, Progress};
use packet_memory::Packet;
use telemetry::clock::Nanos;

impl Worker {
    /// Calls an instance with a batch that it was handed, or with the oldest one that waits. Returns the
    /// instance that all of its packets went on to, if that is so and it may run at once.
    #[inline(always)]
    pub(crate) fn hop(&mut self, index: usize, handed: Option<Vec<Packet>>) -> Option<HandOff> {
        let instance = &mut self.instances[index];
        let mut batch = match handed {
            Some(batch) => batch,
            None if instance.suspended.is_some() => return self.resume(index),
            None if instance.due => {
                self.serve_due(index);
                return None;
            }
            None if instance.queue.is_empty() && !self.poll_feeds(index) => return None,
            None => {
                let instance = &mut self.instances[index];
                instance.queue.pop(instance.batch, &mut self.batches.spare)?
            }
        };
        if !self.instances[index].is_plain() {
            self.before_call(index, &batch);
        }
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else {
            self.pass_down(index, batch);
            return None;
        };
        instance.counters.calls += 1;
        instance.counters.packets += batch.len() as u64;
        instance.called_with = batch.len();
        self.time.calls.count(batch.len(), instance.batch);
        self.upkeep.note_call(index, &mut instance.called);
        if instance.is_observer {
            let observed = guest.observe(&batch, self.time.now);
            self.end_observed(index, batch, observed);
            return None;
        }
        let processed = guest.process(&mut batch, self.time.now);
        self.end_call(index, batch, processed)
    }

    /// What is done with a batch before the call: its feeds are remembered, and observers and taps see it.
    fn before_call(&mut self, index: usize, batch: &[Packet]) {
        if !self.instances[index].feeds.is_empty() {
            self.remember_feeds(index);
        }
        let owner = self.instances[index].pool;
        self.show_at(Seen::Instance(index), batch, owner, |_, _| true);
        if !self.instances[index].taps.is_empty() {
            self.show_instance(index, batch, Passage::Arrived);
        }
    }

    /// What an observer was sent are its own copies, which end here.
    fn end_observed(&mut self, index: usize, batch: Vec<Packet>, observed: Result<(), GuestFault>) {
        let counters = &mut self.instances[index].counters;
        counters.count_bytes(&batch);
        counters.ledger.consumed += batch.len() as u64;
        self.free(index, batch);
        match observed {
            Ok(()) => self.after_call(index),
            Err(fault) => self.on_guest_fault(index, &fault, None),
        }
    }

    /// What comes for an instance that is down goes by its policy.
    #[cold]
    fn pass_down(&mut self, index: usize, batch: Vec<Packet>) {
        if !self.instances[index].taps.is_empty() {
            self.show_instance(index, &batch, Passage::Down);
        }
        self.bypass(index, batch);
    }

    /// Goes on with a call that was switched out.
    #[cold]
    fn resume(&mut self, index: usize) -> Option<HandOff> {
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
    #[inline(always)]
    fn end_call(
        &mut self,
        index: usize,
        batch: Vec<Packet>,
        processed: Result<Progress, GuestFault>,
    ) -> Option<HandOff> {
        let instance = &mut self.instances[index];
        let answers = match processed {
            Ok(Progress::Done(answers)) => answers,
            Ok(Progress::Suspended) => {
                instance.counters.suspensions += 1;
                instance.suspended = Some(batch);
                return None;
            }
            Err(fault) => {
                self.end_faulted(index, batch, &fault);
                return None;
            }
        };
        instance.received = batch.first().map_or(0, |packet| packet.record().timestamp);
        if !instance.taps.is_empty() {
            self.show_instance(index, &batch, Passage::Decided);
        }
        self.carry_out(index, batch, answers)
    }

    /// A call has ended before its time.
    #[cold]
    fn end_faulted(&mut self, index: usize, batch: Vec<Packet>, fault: &GuestFault) {
        let instance = &mut self.instances[index];
        instance.received = batch.first().map_or(0, |packet| packet.record().timestamp);
        if !instance.taps.is_empty() {
            self.show_instance(index, &batch, Passage::Trapped);
        }
        self.on_guest_fault(index, fault, Some(batch));
    }

    /// What a call leaves behind beside verdicts: packets given up or made, a deadline.
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
}
