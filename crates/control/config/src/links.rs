//! Stations of several devices on one link.

use crate::read::Reader;
use crate::station::identities;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use wiring::{Edge, InterfaceStation, PortPolicy};
use yaml_document::{Location, Node};

/// Which link a device, or an interface that opens one, is on at a port: that of a VLAN, or of a tunnel.
fn link(policy: &PortPolicy, is_device: bool) -> Option<String> {
    let station = policy.station?;
    let inside = station.inside.filter(|_| !(station.outside && is_device));
    Some(inside.map_or_else(|| format!("{:?}", station.tag), |ends| format!("{ends:?}")))
}

impl Reader<'_> {
    /// Warns of addresses that stations at two devices of a tenant have on one link: each would answer for
    /// them, and neither hears the other.
    pub(crate) fn stations_on_one_link(&mut self, root_place: &Location<'_>, root: &Node) {
        let Some((_, node)) = root.entry("devices").filter(|_| self.whole) else { return };
        let place = root_place.key("devices", node.position);
        let devices = &self.wiring.devices;
        let own = devices.iter().filter_map(|(name, device)| {
            let ports: Vec<_> = device.over.iter().collect();
            Some((name, format!("`{name}`"), device.station.as_ref()?, ports, true))
        });
        let openers = self.wiring.edges.iter().filter_map(Edge::opening).filter_map(|(end, opening)| {
            let InterfaceStation { settings, .. } = self.wiring.station_of(end)?;
            let ports: Vec<_> = devices.get(&opening.device)?.ports_opened(opening).collect();
            Some((&opening.device, format!("`{end}`"), settings, ports, false))
        });
        let tenant = |name: &str| devices.get(name).map(|device| &device.tenant);
        // What is known of a port's link: the device that it is at, and its name.
        let mut known: BTreeMap<(&str, String, String), (&str, String)> = BTreeMap::new();
        let (mut told, mut warnings) = (BTreeSet::new(), Vec::new());
        for (device, name, settings, ports, is_device) in own.chain(openers) {
            for (port, policy) in ports {
                let Some(link) = link(policy, is_device) else { continue };
                for what in identities(settings) {
                    let (at, other) = match known.entry((port, link.clone(), what.clone())) {
                        Entry::Vacant(place) => {
                            place.insert((device, name.clone()));
                            continue;
                        }
                        Entry::Occupied(place) => place.get().clone(),
                    };
                    // Those at one device are refused elsewhere, and another tenant's are nothing to this
                    // one.
                    if at == device
                        || tenant(at) != tenant(device)
                        || !told.insert((name.clone(), other.clone()))
                    {
                        continue;
                    }
                    let position = node.get(device).map_or(node.position, |device| device.position);
                    warnings.push(place.key(device, position).fault(format!(
                        "{name} has {what} on the link of `{port}`, and so has {other}: both answer for it"
                    )));
                }
            }
        }
        self.warnings.extend(warnings);
    }
}
