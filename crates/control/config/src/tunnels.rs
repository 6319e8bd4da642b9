//! Reading the headers that devices take off and put on at ports.

use crate::format::layer_schemas;
use crate::read::Reader;
use crate::station::StationRead;
use capture::Filter;
use encapsulation::{Encapsulation, LayerKind, LayerSettings, Outer};
use neighbours::{Settings, is_unicast};
use schema::Value;
use std::net::IpAddr;
use wiring::{Device, is_impossible};
use yaml_document::{Location, Node, spelling};

/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// What is to be left of an MTU beside headers that are put on: what each station of IPv4 takes (RFC 791,
/// section 3.1).
const LEAST_MTU: u64 = 576;

/// What is taken off.
pub(crate) fn layers(policy: &Value) -> Vec<LayerKind> {
    let named = policy.get("decapsulate").and_then(Value::as_list).unwrap_or_default();
    named.iter().filter_map(Value::as_text).filter_map(LayerKind::of_name).collect()
}

/// What a filter of the first layer that is taken off says, where a filter can say it without a word that
/// makes what follows mean the inside.
fn first_layer(kind: LayerKind) -> Option<&'static str> {
    Some(match kind {
        LayerKind::Vxlan => "udp dst port 4789",
        LayerKind::Geneve => "udp dst port 6081",
        LayerKind::Gre | LayerKind::Nvgre => "ip proto 47 or ip6 proto 47",
        LayerKind::IpIp => "ip proto 4 or ip proto 41 or ip6 proto 4 or ip6 proto 41",
        LayerKind::Vlan | LayerKind::Mpls => return None,
    })
}

/// Whether a packet that fits `receive` can have this layer outermost; if that is not known, it can.
fn may_have(receive: &Filter, kind: LayerKind) -> bool {
    let Some(layer) = first_layer(kind) else { return true };
    let Ok(filter) = Filter::parse(&format!("({layer}) and ({})", receive.text())) else { return true };
    !is_impossible(filter)
}

/// The first key of a tunnel's ends that cannot be what it says, and what may be there.
fn impossible_end(values: &Value) -> Option<(&'static str, &'static str)> {
    let (local, remote) = (values.get("local")?.as_address()?, values.get("remote")?.as_address()?);
    let mac = |key| values.get(key).and_then(Value::as_mac);
    let is_station = |mac: [u8; 6]| mac != [0; 6] && mac[0] & 1 == 0;
    let is_group = remote.is_multicast();
    if !is_unicast(local) {
        Some(("local", "the address of one host"))
    } else if !is_unicast(remote) && !is_group {
        Some(("remote", "the address of one host, or of a group"))
    } else if local == remote {
        Some(("remote", "the address of the other end, which `local` is not"))
    } else if mac("local_mac").is_some_and(|mac| !is_station(mac)) {
        Some(("local_mac", "the address of one station, not zero"))
    } else if mac("remote_mac").is_some_and(|mac| mac == [0; 6] || !is_station(mac) && !is_group) {
        Some((
            "remote_mac",
            "the address of one station, not zero, or, where `remote` is a group, of a group",
        ))
    } else {
        None
    }
}

/// What is put on; nothing without layers.
#[derive(Debug, Default)]
pub(crate) struct PutOn {
    pub(crate) layers: Vec<LayerSettings>,
    pub(crate) encapsulation: Option<Encapsulation>,
    /// The other end of the tunnel, if it is to be found out where packets for that go.
    pub(crate) remote: Option<IpAddr>,
    /// Both Ethernet addresses of the outermost tunnel are given.
    pub(crate) is_linked: bool,
}

