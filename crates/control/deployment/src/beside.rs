//! Containers as the engine knows them: a meter for what their packets cost, and the claim on their worker's
//! core of those that stay on one.
//!
//! 1. A container's meter is made before its ports, which it is given to, and lives as long as the container
//!    is wanted: another `cpu` of it is another claim, not another meter.
//! 2. One with a `worker` claims a part of that worker's core, in a tenant of its own: what is promised to
//!    functions there, and to it, is worked out of the claims of all of them.
//! 3. [`Host::beside`] tells what was used and what is promised, for the loop that sets limits.

use crate::Host;
use cpu_share::meter::BURST;
use cpu_share::{EntityId, Meter, TenantId};
use engine::{Change, End, FleetError, FleetPort};
use guest_wasm::watchdog;
use std::collections::HashMap;
use std::sync::Arc;
use telemetry::clock::Cycles;
use wiring::Container;

/// A container's part in the engine.
pub(crate) struct LaidContainer {
    meter: Arc<Meter>,
    claim: Option<Claimed>,
    weight: u32,
    /// In thousandths of a processor.
    cap: Option<u32>,
}

/// Its claim on a worker's core.
struct Claimed {
    worker: usize,
    tenant: TenantId,
    entity: EntityId,
}

impl Default for LaidContainer {
    fn default() -> LaidContainer {
        let meter = Arc::new(Meter::new(watchdog::clock().cycles(BURST)));
        LaidContainer { meter, claim: None, weight: 100, cap: None }
    }
}

impl LaidContainer {
    /// The claim that it has ends.
    pub(crate) fn end_claim(&mut self, change: &mut Change<'_, '_>) {
        if let Some(Claimed { worker, tenant, entity }) = self.claim.take() {
            change.end_claim_beside(worker, entity);
            change.remove_tenant(tenant);
        }
    }

    /// It claims what a container may have, where it stays on one of so many workers. Ports that it has
    /// already come along.
    pub(crate) fn claim(
        &mut self,
        change: &mut Change<'_, '_>,
        container: &Container,
        workers: usize,
        ports: &[FleetPort],
    ) -> Result<(), FleetError> {
        self.end_claim(change);
        (self.weight, self.cap) = (container.weight, container.cap);
        let worker = container.worker.filter(|worker| *worker < workers);
        if let Some(worker) = worker {
            let tenant = change.add_tenant(container.claim());
            let entity = change.claim_beside(worker, tenant)?;
            self.claim = Some(Claimed { worker, tenant, entity });
            let ends: Vec<End> = ports.iter().map(|port| End::Port(*port)).collect();
            change.move_to(&ends, worker)?;
        }
        ports.iter().try_for_each(|port| self.give_meter(change, *port))
    }

    /// A port of it is charged to its meter.
    pub(crate) fn give_meter(&self, change: &mut Change<'_, '_>, port: FleetPort) -> Result<(), FleetError> {
        change.set_meter(port, self.meter.clone(), self.claim.is_some())
    }
}

/// What the engine knows of a container.
#[derive(Clone, Debug)]
pub struct BesideReading {
    /// What its packets cost, and at which rate they may.
    pub meter: Arc<Meter>,
    /// The worker that it stays on.
    pub worker: Option<usize>,
    /// The part of that worker's core that it is promised.
    pub promised: Option<f64>,
    /// Its weight.
    pub weight: u32,
    /// Its cap, of one processor.
    pub cap: Option<f64>,
}

impl Host {
    /// What is known of all containers. Where one stays on a worker, that one stops for as long as it takes
    /// to work out what is promised there; not `with_promises`, none stops.
    pub fn beside(&self, with_promises: bool) -> HashMap<String, BesideReading> {
        let deployed = self.deployed();
        let containers = deployed.containers.iter();
        let laid = containers.map(|(name, LaidContainer { meter, claim, weight, cap })| {
            let reading = BesideReading {
                meter: meter.clone(),
                worker: claim.as_ref().map(|claimed| claimed.worker),
                promised: None,
                weight: *weight,
                cap: cap.map(|thousandths| f64::from(thousandths) / 1e3),
            };
            (name.clone(), claim.as_ref().map(|claimed| claimed.entity), reading)
        });
        let laid: Vec<_> = laid.collect();
        drop(deployed);
        let promised = |change: &mut Change<'_, '_>| {
            let of = |(_, entity, reading): &(String, Option<EntityId>, BesideReading)| {
                Some(change.promised_beside(reading.worker?, (*entity)?))
            };
            laid.iter().map(of).collect::<Vec<_>>()
        };
        let any = with_promises && laid.iter().any(|(_, entity, _)| entity.is_some());
        // A fleet that has stopped promises nothing.
        let promises = if any { self.fleet.change(promised).unwrap_or_default() } else { Vec::new() };
        let promises = promises.into_iter().chain(std::iter::repeat(None));
        let read = laid.into_iter().zip(promises);
        read.map(|((name, _, reading), promised)| (name, BesideReading { promised, ..reading })).collect()
    }

    /// Cycles that the engine has used for a container's packets.
    pub fn used_beside(&self, name: &str) -> Cycles {
        self.deployed().containers.get(name).map_or(Cycles(0), |laid| laid.meter.used())
    }
}
