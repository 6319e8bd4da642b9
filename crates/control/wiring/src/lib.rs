//! The wiring: which ports and instances there are and how packets get from one to another, as plain data.
//!
//! The life of a wiring:
//! 1. `config` makes one of the operator's file; [`Wiring::validate`] says whether any wiring can be carried
//!    out.
//! 2. [`Plan::between`] compares it with the one that runs: what goes, what comes, what stays untouched.
//! 3. The engine carries the plan out in its order; [`Plan::apply`] does the same to data.
//!
//! An edge has no direction: what one end sends out enters at the other. Each endpoint has one edge at most,
//! but a switch any number of them, each of which plugs one port or interface into it, and a device as well,
//! each of which opens it ([`DeviceLayout`] says what is laid for that). Observers have no edges: they are
//! shown the packets that pass an instance, a port, a device or an edge. A service names an endpoint; packets
//! for it go there as if they had come by that endpoint's edge. Each tenant has services of its own: a
//! function reaches those of its tenant and no others.
//!
//! A wire that leads back to where it began is refused ([`Loop`]).
//!
//! A [`Container`] is a function as well, that the launcher starts: no worker knows it, and its interfaces
//! are ports.
//!
//! How processor cores are shared is part of the wiring too: [`Workers`], the worker that an [`Instance`] is
//! to stay on, and what each may have of it, [`Cpu`]. [`Wiring::broken_promises`] tells what cannot be kept
//! of that, and [`Wiring::overdrafts`] what cannot be kept of the memory that is promised.
//!
//! Limits: nothing here does I/O, reads a clock or knows what a driver or an image is.

#![forbid(unsafe_code)]

mod container;
mod cpu;
mod device;
mod fraction;
mod guard;
mod loops;
mod memory;
mod observation;
mod plan;
mod promise;
mod service;
mod shadowed;
pub mod striped;
#[cfg(test)]
mod tests;
mod validate;
mod workers;

pub use container::{
    BypassSide, Container, ContainerInterface, ContainerKind, ContainerProbe, InterfaceKind,
    InterfaceStation, KvmUse, ProbeAsks, STANDBY_MAX, container_link, container_of_port, container_port,
    container_socket, is_container_port, standby_link,
};
pub use cpu::{Cpu, Percent};
pub use device::{
    Device, DeviceLayout, Grant, Joint, Link, MAX_OPENERS, ON_A_LINK, Opener, Opening, PortPolicy,
    PortStation, TunnelEnds,
};
pub use fraction::Fraction;
pub use guard::{INSIDE, OUTSIDE, guard_of, guarded_by};
pub use loops::{Detour, Loop};
pub use memory::{Overdraft, Purse, RUNTIME, Size, TenantMemory, bytes, page_tables};
pub use observation::{Observation, Shown, Watched, WatchedDevices};
pub use plan::{Adjustment, Allowance, Plan, PlanMismatch};
pub use promise::{BrokenPromise, Claimant, Obstacle, Remedy};
pub use service::Service;
pub use shadowed::{Loss, Shadowed, is_impossible};
pub use validate::WiringFault;
pub use workers::{MAX_WORKERS, WorkerPlan, Workers};

use indexmap::IndexMap;
use manifest::Access;
use neighbours::Settings;
use packet_memory::PoolConfig;
use schema::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use telemetry::clock::Nanos;
use virtual_switch::SwitchSettings;

/// Ports and instances, and what connects them. Maps keep the order in which the operator named things; two
/// wirings that differ in that order alone are equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wiring {
    /// The workers.
    pub workers: Workers,
    /// Trust domains by name.
    pub tenants: IndexMap<String, Tenant>,
    /// Ports by name. No two of ports, switches, devices and instances have one name.
    pub ports: IndexMap<String, Port>,
    /// Switches by name.
    pub switches: IndexMap<String, Switch>,
    /// Virtual devices by name.
    pub devices: IndexMap<String, Device>,
    /// Instances by name.
    pub instances: IndexMap<String, Instance>,
    /// Functions that are containers, by name, which no other part has.
    pub containers: IndexMap<String, Container>,
    /// Connections.
    pub edges: BTreeSet<Edge>,
    /// Which instance is shown what passes where.
    pub observations: BTreeSet<Observation>,
    /// Where packets for a service go, by the tenant whose functions may send there and the service ID. What
    /// a tenant grants to others stands here once for each.
    pub services: BTreeMap<Service, Endpoint>,
}

/// A trust domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its packet memory.
    pub pool: PoolConfig,
    /// What it may have of each worker's core, for all its instances there together.
    pub cpu: Cpu,
    /// What it may have of the host's memory.
    pub memory: TenantMemory,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Whose pool it receives into.
    pub tenant: String,
    /// Name of the driver.
    pub driver: String,
    /// The driver's settings, checked against its schema: a [`Value::Map`].
    pub settings: Value,
    /// Faults between the port and the functions, checked: a [`Value::Map`].
    pub fault: Option<Value>,
    /// Which thread does its work.
    pub io: PortIo,
    /// The side of a container that packets pass by while it is gone.
    pub bypass: Option<BypassSide>,
}

