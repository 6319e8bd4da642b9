//! Virtual devices: what functions open, and what is laid for that.
//!
//! A device stands between ports and the functions that open it, so that neither knows of the other (MVMP,
//! section 3.1). In the [`Wiring`] it is an end of edges like a switch. What is laid is the device, wired to
//! its openers and its ports; for a striped bond two of them, and between them what keeps packets in order
//! ([`mod@striped`]). A port that has a `receive` policy, or that several devices are over, or one that only
//! sees packets, gets a classifier, which is wired to the port and to its devices.

use crate::{Edge, Endpoint, Port, Service, WatchedDevices, Wiring, striped};
use capture::Filter;
use encapsulation::{Encapsulation, LayerKind};
use indexmap::IndexMap;
use neighbours::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use stripe::EtherType;
use virtual_device::{MAX_PORTS, Mode, Share};

/// Most openers of one device that get packets: each may have a copy made of every packet.
pub const MAX_OPENERS: usize = 64;

/// A virtual device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Whose functions may open it.
    pub tenant: String,
    /// Where what openers send goes. Of a striped bond: by which link a packet goes that has a number.
    pub mode: Mode,
    /// The EtherType of the sequence headers, if it is a striped bond.
    pub stripe: Option<EtherType>,
    /// What several openers get of what comes.
    pub share: Share,
    /// The ports that it is over, in order, with what it wants of each.
    pub over: IndexMap<String, PortPolicy>,
    /// Functions of other tenants that may open it.
    pub open_to: Vec<Grant>,
    /// What it is on its link, if it has addresses or gets one.
    pub station: Option<Settings>,
    /// The zone in which its addresses are members of security groups, if it has groups.
    pub zone: Option<u16>,
}

/// What a device wants of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortPolicy {
    /// The packets that it wants; `None`: all.
    pub receive: Option<Filter>,
    /// Of devices that want one packet, the one with the lowest number takes it, then the first by name.
    pub priority: u32,
    /// Headers that are taken off what comes in, outermost first.
    pub decapsulate: Vec<LayerKind>,
    /// Headers that are put on what goes out, unless some are put back that were taken off.
    pub encapsulate: Option<Encapsulation>,
    /// The port of the device by which that leaves which came by this one.
    pub send: Option<String>,
    /// How the device, and what opens it, is a station on the port's link, where it has addresses; `None`:
    /// not there.
    pub station: Option<PortStation>,
}

/// Drivers of ports that are on a link with neighbours.
pub const ON_A_LINK: [&str; 6] = ["af_packet", "af_xdp", "memif", "native", "tap", "vhost-user"];

/// How a device is a station on the link of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStation {
    /// EtherType and control of the VLAN tag that its frames have there.
    pub tag: Option<(u16, u16)>,
    /// It is outside of the port's tunnel, where functions that open the device see nothing: its addresses
    /// are for the tunnel alone.
    pub outside: bool,
    /// The other end of the tunnel, if it is to find out where packets for that go.
    pub remote: Option<IpAddr>,
    /// The tunnel that addresses of functions are inside of.
    pub inside: Option<TunnelEnds>,
}

/// A tunnel of frames between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelEnds {
    /// Its network or key.
    pub key: u32,
    /// This end.
    pub local: IpAddr,
    /// The other end, or a group.
    pub remote: IpAddr,
}

impl PortPolicy {
    /// Whether packets have headers outside of the port that openers do not see.
    pub fn has_tunnels(&self) -> bool {
        !self.decapsulate.is_empty() || self.encapsulate.is_some()
    }
}

/// Who may open a device beside its tenant's functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The tenant.
    pub tenant: String,
    /// One function of it; `None`: all.
    pub function: Option<String>,
}

/// How a device is opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opening {
    /// The device.
    pub device: String,
    /// By this port of it alone.
    pub port: Option<String>,
    /// Of openers that get the same packets in line, the one with the lowest number has the packet itself,
    /// and then the first by name; the others get copies.
    pub order: u32,
}

impl Opening {
    /// Of a device as a whole, or by one port; of the order 0.
    pub fn of(device: &str, port: Option<&str>) -> Opening {
        Opening { device: device.to_owned(), port: port.map(str::to_owned), order: 0 }
    }
}

/// As in the operator's file: `bridge0`, `bridge0:nic1`.
impl fmt::Display for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device)?;
        self.port.as_ref().map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// An end of what is laid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Joint {
    /// A port or an interface.
    End(Endpoint),
    /// The device.
    Device(String),
    /// The classifier of a port.
    Classifier(String),
}