/// Whether a device can find out where packets of a tunnel go.
fn finds_next_hop(own: &Settings, local: IpAddr, remote: IpAddr) -> Result<(), String> {
    if own.dhcp && local.is_ipv4() {
        return Ok(());
    }
    if !own.addresses.iter().any(|prefix| prefix.address == local) {
        return Err(format!(
            "`local` is {local}, which is none of the device's addresses; allowed: one of them, or `local_mac` and \
             `remote_mac`"
        ));
    }
    let on_link = own.addresses.iter().any(|prefix| prefix.contains(remote));
    // Routers of IPv6 tell of themselves.
    let routed = remote.is_ipv6() || own.gateways.iter().any(IpAddr::is_ipv4);
    if on_link || routed {
        return Ok(());
    }
    Err(format!(
        "`remote` is {remote}, which is in no network of the device; allowed: with `gateways` of the device, or with \
         `remote_mac`"
    ))
}

/// Bytes of a link's MTU that headers take. Tags outside of all else do not count (IEEE 802.3, section
/// 3.2.7).
pub(crate) fn mtu_taken(encapsulate: &Encapsulation) -> usize {
    let tags = encapsulate.layers().take_while(|layer| *layer == LayerKind::Vlan).count();
    encapsulate.overhead() - tags * TAG
}

/// Why packets of a port with this MTU have no room for headers in front of what a device's functions send;
/// `None`: they have.
fn too_small(device: &Device, encapsulate: &Encapsulation, mtu: u64) -> Option<String> {
    let taken = mtu_taken(encapsulate) as u64;
    let left = mtu.saturating_sub(taken);
    let told = device.station.as_ref().filter(|_| device.has_station_inside()).map(|station| station.mtu);
    match told.map(u64::from) {
        Some(told) if left < told => Some(format!(
            "the headers take {taken} bytes of the port's `mtu` of {mtu}, which leaves {left}, and functions are told {told}; \
             allowed: `mtu: {left}` of the device, or `mtu: {}` of the port",
            told + taken
        )),
        None if left < LEAST_MTU => Some(format!(
            "the headers take {taken} bytes of the port's `mtu` of {mtu}, which leaves {left}; allowed: `mtu` of the port of at \
             least {}",
            LEAST_MTU + taken
        )),
        _ => None,
    }
}

