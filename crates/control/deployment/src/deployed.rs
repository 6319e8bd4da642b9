//! What is deployed on a host: the wiring that was carried out, and the engine's name for each of its
//! objects.

use crate::beside::LaidContainer;
use crate::copy_on_write::CopyOnWrite;
use crate::devices::LaidDevices;
use crate::observers::LaidObservation;
use cpu_share::TenantId;
use engine::{End, FleetInstance, FleetPort, PoolId, ServiceId, SwitchId};
use packet_memory::Pool;
use port::station::Stations;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;
use virtual_switch::{Switch, SwitchPort};
use wiring::{
    Edge, Endpoint, INSIDE, Instance, InstancePool, OUTSIDE, Observation, Service, Tenant, Wiring, bytes,
    guarded_by,
};

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Deployed {
    pub(crate) wiring: CopyOnWrite<Wiring>,
    pub(crate) tenants: HashMap<String, TenantId>,
    /// By their owners' names: see [`pool_of`].
    pub(crate) pools: HashMap<String, (Arc<Pool>, PoolId)>,
    pub(crate) switches: HashMap<String, (SwitchId, Arc<Switch>)>,
    pub(crate) devices: LaidDevices,
    /// Observations as they are laid.
    pub(crate) watched: BTreeMap<Observation, LaidObservation>,
    pub(crate) ports: HashMap<String, FleetPort>,
    /// Where stations are put at ports that are on a link.
    pub(crate) stations: HashMap<String, Arc<Stations>>,
    pub(crate) instances: HashMap<String, FleetInstance>,
    /// Of containers that are wanted.
    pub(crate) containers: HashMap<String, LaidContainer>,
    /// Functions that are paused and not frozen, and since when.
    pub(crate) paused: HashMap<String, Instant>,
    /// What the functions of each tenant are promised, in bytes.
    pub(crate) promised: HashMap<String, u64>,
    /// The switch's port that a wire into it is plugged into.
    pub(crate) plugs: HashMap<Edge, SwitchPort>,
    /// The switch's port by which packets for a service come in, and the switch.
    pub(crate) serving: HashMap<Service, (String, SwitchPort)>,
    /// The wire at each end that has one; switches and devices have any number and are not here.
    pub(crate) wired: HashMap<Endpoint, Arc<Edge>>,
}

impl Deployed {
    /// An end of a wire as the fleet knows it; of a switch, by the port that the wire is plugged into. Wires
    /// that open devices are laid by [`LaidDevices`].
    pub(crate) fn end(&self, edge: &Edge, endpoint: &Endpoint) -> Option<End> {
        match endpoint {
            Endpoint::Switch(name) => {
                let (id, _) = self.switches.get(name)?;
                Some(End::Switch(*id, *self.plugs.get(edge)?))
            }
            other => self.port_or_interface(other),
        }
    }

    /// A port or an interface as the fleet knows it.
    pub(crate) fn port_or_interface(&self, endpoint: &Endpoint) -> Option<End> {
        match endpoint {
            Endpoint::Port(name) => self.ports.get(name).map(|port| End::Port(*port)),
            Endpoint::Interface(name, interface) => {
                self.instances.get(name).map(|instance| End::Instance(*instance, *interface))
            }
            Endpoint::Switch(_) | Endpoint::Device(_) => None,
        }
    }

    /// Plugs a wire into the switch at one of its ends, if there is one.
    ///
    /// # Errors
    /// The switch has no port left.
    pub(crate) fn plug(&mut self, edge: &Edge) -> Result<(), String> {
        for end in edge.ends() {
            if let Endpoint::Switch(name) = end
                && let Some((_, table)) = self.switches.get(name)
            {
                let port = table.attach().map_err(|error| format!("switch `{name}`: {error}"))?;
                self.plugs.insert(edge.clone(), port);
            }
        }
        Ok(())
    }

    /// Unplugs it again.
    pub(crate) fn unplug(&mut self, edge: &Edge) {
        let Some(port) = self.plugs.remove(edge) else { return };
        for end in edge.ends() {
            if let Endpoint::Switch(name) = end
                && let Some((_, table)) = self.switches.get(name)
            {
                table.detach(port);
            }
        }
    }

    /// A service as the fleet knows it.
    pub(crate) fn service(&self, service: &Service) -> Option<ServiceId> {
        let tenant = *self.tenants.get(&service.tenant)?;
        Some(ServiceId { tenant, number: service.number })
    }

    /// The end by which packets for a service come in; at a switch or device, by a port of its own.
    ///
    /// # Errors
    /// The switch has no port left.
    pub(crate) fn plug_service(
        &mut self,
        service: &Service,
        endpoint: &Endpoint,
    ) -> Result<Option<End>, String> {
        let name = match endpoint {
            Endpoint::Switch(name) => name,
            Endpoint::Device(opening) => return Ok(self.devices.end_of_service(service, &opening.device)),
            end => return Ok(self.port_or_interface(end)),
        };
        let Some((id, table)) = self.switches.get(name) else { return Ok(None) };
        let port = table.attach().map_err(|error| format!("switch `{name}`: {error}"))?;
        self.serving.insert(service.clone(), (name.clone(), port));
        Ok(Some(End::Switch(*id, port)))
    }

