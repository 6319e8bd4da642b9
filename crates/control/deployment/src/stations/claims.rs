//! Addresses that openers formed (RFC 4862, RFC 8981), as their guards tell of them.
//!
//! 1. A guard tells of an address that its opener probes for, announces or sends from, by asking for it
//!    behind the interface at which the opener is: a few in a second, whatever the opener sends.
//! 2. The station of the device has it from then on if the operator lets addresses be formed in its network
//!    (`slaac`), a router advertises that for it, there is room ([`neighbours::Device::claim`]), and no other
//!    station of this host has it that is in the same zone or at the same port.
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

/// The opener of a station claims an address.
pub(super) fn claim(
    stations: &mut BTreeMap<StationName, Station>,
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
    };
    // What it may not have, its guard goes on to drop.
    let _ = own.device.claim(six, is_taken, now);
    stations.insert(name, own);
}

/// Takes back claimed addresses that other stations have in another way. Whether there were any.
pub(super) fn compare(stations: &mut BTreeMap<StationName, Station>) -> bool {
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
        let (Some(own), Some(others)) = (stations.get(name), others.get(address)) else { return false };
        others
            .iter()
            .filter_map(|other| stations.get(*other))
            .any(|other| other.is_beside(own.zone, &own.ports()))
    };
    let lost: Vec<_> = claimed.into_iter().filter(is_lost).collect();
    for (name, address) in &lost {
        if let Some(station) = stations.get_mut(name) {
            station.device.disown(*address);
        }
    }
    !lost.is_empty()
}
