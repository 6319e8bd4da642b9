//! Devices that tenants make for themselves.
//!
//! A device is its tenant's to make, change and delete if
//! 1. all that its spec says is a tenant's to say ([`api::kept_from_tenants`]),
//! 2. it is over no port, or over ports of the tenant alone, and
//! 3. when it is made or changed, no device that is not the tenant's to change is over these ports: by
//!    `priority` or `receive` it would take packets from that.
//!
//! Every other device is an administrator's, also if its tenant is this one. So nothing is stored about which
//! client made a device, and what an administrator says of one to bind its tenant keeps the tenant from it.
//!
//! This is the part of the index of [`Owners`](crate::owners::Owners) that it takes: which devices are over a
//! port, which ones security groups bind, and what of the host's each takes.

use crate::owners::base;
use crate::senders::says_addresses;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// What is known of devices by their specs, and of functions that have addresses at devices.
#[derive(Default)]
pub(crate) struct DeviceIndex {
    devices: HashMap<String, KnownDevice>,
    /// Those that security groups bind.
    bound: BTreeSet<String>,
    /// By port: the devices over it.
    over: HashMap<String, BTreeSet<String>>,
    /// By function: the device of each interface that is a station of its own there.
    stations: HashMap<String, Vec<String>>,
    /// Guests whose interfaces have addresses of their own.
    addressed: BTreeSet<String>,
}

/// A device by its spec.
#[derive(Debug, Default)]
pub(crate) struct KnownDevice {
    pub over: Vec<String>,
    /// It says what is an administrator's to say.
    pub is_kept: bool,
    pub takes: Takes,
}

/// What devices of a tenant's own take of the host beside the memory of their specs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Takes {
    pub devices: usize,
    /// Bytes of all `receive`: what is done for a packet at a port grows with it.
    pub receive: usize,
    /// Devices, and interfaces at them, that have addresses: each has tables, and frames that wait.
    pub stations: usize,
}

impl KnownDevice {
    pub fn of(spec: &Value) -> KnownDevice {
        let over = api::ports_under(spec).into_iter().map(|(_, name)| name).collect();
        let policies = spec.get("over").and_then(Value::as_object).into_iter().flat_map(|over| over.values());
        let receive = policies.filter_map(|policy| policy.get("receive")?.as_str()).map(str::len).sum();
        let stations = usize::from(is_station(spec, &["addresses", "multicast"]));
        KnownDevice {
            over,
            is_kept: !api::kept_from_tenants(spec).is_empty(),
            takes: Takes { devices: 1, receive, stations },
        }
    }
}

/// Whether an object has addresses on a link: by one of these lists, or by DHCP. What these are is not
/// checked yet.
fn is_station(spec: &Value, lists: &[&str]) -> bool {
    let has = |list: &&str| spec.get(list).is_some_and(|list| !list.as_array().is_some_and(Vec::is_empty));
    lists.iter().any(has) || spec.get("dhcp").is_some_and(|dhcp| *dhcp != Value::Bool(false))
}

/// Of a function: the device, or what else it is attached to, of each interface with addresses of its own.
pub(crate) fn stations_in(spec: &Value) -> Vec<String> {
    let ends = spec.get("attach").and_then(Value::as_object).into_iter().flat_map(|attach| attach.values());
    let stations = ends.filter(|end| is_station(end, &["addresses", "slaac"]));
    stations.filter_map(|end| Some(base(api::attached_to(end)?).to_owned())).collect()
}

impl std::ops::Add for Takes {
    type Output = Takes;

    fn add(self, other: Takes) -> Takes {
        Takes {
            devices: self.devices + other.devices,
            receive: self.receive + other.receive,
            stations: self.stations + other.stations,
        }
    }
}

impl std::iter::Sum for Takes {
    fn sum<I: Iterator<Item = Takes>>(all: I) -> Takes {
        all.fold(Takes::default(), |sum, one| sum + one)
    }
}

impl DeviceIndex {
    /// A device has this spec now, or is gone.
    pub fn take_device(&mut self, name: &str, spec: Option<&Value>) {
        self.bound.remove(name);
        for port in self.devices.remove(name).unwrap_or_default().over {
            if let Some(devices) = self.over.get_mut(&port) {
                devices.remove(name);
                if devices.is_empty() {
                    self.over.remove(&port);
                }
            }
        }
        let Some(spec) = spec else { return };
        if spec.get("groups").is_some() {
            self.bound.insert(name.to_owned());
        }
        let known = KnownDevice::of(spec);
        for port in &known.over {
            self.over.entry(port.clone()).or_default().insert(name.to_owned());
        }
        self.devices.insert(name.to_owned(), known);
    }

    /// A function has this spec now, or is gone.
    pub fn take_function(&mut self, name: &str, spec: Option<&Value>) {
        match spec.map(stations_in).filter(|stations| !stations.is_empty()) {
            Some(stations) => drop(self.stations.insert(name.to_owned(), stations)),
            None => drop(self.stations.remove(name)),
        }
        match spec.is_some_and(says_addresses) {
            true => drop(self.addressed.insert(name.to_owned())),
            false => drop(self.addressed.remove(name)),
        }
    }

    pub fn device(&self, name: &str) -> Option<&KnownDevice> {
        self.devices.get(name)
    }

    /// The devices that security groups bind.
    pub fn bound(&self) -> &BTreeSet<String> {
        &self.bound
    }

    /// Whether this is a guest whose interfaces have addresses of their own.
    pub fn has_addresses(&self, function: &str) -> bool {
        self.addressed.contains(function)
    }

    /// The devices over a port.
    pub fn over(&self, port: &str) -> impl Iterator<Item = &str> {
        self.over.get(port).into_iter().flatten().map(String::as_str)
    }

    /// The devices at which a function's interfaces have addresses.
    pub fn stations_of(&self, function: &str) -> &[String] {
        self.stations.get(function).map_or(&[], Vec::as_slice)
    }
}
