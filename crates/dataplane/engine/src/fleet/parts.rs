//! What a fleet is given and what is taken from it: tenants, pools, switches, ports and instances, and what
//! connects them.
//!
//! All of it is done through a [`Change`], in one go however much it is.

use super::observations::{FleetObserver, Place};
use super::state::{End, FleetInstance, FleetPort, Home, State};
use super::{Fleet, FleetError};
use crate::control::account::{InstanceAccount, PortAccount};
use crate::control::events::Stopped;
use crate::control::quiesce::Quiesced;
use crate::control::takeover::{GuestSetup, Offered, TakeoverError};
use crate::control::tap::Tap;
use crate::forwarding::Forwarding;
use crate::ids::{InstanceId, PoolId, ServiceId, SwitchId, WireError};
use crate::path::observers::View;
use crate::state::instances::{GuestFactory, Instance, InstanceSetup, Policies};
use crate::state::ports::PortNode;
use crate::worker::Worker;
use cpu_share::{Claim, EntityId, Meter, TenantId};
use guest::{Guest, Offer};
use packet_memory::{Packet, Pool};
use port::Port;
use std::sync::Arc;
use telemetry::clock::Nanos;
use virtual_switch::SwitchPort;

/// A fleet whose workers are quiesced as they are touched: nothing of those runs, and everything of
/// them may be changed.
pub struct Change<'a, 'b> {
    workers: &'a mut Quiesced<'b>,
    state: &'a mut State,
}

/// An instance that was taken out of its fleet. Dropping it gives its memory back, which takes its time.
pub struct Removed {
    /// What it counted up to its end; packets that it still had are among its losses.
    pub account: InstanceAccount,
    /// Its guest, its factory and its name.
    _instance: Box<Instance>,
}

/// A port that was taken out of its fleet and closed. Dropping it ends what its driver has beside the worker,
/// a thread at a socket say, for which it may wait.
pub struct RemovedPort {
    /// What it counted up to its end.
    pub account: PortAccount,
    /// Its driver and its name.
    _node: Box<PortNode>,
}

impl Fleet {
    /// Changes many things at one quiescent point. Nothing is undone when a step is refused: the caller takes
    /// care that the steps fit, or takes back what was done.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn change<R>(&self, deed: impl FnOnce(&mut Change<'_, '_>) -> R) -> Result<R, Stopped> {
        let done = self.with(move |workers, state| deed(&mut Change::new(workers, state)));
        done.map_err(|_| Stopped)
    }
}

impl<'a, 'b> Change<'a, 'b> {
    pub(super) fn new(workers: &'a mut Quiesced<'b>, state: &'a mut State) -> Change<'a, 'b> {
        Change { workers, state }
    }

    /// Where an instance is.
    pub(super) fn home(&self, instance: FleetInstance) -> Result<Home<InstanceId>, TakeoverError> {
        self.state.instance(instance).ok_or(TakeoverError::Absent)
    }

    /// A worker, quiesced.
    pub(super) fn worker(&mut self, number: usize) -> &mut Worker {
        &mut self.workers[number]
    }
}

impl Change<'_, '_> {
    /// Takes a tenant in, with its claim on each worker.
    pub fn add_tenant(&mut self, claim: Claim) -> TenantId {
        let mut ids = self.workers.iter_mut().map(|worker| worker.add_tenant(claim));
        let first = ids.next();
        let same = ids.all(|id| Some(id) == first);
        debug_assert!(same, "all workers have the same tenants");
        first.unwrap_or(TenantId(0))
    }

    /// Changes a tenant's claim on each worker.
    pub fn set_tenant_claim(&mut self, tenant: TenantId, claim: Claim) {
        self.workers.iter_mut().for_each(|worker| worker.set_tenant_claim(tenant, claim));
    }

    /// Takes a tenant out that has no instance any more; one that has some stays.
    pub fn remove_tenant(&mut self, tenant: TenantId) {
        let mut removed = true;
        self.workers.iter_mut().for_each(|worker| removed &= worker.remove_tenant(tenant));
        if removed {
            self.state.unserve_tenant(self.workers, tenant);
        }
    }

    /// Takes a pool of the default tenant in.
    ///
    /// # Errors
    /// [`WireError::TooMany`].
    pub fn add_pool(&mut self, pool: Arc<Pool>) -> Result<PoolId, FleetError> {
        let first = self.workers.iter_mut().next().ok_or(WireError::Absent)?;
        let owner = first.default_tenant();
        self.add_pool_of(owner, pool)
    }

