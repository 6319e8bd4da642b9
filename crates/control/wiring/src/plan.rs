//! From one wiring to another.

use crate::{
    Container, Cpu, Device, Edge, Endpoint, FailMode, Fraction, Instance, Learner, Observation, Port,
    RestartDelays, Service, Switch, Tenant, TenantMemory, Wiring, Workers,
};
use indexmap::IndexMap;
use neighbours::Settings;
use std::collections::{BTreeMap, BTreeSet};
use telemetry::clock::Nanos;

/// What to do to get from one wiring to another, in the order of the fields. What the plan does not name
/// stays untouched and keeps running.
///
/// An instance that changes in image, configuration or memory hands over to another guest in its place, and
/// stays what it is to its wires. A port that changes, and an instance that changes in anything else, is
/// removed and added. So is one whose tenant's pool changes, because its buffers are in that pool. Whatever
/// is connected to something that is replaced is taken off and put back. Shares of a core, the worker of an
/// instance, and what bounds its calls and packets are changed while everything runs: for these alone nothing
/// is replaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Services to remove.
    pub remove_services: BTreeSet<Service>,
    /// Observations to end.
    pub unobserve: BTreeSet<Observation>,
    /// Edges to take off.
    pub unwire: BTreeSet<Edge>,
    /// Instances to stop.
    pub remove_instances: BTreeSet<String>,
    /// Ports to close.
    pub remove_ports: BTreeSet<String>,
    /// Switches to end.
    pub remove_switches: BTreeSet<String>,
    /// Devices to end, or to make anew.
    pub remove_devices: BTreeSet<String>,
    /// Containers to end, or to begin anew.
    pub remove_containers: BTreeSet<String>,
    /// Tenants whose pool is to be given back.
    pub remove_tenants: BTreeSet<String>,
    /// Workers that are wanted from now on, when they change; they come when the host is made anew.
    pub workers: Option<Workers>,
    /// Tenants that stay and may have more or less than before.
    pub adjust_tenants: BTreeMap<String, Allowance>,
    /// Instances that stay and may have more or less than before, or have to run elsewhere.
    pub adjust_instances: BTreeMap<String, Adjustment>,
    /// Instances that hand over to another guest, as they are to be.
    pub change_instances: IndexMap<String, Instance>,
    /// Tenants to make a pool for.
    pub add_tenants: IndexMap<String, Tenant>,
    /// Switches to make.
    pub add_switches: IndexMap<String, Switch>,
    /// Devices to make.
    pub add_devices: IndexMap<String, Device>,
    /// Ports to open.
    pub add_ports: IndexMap<String, Port>,
    /// Instances to start.
    pub add_instances: IndexMap<String, Instance>,
    /// Containers to start, when all else is done.
    pub add_containers: IndexMap<String, Container>,
    /// Edges to put on.
    pub wire: BTreeSet<Edge>,
    /// Observations to begin.
    pub observe: BTreeSet<Observation>,
    /// Services to add.
    pub add_services: BTreeMap<Service, Endpoint>,
}

/// What changes about a tenant while its functions run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// See [`Tenant::cpu`].
    pub cpu: Cpu,
    /// See [`Tenant::memory`].
    pub memory: TenantMemory,
}

impl Allowance {
    /// A tenant's.
    pub fn of(tenant: &Tenant) -> Allowance {
        Allowance { cpu: tenant.cpu, memory: tenant.memory }
    }

    /// Makes it a tenant's.
    pub fn apply(self, tenant: &mut Tenant) {
        (tenant.cpu, tenant.memory) = (self.cpu, self.memory);
    }
}

/// What changes about an instance while it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adjustment {
    /// See [`Instance::cpu`].
    pub cpu: Cpu,
    /// See [`Instance::worker`].
    pub worker: Option<usize>,
    /// See [`Instance::fail`].
    pub fail: FailMode,
    /// See [`Instance::restart`].
    pub restart: RestartDelays,
    /// See [`Instance::max_call`].
    pub max_call: Nanos,
    /// See [`Instance::quota`].
    pub quota: Fraction,
    /// See [`Instance::longest_hold`].
    pub longest_hold: Nanos,
    /// See [`Instance::stations`].
    pub stations: BTreeMap<u16, Settings>,
    /// See [`Instance::members`].
    pub members: BTreeMap<u32, BTreeSet<Learner>>,
}

