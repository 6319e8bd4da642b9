//! What a function is told of the stations behind its interfaces.

use super::StationName;
use super::entries::entries;
use super::station::Station;
use engine::FleetInstance;
use neighbours::Asker;
use port_native::DeviceTable;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use wiring::{Device, Edge, Endpoint, Instance, InterfaceKind, Learner, Wiring};

/// What is told.
#[derive(Clone, Debug)]
pub(super) enum Reader {
    /// A function of the sandbox.
    Function(FleetInstance),
    /// The processes at a port, which is one interface of theirs.
    Port(Arc<DeviceTable>),
}

impl PartialEq for Reader {
    fn eq(&self, other: &Reader) -> bool {
        match (self, other) {
            (Reader::Function(own), Reader::Function(other)) => own == other,
            (Reader::Port(own), Reader::Port(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }
}

/// A function, or a port of one that is a process, that opens a device with addresses, or did.
pub(super) struct Feed {
    pub(super) reader: Reader,
    /// Whose it is.
    pub(super) tenant: String,
    /// What each of its interfaces is on the links of its device, where it is something.
    pub(super) interfaces: Vec<Option<StationName>>,
    /// Of a guard: what is on each list that its rules name.
    pub(super) members: Vec<(u32, StationName)>,
    told: Arc<[u8]>,
    /// What was told came of these, each with its list, and of stations that had changed so often.
    of: Vec<(u32, Option<(StationName, u64)>)>,
}

impl Feed {
    pub(super) fn new(reader: Reader, tenant: &str) -> Feed {
        Feed {
            reader,
            tenant: tenant.to_owned(),
            interfaces: Vec::new(),
            members: Vec::new(),
            told: Arc::default(),
            of: Vec::new(),
        }
    }

    /// What it is to be told, if that is not what it was told last. Its tenant asks as this one.
    pub(super) fn changed(
        &mut self,
        asker: Asker,
        stations: &BTreeMap<StationName, Station>,
    ) -> Option<Arc<[u8]>> {
        let behind = |name: &Option<StationName>| name.as_ref().and_then(|name| stations.get_key_value(name));
        let versions = self
            .interfaces
            .iter()
            .map(|name| (0, behind(name).map(|(name, station)| (name.clone(), station.version(asker)))));
        let on_lists =
            self.members.iter().filter_map(|(list, name)| Some((*list, stations.get_key_value(name)?)));
        let learned = on_lists
            .clone()
            .map(|(list, (name, station))| (list, Some((name.clone(), station.addresses_version()))));
        let of: Vec<_> = versions.chain(learned).collect();
        if self.of == of {
            return None;
        }
        let entries = entries(
            asker,
            self.interfaces.iter().map(|name| behind(name).map(|(_, station)| station)),
            on_lists.map(|(list, (_, station))| (list, station)),
        );
        self.of = of;
        if *entries == *self.told {
            return None;
        }
        self.told = entries;
        Some(self.told.clone())
    }
}

/// What is on the lists that a guard is told of.
pub(super) fn members(instance: &Instance) -> Vec<(u32, StationName)> {
    let on = instance.members.iter().flat_map(|(list, on)| on.iter().map(|learner| (*list, learner)));
    on.map(|(list, Learner { device, interface })| {
        (list, StationName { device: device.clone(), interface: interface.clone() })
    })
    .collect()
}

/// Functions whose interfaces have addresses, open devices that have, or are wired to the guards of such:
/// what each of them is on its links. A process's interface is a port, which stands here by its own name.
pub(super) fn openers(wiring: &Wiring) -> HashMap<String, Vec<Option<StationName>>> {
    let mut found: HashMap<String, Vec<Option<StationName>>> = HashMap::new();
    for (end, device) in wiring.edges.iter().filter_map(Edge::device_behind) {
        let (reader, number, interfaces) = match end {
            Endpoint::Interface(function, number) => {
                let Some(instance) = wiring.instances.get(function) else { continue };
                (function, *number, instance.interfaces)
            }
            Endpoint::Port(port) if is_read(wiring, port) => (port, 0, 1),
            _ => continue,
        };
        // A guard is told what its opener is.
        let opener = wiring.behind_guard(end);
        // What answers for itself has nothing of the device's.
        if opener.is_some_and(|opener| wiring.answers_itself(opener)) {
            continue;
        }
        let own = opener.and_then(|opener| wiring.station_of(opener));
        let interface = own.map(|station| (station.function.to_owned(), station.interface));
        let has_station = wiring.devices.get(device).is_some_and(Device::has_station_inside);
        if interface.is_none() && !has_station {
            continue;
        }
        let name = StationName { device: device.to_owned(), interface };
        let all = found.entry(reader.clone()).or_insert_with(|| vec![None; usize::from(interfaces)]);
        if let Some(place) = all.get_mut(usize::from(number)) {
            *place = Some(name);
        }
    }
    found
}

/// Whether there are processes at a port that can be told of a device.
pub(super) fn is_read(wiring: &Wiring, port: &str) -> bool {
    wiring.ports.get(port).is_some_and(|port| port.driver == InterfaceKind::Library.driver())
}
