//! What a device is on its link: its addresses, and how it gets them.

use crate::guest_station::station_name;
use crate::read::Reader;
use crate::tunnels::{PutOn, mtu_taken};
use encapsulation::{LayerKind, LayerSettings};
use neighbours::{Mac, Prefix, Settings};
use schema::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;
use virtual_device::Mode;
use wiring::{Device, Endpoint, InterfaceStation, ON_A_LINK, Opening, PortPolicy, PortStation, TunnelEnds};
use yaml_document::{Location, Node, Position, spelling};

/// What the sequence header leaves less of the usual MTU.
const STRIPE_HEADER: u16 = ::stripe::HEADER as u16;

/// Where addresses are inside of a tunnel.
const INSIDE: &str = "with a `decapsulate` and an `encapsulate` of the same layers: one `vlan`, or a tunnel that carries \
                      frames, in one `vlan` or none";

/// What `slaac` is at a device without a guard that would tell of addresses.
const WITHOUT_GROUPS: &str = "`slaac` says nothing here; allowed: with `groups` and `zone` of the device";

/// Keys that make a device a station.
const KEYS: [&str; 4] = ["addresses", "dhcp", "multicast", "slaac"];

impl Reader<'_> {
    /// Reads what a device is on its link, or an interface that opens one; `Err`: it is wrong, which was
    /// told.
    pub(crate) fn station(
        &mut self,
        place: &Location<'_>,
        name: &str,
        node: &Node,
        values: &Value,
    ) -> Result<Option<Settings>, ()> {
        let list = |key| values.get(key).and_then(Value::as_list).unwrap_or_default();
        let dhcp = values.get("dhcp").and_then(Value::as_bool).unwrap_or(false);
        let mac = values.get("mac").and_then(Value::as_mac);
        let multicast: Vec<IpAddr> = list("multicast").iter().filter_map(Value::as_address).collect();
        let network = |value: &Value| value.as_prefix().map(|(address, length)| Prefix { address, length });
        let slaac: Vec<Prefix> = list("slaac").iter().filter_map(network).collect();
        let mut addresses = Vec::new();
        let items = node.get("addresses").and_then(Node::as_list).unwrap_or_default();
        for (n, (value, item)) in list("addresses").iter().zip(items).enumerate() {
            let text = value.as_text().unwrap_or_default();
            match prefix(text) {
                Some(prefix) => addresses.push(prefix),
                None => {
                    let list = place.key("addresses", item.position);
                    list.item(n, item.position).report(&mut self.faults, || {
                        format!(
                            "found `{}`; allowed: an address with the length of its network's prefix, such as \
                             `192.0.2.9/24` or `2001:db8::9/64`",
                            spelling::shown(text)
                        )
                    });
                    return Err(());
                }
            }
        }
        if addresses.is_empty() && !dhcp && multicast.is_empty() && slaac.is_empty() {
            // An interface that opens a device has no groups.
            let allowed = match values.get("multicast") {
                Some(_) => "`addresses`, `dhcp: true`, `slaac` or `multicast`",
                None => "`addresses`, `dhcp: true` or `slaac`",
            };
            for key in ["mac", "mtu", "gateways"] {
                if let Some(node) = node.get(key) {
                    place.key(key, node.position).report(&mut self.faults, || {
                        format!("`{key}` says nothing here; allowed: with {allowed}")
                    });
                    return Err(());
                }
            }
            return Ok(None);
        }
        let ipv6 = addresses.iter().any(|prefix| prefix.address.is_ipv6())
            || multicast.iter().any(IpAddr::is_ipv6)
            || !slaac.is_empty();
        let mtu = values.get("mtu").and_then(Value::as_integer).and_then(|mtu| u16::try_from(mtu).ok());
        let mut settings = Settings::new(mac.unwrap_or_else(|| own_mac(name)));
        settings.mtu = mtu.unwrap_or(settings.mtu);
        settings.gateways = list("gateways").iter().filter_map(Value::as_address).collect();
        if node.get("balance").and_then(Node::as_text) == Some("stripe") && node.get("mtu").is_none() {
            settings.mtu -= STRIPE_HEADER;
        }
        (settings.addresses, settings.dhcp, settings.multicast) = (addresses, dhcp, multicast);
        (settings.ipv6, settings.router_advertisements, settings.slaac) = (ipv6, ipv6, slaac);
        if let Err(error) = settings.check() {
            place.report(&mut self.faults, || error.to_string());
            return Err(());
        }
        Ok(Some(settings))
    }

    /// Reads what an interface that opens a device is on the links of that: a station of its own.
    pub(crate) fn interface_station(
        &mut self,
        place: &Location<'_>,
        (own, opening): (&Endpoint, &Opening),
        node: &Node,
        values: &Value,
    ) {
        let name = station_name(opening, own);
        if let Endpoint::Port(port) = own
            && !self.may_be_said_of_guest(place, port, node)
        {
            return;
        }
        let Ok(Some(mut settings)) = self.station(place, &name, node, values) else { return };
        if self.wiring.answers_itself(own) {
            self.own_stack(place, own, node, settings);
            return;
        }
        let Some(device) = self.wiring.devices.get(&opening.device) else { return };
        let opened = || device.ports_opened(opening);
        let not_on_a_link = opened().find_map(|(name, _)| {
            let driver = &self.wiring.ports.get(name)?.driver;
            (!ON_A_LINK.contains(&driver.as_str())).then_some((name, driver))
        });
        let not_inside = |station: PortStation| station.outside && station.inside.is_none();
        let in_tunnel = opened().find(|(_, policy)| policy.station.is_none_or(not_inside));
        let fault = match (not_on_a_link, in_tunnel) {
            _ if device.mode == Mode::Rootless => format!(
                "the device `{}` is over no port; allowed: with devices whose ports are on a link",
                opening.device
            ),
            (Some((port, driver)), _) => format!(
                "the driver of the port `{port}` of the device `{}` is `{driver}`; allowed: over ports of {}",
                opening.device,
                ON_A_LINK.join(", ")
            ),
            (None, Some((port, _))) => format!(
                "packets of the port `{port}` of the device `{}` are in tunnels; allowed: over ports without them, or \
                 {INSIDE}",
                opening.device
            ),
            (None, None) => String::new(),
        };
        if !fault.is_empty() {
            let key = KEYS.into_iter().find(|key| node.get(key).is_some()).unwrap_or("addresses");
            let position = node.get(key).map_or(place.position(), |node| node.position);
            place.key(key, position).report(&mut self.faults, || fault);
            return;
        }
        if node.get("mtu").is_none() {
            settings.mtu -= if device.stripe.is_some() { STRIPE_HEADER } else { 0 };
            settings.mtu -= taken_inside(opened().map(|(_, policy)| policy));
        }
        match own {
            Endpoint::Interface(function, number) => {
                let instance = self.wiring.instances.get_mut(function);
                instance.and_then(|instance| instance.stations.insert(*number, settings));
            }
            Endpoint::Port(port) => {
                let found = self.wiring.container_interface(port);
                let Some((name, number)) = found.map(|(name, _, number)| (name.to_owned(), number)) else {
                    return;
                };
                let container = self.wiring.containers.get_mut(&name);
                container.and_then(|container| container.stations.insert(number, settings));
            }
            Endpoint::Switch(_) | Endpoint::Device(_) => {}
        }
    }

    /// Faults of addresses, and of MAC addresses, that two stations at one device have: the device itself and
    /// interfaces that open it; and of addresses of observers, which nothing is sent to.
    pub(crate) fn stations_differ(&mut self, root_place: &Location<'_>, root: &Node) {
        let devices = root.entry("devices").map(|(_, node)| node);
        let device_at = |name: &str| devices.and_then(|node| node.get(name)).map(|node| node.position);
        // Which station has it, whose that is, and where that is said.
        let mut known: BTreeMap<(&str, String), (String, Option<&str>, Position)> = BTreeMap::new();
        let mut faults = Vec::new();
        for (name, device) in &self.wiring.devices {
            let (Some(settings), Some(at)) = (&device.station, device_at(name)) else { continue };
            if device.zone.is_none() && !settings.slaac.is_empty() {
                faults.push(root_place.key("devices", at).key(name, at).fault(WITHOUT_GROUPS.to_owned()));
            }
            for what in identities(settings) {
                known.insert((name, what), (format!("the device `{name}`"), None, at));
            }
        }
        let functions = root_place.key("functions", root_place.position());
        for edge in &self.wiring.edges {
            let Some((end, opening)) = edge.opening() else { continue };
            let Some(InterfaceStation { function, settings, .. }) = self.wiring.station_of(end) else {
                continue;
            };
            let Some(tenant_here) = self.wiring.tenant_of_opener(end) else { continue };
            let at = self.wired.get(end).map_or(root_place.position(), |(at, _)| *at);
            if self.wiring.observations.iter().any(|seen| seen.observer == end.name()) {
                faults.push(functions.key(function, at).fault(format!(
                    "`{end}` has addresses, and `{function}` is an observer; allowed: of functions that packets pass"
                )));
                continue;
            }
            let has_zone = self.wiring.devices.get(&opening.device).is_some_and(|it| it.zone.is_some());
            if !has_zone && !settings.slaac.is_empty() {
                faults.push(functions.key(function, at).fault(format!("`{end}`: {WITHOUT_GROUPS}")));
            }
            for what in identities(settings) {
                let Some((other, tenant, other_at)) = known.get(&(opening.device.as_str(), what.clone()))
                else {
                    known.insert((&opening.device, what), (format!("`{end}`"), Some(tenant_here), at));
                    continue;
                };
                // The name of another tenant's function is nothing to the one whose fault it is.
                let other = match tenant.is_none_or(|tenant| tenant == tenant_here) {
                    true => format!("{other}{}", other_at.in_line(" ")),
                    false => "another tenant's function".to_owned(),
                };
                faults.push(functions.key(function, at).fault(format!(
                    "`{end}` has {what} at the device `{}`, and so has {other}; allowed: each address once",
                    opening.device
                )));
            }
        }
        self.faults.extend(faults);
    }

    /// Whether a device that has addresses is over ports where it has neighbours. Where they are for its
    /// tunnels, it is at no port that has none.
    pub(crate) fn may_have_station(
        &mut self,
        place: &Location<'_>,
        node: &Node,
        device: &mut Device,
    ) -> bool {
        if device.station.is_none() {
            return true;
        }
        let key = KEYS.into_iter().find(|key| node.get(key).is_some()).unwrap_or("addresses");
        let position = node.get(key).map_or(place.position(), |node| node.position);
        let place = place.key(key, position);
        if device.mode == Mode::Rootless {
            place.report(&mut self.faults, || {
                "the device is over no port; allowed: for devices whose ports are on a link".to_owned()
            });
            return false;
        }
        if !device.has_station_inside() {
            for policy in device.over.values_mut().filter(|policy| !policy.has_tunnels()) {
                policy.station = None;
            }
        }
        let is_outside = !device.has_station_inside();
        for (name, policy) in device.over.iter().filter(|(_, policy)| policy.has_tunnels() || !is_outside) {
            let driver = self.wiring.ports.get(name).map(|port| port.driver.as_str());
            if driver.is_some_and(|driver| !ON_A_LINK.contains(&driver)) {
                let driver = driver.unwrap_or_default().to_owned();
                place.report(&mut self.faults, || {
                    format!(
                        "the driver of its port `{name}` is `{driver}`; allowed: over ports of {}",
                        ON_A_LINK.join(", ")
                    )
                });
                return false;
            }
            let fits = policy.station.is_some_and(|station| station.outside == is_outside);
            if !fits {
                place.report(&mut self.faults, || {
                    format!(
                        "packets of its port `{name}` are in tunnels; allowed: over ports without them, or {INSIDE}; or \
                         addresses outside of a tunnel, one of them its `local`"
                    )
                });
                return false;
            }
        }
        if let Some(station) = device.station.as_mut().filter(|_| !is_outside && node.get("mtu").is_none()) {
            station.mtu -= taken_inside(device.over.values());
        }
        true
    }
}