    /// Gives the service's port of a switch back, if it has one.
    pub(crate) fn unplug_service(&mut self, service: &Service) {
        if let Some((name, port)) = self.serving.remove(service)
            && let Some((_, table)) = self.switches.get(&name)
        {
            table.detach(port);
        }
    }

    /// Notes a function, in the place of one of its name if there is such.
    pub(crate) fn put_instance(&mut self, name: &str, instance: Instance) {
        self.take_instance(name);
        if let Some(tenant) = self.wiring.tenants.get(&instance.tenant) {
            *self.promised.entry(instance.tenant.clone()).or_default() += instance.promise(&tenant.pool);
        }
        self.wiring.instances.insert(name.to_owned(), instance);
    }

    /// Forgets a function.
    pub(crate) fn take_instance(&mut self, name: &str) {
        let Some(instance) = self.wiring.instances.swap_remove(name) else { return };
        if let (Some(tenant), Some(promised)) =
            (self.wiring.tenants.get(&instance.tenant), self.promised.get_mut(&instance.tenant))
        {
            *promised = promised.saturating_sub(instance.promise(&tenant.pool));
            if *promised == 0 {
                self.promised.remove(&instance.tenant);
            }
        }
    }

    /// Whether there is memory to promise to functions that come when others go, when the host may promise
    /// `host` bytes and tenants have so much `beside`.
    pub(crate) fn has_room_for<'a>(
        &self,
        coming: impl Iterator<Item = &'a Instance>,
        going: impl Iterator<Item = &'a Instance>,
        host: Option<u64>,
        beside: impl Fn(&str) -> u64,
    ) -> bool {
        let (more, less) = (self.promises(coming), self.promises(going));
        let is_no_more = |(tenant, bytes): (&&str, &u64)| less.get(tenant).is_some_and(|less| bytes <= less);
        more.iter().all(is_no_more) || self.is_within_limits(&more, &less, host, beside)
    }

    /// What instances are promised, by tenant.
    fn promises<'a>(&self, instances: impl Iterator<Item = &'a Instance>) -> HashMap<&'a str, u64> {
        let mut sums: HashMap<&'a str, u64> = HashMap::new();
        for instance in instances {
            if let Some(tenant) = self.wiring.tenants.get(&instance.tenant) {
                *sums.entry(&instance.tenant).or_default() += instance.promise(&tenant.pool);
            }
        }
        sums
    }

    /// Whether all that is promised then is within the limits, when tenants have so much `beside`.
    pub(crate) fn fits<'a>(
        &self,
        coming: impl Iterator<Item = &'a Instance>,
        going: impl Iterator<Item = &'a Instance>,
        host: Option<u64>,
        beside: impl Fn(&str) -> u64,
    ) -> bool {
        self.is_within_limits(&self.promises(coming), &self.promises(going), host, beside)
    }

    /// The same, when functions are promised so much more and so much less, by tenant.
    fn is_within_limits(
        &self,
        more: &HashMap<&str, u64>,
        less: &HashMap<&str, u64>,
        host: Option<u64>,
        beside: impl Fn(&str) -> u64,
    ) -> bool {
        let asked = |(name, tenant): (&String, &Tenant)| {
            let of = |sums: &HashMap<&str, u64>| sums.get(name.as_str()).copied().unwrap_or(0);
            let functions = self.promised.get(name).copied().unwrap_or(0);
            bytes(&tenant.pool) + beside(name) + (functions + of(more)).saturating_sub(of(less))
        };
        let tenants = &self.wiring.tenants;
        let contained = |name: &str| -> u64 {
            let own = self.wiring.containers.values().filter(|container| container.tenant == name);
            own.map(|container| container.promised_memory()).sum()
        };
        let fits = |tenant: (&String, &Tenant)| {
            tenant.1.memory.limit.is_none_or(|limit| asked(tenant) + contained(tenant.0) <= limit)
        };
        let all = || tenants.iter().map(|tenant| asked(tenant).max(tenant.1.memory.reserve)).sum::<u64>();
        tenants.iter().all(fits) && host.is_none_or(|host| all() <= host)
    }

    /// What is wired to the guard of a device, if an end is the one by which a guard opens it: see
    /// [`Wiring::behind_guard`].
    pub(crate) fn behind_guard(&self, end: &Endpoint) -> Option<Endpoint> {
        let Endpoint::Interface(guard, OUTSIDE) = end else { return None };
        guarded_by(guard)?;
        let inside = Endpoint::Interface(guard.clone(), INSIDE);
        let [a, b] = self.wired.get(&inside)?.ends();
        Some(if *a == inside { b } else { a }.clone())
    }

    /// Whether a function observes others.
    pub(crate) fn observes(&self, endpoint: &Endpoint) -> bool {
        matches!(endpoint, Endpoint::Interface(name, _) if self.observes_by_name(name))
    }

    /// The same of a function by its name.
    pub(crate) fn observes_by_name(&self, name: &str) -> bool {
        self.wiring.observations.iter().any(|seen| seen.observer == name)
    }
}

/// The name of the pool that a function's packets are in: its tenant's, or its own.
pub(crate) fn pool_of(function: &str, instance: &Instance) -> String {
    match &instance.pool {
        InstancePool::Tenant => instance.tenant.clone(),
        InstancePool::Own(_) => own_pool(function),
    }
}

/// The name of the pool that a function has for itself.
pub(crate) fn own_pool(function: &str) -> String {
    format!("function {function}")
}
