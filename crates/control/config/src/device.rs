//! Reading devices, and what opens them.

use crate::format::{device_schema, grant_schema, policy_schema};
use crate::read::Reader;
use crate::reference::What;
use crate::station::{StationRead, port_station};
use crate::tunnels::layers;
use capture::Filter;
use indexmap::IndexMap;
use schema::Value;
use std::collections::{BTreeMap, HashSet};
use telemetry::clock::Nanos;
use virtual_device::{Balance, Mode, Share};
use wiring::{Device, Edge, Endpoint, Grant, Loss, MAX_OPENERS, Opening, PortPolicy, PortStation, Shadowed};
use yaml_document::{Key, Location, Node, spelling};

/// The gap of `balance: flowlet` unless one is said.
const GAP: Nanos = Nanos(500_000);

impl Reader<'_> {
    /// Reads one device.
    pub(crate) fn device(&mut self, place: &Location<'_>, key: &Key, node: &Node) {
        if self.is_taken(place, key) {
            return;
        }
        let ports = node.entry("over").map(|(_, over)| names(over)).unwrap_or_default();
        let is_striped = node.get("balance").and_then(Node::as_text) == Some("stripe");
        // Of a striped bond no side has whole flows, or packets in order.
        let ports = if is_striped { Vec::new() } else { ports };
        self.names.add(&key.text, key.position, What::Device(ports));
        if node.as_map().is_none() {
            place
                .report(&mut self.faults, || format!("{}; allowed: a map with the key `mode`", node.found()));
            return;
        }
        let values = device_schema().check_at(place, Some(node), &["over", "open_to"], &mut self.faults);
        let tenant = self.owner(place, key, node);
        let station = match &values {
            Some(values) => self.station(place, &key.text, node, values),
            None => Err(()),
        };
        let own = match &station {
            Ok(own) => Ok(own.as_ref()),
            Err(()) => Err(()),
        };
        let over = self.over(place, node, own);
        let open_to = self.open_to(place, node);
        let mode = values.as_ref().and_then(|values| self.mode(place, node, values));
        let stripe = values.as_ref().and_then(|values| self.stripe(place, node, values));
        let (Some(values), Some(tenant), Some(over), Some(open_to), Some(mode), Some(stripe)) =
            (values, tenant, over, open_to, mode, stripe)
        else {
            return;
        };
        let share = match values.get("share").and_then(Value::as_text) {
            Some("duplicate") => Share::Duplicate,
            Some("balance") => Share::Balance,
            _ => Share::Single,
        };
        let Ok(station) = station else { return };
        let mut device = Device { tenant, mode, stripe, share, over, open_to, station, zone: None };
        let is_possible =
            self.may_stripe(place, node, &device) && self.may_have_station(place, node, &mut device);
        self.sends(place, node, &device);
        if !is_possible {
            return;
        }
        if let Some(allowed) = device.ports_allowed() {
            let position = node.get("over").map_or(place.position(), |node| node.position);
            place.key("over", position).report(&mut self.faults, || {
                let found = match device.over.len() {
                    0 => "no ports".to_owned(),
                    1 => "one port".to_owned(),
                    more => format!("{more} ports"),
                };
                format!("found {found}; allowed for this mode: {allowed}")
            });
            return;
        }
        if let Some((first, second)) = device.sides_of_two_tenants(&self.wiring.ports) {
            let position = node.get("over").map_or(place.position(), |node| node.position);
            place.key("over", position).report(&mut self.faults, || {
                format!("`{first}` and `{second}` are two tenants' ports; allowed: ports of one tenant")
            });
            return;
        }
        self.guarded(place, key, node, &values, &device.tenant);
        device.zone = self.guarded.get(&key.text).map(|guarded| guarded.zone);
        self.wiring.devices.insert(key.text.clone(), device);
    }

    fn mode(&mut self, place: &Location<'_>, node: &Node, values: &Value) -> Option<Mode> {
        let text = |key| values.get(key).and_then(Value::as_text);
        let mode = text("mode")?;
        let balance = text("balance");
        let gap = values.get("gap").and_then(Value::as_duration).map(Nanos);
        let mut alone = |key: &str, is_used: bool, with: &str| {
            if let Some(node) = node.get(key).filter(|_| !is_used) {
                place.key(key, node.position).report(&mut self.faults, || {
                    format!("`{key}` says nothing here; allowed: with `{with}`")
                });
            }
        };
        alone("balance", mode == "bond", "mode: bond");
        alone("gap", balance == Some("flowlet"), "balance: flowlet");
        Some(match (mode, balance) {
            ("direct", _) => Mode::Direct,
            ("bridge", _) => Mode::Bridge,
            ("rootless", _) => Mode::Rootless,
            (_, Some("active-backup")) => Mode::Bond(Balance::ActiveBackup),
            (_, Some("round-robin" | "stripe")) => Mode::Bond(Balance::RoundRobin),
            (_, Some("flowlet")) => Mode::Bond(Balance::Flowlet { gap: gap.unwrap_or(GAP) }),
            _ => Mode::Bond(Balance::Flow),
        })
    }

    /// The ports of a device, as a list or with policies for each.
    fn over(
        &mut self,
        place: &Location<'_>,
        node: &Node,
        station: StationRead<'_>,
    ) -> Option<IndexMap<String, PortPolicy>> {
        let Some((_, node)) = node.entry("over") else { return Some(IndexMap::new()) };
        let place = place.key("over", node.position);
        let (mut over, mut good) = (IndexMap::new(), true);
        if let Some(items) = node.as_list() {
            for (n, item) in items.iter().enumerate() {
                let place = place.item(n, item.position);
                let Some(name) = self.port_under(&place, item) else {
                    good = false;
                    continue;
                };
                let plain = PortPolicy {
                    priority: 100,
                    station: Some(PortStation::default()),
                    ..PortPolicy::default()
                };
                if over.insert(name.to_owned(), plain).is_some() {
                    place.report(&mut self.faults, || format!("`{name}` is named twice; allowed: once"));
                    good = false;
                }
            }
            return good.then_some(over);
        }
        let Some(entries) = node.as_map() else {
            place.report(&mut self.faults, || {
                format!(
                    "{}; allowed: a list of ports, such as `[lan, wan]`, or a map from ports to policies, such as `{{lan: \
                     {{receive: \"udp port 53\"}}}}`",
                    node.found()
                )
            });
            return None;
        };
        for (key, node) in entries {
            let place = place.key(&key.text, node.position);
            let known = self.is_port(&place.at(key.position), &key.text);
            match self.policy(&place, node, station) {
                Some(policy) if known => drop(over.insert(key.text.clone(), policy)),
                _ => good = false,
            }
        }
        good.then_some(over)
    }

    fn policy(&mut self, place: &Location<'_>, node: &Node, station: StationRead<'_>) -> Option<PortPolicy> {
        let given = Some(node).filter(|node| !node.is_null());
        let values = policy_schema().check_at(place, given, &["encapsulate"], &mut self.faults)?;
        let receive = match values.get("receive").and_then(Value::as_text) {
            Some(text) => Some(self.receive(place, node, text)?),
            None => None,
        };
        let priority = values.get("priority").and_then(Value::as_integer);
        let (decapsulate, layers) = (layers(&values), self.encapsulate(place, node, station)?);
        self.decapsulate(place, node, &decapsulate, receive.as_ref())?;
        let station = port_station(station.ok().flatten(), &decapsulate, &layers);
        Some(PortPolicy {
            receive,
            priority: priority.and_then(|priority| u32::try_from(priority).ok())?,
            decapsulate,
            encapsulate: layers.encapsulation,
            send: values.get("send").and_then(Value::as_text).map(str::to_owned),
            station,
        })
    }

    /// The name of a port in a list.
    fn port_under<'n>(&mut self, place: &Location<'_>, node: &'n Node) -> Option<&'n str> {
        let Some(name) = node.as_text() else {
            place.report(&mut self.faults, || format!("{}; allowed: the name of a port", node.found()));
            return None;
        };
        self.is_port(place, name).then_some(name)
    }

    fn is_port(&mut self, place: &Location<'_>, name: &str) -> bool {
        let named = self.names.get(name);
        let is_port = named.is_some_and(|named| matches!(named.what, What::Port));
        if !is_port {
            let kind = named.map(|named| named.what.kind());
            let ports: Vec<&str> = self.wiring.ports.keys().map(String::as_str).collect();
            let choices = || spelling::choices(name, ports.iter().copied());
            let shown = spelling::shown(name);
            match kind {
                Some(kind) => {
                    place.report(&mut self.faults, || format!("`{shown}` is a {kind}{}", choices()));
                }
                None => place.report_not_found(&mut self.faults, &["ports"], name, || {
                    format!("no port is named `{shown}`{}", choices())
                }),
            }
        }
        is_port
    }

    fn receive(&mut self, place: &Location<'_>, node: &Node, text: &str) -> Option<Filter> {
        let position = node.get("receive").map_or(place.position(), |node| node.position);
        self.filter(&place.key("receive", position), text)
    }

    fn open_to(&mut self, place: &Location<'_>, node: &Node) -> Option<Vec<Grant>> {
        let Some((_, node)) = node.entry("open_to") else { return Some(Vec::new()) };
        let place = place.key("open_to", node.position);
        let Some(items) = node.as_list() else {
            place.report(&mut self.faults, || {
                format!("{}; allowed: a list, such as `[{{tenant: red}}]`", node.found())
            });
            return None;
        };
        let mut grants = Vec::new();
        for (n, item) in items.iter().enumerate() {
            let place = place.item(n, item.position);
            grants.push(self.grant(&place, item));
        }
        grants.into_iter().collect()
    }

    fn grant(&mut self, place: &Location<'_>, item: &Node) -> Option<Grant> {
        let values = grant_schema().check_at(place, Some(item), &[], &mut self.faults)?;
        let text = |key| values.get(key).and_then(Value::as_text).map(str::to_owned);
        let at = item.get("tenant").map_or(item.position, |node| node.position);
        let tenant = self.known_tenant(&place.key("tenant", at), &text("tenant")?)?;
        Some(Grant { tenant, function: text("function") })
    }

    /// Whether an end is a port that a device is over, which is a fault of what leads there.
    pub(crate) fn is_under_device(&mut self, place: &Location<'_>, end: &Endpoint) -> bool {
        let Endpoint::Port(port) = end else { return false };
        let Some(device) = self.device_over(port).map(str::to_owned) else { return false };
        place.report(&mut self.faults, || {
            format!(
                "the device `{device}` is over the port `{port}`; allowed: `{device}`, or one side of it, \
                 `{device}:{port}`"
            )
        });
        true
    }

    /// A device that is over a port.
    pub(crate) fn device_over(&self, port: &str) -> Option<&str> {
        let over = self.wiring.devices.iter().find(|(_, device)| device.over.contains_key(port));
        over.map(|(name, _)| name.as_str())
    }

    /// Openers of devices that may not open them, or are too many, and devices that nothing opens.
    pub(crate) fn openers(&mut self, root_place: &Location<'_>, root: &Node) {
        let observers: HashSet<&str> =
            self.wiring.observations.iter().map(|seen| seen.observer.as_str()).collect();
        let mut receiving: BTreeMap<&str, Vec<(&Endpoint, &Opening)>> = BTreeMap::new();
        let mut faults = Vec::new();
        let functions = root_place.key("functions", root_place.position());
        let at = |end: &Endpoint| self.wired.get(end).map_or(root_place.position(), |(at, _)| *at);
        let tenant_of = |end: &Endpoint| match end {
            Endpoint::Port(_) => self.wiring.tenant_of_opener(end),
            end => self.names.function(end.name()).and_then(|it| it.tenant.as_deref()),
        };
        for edge in &self.wiring.edges {
            let Some((end, opening)) = edge.opening() else { continue };
            let Some(device) = self.wiring.devices.get(&opening.device) else { continue };
            let function = end.function();
            if tenant_of(end).is_some_and(|tenant| !device.is_open_to(tenant, function)) {
                faults.push(functions.key(function, at(end)).fault(format!(
                    "`{end}` opens the device `{}`, which is not open to it; allowed: functions of the device's tenant, and those \
                     that its `open_to` names",
                    opening.device
                )));
            }
            if !observers.contains(end.name()) {
                receiving.entry(&opening.device).or_default().push((end, opening));
            }
        }
        for (name, openers) in &receiving {
            let Some(device) = self.wiring.devices.get(*name) else { continue };
            if let Some((end, _)) = openers.get(MAX_OPENERS) {
                faults.push(functions.key(end.function(), at(end)).fault(format!(
                    "`{end}` is one opener too many of the device `{name}`; allowed: at most {MAX_OPENERS}"
                )));
            }
            if let Some((first, second)) = device.loops(openers) {
                faults.push(functions.key(second.function(), at(second)).fault(format!(
                    "`{first}` and `{second}` get the same packets of the device `{name}`: what the function sends by one \
                     would come back by the other; allowed: one of them, or sides of the device"
                )));
            } else if let Some((first, second)) = device.conflict(openers) {
                // The name of another tenant's function is nothing to the one whose fault it is.
                let first = match tenant_of(first) == tenant_of(second) {
                    true => format!("`{first}`{}", at(first).in_line(" ")),
                    false => "another tenant's function".to_owned(),
                };
                faults.push(functions.key(second.function(), at(second)).fault(format!(
                    "`{second}` is a second opener of the device `{name}`, beside {first}; allowed: one, or `share: duplicate` or \
                     `share: balance` of the device"
                )));
            }
        }
        self.faults.extend(faults);
        self.overlaps(root_place, root);
        if !self.whole {
            return;
        }
        let Some((_, node)) = root.entry("devices") else { return };
        let section = root_place.key("devices", node.position);
        let edges = self.wiring.edges.iter().filter_map(Edge::opening);
        let opened: HashSet<&str> = edges.map(|(_, opening)| opening.device.as_str()).collect();
        for (key, _) in node.as_map().unwrap_or_default() {
            let name = key.text.as_str();
            let watched = || self.wiring.observations.iter().any(|seen| seen.at.device() == Some(name));
            if self.wiring.devices.contains_key(name) && !opened.contains(name) && !watched() {
                section.key(name, key.position).report(&mut self.warnings, || {
                    format!("nothing opens the device `{name}`; what comes for it is dropped (no-device)")
                });
            }
        }
    }
}

