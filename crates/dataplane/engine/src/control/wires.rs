//! What a worker is given, and what connects it: pools, ports, instances, switches, wires.

use crate::forwarding::Forwarding;
use crate::ids::{Holder, InstanceId, PoolId, PortId, ServiceId, SwitchId, Target, WireError};
use crate::path::observers::{Observer, Seen, View};
use crate::path::switching::SwitchNode;
use crate::state::backpressure::WireWait;
use crate::state::instances::{Instance, InstanceSetup};
use crate::state::ports::PortNode;
use crate::worker::Worker;
use cpu_share::{Cap, Claim, Meter, TenantId};
use guest::Guest;
use packet_memory::Pool;
use port::Port;
use std::collections::BTreeMap;
use std::sync::Arc;
use telemetry::{Latencies, Ledger};

impl Worker {
    /// Takes a tenant in, with its claim on the worker.
    pub fn add_tenant(&mut self, claim: Claim) -> TenantId {
        let id = self.time.scheduler.add_tenant(claim);
        self.time.tenants.push((id, claim));
        id
    }

    /// The tenant of instances and ports that are given none.
    pub fn default_tenant(&self) -> TenantId {
        self.time.tenants[0].0
    }

    /// Takes a pool of the default tenant in.
    ///
    /// # Errors
    /// [`WireError::TooMany`].
    pub fn add_pool(&mut self, pool: Arc<Pool>) -> Result<PoolId, WireError> {
        self.add_pool_of(self.default_tenant(), pool)
    }

    /// Takes a pool of a tenant in. Backpressure passes between the pools of one tenant, and no others.
    ///
    /// # Errors
    /// [`WireError::TooMany`].
    pub fn add_pool_of(&mut self, owner: TenantId, pool: Arc<Pool>) -> Result<PoolId, WireError> {
        if let Some(id) = self.free_pools.pop() {
            self.pools[usize::from(id.0)] = pool;
            self.owners[usize::from(id.0)] = owner;
            return Ok(id);
        }
        let id = numbered(self.pools.len()).map(PoolId)?;
        self.pools.push(pool);
        self.owners.push(owner);
        Ok(id)
    }

    /// Takes a port in. Nothing is received until it is linked.
    pub fn add_port(&mut self, name: &str, pool: PoolId, port: Box<dyn Port>) -> PortId {
        self.insert_port(Box::new(PortNode {
            name: name.to_owned(),
            pool,
            relay: false,
            internal: false,
            port,
            target: None,
            consumer: None,
            meter: None,
            payer: None,
            stays: false,
            idle_polls: 0,
            watermark: 0,
            to_signal: false,
            wait: WireWait::default(),
            ledger: Ledger::default(),
            latencies: Latencies::default(),
            board: Arc::default(),
            taps: Vec::new(),
            observers: Vec::new(),
            missed: Arc::default(),
        }))
    }

    pub(crate) fn insert_port(&mut self, mut node: Box<PortNode>) -> PortId {
        self.polling.flow_hash |= node.port.reads_flow_hash();
        node.relay = node.port.relay().is_some();
        node.internal = node.relay;
        if let Some(packets) = node.port.capacity() {
            (node.internal, node.watermark) = (true, packets / 2);
        }
        node.target = None;
        (node.consumer, node.payer) = (None, None);
        let (maintained, tapped) = (node.port.needs_maintenance(), !node.taps.is_empty());
        let number = self.ports.insert(node);
        self.ports[number].board.set_home(self.number, number);
        self.upkeep.tapped |= tapped;
        if maintained {
            self.polling.maintained.push(number);
        }
        PortId(number as u32)
    }

    /// Takes an instance in, with its first guest.
    pub fn add_instance(&mut self, setup: InstanceSetup, guest: Box<dyn Guest>) -> InstanceId {
        let entity = self.time.scheduler.add(setup.tenant, setup.claim);
        let instance = Instance::new(setup, entity, guest, self.settings.batch, self.time.clock.moment());
        self.insert_instance(Box::new(instance))
    }

    /// Takes in an instance that the scheduler knows.
    pub(crate) fn insert_instance(&mut self, instance: Box<Instance>) -> InstanceId {
        self.polling.flow_hash |= instance.flow_hash;
        let entity = instance.entity;
        let index = self.instances.insert(instance);
        self.time.name(entity, index);
        self.instances[index].board.set_home(self.number, index);
        self.upkeep.tapped |= !self.instances[index].taps.is_empty();
        self.upkeep.note_call(index, &mut self.instances[index].called);
        self.after_call(index);
        InstanceId(index as u32)
    }

