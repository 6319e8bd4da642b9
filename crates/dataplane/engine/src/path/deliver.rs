//! Where packets go: to the next instance's queue, to a port, across to another tenant's pool, or back to the
//! pool. They move as batches, one by one only where each goes its own way.

use crate::control::tap::Passage;
use crate::ids::{Holder, PoolId, Target};
use crate::state::HandOff;
use crate::state::accounting::{NO_CALLER, NO_INSTANCE};
use crate::worker::Worker;
use nf_abi::HOP_BUDGET;
use packet_memory::Packet;
use telemetry::DropReason;
use virtio_net::settle;

impl Worker {
    /// Hands a batch on that lies in a pool.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, source: Holder, pool: PoolId, target: Target, batch: Vec<Packet>) {
        match target {
            Target::Instance(to, interface) => self.hand_to(source, pool, to.index(), interface, batch),
            Target::Port(port) => self.transmit(source, pool, port.index(), batch),
            Target::Switch(id, from) => self.pass(source, id, from, batch),
        }
    }

    /// The same with a batch in its sender's pool.
    pub(crate) fn hand_on(&mut self, source: Holder, target: Target, batch: Vec<Packet>) {
        self.deliver(source, self.pool_of(source), target, batch);
    }

    /// Hands a batch to an instance: it stays in this worker's hand if that one is of the same pool, has
    /// nothing else to do and may run at once, and else it waits in its queue.
    #[inline(always)]
    fn hand_to(&mut self, source: Holder, pool: PoolId, to: usize, interface: u16, mut batch: Vec<Packet>) {
        let may_hop = address(&mut batch, interface);
        let (receiver, current) = (&mut self.instances[to], self.time.current);
        if may_hop
            && receiver.pool == pool
            && receiver.takes_at_once(batch.len())
            && current != NO_CALLER
            && current != to
            && self.time.scheduler.hand_off(receiver.entity, self.time.now.cycles)
        {
            receiver.handed_by = current;
            let has_room = self.backpressure.congested.is_empty() || !self.look_at_congested_wires(to);
            if has_room && self.batches.in_hand.is_none() {
                self.batches.in_hand = Some(HandOff { to, batch });
                return;
            }
        }
        self.enqueue(source, pool, to, may_hop, batch);
    }

    /// Puts an addressed batch into an instance's queue. Packets that stay with their tenant apply
    /// backpressure.
    fn enqueue(&mut self, source: Holder, pool: PoolId, to: usize, may_hop: bool, mut batch: Vec<Packet>) {
        let (there, room) = (self.instances[to].pool, self.instances[to].queue.room());
        if !(may_hop && there == pool && batch.len() <= room) {
            self.bring(source, pool, Holder::Instance(to), &mut batch);
            self.end_those_too_many(to, &mut batch);
        }
        if batch.is_empty() {
            return self.batches.recycle(batch);
        }
        let (together, current) = (self.have_one_owner(pool, there), self.time.current);
        // An instance that polls a port in front of a switch hands packets to itself.
        let sender = if current == to { NO_CALLER } else { current };
        let receiver = &mut self.instances[to];
        let congested = together && receiver.is_congested();
        if together {
            receiver.handed_by = sender;
        }
        if current == NO_CALLER {
            // A port is being polled: the instance that it is for pays for that.
            self.time.receivers.push((receiver.entity, batch.len() as u32));
        }
        receiver.queue.push_batch(batch, &mut self.batches.spare);
        self.wake_instance(to);
        if congested {
            self.throttle(sender, Holder::Instance(to));
        }
    }

    /// Ends those of an addressed batch that may hop no further, and those that find no room: they are the
    /// receiver's loss.
    #[cold]
    fn end_those_too_many(&mut self, to: usize, batch: &mut Vec<Packet>) {
        let mut ended = self.batches.spare();
        ended.extend(batch.extract_if(.., |packet| packet.record().hop_budget > HOP_BUDGET));
        self.drop_batch(Holder::Instance(to), ended, DropReason::HopBudget);
        let mut ended = self.batches.spare();
        ended.extend(batch.drain(self.instances[to].queue.room().min(batch.len())..));
        self.drop_batch(Holder::Instance(to), ended, DropReason::QueueFull);
    }

    /// Hands packets to a port, which takes all of them.
    #[inline]
    fn transmit(&mut self, source: Holder, pool: PoolId, port: usize, mut batch: Vec<Packet>) {
        self.bring(source, pool, Holder::Port(port), &mut batch);
        if batch.is_empty() {
            return self.batches.recycle(batch);
        }
        if self.ports[port].is_watched() {
            self.show_port(port, &batch, Passage::Transmitted);
        }
        let node = &mut self.ports[port];
        node.count_latency(&self.time.clock, &batch);
        node.port.transmit(&self.pools[usize::from(node.pool.0)], self.time.now.nanos, &mut batch);
        self.batches.recycle(batch);
        if node.internal {
            self.note_passage(port);
            self.note_congested_wire(port);
        }
    }

    /// Copies packets into the pool of their receiver, if that is another one.
    #[inline]
    pub(crate) fn bring(&mut self, from: Holder, pool: PoolId, to: Holder, batch: &mut Vec<Packet>) {
        if self.pool_of(to) != pool {
            self.copy_to_pool(from, to, batch);
        }
    }

    /// The receiver pays for the copies that it has room for, and the originals end as consumed at the
    /// boundary. What is beyond that the sender pays for: a sender that floods a receiver would leave it no
    /// time to take anything.
    #[cold]
    pub(crate) fn copy_to_pool(&mut self, from: Holder, to: Holder, batch: &mut Vec<Packet>) {
        let (payer, room) = match (to, from) {
            (Holder::Instance(to), _) => (self.instances[to].entity, self.instances[to].queue.room()),
            (Holder::Port(_), Holder::Instance(from)) => (self.instances[from].entity, usize::MAX),
            (Holder::Port(_), Holder::Port(_)) => (NO_INSTANCE, usize::MAX),
        };
        let (here, there) = (self.pool_of(from), self.pool_of(to));
        let most = self.pools[usize::from(there.0)].room();
        if batch.iter().any(|packet| packet.length() > most) {
            let long = batch.extract_if(.., |packet| packet.length() > most).collect();
            self.drop_batch(from, long, DropReason::TooLong);
        }
        let (mine, theirs) = (&self.pools[usize::from(here.0)], &self.pools[usize::from(there.0)]);
        let (mut copies, before) = (self.batches.spare(), self.time.switch(payer));
        let count = theirs.allocate_batch(batch.len(), &mut copies);
        for (n, (copy, packet)) in copies.iter_mut().zip(batch.iter()).enumerate() {
            if n == room {
                self.time.switch(before);
            }
            theirs.copy_into(copy, mine, packet);
        }
        self.time.switch(before);
        self.ledger_of(to).copied += count as u64;
        self.ledger_of(from).consumed += count as u64;
        if self.is_tapped(from) {
            batch.iter().zip(&copies).for_each(|(packet, copy)| self.show_copy(from, packet, there, copy));
        }
        self.pools[usize::from(here.0)].free_batch(batch.drain(..count));
        if !batch.is_empty() {
            self.drop_batch(from, std::mem::take(batch), DropReason::NoBuffer);
        }
        // A function may have moved other bytes to where a checksum is still to be written.
        let theirs = &self.pools[usize::from(there.0)];
        let others: Vec<Packet> = copies.extract_if(.., |copy| !settle(theirs, copy)).collect();
        if !others.is_empty() {
            self.drop_batch(to, others, DropReason::Malformed);
        }
        self.batches.recycle(std::mem::replace(batch, copies));
    }

    /// Ends packets for a reason, in the account of the instance or port that had them.
    pub(crate) fn drop_batch(&mut self, of: Holder, mut batch: Vec<Packet>, reason: DropReason) {
        if self.is_tapped(of) && !batch.is_empty() {
            self.show_lost(of, &batch, reason);
        }
        self.ledger_of(of).dropped[reason] += batch.len() as u64;
        self.pools[usize::from(self.pool_of(of).0)].free_batch(batch.drain(..));
        self.batches.recycle(batch);
    }

    /// Ends packets that have come to where they were to go.
    pub(crate) fn consume(&mut self, of: Holder, mut batch: Vec<Packet>) {
        self.ledger_of(of).consumed += batch.len() as u64;
        self.pools[usize::from(self.pool_of(of).0)].free_batch(batch.drain(..));
        self.batches.recycle(batch);
    }
}

/// Addresses packets to an instance's interface, in one pass without a branch. Whether every packet had a hop
/// left: more than [`HOP_BUDGET`], which is half of what the field can tell, it never has.
#[inline]
fn address(batch: &mut [Packet], interface: u16) -> bool {
    let mut left = 0;
    for packet in batch {
        let budget = packet.record().hop_budget.wrapping_sub(1);
        packet.edit(|record| (record.ingress, record.hop_budget) = (interface, budget));
        left |= budget;
    }
    left < HOP_BUDGET
}