impl Reader<'_> {
    /// Warns of policies that never get a packet, and of those of one priority that want the same ones.
    fn overlaps(&mut self, root_place: &Location<'_>, root: &Node) {
        let Some((_, node)) = root.entry("devices") else { return };
        let section = root_place.key("devices", node.position);
        let at = |name: &str| node.get(name).map_or(node.position, |device| device.position);
        let only_seeing = self.wiring.device_layout().only_seeing;
        let shadowed = Shadowed::among(&self.wiring.devices, &only_seeing, |_| true);
        // Those of which there may be as many as devices are one warning of each port.
        let alike = |one: &Shadowed, next: &Shadowed| {
            let kinds = (&one.loss, &next.loss);
            one.port == next.port
                && matches!(
                    kinds,
                    (Loss::NotCompared, Loss::NotCompared) | (Loss::Further(_), Loss::Further(_))
                )
        };
        let warnings: Vec<_> = shadowed
            .chunk_by(alike)
            .filter_map(|several| {
                let found = several.first()?;
                let (first, second) = (format!("`{}`", found.first), format!("`{}`", found.second));
                let more = match (several.len() - 1, &found.loss) {
                    (0, _) => String::new(),
                    (more, Loss::Further(_)) => format!(", and so do {more} more"),
                    (more, _) => format!(", and {more} more are not"),
                };
                let told = found.told(&first, &second) + &more;
                Some(section.key(&found.second, at(&found.second)).fault(told))
            })
            .collect();
        self.warnings.extend(warnings);
    }
}

/// The names in a list, or of the keys of a map.
fn names(node: &Node) -> Vec<String> {
    match (node.as_list(), node.as_map()) {
        (Some(items), _) => items.iter().filter_map(Node::as_text).map(str::to_owned).collect(),
        (_, Some(entries)) => entries.iter().map(|(key, _)| key.text.clone()).collect(),
        _ => Vec::new(),
    }
}