    /// Takes a switch in. Several workers may have one and the same: forwarding is done in the sender's
    /// context.
    ///
    /// # Errors
    /// [`WireError::TooMany`].
    pub fn add_switch(
        &mut self,
        name: &str,
        forwarding: impl Into<Forwarding>,
    ) -> Result<SwitchId, WireError> {
        let id = SwitchId(numbered(self.switches.len())?.into());
        let forwarding = forwarding.into();
        self.polling.flow_hash |= forwarding.reads_flow_hash();
        self.switches.push(SwitchNode::new(name, forwarding));
        Ok(id)
    }

    /// Takes a switch in, in the place of one that is no more, or as the last one.
    pub(crate) fn put_switch(
        &mut self,
        place: usize,
        name: &str,
        forwarding: Forwarding,
    ) -> Result<SwitchId, WireError> {
        match self.switches.get_mut(place) {
            Some(node) => {
                self.polling.flow_hash |= forwarding.reads_flow_hash();
                *node = SwitchNode::new(name, forwarding);
                Ok(SwitchId(numbered(place)?.into()))
            }
            None => self.add_switch(name, forwarding),
        }
    }

    /// Lets another of its kind decide in a switch. Its wires stay.
    pub(crate) fn set_forwarding(&mut self, id: SwitchId, forwarding: Forwarding) -> Result<(), WireError> {
        let node = self.switches.get_mut(id.index()).filter(|node| !node.is_gone);
        let node = node.ok_or(WireError::Absent)?;
        if !node.forwarding.is_like(&forwarding) {
            return Err(WireError::AnotherKind);
        }
        self.polling.flow_hash |= forwarding.reads_flow_hash();
        node.set_forwarding(forwarding);
        Ok(())
    }

    /// Whether a wire may lead from one switch to another.
    pub(crate) fn may_join(&self, one: SwitchId, other: SwitchId) -> Result<(), WireError> {
        let of = |id: SwitchId| self.switches.get(id.index()).ok_or(WireError::Absent);
        let joins = of(one)?.forwarding.joins(&of(other)?.forwarding);
        if joins { Ok(()) } else { Err(WireError::TwoSwitches) }
    }

    /// Takes a switch out, which nothing is plugged into any more.
    pub(crate) fn end_switch(&mut self, id: SwitchId) {
        if let Some(node) = self.switches.get_mut(id.index()) {
            node.end_for_good();
        }
    }

    /// Lets all that leaves a switch here lead nowhere.
    pub(crate) fn clear_switch(&mut self, id: SwitchId) {
        if let Some(node) = self.switches.get_mut(id.index()) {
            node.clear();
        }
    }

    /// Lays a wire between two ends, both ways.
    ///
    /// # Errors
    /// [`WireError`], and nothing is laid.
    pub fn link(&mut self, a: Target, b: Target) -> Result<(), WireError> {
        self.check_wire(a, b)?;
        *self.end(a)? = Some(b);
        *self.end(b)? = Some(a);
        self.find_consumers();
        Ok(())
    }

    /// Lays a wire one way: packets that leave by `from` go to `to`, and nothing comes back. A port that only
    /// sends is not polled.
    ///
    /// # Errors
    /// [`WireError`], and nothing is laid.
    pub fn lead(&mut self, from: Target, to: Target) -> Result<(), WireError> {
        self.check_wire(from, to)?;
        *self.end(from)? = Some(to);
        self.find_consumers();
        Ok(())
    }

    /// Takes away what leads from an end to elsewhere; the other direction stays.
    ///
    /// # Errors
    /// [`WireError::Absent`] or [`WireError::NoInterface`].
    pub fn unlink(&mut self, end: Target) -> Result<Option<Target>, WireError> {
        let was = self.end(end)?.take();
        self.find_consumers();
        Ok(was)
    }