/// What tells a station from others on its link.
pub(crate) fn identities(settings: &Settings) -> impl Iterator<Item = String> + '_ {
    let [a, b, c, d, e, f] = settings.mac;
    let mac = format!("the MAC address {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
    settings.addresses.iter().map(|prefix| prefix.address.to_string()).chain([mac])
}

/// The addresses of a device that is read: none, or wrong, which was told.
pub(crate) type StationRead<'a> = Result<Option<&'a Settings>, ()>;

/// How a device is on the link of a port where these headers are taken off and put on, should it have
/// addresses; `None`: it is not.
pub(crate) fn port_station(
    own: Option<&Settings>,
    decapsulate: &[LayerKind],
    put_on: &PutOn,
) -> Option<PortStation> {
    let (tag, rest) = match put_on.layers.split_first() {
        Some((LayerSettings::Vlan { id, priority, service }, rest)) => {
            let ethertype = if *service { 0x88a8 } else { 0x8100 };
            (Some((ethertype, u16::from(*priority) << 13 | id)), rest)
        }
        _ => (None, put_on.layers.as_slice()),
    };
    // What a DHCP server gives may be this end of a tunnel, unless nothing is to be found out of that.
    let is_own = |own: &Settings, local| {
        own.dhcp && !put_on.is_linked || own.addresses.iter().any(|prefix| prefix.address == local)
    };
    let is_local = |local| own.is_some_and(|own| is_own(own, local));
    let inside = inside_of(rest, decapsulate, put_on);
    match (rest, tag, decapsulate) {
        ([], None, []) | ([], Some(_), [LayerKind::Vlan]) => {
            Some(PortStation { tag, ..PortStation::default() })
        }
        ([tunnel, ..], ..) if tunnel.outer().is_some_and(|outer| is_local(outer.local)) => {
            Some(PortStation { tag, outside: true, remote: put_on.remote, inside })
        }
        _ => inside.map(|_| PortStation { tag, inside, ..PortStation::default() }),
    }
}

