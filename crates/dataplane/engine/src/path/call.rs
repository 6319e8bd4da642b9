//! The call: an instance gets its oldest batch, after its observers, all in its own account.

use crate::control::fault::Life;
use crate::control::tap::Passage;
use crate::ids::{Holder, Target};
use crate::path::observers::Seen;
use crate::worker::Worker;
use guest::{GuestFault, LeftOver, Progress};
use packet_memory::Packet;

/// Ports that feed an instance alone wait for so many of its batches at most.
const FEEDS_WAIT: u32 = 8;

impl Worker {
    /// Calls an instance with the batch in hand, or with the oldest one that waits.
    #[inline(always)]
    pub(crate) fn hop(&mut self, index: usize) {
        let mut instance = &mut self.instances[index];
        let mut batch = match self.batches.in_hand.take() {
            Some(handed) => handed.batch,
            None if instance.suspended.is_some() => return self.resume(index),
            None if instance.due => return self.serve_due(index),
            None => {
                if instance.queue.is_empty() && !self.poll_feeds(index) {
                    return;
                }
                instance = &mut self.instances[index];
                let popped = instance.queue.pop(instance.batch, &mut self.batches.spare);
                let Some(batch) = popped else { return };
                batch
            }
        };
        if !instance.is_plain() {
            self.before_call(index, &batch);
            instance = &mut self.instances[index];
        }
        let Life::Up { guest, .. } = &mut instance.life else { return self.pass_down(index, batch) };
        instance.counters.calls += 1;
        instance.counters.packets += batch.len() as u64;
        instance.called_with = batch.len();
        self.time.calls.count(batch.len(), instance.batch);
        self.upkeep.note_call(index, &mut instance.called);
        if instance.is_observer {
            let observed = guest.observe(&batch, self.time.now);
            return self.end_observed(index, batch, observed);
        }
        let processed = guest.process(&mut batch, self.time.now);
        self.end_call(index, batch, processed);
    }

    /// What is done with a batch before the call: its feeds are remembered, and observers and taps see it.
    fn before_call(&mut self, index: usize, batch: &[Packet]) {
        let instance = &mut self.instances[index];
        let owner = instance.pool;
        // One that always has packets from elsewhere, or empties its queue each time and finds it filled
        // again, polls the ports that feed it all the same.
        instance.unpolled += u32::from(!instance.feeds.is_empty());
        if instance.unpolled > FEEDS_WAIT {
            self.poll_feeds(index);
        }
        self.show_at(Seen::Instance(index), batch, owner, |_, _| true);
        if !self.instances[index].taps.is_empty() {
            self.show_instance(index, batch, Passage::Arrived);
        }
    }

    /// What an observer was sent are its own copies, which end here.
    fn end_observed(&mut self, index: usize, batch: Vec<Packet>, observed: Result<(), GuestFault>) {
        self.instances[index].counters.count_bytes(&batch);
        self.consume(Holder::Instance(index), batch);
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
    fn resume(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        let Some(mut batch) = instance.suspended.take() else { return };
        let Life::Up { guest, .. } = &mut instance.life else {
            // A guest that faulted has given up its batch already.
            return self.bypass(index, batch);
        };
        let processed = guest.resume(&mut batch, self.time.now);
        self.end_call(index, batch, processed);
    }

    /// A call has come to its end, or to a stop on the way: its verdicts are carried out, and what it left
    /// behind beside them.
    #[inline(always)]
    fn end_call(&mut self, index: usize, mut batch: Vec<Packet>, processed: Result<Progress, GuestFault>) {
        let mut instance = &mut self.instances[index];
        let answers = match processed {
            Ok(Progress::Done(answers)) => answers,
            Ok(Progress::Suspended) => {
                instance.counters.suspensions += 1;
                instance.suspended = Some(batch);
                return;
            }
            Err(fault) => return self.on_guest_fault(index, &fault, Some(batch)),
        };
        instance.received = batch.first().map_or(0, |packet| packet.record().timestamp);
        if !instance.taps.is_empty() {
            self.show_instance(index, &batch, Passage::Decided);
            instance = &mut self.instances[index];
        }
        instance.counters.bytes += answers.bytes;
        // Mostly all packets of a batch go to one interface; then the batch moves as it is.
        let Some(target) = answers.interface.and_then(|k| instance.link(k)) else {
            self.route(index, batch);
            return self.after_call(index);
        };
        let pool = instance.pool;
        let target = match target {
            Target::Switch(..) => self.straight_on(target, &mut batch, Some(answers.bytes)),
            end => end,
        };
        self.deliver(Holder::Instance(index), pool, target, batch);
        if answers.has_left_over {
            self.after_call(index);
        }
    }

    /// What a call leaves behind beside verdicts: packets given up or made, a deadline.
    pub(crate) fn after_call(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else { return };
        let kept = guest.kept_mut();
        let LeftOver { due, has_emitted } = kept.left_over();
        let emitted = has_emitted.then(|| {
            instance.counters.ledger.generated += std::mem::take(&mut kept.generated);
            std::mem::replace(&mut kept.emitted, self.batches.spare())
        });
        self.schedule(index, due);
        let Some(emitted) = emitted else { return };
        if !self.instances[index].taps.is_empty() {
            self.show_instance(index, &emitted, Passage::Emitted);
        }
        self.route(index, emitted);
    }
}
