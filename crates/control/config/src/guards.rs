//! The functions that security groups become.
//!
//! 1. When all openers are known, each opener of a device with groups gets a guard: a function of the stock
//!    image `security-groups` and of the tenant `default`, in whose pool packets are checked; so are the
//!    device's ports, so that they stay there. What opened the device is wired to the guard, and the guard
//!    opens the device, or the side of it. It works in the claim and the account of the opener's tenant,
//!    whose packets and rules it works on. What may be sent from are the opener's own addresses, or the
//!    device's.
//! 2. The groups' rules become the guard's configuration: those of the administrator's groups are one list,
//!    those of the tenant's the other.
//! 3. A group that a rule names becomes the addresses of its devices in the same zone, and of interfaces with
//!    addresses of their own that open them. Where one of these devices gets addresses by DHCP, or may form
//!    some (`slaac`), one rule more is for those: the guard has the number of a list, and what is on the list
//!    is told it while it runs.
//!
//! As the configuration is made of all objects together, a group, an address or a device that changes is a
//! changed configuration of guards, which hand their connections over.
//!
//! Limits: [`MOST_RULES`] in a list, with one for each address of groups that rules name.

use crate::groups::{Guarded, MOST_RULES, Remote, Rule};
use crate::read::Reader;
use api::DEFAULT_TENANT;
use neighbours::Settings;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use virtual_device::Mode;
use wiring::{Device, Edge, Endpoint, INSIDE, Learner, OUTSIDE, Watched, guard_of};
use yaml_document::{Key, Location, Node, NodeValue, Position};

/// The stock image.
const IMAGE: &str = "security-groups";
/// Rules of a list that are compared one by one; more have tables.
const WITHOUT_TABLES: usize = 63;
/// Memory of a guard for connections, and beside it for each list with tables.
const MEMORY: u64 = 32 << 20;
const MEMORY_OF_TABLES: u64 = 64 << 20;

/// What the devices of a group are in one zone.
#[derive(Default)]
struct Member {
    /// Their addresses that are configured.
    addresses: BTreeSet<IpAddr>,
    /// What learns others.
    learning: BTreeSet<Learner>,
}

/// By zone and group.
type Members<'a> = HashMap<(u16, &'a str), Member>;

/// What is on the lists that a guard is told of, by their numbers, each with its group.
type Lists<'a> = BTreeMap<u32, (&'a str, &'a BTreeSet<Learner>)>;

/// Rules as a guard has them, of one list; `None`: it has no such list.
type List<'a> = Option<Vec<Expanded<'a>>>;

/// The wire to a device, what opens the device by it, and what that is on the device's link.
type Guarding<'a> = (&'a Edge, &'a Endpoint, &'a Settings);

/// A rule with one other end.
struct Expanded<'a> {
    group: &'a str,
    rule: &'a Rule,
    remote: Other,
}

/// The other end of an expanded rule.
enum Other {
    Any,
    Prefix(String),
    /// What is on the list with this number.
    List(u32),
}