    /// Shows what passes an end to an instance: what comes in by an interface, what a port receives and
    /// transmits, what comes in or goes out by a plug of a switch.
    ///
    /// # Errors
    /// [`WireError::Absent`] or [`WireError::NoInterface`].
    pub fn observe(&mut self, observer: InstanceId, at: Target, view: View) -> Result<(), WireError> {
        self.end(at)?;
        let watching = self.instances.get_mut(observer.index()).ok_or(WireError::Absent)?;
        watching.is_observer = true;
        let (target, missed) = (Target::Instance(observer, 0), watching.missed_elsewhere.clone());
        let observer = Observer::new(target, view, missed);
        let (seen, observer) = match at {
            Target::Instance(id, interface) => {
                (Seen::Instance(id.index()), observer.at_interface(Some(interface)))
            }
            Target::Port(port) => (Seen::Port(port.index()), observer),
            Target::Switch(id, plug) => (Seen::Switch(id.index()), observer.at_plug(Some(plug))),
        };
        self.observers_at(seen).push(observer);
        Ok(())
    }

    /// Changes a tenant's claim.
    pub(crate) fn set_tenant_claim(&mut self, id: TenantId, claim: Claim) {
        self.time.scheduler.set_tenant_claim(id, claim);
        self.time
            .tenants
            .iter_mut()
            .filter(|(tenant, _)| *tenant == id)
            .for_each(|(_, known)| *known = claim);
    }

    /// Holds each tenant to what it is promised here, beside its own cap, or lets it have what others leave:
    /// then what has no turns here finds the core free.
    pub(crate) fn hold_to_promises(&mut self, hold: bool) {
        let tenants = self.time.tenants.clone();
        for (id, claim) in &tenants {
            self.time.scheduler.set_tenant_claim(*id, *claim);
        }
        if !hold {
            return;
        }
        // All are worked out before the first is held: a cap is part of what others are promised.
        let scheduler = &mut self.time.scheduler;
        let promised: Vec<f64> = tenants.iter().map(|(id, _)| scheduler.promised_to_tenant(*id)).collect();
        for ((id, claim), promised) in tenants.iter().zip(promised) {
            let millionths = (promised * f64::from(Cap::WHOLE)) as u32;
            if let Some(held) = Cap::from_millionths(millionths.min(Cap::WHOLE)) {
                let cap = Some(claim.cap.map_or(held, |cap| cap.min(held)));
                scheduler.set_tenant_claim(*id, Claim { cap, ..*claim });
            }
        }
    }

    /// Takes a tenant out, unless it has instances; returns whether it did.
    pub(crate) fn remove_tenant(&mut self, id: TenantId) -> bool {
        let removed = self.time.scheduler.remove_tenant(id);
        if removed {
            self.time.tenants.retain(|(tenant, _)| *tenant != id);
        }
        removed
    }

    /// Puts another pool in a pool's place, which the next one gets that comes.
    pub(crate) fn remove_pool(&mut self, id: PoolId, stand_in: &Arc<Pool>) -> Option<Arc<Pool>> {
        let place = self.pools.get_mut(usize::from(id.0))?;
        self.free_pools.push(id);
        Some(std::mem::replace(place, stand_in.clone()))
    }

    /// Takes a service out of its tenant's table.
    pub(crate) fn unserve(&mut self, service: ServiceId) {
        if let Some(table) = self.services.get_mut(service.tenant.0 as usize) {
            table.remove(&service.number);
        }
    }

    /// Enters a service into its tenant's table.
    pub fn serve(&mut self, service: ServiceId, target: Target) {
        let tenant = service.tenant.0 as usize;
        if self.services.len() <= tenant {
            self.services.resize_with(tenant + 1, BTreeMap::new);
        }
        self.services[tenant].insert(service.number, target);
    }

    /// Where a tenant's function sends packets for a service; other tenants' tables are never searched.
    #[inline]
    pub(crate) fn service(&self, tenant: TenantId, number: u16) -> Option<Target> {
        self.services.get(tenant.0 as usize)?.get(&number).copied()
    }

    fn check_wire(&mut self, a: Target, b: Target) -> Result<(), WireError> {
        if a == b {
            return Err(WireError::Taken);
        }
        if let (Target::Switch(one, _), Target::Switch(other, _)) = (a, b) {
            self.may_join(one, other)?;
        }
        for end in [a, b] {
            if self.end(end)?.is_some() {
                return Err(WireError::Taken);
            }
        }
        Ok(())
    }

