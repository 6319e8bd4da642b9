//! What holds in every wiring that can be carried out.

use crate::{
    BrokenPromise, Edge, Endpoint, InstancePool, Loop, MAX_OPENERS, MAX_WORKERS, Observation, Opening,
    Watched, Wiring,
};
use manifest::Access;
use packet_memory::PoolConfig;
use std::collections::{BTreeMap, BTreeSet};
use virtual_switch::SettingsError;

/// Something in a wiring that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WiringFault {
    /// No such tenant.
    #[error("`{owner}` is of the tenant `{tenant}`, which does not exist")]
    UnknownTenant {
        /// The port or instance.
        owner: String,
        /// Its tenant.
        tenant: String,
    },
    /// Two of ports, switches and instances have one name.
    #[error("`{name}` is the name of a {first} and of a {second}")]
    SharedName {
        /// The name.
        name: String,
        /// What one is.
        first: &'static str,
        /// What the other is.
        second: &'static str,
    },
    /// None, or more than [`MAX_WORKERS`].
    #[error("there are {0} workers; allowed: 1 to {MAX_WORKERS}")]
    WorkerCount(usize),
    /// A worker that may run on no processor.
    #[error("worker {0} may run on no processor; allowed: one or more")]
    NoProcessor(usize),
    /// An instance that is to stay on a worker that does not exist.
    #[error("`{instance}` is to stay on worker {worker}, which does not exist")]
    UnknownWorker {
        /// The instance.
        instance: String,
        /// Its worker.
        worker: usize,
    },
    /// Settings that no switch can have.
    #[error("the switch `{name}`: {error}")]
    ImpossibleSwitch {
        /// The switch.
        name: String,
        /// What it cannot have.
        error: SettingsError,
    },
    /// An edge between two switches.
    #[error(
        "`{0}` connects two switches, whose frames would go round if there were another way between them"
    )]
    SwitchToSwitch(Edge),
    /// A way that leads back to where it began.
    #[error("{0}")]
    Loop(Loop),
    /// A reserve that weights and caps do not give.
    #[error("what is reserved for {}: {}", .0.whose, .0)]
    Promise(BrokenPromise),
    /// A pool of no buffers, of more than [`nf_abi::WINDOW_MAX`] bytes, or with too much headroom.
    #[error(
        "the pool of `{0}` is not possible: allowed are 1 buffer to 1 GiB, headroom of up to half a buffer"
    )]
    ImpossiblePool(String),
    /// No such port, switch, instance or interface.
    #[error("`{0}` does not exist")]
    UnknownEndpoint(Endpoint),
    /// Two edges have one end.
    #[error("`{endpoint}` has two wires: to `{first}` and to `{second}`")]
    WiredTwice {
        /// The end.
        endpoint: Endpoint,
        /// The other end of one.
        first: Endpoint,
        /// The other end of the other.
        second: Endpoint,
    },
    /// A device over a number of ports that its mode has no use for.
    #[error("the device `{device}` is over {found} ports; allowed for its mode: {allowed}")]
    DevicePorts {
        /// The device.
        device: String,
        /// How many ports it is over.
        found: usize,
        /// How many are possible.
        allowed: &'static str,
    },
    /// A device over ports of two tenants.
    #[error("the device `{device}` is over `{first}` and `{second}`, which are two tenants'")]
    SidesOfTwoTenants {
        /// The device.
        device: String,
        /// A port of one.
        first: String,
        /// A port of the other.
        second: String,
    },
    /// Two interfaces of one function that a device would wire to each other.
    #[error("`{first}` and `{second}` are of one function and get the same packets of the device `{device}`")]
    OpenedTwice {
        /// The device.
        device: String,
        /// One interface.
        first: Endpoint,
        /// The other one.
        second: Endpoint,
    },
    /// More openers of one device than [`MAX_OPENERS`].
    #[error("the device `{device}` has {found} openers; allowed: at most {MAX_OPENERS}")]
    TooManyOpeners {
        /// The device.
        device: String,
        /// How many there are.
        found: usize,
    },
    /// A port that a device is over and that a wire or a service leads to as well.
    #[error("a device is over the port `{0}`, and something else leads there; allowed: one of both")]
    PortUnderDevice(String),
    /// An opener that may not open the device.
    #[error("`{opener}` is the tenant `{tenant}`'s, which the device `{device}` is not open to")]
    NotOpen {
        /// The interface.
        opener: String,
        /// Its tenant.
        tenant: String,
        /// The device.
        device: String,
    },
    /// A second opener of a device that takes one.
    #[error("the device `{device}` is opened by `{first}` and by `{second}`, but not shared")]
    NotShared {
        /// The device.
        device: String,
        /// One opener.
        first: Endpoint,
        /// Another one.
        second: Endpoint,
    },
    /// A wire to a device that opens nothing.
    #[error("`{0}` is a wire between a device and what cannot open it; allowed: an interface of a function")]
    NoOpener(Edge),
    /// An observation names an instance, interface, port, device or wire that does not exist.
    #[error("the observer `{}` or what it observes, `{}`, does not exist", .0.observer, .0.at)]
    UnknownObservation(Observation),
    /// An observer that has edges by which packets would pass through it, or services, or is observed, or, as
    /// a port, is under a device or passed by.
    #[error("`{0}` is an observer and is wired, observed or a service as well")]
    ObserverInline(String),
    /// An observer whose image may write.
    #[error("`{0}` is an observer, but its image may write to packets")]
    ObserverWrites(String),
    /// An observer that is shown another tenant's packets, and not at a device that is open to it.
    #[error("`{}` observes `{}`, which is another tenant's", .0.observer, .0.at)]
    ForeignObserver(Observation),
    /// An observer that has to run on another worker than the instance that it observes.
    #[error("`{}` has to run on worker {observer} and observes `{}`, which has to run on worker {at}", .observation.observer, .observation.at)]
    ObserverElsewhere {
        /// Which instance observes which.
        observation: Observation,
        /// The observer's worker.
        observer: usize,
        /// The worker of the observed.
        at: usize,
    },
}