/// The number of the list of what devices of a group in a zone learn: the same whatever other groups there
/// are, so that a guard whose configuration has changed takes no list for another one (FNV-1a).
fn list_number(zone: u16, group: &str) -> u32 {
    let bytes = zone.to_le_bytes().into_iter().chain(group.bytes());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

impl Reader<'_> {
    /// Puts a guard before each device with groups.
    pub(crate) fn guards(&mut self, root_place: &Location<'_>, root: &Node) {
        self.group_references(root_place, root);
        if self.guarded.is_empty() || !self.faults.is_empty() {
            return;
        }
        let Some((_, node)) = root.entry("devices") else { return };
        let section = root_place.key("devices", node.position);
        let mut made = Vec::new();
        let members = self.members();
        let mut faults = Vec::new();
        for (name, guarded) in &self.guarded {
            let (Some(node), Some(device)) = (node.get(name), self.wiring.devices.get(name)) else {
                continue;
            };
            let at = node.get("groups").map_or(node.position, |node| node.position);
            let place = section.key(name, node.position);
            let place = place.key("groups", at);
            let guards = self.wires_to_guard(name, device).and_then(|wires| {
                let (lists, learned) = match wires.is_empty() {
                    true => Default::default(),
                    false => self.lists(guarded, &members)?,
                };
                Ok((wires, lists, learned))
            });
            match guards {
                Ok((wires, lists, learned)) => {
                    let learned = learned.into_iter().map(|(number, (_, devices))| (number, devices.clone()));
                    let learned: BTreeMap<u32, BTreeSet<Learner>> = learned.collect();
                    for (wire, opener, station) in wires {
                        let node = described(at, station, &lists);
                        made.push((
                            name.clone(),
                            guard_of(name, opener),
                            wire.clone(),
                            node,
                            learned.clone(),
                        ));
                    }
                }
                Err(message) => place.report(&mut faults, || message),
            }
        }
        self.faults.extend(faults);
        for (name, guard, wire, node, learned) in made {
            let place = section.key(&name, node.position);
            self.guard(&place.key("groups", node.position), guard, &wire, (&node, learned));
        }
    }

    /// The wires that a device's guards are put into, each with what opens the device by it and what that is
    /// on the device's link.
    ///
    /// # Errors
    /// Why there can be no guard.
    fn wires_to_guard<'a>(&'a self, name: &str, device: &'a Device) -> Result<Vec<Guarding<'a>>, String> {
        if device.mode == Mode::Rootless {
            return Err("the device is over no port, and its openers have no addresses, which are what may be sent from; allowed: \
                        with devices whose ports are on a link"
                .to_owned());
        }
        let foreign = |port: &String| {
            let tenant = &self.wiring.ports.get(port)?.tenant;
            (tenant != DEFAULT_TENANT).then_some((port.clone(), tenant))
        };
        if let Some((port, tenant)) = device.over.keys().find_map(foreign) {
            return Err(format!(
                "its port `{port}` is the tenant `{tenant}`'s, whose functions could write to packets there after they were \
                 checked; allowed: ports of `{DEFAULT_TENANT}`"
            ));
        }
        let leads = |end: &Endpoint| matches!(end, Endpoint::Device(opening) if opening.device == name);
        if let Some((service, _)) = self.wiring.services.iter().find(|(_, end)| leads(end)) {
            let number = service.number;
            return Err(format!(
                "the service {number} leads to the device; allowed: services that lead to its opener"
            ));
        }
        let is_seen = |at: &Watched| matches!(at, Watched::Wire(edge) if edge.ends().into_iter().any(leads));
        if let Some(seen) = self.wiring.observations.iter().find(|seen| is_seen(&seen.at)) {
            return Err(format!(
                "`{}` observes the wire to the device; allowed: observers at the device, or at what opens it",
                seen.observer
            ));
        }
        let edges = self.wiring.edges.iter().filter_map(|edge| Some((edge, edge.opening()?)));
        let mut wires = Vec::new();
        for (wire, (opener, _)) in edges.filter(|(_, (_, opening))| opening.device == name) {
            if self.wiring.observations.iter().any(|seen| seen.observer == opener.name()) {
                return Err(format!(
                    "`{opener}` is an observer's, and opens the device; allowed: openers that packets pass"
                ));
            }
            let Some(station) = self.station_of(opener, device) else {
                return Err(format!(
                    "`{opener}` opens the device and has no addresses, which are what may be sent from; allowed: {}",
                    match self.wiring.answers_itself(opener) {
                        true => "with `addresses` of the interface",
                        false =>
                            "with `addresses`, `dhcp: true` or `slaac` of the device that are not those of its tunnels, \
                             or with `addresses` of the interface",
                    }
                ));
            };
            wires.push((wire, opener, station));
        }
        Ok(wires)
    }

    /// What an opener of a device is on its link: with addresses of its own, or the device's.
    fn station_of<'a>(&'a self, opener: &'a Endpoint, device: &'a Device) -> Option<&'a Settings> {
        let own = self.wiring.station_of(opener).map(|station| station.settings);
        // What answers for itself has nothing of the device's, for which the platform answers.
        let is_devices = device.has_station_inside() && !self.wiring.answers_itself(opener);
        let of_device = device.station.as_ref().filter(|_| is_devices);
        own.or_else(|| of_device.filter(|station| learns(station) || !station.addresses.is_empty()))
    }

    /// The members of all groups.
    fn members(&self) -> Members<'_> {
        let mut members = Members::new();
        for (device, Guarded { groups, zone }) in &self.guarded {
            let Some(there) = self.wiring.devices.get(device) else { continue };
            let of_device = there.station.as_ref().filter(|_| there.has_station_inside());
            let own = self.wiring.openers().filter(|(_, opening)| opening.device == *device);
            let own = own.filter_map(|(opener, _)| {
                let station = self.wiring.station_of(opener)?;
                Some((Some((station.function.to_owned(), station.interface)), station.settings))
            });
            let stations: Vec<_> = of_device.map(|station| (None, station)).into_iter().chain(own).collect();
            let addresses: Vec<IpAddr> = stations
                .iter()
                .flat_map(|(_, station)| station.addresses.iter().map(|prefix| prefix.address))
                .collect();
            let learning = stations.iter().filter(|(_, station)| learns(station));
            let learning: Vec<Learner> = learning
                .map(|(interface, _)| Learner { device: device.clone(), interface: interface.clone() })
                .collect();
            for group in groups {
                let member = members.entry((*zone, group)).or_default();
                // Two devices of a zone may share an address.
                member.addresses.extend(&addresses);
                member.learning.extend(learning.iter().cloned());
            }
        }
        members
    }

    /// The administrator's rules and the tenant's. Of a device that names no group the administrator allows
    /// nothing.
    ///
    /// # Errors
    /// They are too many.
    fn lists<'r>(
        &'r self,
        guarded: &'r Guarded,
        members: &'r Members<'_>,
    ) -> Result<([List<'r>; 2], Lists<'r>), String> {
        let mut learned = Lists::new();
        let [mut administrator, mut tenant]: [List<'r>; 2] = [guarded.groups.is_empty().then(Vec::new), None];
        for name in &guarded.groups {
            let Some(group) = self.groups.get(name) else { continue };
            let of_group = if group.is_administrators() { &mut administrator } else { &mut tenant };
            let list = of_group.get_or_insert_default();
            for rule in &group.rules {
                let mut add = |remote| list.push(Expanded { group: name, rule, remote });
                match &rule.remote {
                    Remote::Any => add(Other::Any),
                    Remote::Prefix(prefix) => add(Other::Prefix(prefix.clone())),
                    Remote::Group(named) => {
                        let Some(member) = members.get(&(guarded.zone, named.as_str())) else { continue };
                        let of_one = |address: &IpAddr| {
                            format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
                        };
                        member.addresses.iter().for_each(|address| add(Other::Prefix(of_one(address))));
                        if !member.learning.is_empty() {
                            let number = list_number(guarded.zone, named);
                            add(Other::List(number));
                            let (known, _) = learned.entry(number).or_insert((named, &member.learning));
                            if *known != named {
                                return Err(format!(
                                    "the guard cannot tell the groups `{known}` and `{named}` apart, whose devices learn their \
                                     addresses; allowed: another name for one of them"
                                ));
                            }
                        }
                    }
                }
                // Before they fill memory.
                if list.len() > MOST_RULES {
                    let whose = if group.is_administrators() { "administrator" } else { "tenant" };
                    return Err(format!(
                        "the {whose}'s groups come to more than {MOST_RULES} rules, with one for each address of groups that \
                         rules name; allowed: at most {MOST_RULES}"
                    ));
                }
            }
        }
        Ok(([administrator, tenant], learned))
    }

    /// Makes a guard, and puts it into a wire.
    fn guard(
        &mut self,
        place: &Location<'_>,
        function: String,
        wire: &Edge,
        (node, members): (&Node, BTreeMap<u32, BTreeSet<Learner>>),
    ) {
        self.function(place, &Key { position: node.position, text: function.clone() }, node);
        // Without a guard after a fault, the wire stays, and the wiring is not carried out.
        let Some((opener, opening)) = wire.opening() else { return };
        let for_whom = self.wiring.tenant_of_opener(opener).map(str::to_owned);
        let Some(guard) = self.wiring.instances.get_mut(&function) else { return };
        guard.members = members;
        guard.payer = for_whom.filter(|tenant| *tenant != guard.tenant);
        self.wiring.edges.remove(wire);
        let interface = |number| Endpoint::Interface(function.clone(), number);
        self.wiring.edges.insert(Edge::new(opener.clone(), interface(INSIDE)));
        let device = Endpoint::Device(opening.clone());
        self.wiring.edges.insert(Edge::new(interface(OUTSIDE), device));
        self.inline.insert(function, node.position);
    }
}

/// Whether a station has addresses that are not configured, and count as members.
fn learns(station: &Settings) -> bool {
    station.dhcp || !station.slaac.is_empty()
}

/// A guard as it would stand among the functions of a file.
fn described(at: Position, station: &Settings, [administrator, tenant]: &[List<'_>; 2]) -> Node {
    let made = Made(at);
    let tables = [administrator, tenant].into_iter().flatten().filter(|list| list.len() > WITHOUT_TABLES);
    let memory = MEMORY + MEMORY_OF_TABLES * tables.count() as u64;
    let mut config = Vec::new();
    let [a, b, c, d, e, f] = station.mac;
    config.push(("mac", made.text(format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"))));
    let texts = |list: &[neighbours::Prefix]| made.list(list.iter().map(|it| made.text(it.to_string())));
    config.push(("addresses", texts(&station.addresses)));
    if !station.slaac.is_empty() {
        config.push(("slaac", texts(&station.slaac)));
    }
    for (key, list) in [("administrator", administrator), ("tenant", tenant)] {
        let rules = |list: &Vec<Expanded<'_>>| made.list(list.iter().map(|rule| made.rule(rule)));
        config.extend(list.as_ref().map(|list| (key, rules(list))));
    }
    made.map(vec![
        ("image", made.text(IMAGE.to_owned())),
        ("tenant", made.text(DEFAULT_TENANT.to_owned())),
        ("memory", made.plain(format!("{memory}B"))),
        ("config", made.map(config)),
    ])
}

/// Makes nodes that stand where a device names its groups.
struct Made(Position);

impl Made {
    fn node(&self, value: NodeValue) -> Node {
        Node { position: self.0, value }
    }

    fn text(&self, text: String) -> Node {
        self.node(NodeValue::Scalar { text, quoted: true })
    }

    fn plain(&self, text: String) -> Node {
        self.node(NodeValue::Scalar { text, quoted: false })
    }

    fn list(&self, items: impl Iterator<Item = Node>) -> Node {
        self.node(NodeValue::List(items.collect()))
    }

    fn map(&self, entries: Vec<(&str, Node)>) -> Node {
        let key = |text: &str| Key { position: self.0, text: text.to_owned() };
        self.node(NodeValue::Map(entries.into_iter().map(|(name, node)| (key(name), node)).collect()))
    }

    fn rule(&self, expanded: &Expanded<'_>) -> Node {
        let Expanded { group, rule, remote } = expanded;
        let mut entries = vec![("name", self.text(format!("{group}[{}]", rule.number)))];
        entries.extend(rule.keys.iter().map(|(key, node)| (*key, node.clone())));
        entries.extend(match remote {
            Other::Any => None,
            Other::Prefix(prefix) => Some(("remote", self.text(prefix.clone()))),
            Other::List(number) => Some(("members", self.plain(number.to_string()))),
        });
        self.map(entries)
    }
}
