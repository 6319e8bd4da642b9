//! Where packets come in: ports are polled, in the account of the instance that gets what they bring.

use crate::control::tap::Passage;
use crate::ids::{Holder, Target};
use crate::path::classify::classify;
use crate::state::accounting::NO_INSTANCE;
use crate::worker::Worker;
use packet_memory::Packet;
use telemetry::clock::{Cycles, Nanos};

/// A port that brought nothing so many times is looked at less often.
const COLD_AFTER: u32 = 64;
/// As often as this, when there are many ports.
const COLD_EVERY: Nanos = Nanos(50_000);
/// Most batches from one port in one turn; twice as many from one where work has been put into packets. From
/// outside no more is to come than goes out again: what a process has forwarded would find no room.
const SHARED_POLLS: u32 = 4;
/// The same from another worker, in short batches too: what is inside goes on before more comes in, or it
/// would find no room.
const RELAY_POLLS: u32 = 128;
/// So many ports are all looked at every time, those that went counted until others take their places.
const FEW_PORTS: usize = 16;

impl Worker {
    /// Polls the ports whose takers do not poll them themselves. Returns whether anything came.
    pub(crate) fn receive(&mut self) -> bool {
        let (mut worked, behind) = (false, self.time.interrupted.is_some());
        let end = self.ports.end();
        let cold_too = end <= FEW_PORTS || self.time.now.cycles >= self.polling.next_cold;
        if cold_too {
            self.polling.next_cold = self.time.now.cycles + self.time.clock.cycles(COLD_EVERY);
        }
        // Where buffers are short, the port that is polled first gets them: each time it is another.
        self.polling.first = if self.polling.first + 1 < end { self.polling.first + 1 } else { 0 };
        for index in (self.polling.first..end).chain(0..self.polling.first) {
            let Some(node) = self.ports.get(index) else { continue };
            if node.idle_polls > COLD_AFTER && !cold_too {
                continue;
            }
            let (consumer, relay, internal) = (node.consumer, node.relay, node.internal);
            let is_paid = node.payer.as_ref().is_none_or(|payer| payer.allows(self.time.now.cycles));
            let most = if is_paid { usize::MAX } else { 0 };
            if let Some(consumer) = consumer
                && (self.instances[consumer].polls_for_itself() || !internal && self.is_throttled(consumer))
            {
                // It is paused, or will poll when it runs; what is on its way out by the port is seen to
                // meanwhile. A port whose taker is paused learns that time goes on: what it does by a
                // schedule is not put off.
                let paused = self.instances[consumer].stands_still();
                let node = &mut self.ports[index];
                if (node.port.in_flight() > 0 || paused) && !relay {
                    node.idle_polls = node.idle_polls.saturating_add(u32::from(paused));
                    self.poll_port(index, 0);
                }
                continue;
            }
            // One that feeds several has no instance to poll it before the next turn. While there is work
            // left of the last one it is polled for one batch all the same, so that none of those that it
            // feeds waits for another; the rest waits outside.
            let polls = match consumer {
                None if relay => RELAY_POLLS,
                None if !behind => SHARED_POLLS << u32::from(internal),
                _ => 1,
            };
            worked |= (0..polls).take_while(|_| self.poll_port(index, most)).count() > 0;
        }
        worked
    }

    /// Polls the ports that feed an instance, in its account. One that is throttled fetches nothing from
    /// outside, but goes on taking what work has been put into.
    pub(crate) fn poll_feeds(&mut self, index: usize) {
        let instance = &mut self.instances[index];
        let (feeds, entity) = (instance.feeds.len(), instance.entity);
        (instance.more_outside, instance.unpolled) = (false, 0);
        let throttled = self.is_throttled(index);
        for n in 0..feeds {
            let instance = &self.instances[index];
            let port = instance.feeds[n];
            if throttled && !self.ports[port].internal {
                continue;
            }
            // Beside what waits already no more is fetched than there is room for: the rest waits outside.
            let most = if instance.queue.is_empty() { usize::MAX } else { instance.queue.room() };
            if self.poll_port(port, most) {
                self.time.running = entity;
            }
        }
    }

    /// Receives a batch from a port, of so many packets at most, and queues it, in the account of the
    /// instance that it is for. A port that only sends is asked for none: what it delays or has to complete
    /// goes on all the same.
    pub(crate) fn poll_port(&mut self, index: usize, most: usize) -> bool {
        let node = &self.ports[index];
        let target = node.target;
        // What one instance alone takes leads over no wire.
        if node.consumer.is_none() && target.is_some_and(|target| self.blocked_by(target).is_some()) {
            return false;
        }
        let budget = if target.is_some() { self.settings.batch.min(most) } else { 0 };
        let (mut batch, node) = (self.batches.spare(), &mut self.ports[index]);
        node.port.receive(&self.pools[usize::from(node.pool.0)], self.time.now.nanos, budget, &mut batch);
        let Some(target) = target.filter(|_| !batch.is_empty()) else {
            node.idle_polls = node.idle_polls.saturating_add(u32::from(budget > 0));
            self.batches.recycle(batch);
            return false;
        };
        node.idle_polls = 0;
        self.parking.received += batch.len();
        if let Some(consumer) = node.consumer
            && batch.len() * 2 >= budget
        {
            // There is probably more: from here on the instance that takes it fetches that, when it is its
            // turn.
            self.instances[consumer].more_outside = true;
            self.wake_instance(consumer);
        }
        self.classify_and_queue(index, target, batch);
        true
    }

    /// Classifies what a port received, and queues it for the instance that it is for, hands it to a port or
    /// looks it up in a switch, in the account of the instances that get it.
    fn classify_and_queue(&mut self, index: usize, target: Target, mut batch: Vec<Packet>) {
        let node = &self.ports[index];
        let (pool, watched) = (node.pool, node.is_watched());
        if node.relay {
            self.note_passage(index);
        } else {
            classify(&self.pools[usize::from(pool.0)], &mut batch, self.polling.flow_hash);
        }
        if watched {
            self.show_port(index, &batch, Passage::Received);
        }
        self.time.receivers.clear();
        self.deliver(Holder::Port(index), pool, target, batch);
        // Before those that other ports bring.
        self.put_back();
        self.charge_receivers(index);
    }

    /// The port or wire, if any, that has no room for what a port would bring, and is worth waiting for.
    #[inline]
    pub(crate) fn blocked_by(&self, target: Target) -> Option<usize> {
        let Some(Holder::Port(out)) = self.only_end(target) else { return None };
        let node = &self.ports[out];
        (node.port.room() < self.settings.batch && node.is_responsive()).then_some(out)
    }

    /// Charges what receiving from a port has cost to the instances that got packets, by how many they got.
    fn charge_receivers(&mut self, port: usize) {
        let spent = self.time.lap().0;
        let all: u64 = self.time.receivers.iter().map(|(_, count)| u64::from(*count)).sum();
        for n in 0..self.time.receivers.len() {
            let (entity, count) = self.time.receivers[n];
            self.time.charge(entity, Cycles(spent * u64::from(count) / all));
        }
        if self.time.receivers.is_empty() {
            // An instance polls for itself, or the packets went on by a port.
            match &self.ports[port].payer {
                Some(payer) => payer.charge(Cycles(spent), self.time.now.cycles),
                None => self.time.charge(self.time.running, Cycles(spent)),
            }
        }
        self.time.running = NO_INSTANCE;
    }
}