impl Adjustment {
    /// An instance's.
    pub fn of(instance: &Instance) -> Adjustment {
        Adjustment {
            cpu: instance.cpu,
            worker: instance.worker,
            fail: instance.fail,
            restart: instance.restart,
            max_call: instance.max_call,
            quota: instance.quota,
            longest_hold: instance.longest_hold,
            stations: instance.stations.clone(),
            members: instance.members.clone(),
        }
    }

    /// Makes it an instance's.
    pub fn apply(self, instance: &mut Instance) {
        let Adjustment { cpu, worker, fail, restart, max_call, quota, longest_hold, stations, members } =
            self;
        (instance.cpu, instance.worker) = (cpu, worker);
        (instance.fail, instance.restart, instance.max_call) = (fail, restart, max_call);
        (instance.quota, instance.longest_hold) = (quota, longest_hold);
        (instance.stations, instance.members) = (stations, members);
    }
}

/// Whether another guest can take the place of an instance's while everything around it stays.
fn may_hand_over(before: &Instance, after: &Instance) -> bool {
    before.tenant == after.tenant
        && before.payer == after.payer
        && before.pool == after.pool
        && before.interfaces == after.interfaces
}

/// The plan was made for another wiring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plan does not fit: {what} `{name}` is {}", if *.there { "there already" } else { "not there" })]
pub struct PlanMismatch {
    /// Kind of thing.
    pub what: &'static str,
    /// Its name.
    pub name: String,
    /// Is it there when it should not be?
    pub there: bool,
}

impl Plan {
    /// The ports that there are when it was carried out, of a wiring.
    #[must_use]
    pub fn ports_after(&self, wiring: &Wiring) -> IndexMap<String, Port> {
        let mut ports = wiring.ports.clone();
        ports.retain(|name, _| !self.remove_ports.contains(name));
        ports.extend(self.add_ports.clone());
        ports
    }

    /// The plan that leads from `old` to `new`.
    pub fn between(old: &Wiring, new: &Wiring) -> Plan {
        let same_pool = |a: &Tenant, b: &Tenant| a.pool == b.pool;
        let same_instance = |a: &Instance, b: &Instance| {
            // Cheap for what is the same, which is most.
            a == b || {
                let mut adjusted = a.clone();
                Adjustment::of(b).apply(&mut adjusted);
                adjusted == *b
            }
        };
        let (remove_tenants, add_tenants) = replaced(&old.tenants, &new.tenants, same_pool, |_| false);
        let moved = |tenant: &str| remove_tenants.contains(tenant) || add_tenants.contains_key(tenant);
        let (remove_ports, add_ports) =
            replaced(&old.ports, &new.ports, Port::eq, |port| moved(&port.tenant));
        let stays = |a: &Instance, b: &Instance| may_hand_over(a, b) || same_instance(a, b);
        let (remove_instances, add_instances) = replaced(&old.instances, &new.instances, stays, |instance| {
            moved(&instance.tenant) || moved(instance.payer())
        });
        let change_instances = new.instances.iter().filter(|(name, instance)| {
            let before = old.instances.get(*name).filter(|_| !add_instances.contains_key(*name));
            before.is_some_and(|before| !same_instance(before, instance))
        });
        let change_instances =
            change_instances.map(|(name, instance)| (name.clone(), instance.clone())).collect();
        let (remove_switches, add_switches) = replaced(&old.switches, &new.switches, Switch::eq, |_| false);
        // What a striped bond holds is of its ports' memory.
        let other_memory = |port: &String| {
            let tenant = new.ports.get(port).map(|port| &port.tenant);
            tenant != old.ports.get(port).map(|port| &port.tenant) || tenant.is_some_and(|it| moved(it))
        };
        let moves = |device: &Device| device.stripe.is_some() && device.over.keys().any(other_memory);
        let (remove_devices, add_devices) = replaced(&old.devices, &new.devices, Device::eq, moves);
        let (remove_containers, add_containers) =
            replaced(&old.containers, &new.containers, Container::eq, |_| false);
        let changed = |name: &str| {
            remove_ports.contains(name)
                || add_ports.contains_key(name)
                || remove_instances.contains(name)
                || add_instances.contains_key(name)
                || remove_switches.contains(name)
                || add_switches.contains_key(name)
        };
        let adjust_tenants = new.tenants.iter().filter_map(|(name, tenant)| {
            let allowance = Allowance::of(tenant);
            let differs = old.tenants.get(name).is_some_and(|before| Allowance::of(before) != allowance);
            (differs && !add_tenants.contains_key(name)).then(|| (name.clone(), allowance))
        });
        let adjust_instances = new.instances.iter().filter_map(|(name, instance)| {
            let adjustment = Adjustment::of(instance);
            let differs = old.instances.get(name).is_some_and(|before| Adjustment::of(before) != adjustment);
            (differs && !add_instances.contains_key(name)).then(|| (name.clone(), adjustment))
        });
        let edge_changed = |edge: &&Edge| edge.ends().iter().any(|end| changed(end.name()));
        let observation_changed = |o: &&Observation| changed(&o.observer) || o.at.names().any(changed);
        let service_changed = |other: &BTreeMap<Service, Endpoint>, service: &Service, end: &Endpoint| {
            other.get(service) != Some(end) || changed(end.name()) || moved(&service.tenant)
        };
        Plan {
            remove_services: old
                .services
                .iter()
                .filter(|(service, endpoint)| service_changed(&new.services, service, endpoint))
                .map(|(service, _)| service.clone())
                .collect(),
            unobserve: difference(&old.observations, &new.observations, observation_changed),
            unwire: difference(&old.edges, &new.edges, edge_changed),
            wire: difference(&new.edges, &old.edges, edge_changed),
            observe: difference(&new.observations, &old.observations, observation_changed),
            add_services: new
                .services
                .iter()
                .filter(|(service, endpoint)| service_changed(&old.services, service, endpoint))
                .map(|(service, endpoint)| (service.clone(), endpoint.clone()))
                .collect(),
            workers: (old.workers != new.workers).then(|| new.workers.clone()),
            adjust_tenants: adjust_tenants.collect(),
            adjust_instances: adjust_instances.collect(),
            change_instances,
            remove_instances,
            remove_ports,
            remove_switches,
            remove_devices,
            remove_containers,
            remove_tenants,
            add_tenants,
            add_switches,
            add_devices,
            add_ports,
            add_instances,
            add_containers,
        }
    }

