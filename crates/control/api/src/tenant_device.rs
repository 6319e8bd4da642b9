//! Devices that tenants make for themselves: what a tenant may say of one. All else of a device is an
//! administrator's to say, and a device of which such a thing is said is an administrator's to change.

use serde_json::Value;

/// Keys of a device that a tenant may say. What is not here joins tenants (`open_to`), or binds a tenant
/// (`groups`, `zone`, `slaac`).
pub const TENANT_KEYS: [&str; 13] = [
    "mode",
    "tenant",
    "over",
    "balance",
    "gap",
    "ether_type",
    "share",
    "addresses",
    "mac",
    "mtu",
    "dhcp",
    "gateways",
    "multicast",
];

/// Keys of a device's port that a tenant may say. What is not here makes places beside the packets of all
/// tenants for headers that are taken off, or puts on what was taken off in another's network.
pub const TENANT_PORT_KEYS: [&str; 3] = ["receive", "priority", "send"];

/// The keys of a device's spec that are an administrator's to say, each with its place (`groups`,
/// `over.lan.decapsulate`) and what a tenant may say there.
pub fn kept_from_tenants(spec: &Value) -> Vec<(String, &'static [&'static str])> {
    let Some(keys) = spec.as_object() else { return Vec::new() };
    let own = keys.keys().filter(|key| !TENANT_KEYS.contains(&key.as_str()));
    let own = own.map(|key| (key.clone(), &TENANT_KEYS[..]));
    let over = spec.get("over").and_then(Value::as_object).into_iter().flatten();
    let policies = over.filter_map(|(port, policy)| Some((port, policy.as_object()?)));
    let of_ports = policies.flat_map(|(port, policy)| {
        let keys = policy.keys().filter(|key| !TENANT_PORT_KEYS.contains(&key.as_str()));
        keys.map(move |key| (format!("over.{port}.{key}"), &TENANT_PORT_KEYS[..]))
    });
    own.chain(of_ports).collect()
}

/// The names of the ports that a device with this spec is over, each with its place (`over[0]`, `over.lan`).
pub fn ports_under(spec: &Value) -> Vec<(String, String)> {
    match spec.get("over") {
        Some(Value::Array(items)) => {
            let names = items.iter().enumerate().filter_map(|(n, item)| Some((n, item.as_str()?)));
            names.map(|(n, name)| (format!("over[{n}]"), name.to_owned())).collect()
        }
        Some(Value::Object(entries)) => {
            entries.keys().map(|name| (format!("over.{name}"), name.clone())).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_an_administrators_to_say_is_told_with_its_place() {
        let places = |spec: Value| -> Vec<String> {
            kept_from_tenants(&spec).into_iter().map(|(place, _)| place).collect()
        };
        let plain = json!({"mode": "bridge", "tenant": "red", "share": "duplicate", "addresses": ["192.0.2.9/24"],
            "over": {"a": {"receive": "udp", "priority": 1, "send": "b"}, "b": null}});
        assert_eq!(places(plain), [""; 0]);
        for key in ["open_to", "groups", "zone", "slaac", "what_comes_later"] {
            assert_eq!(places(json!({"mode": "rootless", key: []})), [key]);
        }
        let tunnels = json!({"mode": "direct", "over": {"a": {"encapsulate": [], "decapsulate": ["vlan"]}}});
        let mut found = places(tunnels);
        found.sort();
        assert_eq!(found, ["over.a.decapsulate", "over.a.encapsulate"]);
        assert_eq!(places(json!("rootless")), [""; 0], "this is no device");
    }

    #[test]
    fn ports_are_named_in_a_list_or_in_a_map() {
        let pair = |place: &str, name: &str| (place.to_owned(), name.to_owned());
        assert_eq!(
            ports_under(&json!({"over": ["lan", 7, "wan"]})),
            [pair("over[0]", "lan"), pair("over[2]", "wan")]
        );
        assert_eq!(ports_under(&json!({"over": {"lan": {}}})), [pair("over.lan", "lan")]);
        assert!(ports_under(&json!({"mode": "rootless"})).is_empty());
    }
}
