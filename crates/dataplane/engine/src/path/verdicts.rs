//! The verdicts: what an instance has decided on each packet of its batch is carried out.

use crate::control::fault::Life;
use crate::path::deliver::HandOff;
use crate::path::switching::Source;
use crate::worker::Worker;
use guest::{Answers, BAD_VERDICT};
use nf_abi::Verdict;
use packet_memory::Packet;
use telemetry::DropReason;

impl Worker {
    /// Carries out the verdicts of a batch, and what the call left behind beside them. Returns the instance
    /// that all of it went on to, if that may run at once.
    #[inline(always)]
    pub(crate) fn carry_out(
        &mut self,
        index: usize,
        mut batch: Vec<Packet>,
        answers: Answers,
    ) -> Option<HandOff> {
        let instance = &mut self.instances[index];
        instance.counters.bytes += answers.bytes;
        let pool = instance.pool;
        // Mostly all packets of a batch go the same way; then the batch moves as a whole.
        if answers.alike
            && let Some(Verdict::Interface(k)) = Verdict::decode(batch.first()?.record().verdict)
            && let Some(target) = instance.links.get(usize::from(k)).copied().flatten()
        {
            match self.deliver_batch(Source::Instance(index), pool, target, batch) {
                Ok(next) => {
                    if answers.has_left_over {
                        self.after_call(index);
                    }
                    return next;
                }
                Err(refused) => batch = refused,
            }
        }
        self.each(batch, |worker, packet| worker.route(index, packet));
        self.after_call(index);
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
                if let Err((packet, _)) = guest.slots().keep(slot, packet, self.time.now.nanos) {
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
}
