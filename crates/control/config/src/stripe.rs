//! Striped bonds: what their packets get in front of them, and where they may be.

use crate::read::Reader;
use ::stripe::{EtherType, HEADER};
use schema::Value;
use wiring::Device;
use yaml_document::{Location, Node};

/// Keys of a port's policy that a striped bond has no use for.
const REFUSED: [&str; 3] = ["decapsulate", "encapsulate", "send"];

impl Reader<'_> {
    /// The EtherType of a striped bond's headers; the inner `None`: it is none. The outer one: it is wrong,
    /// which was told.
    pub(crate) fn stripe(
        &mut self,
        place: &Location<'_>,
        node: &Node,
        values: &Value,
    ) -> Option<Option<EtherType>> {
        let is_striped = values.get("balance").and_then(Value::as_text) == Some("stripe");
        let position = node.get("ether_type").map_or(place.position(), |node| node.position);
        let place = place.key("ether_type", position);
        let Some(number) = values.get("ether_type").and_then(Value::as_integer) else {
            return Some(is_striped.then(EtherType::default));
        };
        if !is_striped {
            place.report(&mut self.faults, || {
                "`ether_type` says nothing here; allowed: with `balance: stripe`".to_owned()
            });
            return None;
        }
        match EtherType::new(u16::try_from(number).unwrap_or_default()) {
            Ok(ether_type) => Some(Some(ether_type)),
            Err(error) => {
                place.report(&mut self.faults, || error.to_string());
                None
            }
        }
    }

    /// Whether the ports of a striped bond are mere links, and there is room for its headers.
    pub(crate) fn may_stripe(&mut self, place: &Location<'_>, node: &Node, device: &Device) -> bool {
        let Some((_, over)) = node.entry("over").filter(|_| device.stripe.is_some()) else { return true };
        let place = place.key("over", over.position);
        let mut good = true;
        for port in device.over.keys() {
            let policy = over.get(port);
            let given = REFUSED.iter().find_map(|key| Some((key, policy?.get(key)?.position)));
            if let Some((key, position)) = given {
                place.key(port, position).key(key, position).report(&mut self.faults, || {
                    format!("`{key}` is not for the links of a striped bond; allowed: `receive`, `priority`")
                });
                good = false;
            }
        }
        let port = device.over.keys().find_map(|port| self.wiring.ports.get(port));
        let pool = port.and_then(|port| self.wiring.tenants.get(&port.tenant)).map(|tenant| tenant.pool);
        if let Some(headroom) = pool.map(|pool| pool.headroom).filter(|room| (*room as usize) < HEADER) {
            place.report(&mut self.faults, || {
                format!(
                    "sequence headers take {HEADER} bytes, and buffers of the ports' tenant have {headroom} in front of \
                     packets; allowed: `headroom` of at least {HEADER} in its `pool`"
                )
            });
            good = false;
        }
        good
    }
}
