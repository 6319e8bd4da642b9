//! Reading chains and wires.

use crate::format::attachment_schema;
use crate::read::Reader;
use crate::reference::Target;
use schema::Value;
use wiring::{Edge, Endpoint};
use yaml_document::{Key, Location, Node, Position};

/// Keys of an attachment that are for devices alone.
const ATTACHMENT_KEYS: [&str; 7] = ["order", "addresses", "dhcp", "mac", "mtu", "gateways", "slaac"];

/// What stands in one place of a chain: how packets get in from before, and out to what follows.
struct Link {
    position: Position,
    enter: Option<Endpoint>,
    leave: Option<Endpoint>,
}

impl Reader<'_> {
    /// Wires what follows one another in a chain.
    pub(crate) fn chain(&mut self, place: &Location<'_>, _: &Key, node: &Node) {
        let Some(items) = node.as_list().filter(|items| items.len() >= 2) else {
            place.report(&mut self.faults, || {
                let found = match node.as_list() {
                    Some([]) => "found an empty list".to_owned(),
                    Some(_) => "found a list of one item".to_owned(),
                    None => node.found(),
                };
                format!("{found}; allowed: a list of two or more ports, switches, devices and functions, such as `[lan, firewall, wan]`")
            });
            return;
        };
        let links: Vec<Link> = items
            .iter()
            .enumerate()
            .map(|(n, item)| {
                let place = place.item(n, item.position);
                let ends = self.link(&place, item, n == 0, n + 1 == items.len());
                let (enter, leave) = ends.unwrap_or_default();
                Link { position: item.position, enter, leave }
            })
            .collect();
        for (n, pair) in links.windows(2).enumerate() {
            let [from, to] = pair else { continue };
            if let (Some(leave), Some(enter)) = (&from.leave, &to.enter) {
                let ends = [(place.item(n, from.position), leave), (place.item(n + 1, to.position), enter)];
                self.wire(ends);
            }
        }
    }

    /// Both endpoints of one place of a chain; `None` after a fault.
    fn link(
        &mut self,
        place: &Location<'_>,
        item: &Node,
        first: bool,
        last: bool,
    ) -> Option<(Option<Endpoint>, Option<Endpoint>)> {
        let text = self.reference(place, item)?;
        let target = self.names.resolve(place, text, &mut self.faults)?;
        let (name, interfaces, interface) = match target {
            Target::Port if first || last => {
                let port = Endpoint::Port(text.to_owned());
                return Some((Some(port.clone()), Some(port)));
            }
            Target::Switch if first || last => {
                let switch = Endpoint::Switch(text.to_owned());
                return Some((Some(switch.clone()), Some(switch)));
            }
            Target::Device(opening) if first || last => {
                let device = Endpoint::Device(opening);
                return Some((Some(device.clone()), Some(device)));
            }
            Target::Port | Target::Switch | Target::Device(_) => {
                let kind = match &target {
                    Target::Port => "port",
                    Target::Switch => "switch",
                    _ => "device",
                };
                place.report(&mut self.faults, || {
                    format!("the {kind} `{text}` stands inside a chain; allowed: ports, switches and devices at its two ends")
                });
                return None;
            }
            Target::Function { name, function, interface } => (name, &function.interfaces, interface),
            Target::Container { name, container, interface } => (name, &container.interfaces, interface),
        };
        let at = |number| target.endpoint(number);
        let last_interface = u16::from(interfaces.len() > 1);
        match interface {
            Some(number) if first || last => Some((at(number), at(number))),
            Some(_) => {
                place.report(&mut self.faults, || {
                    format!(
                        "found `{text}` inside a chain; allowed: `{name}`, entered by interface 0 and left by interface \
                         1 (say other interfaces under `wires`)"
                    )
                });
                None
            }
            None if last_interface == 0 && !first && !last => {
                place.report(&mut self.faults, || {
                    format!("`{name}` stands inside a chain but has one interface; allowed: two or more")
                });
                None
            }
            None => Some((at(0), at(last_interface))),
        }
    }

    /// The text of a reference to a port, switch or function.
    pub(crate) fn reference<'n>(&mut self, place: &Location<'_>, node: &'n Node) -> Option<&'n str> {
        let text = node.as_text();
        if text.is_none() {
            place.report(&mut self.faults, || {
                format!(
                    "{}; allowed: the name of a port, switch or device, or a function's with an interface, such as `fw:0`",
                    node.found()
                )
            });
        }
        text
    }

    /// Adds an edge, unless an end of it has one already.
    fn wire(&mut self, ends: [(Location<'_>, &Endpoint); 2]) {
        let [(_, a), (place, b)] = &ends;
        let (a, b) = (*a, *b);
        if let (Endpoint::Switch(first), Endpoint::Switch(second)) = (a, b) {
            place.report(&mut self.faults, || {
                format!(
                    "a wire from the switch `{first}` to the switch `{second}`; allowed: from a switch to a port or a \
                     function, because what a switch floods goes round for ever when there are two ways between switches"
                )
            });
            return;
        }
        for (device, end) in [(a, b), (b, a)] {
            if matches!(device, Endpoint::Device(_)) && !end.is_opener() {
                place.report(&mut self.faults, || {
                    format!("a wire from the device `{device}` to `{end}`; allowed: from a device to an interface of a function")
                });
                return;
            }
        }
        let mut free = true;
        for (place, end) in &ends {
            free &= !self.is_under_device(place, end);
        }
        for (place, end) in &ends {
            if let Some((position, peer)) = self.wired.get(*end) {
                free = false;
                place.report(&mut self.faults, || {
                    format!("`{end}` has a wire already: to `{peer}`{}", position.in_line(", "))
                });
            }
        }
        let [(place, _), _] = &ends;
        if a == b && free {
            place.report(&mut self.faults, || format!("`{a}` is wired to itself"));
            free = false;
        }
        if free {
            for (end, peer) in [(a, b), (b, a)] {
                if end.takes_many() {
                    continue;
                }
                self.wired.insert(end.clone(), (place.position(), peer.clone()));
                if end.is_in_line() {
                    self.inline.entry(end.name().to_owned()).or_insert(place.position());
                }
            }
            self.wiring.edges.insert(Edge::new(a.clone(), b.clone()));
        }
    }

    /// Reads what functions say of their own wires, under `attach`.
    pub(crate) fn attachments(&mut self, root_place: &Location<'_>, root: &Node) {
        let Some((_, functions)) = root.entry("functions") else { return };
        let section = root_place.key("functions", functions.position);
        for (key, node) in functions.as_map().unwrap_or_default() {
            let Some((_, attach)) = node.entry("attach") else { continue };
            let place = section.key(&key.text, node.position);
            let place = place.key("attach", attach.position);
            let Some(entries) = attach.as_map() else {
                place.report(&mut self.faults, || {
                    format!(
                        "{}; allowed: a map from interfaces to what they are wired to, such as `{{inside: lan, outside: hall}}`",
                        attach.found()
                    )
                });
                continue;
            };
            for (interface, other) in entries {
                let place = place.key(&interface.text, other.position);
                let own_place = place.at(interface.position);
                let own = (key.text.as_str(), interface.text.as_str());
                let own = self.names.own_endpoint(&own_place, own, &mut self.faults);
                let given = other;
                let Some((other, order, values)) = self.attachment(&place, given) else { continue };
                let mut other = self.names.endpoint(&place, other, &mut self.faults);
                if let Some(Endpoint::Device(opening)) = &mut other {
                    opening.order = order;
                } else if other.is_some() {
                    for (key, value) in ATTACHMENT_KEYS.map(|key| (key, given.get(key))) {
                        let Some(value) = value else { continue };
                        place.key(key, value.position).report(&mut self.faults, || {
                            format!("`{key}` says nothing here; allowed: with the name of a device")
                        });
                    }
                }
                if let (Some(own), Some(other)) = (own, other) {
                    if let (Some(values), Endpoint::Device(opening)) = (&values, &other) {
                        self.interface_station(&place, (&own, opening), given, values);
                    }
                    self.wire([(own_place, &own), (place, &other)]);
                }
            }
        }
    }

    /// What an interface is wired to, its order among the openers of a device, and what else is said.
    fn attachment<'n>(
        &mut self,
        place: &Location<'_>,
        node: &'n Node,
    ) -> Option<(&'n str, u32, Option<Value>)> {
        if node.as_map().is_none() {
            return Some((self.reference(place, node)?, 0, None));
        }
        let values = attachment_schema().check_at(place, Some(node), &[], &mut self.faults)?;
        let order = values.get("order").and_then(Value::as_integer);
        let order = order.and_then(|order| u32::try_from(order).ok())?;
        Some((node.get("to")?.as_text()?, order, Some(values)))
    }

    /// Reads the section `wires`.
    pub(crate) fn wires(&mut self, root_place: &Location<'_>, root: &Node) {
        let Some((_, node)) = root.entry("wires") else { return };
        let place = root_place.key("wires", node.position);
        if node.is_null() {
            return;
        }
        let Some(wires) = node.as_list() else {
            place.report(&mut self.faults, || {
                format!("{}; allowed: a list of pairs, such as `[[lan, fw:0]]`", node.found())
            });
            return;
        };
        for (n, wire) in wires.iter().enumerate() {
            let place = place.item(n, wire.position);
            let Some([a, b]) = wire.as_list() else {
                place.report(&mut self.faults, || {
                    let found = match wire.as_list() {
                        Some(ends) => format!("found a list of {}", ends.len()),
                        None => wire.found(),
                    };
                    format!("{found}; allowed: a list of two ends, such as `[lan, fw:0]`")
                });
                continue;
            };
            let places = [place.item(0, a.position), place.item(1, b.position)];
            let ends = [a, b].map(|node| node.as_text());
            let [a, b] = [0, 1].map(|n| {
                let node = if n == 0 { a } else { b };
                let text = ends[n].or_else(|| self.reference(&places[n], node))?;
                self.names.endpoint(&places[n], text, &mut self.faults)
            });
            if let (Some(a), Some(b)) = (a, b) {
                let [first, second] = places;
                self.wire([(first, &a), (second, &b)]);
            }
        }
    }
}