/// Which thread does the work of a port: takes packets from its driver, classifies them and hands those out
/// that leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortIo {
    /// The instance that the port feeds: in its context and in its account (HyperNF, section 3.5: hypervisor
    /// driver).
    #[default]
    Inline,
    /// A worker of its own that does nothing else (HyperNF, section 3.5: driver domain).
    Thread,
}

/// A learning switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// An address is forgotten this long after its last frame.
    pub age: Nanos,
    /// Addresses that it has room for.
    pub entries: u32,
}

impl Switch {
    /// What a switch is made with.
    pub fn settings(&self) -> SwitchSettings {
        SwitchSettings { age: self.age, entries: self.entries, ..SwitchSettings::default() }
    }
}

/// As long a memory, and as much of it, as a switch has that nothing is said of.
impl Default for Switch {
    fn default() -> Switch {
        let SwitchSettings { age, entries, .. } = SwitchSettings::default();
        Switch { age, entries }
    }
}

/// A network function that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Whose it is.
    pub tenant: String,
    /// In whose claim and account it works, if not in its tenant's: a guard works for what opens its device.
    pub payer: Option<String>,
    /// The image as the operator named it: a stock image's name, or a path.
    pub image: String,
    /// Its configuration, checked against the image's schema: a [`Value::Map`].
    pub config: Value,
    /// How many interfaces the image has.
    pub interfaces: u16,
    /// What the image may do with the bytes of packets.
    pub access: Access,
    /// The most private memory that it may come to have, in bytes.
    pub memory: u64,
    /// Bytes of it that are populated when it starts, at most `memory`; `None`: what it has when it has
    /// started, if that is much.
    pub resident: Option<u64>,
    /// Where its packets are.
    pub pool: InstancePool,
    /// Longest time one call may take.
    pub max_call: Nanos,
    /// What happens to packets while it does not run.
    pub fail: FailMode,
    /// When it is started again after a fault.
    pub restart: RestartDelays,
    /// Share of its pool's buffers that it may hold and own.
    pub quota: Fraction,
    /// Longest time it may hold a packet.
    pub longest_hold: Nanos,
    /// File that its events are appended to, as the operator named it.
    pub events: Option<String>,
    /// What it may have of its worker's core.
    pub cpu: Cpu,
    /// The worker that it stays on; `None`: wherever it is served best. See also [`Wiring::homes`].
    pub worker: Option<usize>,
    /// Whether it may be interrupted within a call, to go on later.
    pub preemptible: bool,
    /// When it is paused, in time since the start, one span after another.
    pub pauses: Vec<Pause>,
    /// Interfaces that have addresses of their own on the links of the devices that they open.
    pub stations: BTreeMap<u16, Settings>,
    /// Of a guard: what learns addresses that it is told, by the number of the list that they are on.
    pub members: BTreeMap<u32, BTreeSet<Learner>>,
}

/// A station that learns addresses: a device, or an interface that opens it, by function and number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Learner {
    /// The device.
    pub device: String,
    /// The interface, if it is not the device itself.
    pub interface: Option<(String, u16)>,
}

impl Instance {
    /// The tenant in whose claim and account it works.
    pub fn payer(&self) -> &str {
        self.payer.as_deref().unwrap_or(&self.tenant)
    }
}

/// A span in which an instance is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// When it is paused.
    pub from: Nanos,
    /// When it goes on.
    pub to: Nanos,
}

/// Where an instance's packets are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstancePool {
    /// In the tenant's pool.
    Tenant,
    /// In a pool of its own; packets are copied in and out.
    Own(PoolConfig),
}

/// What happens to packets for an instance that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailMode {
    /// They are dropped.
    Closed,
    /// They pass by it: what comes by interface 0 leaves by 1, and the other way round.
    Open,
}

/// When an instance is started again after a fault: after the first delay, and after twice as long each time
/// that it fails again, up to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartDelays {
    /// After the first fault.
    pub first: Nanos,
    /// Bound of all later ones.
    pub longest: Nanos,
}

/// Interfaces from this number on are not those of a chain. A function that observes may be wired by them: it
/// sends by them, and gets nothing.
pub const SENDING_INTERFACES: u16 = 2;

/// Where packets leave and enter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// A port, by name.
    Port(String),
    /// A switch, by name: whatever is wired to it is plugged into it.
    Switch(String),
    /// A device, as a function or service opens it.
    Device(Opening),
    /// An interface of an instance, by the instance's name and the interface's number.
    Interface(String, u16),
}

impl Endpoint {
    /// Name of the port, switch, device or instance.
    pub fn name(&self) -> &str {
        match self {
            Endpoint::Port(name) | Endpoint::Switch(name) | Endpoint::Interface(name, _) => name,
            Endpoint::Device(opening) => &opening.device,
        }
    }

    /// Name of the function that it is an interface of: of a container's port, of the container.
    pub fn function(&self) -> &str {
        match self {
            Endpoint::Port(port) => container_of_port(port).unwrap_or(port),
            end => end.name(),
        }
    }

