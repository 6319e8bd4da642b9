//! Guests that take over from others while their instance goes on: its queue, wires, standing and counts
//! stay.

use crate::control::fault::Life;
use crate::ids::InstanceId;
use crate::state::instances::GuestFactory;
use crate::worker::Worker;
use guest::{Guest, GuestFault, Offer, SaveError, pack};
use snapshot::{PacketState, Saved, Tally};
use std::sync::Arc;
use telemetry::clock::Nanos;

/// What an instance is called by: a guest, and how the next one is made.
pub struct GuestSetup {
    /// The guest; without one it is made at the next opportunity.
    pub guest: Option<Box<dyn Guest>>,
    /// Makes the next one after a fault.
    pub factory: Box<dyn GuestFactory>,
    /// Names of the function's own drop reasons.
    pub drop_reasons: Vec<String>,
    /// Names of the function's counters.
    pub counters: Vec<String>,
    /// Whether it reads the flow hash of packets.
    pub flow_hash: bool,
}

/// Why a guest did not take over, or was not looked into.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// It is in the middle of a call that was switched out.
    #[error("`{0}` is in the middle of a call; it can be done when that has ended")]
    Suspended(String),
    /// It does not run at present.
    #[error("`{0}` is down: {1}")]
    Down(String, String),
    /// Its guest is detached: it is being handed over, frozen or thawed.
    #[error("`{0}` is being handed over; it can be done when that has ended")]
    Detached(String),
    /// It cannot be thawed, in words.
    #[error("it is frozen and cannot be thawed now: {0}")]
    Frozen(String),
    /// There is no such instance.
    #[error("there is no such instance")]
    Absent,
    /// The workers have stopped.
    #[error("the worker has stopped")]
    Stopped,
    /// It could not be saved.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// It broke when it was asked.
    #[error(transparent)]
    Fault(#[from] GuestFault),
}

/// What became of a changed file that a guest was offered. `Ok`: it takes it, and this is the factory before.
/// `Err`: it takes none, and the new factory comes back.
pub type Offered = Result<Box<dyn GuestFactory>, Box<dyn GuestFactory>>;

impl Worker {
    /// Lets another guest take over; the one before comes back. Packets that it held wait in the queue: the
    /// new guest is shown them.
    pub(crate) fn swap_guest(
        &mut self,
        id: InstanceId,
        new: GuestSetup,
    ) -> Result<GuestSetup, TakeoverError> {
        let now = self.time.clock.moment().nanos;
        let index = id.index();
        self.check_in_no_call(id)?;
        self.collect(index);
        let instance = &mut self.instances[index];
        let GuestSetup { guest, factory, drop_reasons, counters, flow_hash } = new;
        let first = instance.restart.first_delay;
        let life = match guest {
            Some(guest) => Life::Up { guest, since: now, next_delay: first },
            None => Life::Down { retry_at: now, next_delay: first, reason: "it is to begin anew".to_owned() },
        };
        let mut held = Vec::new();
        let before = match std::mem::replace(&mut instance.life, life) {
            Life::Up { mut guest, .. } => {
                instance.counters.ledger.generated += std::mem::take(&mut guest.kept_mut().generated);
                for (sum, count) in instance.counters.former.iter_mut().zip(&guest.kept().counters) {
                    *sum = sum.wrapping_add(*count);
                }
                guest.surrender(&mut held);
                Some(guest)
            }
            Life::Down { .. } | Life::Starting { .. } => None,
        };
        let factory = std::mem::replace(&mut instance.factory, factory);
        let old_flow_hash = std::mem::replace(&mut instance.flow_hash, flow_hash);
        let (old_reasons, drops) =
            renamed(&mut instance.drop_reasons, drop_reasons, &instance.counters.own_drops);
        instance.counters.own_drops = drops;
        let (old_counters, former) =
            renamed(&mut instance.counter_names, counters, &instance.counters.former);
        instance.counters.former = former;
        if let Life::Up { guest, .. } = &instance.life {
            // One that takes over again goes on counting where it was, and that has been added up already.
            for (sum, count) in instance.counters.former.iter_mut().zip(&guest.kept().counters) {
                *sum = sum.saturating_sub(*count);
            }
        }
        self.polling.flow_hash |= flow_hash;
        for packet in held {
            let interface = packet.record().ingress;
            // It has been here before: that was its hop.
            let mut packet = packet;
            packet.edit(|record| record.hop_budget = record.hop_budget.saturating_add(1));
            self.enqueue_beyond(index, interface, vec![packet]);
        }
        match self.instances[index].life {
            Life::Up { .. } => {
                self.upkeep.note_call(index, &mut self.instances[index].called);
                self.give_devices(index);
                self.after_call(index);
            }
            Life::Down { .. } | Life::Starting { .. } => self.schedule(index, now),
        }
        Ok(GuestSetup {
            guest: before,
            factory,
            drop_reasons: old_reasons,
            counters: old_counters,
            flow_hash: old_flow_hash,
        })
    }

