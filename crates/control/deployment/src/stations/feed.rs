//! What a function is told of the stations behind its interfaces.

use super::entries::entries;
use super::station::Station;
use engine::FleetInstance;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use wiring::{Device, Edge, Endpoint, Wiring};

/// A function that opens a device with addresses, or did.
pub(super) struct Feed {
    pub(super) id: FleetInstance,
    /// The device behind each of its interfaces, if it has addresses.
    pub(super) interfaces: Vec<Option<String>>,
    told: Arc<[u8]>,
    /// What was told came of these, and of devices that had changed so often.
    of: Vec<Option<(String, u64)>>,
}

impl Feed {
    pub(super) fn new(id: FleetInstance) -> Feed {
        Feed { id, interfaces: Vec::new(), told: Arc::default(), of: Vec::new() }
    }

    /// What it is to be told, if that is not what it was told last.
    pub(super) fn changed(&mut self, stations: &BTreeMap<String, Station>) -> Option<Arc<[u8]>> {
        let behind = |name: &Option<String>| name.as_ref().and_then(|name| stations.get_key_value(name));
        let versions = self
            .interfaces
            .iter()
            .map(|name| behind(name).map(|(name, station)| (name.clone(), station.changes)));
        let of: Vec<_> = versions.collect();
        if self.of == of {
            return None;
        }
        let entries = entries(self.interfaces.iter().map(|name| behind(name).map(|(_, station)| station)));
        self.of = of;
        if *entries == *self.told {
            return None;
        }
        self.told = entries;
        Some(self.told.clone())
    }
}

/// Functions that open devices with addresses, or are wired to the guards of such, and the devices behind their
/// interfaces.
pub(super) fn openers(wiring: &Wiring) -> HashMap<String, Vec<Option<String>>> {
    let mut found: HashMap<String, Vec<Option<String>>> = HashMap::new();
    for (end, device) in wiring.edges.iter().filter_map(Edge::device_behind) {
        let Endpoint::Interface(function, interface) = end else { continue };
        let has_station = wiring.devices.get(device).is_some_and(Device::has_station_inside);
        let Some(instance) = wiring.instances.get(function).filter(|_| has_station) else {
            continue;
        };
        let all = found.entry(function.clone());
        let all = all.or_insert_with(|| vec![None; usize::from(instance.interfaces)]);
        if let Some(place) = all.get_mut(usize::from(*interface)) {
            *place = Some(device.to_owned());
        }
    }
    found
}
