//! Where packets go: to the next instance's queue, to a port, across to another tenant's pool, or back to the
//! pool.

use crate::ids::{InstanceId, PoolId, PortId, Target};
use crate::switching::Source;
use crate::tap::Passage;
use crate::time::NOBODY;
use crate::worker::Worker;
use packet_memory::Packet;
use std::sync::Arc;
use telemetry::DropReason;

impl Worker {
    /// Puts a whole batch, already addressed, into the next instance's queue. Returns that instance if it may
    /// run at once.
    ///
    /// # Errors
    /// The batch comes back when its packets have to go one by one: to another pool, or into a queue that has
    /// no room for all of them.
    #[inline]
    pub(crate) fn enqueue_batch(
        &mut self,
        pool: PoolId,
        to: InstanceId,
        batch: Vec<Packet>,
    ) -> Result<Option<usize>, Vec<Packet>> {
        let (to, count) = (to.index(), batch.len());
        if self.instances[to].pool != pool {
            return Err(batch);
        }
        self.note_congestion(to);
        let receiver = &mut self.instances[to];
        if receiver.queue.room() < count {
            return Err(batch);
        }
        let (waits, may_run) = (receiver.has_work(), !receiver.stands_still() && to != self.current);
        receiver.queue.push_batch(batch, &mut self.spare);
        let entity = receiver.entity;
        if self.current == usize::MAX {
            // A port is being polled: the instance that it is for pays for that.
            self.received_for.push((entity, count as u32));
            self.wake_instance(to);
            return Ok(None);
        }
        if may_run && self.scheduler.hand_off(entity, self.now.cycles) {
            if waits {
                // What waits goes first, and this batch behind it: packets in front do not overtake those
                // behind.
                self.scheduler.deactivate(entity);
            }
            return Ok(Some(to));
        }
        self.wake_instance(to);
        Ok(None)
    }

    /// Hands a whole batch to a port of the same pool; false, and nothing is done, when the port is of
    /// another.
    #[inline]
    pub(crate) fn transmit_batch(&mut self, pool: PoolId, port: PortId, batch: &mut Vec<Packet>) -> bool {
        if self.ports[port.index()].pool != pool {
            return false;
        }
        self.hand_out(port.index(), batch);
        true
    }

    /// Hands packets of its pool to a port.
    #[inline]
    fn hand_out(&mut self, port: usize, batch: &mut Vec<Packet>) {
        if !self.ports[port].taps.is_empty() {
            self.show_port(port, batch, Passage::Transmitted);
        }
        self.note_departure(port, batch);
        let node = &mut self.ports[port];
        node.port.transmit(&self.pools[usize::from(node.pool.0)], self.now.nanos, batch);
        debug_assert!(batch.is_empty(), "a port takes all of a batch");
        if node.relay {
            self.note_passage(port);
            self.note_congested_wire(port);
        }
    }

    /// Hands one packet on.
    pub(crate) fn forward(&mut self, from: Source, packet: Packet, target: Target) {
        let pool = self.pool_of_source(from);
        let Some(destination) = self.pool_of(target) else {
            if let Target::Switch(id, port) = target {
                self.switch_one(from, id, port, packet);
            }
            return;
        };
        let Some(packet) =
            (if destination == pool { Some(packet) } else { self.carry_across(from, packet, target) })
        else {
            return;
        };
        match target {
            Target::Instance(to, interface) => {
                if destination == pool {
                    self.note_congestion(to.index());
                }
                self.enqueue(to.index(), interface, packet);
            }
            Target::Port(port) => {
                self.ports[port.index()].outgoing.push(packet);
                self.touched_ports.push(port.index());
            }
            // It has no pool, and was dealt with above.
            Target::Switch(..) => unreachable!("switches have no pool"),
        }
    }