    /// Takes a pool of a tenant in. Backpressure passes between the pools of one tenant, and no others.
    ///
    /// # Errors
    /// [`WireError::TooMany`].
    pub fn add_pool_of(&mut self, owner: TenantId, pool: Arc<Pool>) -> Result<PoolId, FleetError> {
        let mut id = Err(WireError::Absent);
        for worker in self.workers.iter_mut() {
            id = worker.add_pool_of(owner, pool.clone());
        }
        let id = id?;
        self.state.boards.add_pool(id, pool);
        Ok(id)
    }

    /// Puts another pool in the place of one, `stand_in`, for which nothing is left that uses it; returns
    /// that one. The place is given to the next pool that comes.
    pub fn remove_pool(&mut self, pool: PoolId, stand_in: &Arc<Pool>) -> Option<Arc<Pool>> {
        self.state.boards.forget_pool(pool);
        let removed = self.workers.iter_mut().map(|worker| worker.remove_pool(pool, stand_in));
        removed.fold(None, |_, removed| removed)
    }

    /// Takes a switch in, which is anything that forwards by a decision: a learning switch, a virtual device,
    /// the devices at a port. Forwarding is done in the sender's context on whatever worker that is, unless
    /// the switch has a worker of its own, which devices have no use for.
    ///
    /// # Errors
    /// [`WireError::TooMany`].
    pub fn add_switch(
        &mut self,
        name: &str,
        forwarding: impl Into<Forwarding>,
        home: Option<usize>,
    ) -> Result<SwitchId, FleetError> {
        let forwarding = forwarding.into();
        let place = self.state.place_for_switch();
        let mut id = Err(WireError::Absent);
        for worker in self.workers.iter_mut() {
            id = worker.put_switch(place, name, forwarding.clone());
        }
        let id = id?;
        self.state.add_switch(id, home);
        self.state.boards.add_switch(id, name, forwarding);
        Ok(id)
    }

    /// Lets another of its kind decide in a switch from now on. Wires stay as they are: those to plugs that
    /// are new or no more are laid and taken away in the same change.
    ///
    /// # Errors
    /// [`WireError::Absent`] or [`WireError::AnotherKind`]; nothing has changed then.
    pub fn set_forwarding(
        &mut self,
        switch: SwitchId,
        forwarding: impl Into<Forwarding>,
    ) -> Result<(), FleetError> {
        let forwarding = forwarding.into();
        for worker in self.workers.iter_mut() {
            worker.set_forwarding(switch, forwarding.clone())?;
        }
        self.state.boards.set_forwarding(switch, forwarding);
        self.state.find_consumers_at(self.workers, switch);
        Ok(())
    }

    /// Takes a switch out; whatever was plugged into it leads nowhere.
    pub fn remove_switch(&mut self, switch: SwitchId) {
        let end = End::Switch(switch, virtual_switch::SwitchPort(0));
        self.state.detach(self.workers, end);
        self.state.unobserve_switch(self.workers, switch);
        self.workers.iter_mut().for_each(|worker| worker.end_switch(switch));
        self.state.remove_switch(switch);
        self.state.boards.forget_switch(switch);
    }

    /// Takes a port in, on a worker.
    ///
    /// # Errors
    /// [`FleetError::NoWorker`].
    pub fn add_port(
        &mut self,
        worker: usize,
        name: &str,
        pool: PoolId,
        port: Box<dyn Port>,
    ) -> Result<FleetPort, FleetError> {
        self.check(worker)?;
        let id = self.workers[worker].add_port(name, pool, port);
        share_flow_hash(self.workers);
        let port = self.state.add_port(worker, id);
        let board = self.workers[worker].board_of_port(id);
        self.state.boards.add_port(port, board);
        Ok(port)
    }

    /// What a port costs its worker where no instance pays for it is charged to a meter, and held to its
    /// rate. One that `stays` is not moved by a [`Balancer`](crate::Balancer).
    ///
    /// # Errors
    /// [`WireError::Absent`].
    pub fn set_meter(&mut self, port: FleetPort, meter: Arc<Meter>, stays: bool) -> Result<(), FleetError> {
        let home = self.state.port(port).ok_or(WireError::Absent)?;
        self.workers[home.worker].set_meter(home.id, meter, stays);
        Ok(())
    }

