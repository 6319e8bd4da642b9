//! The table of a function, as it reads it.

use super::station::{Station, is_used};
use neighbours::{Asker, NeighbourState as Known};
use nf_abi::{DeviceEntry, MAX_DEVICE_ENTRIES, NeighbourState};
use std::sync::Arc;

/// What a function of an asker reads whose interfaces are at these stations, or at none.
pub(super) fn entries<'a>(asker: Asker, stations: impl Iterator<Item = Option<&'a Station>>) -> Arc<[u8]> {
    let all = (0..).zip(stations).flat_map(|(interface, station)| of_interface(asker, interface, station));
    all.take(MAX_DEVICE_ENTRIES).flat_map(DeviceEntry::encode).collect()
}

/// The entries of one interface, by kind and address.
fn of_interface(asker: Asker, interface: u16, station: Option<&Station>) -> Vec<DeviceEntry> {
    let Some(Station { device, off_link, is_up, .. }) = station else {
        return vec![DeviceEntry::Interface { interface, is_up: true, mac: [0; 6], mtu: 0 }];
    };
    let link =
        DeviceEntry::Interface { interface, is_up: *is_up, mac: device.mac(), mtu: u32::from(device.mtu()) };
    let mut own: Vec<_> = device.addresses().filter(|own| is_used(own.state)).map(|own| own.prefix).collect();
    own.sort_unstable();
    let own = own.into_iter().map(|prefix| DeviceEntry::Address {
        interface,
        address: prefix.address,
        prefix: prefix.length,
    });
    let unreachable = |address| DeviceEntry::Neighbour {
        interface,
        address,
        state: NeighbourState::Unreachable,
        mac: [0; 6],
    };
    let mut neighbours: Vec<DeviceEntry> = off_link.of(asker).map(unreachable).collect();
    neighbours.extend(device.neighbours_of(asker).map(|neighbour| match (neighbour.state, neighbour.mac) {
        (Known::Unreachable, _) => unreachable(neighbour.address),
        (_, Some(mac)) => DeviceEntry::Neighbour {
            interface,
            address: neighbour.address,
            state: NeighbourState::Reachable,
            mac,
        },
        (_, None) => DeviceEntry::ask(interface, neighbour.address),
    }));
    neighbours.sort_unstable_by_key(|entry| match entry {
        DeviceEntry::Neighbour { address, .. } => Some(*address),
        _ => None,
    });
    let mut gateways: Vec<_> = device.routers().collect();
    gateways.sort_unstable();
    let gateways = gateways.into_iter().map(|address| DeviceEntry::Gateway { interface, address });
    std::iter::once(link).chain(own).chain(neighbours).chain(gateways).collect()
}
