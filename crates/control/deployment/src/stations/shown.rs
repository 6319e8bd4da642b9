//! What is told of stations and of the neighbours that they know.

use super::station::Station;
use super::{StationFrames, StationName, Stations};
use crate::Host;
use guest_wasm::watchdog;
use neighbours::{Address, AddressState, DhcpLease, Mac, Neighbour, Prefix};
use std::net::IpAddr;
use telemetry::clock::Nanos;

/// A device on its links, and a part of its neighbours.
#[derive(Debug)]
pub struct ShownDevice {
    /// When it was so, on the clock of all other times here.
    pub at: Nanos,
    /// What it is there, and each interface that has addresses of its own; none without addresses.
    pub stations: Vec<ShownStation>,
    /// Neighbours, by their addresses.
    pub neighbours: Vec<ShownNeighbour>,
    /// There are more of them.
    pub more: bool,
}

/// What a device is on its links.
#[derive(Debug)]
pub struct ShownStation {
    /// The interface whose it is, by function and number; the device's own without one.
    pub interface: Option<(String, u16)>,
    /// Its link-layer address.
    pub mac: Mac,
    /// Bytes of the largest IP packet.
    pub mtu: u16,
    /// The ports at which it is.
    pub ports: Vec<String>,
    /// Its addresses, and until when they are valid if they have a lifetime.
    pub addresses: Vec<(Address, Option<Nanos>)>,
    /// Its client of DHCP.
    pub dhcp: Option<DhcpLease>,
    /// Routers, the best first.
    pub gateways: Vec<IpAddr>,
    /// Groups that it tells routers of.
    pub groups: Vec<IpAddr>,
    /// What became of frames.
    pub frames: StationFrames,
}

/// The same in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StationReading {
    /// Its addresses, and whether they are its alone.
    pub addresses: Vec<(Prefix, AddressState)>,
    /// Entries of its table.
    pub neighbours: usize,
    /// What became of frames.
    pub frames: StationFrames,
}

/// A neighbour.
#[derive(Debug)]
pub struct ShownNeighbour {
    /// The interface that knows it; the device itself without one.
    pub interface: Option<(String, u16)>,
    /// What is known of it.
    pub neighbour: Neighbour,
    /// The port by which it answered last.
    pub port: Option<String>,
}

impl Host {
    /// What a device is on its links, and up to `limit` neighbours whose addresses are behind `after`, and
    /// those with the last one's address. With a tenant, without the interfaces of others. Waits for no
    /// worker.
    pub fn neighbours(
        &self,
        device: &str,
        tenant: Option<&str>,
        after: Option<IpAddr>,
        limit: usize,
    ) -> ShownDevice {
        let deployed = self.deployed();
        let tenant_of = |function: &String| {
            let of_container = || deployed.wiring.containers.get(function).map(|it| it.tenant.as_str());
            deployed.wiring.instances.get(function).map(|it| it.tenant.as_str()).or_else(of_container)
        };
        self.stations.shown(device, after, limit, |name| match &name.interface {
            Some((function, _)) => tenant.is_none() || tenant_of(function) == tenant,
            None => true,
        })
    }
}

impl Stations {
    /// What a device is on its link now; `None`: it has no addresses.
    pub(crate) fn reading(&self, device: &str) -> Option<StationReading> {
        let state = self.shared.lock();
        let name = StationName { device: device.to_owned(), interface: None };
        let station = state.stations.get(&name)?;
        let known = &station.device;
        let mut addresses: Vec<_> = known.addresses().map(|own| (own.prefix, own.state)).collect();
        addresses.sort_unstable_by_key(|(prefix, _)| *prefix);
        Some(StationReading { addresses, neighbours: known.neighbours_count(), frames: station.frames() })
    }

    fn shown(
        &self,
        device: &str,
        after: Option<IpAddr>,
        limit: usize,
        is_shown: impl Fn(&StationName) -> bool,
    ) -> ShownDevice {
        let state = self.shared.lock();
        let first = StationName { device: device.to_owned(), interface: None };
        let stations = state.stations.range(first..).take_while(|(name, _)| name.device == device);
        let stations = stations.filter(|(name, _)| is_shown(name));
        let (mut shown, mut neighbours) = (Vec::new(), Vec::new());
        for (name, station) in stations {
            shown.push(station.shown(name));
            neighbours.extend(station.neighbours(name, after, limit.saturating_add(1)));
        }
        neighbours.sort_by_key(|shown| shown.neighbour.address);
        // Those of one address stay together: the next part begins behind an address.
        let address = |at: usize| neighbours.get(at).map(|shown| shown.neighbour.address);
        let mut end = limit.min(neighbours.len());
        while end > 0 && end < neighbours.len() && address(end) == address(end - 1) {
            end += 1;
        }
        let more = end < neighbours.len();
        neighbours.truncate(end);
        ShownDevice { at: watchdog::clock().now(), stations: shown, neighbours, more }
    }
}

impl Station {
    fn shown(&self, name: &StationName) -> ShownStation {
        let device = &self.device;
        let until = |own: &Address| (*own, device.valid_until(own.prefix.address));
        let mut addresses: Vec<_> = device.addresses().map(until).collect();
        addresses.sort_unstable_by_key(|(own, _)| own.prefix);
        ShownStation {
            interface: name.interface.clone(),
            mac: device.mac(),
            mtu: device.mtu(),
            ports: self.links.iter().map(|link| link.port.clone()).collect(),
            addresses,
            dhcp: device.dhcp(),
            gateways: device.routers().collect(),
            groups: device.groups().collect(),
            frames: self.frames(),
        }
    }

    fn neighbours(&self, name: &StationName, after: Option<IpAddr>, most: usize) -> Vec<ShownNeighbour> {
        let port = |way: u16| self.links.get(usize::from(way)).map(|link| link.port.clone());
        let shown = |neighbour: Neighbour| ShownNeighbour {
            interface: name.interface.clone(),
            port: neighbour.way.and_then(port),
            neighbour,
        };
        match after {
            None => self.device.neighbours().take(most).map(shown).collect(),
            Some(after) => self.device.neighbours_after(after).take(most).map(shown).collect(),
        }
    }
}
