//! How a worker ends: what has come in goes out, functions give out what they still have to, what is still
//! held is dropped, ports are closed, the account is given.

use crate::control::account::{Account, InstanceAccount, PortAccount};
use crate::control::events::Event;
use crate::control::fault::Life;
use crate::ids::{Holder, InstanceId, PortId};
use crate::state::instances::Instance;
use crate::state::ports::PortNode;
use crate::worker::Worker;
use telemetry::DropReason;
use telemetry::clock::Nanos;

impl Worker {
    /// From here on ports only send, and what has come in goes out: packets between workers still move.
    pub(crate) fn close(&mut self) {
        self.polling.closing = true;
        for (_, node) in self.ports.iter_mut().filter(|(_, node)| !node.relay) {
            node.target = None;
        }
        self.find_consumers();
    }

    /// Packets that instances and wires between workers have.
    pub(crate) fn on_the_way(&mut self) -> u64 {
        let relays: u64 =
            self.ports.iter().filter(|(_, node)| node.relay).map(|(_, node)| node.port.in_flight()).sum();
        relays + self.instances.iter_mut().map(|(_, instance)| instance.in_flight()).sum::<u64>()
    }

    /// Drains, drops what is still held, closes the ports, and gives the final account.
    pub fn stop(mut self) -> Account {
        let until = self.time.clock.now().saturating_add(self.settings.drain);
        self.close();
        while self.time.clock.now() < until {
            if self.on_the_way() == 0 && !self.finish_functions() && self.on_the_way() == 0 {
                break;
            }
            if !self.turn() {
                std::thread::yield_now();
            }
        }
        self.finish()
    }

    /// Has the functions give out what they still have to. Whether one has more.
    pub(crate) fn finish_functions(&mut self) -> bool {
        let mut more = false;
        for index in 0..self.instances.end() {
            let Some(instance) = self.instances.get(index) else { continue };
            if instance.suspended.is_none() && !instance.stands_still() {
                let before = self.time.switch(instance.entity);
                more |= self.finish_function(index);
                self.time.switch(before);
            }
        }
        more
    }

    fn finish_function(&mut self, index: usize) -> bool {
        let now = self.time.now;
        let Life::Up { guest, .. } = &mut self.instances[index].life else { return false };
        match guest.finish(now) {
            Ok(more) => {
                self.after_call(index);
                more
            }
            Err(fault) => {
                self.on_guest_fault(index, &fault, None);
                false
            }
        }
    }

    /// The end, after draining.
    fn finish(&mut self) -> Account {
        // The functions' reports are of the time before the ports are closed; the counts are of afterwards.
        let reports = self.account(true);
        self.put_down();
        let mut account = self.account(false);
        account.take_from_before(reports);
        account
    }

    /// Drops what is still held, and closes the ports. No function is called any more.
    pub(crate) fn put_down(&mut self) {
        for index in 0..self.instances.end() {
            self.drop_held(index);
        }
        for index in 0..self.ports.end() {
            self.close_driver(index);
        }
        self.maintain_all();
    }

    /// Drops what an instance still has.
    fn drop_held(&mut self, index: usize) {
        let mut held = Vec::new();
        let Some(instance) = self.instances.get_mut(index) else { return };
        instance.queue.drain(&mut held);
        if let Life::Up { guest, .. } = &mut instance.life {
            guest.surrender(&mut held);
        }
        if let Some(batch) = instance.suspended.take() {
            // The guest's call must have ended before its packets have another owner.
            let reason = "stopped in the middle of a call".to_owned();
            instance.life = Life::Down { retry_at: Nanos::MAX, next_delay: Nanos::MAX, reason };
            held.extend(batch);
        }
        if let Some(kept) = instance.detached.take() {
            // Their buffers come back with the guest.
            instance.counters.ledger.dropped[DropReason::HeldAtStop] += kept as u64;
        }
        self.drop_batch(Holder::Instance(index), held, DropReason::HeldAtStop);
    }

    /// Closes a port's driver, and tells if it did not end well.
    fn close_driver(&mut self, index: usize) {
        let Some(node) = self.ports.get_mut(index) else { return };
        self.parking.released |= node.port.wake().readable.is_some();
        let pool = &self.pools[usize::from(node.pool.0)];
        if let Err(reason) = node.port.close(pool) {
            let event = port::PortEvent::WentDown(reason);
            (self.upkeep.tell)(Event::Port { port: node.name.clone(), event });
        }
    }

    /// Ends an instance that nothing leads to any more: what it still has is dropped, and what it logged is
    /// told.
    pub(crate) fn end_instance(&mut self, id: InstanceId) -> Option<(InstanceAccount, Box<Instance>)> {
        self.instances.get(id.index())?;
        self.collect(id.index());
        self.drop_held(id.index());
        let account = self.account_of(id.index(), None);
        let (instance, _) = self.take_instance(id)?.apart();
        Some((account, instance))
    }

    /// Ends a port that nothing leads to any more.
    pub(crate) fn close_port(&mut self, id: PortId) -> Option<(PortAccount, Box<PortNode>)> {
        self.ports.get(id.index())?;
        self.close_driver(id.index());
        let account = self.account_of_port(id.index());
        let node = self.take_port(id)?;
        self.find_backlog();
        Some((account, node))
    }
}