    /// Whether it may open a device: it is an interface of a function, of the sandbox or not.
    pub fn is_opener(&self) -> bool {
        match self {
            Endpoint::Interface(..) => true,
            Endpoint::Port(port) => is_container_port(port),
            Endpoint::Switch(_) | Endpoint::Device(_) => false,
        }
    }

    /// Whether any number of wires may lead there: to a switch or a device.
    pub fn takes_many(&self) -> bool {
        matches!(self, Endpoint::Switch(_) | Endpoint::Device(_))
    }

    /// Whether a wire here puts a function in line, see [`SENDING_INTERFACES`].
    pub fn is_in_line(&self) -> bool {
        !matches!(self, Endpoint::Interface(_, number) if *number >= SENDING_INTERFACES)
    }
}

/// As in the operator's file: `lan`, `edge_firewall:0`.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Port(name) | Endpoint::Switch(name) => f.write_str(name),
            Endpoint::Device(opening) => opening.fmt(f),
            Endpoint::Interface(name, number) => write!(f, "{name}:{number}"),
        }
    }
}

/// A connection of two endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge(Endpoint, Endpoint);

impl Edge {
    /// The order of the ends counts for nothing.
    pub fn new(a: Endpoint, b: Endpoint) -> Edge {
        if a <= b { Edge(a, b) } else { Edge(b, a) }
    }

    /// Both ends.
    pub fn ends(&self) -> [&Endpoint; 2] {
        [&self.0, &self.1]
    }

    /// The end that opens a device, and how, if one of them is a device.
    pub fn opening(&self) -> Option<(&Endpoint, &Opening)> {
        match self.ends() {
            [Endpoint::Device(opening), end] | [end, Endpoint::Device(opening)] => Some((end, opening)),
            _ => None,
        }
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} - {}", self.0, self.1)
    }
}

/// A pool, by whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolOwner<'a> {
    /// The tenant's.
    Tenant(&'a str),
    /// An instance's own.
    Instance(&'a str),
}

impl Wiring {
    /// Where packets go that leave by an endpoint. What leaves a switch goes to one or more of
    /// [`Wiring::plugged_into`], as the switch decides.
    pub fn peer(&self, endpoint: &Endpoint) -> Option<&Endpoint> {
        if endpoint.takes_many() {
            return None;
        }
        self.edges.iter().find_map(|edge| match edge.ends() {
            [a, b] if a == endpoint => Some(b),
            [a, b] if b == endpoint => Some(a),
            _ => None,
        })
    }

    /// The ports and interfaces that are plugged into a switch.
    pub fn plugged_into<'a>(&'a self, switch: &'a str) -> impl Iterator<Item = &'a Endpoint> {
        let is_it = move |end: &Endpoint| matches!(end, Endpoint::Switch(name) if name == switch);
        self.edges.iter().filter_map(move |edge| match edge.ends() {
            [a, b] if is_it(a) => Some(b),
            [a, b] if is_it(b) => Some(a),
            _ => None,
        })
    }

    /// The pool that packets at an endpoint are in. Switches and devices have none: packets pass them in the
    /// sender's.
    pub fn pool_of(&self, endpoint: &Endpoint) -> Option<PoolOwner<'_>> {
        match endpoint {
            Endpoint::Port(name) => Some(PoolOwner::Tenant(&self.ports.get(name)?.tenant)),
            Endpoint::Switch(_) | Endpoint::Device(_) => None,
            Endpoint::Interface(name, _) => {
                let (name, instance) = self.instances.get_key_value(name)?;
                Some(match instance.pool {
                    InstancePool::Tenant => PoolOwner::Tenant(&instance.tenant),
                    InstancePool::Own(_) => PoolOwner::Instance(name),
                })
            }
        }
    }

    /// Are packets copied that pass from one endpoint to the other, by a wire or through a switch or device?
    /// On the way into one of these nothing is copied: where a packet goes has not been decided yet.
    pub fn copies(&self, from: &Endpoint, to: &Endpoint) -> bool {
        let decides = from.takes_many() || to.takes_many();
        !decides && self.pool_of(from) != self.pool_of(to)
    }

    /// The worker that each instance has to run on, for those that have to: the one that it names itself, or
    /// that is named by one that it observes or that observes it, because an observer is shown packets where
    /// they are.
    pub fn homes(&self) -> BTreeMap<&str, usize> {
        let own =
            self.instances.iter().filter_map(|(name, instance)| Some((name.as_str(), instance.worker?)));
        let mut homes: BTreeMap<&str, usize> = own.collect();
        let mut beside: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for Observation { observer, at, .. } in &self.observations {
            let Some(at) = at.beside().filter(|_| self.instances.contains_key(observer)) else { continue };
            beside.entry(observer).or_default().push(at);
            beside.entry(at).or_default().push(observer);
        }
        let mut ways: Vec<(&str, usize)> = homes.iter().map(|(name, worker)| (*name, *worker)).collect();
        while let Some((name, worker)) = ways.pop() {
            for other in beside.remove(name).unwrap_or_default() {
                if !homes.contains_key(other) {
                    homes.insert(other, worker);
                    ways.push((other, worker));
                }
            }
        }
        homes
    }
}
