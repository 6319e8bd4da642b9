//! Addresses that openers formed (RFC 4862, RFC 8981), as their guards tell of them.
//!
//! 1. A guard tells of an address that its opener probes for, announces or sends from, by asking for it
//!    behind the interface at which the opener is: a few in a second, whatever the opener sends.
//! 2. The station of the device has it from then on if the operator lets addresses be formed in its network
//!    (`slaac`), a router advertises that for it, there is room ([`neighbours::Device::claim`]), and no other
//!    station of this host has it that is in the same zone or at the same port, nor a guest that answers for
//!    itself ([`OfGuest`]): it is behind a device of this host, where it hears no probe.
//! 3. The station probes for it on the link; without an answer it is the device's, which its guard is told of
//!    and guards of rules for its groups.
//! 4. A station that comes to have the address in another way, by its configuration or its link-layer
//!    address, has the better right to it: the one that was claimed goes.
//!
//! Limits: stations of other hosts are found by the probe alone.

use super::StationName;
use super::station::Station;
use neighbours::Origin;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use telemetry::clock::Nanos;
use wiring::Wiring;

/// What an interface of a guest has that answers for itself: no station of the platform's has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OfGuest {
    pub(super) addresses: Vec<IpAddr>,
    /// Those of the device that it opens.
    pub(super) zone: Option<u16>,
    pub(super) ports: Vec<String>,
}

impl OfGuest {
    /// Whether an address of a station, in this zone and at these ports, would be taken for its own.
    pub(super) fn is_beside(&self, zone: Option<u16>, ports: &[String]) -> bool {
        zone.is_some() && zone == self.zone || self.ports.iter().any(|port| ports.contains(port))
    }
}

/// All of a wiring.
pub(super) fn of_guests(wiring: &Wiring) -> Vec<OfGuest> {
    let of = wiring.openers().filter_map(|(end, opening)| {
        let station = wiring.station_of(end).filter(|station| station.answers_itself)?;
        let device = wiring.devices.get(&opening.device)?;
        let mut ports = device.ports_on_link(&opening.device);
        ports.retain(|port| opening.port.as_ref().is_none_or(|only| only == port));
        let addresses = station.settings.addresses.iter().map(|prefix| prefix.address).collect();
        Some(OfGuest { addresses, zone: device.zone, ports })
    });
    of.collect()
}

/// The opener of a station claims an address.
pub(super) fn claim(
    stations: &mut BTreeMap<StationName, Station>,
    guests: &[OfGuest],
    name: &StationName,
    address: IpAddr,
    now: Nanos,
) {
    let IpAddr::V6(six) = address else { return };
    let Some((name, mut own)) = stations.remove_entry(name) else { return };
    let ports = own.ports();
    let zone = own.zone;
    let is_taken = || {
        let has_it = |other: &&Station| other.device.addresses().any(|its| its.prefix.address == address);
        stations.values().filter(has_it).any(|other| other.is_beside(zone, &ports))
            || guests.iter().any(|guest| guest.addresses.contains(&address) && guest.is_beside(zone, &ports))
    };
    // What it may not have, its guard goes on to drop.
    let _ = own.device.claim(six, is_taken, now);
    stations.insert(name, own);
}

/// Takes back claimed addresses that other stations have in another way, or guests. Whether there were any.
pub(super) fn compare(stations: &mut BTreeMap<StationName, Station>, guests: &[OfGuest]) -> bool {
    let is_claimed = |own: &&neighbours::Address| own.origin == Origin::Opener;
    let claimed: Vec<(StationName, IpAddr)> = stations
        .iter()
        .flat_map(|(name, station)| {
            let own = station.device.addresses().filter(is_claimed);
            own.map(|own| (name.clone(), own.prefix.address))
        })
        .collect();
    if claimed.is_empty() {
        return false;
    }
    let mut others: HashMap<IpAddr, Vec<&StationName>> = HashMap::new();
    for (name, station) in stations.iter() {
        for own in station.device.addresses().filter(|own| !is_claimed(own)) {
            others.entry(own.prefix.address).or_default().push(name);
        }
    }
    let is_lost = |(name, address): &(StationName, IpAddr)| {
        let Some(own) = stations.get(name) else { return false };
        let (zone, ports) = (own.zone, own.ports());
        let mut others = others.get(address).into_iter().flatten().filter_map(|other| stations.get(*other));
        let mut guests = guests.iter().filter(|guest| guest.addresses.contains(address));
        others.any(|other| other.is_beside(zone, &ports)) || guests.any(|guest| guest.is_beside(zone, &ports))
    };
    let lost: Vec<_> = claimed.into_iter().filter(is_lost).collect();
    for (name, address) in &lost {
        if let Some(station) = stations.get_mut(name) {
            station.device.disown(*address);
        }
    }
    !lost.is_empty()
}