    /// Lets something that has no turns on a worker claim a part of its core, as the only one of a tenant: it
    /// counts for what others are promised there.
    ///
    /// # Errors
    /// [`FleetError::NoWorker`].
    pub fn claim_beside(&mut self, worker: usize, tenant: TenantId) -> Result<EntityId, FleetError> {
        self.check(worker)?;
        Ok(self.workers[worker].time.scheduler.add(tenant, Claim::default()))
    }

    /// Ends such a claim.
    pub fn end_claim_beside(&mut self, worker: usize, claimed: EntityId) {
        if self.check(worker).is_ok() {
            self.workers[worker].time.scheduler.remove(claimed);
        }
    }

    /// Holds the tenants of a worker to what they are promised there, or does so no longer: those that claim
    /// a part of its core beside them find it free. What joins or claims something else later is not held
    /// until this is called again.
    pub fn hold_to_promises(&mut self, worker: usize, hold: bool) {
        if self.check(worker).is_ok() {
            self.workers[worker].hold_to_promises(hold);
        }
    }

    /// What such a claim promises: a part of the worker's core.
    pub fn promised_beside(&self, worker: usize, claimed: EntityId) -> f64 {
        if self.check(worker).is_err() { 0.0 } else { self.workers[worker].time.scheduler.promised(claimed) }
    }

    /// Takes a port out and closes it: what waits for it goes out first, as far as the port takes it. Its
    /// wires and services go with it.
    ///
    /// # Errors
    /// [`WireError::Absent`].
    pub fn remove_port(&mut self, port: FleetPort) -> Result<RemovedPort, FleetError> {
        let (account, node) = self.state.remove_port(self.workers, port)?;
        Ok(RemovedPort { account, _node: node })
    }

    /// Takes an instance in, on a worker, with its first guest.
    ///
    /// # Errors
    /// [`FleetError::NoWorker`].
    pub fn add_instance(
        &mut self,
        worker: usize,
        setup: InstanceSetup,
        guest: Box<dyn Guest>,
    ) -> Result<FleetInstance, FleetError> {
        self.check(worker)?;
        let before = self.workers[worker].polling.flow_hash;
        let id = self.workers[worker].add_instance(setup, guest);
        if self.workers[worker].polling.flow_hash != before {
            share_flow_hash(self.workers);
        }
        let instance = self.state.add_instance(worker, id);
        let board = self.workers[worker].board_of(id);
        self.state.boards.add_instance(instance, board);
        Ok(instance)
    }

    /// Takes an instance out. Packets that it still has are dropped, as held at stop; its wires, observations
    /// and services go with it.
    ///
    /// # Errors
    /// [`WireError::Absent`].
    pub fn remove_instance(&mut self, instance: FleetInstance) -> Result<Removed, FleetError> {
        let (account, instance) = self.state.remove_instance(self.workers, instance)?;
        Ok(Removed { account, _instance: instance })
    }

    /// Pauses an instance, or lets it go on.
    ///
    /// # Errors
    /// [`WireError::Absent`], or [`FleetError::Frozen`].
    pub fn set_paused(&mut self, instance: FleetInstance, paused: bool) -> Result<(), FleetError> {
        let home = self.state.instance(instance).ok_or(WireError::Absent)?;
        let worker = &mut self.workers[home.worker];
        if paused {
            worker.pause(home.id);
            return Ok(());
        }
        worker.resume_instance(home.id).map_err(|reason| {
            let name = worker.instances.get(home.id.index()).map(|instance| instance.name.clone());
            FleetError::Frozen { instance: name.unwrap_or_default(), reason }
        })
    }

    /// Lets another guest take over between two batches; the one before comes back. Packets that it held wait
    /// in the queue. No packet is lost.
    ///
    /// # Errors
    /// [`TakeoverError`]; nothing has changed then, and the new guest is dropped.
    pub fn swap_guest(
        &mut self,
        instance: FleetInstance,
        guest: GuestSetup,
    ) -> Result<GuestSetup, TakeoverError> {
        let home = self.state.instance(instance).ok_or(TakeoverError::Absent)?;
        let before = self.workers[home.worker].polling.flow_hash;
        let swapped = self.workers[home.worker].swap_guest(home.id, guest)?;
        if self.workers[home.worker].polling.flow_hash != before {
            share_flow_hash(self.workers);
        }
        Ok(swapped)
    }