    /// Has an instance's guest take a changed file of its configuration, which `factory` has for the next
    /// guest.
    pub(crate) fn offer(
        &mut self,
        id: InstanceId,
        offer: &Arc<Offer>,
        factory: Box<dyn GuestFactory>,
    ) -> Result<Offered, TakeoverError> {
        self.check_present(id)?;
        let index = id.index();
        let instance = &mut self.instances[index];
        let stands_still = instance.stands_still();
        let Life::Up { guest, .. } = &mut instance.life else { return Ok(Err(factory)) };
        if stands_still || !guest.offer(offer) {
            return Ok(Err(factory));
        }
        let before = std::mem::replace(&mut instance.factory, factory);
        self.schedule(index, Nanos(0));
        Ok(Ok(before))
    }

    /// Gives an instance another factory for the guests to come; the one before.
    pub(crate) fn swap_factory(
        &mut self,
        id: InstanceId,
        factory: Box<dyn GuestFactory>,
    ) -> Result<Box<dyn GuestFactory>, TakeoverError> {
        let instance = self.instances.get_mut(id.index()).ok_or(TakeoverError::Absent)?;
        Ok(std::mem::replace(&mut instance.factory, factory))
    }

    /// Lets another guest go on in the place of an instance's own, with its memory and all that is kept for
    /// it; the one before comes back with nothing. `Err`: they are not alike, and the new one comes back.
    pub(crate) fn succeed_guest(
        &mut self,
        id: InstanceId,
        mut new: GuestSetup,
    ) -> Result<Result<GuestSetup, GuestSetup>, TakeoverError> {
        let index = id.index();
        self.check_in_no_call(id)?;
        let instance = &mut self.instances[index];
        let alike = instance.drop_reasons == new.drop_reasons && instance.counter_names == new.counters;
        let (Some(guest), true) = (&mut new.guest, alike) else { return Ok(Err(new)) };
        self.collect(index);
        let instance = &mut self.instances[index];
        let Life::Up { guest: before, .. } = &mut instance.life else { return Ok(Err(new)) };
        instance.counters.ledger.generated += std::mem::take(&mut before.kept_mut().generated);
        if !guest.take_place_of(&mut **before)? {
            return Ok(Err(new));
        }
        std::mem::swap(before, guest);
        std::mem::swap(&mut instance.factory, &mut new.factory);
        std::mem::swap(&mut instance.flow_hash, &mut new.flow_hash);
        self.polling.flow_hash |= self.instances[index].flow_hash;
        Ok(Ok(new))
    }

    /// Adds to what was saved of a guest what its instance has beside it: packets that wait, and counts.
    pub(crate) fn save_rest(
        &mut self,
        id: InstanceId,
        saved: &mut Saved<'static>,
    ) -> Result<(), TakeoverError> {
        let instance = self.instances.get(id.index()).ok_or(TakeoverError::Absent)?;
        let pool = &self.pools[usize::from(instance.pool.0)];
        saved.packets.extend(instance.queue.iter().map(|packet| pack(pool, packet, PacketState::Queued)));
        let counters = &instance.counters;
        let tally = |name: &str, value: u64| Tally { name: name.to_owned(), value };
        saved.tallies = vec![
            tally("bytes", counters.bytes),
            tally("calls", counters.calls),
            tally("faults", counters.faults),
            tally("packets", counters.packets),
            tally("restarts", counters.restarts),
        ];
        Ok(())
    }
}

/// Gives things other names; counts follow their names, and names that are no more stay behind the new ones
/// with their counts. Returns the names before, and the counts in the order of the new ones.
fn renamed(names: &mut Vec<String>, new: Vec<String>, counts: &[u64]) -> (Vec<String>, Vec<u64>) {
    let old = std::mem::replace(names, new);
    let mut ordered: Vec<u64> = vec![0; names.len().max(1)];
    for (name, count) in old.iter().zip(counts) {
        match names.iter().position(|known| known == name) {
            Some(at) => ordered[at] = *count,
            None if *count > 0 => {
                ordered.truncate(names.len());
                names.push(name.clone());
                ordered.push(*count);
            }
            None => {}
        }
    }
    (old, ordered)
}

impl Worker {
    /// Puts packets into the queue of an instance as if they had come just now, as many as there is room for;
    /// those that have none come back.
    pub(crate) fn put_into_queue(
        &mut self,
        id: InstanceId,
        packets: Vec<packet_memory::Packet>,
    ) -> Vec<packet_memory::Packet> {
        let mut left = Vec::new();
        for packet in packets {
            match self.instances.get_mut(id.index()) {
                Some(instance) if instance.queue.room() > 0 => {
                    instance.counters.ledger.generated += 1;
                    let mut one = self.batches.spare();
                    one.push(packet);
                    instance.queue.push_batch(one, &mut self.batches.spare);
                    self.wake_instance(id.index());
                }
                _ => left.push(packet),
            }
        }
        left
    }
}
