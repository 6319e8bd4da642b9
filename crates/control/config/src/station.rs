//! What a device is on its link: its addresses, and how it gets them.

use crate::read::Reader;
use neighbours::{Mac, Prefix, Settings};
use schema::Value;
use std::net::IpAddr;
use virtual_device::Mode;
use wiring::Device;
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
            for key in ["mac", "mtu"] {
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
        (settings.addresses, settings.dhcp, settings.multicast) = (addresses, dhcp, multicast);
        (settings.ipv6, settings.router_advertisements) = (ipv6, ipv6);
        if let Err(error) = settings.check() {
            place.report(&mut self.faults, || error.to_string());
            return Err(());
        }
        Ok(Some(settings))
    }

    /// Whether a device that has addresses is over ports where it has neighbours.
    pub(crate) fn may_have_station(&mut self, place: &Location<'_>, node: &Node, device: &Device) -> bool {
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
        for (name, policy) in &device.over {
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
            if policy.has_tunnels() {
                place.report(&mut self.faults, || {
                    format!("packets of its port `{name}` are in tunnels; allowed: over ports without them")
                });
                return false;
            }
        }
        true
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