/// The tunnel that addresses of functions can be inside of, where these headers are taken off and put on: one
/// that carries frames, in a VLAN or none, of which both say the same.
fn inside_of(rest: &[LayerSettings], decapsulate: &[LayerKind], put_on: &PutOn) -> Option<TunnelEnds> {
    let [tunnel] = rest else { return None };
    let outer = tunnel.outer().filter(|_| tunnel.carries_frames())?;
    let is_same = put_on.layers.iter().map(LayerSettings::kind).eq(decapsulate.iter().copied());
    is_same.then_some(TunnelEnds { key: tunnel.key(), local: outer.local, remote: outer.remote })
}

/// Bytes that a tunnel takes of the MTU of the links of these ports, of what is inside of it.
fn taken_inside<'a>(policies: impl Iterator<Item = &'a PortPolicy>) -> u16 {
    let inside = policies.filter(|policy| policy.station.is_some_and(|station| station.inside.is_some()));
    let taken = inside.filter_map(|policy| u16::try_from(mtu_taken(policy.encapsulate.as_ref()?)).ok());
    taken.max().unwrap_or(0)
}

/// An address with the length of its network's prefix.
pub(crate) fn prefix(text: &str) -> Option<Prefix> {
    let (address, length) = text.split_once('/')?;
    let is_plain = length.bytes().all(|digit| digit.is_ascii_digit());
    let length = length.parse().ok().filter(|_| is_plain)?;
    Some(Prefix { address: address.parse().ok()?, length })
}

/// A MAC address for a device, locally administered: the same for one host and name, so that neighbours know
/// it again after a restart.
pub(crate) fn own_mac(name: &str) -> Mac {
    let host = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    // FNV-1a.
    let hash =
        host.trim().bytes().chain([0]).chain(name.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
    let [a, b, c, d, e, ..] = hash.to_le_bytes();
    [0x02, a, b, c, d, e]
}
