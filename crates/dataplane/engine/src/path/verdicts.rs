//! The verdicts: what an instance has decided on each packet of its batch is carried out.

use crate::control::fault::Life;
use crate::ids::Holder;
use crate::worker::Worker;
use guest::BAD_VERDICT;
use nf_abi::Verdict;
use packet_memory::Packet;
use telemetry::DropReason;

impl Worker {
    /// Carries out the verdicts of an instance: packets with the same one go together, in their order.
    pub(crate) fn route(&mut self, index: usize, mut batch: Vec<Packet>) {
        while let Some(verdict) = batch.first().map(|packet| packet.record().verdict) {
            let alike = self.batches.take_if(&mut batch, |_, packet| packet.record().verdict == verdict);
            self.carry_out(index, alike, Verdict::decode(verdict));
        }
        self.batches.recycle(batch);
    }

    /// Carries out a verdict for all packets of a batch.
    fn carry_out(&mut self, index: usize, mut batch: Vec<Packet>, verdict: Option<Verdict>) {
        let source = Holder::Instance(index);
        let instance = &mut self.instances[index];
        let reason = match verdict {
            Some(Verdict::Interface(k)) => match instance.link(k) {
                Some(target) => return self.hand_on(source, target, batch),
                None => DropReason::NoRoute,
            },
            Some(Verdict::Service(id)) => match self.service(self.instances[index].tenant, id) {
                Some(target) => {
                    batch.iter_mut().for_each(|packet| packet.edit(|record| record.service_id = id));
                    return self.hand_on(source, target, batch);
                }
                None => DropReason::UnknownService,
            },
            Some(Verdict::Hold(slot)) => {
                let Life::Up { guest, .. } = &mut instance.life else {
                    return self.drop_batch(source, batch, DropReason::FunctionDown);
                };
                // One packet has the slot; what else would is refused.
                let slots = &mut guest.kept_mut().slots;
                let kept = slots.keep(slot, batch.swap_remove(0), self.time.now.nanos);
                batch.extend(kept.err().map(|(refused, _)| refused));
                DropReason::HoldQuota
            }
            Some(Verdict::Drop(reason)) => {
                if let Some(count) = instance.counters.own_drops.get_mut(usize::from(reason)) {
                    *count += batch.len() as u64;
                }
                DropReason::Function
            }
            Some(Verdict::Consume) => return self.consume(source, batch),
            Some(Verdict::None) => DropReason::NoVerdict,
            None => {
                debug_assert!(batch.iter().all(|packet| packet.record().verdict == BAD_VERDICT));
                DropReason::BadVerdict
            }
        };
        self.drop_batch(source, batch, reason);
    }
}