/// A wire that is laid for a device.
pub type Link = (Joint, Joint);

/// An opener, as one program names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opener {
    /// An interface of a function.
    Interface(Endpoint),
    /// What is sent to a service.
    Service(Service),
}

/// What is laid for all devices of a wiring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceLayout {
    /// Wires.
    pub links: BTreeSet<Link>,
    /// The openers of each device, in their order.
    pub devices: BTreeMap<String, Vec<(Opener, Opening)>>,
    /// Ports with a classifier: the devices over them, as they take packets.
    pub classifiers: BTreeMap<String, Vec<String>>,
    /// Devices, each with one of its ports, that see what they want of the port and take none of it: nothing
    /// but observers would get it.
    pub only_seeing: BTreeSet<(String, String)>,
}

impl Grant {
    /// Whether a function is meant.
    pub fn covers(&self, tenant: &str, function: &str) -> bool {
        self.tenant == tenant && self.function.as_ref().is_none_or(|only| only == function)
    }
}

impl Device {
    /// Whether its addresses are those of its functions: not if they are for its tunnels.
    pub fn has_station_inside(&self) -> bool {
        let is_outside = |policy: &PortPolicy| policy.station.is_some_and(|station| station.outside);
        self.station.is_some() && !self.over.values().any(is_outside)
    }

    /// The ports by which an opener sends and gets packets.
    pub fn ports_opened(&self, opening: &Opening) -> impl Iterator<Item = (&String, &PortPolicy)> {
        let only = opening.port.clone();
        self.over.iter().filter(move |(name, _)| only.as_ref().is_none_or(|only| only == *name))
    }

    /// Two of its ports that are of two tenants.
    pub fn sides_of_two_tenants(&self, ports: &IndexMap<String, Port>) -> Option<(&str, &str)> {
        let mut known = self.over.keys().filter_map(|name| Some((name.as_str(), &ports.get(name)?.tenant)));
        let (first, tenant) = known.next()?;
        known.find(|(_, other)| *other != tenant).map(|(second, _)| (first, second))
    }

    /// Whether a function of a tenant may open it.
    pub fn is_open_to(&self, tenant: &str, function: &str) -> bool {
        self.tenant == tenant || self.open_to.iter().any(|grant| grant.covers(tenant, function))
    }

    /// What is allowed where it is over a number of ports that its mode has no use for.
    pub fn ports_allowed(&self) -> Option<&'static str> {
        match (self.mode, self.over.len()) {
            (_, MAX_PORTS_AND_ONE..) => Some("255 ports at most"),
            (Mode::Direct, 1) | (Mode::Bond(_), 1..) | (Mode::Bridge, 2..) | (Mode::Rootless, 0) => None,
            (Mode::Direct, _) => Some("one port"),
            (Mode::Bond(_), _) => Some("one port or more"),
            (Mode::Bridge, _) => Some("two ports or more"),
            (Mode::Rootless, _) => Some("no `over`: what one opener sends the others get"),
        }
    }

    /// Two interfaces of one function that get the same packets: what it sends by one would come back by the
    /// other.
    pub fn loops<'a>(&self, openers: &[(&'a Endpoint, &'a Opening)]) -> Option<(&'a Endpoint, &'a Endpoint)> {
        let mut of: BTreeMap<&str, Vec<&(&Endpoint, &Opening)>> = BTreeMap::new();
        for opener in openers {
            of.entry(opener.0.function()).or_default().push(opener);
        }
        let mut several = of.into_values().filter(|openers| openers.len() > 1);
        several.find_map(|openers| {
            openers.iter().enumerate().find_map(|(n, (first, a))| {
                let second = openers[n + 1..].iter().find(|(_, b)| meets(a, b))?;
                Some((*first, second.0))
            })
        })
    }

    /// Two openers that get the same packets, if the device is not shared. Of a rootless one, which has two
    /// ends, the second and the third opener.
    pub fn conflict<'a>(
        &self,
        openers: &[(&'a Endpoint, &'a Opening)],
    ) -> Option<(&'a Endpoint, &'a Endpoint)> {
        if self.share != Share::Single {
            return None;
        }
        if self.mode == Mode::Rootless {
            return openers.get(1).zip(openers.get(2)).map(|(second, third)| (second.0, third.0));
        }
        openers.iter().enumerate().find_map(|(n, (first, a))| {
            let second = openers[n + 1..].iter().find(|(_, b)| meets(a, b))?;
            Some((*first, second.0))
        })
    }
}

const MAX_PORTS_AND_ONE: usize = MAX_PORTS + 1;

