//! Reading functions that are containers, or programs of the host: what the launcher is asked for, and a port
//! for each interface.
//!
//! A kind of interface is a schema, a driver, and what [`settings_of`] says of it.

use crate::format::{container_interface_schema, container_schema};
use crate::read::Reader;
use crate::reference::ContainerFacts;
use schema::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use telemetry::clock::Nanos;
use wiring::{
    BypassSide, Claimant, Container, ContainerInterface, ContainerKind, ContainerProbe, Endpoint,
    InterfaceKind, KvmUse, Port, PortIo, ProbeAsks, STANDBY_MAX, container_link, container_port,
    container_socket, standby_link,
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
/// How long one may run without having attached at its sockets, unless it is said; a virtual machine, which
/// boots first and may be emulated, has longer.
const ATTACH_WITHIN: Nanos = Nanos(60_000_000_000);
const MACHINE_ATTACHES_WITHIN: Nanos = Nanos(300_000_000_000);
/// Parts of [`schema`]'s fractions in a thousandth.
const PER_MILLE: i64 = 1_000_000;

/// An interface that was read, and the settings of its port as they would stand in a file.
pub(crate) struct ReadInterface {
    pub interface: ContainerInterface,
    pub settings: Node,
    position: Position,
}

/// As the OCI image specification writes a digest.
fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Reader<'_> {
    /// Reads one; its name is known already.
    pub(crate) fn container(&mut self, kind: ContainerKind, place: &Location<'_>, key: &Key, node: &Node) {
        let tenant = self.owner(place, key, node);
        let known = ["attach", "interfaces", "mounts"];
        let values = container_schema(kind).check_at(place, Some(node), &known, &mut self.faults);
        let restart = values.as_ref().and_then(|values| self.restart(place, node, values));
        let probe = values.as_ref().map_or(Some(None), |values| self.probe(kind, place, node, values));
        let worker = values.as_ref().and_then(|values| self.stays_on(place, node, values));
        let at = |key: &str| node.get(key).map_or(place.position(), |node| node.position);
        self.memories.insert(Claimant::Instance(key.text.clone()), at("memory"));
        let image = values.as_ref().filter(|_| kind == ContainerKind::Container);
        let image = image.and_then(|values| values.get("image")).and_then(Value::as_text);
        if let Some(Err(reason)) = image.map(|image| self.catalog.container_image(image)) {
            place.key("image", at("image")).report(&mut self.faults, || reason);
        }
        let digest = values.as_ref().and_then(|values| values.get("digest")).and_then(Value::as_text);
        if let Some(found) = digest.filter(|text| !is_digest(text)) {
            place.key("digest", at("digest")).report(&mut self.faults, || {
                format!("found `{found}`; allowed: sha256: and 64 digits, 0 to f")
            });
        }
        let mut mounts = self.mounts(place, node);
        let Some(interfaces) = self.container_interfaces(kind, place, key, node) else { return };
        let command = match (kind, &values, &mut mounts) {
            (ContainerKind::Vm, Some(values), Some(mounts)) => {
                self.virtual_machine(place, &key.text, node, values, &interfaces, mounts)
            }
            (_, Some(values), _) => values.get("command").and_then(Value::as_list).map(|list| {
                list.iter().filter_map(|argument| argument.as_text().map(str::to_owned)).collect()
            }),
            _ => None,
        };
        self.has_heartbeats(place, node, &interfaces);
        self.can_stand_by(place, node, &interfaces);
        let attach_within = self.attach_within(kind, place, node, values.as_ref(), &interfaces);
        let names = interfaces.iter().map(|it| it.interface.name.clone()).collect();
        self.names.learn_container(&key.text, ContainerFacts { kind, interfaces: names });
        let Some(ports) = self.container_ports(place, key, &interfaces) else { return };
        let container = (|| {
            let values = values?;
            let count = |key| values.get(key).and_then(Value::as_integer).and_then(|n| u32::try_from(n).ok());
            let cpu = |key| values.get("cpu")?.get(key)?.as_integer();
            let text = |key| values.get(key).and_then(Value::as_text).map(str::to_owned);
            Some(Container {
                tenant: tenant?,
                kind,
                image: match kind {
                    ContainerKind::Container => text("image")?,
                    ContainerKind::Program | ContainerKind::Vm => String::new(),
                },
                digest: text("digest"),
                command: command?,
                interfaces: interfaces.into_iter().map(|it| it.interface).collect(),
                mounts: mounts?,
                memory: values.get("memory").and_then(Value::as_size)?,
                weight: cpu("weight").and_then(|weight| u32::try_from(weight).ok())?,
                cap: cpu("cap").and_then(|cap| u32::try_from(cap / PER_MILLE).ok()),
                worker: worker?,
                standby: count("standby")?,
                processes: count("processes")?,
                files: count("files")?,
                kvm: match values.get("accel").and_then(Value::as_text) {
                    Some("auto") => KvmUse::IfPossible,
                    Some("kvm") => KvmUse::Required,
                    _ => KvmUse::No,
                },
                restart: restart?,
                probe: probe?,
                attach_within,
                stations: BTreeMap::new(),
            })
        })();
        let Some(container) = container else { return };
        let fails_open = self.fails_open(place, node, ports.len());
        for (number, (name, driver, settings)) in ports.into_iter().enumerate() {
            let side = || BypassSide { container: key.text.clone(), second: number == 1 };
            let port = Port {
                tenant: container.tenant.clone(),
                driver: driver.to_owned(),
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
    fn probe(
        &mut self,
        kind: ContainerKind,
        place: &Location<'_>,
        node: &Node,
        values: &Value,
    ) -> Option<Option<ContainerProbe>> {
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
        if kind == ContainerKind::Vm && matches!(asks, ProbeAsks::Tcp(_)) {
            // The launcher connects in the network namespace of QEMU, in which there is loopback alone: what
            // the machine listens on is behind its interfaces, whose packets are the chain's.
            let at = node.get("tcp").map_or(node.position, |node| node.position);
            place.key("tcp", at).report(&mut self.faults, || {
                "found a port of a virtual machine, which the launcher cannot connect to: the machine's network is behind \
                 its interfaces, in the chain; allowed: with `guest: container` and `program`"
                    .to_owned()
            });
            return None;
        }
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
        of: ContainerKind,
        place: &Location<'_>,
        key: &Key,
        node: &Node,
    ) -> Option<Vec<ReadInterface>> {
        let (heartbeat, standby) = (node.entry("heartbeat"), node.entry("standby"));
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
            let Some(kind) = self.interface_kind(of, &place, node) else { continue };
            let own = (!node.is_null()).then_some(node);
            let schema = container_interface_schema(kind);
            let values = schema.check_at(&place, own, &["as"], &mut self.faults);
            let Some(values) = values else { continue };
            let given = values.get("name").and_then(Value::as_text).map(str::to_owned);
            let default = || if kind.is_socket() { name.text.clone() } else { format!("eth{number}") };
            let given = given.unwrap_or_else(default);
            let at = node.get("name").map_or(node.position, |node| node.position);
            let good = if kind.is_socket() { is_socket_name(&given) } else { is_link_name(&given) };
            if !good || !inside.insert(given.clone()) {
                place.key("name", at).report(&mut self.faults, || {
                    let found = spelling::shown(&given);
                    let allowed = match kind.is_socket() {
                        true => "letters, digits, `_` and `-`, 15 characters at most, each name once",
                        false => "a lower-case letter, then such, digits and `-`, each name once, not `lo`, `all` and `default`",
                    };
                    format!("found `{found}`; allowed: {allowed}")
                });
            }
            let addresses = self.addresses(&place, node, &values);
            let number = u8::try_from(number).unwrap_or_default();
            let outer = match kind.is_socket() {
                true => container_socket(&key.text, &given),
                false => container_link(&key.text, number),
            };
            // What the function says is said of all of its interfaces of the library.
            let of_function = [heartbeat, standby].into_iter().flatten();
            let of_function: Vec<_> = of_function.filter(|_| kind == InterfaceKind::Library).collect();
            let settings = settings_of(kind, &outer, node, &of_function);
            let name = name.text.clone();
            let mtu = values.get("mtu").and_then(Value::as_integer).and_then(|mtu| u32::try_from(mtu).ok());
            let mac = values.get("mac").and_then(Value::as_mac);
            if mac.is_some_and(|mac| mac[0] & 1 != 0 || mac == [0; 6]) {
                let at = node.get("mac").map_or(node.position, |node| node.position);
                place.key("mac", at).report(&mut self.faults, || {
                    "not the address of one interface; allowed: any but multicast ones and zero".to_owned()
                });
            }
            let gateways = values.get("gateways").and_then(Value::as_list).unwrap_or_default();
            let gateways = gateways.iter().filter_map(Value::as_address).collect();
            let interface =
                ContainerInterface { name, kind, inside: given, outer, addresses, gateways, mtu, mac };
            read.push(ReadInterface { interface, settings, position: node.position });
        }
        (self.faults.len() == before).then_some(read)
    }

    /// What an interface is: of a virtual machine always a device of vhost-user.
    fn interface_kind(
        &mut self,
        of: ContainerKind,
        place: &Location<'_>,
        node: &Node,
    ) -> Option<InterfaceKind> {
        let is_vm = of == ContainerKind::Vm;
        let default = if is_vm { InterfaceKind::VhostUser } else { InterfaceKind::default() };
        let Some((_, node)) = node.entry("as") else { return Some(default) };
        let kind = node.as_text().and_then(InterfaceKind::of);
        let kind = kind.filter(|kind| !is_vm || *kind == default);
        if kind.is_none() {
            place.key("as", node.position).report(&mut self.faults, || {
                let all = InterfaceKind::ALL.into_iter().filter(|kind| !is_vm || *kind == default);
                let names = all.map(InterfaceKind::as_str);
                format!("{}{}", node.found(), spelling::choices(node.as_text().unwrap_or_default(), names))
            });
        }
        kind
    }

    /// Another one of it has its sockets, or interfaces like its own, of which the active one's are
    /// connected.
    fn can_stand_by(&mut self, place: &Location<'_>, node: &Node, interfaces: &[ReadInterface]) {
        let Some((_, node)) = node.entry("standby").filter(|(_, node)| node.as_text() != Some("0")) else {
            return;
        };
        let all = |fits: fn(InterfaceKind) -> bool| interfaces.iter().all(|it| fits(it.interface.kind));
        let fits = all(|kind| kind == InterfaceKind::Library) || all(InterfaceKind::has_stack);
        if interfaces.is_empty() || !fits {
            place.key("standby", node.position).report(&mut self.faults, || {
                format!("{}; allowed: where all interfaces are `library`, or none is a socket", node.found())
            });
        }
    }

    /// How long it may take to attach, where there is something to attach at.
    fn attach_within(
        &mut self,
        kind: ContainerKind,
        place: &Location<'_>,
        node: &Node,
        values: Option<&Value>,
        interfaces: &[ReadInterface],
    ) -> Option<Nanos> {
        let default = if kind == ContainerKind::Vm { MACHINE_ATTACHES_WITHIN } else { ATTACH_WITHIN };
        if interfaces.iter().any(|it| it.interface.kind.is_socket()) {
            let said = values.and_then(|values| values.get("attach_within")?.as_duration());
            return Some(said.map_or(default, Nanos));
        }
        let (_, node) = node.entry("attach_within")?;
        place.key("attach_within", node.position).report(&mut self.faults, || {
            format!(
                "{}, and no interface is a socket; allowed: with one that is `as: library`, `memif` or `vhost-user`",
                node.found()
            )
        });
        None
    }

    /// A function's heartbeat is that of its interfaces of the library.
    fn has_heartbeats(&mut self, place: &Location<'_>, node: &Node, interfaces: &[ReadInterface]) {
        let Some((_, node)) = node.entry("heartbeat") else { return };
        if !interfaces.iter().any(|it| it.interface.kind == InterfaceKind::Library) {
            place
                .key("heartbeat", node.position)
                .report(&mut self.faults, || format!("{}; allowed: `probe`, or `as: library`", node.found()));
        }
    }

    fn addresses(&mut self, place: &Location<'_>, node: &Node, values: &Value) -> Vec<String> {
        let texts = values.get("addresses").and_then(Value::as_list).unwrap_or_default();
        let texts: Vec<String> = texts.iter().filter_map(Value::as_text).map(str::to_owned).collect();
        let list = node.get("addresses").map_or(node.position, |node| node.position);
        let place = place.key("addresses", list);
        for (number, text) in texts.iter().enumerate().filter(|(_, text)| !is_address(text)) {
            place.item(number, list).report(&mut self.faults, || {
                let found = spelling::shown(text);
                format!("found `{found}`; allowed: a host's address and its prefix length, such as 192.0.2.1/24 or 2001:db8::1/64")
            });
        }
        let address =
            |text: &String| text.split_once('/').and_then(|(address, _)| address.parse::<IpAddr>().ok());
        for (number, text) in texts.iter().enumerate().skip(1) {
            if address(text).is_some_and(|it| texts[..number].iter().any(|other| address(other) == Some(it)))
            {
                place.item(number, list).report(&mut self.faults, || {
                    format!("found `{}` once more; allowed: each address once", spelling::shown(text))
                });
            }
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
            if !is_mountable(&inside.text) {
                place.at(inside.position).report(&mut self.faults, || {
                    let found = spelling::shown(&inside.text);
                    format!(
                        "found `{found}` as a path inside; allowed: absolute paths without `..`, not below /proc, /sys and /dev"
                    )
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
        interfaces: &[ReadInterface],
    ) -> Option<Vec<(String, &'static str, Value)>> {
        let mut ports = Vec::new();
        for ReadInterface { interface, settings, position } in interfaces {
            let driver = self.catalog.driver(interface.kind.driver())?;
            // Those that stand by have ends of this name, too, but for the dash.
            let own = |name: &str| (0..=STANDBY_MAX).any(|it| standby_link(&interface.outer, it) == name);
            let named =
                |port: &Port| port.settings.get("interface").and_then(Value::as_text).is_some_and(own);
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
            let section = place.key("interfaces", *position);
            let place = section.key(&interface.name, *position);
            let settings = driver.check_at(&place, Some(settings), &[], &mut self.faults)?;
            ports.push((container_port(&key.text, &interface.name), interface.kind.driver(), settings));
        }
        Some(ports)
    }
}

/// A port's description: where it is, what the interface says of it, and what follows from its kind. Of a
/// veth pair that is a receive ring that the kernel makes in a tenth of the time that the ring of other ports
/// takes it, which a container's start would wait for.
fn settings_of(kind: InterfaceKind, outer: &str, given: &Node, of_function: &[(&Key, &Node)]) -> Node {
    let position = given.position;
    let entry = |key: &str, text: &str, quoted| {
        let value = NodeValue::Scalar { text: text.to_owned(), quoted };
        (Key { text: key.to_owned(), position }, Node { position, value })
    };
    let mut settings = vec![entry(if kind.is_socket() { "socket" } else { "interface" }, outer, true)];
    match kind {
        InterfaceKind::Veth => settings.push(entry("ring", RING, false)),
        InterfaceKind::Memif => settings.push(entry("role", "master", true)),
        InterfaceKind::VhostUser => settings.push(entry("role", "server", true)),
        InterfaceKind::AfXdp | InterfaceKind::Tap | InterfaceKind::Library => {}
    }
    let own = ["as", "name", "addresses", "gateways"];
    let given = given.as_map().unwrap_or_default();
    settings.extend(given.iter().filter(|(key, _)| !own.contains(&key.text.as_str())).cloned());
    for (key, node) in of_function {
        if settings.iter().all(|(own, _)| own.text != key.text) {
            settings.push(((*key).clone(), (*node).clone()));
        }
    }
    Node { position, value: NodeValue::Map(settings) }
}

/// A path inside that is not what the kernel shows there, as the launcher has it.
fn is_mountable(inside: &str) -> bool {
    let path = Path::new(inside);
    let own = ["/proc", "/sys", "/dev"].iter().any(|folder| path.starts_with(folder));
    let plain = path.is_absolute() && path.parent().is_some();
    plain && !own && !inside.split('/').any(|part| matches!(part, "." | ".."))
}

fn is_socket_name(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn is_link_name(name: &str) -> bool {
    // The kernel gives none of these to an interface that is made.
    !["lo", "all", "default"].contains(&name)
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// An address that one host of a network has, and how long the network's part of it is.
fn is_address(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let (Ok(address), Ok(length)) = (address.parse::<IpAddr>(), length.parse::<u8>()) else { return false };
    let is_hosts = match address {
        IpAddr::V4(address) => !address.is_broadcast(),
        IpAddr::V6(address) => address.to_ipv4_mapped().is_none(),
    };
    let is_hosts = is_hosts && !address.is_unspecified() && !address.is_loopback() && !address.is_multicast();
    is_hosts && length <= if address.is_ipv4() { 32 } else { 128 }
}
