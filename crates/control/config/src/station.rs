//! What a device is on its link: its addresses, and how it gets them.

use crate::read::Reader;
use crate::tunnels::PutOn;
use encapsulation::{LayerKind, LayerSettings};
use neighbours::{Mac, Prefix, Settings};
use schema::Value;
use std::net::IpAddr;
use virtual_device::Mode;
use wiring::{Device, PortStation};
use yaml_document::{Location, Node, spelling};

/// Drivers whose ports are on a link with neighbours.
const ON_A_LINK: [&str; 3] = ["af_packet", "af_xdp", "tap"];

/// Keys that make a device a station.
const KEYS: [&str; 3] = ["addresses", "dhcp", "multicast"];

impl Reader<'_> {
    /// Reads what a device is on its link; `Err`: it is wrong, which was told.
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
        if addresses.is_empty() && !dhcp && multicast.is_empty() {
            for key in ["mac", "mtu", "gateways"] {
                if let Some(node) = node.get(key) {
                    place.key(key, node.position).report(&mut self.faults, || {
                        format!("`{key}` says nothing here; allowed: with `addresses`, `dhcp: true` or `multicast`")
                    });
                    return Err(());
                }
            }
            return Ok(None);
        }
        let ipv6 =
            addresses.iter().any(|prefix| prefix.address.is_ipv6()) || multicast.iter().any(IpAddr::is_ipv6);
        let mtu = values.get("mtu").and_then(Value::as_integer).and_then(|mtu| u16::try_from(mtu).ok());
        let mut settings = Settings::new(mac.unwrap_or_else(|| own_mac(name)));
        settings.mtu = mtu.unwrap_or(settings.mtu);
        settings.gateways = list("gateways").iter().filter_map(Value::as_address).collect();
        if node.get("balance").and_then(Node::as_text) == Some("stripe") && node.get("mtu").is_none() {
            // What links of the usual MTU leave beside the sequence header.
            settings.mtu -= ::stripe::HEADER as u16;
        }
        (settings.addresses, settings.dhcp, settings.multicast) = (addresses, dhcp, multicast);
        (settings.ipv6, settings.router_advertisements) = (ipv6, ipv6);
        if let Err(error) = settings.check() {
            place.report(&mut self.faults, || error.to_string());
            return Err(());
        }
        Ok(Some(settings))
    }

    /// Whether a device that has addresses is over ports where it has neighbours. Where they are for its tunnels, it is
    /// at no port that has none.
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
                        "packets of its port `{name}` are in tunnels; allowed: over ports without them, or with \
                         `decapsulate: [vlan]` and one `vlan` as `encapsulate`; or addresses outside of a tunnel, one of them its \
                         `local`"
                    )
                });
                return false;
            }
        }
        true
    }
}

/// The addresses of a device that is read: none, or wrong, which was told.
pub(crate) type StationRead<'a> = Result<Option<&'a Settings>, ()>;

/// How a device with addresses is on the link of a port where these headers are taken off and put on; `None`: it is
/// not.
pub(crate) fn port_station(own: &Settings, decapsulate: &[LayerKind], put_on: &PutOn) -> Option<PortStation> {
    let (tag, rest) = match put_on.layers.split_first() {
        Some((LayerSettings::Vlan { id, priority, service }, rest)) => {
            let ethertype = if *service { 0x88a8 } else { 0x8100 };
            (Some((ethertype, u16::from(*priority) << 13 | id)), rest)
        }
        _ => (None, put_on.layers.as_slice()),
    };
    let is_local = |local| own.dhcp || own.addresses.iter().any(|prefix| prefix.address == local);
    match (rest, tag, decapsulate) {
        ([], None, []) | ([], Some(_), [LayerKind::Vlan]) => {
            Some(PortStation { tag, ..PortStation::default() })
        }
        ([tunnel, ..], ..) if tunnel.outer().is_some_and(|outer| is_local(outer.local)) => {
            Some(PortStation { tag, outside: true, remote: put_on.remote })
        }
        _ => None,
    }
}

/// An address with the length of its network's prefix.
fn prefix(text: &str) -> Option<Prefix> {
    let (address, length) = text.split_once('/')?;
    let is_plain = length.bytes().all(|digit| digit.is_ascii_digit());
    let length = length.parse().ok().filter(|_| is_plain)?;
    Some(Prefix { address: address.parse().ok()?, length })
}

/// A MAC address for a device, locally administered: the same for one host and name, so that neighbours know it
/// again after a restart.
fn own_mac(name: &str) -> Mac {
    let host = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    // FNV-1a.
    let hash =
        host.trim().bytes().chain([0]).chain(name.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
    let [a, b, c, d, e, ..] = hash.to_le_bytes();
    [0x02, a, b, c, d, e]
}
