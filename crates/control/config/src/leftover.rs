//! What only shows when everything has been read: observers that serve as well or run elsewhere, and parts
//! that nothing is wired to.

use crate::read::Reader;
use std::collections::HashSet;
use wiring::{Endpoint, container_port};
use yaml_document::{Location, Node, spelling};

impl Reader<'_> {
    /// Observers that are observed, are a service or run elsewhere; parts that get no packets.
    pub(crate) fn leftovers(&mut self, place: &Location<'_>, root: &Node) {
        self.observers_elsewhere(place, root);
        self.distant_observers(place);
        self.bypasses(place, root);
        if self.whole {
            self.unwired(place, root);
            self.lonely_switches(place, root);
        }
    }

    fn observers_elsewhere(&mut self, place: &Location<'_>, root: &Node) {
        let Some((_, node)) = root.entry("observers") else { return };
        let section = place.key("observers", node.position);
        for (key, _) in node.as_map().unwrap_or_default() {
            let place = section.key(&key.text, key.position);
            let observer = self.observer_of(&key.text);
            let is_port = self.wiring.ports.contains_key(&observer);
            let wires = match is_port {
                true => "either, and wires by a container's other interfaces",
                false => "either, and wires by the interfaces from the third on, by which it sends",
            };
            if is_port && let Some(device) = self.device_over(&observer).map(str::to_owned) {
                place.report(&mut self.faults, || {
                    format!(
                        "`{}` is an observer and the device `{device}` is over it; allowed: either",
                        key.text
                    )
                });
            }
            if self.wiring.ports.get(&observer).is_some_and(|port| port.bypass.is_some()) {
                place.report(&mut self.faults, || {
                    let allowed = "allowed: `fail: closed`, because nothing passes an observer";
                    format!("`{}` is an observer and has `fail: open`; {allowed}", key.text)
                });
            }
            let elsewhere = [
                (&self.inline, "is wired", wires),
                (&self.observed, "is observed", "either"),
                (&self.serving, "is a service", "either"),
            ];
            for (map, what, allowed) in elsewhere {
                if let Some(at) = map.get(&observer) {
                    place.report(&mut self.faults, || {
                        format!(
                            "`{}` is an observer and {what}{}; allowed: {allowed}",
                            key.text,
                            at.in_line(" ")
                        )
                    });
                }
            }
        }
    }

    fn unwired(&mut self, root_place: &Location<'_>, root: &Node) {
        let observers: HashSet<&str> = match root.get("observers").and_then(Node::as_map) {
            Some(entries) => entries.iter().map(|(key, _)| key.text.as_str()).collect(),
            None => HashSet::new(),
        };
        let is_observer = |name: &str| observers.contains(name);
        for section in ["ports", "functions"] {
            let Some((_, node)) = root.entry(section) else { continue };
            let place = root_place.key(section, node.position);
            for (key, _) in node.as_map().unwrap_or_default() {
                let name = key.text.as_str();
                let place = place.key(name, key.position);
                if section == "ports" {
                    let port = Endpoint::Port(name.to_owned());
                    if self.wiring.ports.contains_key(name)
                        && !is_observer(name)
                        && !self.wired.contains_key(&port)
                        && self.device_over(name).is_none()
                        && !self.serving.contains_key(name)
                    {
                        place.report(&mut self.warnings, || {
                            format!(
                                "nothing is wired to the port `{name}`; its packets are dropped (no-route)"
                            )
                        });
                    }
                    continue;
                }
                if let Some(container) = self.wiring.containers.get(name) {
                    let mut ports = container.interfaces.iter().map(|it| container_port(name, &it.name));
                    let is_bare = |port: String| {
                        !self.serving.contains_key(&port) && !self.wired.contains_key(&Endpoint::Port(port))
                    };
                    if ports.all(is_bare) && !is_observer(name) {
                        place.report(&mut self.warnings, || {
                            let kind = container.kind.as_str();
                            format!("nothing is wired to the {kind} `{name}`; it gets no packets")
                        });
                    }
                    continue;
                }
                let Some(function) = self.names.function(name).filter(|_| !is_observer(name)) else {
                    continue;
                };
                let wired =
                    |n: &usize| self.wired.contains_key(&Endpoint::Interface(name.to_owned(), *n as u16));
                let count = function.interfaces.len();
                let bare: Vec<usize> = (0..count).filter(|n| !wired(n)).collect();
                if bare.len() == count && !self.serving.contains_key(name) {
                    place.report(&mut self.warnings, || {
                        format!("nothing is wired to the function `{name}`; it gets no packets")
                    });
                    continue;
                }
                let named = bare.iter().map(|n| &function.interfaces[*n]);
                let missing: Vec<&str> =
                    named.filter(|name| !function.optional.contains(name)).map(String::as_str).collect();
                if bare.len() < count && !missing.is_empty() {
                    let names = spelling::listed(missing);
                    place.report(&mut self.warnings, || {
                        format!(
                            "nothing is wired to these interfaces of `{name}`: {names}; packets sent there are dropped \
                             (no-route)"
                        )
                    });
                }
            }
        }
    }
}
