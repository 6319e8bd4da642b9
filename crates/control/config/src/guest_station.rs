//! What an interface of a container, a program or a virtual machine is on the link of a device that it opens.
//!
//! | interface | who answers for its addresses | where they are said |
//! |---|---|---|
//! | of the guest's kernel: `veth`, `tap`, `af_xdp` | the guest's kernel, which is given them | under `interfaces`, or under `attach` |
//! | of a virtual machine | the machine's kernel, which is given them by the machine's own means | under `attach` |
//! | `library`, `memif`, `vhost-user` | the platform, as for functions in the sandbox | under `attach` |
//!
//! Where the guest answers, the platform needs to know what it has for security groups alone. A process by
//! the library is told of its device and of neighbours as a function in the sandbox is, so that the same may
//! be said of it; by `memif` and `vhost-user` nothing is told, so that there is nothing to say of routers and
//! of addresses that come later.

use crate::read::Reader;
use crate::station::{own_mac, prefix};
use crate::virtual_machine::mac_of;
use neighbours::{Mac, Prefix, Settings};
use std::net::IpAddr;
use wiring::{ContainerInterface, ContainerKind, Edge, Endpoint, InterfaceKind, Opening};
use yaml_document::{Location, Node};

/// Most addresses of an interface that the launcher makes.
const ADDRESSES_MAX: usize = 16;

/// What no program by shared memory alone is told of, nor a virtual machine; and what the kernel of neither
/// is given.
const NOT_TOLD: [&str; 3] = ["dhcp", "mtu", "slaac"];
const NOT_GIVEN: [&str; 1] = ["gateways"];

/// What the Ethernet address of an interface at a device is made of.
pub(crate) fn station_name(opening: &Opening, own: &Endpoint) -> String {
    format!("{}/{own}", opening.device)
}

/// Why an address is not that of a router on an interface's link, if it is not.
fn why_not_near(interface: &ContainerInterface, gateway: IpAddr) -> Option<String> {
    let own: Vec<Prefix> = interface.addresses.iter().filter_map(|it| prefix(it)).collect();
    if own.iter().any(|prefix| prefix.address == gateway) {
        return Some(format!("found {gateway}, which is its own; allowed: the address of another station"));
    }
    // Routers of IPv6 are best known by addresses of the link.
    let is_of_link = matches!(gateway, IpAddr::V6(address) if address.is_unicast_link_local())
        && own.iter().any(|prefix| prefix.address.is_ipv6());
    let is_near = is_of_link || own.iter().any(|prefix| prefix.contains(gateway));
    (!is_near).then(|| {
        format!(
            "found {gateway}, which is in no network of the interface's `addresses`; allowed: a router on its link, such as \
             192.0.2.1 with 192.0.2.9/24"
        )
    })
}