    /// Lets another guest go on in the place of an instance's own, with its memory and all that is kept for
    /// it, if both lay out their memory alike; the one before comes back with nothing, and can take its place
    /// again in the same way. `Err`: they are not alike, nothing has changed, and the new one comes back. No
    /// packet is lost.
    ///
    /// # Errors
    /// [`TakeoverError`]; the new guest is dropped.
    pub fn succeed_guest(
        &mut self,
        instance: FleetInstance,
        guest: GuestSetup,
    ) -> Result<Result<GuestSetup, GuestSetup>, TakeoverError> {
        let home = self.state.instance(instance).ok_or(TakeoverError::Absent)?;
        let before = self.workers[home.worker].polling.flow_hash;
        let done = self.workers[home.worker].succeed_guest(home.id, guest)?;
        if self.workers[home.worker].polling.flow_hash != before {
            share_flow_hash(self.workers);
        }
        Ok(done)
    }

    /// Has an instance's guest take a changed file of its configuration while it runs; `factory` makes the
    /// guests to come. `Ok`: it will, and the factory before comes back. `Err`: it takes none, and the new
    /// one comes back.
    ///
    /// # Errors
    /// [`TakeoverError`]; nothing has changed.
    pub fn offer(
        &mut self,
        instance: FleetInstance,
        offer: &Arc<Offer>,
        factory: Box<dyn GuestFactory>,
    ) -> Result<Offered, TakeoverError> {
        let home = self.state.instance(instance).ok_or(TakeoverError::Absent)?;
        self.workers[home.worker].offer(home.id, offer, factory)
    }

    /// Gives an instance another factory for the guests to come; the one before comes back.
    ///
    /// # Errors
    /// [`TakeoverError::Absent`].
    pub fn swap_factory(
        &mut self,
        instance: FleetInstance,
        factory: Box<dyn GuestFactory>,
    ) -> Result<Box<dyn GuestFactory>, TakeoverError> {
        let home = self.state.instance(instance).ok_or(TakeoverError::Absent)?;
        self.workers[home.worker].swap_factory(home.id, factory)
    }

    /// Puts packets into an instance's queue, counted as generated there; what finds no room comes back.
    pub fn put_into_queue(&mut self, instance: FleetInstance, packets: Vec<Packet>) -> Vec<Packet> {
        match self.state.instance(instance) {
            Some(home) => self.workers[home.worker].put_into_queue(home.id, packets),
            None => packets,
        }
    }

    /// Since when the worker of an instance has done nothing.
    pub fn still_since(&self, instance: FleetInstance) -> Option<Nanos> {
        let home = self.state.instance(instance)?;
        Some(self.workers[home.worker].time.now.nanos)
    }

    /// Since when the first of the workers that were touched has done nothing; `None`: none was touched.
    pub fn first_still_since(&self) -> Option<Nanos> {
        self.workers.still_since()
    }

    /// The account of one instance, without its report.
    pub fn account_of(&mut self, instance: FleetInstance) -> Option<InstanceAccount> {
        let home = self.state.instance(instance)?;
        Some(self.workers[home.worker].account_of(home.id.index(), None))
    }

    /// What a function reports of itself: a call into it, charged to it. `None` when it has nothing to say or
    /// is down, and when it faults over it.
    pub fn report(&mut self, instance: FleetInstance) -> Option<String> {
        let home = self.state.instance(instance)?;
        self.workers[home.worker].report_of(home.id.index())
    }

    /// The account of one port.
    pub fn account_of_port(&self, port: FleetPort) -> Option<PortAccount> {
        let home = self.state.port(port)?;
        Some(self.workers[home.worker].account_of_port(home.id.index()))
    }

    /// Changes an instance's claim on its worker.
    ///
    /// # Errors
    /// [`WireError::Absent`].
    pub fn set_claim(&mut self, instance: FleetInstance, claim: Claim) -> Result<(), FleetError> {
        let home = self.state.instance(instance).ok_or(WireError::Absent)?;
        self.workers[home.worker].set_claim(home.id, claim);
        Ok(())
    }

    /// Changes what holds for an instance and its guests, which go on.
    ///
    /// # Errors
    /// [`WireError::Absent`].
    pub fn set_policies(&mut self, instance: FleetInstance, policies: Policies) -> Result<(), FleetError> {
        let home = self.state.instance(instance).ok_or(WireError::Absent)?;
        self.workers[home.worker].set_policies(home.id, policies);
        Ok(())
    }

