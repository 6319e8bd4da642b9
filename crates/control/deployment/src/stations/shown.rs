//! What is told of stations and of the neighbours that they know.

use super::Stations;
use super::station::Station;
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
    /// What it is there; none without addresses.
    pub stations: Vec<ShownStation>,
    /// Neighbours, by their addresses.
    pub neighbours: Vec<ShownNeighbour>,
    /// There are more of them.
    pub more: bool,
}

/// What a device is on its links.
#[derive(Debug)]
pub struct ShownStation {
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
}

/// The same in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StationReading {
    /// Its addresses, and whether they are its alone.
    pub addresses: Vec<(Prefix, AddressState)>,
    /// Entries of its table.
    pub neighbours: usize,
}

/// A neighbour.
#[derive(Debug)]
pub struct ShownNeighbour {
    /// What is known of it.
    pub neighbour: Neighbour,
    /// The port by which it answered last.
    pub port: Option<String>,
}

impl Host {
    /// What a device is on its links, and up to `limit` neighbours whose addresses are behind `after`. Waits for no
    /// worker.
    pub fn neighbours(&self, device: &str, after: Option<IpAddr>, limit: usize) -> ShownDevice {
        self.stations.shown(device, after, limit)
    }
}

impl Stations {
    /// What a device is on its link now; `None`: it has no addresses.
    pub(crate) fn reading(&self, device: &str) -> Option<StationReading> {
        let state = self.shared.lock();
        let known = &state.stations.get(device)?.device;
        let mut addresses: Vec<_> = known.addresses().map(|own| (own.prefix, own.state)).collect();
        addresses.sort_unstable_by_key(|(prefix, _)| *prefix);
        Some(StationReading { addresses, neighbours: known.neighbours_count() })
    }

    fn shown(&self, device: &str, after: Option<IpAddr>, limit: usize) -> ShownDevice {
        let state = self.shared.lock();
        let station = state.stations.get(device);
        let mut neighbours: Vec<ShownNeighbour> =
            station.map(|station| station.neighbours(after, limit.saturating_add(1))).unwrap_or_default();
        let more = neighbours.len() > limit;
        neighbours.truncate(limit);
        let stations = station.into_iter().map(Station::shown).collect();
        ShownDevice { at: watchdog::clock().now(), stations, neighbours, more }
    }
}

impl Station {
    fn shown(&self) -> ShownStation {
        let device = &self.device;
        let until = |own: &Address| (*own, device.valid_until(own.prefix.address));
        let mut addresses: Vec<_> = device.addresses().map(until).collect();
        addresses.sort_unstable_by_key(|(own, _)| own.prefix);
        ShownStation {
            mac: device.mac(),
            mtu: device.mtu(),
            ports: self.links.iter().map(|link| link.port.clone()).collect(),
            addresses,
            dhcp: device.dhcp(),
            gateways: device.routers().collect(),
            groups: device.groups().collect(),
        }
    }

    fn neighbours(&self, after: Option<IpAddr>, most: usize) -> Vec<ShownNeighbour> {
        let port = |way: u16| self.links.get(usize::from(way)).map(|link| link.port.clone());
        let shown = |neighbour: Neighbour| ShownNeighbour { port: neighbour.way.and_then(port), neighbour };
        match after {
            None => self.device.neighbours().take(most).map(shown).collect(),
            Some(after) => self.device.neighbours_after(after).take(most).map(shown).collect(),
        }
    }
}