impl Reader<'_> {
    /// What is taken off what fits `receive`. Layers that no packet has one in the other are refused, and of
    /// a first one that no packet has that fits, there is a warning.
    pub(crate) fn decapsulate(
        &mut self,
        place: &Location<'_>,
        policy: &Node,
        layers: &[LayerKind],
        receive: Option<&Filter>,
    ) -> Option<()> {
        let Some((_, node)) = policy.entry("decapsulate") else { return Some(()) };
        let place = place.key("decapsulate", node.position);
        // What is in IP is no frame, and its type is that of IP.
        let inside = layers.iter().zip(layers.iter().skip(1)).position(|(around, layer)| {
            *around == LayerKind::IpIp && matches!(layer, LayerKind::Vlan | LayerKind::Mpls)
        });
        if let Some(around) = inside {
            let at = node.as_list().and_then(|items| items.get(around + 1)).unwrap_or(node);
            place.item(around + 1, at.position).report(&mut self.faults, || {
                format!("{} inside of ipip; allowed there: gre, nvgre, vxlan, geneve, ipip", at.found())
            });
            return None;
        }
        if let (Some(kind), Some(receive)) = (layers.first(), receive)
            && !may_have(receive, *kind)
        {
            place.report(&mut self.warnings, || {
                format!(
                    "no packet that `receive` lets in has {kind} in front ({}); what comes is dropped (bad-tunnel)",
                    first_layer(*kind).unwrap_or_default()
                )
            });
        }
        Some(())
    }

    /// What is put on.
    pub(crate) fn encapsulate(
        &mut self,
        place: &Location<'_>,
        policy: &Node,
        station: StationRead<'_>,
    ) -> Option<PutOn> {
        let Some((_, node)) = policy.entry("encapsulate") else { return Some(PutOn::default()) };
        let place = place.key("encapsulate", node.position);
        let Some(items) = node.as_list() else {
            place.report(&mut self.faults, || {
                format!(
                    "{}; allowed: a list of layers, outermost first, such as `[{{vlan: {{id: 7}}}}]`",
                    node.found()
                )
            });
            return None;
        };
        let mut put_on = PutOn::default();
        let mut good = true;
        for (n, item) in items.iter().enumerate() {
            // Frames of a tunnel that stands in one VLAN or none are on the device's own link.
            let is_on_link = match put_on.layers.as_slice() {
                [] | [LayerSettings::Vlan { .. }] => n == put_on.layers.len(),
                _ => false,
            };
            match self.layer(&place.item(n, item.position), item, (station, is_on_link)) {
                Some((layer, remote, is_linked)) => {
                    put_on.layers.push(layer);
                    put_on.remote = put_on.remote.or(remote);
                    put_on.is_linked |= is_linked && is_on_link;
                }
                None => good = false,
            }
        }
        if !good || items.is_empty() {
            return good.then_some(put_on);
        }
        match Encapsulation::new(&put_on.layers) {
            Ok(encapsulation) => {
                put_on.encapsulation = Some(encapsulation);
                Some(put_on)
            }
            Err(error) => {
                place.report(&mut self.faults, || error.to_string());
                None
            }
        }
    }

    /// A layer, the other end of it if where packets for that go is to be found out, and whether both of its
    /// Ethernet addresses are given.
    fn layer(
        &mut self,
        place: &Location<'_>,
        item: &Node,
        (station, is_on_link): (StationRead<'_>, bool),
    ) -> Option<(LayerSettings, Option<IpAddr>, bool)> {
        let names = || LayerKind::ALL.map(LayerKind::name);
        let Some([(key, node)]) = item.as_map() else {
            place.report(&mut self.faults, || {
                format!(
                    "{}; allowed: a map of one key, of these: {}",
                    item.found(),
                    spelling::listed(names())
                )
            });
            return None;
        };
        let Some((kind, schema)) = layer_schemas().iter().find(|(kind, _)| kind.name() == key.text) else {
            place.key(&key.text, key.position).report(&mut self.faults, || {
                let choices = spelling::choices(&key.text, names());
                format!("no layer is named `{}`{choices}", spelling::shown(&key.text))
            });
            return None;
        };
        let place = place.key(&key.text, node.position);
        let given = Some(node).filter(|node| !node.is_null());
        let values = schema.check_at(&place, given, &[], &mut self.faults)?;
        if let Some((key, allowed)) = impossible_end(&values) {
            let end = node.get(key)?;
            place.key(key, end.position).report(&mut self.faults, || {
                format!("found `{}`; allowed: {allowed}", spelling::shown(end.as_text().unwrap_or_default()))
            });
            return None;
        }
        let number = |key| values.get(key).and_then(Value::as_integer).and_then(|it| u32::try_from(it).ok());
        let small = |key| number(key).and_then(|it| u8::try_from(it).ok());
        let flag = |key| values.get(key).and_then(Value::as_bool);
        let mac = |key| values.get(key).and_then(Value::as_mac);
        let has_link = match kind {
            LayerKind::Vlan | LayerKind::Mpls | LayerKind::IpIp => false,
            LayerKind::Gre => flag("frames") == Some(true),
            LayerKind::Nvgre | LayerKind::Vxlan | LayerKind::Geneve => true,
        };
        let (mut local_mac, mut remote) = (mac("local_mac"), None);
        let is_linked = has_link && local_mac.is_some() && mac("remote_mac").is_some();
        if has_link {
            let own = station.ok().flatten().filter(|_| is_on_link);
            local_mac = local_mac.or(own.map(|own| own.mac));
            let missing = ["local_mac", "remote_mac"].into_iter().find(|key| mac(key).is_none());
            match (own, missing) {
                (_, None) => {}
                (Some(_), Some("local_mac")) if mac("remote_mac").is_some() => {}
                (Some(own), Some(_)) => {
                    let end = |key| values.get(key).and_then(Value::as_address);
                    let (near, far) = (end("local")?, end("remote")?);
                    if let Err(fault) = finds_next_hop(own, near, far) {
                        place.report(&mut self.faults, || fault);
                        return None;
                    }
                    remote = Some(far);
                }
                // What is wrong with the device's addresses has been told.
                (None, Some(_)) if station.is_err() => return None,
                (None, Some(key)) => {
                    let no_frames = if *kind == LayerKind::Gre { "`frames: false`, or " } else { "" };
                    place.report(&mut self.faults, || {
                        format!(
                            "the required key `{key}` is missing; allowed without it: {no_frames}the outermost tunnel of a \
                             device with `addresses`, `local` among them, or with `dhcp: true`"
                        )
                    });
                    return None;
                }
            }
        }
        let outer = || -> Option<Outer> {
            let local = values.get("local").and_then(Value::as_address)?;
            Some(Outer {
                local,
                remote: values.get("remote").and_then(Value::as_address)?,
                ttl: small("ttl")?,
                services: small("dscp"),
                dont_fragment: !flag("fragment")?,
                checksum: flag("checksum").unwrap_or(local.is_ipv6()),
                link: (mac("remote_mac").unwrap_or_default(), local_mac.unwrap_or_default()),
            })
        };
        let layer = match kind {
            LayerKind::Vlan => LayerSettings::Vlan {
                id: u16::try_from(number("id")?).ok()?,
                priority: small("priority")?,
                service: flag("service")?,
            },
            LayerKind::Mpls => {
                LayerSettings::Mpls { label: number("label")?, class: small("class")?, ttl: small("ttl")? }
            }
            LayerKind::Gre => {
                LayerSettings::Gre { key: number("key"), frames: flag("frames")?, outer: outer()? }
            }
            LayerKind::Nvgre => LayerSettings::Nvgre { subnet: number("subnet")?, outer: outer()? },
            LayerKind::Vxlan => LayerSettings::Vxlan { vni: number("vni")?, outer: outer()? },
            LayerKind::Geneve => LayerSettings::Geneve { vni: number("vni")?, outer: outer()? },
            LayerKind::IpIp => LayerSettings::IpIp { outer: outer()? },
        };
        Some((layer, remote, is_linked))
    }

    /// Faults of what a device's ports say of each other and of the packets' memory: of a port in `send` that
    /// is none of the device's, and of headers for which a pool or the port's packets have no room.
    pub(crate) fn sends(&mut self, place: &Location<'_>, node: &Node, device: &Device) {
        let Some((_, over)) = node.entry("over") else { return };
        let over_place = place.key("over", over.position);
        for (port, policy) in &device.over {
            let at = over.get(port).map_or(over.position, |node| node.position);
            let place = over_place.key(port, at);
            let position =
                |key: &str| over.get(port).and_then(|node| node.get(key)).map_or(at, |node| node.position);
            if let Some(send) = policy.send.as_ref().filter(|send| !device.over.contains_key(*send)) {
                place.key("send", position("send")).report(&mut self.faults, || {
                    let ports: Vec<&str> = device.over.keys().map(String::as_str).collect();
                    format!(
                        "`{}` is no port of this device{}",
                        spelling::shown(send),
                        spelling::choices(send, ports)
                    )
                });
            }
            let Some(encapsulate) = policy.encapsulate else { continue };
            let tenant = self.wiring.ports.get(port).map(|port| &port.tenant);
            let pool = tenant.and_then(|tenant| self.wiring.tenants.get(tenant)).map(|tenant| tenant.pool);
            let (needed, headroom) = (encapsulate.overhead(), pool.map(|pool| pool.headroom));
            let too_small = if let Some(headroom) = headroom.filter(|headroom| (*headroom as usize) < needed)
            {
                Some(format!(
                    "the headers take {needed} bytes, and buffers of the port's tenant have {headroom} in front of \
                     packets; allowed: `headroom` of at least {needed} in its `pool`"
                ))
            } else {
                let port = self.wiring.ports.get(port);
                let mtu = port.and_then(|port| port.settings.get("mtu")).and_then(Value::as_integer);
                mtu.and_then(|mtu| too_small(device, &encapsulate, u64::try_from(mtu).ok()?))
            };
            if let Some(fault) = too_small {
                place.key("encapsulate", position("encapsulate")).report(&mut self.faults, || fault);
            }
        }
    }
}
