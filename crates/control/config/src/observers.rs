//! Reading observers.

use crate::format::observer_schema;
use crate::read::Reader;
use crate::reference::{Target, What};
use capture::Filter;
use manifest::Access;
use schema::Value;
use std::sync::Arc;
use wiring::{Edge, Endpoint, Observation, Shown, Watched, container_port};
use yaml_document::{Key, Location, Node, spelling};

/// Samples are one of so many packets at most.
const LEAST_SAMPLE: u32 = 1_000_000_000;

impl Reader<'_> {
    /// Reads one observer.
    pub(crate) fn observer(&mut self, place: &Location<'_>, key: &Key, node: &Node) {
        let at_key = place.at(key.position);
        let (observer, mut tenant, mut writes) = (self.observer_of(&key.text), None, false);
        match self.names.get(&key.text).map(|named| &named.what) {
            Some(What::Function(function)) => {
                (tenant, writes) = (function.tenant.clone(), function.access == Access::Write);
            }
            Some(What::Container(container)) if container.interfaces.is_empty() => {
                at_key.report(&mut self.faults, || {
                    format!("`{}` is an observer without interfaces; allowed: one or more", key.text)
                });
            }
            Some(What::Container(_)) => {}
            Some(What::Broken | What::Port) => {}
            Some(what @ (What::Switch | What::Device(_))) => at_key.report(&mut self.faults, || {
                format!("`{}` is a {}; allowed: functions and ports", key.text, what.kind())
            }),
            None => drop(self.names.resolve(&at_key, &key.text, &mut self.faults)),
        }
        tenant = tenant.or_else(|| Some(self.wiring.ports.get(&observer)?.tenant.clone()));
        if writes {
            at_key.report(&mut self.faults, || {
                format!(
                    "`{}` is an observer, but its image declares `access: write`; allowed: an image with `access: read`",
                    key.text
                )
            });
        }
        let Some(values) = observer_schema().check_at(place, Some(node), &[], &mut self.faults) else {
            return;
        };
        let text = |key: &str| values.get(key).and_then(Value::as_text);
        let filter = match text("filter") {
            Some(text) => self.shown(place, node, text),
            None => Some(None),
        };
        let one_of = match text("sample") {
            Some(text) => self.sample(place, node, text),
            None => Some(1),
        };
        let (Some(filter), Some(one_of), Some(list)) = (filter, one_of, node.get("at")) else { return };
        let place = place.key("at", list.position);
        for (n, item) in list.as_list().unwrap_or_default().iter().enumerate() {
            let place = place.item(n, item.position);
            let Some(text) = item.as_text() else { continue };
            let Some(at) = self.watched(&place, text) else { continue };
            if at.names().any(|name| name == observer) {
                place.report(&mut self.faults, || {
                    format!("`{}` is to observe itself; allowed: what others send and get", key.text)
                });
                continue;
            }
            if let Some(tenant) = &tenant
                && let Some(foreign) = self.foreign(&observer, tenant, &at)
            {
                place.report(&mut self.faults, || {
                    format!(
                        "{foreign} and the observer is `{tenant}`'s; allowed: what is of the same tenant, and devices that \
                         are open to the observer"
                    )
                });
                continue;
            }
            if let Some(beside) = at.beside() {
                self.observed.entry(beside.to_owned()).or_insert(item.position);
            }
            if let Watched::Port(port) = &at {
                self.observed.entry(port.clone()).or_insert(item.position);
            }
            let observation = Observation { observer: observer.clone(), at, filter: filter.clone(), one_of };
            self.observations.entry(observation.clone()).or_insert((n, item.position));
            self.wiring.observations.insert(observation);
        }
    }

    /// What an observer of a name is in the wiring: a function or a port, of a container the first one.
    pub(crate) fn observer_of(&self, name: &str) -> String {
        match self.names.get(name).map(|named| &named.what) {
            Some(What::Container(container)) => container
                .interfaces
                .first()
                .map_or_else(|| name.to_owned(), |first| container_port(name, first)),
            _ => name.to_owned(),
        }
    }

    /// Where an observer stands, as one item of its list says.
    fn watched(&mut self, place: &Location<'_>, text: &str) -> Option<Watched> {
        if let Some((one, other)) = text.split_once('~') {
            return self.watched_wire(place, one, other);
        }
        match self.names.resolve(place, text, &mut self.faults)? {
            Target::Function { name, interface, .. } => Some(Watched::Instance(name.to_owned(), interface)),
            Target::Port => Some(Watched::Port(text.to_owned())),
            Target::Container { .. } => match self.names.endpoint(place, text, &mut self.faults)? {
                Endpoint::Port(port) => Some(Watched::Port(port)),
                _ => None,
            },
            Target::Device(opening) => Some(Watched::Device(opening.device, opening.port)),
            Target::Switch => {
                let wires = self.wiring.plugged_into(text).map(|end| format!("{end}~{text}"));
                let wires: Vec<String> = wires.take(4).collect();
                place.report(&mut self.faults, || {
                    let listed = spelling::listed(wires.iter().map(String::as_str));
                    let such = if wires.is_empty() { String::new() } else { format!(", such as {listed}") };
                    format!("`{text}` is a switch; allowed: ports, devices, functions, and wires to it{such}")
                });
                None
            }
        }
    }

    fn watched_wire(&mut self, place: &Location<'_>, one: &str, other: &str) -> Option<Watched> {
        let one = self.names.endpoint(place, one, &mut self.faults);
        let other = self.names.endpoint(place, other, &mut self.faults);
        let (one, other) = (one?, other?);
        let is_it = |edge: &&Edge| {
            let [a, b] = edge.ends();
            one.is_at(a) && other.is_at(b) || one.is_at(b) && other.is_at(a)
        };
        if let Some(edge) = self.wiring.edges.iter().find(is_it) {
            return Some(Watched::Wire(edge.clone()));
        }
        // What is wired to a part with a fault is not known.
        let broken = [&one, &other].into_iter().any(|end| {
            let there = self.wiring.exists(end);
            !there
        });
        if !broken {
            let peer =
                |end: &Endpoint| self.wiring.peer(end).map(|peer| format!("; `{end}` is wired to `{peer}`"));
            let known = peer(&one).or_else(|| peer(&other)).unwrap_or_default();
            place.report(&mut self.faults, || {
                format!("no wire leads from `{one}` to `{other}`{known}; allowed: a wire that there is")
            });
        }
        None
    }

    /// Whose the packets are that pass a place, if a tenant's function may not see them.
    fn foreign(&self, observer: &str, tenant: &str, at: &Watched) -> Option<String> {
        if let Watched::Instance(name, _) = at {
            let of = self.names.function(name)?.tenant.as_ref()?;
            return (of != tenant).then(|| format!("`{name}` is the tenant `{of}`'s"));
        }
        if self.wiring.may_observe(observer, tenant, at) {
            return None;
        }
        Some(match at {
            Watched::Device(name, _) => format!("the device `{name}` is not open to `{observer}`"),
            at => format!("`{at}` is another tenant's"),
        })
    }

    /// The filter of an observer.
    fn shown(&mut self, place: &Location<'_>, node: &Node, text: &str) -> Option<Option<Shown>> {
        let position = node.get("filter").map_or(place.position(), |node| node.position);
        let filter = self.filter(&place.key("filter", position), text)?;
        Some(Some(Shown(Arc::new(filter))))
    }

    /// Reads a filter of packets of which it is not known what will become of them.
    pub(crate) fn filter(&mut self, place: &Location<'_>, text: &str) -> Option<Filter> {
        match Filter::parse(text) {
            Ok(filter) if filter.uses_outcome() => {
                place.report(&mut self.faults, || {
                    "found `dropped` or `passed`; allowed: what a packet is when it comes, before anything has become of \
                     it"
                    .to_owned()
                });
                None
            }
            Ok(filter) => Some(filter),
            Err(error) => {
                place.report(&mut self.faults, || format!("column {}: {}", error.column, error.message));
                None
            }
        }
    }

    /// The share of packets that an observer is shown.
    fn sample(&mut self, place: &Location<'_>, node: &Node, text: &str) -> Option<u32> {
        let one_of = text.strip_prefix("1/").filter(|digits| digits.chars().all(|c| c.is_ascii_digit()));
        let one_of = one_of.and_then(|digits| digits.parse().ok()).filter(|n| (1..=LEAST_SAMPLE).contains(n));
        if one_of.is_none() {
            let position = node.get("sample").map_or(place.position(), |node| node.position);
            place.key("sample", position).report(&mut self.faults, || {
                let found = spelling::shown(text);
                format!("found `{found}`; allowed: one of so many packets, `1/1` to `1/{LEAST_SAMPLE}`")
            });
        }
        one_of
    }
}