impl Reader<'_> {
    /// Whether what is said of a container's interface at a device means something.
    pub(crate) fn may_be_said_of_guest(&mut self, place: &Location<'_>, port: &str, node: &Node) -> bool {
        let Some((_, container, number)) = self.wiring.container_interface(port) else { return false };
        let is_vm = container.kind == ContainerKind::Vm;
        let as_what = container.interfaces.get(usize::from(number)).map(|it| it.kind);
        if !is_vm && as_what == Some(InterfaceKind::Library) {
            return true;
        }
        let kind = container.kind.as_str();
        let own = is_vm.then_some("mac");
        // Routes are the kernel's that the launcher gives its addresses.
        let has_routes = !is_vm && container.answers_itself(number);
        let not_given = NOT_GIVEN.into_iter().filter(|_| !has_routes);
        let mut keys = NOT_TOLD.into_iter().chain(not_given).chain(own);
        let Some((key, given)) = keys.find_map(|key| Some((key, node.get(key)?))) else {
            return true;
        };
        place.key(key, given.position).report(&mut self.faults, || {
            let allowed = match (is_vm, has_routes) {
                (true, _) => "`addresses`",
                (false, true) => "`addresses`, `gateways` and `mac`",
                (false, false) => "`addresses` and `mac`",
            };
            format!("`{key}` says nothing of the interface of a {kind}; allowed: {allowed}")
        });
        false
    }

    /// Addresses that an interface has for which its guest answers: the launcher gives the guest's kernel
    /// these.
    pub(crate) fn own_stack(
        &mut self,
        place: &Location<'_>,
        own: &Endpoint,
        node: &Node,
        settings: Settings,
    ) {
        let Endpoint::Port(port) = own else { return };
        let Some((name, container, number)) = self.wiring.container_interface(port) else { return };
        let name = name.to_owned();
        if container.kind == ContainerKind::Vm {
            let mac = container.interfaces.get(usize::from(number)).map(|it| mac_of(&name, &it.name));
            let settings = Settings { mac: mac.unwrap_or(settings.mac), ..settings };
            let container = self.wiring.containers.get_mut(&name);
            container.and_then(|container| container.stations.insert(number, settings));
            return;
        }
        let container = self.wiring.containers.get_mut(&name);
        let Some(interface) = container.and_then(|it| it.interfaces.get_mut(usize::from(number))) else {
            return;
        };
        if let Some(given) = node.get("mac") {
            if interface.mac.is_some_and(|mac| mac != settings.mac) {
                place.key("mac", given.position).report(&mut self.faults, || {
                    format!("found another `mac` than under `interfaces` of `{name}`; allowed: one of both")
                });
                return;
            }
            interface.mac = Some(settings.mac);
        }
        for address in &settings.addresses {
            let text = address.to_string();
            if !interface.addresses.iter().filter_map(|it| prefix(it)).any(|there| there == *address) {
                interface.addresses.push(text);
            }
        }
        for gateway in &settings.gateways {
            if !interface.gateways.contains(gateway) {
                interface.gateways.push(*gateway);
            }
        }
        let found = interface.addresses.len();
        if found > ADDRESSES_MAX {
            let at = node.get("addresses").map_or(place.position(), |node| node.position);
            place.key("addresses", at).report(&mut self.faults, || {
                format!(
                    "found {found} addresses, with those under `interfaces` of `{name}`; allowed: at most \
                     {ADDRESSES_MAX}"
                )
            });
        }
    }

    /// Faults of routers that guests' kernels are given: each is on a link where its guest has addresses, and
    /// there is one of each version of IP.
    pub(crate) fn guest_gateways(&mut self, root_place: &Location<'_>, root: &Node) {
        let (at, functions) = root
            .entry("functions")
            .map_or((root_place.position(), None), |(_, node)| (node.position, Some(node)));
        let section = root_place.key("functions", at);
        let mut faults = Vec::new();
        for (name, container) in &self.wiring.containers {
            let node = functions.and_then(|node| node.get(name));
            let place = section.key(name, node.map_or(at, |node| node.position));
            let mut ways: [Option<IpAddr>; 2] = [None; 2];
            for interface in &container.interfaces {
                for gateway in &interface.gateways {
                    let way = &mut ways[usize::from(gateway.is_ipv6())];
                    let version = if gateway.is_ipv4() { "IPv4" } else { "IPv6" };
                    let second = |other: IpAddr| {
                        format!(
                            "found {gateway}, and {other} is the guest's router of {version}; allowed: one"
                        )
                    };
                    let wrong = why_not_near(interface, *gateway).or(way.map(second));
                    way.get_or_insert(*gateway);
                    let Some(reason) = wrong else { continue };
                    // Under `interfaces`, or under `attach`.
                    let said = ["interfaces", "attach"].into_iter().find_map(|part| {
                        let gateways = node?.get(part)?.get(&interface.name)?.get("gateways")?;
                        let list = gateways.as_list().unwrap_or_default();
                        let is_it =
                            |item: &Node| item.as_text().and_then(|text| text.parse().ok()) == Some(*gateway);
                        list.iter().any(is_it).then_some((part, gateways.position))
                    });
                    let (part, position) = said.unwrap_or(("interfaces", place.position()));
                    let part = place.key(part, position);
                    faults.push(part.key(&interface.name, position).key("gateways", position).fault(reason));
                }
            }
        }
        self.faults.extend(faults);
    }

    /// Notes what interfaces of guests' kernels are on the links of the devices that they open. Their
    /// Ethernet address is given to them, because guards have to know it.
    pub(crate) fn guest_stations(&mut self, root_place: &Location<'_>) {
        let openings = self.wiring.edges.iter().filter_map(Edge::opening);
        let openings: Vec<(Endpoint, Opening)> =
            openings.map(|(end, opening)| (end.clone(), opening.clone())).collect();
        for (end, opening) in openings {
            let Endpoint::Port(port) = &end else { continue };
            let Some((name, container, number)) = self.wiring.container_interface(port) else { continue };
            if container.kind == ContainerKind::Vm || !container.answers_itself(number) {
                continue;
            }
            let name = name.to_owned();
            let Some(container) = self.wiring.containers.get_mut(&name) else { continue };
            let Some(interface) = container.interfaces.get_mut(usize::from(number)) else { continue };
            let addresses: Vec<Prefix> = interface.addresses.iter().filter_map(|it| prefix(it)).collect();
            if addresses.is_empty() {
                continue;
            }
            let mac: Mac = *interface.mac.get_or_insert_with(|| own_mac(&station_name(&opening, &end)));
            let mut settings = Settings::new(mac);
            settings.ipv6 = addresses.iter().any(|prefix| prefix.address.is_ipv6());
            settings.addresses = addresses;
            if let Err(error) = settings.check() {
                let at = self.wired.get(&end).map_or(root_place.position(), |(at, _)| *at);
                let functions = root_place.key("functions", root_place.position());
                let place = functions.key(&name, at);
                place.report(&mut self.faults, || format!("`{end}`: {error}"));
                continue;
            }
            container.stations.insert(number, settings);
        }
    }
}