/// Whether two openers get the same packets of a port.
fn meets(a: &Opening, b: &Opening) -> bool {
    a.port.is_none() || b.port.is_none() || a.port == b.port
}

impl DeviceLayout {
    /// Of devices as they are laid ([`striped::laid`]), the edges that open them, and the services that lead
    /// to them. Functions that observe send and get nothing.
    pub fn of<'a>(
        devices: &IndexMap<String, Device>,
        edges: impl Iterator<Item = &'a Edge>,
        services: impl Iterator<Item = (&'a Service, &'a Endpoint)>,
        observes: impl Fn(&str) -> bool,
        watched: &WatchedDevices,
    ) -> DeviceLayout {
        let mut openers: BTreeMap<&str, Vec<(Opener, Opening)>> = BTreeMap::new();
        for (end, opening) in edges.filter_map(Edge::opening) {
            let opener = Opener::Interface(end.clone());
            openers.entry(&opening.device).or_default().push((opener, opening.clone()));
        }
        for (service, end) in services {
            if let Endpoint::Device(opening) = end {
                let opener = Opener::Service(service.clone());
                openers.entry(&opening.device).or_default().push((opener, opening.clone()));
            }
        }
        let links: Vec<(String, Opener, Opening)> = striped::links_openers(devices).collect();
        for (links, opener, opening) in &links {
            openers.entry(links).or_default().push((opener.clone(), opening.clone()));
        }
        let mut over: BTreeMap<&str, Vec<(&str, &PortPolicy)>> = BTreeMap::new();
        for (name, device) in devices {
            for (port, policy) in &device.over {
                over.entry(port).or_default().push((name, policy));
            }
        }
        let only_sees = |device: &str, port: &str| {
            let takes = |(opener, opening): &(Opener, Opening)| match opener {
                Opener::Interface(end) => {
                    !observes(end.name()) && opening.port.as_ref().is_none_or(|side| side == port)
                }
                Opener::Service(_) => false,
            };
            watched.sees(device, port)
                && !openers.get(device).is_some_and(|openers| openers.iter().any(takes))
        };
        let pairs =
            devices.iter().flat_map(|(name, device)| device.over.keys().map(move |port| (name, port)));
        let only_seeing: BTreeSet<(String, String)> = pairs
            .filter(|(name, port)| only_sees(name, port))
            .map(|(name, port)| (name.clone(), port.clone()))
            .collect();
        let is_plain = |port: &str| {
            let sees = |device: &str| only_seeing.contains(&(device.to_owned(), port.to_owned()));
            matches!(&over[port][..], [(device, policy)] if policy.receive.is_none() && !sees(device))
        };
        let mut layout = DeviceLayout::default();
        for (name, device) in devices {
            let mut openers = openers.remove(name.as_str()).unwrap_or_default();
            let key = |(opener, opening): &(Opener, Opening)| match opener {
                Opener::Interface(end) => {
                    (opening.order, Some((end.function().to_owned(), end.clone())), None)
                }
                Opener::Service(service) => (opening.order, None, Some(service.clone())),
            };
            openers.sort_by_cached_key(key);
            let this = || Joint::Device(name.clone());
            for port in device.over.keys() {
                let end = Joint::End(Endpoint::Port(port.clone()));
                if is_plain(port) {
                    layout.links.insert((end, this()));
                } else {
                    let classifier = Joint::Classifier(port.clone());
                    layout.links.insert((end, classifier.clone()));
                    layout.links.insert((classifier, this()));
                }
            }
            for (opener, _) in &openers {
                if let Opener::Interface(end) = opener {
                    layout.links.insert((Joint::End(end.clone()), this()));
                }
            }
            layout.devices.insert(name.clone(), openers);
        }
        for (port, devices) in over.iter().filter(|(port, _)| !is_plain(port)) {
            let mut devices: Vec<&(&str, &PortPolicy)> = devices.iter().collect();
            devices.sort_by_key(|(name, policy)| (policy.priority, *name));
            let names = devices.into_iter().map(|(name, _)| (*name).to_owned());
            layout.classifiers.insert((*port).to_owned(), names.collect());
        }
        DeviceLayout { only_seeing, ..layout }
    }
}

impl Wiring {
    /// What is laid for its devices.
    pub fn device_layout(&self) -> DeviceLayout {
        let observers: BTreeSet<&str> = self.observations.iter().map(|seen| seen.observer.as_str()).collect();
        DeviceLayout::of(
            &striped::laid(self.devices.clone()),
            self.edges.iter(),
            self.services.iter(),
            |name| observers.contains(name),
            &WatchedDevices::of(self.observations.iter()),
        )
    }
}
