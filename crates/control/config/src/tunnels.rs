//! Reading the headers that devices take off and put on at ports.

use crate::format::layer_schemas;
use crate::read::Reader;
use encapsulation::{Encapsulation, LayerKind, LayerSettings, Outer};
use schema::Value;
use wiring::Device;
use yaml_document::{Location, Node, spelling};

/// What is taken off.
pub(crate) fn layers(policy: &Value) -> Vec<LayerKind> {
    let named = policy.get("decapsulate").and_then(Value::as_list).unwrap_or_default();
    named.iter().filter_map(Value::as_text).filter_map(LayerKind::of_name).collect()
}

impl Reader<'_> {
    /// What is put on; the inner `None`: nothing.
    pub(crate) fn encapsulate(
        &mut self,
        place: &Location<'_>,
        policy: &Node,
    ) -> Option<Option<Encapsulation>> {
        let Some((_, node)) = policy.entry("encapsulate") else { return Some(None) };
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
        let layers: Option<Vec<LayerSettings>> = items
            .iter()
            .enumerate()
            .map(|(n, item)| self.layer(&place.item(n, item.position), item))
            .collect::<Vec<_>>()
            .into_iter()
            .collect();
        match Encapsulation::new(&layers?) {
            Ok(_) if items.is_empty() => Some(None),
            Ok(encapsulation) => Some(Some(encapsulation)),
            Err(error) => {
                place.report(&mut self.faults, || error.to_string());
                None
            }
        }
    }

    fn layer(&mut self, place: &Location<'_>, item: &Node) -> Option<LayerSettings> {
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
        let number = |key| values.get(key).and_then(Value::as_integer).and_then(|it| u32::try_from(it).ok());
        let small = |key| number(key).and_then(|it| u8::try_from(it).ok());
        let flag = |key| values.get(key).and_then(Value::as_bool);
        let mac = |key| values.get(key).and_then(Value::as_mac);
        if *kind == LayerKind::Gre {
            for key in ["local_mac", "remote_mac"] {
                if flag("frames") == Some(true) && mac(key).is_none() {
                    place.report(&mut self.faults, || {
                        format!("the required key `{key}` is missing; allowed without it: `frames: false`")
                    });
                    return None;
                }
            }
        }
        let outer = || -> Option<Outer> {
            Some(Outer {
                local: values.get("local").and_then(Value::as_address)?,
                remote: values.get("remote").and_then(Value::as_address)?,
                ttl: small("ttl")?,
                services: small("dscp"),
                dont_fragment: !flag("fragment")?,
                link: (mac("remote_mac").unwrap_or_default(), mac("local_mac").unwrap_or_default()),
            })
        };
        Some(match kind {
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
        })
    }

    /// Faults of what a device's ports say of each other and of the packets' memory: of a port in `send` that is
    /// none of the device's, and of headers for which a pool has no room.
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
            if let Some(headroom) = headroom.filter(|headroom| (*headroom as usize) < needed) {
                place.key("encapsulate", position("encapsulate")).report(&mut self.faults, || {
                    format!(
                        "the headers take {needed} bytes, and buffers of the port's tenant have {headroom} in front of \
                         packets; allowed: `headroom` of at least {needed} in its `pool`"
                    )
                });
            }
        }
    }
}
