//! Where packets go: to the next instance's queue, to a port, across to another tenant's pool, or back to the
//! pool.

use crate::control::tap::Passage;
use crate::ids::{PoolId, Target};
use crate::path::switching::Source;
use crate::state::accounting::{NO_CALLER, NO_INSTANCE};
use crate::state::backpressure::Ahead;
use crate::worker::Worker;
use packet_memory::Packet;
use telemetry::DropReason;

/// An instance that may run at once, as packets were just handed to it.
#[derive(Debug)]
pub(crate) struct HandOff {
    pub(crate) to: usize,
    /// Those packets, where nothing waits before them: they need not be queued.
    pub(crate) batch: Option<Vec<Packet>>,
}

impl Worker {
    /// Hands a whole batch on. Returns the instance that got it, if that may run at once.
    ///
    /// # Errors
    /// The batch comes back as it was when its packets have to go one by one.
    #[inline(always)]
    pub(crate) fn deliver_batch(
        &mut self,
        source: Source,
        pool: PoolId,
        target: Target,
        mut batch: Vec<Packet>,
    ) -> Result<Option<HandOff>, Vec<Packet>> {
        match target {
            Target::Instance(to, interface) => {
                let whole = address(&mut batch, interface);
                let left = if whole { self.enqueue_batch(pool, to.index(), batch) } else { Err(batch) };
                left.map_err(unaddressed)
            }
            Target::Port(port) if self.ports[port.index()].pool == pool => {
                self.transmit(port.index(), &mut batch);
                self.batches.spare.push(batch);
                Ok(None)
            }
            Target::Port(_) => Err(batch),
            Target::Switch(id, from) => Ok(self.switch_batch(source, id, from, batch)),
        }
    }

    /// Hands a whole batch, already addressed, to the next instance. Returns that instance if it may run at
    /// once; else the batch is in its queue.
    ///
    /// # Errors
    /// The batch comes back when its packets have to go one by one: to another pool, or into a queue that has
    /// no room for all of them.
    #[inline(always)]
    fn enqueue_batch(
        &mut self,
        pool: PoolId,
        to: usize,
        batch: Vec<Packet>,
    ) -> Result<Option<HandOff>, Vec<Packet>> {
        let (count, sender) = (batch.len(), self.time.current);
        let receiver = &mut self.instances[to];
        if receiver.pool != pool || receiver.queue.room() < count {
            return Err(batch);
        }
        let (entity, waits, congested) = (receiver.entity, receiver.has_work(), receiver.is_congested());
        // An instance that polls a port in front of a switch hands packets to itself.
        receiver.handed_by = if sender == to { NO_CALLER } else { sender };
        let may_run = sender != NO_CALLER && sender != to && !receiver.stands_still();
        let next = if may_run && self.time.scheduler.hand_off(entity, self.time.now.cycles) {
            if waits || count > receiver.batch {
                // What waits goes first, and this batch behind it: packets in front do not overtake those
                // behind.
                receiver.queue.push_batch(batch, &mut self.batches.spare);
                self.time.scheduler.deactivate(entity);
                Some(HandOff { to, batch: None })
            } else {
                Some(HandOff { to, batch: Some(batch) })
            }
        } else {
            receiver.queue.push_batch(batch, &mut self.batches.spare);
            if sender == NO_CALLER {
                // A port is being polled: the instance that it is for pays for that.
                self.time.receivers.push((entity, count as u32));
            }
            self.wake_instance(to);
            None
        };
        if congested {
            self.throttle(sender, Ahead::Instance(to));
        }
        Ok(next)
    }

    /// Hands packets of its pool to a port.
    #[inline]
    pub(crate) fn transmit(&mut self, port: usize, batch: &mut Vec<Packet>) {
        if self.ports[port].is_watched() {
            self.show_port(port, batch, Passage::Transmitted);
        }
        let node = &mut self.ports[port];
        if !node.relay {
            self.time.note_departure(port, batch);
        }
        node.port.transmit(&self.pools[usize::from(node.pool.0)], self.time.now.nanos, batch);
        debug_assert!(batch.is_empty(), "a port takes all of a batch");
        if node.relay {
            self.ports.note_passage(port);
            self.note_congested_wire(port);
        }
    }

    /// Hands one packet on.
    pub(crate) fn forward(&mut self, from: Source, packet: Packet, target: Target) {
        if let Target::Switch(id, port) = target {
            return self.switch_one(from, id, port, packet);
        }
        let stays = self.pool_of(target) == Some(self.pool_of_source(from));
        let packet = if stays { Some(packet) } else { self.copy_to_pool(from, packet, target) };
        let Some(packet) = packet else { return };
        match target {
            Target::Instance(to, interface) => {
                if stays {
                    self.note_congestion(to.index());
                }
                self.enqueue(to.index(), interface, packet);
            }
            Target::Port(port) => {
                self.ports[port.index()].outgoing.push(packet);
                self.ports.touched.push(port.index());
            }
            // It has no pool, and was dealt with above.
            Target::Switch(..) => unreachable!("switches have no pool"),
        }
    }

