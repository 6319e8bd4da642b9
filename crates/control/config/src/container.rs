//! Reading functions that are containers: what the launcher is asked for, and a port for each interface.

use crate::format::{container_interface_schema, container_schema};
use crate::read::Reader;
use crate::reference::ContainerFacts;
use schema::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use telemetry::clock::Nanos;
use wiring::{
    BypassSide, Claimant, Container, ContainerInterface, ContainerProbe, Endpoint, Port, PortIo, ProbeAsks,
    container_link, container_port,
};
use yaml_document::{Key, Location, Node, NodeValue, Position, spelling};

/// Most interfaces of one, whose number is one digit of the outer end's name.
const INTERFACES_MAX: usize = 16;
/// The receive ring of an interface's port.
const RING: &str = "1MiB";
/// Most files and folders that one is given.
const MOUNTS_MAX: usize = 64;
/// Programs of a probe begin no sooner after one another.
const SLOWEST_EXEC: Nanos = Nanos(1_000_000_000);
/// Parts of [`schema`]'s fractions in a thousandth.
const PER_MILLE: i64 = 1_000_000;

impl Reader<'_> {
    /// Reads one; its name is known already.
    pub(crate) fn container(&mut self, place: &Location<'_>, key: &Key, node: &Node) {
        let tenant = self.owner(place, key, node);
        let known = ["attach", "interfaces", "mounts"];
        let values = container_schema().check_at(place, Some(node), &known, &mut self.faults);
        let restart = values.as_ref().and_then(|values| self.restart(place, node, values));
        let probe = values.as_ref().map_or(Some(None), |values| self.probe(place, node, values));
        let at = |key: &str| node.get(key).map_or(place.position(), |node| node.position);
        self.memories.insert(Claimant::Instance(key.text.clone()), at("memory"));
        let image = values.as_ref().and_then(|values| values.get("image")).and_then(Value::as_text);
        if let Some(Err(reason)) = image.map(|image| self.catalog.container_image(image)) {
            place.key("image", at("image")).report(&mut self.faults, || reason);
        }
        let mounts = self.mounts(place, node);
        let Some(interfaces) = self.container_interfaces(place, key, node) else { return };
        let facts = ContainerFacts { interfaces: interfaces.iter().map(|it| it.name.clone()).collect() };
        self.names.learn_container(&key.text, facts);
        let Some(ports) = self.container_ports(place, key, &interfaces) else { return };
        let container = (|| {
            let values = values?;
            let count = |key| values.get(key).and_then(Value::as_integer).and_then(|n| u32::try_from(n).ok());
            let cpu = |key| values.get("cpu")?.get(key)?.as_integer();
            let text = |key| values.get(key).and_then(Value::as_text).map(str::to_owned);
            Some(Container {
                tenant: tenant?,
                image: text("image")?,
                digest: text("digest"),
                command: values
                    .get("command")
                    .and_then(Value::as_list)?
                    .iter()
                    .filter_map(|argument| argument.as_text().map(str::to_owned))
                    .collect(),
                interfaces,
                mounts: mounts?,
                memory: values.get("memory").and_then(Value::as_size)?,
                weight: cpu("weight").and_then(|weight| u32::try_from(weight).ok())?,
                cap: cpu("cap").and_then(|cap| u32::try_from(cap / PER_MILLE).ok()),
                processes: count("processes")?,
                files: count("files")?,
                restart: restart?,
                probe: probe?,
            })
        })();
        let Some(container) = container else { return };
        let fails_open = self.fails_open(place, node, ports.len());
        for (number, (name, settings)) in ports.into_iter().enumerate() {
            let side = || BypassSide { container: key.text.clone(), second: number == 1 };
            let port = Port {
                tenant: container.tenant.clone(),
                driver: "af_packet".to_owned(),
                settings,
                fault: None,
                io: PortIo::default(),
                bypass: (fails_open && number < 2).then(side),
            };
            self.wiring.ports.insert(name, port);
        }
        self.wiring.containers.insert(key.text.clone(), container);
    }

    /// How it is found out whether it still works: `Some(None)` where nothing is said, `None` after a fault.
    fn probe(&mut self, place: &Location<'_>, node: &Node, values: &Value) -> Option<Option<ContainerProbe>> {
        let Some((_, node)) = node.entry("probe") else { return Some(None) };
        let probe = values.get("probe")?;
        let place = place.key("probe", node.position);
        let exec = probe.get("exec").and_then(Value::as_list).unwrap_or_default();
        let exec: Vec<String> = exec.iter().filter_map(|it| it.as_text().map(str::to_owned)).collect();
        let tcp = probe.get("tcp").and_then(Value::as_integer).and_then(|port| u16::try_from(port).ok());
        let duration = |key| probe.get(key)?.as_duration().map(Nanos);
        let every = duration("every")?;
        let asks = match (exec.is_empty(), tcp) {
            (true, Some(port)) => ProbeAsks::Tcp(port),
            (false, None) => ProbeAsks::Exec(exec),
            (empty, _) => {
                let found = if empty { "neither" } else { "both" };
                place.report(&mut self.faults, || format!("found {found}; allowed: one of `exec` and `tcp`"));
                return None;
            }
        };
        if matches!(asks, ProbeAsks::Exec(_)) && every < SLOWEST_EXEC {
            let at = node.get("every").map_or(node.position, |node| node.position);
            place.key("every", at).report(&mut self.faults, || {
                format!("found {}; allowed: with `exec` at least 1s", Value::Duration(every.0))
            });
            return None;
        }
        let failures =
            probe.get("failures").and_then(Value::as_integer).and_then(|n| u32::try_from(n).ok())?;
        let (within, start) = (duration("within")?, duration("start")?);
        Some(Some(ContainerProbe { asks, every, within, failures, start }))
    }

    /// Whether packets are to pass by it while it does not run.
    fn fails_open(&mut self, place: &Location<'_>, node: &Node, interfaces: usize) -> bool {
        let Some((_, fail)) = node.entry("fail").filter(|(_, fail)| fail.as_text() == Some("open")) else {
            return false;
        };
        if interfaces < 2 {
            place.key("fail", fail.position).report(&mut self.faults, || {
                format!("found `open` with {interfaces} interfaces; allowed: with two or more, between which packets pass by it")
            });
        }
        interfaces >= 2
    }

    /// A container that packets pass by joins what its two interfaces are wired to.
    pub(crate) fn bypasses(&mut self, root_place: &Location<'_>, root: &Node) {
        let Some((_, node)) = root.entry("functions") else { return };
        let section = root_place.key("functions", node.position);
        let open = self.wiring.ports.values().filter_map(|port| port.bypass.as_ref());
        let open: BTreeSet<String> = open.map(|side| side.container.clone()).collect();
        for name in open {
            let ends = self.wiring.containers.get(&name).and_then(|container| container.interfaces.get(..2));
            let port = |it: &ContainerInterface| Endpoint::Port(container_port(&name, &it.name));
            let peers = ends.unwrap_or_default().iter().map(|it| self.wiring.peer(&port(it)));
            let peers: Vec<Option<&Endpoint>> = peers.collect();
            let [Some(Endpoint::Switch(one)), Some(Endpoint::Switch(other))] = peers[..] else { continue };
            if one == other {
                let at = node.get(&name).map_or(section.position(), |node| node.position);
                let place = section.key(&name, at);
                let text = format!(
                    "found `open`, and both of its first two interfaces lead to the switch `{one}`; allowed: to two places, \
                     because what passes by it would go round for ever"
                );
                place.key("fail", at).report(&mut self.faults, || text);
            }
        }
    }

    fn container_interfaces(
        &mut self,
        place: &Location<'_>,
        key: &Key,
        node: &Node,
    ) -> Option<Vec<ContainerInterface>> {
        let Some((_, node)) = node.entry("interfaces") else { return Some(Vec::new()) };
        let place = place.key("interfaces", node.position);
        let before = self.faults.len();
        let entries = self.entries(&place, node);
        if entries.len() > INTERFACES_MAX {
            place.report(&mut self.faults, || {
                format!("found {} interfaces; allowed: at most {INTERFACES_MAX}", entries.len())
            });
        }
        let mut inside = BTreeSet::new();
        let mut read = Vec::new();
        for (number, (name, node)) in entries.iter().take(INTERFACES_MAX).enumerate() {
            let place = place.key(&name.text, node.position);
            if !self.is_name(&place.at(name.position), &name.text) {
                continue;
            }
            let own = (!node.is_null()).then_some(node);
            let values = container_interface_schema().check_at(&place, own, &[], &mut self.faults);
            let Some(values) = values else { continue };
            let given = values.get("name").and_then(Value::as_text).map(str::to_owned);
            let given = given.unwrap_or_else(|| format!("eth{number}"));
            let at = node.get("name").map_or(node.position, |node| node.position);
            if !is_link_name(&given) || !inside.insert(given.clone()) {
                place.key("name", at).report(&mut self.faults, || {
                    format!(
                        "found `{}`; allowed: a lower-case letter, then such, digits and `-`, each name once, not `lo`",
                        spelling::shown(&given)
                    )
                });
            }
            let addresses = self.addresses(&place, node, &values);
            let number = u8::try_from(number).unwrap_or_default();
            let outer = container_link(&key.text, number);
            read.push(ContainerInterface { name: name.text.clone(), inside: given, outer, addresses });
        }
        (self.faults.len() == before).then_some(read)
    }

    fn addresses(&mut self, place: &Location<'_>, node: &Node, values: &Value) -> Vec<String> {
        let texts = values.get("addresses").and_then(Value::as_list).unwrap_or_default();
        let texts: Vec<String> = texts.iter().filter_map(Value::as_text).map(str::to_owned).collect();
        let list = node.get("addresses").map_or(node.position, |node| node.position);
        let place = place.key("addresses", list);
        for (number, text) in texts.iter().enumerate().filter(|(_, text)| !is_address(text)) {
            place.item(number, list).report(&mut self.faults, || {
                let found = spelling::shown(text);
                format!("found `{found}`; allowed: an address and its prefix length, such as 192.0.2.1/24 or 2001:db8::1/64")
            });
        }
        texts
    }

    fn mounts(&mut self, place: &Location<'_>, node: &Node) -> Option<BTreeMap<String, String>> {
        let Some((_, node)) = node.entry("mounts") else { return Some(BTreeMap::new()) };
        let place = place.key("mounts", node.position);
        let entries = self.entries(&place, node);
        let before = self.faults.len();
        if entries.len() > MOUNTS_MAX {
            place.report(&mut self.faults, || {
                format!("found {} entries; allowed: at most {MOUNTS_MAX}", entries.len())
            });
        }
        let mut mounts = BTreeMap::new();
        for (inside, node) in entries {
            let place = place.key(&inside.text, node.position);
            if !inside.text.starts_with('/') {
                place.at(inside.position).report(&mut self.faults, || {
                    let found = spelling::shown(&inside.text);
                    format!("found `{found}` as a path inside; allowed: absolute paths")
                });
            }
            match node.as_text().filter(|text| !text.is_empty()) {
                Some(text) => drop(mounts.insert(inside.text.clone(), text.to_owned())),
                None => place.report(&mut self.faults, || {
                    format!("{}; allowed: the path of a file or folder of the host", node.found())
                }),
            }
        }
        (self.faults.len() == before).then_some(mounts)
    }

    /// The settings of the ports, by name.
    fn container_ports(
        &mut self,
        place: &Location<'_>,
        key: &Key,
        interfaces: &[ContainerInterface],
    ) -> Option<Vec<(String, Value)>> {
        let driver = self.catalog.driver("af_packet")?;
        let mut ports = Vec::new();
        for interface in interfaces {
            let named = |port: &Port| {
                port.settings.get("interface").and_then(Value::as_text) == Some(interface.outer.as_str())
            };
            if let Some((other, _)) = self.wiring.ports.iter().find(|(_, port)| named(port)) {
                place.at(key.position).report(&mut self.faults, || {
                    format!(
                        "the outer end of its interface `{}` would be {}, on which the port `{other}` is; allowed: another \
                         name for this function",
                        interface.name, interface.outer
                    )
                });
                return None;
            }
            let settings = settings_of(&interface.outer, place.position());
            let settings = driver.check_at(place, Some(&settings), &[], &mut self.faults)?;
            ports.push((container_port(&key.text, &interface.name), settings));
        }
        Some(ports)
    }
}

/// A port's description: its interface, and a receive ring that the kernel makes in a tenth of the time that
/// the ring of other ports takes it, which a container's start would wait for.
fn settings_of(interface: &str, position: Position) -> Node {
    let entry = |key: &str, text: &str, quoted| {
        let value = NodeValue::Scalar { text: text.to_owned(), quoted };
        (Key { text: key.to_owned(), position }, Node { position, value })
    };
    let settings = vec![entry("interface", interface, true), entry("ring", RING, false)];
    Node { position, value: NodeValue::Map(settings) }
}

fn is_link_name(name: &str) -> bool {
    name != "lo"
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_address(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let (Ok(address), Ok(length)) = (address.parse::<IpAddr>(), length.parse::<u8>()) else { return false };
    length <= if address.is_ipv4() { 32 } else { 128 }
}
