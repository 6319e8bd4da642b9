//! What a fleet is given: tenants, pools, switches, ports and instances, and what connects them.

use super::state::{End, FleetInstance, FleetPort};
use super::{Fleet, FleetError};
use crate::ids::{PoolId, SwitchId, WireError};
use crate::instance::InstanceSetup;
use crate::tap::Tap;
use crate::worker::Worker;
use cpu_share::{Claim, TenantId};
use guest::Guest;
use packet_memory::Pool;
use port::Port;
use std::sync::Arc;
use virtual_switch::Switch;

impl Fleet {
    /// Takes a tenant in, with its claim on each worker.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn add_tenant(&self, claim: Claim) -> Result<TenantId, FleetError> {
        self.with(move |workers, _| {
            let mut ids = workers.iter_mut().map(|worker| worker.add_tenant(claim));
            let first = ids.next();
            let same = ids.all(|id| Some(id) == first);
            debug_assert!(same, "all workers have the same tenants");
            first.unwrap_or(TenantId(0))
        })
    }

    /// Takes a pool in.
    ///
    /// # Errors
    /// [`WireError::TooMany`], or [`FleetError::Stopped`].
    pub fn add_pool(&self, pool: Arc<Pool>) -> Result<PoolId, FleetError> {
        self.with(move |workers, _| {
            let mut id = Err(WireError::Absent);
            for worker in workers {
                id = worker.add_pool(pool.clone());
            }
            Ok(id?)
        })?
    }

    /// Takes a switch in. Forwarding is done in the sender's context on whatever worker that is, unless the switch has a
    /// worker of its own.
    ///
    /// # Errors
    /// [`WireError::TooMany`], or [`FleetError::Stopped`].
    pub fn add_switch(
        &self,
        name: &str,
        table: Arc<Switch>,
        home: Option<usize>,
    ) -> Result<SwitchId, FleetError> {
        let name = name.to_owned();
        self.with(move |workers, state| {
            let mut id = Err(WireError::Absent);
            for worker in workers {
                id = worker.add_switch(&name, table.clone());
            }
            let id = id?;
            state.add_switch(home);
            Ok(id)
        })?
    }

    /// Takes a port in, on a worker.
    ///
    /// # Errors
    /// [`FleetError::NoWorker`], or [`FleetError::Stopped`].
    pub fn add_port(
        &self,
        worker: usize,
        name: &str,
        pool: PoolId,
        port: Box<dyn Port>,
    ) -> Result<FleetPort, FleetError> {
        self.check(worker)?;
        let name = name.to_owned();
        self.with(move |workers, state| {
            let id = workers[worker].add_port(&name, pool, port);
            share_flow_hash(workers);
            state.add_port(worker, id)
        })
    }

    /// Takes an instance in, on a worker, with its first guest.
    ///
    /// # Errors
    /// [`FleetError::NoWorker`], or [`FleetError::Stopped`].
    pub fn add_instance(
        &self,
        worker: usize,
        setup: InstanceSetup,
        guest: Box<dyn Guest>,
    ) -> Result<FleetInstance, FleetError> {
        self.check(worker)?;
        self.with(move |workers, state| {
            let id = workers[worker].add_instance(setup, guest);
            share_flow_hash(workers);
            state.add_instance(worker, id)
        })
    }

    /// Lays a wire between two ends, both ways.
    ///
    /// # Errors
    /// [`FleetError`], and nothing is laid.
    pub fn link(&self, a: End, b: End) -> Result<(), FleetError> {
        self.with(move |workers, state| state.link(workers, a, b, true))?
    }

    /// Lays a wire one way, see [`Worker::lead`].
    ///
    /// # Errors
    /// [`FleetError`], and nothing is laid.
    pub fn lead(&self, from: End, to: End) -> Result<(), FleetError> {
        self.with(move |workers, state| state.link(workers, from, to, false))?
    }

    /// Shows the packets of an instance to another first. Both are brought to the observed one's worker, and stay together.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn observe(
        &self,
        observer: FleetInstance,
        at: FleetInstance,
        interface: Option<u16>,
    ) -> Result<(), FleetError> {
        self.with(move |workers, state| state.observe(workers, observer, at, interface))?
    }

    /// Enters a service into the table of every worker.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn serve(&self, service: u16, end: End) -> Result<(), FleetError> {
        self.with(move |workers, state| state.serve(workers, service, end))?
    }

    /// Shows the packets of a port to a tap.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn tap_port(&self, port: FleetPort, tap: Box<dyn Tap>) -> Result<(), FleetError> {
        self.with(move |workers, state| {
            if let Some(home) = state.port(port) {
                workers[home.worker].tap_port(home.id, tap);
            }
        })
    }

    /// Shows the packets of an instance to a tap.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn tap_instance(&self, instance: FleetInstance, tap: Box<dyn Tap>) -> Result<(), FleetError> {
        self.with(move |workers, state| {
            if let Some(home) = state.instance(instance) {
                workers[home.worker].tap_instance(home.id, tap);
            }
        })
    }
}

/// A packet may come in on one worker and be read on another.
fn share_flow_hash(workers: &mut [Box<Worker>]) {
    let read = workers.iter().any(|worker| worker.flow_hash);
    workers.iter_mut().for_each(|worker| worker.flow_hash = read);
}
