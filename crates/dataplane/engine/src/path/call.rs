//! The call: an instance gets its oldest batch, after its observers, all in its own account.

use crate::control::fault::Life;
use crate::control::tap::Passage;
use crate::ids::Holder;
use crate::path::observers::Seen;
use crate::worker::Worker;
use guest::{LeftOver, Progress};
use packet_memory::Packet;

/// Ports that feed an instance alone wait for so many of its batches at most.
const FEEDS_WAIT: u32 = 8;

impl Worker {
    /// Calls an instance with the batch in hand or with the oldest one that waits, or goes on with its call
    /// that was switched out. Once the call has come to its end, its verdicts are carried out, and what it
    /// left behind beside them.
    #[inline(always)]
    pub(crate) fn hop(&mut self, index: usize) {
        let mut instance = &mut self.instances[index];
        (self.time.running, self.time.current) = (instance.entity, index);
        let (mut batch, goes_on) = match self.batches.in_hand.take() {
            Some(handed) => (handed.batch, false),
            None if let Some(batch) = instance.suspended.take() => (batch, true),
            None if instance.due => return self.serve_due(index),
            None => {
                if instance.queue.is_empty() {
                    self.poll_feeds(index);
                }
                instance = &mut self.instances[index];
                let Some(batch) = instance.queue.pop(instance.batch, &mut self.batches.spare) else { return };
                (batch, false)
            }
        };
        if !goes_on && !instance.is_plain() {
            self.before_call(index, &batch);
            instance = &mut self.instances[index];
        }
        let Life::Up { guest, .. } = &mut instance.life else { return self.bypass(index, batch) };
        if !goes_on {
            instance.called_with = batch.len();
            instance.counters.count_call(batch.len());
            self.time.calls.count(batch.len(), instance.batch);
            self.upkeep.note_call(index, &mut instance.called);
            if instance.is_observer {
                // What it was sent are its own copies, which end here.
                self.call_observer(index, &batch);
                return self.consume(Holder::Instance(index), batch);
            }
        }
        let answers = match guest.process(&mut batch, self.time.now) {
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
        let target = self.straight_on(target, &mut batch, Some(answers.bytes));
        self.deliver(Holder::Instance(index), pool, target, batch);
        if answers.has_left_over {
            self.after_call(index);
        }
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

    /// Shows an observer packets that stay whose they are.
    pub(crate) fn call_observer(&mut self, index: usize, packets: &[Packet]) {
        let instance = &mut self.instances[index];
        let Life::Up { guest, .. } = &mut instance.life else { return };
        instance.counters.bytes += packets.iter().map(|packet| u64::from(packet.length())).sum::<u64>();
        match guest.observe(packets, self.time.now) {
            Ok(()) => self.after_call(index),
            Err(fault) => self.on_guest_fault(index, &fault, None),
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