    /// Replaces an instance of `new` that would have gone on, with all that is connected to it: it is to
    /// begin anew. Without effect when it is replaced or new already, or not there.
    pub fn replace(&mut self, new: &Wiring, name: &str) {
        let Some(instance) = new.instances.get(name).filter(|_| !self.add_instances.contains_key(name))
        else {
            return;
        };
        self.adjust_instances.remove(name);
        self.change_instances.shift_remove(name);
        self.remove_instances.insert(name.to_owned());
        self.add_instances.insert(name.to_owned(), instance.clone());
        for edge in new.edges.iter().filter(|edge| edge.ends().iter().any(|end| end.name() == name)) {
            // One that comes anew is not there to be taken off.
            if self.wire.insert(edge.clone()) {
                self.unwire.insert(edge.clone());
            }
        }
        for seen in new
            .observations
            .iter()
            .filter(|seen| seen.observer == name || seen.at.names().any(|at| at == name))
        {
            if self.observe.insert(seen.clone()) {
                self.unobserve.insert(seen.clone());
            }
        }
        for (service, endpoint) in new.services.iter().filter(|(_, endpoint)| endpoint.name() == name) {
            if self.add_services.insert(service.clone(), endpoint.clone()).is_none() {
                self.remove_services.insert(service.clone());
            }
        }
    }

    /// Is there nothing to do?
    pub fn is_empty(&self) -> bool {
        *self == Plan::default()
    }