    /// Puts a packet into an instance's queue. From here on it is the receiver's: what does not fit is the
    /// receiver's loss.
    pub(crate) fn enqueue(&mut self, to: usize, interface: u16, packet: Packet) {
        if self.instances[to].queue.room() == 0 {
            return self.drop_packet(to, packet, DropReason::QueueFull);
        }
        self.enqueue_beyond(to, interface, packet);
    }

    /// The same, whether there is room or not.
    pub(crate) fn enqueue_beyond(&mut self, to: usize, interface: u16, mut packet: Packet) {
        let budget = packet.record().hop_budget;
        if budget == 0 {
            return self.drop_packet(to, packet, DropReason::HopBudget);
        }
        packet.edit(|record| (record.ingress, record.hop_budget) = (interface, budget - 1));
        self.instances[to].queue.push(packet, &mut self.batches.spare);
        if self.time.current == NO_CALLER {
            self.time.receivers.push((self.instances[to].entity, 1));
        }
        self.wake_instance(to);
    }

    /// Copies a packet into the pool of its receiver, which pays, and ends the original as consumed at the
    /// boundary.
    pub(crate) fn copy_to_pool(&mut self, from: Source, packet: Packet, target: Target) -> Option<Packet> {
        let here = self.pool_of_source(from);
        let there = self.pool_of(target).unwrap_or(here);
        let payer = match (target, from) {
            (Target::Instance(to, _), _) => self.instances[to.index()].entity,
            (_, Source::Instance(from)) => self.instances[from].entity,
            (_, Source::Port(_)) => NO_INSTANCE,
        };
        let before = self.time.switch(payer);
        let copied = self.pools[there.0 as usize].copy_from(&self.pools[here.0 as usize], &packet);
        let copy = match copied {
            Ok(Some(copy)) => {
                match target {
                    Target::Instance(to, _) => self.instances[to.index()].counters.ledger.copied += 1,
                    Target::Port(port) => self.ports[port.index()].ledger.copied += 1,
                    Target::Switch(..) => {}
                }
                self.ledger_of(from).consumed += 1;
                if self.is_tapped(from) {
                    self.show_copy(from, &packet, there, &copy);
                }
                self.pools[here.0 as usize].free(packet);
                Some(copy)
            }
            refused => {
                let reason = if refused.is_ok() { DropReason::NoBuffer } else { DropReason::TooLong };
                self.drop_from(from, packet, reason);
                None
            }
        };
        self.time.switch(before);
        copy
    }

    /// Does something with each packet of a batch, and then hands to ports what that has gathered there.
    pub(crate) fn each(&mut self, mut batch: Vec<Packet>, mut act: impl FnMut(&mut Worker, Packet)) {
        batch.drain(..).for_each(|packet| act(self, packet));
        self.batches.spare.push(batch);
        self.flush_ports();
    }

    /// Transmits what single packets have gathered at ports.
    pub(crate) fn flush_ports(&mut self) {
        while let Some(port) = self.ports.touched.pop() {
            let mut outgoing = std::mem::take(&mut self.ports[port].outgoing);
            if !outgoing.is_empty() {
                self.transmit(port, &mut outgoing);
            }
            self.ports[port].outgoing = outgoing;
        }
    }

    /// Ends a packet for a reason, in an instance's account.
    pub(crate) fn drop_packet(&mut self, index: usize, packet: Packet, reason: DropReason) {
        if !self.instances[index].taps.is_empty() {
            self.show_instance(index, std::slice::from_ref(&packet), Passage::Lost(reason));
        }
        self.instances[index].counters.ledger.dropped[reason] += 1;
        self.free(index, [packet]);
    }

    /// Gives buffers back to the pool of an instance.
    pub(crate) fn free(&mut self, index: usize, packets: impl IntoIterator<Item = Packet>) {
        self.pools[self.instances[index].pool.0 as usize].free_batch(packets);
    }

    /// The pool of an end; a switch has none, its ports' are whatever they lead to.
    pub(crate) fn pool_of(&self, target: Target) -> Option<PoolId> {
        match target {
            Target::Instance(to, _) => Some(self.instances[to.index()].pool),
            Target::Port(port) => Some(self.ports[port.index()].pool),
            Target::Switch(..) => None,
        }
    }
}

/// Addresses packets to an instance's interface, in one pass without a branch. Whether every packet had a hop
/// left: more than [`nf_abi::HOP_BUDGET`], which is half of what the field can tell, it never has.
#[inline]
fn address(batch: &mut [Packet], interface: u16) -> bool {
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

/// Takes the hop back that was counted with the address: the packets go one by one, and it is counted there.
#[cold]
fn unaddressed(mut batch: Vec<Packet>) -> Vec<Packet> {
    for packet in &mut batch {
        packet.edit(|record| record.hop_budget = record.hop_budget.wrapping_add(1));
    }
    batch
}