    /// See [`Fleet::move_to`].
    ///
    /// # Errors
    /// As there.
    pub fn move_to(&mut self, parts: &[End], worker: usize) -> Result<usize, FleetError> {
        self.check(worker)?;
        self.state.move_to(self.workers, parts, worker)
    }

    /// How many instances a worker has.
    pub fn population(&self, worker: usize) -> usize {
        self.state.population(worker)
    }

    /// On which worker a port or an instance is.
    pub fn worker_of(&self, end: End) -> Option<usize> {
        self.state.worker_of(end)
    }

    /// Lays a wire between two ends, both ways.
    ///
    /// # Errors
    /// [`FleetError`], and nothing is laid.
    pub fn link(&mut self, a: End, b: End) -> Result<(), FleetError> {
        self.state.link(self.workers, a, b, true)
    }

    /// Lays a wire one way, see [`Worker::lead`].
    ///
    /// # Errors
    /// [`FleetError`], and nothing is laid.
    pub fn lead(&mut self, from: End, to: End) -> Result<(), FleetError> {
        self.state.link(self.workers, from, to, false)
    }

    /// Takes the wires between two ends away. What is on its way between workers still arrives.
    ///
    /// # Errors
    /// [`WireError::Absent`]: there is none.
    pub fn unlink(&mut self, a: End, b: End) -> Result<(), FleetError> {
        self.state.unlink(self.workers, a, b)
    }

    /// Shows an instance or a port what passes a place. A port, and an instance that cannot be called at
    /// once, is sent copies, and misses what there is no room for; nothing else waits or is lost for that.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn observe(
        &mut self,
        observer: impl Into<FleetObserver>,
        at: Place,
        view: View,
    ) -> Result<(), FleetError> {
        self.state.observe(self.workers, observer.into(), at, view)
    }

    /// Ends an observation of a place.
    ///
    /// # Errors
    /// [`WireError::Absent`]: there is none.
    pub fn unobserve(&mut self, observer: impl Into<FleetObserver>, at: Place) -> Result<(), FleetError> {
        self.state.unobserve(self.workers, observer.into(), at)
    }

    /// Lets a tenant's functions reach an end by a service, on every worker.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn serve(&mut self, service: ServiceId, end: End) -> Result<(), FleetError> {
        self.state.serve(self.workers, service, end)
    }

    /// Takes a service away from its tenant's functions.
    pub fn unserve(&mut self, service: ServiceId) {
        self.state.unserve(self.workers, service);
    }

    /// Shows the packets of a port to a tap.
    pub fn tap_port(&mut self, port: FleetPort, tap: Box<dyn Tap>) {
        if let Some(home) = self.state.port(port) {
            self.workers[home.worker].tap_port(home.id, tap);
        }
    }

    /// Shows the packets of an instance to a tap.
    pub fn tap_instance(&mut self, instance: FleetInstance, tap: Box<dyn Tap>) {
        if let Some(home) = self.state.instance(instance) {
            self.workers[home.worker].tap_instance(home.id, tap);
        }
    }

    /// Shows the packets that pass a device, or those that come in or go out by one plug of it, to taps: one
    /// on each worker.
    pub fn tap_switch(
        &mut self,
        switch: SwitchId,
        plug: Option<SwitchPort>,
        mut tap: impl FnMut() -> Box<dyn Tap>,
    ) {
        self.workers.iter_mut().for_each(|worker| worker.tap_switch(switch, plug, tap()));
    }

    /// Takes out the taps that are over.
    pub fn flush_taps(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.flush_taps());
    }

    /// Lets ports look at their interfaces at once, which they do ten times a second otherwise.
    pub fn look_at_ports(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.look_at_ports());
    }

    fn check(&self, worker: usize) -> Result<(), FleetError> {
        let there = self.workers.len();
        if worker < there { Ok(()) } else { Err(FleetError::NoWorker { worker, last: there - 1 }) }
    }
}

/// A packet may come in on one worker and be read on another.
fn share_flow_hash(workers: &mut Quiesced<'_>) {
    let read = workers.iter().any(|worker| worker.polling.flow_hash);
    workers.iter_mut().for_each(|worker| worker.polling.flow_hash = read);
}