    pub(crate) fn end(&mut self, of: Target) -> Result<&mut Option<Target>, WireError> {
        match of {
            Target::Port(port) => Ok(&mut self.ports.get_mut(port.index()).ok_or(WireError::Absent)?.target),
            Target::Switch(id, port) => {
                Ok(self.switches.get_mut(id.index()).ok_or(WireError::Absent)?.end_mut(port))
            }
            Target::Instance(id, interface) => {
                let links = &mut self.instances.get_mut(id.index()).ok_or(WireError::Absent)?.links;
                let interfaces = links.len() as u16;
                links.get_mut(usize::from(interface)).ok_or(WireError::NoInterface { interface, interfaces })
            }
        }
    }

    /// Finds out which instance alone takes what one port receives.
    pub(crate) fn find_consumer(&mut self, port: PortId) {
        let number = port.index();
        let Some(node) = self.ports.get(number) else { return };
        let (before, only, payer) = (node.consumer, self.consumer_of(node), self.payer_of(node));
        if node.target.is_some() {
            self.parking.moderation.lower_backlog(node.port.backlog());
        }
        self.ports[number].payer = payer;
        if before != only {
            self.ports[number].consumer = only;
            if let Some(instance) = before.and_then(|before| self.instances.get_mut(before)) {
                instance.feeds.retain(|feed| *feed != number);
            }
            if let Some(only) = only {
                self.instances[only].feeds.push(number);
            }
        }
    }

    /// Finds out how many packets wait at each port without loss while the worker sleeps.
    pub(crate) fn find_backlog(&mut self) {
        let backlog = |node: &PortNode| if node.target.is_some() { node.port.backlog() } else { usize::MAX };
        let least = self.ports.iter().map(|(_, node)| backlog(node)).min().unwrap_or(usize::MAX);
        self.parking.moderation.set_backlog(least);
    }

    /// Ports that are polled by another instance than the one that takes what they bring, or charged to
    /// another meter than what they bring is to be.
    #[cfg(test)]
    pub(crate) fn wrong_consumers(&self) -> Vec<String> {
        let feeds = |number: usize| {
            let fed = self.instances.iter().filter(|(_, one)| one.feeds.contains(&number));
            fed.map(|(index, _)| index).collect::<Vec<_>>()
        };
        let is_wrong = |(number, node): &(usize, &PortNode)| {
            let right = self.consumer_of(node);
            let meter = |payer: &Option<Arc<Meter>>| payer.as_ref().map(Arc::as_ptr);
            let is_charged = meter(&node.payer) == meter(&self.payer_of(node));
            node.consumer != right || feeds(*number) != Vec::from_iter(right) || !is_charged
        };
        let wrong = self.ports.iter().filter(is_wrong);
        wrong.map(|(number, node)| format!("{number}: {:?} to {:?}", node.target, node.consumer)).collect()
    }

    fn consumer_of(&self, node: &PortNode) -> Option<usize> {
        match self.only_end(node.target?) {
            Some(Holder::Instance(only)) => Some(only),
            Some(Holder::Port(_)) | None => None,
        }
    }

    /// Finds out which instance alone takes what a port receives: that one polls the port itself.
    pub(crate) fn find_consumers(&mut self) {
        for (_, instance) in self.instances.iter_mut() {
            instance.feeds.clear();
        }
        self.find_backlog();
        for number in 0..self.ports.end() {
            let Some(node) = self.ports.get(number) else { continue };
            let (only, payer) = (self.consumer_of(node), self.payer_of(node));
            (self.ports[number].consumer, self.ports[number].payer) = (only, payer);
            if let Some(only) = only {
                self.instances[only].feeds.push(number);
            }
        }
    }

    /// What is charged for polling a port where no instance is.
    fn payer_of(&self, node: &PortNode) -> Option<Arc<Meter>> {
        match self.only_end(node.target?) {
            Some(Holder::Instance(_)) => None,
            Some(Holder::Port(to)) => node.meter.clone().or_else(|| self.ports.get(to)?.meter.clone()),
            None => node.meter.clone(),
        }
    }

    /// What a port costs where no instance pays is charged to a meter, and held to its rate.
    pub(crate) fn set_meter(&mut self, id: PortId, meter: Arc<Meter>, stays: bool) {
        if let Some(node) = self.ports.get_mut(id.index()) {
            (node.meter, node.stays) = (Some(meter), stays);
        }
        self.find_consumers();
    }
}

fn numbered(count: usize) -> Result<u16, WireError> {
    u16::try_from(count).map_err(|_| WireError::TooMany)
}
