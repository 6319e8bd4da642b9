//! The table of a function, as it reads it.

use super::station::{Station, is_used};
use neighbours::{Address, Asker, NeighbourState as Known, Origin};
use nf_abi::{DeviceEntry, MAX_DEVICE_ENTRIES, NeighbourState};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

/// What a function of an asker reads whose interfaces are at these stations, or at none, and which is told
/// what others on lists have learned. What there is no room for a guard does not allow.
pub(super) fn entries<'a>(
    asker: Asker,
    stations: impl Iterator<Item = Option<&'a Station>>,
    on_lists: impl Iterator<Item = (u32, &'a Station)>,
) -> Arc<[u8]> {
    let all = (0..).zip(stations).flat_map(|(interface, station)| of_interface(asker, interface, station));
    // Two devices of a list may have the same address.
    let learned: BTreeSet<(u32, IpAddr)> =
        on_lists.flat_map(|(list, station)| learned(station).map(move |address| (list, address))).collect();
    let members = learned.into_iter().map(|(list, address)| DeviceEntry::Member { list, address });
    all.chain(members).take(MAX_DEVICE_ENTRIES).flat_map(DeviceEntry::encode).collect()
}

/// The addresses that a station has from a DHCP server, and those that are formed in networks in which the
/// operator lets them be, by itself or by what opens it.
fn learned(station: &Station) -> impl Iterator<Item = IpAddr> {
    let is_member = |own: &&Address| match own.origin {
        Origin::Dhcp => true,
        Origin::Router | Origin::Opener => station.may_be_formed(own.prefix.address),
        Origin::Static | Origin::LinkLocal => false,
    };
    let used = station.device.addresses().filter(|own| is_used(own.state));
    used.filter(is_member).map(|own| own.prefix.address)
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