impl Wiring {
    /// Everything about this wiring that cannot be carried out.
    ///
    /// # Errors
    /// One fault or more.
    pub fn validate(&self) -> Result<(), Vec<WiringFault>> {
        self.validate_with_loops(self.loops())
    }

    /// The same where its loops have been looked for.
    ///
    /// # Errors
    /// One fault or more.
    pub fn validate_with_loops(&self, loops: Vec<Loop>) -> Result<(), Vec<WiringFault>> {
        let mut faults = Vec::new();
        self.owners(&mut faults);
        self.names(&mut faults);
        self.placement(&mut faults);
        self.connections(&mut faults);
        self.device_faults(&mut faults);
        faults.extend(loops.into_iter().map(WiringFault::Loop));
        self.observers(&mut faults);
        faults.extend(self.broken_promises().into_iter().map(WiringFault::Promise));
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn owners(&self, faults: &mut Vec<WiringFault>) {
        let ports = self.ports.iter().map(|(name, port)| (name, &port.tenant));
        let instances = self.instances.iter().map(|(name, instance)| (name, &instance.tenant));
        let devices = self.devices.iter().map(|(name, device)| (name, &device.tenant));
        let containers = self.containers.iter().map(|(name, container)| (name, &container.tenant));
        let payers = self.instances.iter().filter_map(|(name, it)| Some((name, it.payer.as_ref()?)));
        for (owner, tenant) in ports.chain(instances).chain(payers).chain(devices).chain(containers) {
            if !self.tenants.contains_key(tenant) {
                faults.push(WiringFault::UnknownTenant { owner: owner.clone(), tenant: tenant.clone() });
            }
        }
        let tenants = self.tenants.iter().map(|(name, tenant)| (name, &tenant.pool));
        let own = self.instances.iter().filter_map(|(name, instance)| match &instance.pool {
            InstancePool::Own(pool) => Some((name, pool)),
            InstancePool::Tenant => None,
        });
        let impossible = tenants.chain(own).filter(|(_, pool)| !is_possible(pool));
        faults.extend(impossible.map(|(name, _)| WiringFault::ImpossiblePool(name.clone())));
    }

    fn names(&self, faults: &mut Vec<WiringFault>) {
        let mut shared = |name: &String, first, second| {
            faults.push(WiringFault::SharedName { name: name.clone(), first, second });
        };
        for name in self.ports.keys().filter(|name| self.switches.contains_key(*name)) {
            shared(name, "port", "switch");
        }
        for name in self.instances.keys() {
            if self.ports.contains_key(name) {
                shared(name, "port", "function");
            }
            if self.switches.contains_key(name) {
                shared(name, "switch", "function");
            }
        }
        for (name, container) in &self.containers {
            let others = [
                ("port", self.ports.contains_key(name)),
                ("switch", self.switches.contains_key(name)),
                ("device", self.devices.contains_key(name)),
                ("function", self.instances.contains_key(name)),
            ];
            for (kind, _) in others.iter().filter(|(_, taken)| *taken) {
                shared(name, kind, container.kind.as_str());
            }
        }
        for name in self.devices.keys() {
            let others = [
                ("port", self.ports.contains_key(name)),
                ("switch", self.switches.contains_key(name)),
                ("function", self.instances.contains_key(name)),
            ];
            for (kind, _) in others.iter().filter(|(_, taken)| *taken) {
                shared(name, kind, "device");
            }
        }
        for (name, switch) in &self.switches {
            if let Err(error) = switch.settings().check() {
                faults.push(WiringFault::ImpossibleSwitch { name: name.clone(), error });
            }
        }
    }

    fn placement(&self, faults: &mut Vec<WiringFault>) {
        let workers = &self.workers.list;
        if workers.is_empty() || workers.len() > MAX_WORKERS {
            faults.push(WiringFault::WorkerCount(workers.len()));
        }
        for (number, worker) in workers.iter().enumerate() {
            if worker.processors.as_ref().is_some_and(Vec::is_empty) {
                faults.push(WiringFault::NoProcessor(number));
            }
        }
        let instances = self.instances.iter().map(|(name, instance)| (name, instance.worker));
        let containers = self.containers.iter().map(|(name, container)| (name, container.worker));
        for (name, worker) in instances.chain(containers) {
            if let Some(worker) = worker.filter(|worker| *worker >= workers.len()) {
                faults.push(WiringFault::UnknownWorker { instance: name.clone(), worker });
            }
        }
    }

    fn connections(&self, faults: &mut Vec<WiringFault>) {
        let mut peers: BTreeMap<&Endpoint, &Endpoint> = BTreeMap::new();
        for edge in &self.edges {
            let [a, b] = edge.ends();
            let is_switch = |end: &Endpoint| matches!(end, Endpoint::Switch(_));
            if is_switch(a) && is_switch(b) {
                faults.push(WiringFault::SwitchToSwitch(edge.clone()));
            }
            for (endpoint, peer) in [(a, b), (b, a)] {
                if !self.exists(endpoint) {
                    faults.push(WiringFault::UnknownEndpoint(endpoint.clone()));
                } else if endpoint.takes_many() {
                    // Takes any number.
                } else if let Some(first) = peers.insert(endpoint, peer) {
                    faults.push(WiringFault::WiredTwice {
                        endpoint: endpoint.clone(),
                        first: first.clone(),
                        second: peer.clone(),
                    });
                }
            }
        }
        for service in self.services.keys().filter(|service| !self.tenants.contains_key(&service.tenant)) {
            let (owner, tenant) = (service.to_string(), service.tenant.clone());
            faults.push(WiringFault::UnknownTenant { owner, tenant });
        }
        let unknown = self.services.values().filter(|endpoint| !self.exists(endpoint));
        faults.extend(unknown.map(|endpoint| WiringFault::UnknownEndpoint(endpoint.clone())));
    }

    fn device_faults(&self, faults: &mut Vec<WiringFault>) {
        for (name, device) in &self.devices {
            if let Some(allowed) = device.ports_allowed() {
                let found = device.over.len();
                faults.push(WiringFault::DevicePorts { device: name.clone(), found, allowed });
            }
            if let Some((first, second)) = device.sides_of_two_tenants(&self.ports) {
                let (first, second) = (first.to_owned(), second.to_owned());
                faults.push(WiringFault::SidesOfTwoTenants { device: name.clone(), first, second });
            }
            let unknown = device.over.keys().filter(|port| !self.ports.contains_key(*port));
            faults.extend(unknown.map(|port| WiringFault::UnknownEndpoint(Endpoint::Port(port.clone()))));
        }
        let under: BTreeSet<&String> = self.devices.values().flat_map(|device| device.over.keys()).collect();
        let ends = self.edges.iter().flat_map(Edge::ends).chain(self.services.values());
        let elsewhere: BTreeSet<&String> = ends
            .filter_map(|end| match end {
                Endpoint::Port(name) => under.get(name).copied(),
                _ => None,
            })
            .collect();
        faults.extend(elsewhere.into_iter().map(|name| WiringFault::PortUnderDevice(name.clone())));
        let observers: BTreeSet<&str> = self.observations.iter().map(|seen| seen.observer.as_str()).collect();
        let mut receiving: BTreeMap<&str, Vec<(&Endpoint, &Opening)>> = BTreeMap::new();
        for edge in &self.edges {
            let Some((end, opening)) = edge.opening() else { continue };
            if !end.is_opener() {
                faults.push(WiringFault::NoOpener(edge.clone()));
                continue;
            }
            let Some(device) = self.devices.get(&opening.device) else { continue };
            if let Some(opener) = self.behind_guard(end)
                && let Some(tenant) = self.tenant_of_opener(opener)
                && !device.is_open_to(tenant, opener.function())
            {
                let (tenant, device) = (tenant.to_owned(), opening.device.clone());
                faults.push(WiringFault::NotOpen { opener: opener.to_string(), tenant, device });
            }
            if !observers.contains(end.name()) {
                receiving.entry(&opening.device).or_default().push((end, opening));
            }
        }
        for (name, openers) in receiving {
            let Some(device) = self.devices.get(name) else { continue };
            if openers.len() > MAX_OPENERS {
                faults.push(WiringFault::TooManyOpeners { device: name.to_owned(), found: openers.len() });
            }
            if let Some((first, second)) = device.loops(&openers) {
                let (first, second) = (first.clone(), second.clone());
                faults.push(WiringFault::OpenedTwice { device: name.to_owned(), first, second });
            } else if let Some((first, second)) = device.conflict(&openers) {
                let (first, second) = (first.clone(), second.clone());
                faults.push(WiringFault::NotShared { device: name.to_owned(), first, second });
            }
        }
    }

    fn observers(&self, faults: &mut Vec<WiringFault>) {
        let in_line = self.edges.iter().flat_map(Edge::ends).filter(|end| end.is_in_line());
        let wired = in_line.chain(self.services.values()).map(Endpoint::name);
        let homes = self.homes();
        let watched = self.observations.iter().filter_map(|seen| match &seen.at {
            Watched::Instance(name, _) | Watched::Port(name) => Some(name.as_str()),
            Watched::Device(..) | Watched::Wire(_) => None,
        });
        let under = self.devices.values().flat_map(|device| device.over.keys()).map(String::as_str);
        let inline: BTreeSet<&str> = wired.chain(watched).chain(under).collect();
        for observation in &self.observations {
            let instance = self.instances.get(&observation.observer);
            let port = self.ports.get(&observation.observer);
            let tenant = instance.map(|it| &it.tenant).or(port.map(|it| &it.tenant));
            let Some(tenant) = tenant.filter(|_| self.is_there(&observation.at)) else {
                faults.push(WiringFault::UnknownObservation(observation.clone()));
                continue;
            };
            if !self.may_observe(&observation.observer, tenant, &observation.at) {
                faults.push(WiringFault::ForeignObserver(observation.clone()));
            }
            let home = |name: &str| homes.get(name).copied();
            if let Some((observer, at)) =
                home(&observation.observer).zip(observation.at.beside().and_then(home))
                && observer != at
            {
                let observation = observation.clone();
                faults.push(WiringFault::ObserverElsewhere { observation, observer, at });
            }
            if instance.is_some_and(|observer| observer.access == Access::Write) {
                faults.push(WiringFault::ObserverWrites(observation.observer.clone()));
            }
            let passed_by = port.is_some_and(|port| port.bypass.is_some());
            if passed_by || inline.contains(observation.observer.as_str()) {
                faults.push(WiringFault::ObserverInline(observation.observer.clone()));
            }
        }
    }

    /// Is there such a place for observers?
    fn is_there(&self, at: &Watched) -> bool {
        match at {
            Watched::Instance(name, interface) => self
                .instances
                .get(name)
                .is_some_and(|there| interface.is_none_or(|number| number < there.interfaces)),
            Watched::Port(name) => self.ports.contains_key(name),
            Watched::Device(name, side) => self.exists(&Endpoint::Device(Opening::of(name, side.as_deref()))),
            Watched::Wire(edge) => self.edges.contains(edge),
        }
    }

    /// Whether an instance or a port of a tenant may be shown what passes a place: one where all packets are
    /// the tenant's, or a device that is open to it. A container's port is open to what its container is.
    pub fn may_observe(&self, observer: &str, tenant: &str, at: &Watched) -> bool {
        let observer = observer.split_once(':').map_or(observer, |(container, _)| container);
        let of_instance = |name: &str| self.instances.get(name).is_none_or(|there| there.tenant == tenant);
        let of_port = |name: &str| self.ports.get(name).is_none_or(|port| port.tenant == tenant);
        let of_device =
            |name: &str| self.devices.get(name).is_none_or(|device| device.is_open_to(tenant, observer));
        match at {
            Watched::Instance(name, _) => of_instance(name),
            Watched::Port(name) => of_port(name),
            Watched::Device(name, _) => of_device(name),
            Watched::Wire(edge) => edge.ends().iter().all(|end| match end {
                Endpoint::Port(name) => of_port(name),
                Endpoint::Interface(name, _) => of_instance(name),
                Endpoint::Device(opening) => of_device(&opening.device),
                Endpoint::Switch(_) => true,
            }),
        }
    }

    /// Is there such a port, switch, device or interface?
    pub fn exists(&self, endpoint: &Endpoint) -> bool {
        match endpoint {
            Endpoint::Port(name) => self.ports.contains_key(name),
            Endpoint::Switch(name) => self.switches.contains_key(name),
            Endpoint::Device(Opening { device, port, .. }) => self
                .devices
                .get(device)
                .is_some_and(|device| port.as_ref().is_none_or(|port| device.over.contains_key(port))),
            Endpoint::Interface(name, number) => {
                self.instances.get(name).is_some_and(|instance| *number < instance.interfaces)
            }
        }
    }
}

fn is_possible(pool: &PoolConfig) -> bool {
    let size = pool.buffer_size.bytes();
    let bytes = u64::from(pool.buffers) * u64::from(size);
    bytes > 0 && bytes <= u64::from(nf_abi::WINDOW_MAX) && pool.headroom <= size / 2
}
