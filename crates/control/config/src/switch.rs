//! Reading switches.

use crate::format::switch_schema;
use crate::read::Reader;
use crate::reference::What;
use schema::Value;
use std::collections::HashMap;
use telemetry::clock::Nanos;
use wiring::{Edge, Endpoint, Switch};
use yaml_document::{Key, Location, Node};

impl Reader<'_> {
    /// Reads one switch; nothing need be said of it but its name.
    pub(crate) fn switch(&mut self, place: &Location<'_>, key: &Key, node: &Node) {
        if self.is_taken(place, key) {
            return;
        }
        self.names.add(&key.text, key.position, What::Switch);
        let given = Some(node).filter(|node| !node.is_null());
        let Some(values) = switch_schema().check_at(place, given, &[], &mut self.faults) else { return };
        let age = values.get("age").and_then(Value::as_duration).map(Nanos);
        let entries = values.get("entries").and_then(Value::as_integer).and_then(|n| u32::try_from(n).ok());
        let (Some(age), Some(entries)) = (age, entries) else { return };
        if !entries.is_power_of_two() {
            let position = node.get("entries").map_or(place.position(), |node| node.position);
            place.key("entries", position).report(&mut self.faults, || {
                let near = entries.next_power_of_two();
                format!("found `{entries}`; allowed: a power of two from 8 to 65536; did you mean `{near}`?")
            });
            return;
        }
        self.wiring.switches.insert(key.text.clone(), Switch { age, entries });
    }

    /// Warns of switches with fewer than two ends.
    pub(crate) fn lonely_switches(&mut self, root_place: &Location<'_>, root: &Node) {
        let Some((_, node)) = root.entry("switches") else { return };
        let section = root_place.key("switches", node.position);
        let mut ends: HashMap<&str, usize> = HashMap::new();
        for end in self.wiring.edges.iter().flat_map(Edge::ends) {
            if let Endpoint::Switch(name) = end {
                *ends.entry(name).or_default() += 1;
            }
        }
        for (key, _) in node.as_map().unwrap_or_default() {
            let name = key.text.as_str();
            let count = ends.get(name).copied().unwrap_or_default();
            if count < 2 && self.wiring.switches.contains_key(name) {
                section.key(name, key.position).report(&mut self.warnings, || match count {
                    0 => format!("nothing is wired to the switch `{name}`"),
                    _ => format!(
                        "one end alone is wired to the switch `{name}`: there is no other to forward to"
                    ),
                });
            }
        }
    }
}