    /// Carries the plan out on data.
    ///
    /// # Errors
    /// The first step that does not fit; `wiring` is then as it was.
    pub fn apply(&self, wiring: &mut Wiring) -> Result<(), PlanMismatch> {
        let mut next = wiring.clone();
        for service in &self.remove_services {
            gone("service", &service.to_string(), next.services.remove(service).is_some())?;
        }
        for observation in &self.unobserve {
            gone("observation", &observation.to_string(), next.observations.remove(observation))?;
        }
        for edge in &self.unwire {
            gone("wire", &edge.to_string(), next.edges.remove(edge))?;
        }
        for name in &self.remove_instances {
            gone("function", name, next.instances.shift_remove(name).is_some())?;
        }
        for name in &self.remove_ports {
            gone("port", name, next.ports.shift_remove(name).is_some())?;
        }
        for name in &self.remove_switches {
            gone("switch", name, next.switches.shift_remove(name).is_some())?;
        }
        for name in &self.remove_devices {
            gone("device", name, next.devices.shift_remove(name).is_some())?;
        }
        for name in &self.remove_containers {
            gone("container", name, next.containers.shift_remove(name).is_some())?;
        }
        for name in &self.remove_tenants {
            gone("tenant", name, next.tenants.shift_remove(name).is_some())?;
        }
        if let Some(workers) = &self.workers {
            next.workers = workers.clone();
        }
        for (name, allowance) in &self.adjust_tenants {
            let tenant = next.tenants.get_mut(name);
            gone("tenant", name, tenant.map(|tenant| allowance.apply(tenant)).is_some())?;
        }
        for (name, adjustment) in &self.adjust_instances {
            let instance = next.instances.get_mut(name);
            gone("function", name, instance.map(|instance| adjustment.clone().apply(instance)).is_some())?;
        }
        for (name, after) in &self.change_instances {
            let instance = next.instances.get_mut(name);
            gone("function", name, instance.map(|instance| instance.clone_from(after)).is_some())?;
        }
        for (name, tenant) in &self.add_tenants {
            new("tenant", name, next.tenants.insert(name.clone(), tenant.clone()).is_none())?;
        }
        for (name, switch) in &self.add_switches {
            new("switch", name, next.switches.insert(name.clone(), *switch).is_none())?;
        }
        for (name, device) in &self.add_devices {
            new("device", name, next.devices.insert(name.clone(), device.clone()).is_none())?;
        }
        for (name, port) in &self.add_ports {
            new("port", name, next.ports.insert(name.clone(), port.clone()).is_none())?;
        }
        for (name, instance) in &self.add_instances {
            new("function", name, next.instances.insert(name.clone(), instance.clone()).is_none())?;
        }
        for (name, container) in &self.add_containers {
            new("container", name, next.containers.insert(name.clone(), container.clone()).is_none())?;
        }
        for edge in &self.wire {
            new("wire", &edge.to_string(), next.edges.insert(edge.clone()))?;
        }
        for observation in &self.observe {
            new("observation", &observation.to_string(), next.observations.insert(observation.clone()))?;
        }
        for (service, endpoint) in &self.add_services {
            let before = next.services.insert(service.clone(), endpoint.clone());
            new("service", &service.to_string(), before.is_none())?;
        }
        *wiring = next;
        Ok(())
    }
}

/// What is to be removed from `old` and added from `new`: what is in one alone, is not the `same`, or is
/// `moved`.
fn replaced<T: Clone>(
    old: &IndexMap<String, T>,
    new: &IndexMap<String, T>,
    same: impl Fn(&T, &T) -> bool,
    moved: impl Fn(&T) -> bool,
) -> (BTreeSet<String>, IndexMap<String, T>) {
    let stays = |name: &String, thing: &T| {
        let both = old.get(name).zip(new.get(name));
        both.is_some_and(|(old, new)| same(old, new)) && !moved(thing)
    };
    let remove =
        old.iter().filter(|(name, thing)| !stays(name, thing)).map(|(name, _)| name.clone()).collect();
    let add = new.iter().filter(|(name, thing)| !stays(name, thing));
    (remove, add.map(|(name, thing)| (name.clone(), thing.clone())).collect())
}

/// What is in `here` but not in `there`, and what is in both but `changed`.
fn difference<T: Clone + Ord>(
    here: &BTreeSet<T>,
    there: &BTreeSet<T>,
    changed: impl Fn(&&T) -> bool,
) -> BTreeSet<T> {
    here.iter().filter(|thing| !there.contains(*thing) || changed(thing)).cloned().collect()
}

fn gone(what: &'static str, name: &str, was_there: bool) -> Result<(), PlanMismatch> {
    if was_there { Ok(()) } else { Err(PlanMismatch { what, name: name.to_owned(), there: false }) }
}

fn new(what: &'static str, name: &str, was_absent: bool) -> Result<(), PlanMismatch> {
    if was_absent { Ok(()) } else { Err(PlanMismatch { what, name: name.to_owned(), there: true }) }
}