    /// Puts a packet into an instance's queue. From here on it is the receiver's: what does not fit is the
    /// receiver's loss.
    pub(crate) fn enqueue(&mut self, to: usize, interface: u16, packet: Packet) {
        let receiver = &self.instances[to];
        if packet.record().hop_budget == 0 {
            return self.drop_packet(to, packet, DropReason::HopBudget);
        }
        if receiver.queue.room() == 0 {
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
        self.instances[to].queue.push(packet, &mut self.spare);
        if self.current == usize::MAX {
            self.count_received_for(to);
        }
        self.wake_instance(to);
    }

    /// Notes that a packet came for an instance while a port is polled.
    fn count_received_for(&mut self, to: usize) {
        let entity = self.instances[to].entity;
        match self.received_for.iter_mut().find(|(known, _)| *known == entity) {
            Some((_, count)) => *count += 1,
            None => self.received_for.push((entity, 1)),
        }
    }

    /// Copies a packet into the pool of its receiver, which pays, and ends the original as consumed at the
    /// boundary.
    pub(crate) fn carry_across(&mut self, from: Source, packet: Packet, target: Target) -> Option<Packet> {
        let here = self.pool_of_source(from);
        let there = self.pool_of(target).unwrap_or(here);
        let payer = match (target, from) {
            (Target::Instance(to, _), _) => self.instances[to.index()].entity,
            (_, Source::Instance(from)) => self.instances[from].entity,
            (_, Source::Port(_)) => NOBODY,
        };
        let before = self.switch_account(payer);
        let copied = self.pools[there.0 as usize].copy_from(&self.pools[here.0 as usize], &packet);
        let copy = match copied {
            Ok(Some(copy)) => {
                match target {
                    Target::Instance(to, _) => self.instances[to.index()].counters.ledger.copied += 1,
                    Target::Port(port) => self.ports[port.index()].ledger.copied += 1,
                    Target::Switch(..) => {}
                }
                match from {
                    Source::Instance(from) => self.instances[from].counters.ledger.consumed += 1,
                    Source::Port(from) => self.ports[from].ledger.consumed += 1,
                }
                if self.is_tapped(from) {
                    self.show_copy(from, &packet, there, &copy);
                }
                self.pools[here.0 as usize].free(packet);
                Some(copy)
            }
            Ok(None) => {
                self.drop_from(from, packet, DropReason::NoBuffer);
                None
            }
            Err(_) => {
                self.drop_from(from, packet, DropReason::TooLong);
                None
            }
        };
        self.switch_account(before);
        copy
    }

    /// Brings a packet that a port received into the pool of the instance that it is for, at that instance's
    /// cost.
    pub(crate) fn enter_pool(&mut self, port: usize, to: usize, interface: u16, packet: Packet) {
        let pool = self.instances[to].pool;
        let here = self.pools[usize::from(self.ports[port].pool.0)].clone();
        match self.pools[usize::from(pool.0)].copy_from(&here, &packet) {
            Ok(Some(copy)) => {
                self.instances[to].counters.ledger.copied += 1;
                self.ports[port].ledger.consumed += 1;
                if self.is_tapped(Source::Port(port)) {
                    self.show_copy(Source::Port(port), &packet, pool, &copy);
                }
                here.free(packet);
                self.enqueue(to, interface, copy);
            }
            Ok(None) => self.drop_at_port(port, packet, DropReason::NoBuffer),
            Err(_) => self.drop_at_port(port, packet, DropReason::TooLong),
        }
    }

    /// Hands what a port received to the port that it is wired to.
    pub(crate) fn pass_through(&mut self, from: usize, to: PortId, batch: &mut Vec<Packet>) {
        let pool = self.ports[to.index()].pool;
        let here = self.pools[usize::from(self.ports[from].pool.0)].clone();
        let there = self.pools[usize::from(pool.0)].clone();
        if !Arc::ptr_eq(&here, &there) {
            let mut copies = Vec::with_capacity(batch.len());
            for packet in batch.drain(..) {
                match there.copy_from(&here, &packet) {
                    Ok(Some(copy)) => {
                        self.ports[to.index()].ledger.copied += 1;
                        self.ports[from].ledger.consumed += 1;
                        if self.is_tapped(Source::Port(from)) {
                            self.show_copy(Source::Port(from), &packet, pool, &copy);
                        }
                        copies.push(copy);
                        here.free(packet);
                    }
                    Ok(None) => self.drop_at_port(from, packet, DropReason::NoBuffer),
                    Err(_) => self.drop_at_port(from, packet, DropReason::TooLong),
                }
            }
            *batch = copies;
        }
        self.hand_out(to.index(), batch);
    }

    /// Makes copies for an observer that may not run now, or lives in another pool; what finds no room, it
    /// misses.
    pub(crate) fn copy_to_observer(&mut self, index: usize, packets: &[Packet], owner: PoolId) {
        let observer = &mut self.instances[index];
        let (here, there) = (&self.pools[owner.0 as usize], &self.pools[observer.pool.0 as usize]);
        for packet in packets {
            let copy = if observer.queue.room() > 0 { there.copy_from(here, packet) } else { Ok(None) };
            match copy {
                Ok(Some(copy)) => {
                    observer.counters.ledger.copied += 1;
                    observer.queue.push(copy, &mut self.spare);
                }
                Ok(None) | Err(_) => observer.counters.missed += 1,
            }
        }
        if !observer.queue.is_empty() {
            self.wake_instance(index);
        }
    }

    /// Transmits what single packets have gathered at ports.
    pub(crate) fn flush_ports(&mut self) {
        while let Some(port) = self.touched_ports.pop() {
            let mut outgoing = std::mem::take(&mut self.ports[port].outgoing);
            if !outgoing.is_empty() {
                self.hand_out(port, &mut outgoing);
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
    fn pool_of(&self, target: Target) -> Option<PoolId> {
        match target {
            Target::Instance(to, _) => Some(self.instances[to.index()].pool),
            Target::Port(port) => Some(self.ports[port.index()].pool),
            Target::Switch(..) => None,
        }
    }
}
