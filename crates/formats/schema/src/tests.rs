use crate::{Family, Files, Kind, MAX_VALUES, Map, Presence, RateOf, Schema, SchemaKey, Value, WHOLE};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use yaml_document::{Document, Location, Position};

const FIREWALL: &str = "
default_action: {type: enum, values: [accept, drop], default: drop, help: What happens to a packet that no rule matches.}
max_flows: {type: integer, min: 1, max: 4000000, default: 65536, unit: flows}
idle: {type: duration, min: 1ms, max: 1d, default: 1.5s}
memory: {type: size, max: 1GiB, required: false}
rate: {type: rate, of: bits, min: 1kbps, required: false}
burst: {type: rate, required: false}
log: {type: boolean, default: false}
name: {type: string, min_length: 1, max_length: 15, required: true}
gateway: {type: mac, required: false}
local: {type: address, family: ipv4, required: false}
limits: {type: map, default: {}, keys: {first: {type: integer, default: 1}, last: {type: integer, default: 9}}}
rules:
  type: list
  max: 3
  required: false
  items:
    type: map
    keys:
      action: {type: enum, values: [accept, drop], required: true}
      from: {type: prefix, family: any, required: false}
      ports: {type: port_range, required: false}
";

fn firewall() -> Schema {
    Schema::from_text("schema", FIREWALL).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

fn check(schema: &Schema, text: &str) -> Result<Value, Vec<String>> {
    let document = Document::parse("f.yaml", text).unwrap();
    let mut faults = Vec::new();
    let value = schema.check("f.yaml", "config", Some(document.root()), &mut faults);
    match value {
        Some(value) => {
            assert_eq!(faults, []);
            Ok(value)
        }
        None => {
            assert_ne!(faults, []);
            Err(faults.iter().map(ToString::to_string).collect())
        }
    }
}

#[test]
fn a_good_configuration_gets_its_defaults_in_the_schemas_order() {
    let value = check(
        &firewall(),
        "rules: [{ports: 80, from: 10.0.0.0/8, action: drop}]\nname: a\nrate: 1.5Mbps\nmemory: 64KiB\nburst: 2.5kpps\n\
         gateway: 02:00:00:00:00:0A\nlocal: 192.0.2.1\nlimits: {last: -0x10}\n",
    );
    assert_eq!(
        value.unwrap().to_string(),
        "{default_action: drop, max_flows: 65536, idle: 1500ms, memory: 64KiB, rate: 1500000, burst: 2500, \
         log: false, name: a, gateway: 02:00:00:00:00:0a, local: 192.0.2.1, limits: {first: 1, last: -16}, \
         rules: [{action: drop, from: 10.0.0.0/8, ports: 80}]}"
    );
}

#[test]
fn all_faults_are_told_at_once() {
    let faults = check(
        &firewall(),
        "\
default_action: acept
max_flow: 10
max_flows: 0
idle: 10
memory: 64KB
rate: fast
log: yes
gateway: 02-00-00-00-00-01
local: ::1
limits:
rules:
  - {action: [drop], from: 10.0.0.1/8}
  - {from: 10.1.2.3, ports: 2000-1000, port: 1}
  - reject
",
    );
    let expected = "\
f.yaml:2:1: config.max_flow: unknown key `max_flow`; allowed: default_action, max_flows, idle, memory, rate, burst, log, name, gateway, local, limits, rules; did you mean `max_flows`?
f.yaml:1:17: config.default_action: found `acept`; allowed: one of accept, drop; did you mean `accept`?
f.yaml:3:12: config.max_flows: found `0`; allowed: an integer from 1 to 4000000 (unit: flows)
f.yaml:4:7: config.idle: found `10`; allowed: a duration from 1ms to 1d, such as `10s` (units: ns, us, ms, s, m, h, d)
f.yaml:5:9: config.memory: found `64KB`; allowed: a size of at most 1GiB, such as `64KiB` (units: B, KiB, MiB, GiB); did you mean `64KiB`?
f.yaml:6:7: config.rate: found `fast`; allowed: a rate of at least 1kbps, such as `10Gbps` (units: bps, kbps, Mbps, Gbps)
f.yaml:7:6: config.log: found `yes`; allowed: true or false; did you mean `true`?
f.yaml:1:1: config.name: the required key `name` is missing; allowed: text of 1 to 15 characters
f.yaml:8:10: config.gateway: found `02-00-00-00-00-01`; allowed: a MAC address such as `02:00:00:00:00:01`; did you mean `02:00:00:00:00:01`?
f.yaml:9:8: config.local: found `::1`; allowed: an IPv4 address such as `192.0.2.1`
f.yaml:10:1: config.limits: found nothing; allowed: a map of these keys: first, last
f.yaml:12:14: config.rules[0].action: found a list; allowed: one of accept, drop
f.yaml:12:28: config.rules[0].from: found `10.0.0.1/8`; allowed: an IP prefix such as `192.0.2.0/24` or `2001:db8::/32`; did you mean `10.0.0.0/8`?
f.yaml:13:40: config.rules[1].port: unknown key `port`; allowed: action, from, ports; did you mean `ports`?
f.yaml:13:5: config.rules[1].action: the required key `action` is missing; allowed: one of accept, drop
f.yaml:13:12: config.rules[1].from: found `10.1.2.3`; allowed: an IP prefix such as `192.0.2.0/24` or `2001:db8::/32`; did you mean `10.1.2.3/32`?
f.yaml:13:29: config.rules[1].ports: found `2000-1000`; allowed: a port such as `80` or a range such as `1000-2000`; did you mean `1000-2000`?
f.yaml:14:5: config.rules[2]: found `reject`; allowed: a map of these keys: action, from, ports";
    assert_eq!(faults.unwrap_err().join("\n"), expected);
    let faults = check(&firewall(), "name: \"\"\nrules: [a, b, c, d]\n").unwrap_err();
    assert_eq!(
        faults,
        [
            "f.yaml:1:7: config.name: found the text \"\"; allowed: text of 1 to 15 characters",
            "f.yaml:2:8: config.rules: found 4 items; allowed: a list of at most 3 items",
        ]
    );
}

#[test]
fn what_is_allowed_is_said_in_the_unit_that_was_written() {
    let schema = Schema::from_text(
        "s",
        "\
share: {type: fraction, min: 0.1%, max: 100%, required: true}
size: {type: size, min: 64KiB, max: 1536MiB, required: true}
rate: {type: rate, of: bits, min: 8kbps, max: 10Gbps, required: true}
time: {type: duration, min: 1ms, max: 10s, required: true}
",
    )
    .unwrap();
    let allowed = |key: &str, found: &str| {
        let text = schema.key(key).unwrap().kind.allowed_in(found);
        text.split(", such as").next().unwrap_or_default().to_owned()
    };
    for (key, found, wanted) in [
        ("share", "150%", "a fraction from 0.1% to 100%"),
        ("share", "20 ppm", "a fraction from 1000ppm to 100%"),
        ("share", "1.5", "a fraction from 1000ppm to 100%"),
        ("size", "2GiB", "a size from 64KiB to 1.5GiB"),
        ("size", "2000MiB", "a size from 0.0625MiB to 1536MiB"),
        ("rate", "20Gbps", "a rate from 8kbps to 10Gbps"),
        ("rate", "1bps", "a rate from 8000bps to 10Gbps"),
        ("time", "0.5m", "a duration from 1ms to 10s"),
        ("time", "11s", "a duration from 0.001s to 10s"),
        ("time", "soon", "a duration from 1ms to 10s"),
    ] {
        assert_eq!(allowed(key, found), wanted, "{key}: {found}");
    }
}

#[test]
fn bad_schemas_are_refused_defaults_included() {
    let cases = [
        (
            "a: {type: integr, required: true}",
            "s:1:11: a.type: found `integr`; allowed: boolean, integer, string, enum, duration, size, rate, fraction, file, mac, address, prefix, port_range, list, map; did you mean `integer`?",
        ),
        (
            "a: {type: integer}",
            "s:1:4: a: found neither `required` nor `default`; allowed: one of `required: true`, `required: false` and `default: ...`",
        ),
        (
            "a: {type: integer, required: true, default: 1}",
            "s:1:45: a.default: found `required` and `default`; allowed: one of them",
        ),
        (
            "a: {type: integer, min: 1, default: 0}",
            "s:1:37: a.default: found `0`; allowed: an integer of at least 1",
        ),
        ("a: {type: integer, min: 2, max: 1, required: true}", "s:1:4: a: found a `min` above the `max`"),
        (
            "a: {type: integer, min: x, required: true}",
            "s:1:25: a.min: found `x`; allowed: a value of this type",
        ),
        (
            "a: {type: integer, maximum: 3, required: true}",
            "s:1:20: a.maximum: unknown key `maximum` of the type `integer`; allowed: type, min, max, required, default, unit, help",
        ),
        (
            "a: {type: enum, required: true}",
            "s:1:4: a: the required key `values` is missing; allowed: a list of names",
        ),
        (
            "a: {type: enum, values: [x, x], required: true}",
            "s:1:29: a.values[1]: the value `x` is given twice",
        ),
        (
            "a: {type: prefix, family: ip4, required: true}",
            "s:1:27: a.family: found `ip4`; allowed: ipv4, ipv6, any; did you mean `ipv4`?",
        ),
        (
            "a: {type: list, required: true}",
            "s:1:4: a: the required key `items` is missing; allowed: the description of an item",
        ),
        (
            "a: {type: map, keys: {B: 1}, required: true}",
            "s:1:23: a.keys.B: found the key `B`; allowed: a lower-case letter, then letters, digits and `_`",
        ),
        (
            "a: {required: true}",
            "s:1:4: a: the required key `type` is missing; allowed: boolean, integer, string, enum, duration, size, rate, fraction, file, mac, address, prefix, port_range, list, map",
        ),
        ("a: integer", "s:1:4: a: found `integer`; allowed: a map with the key `type`"),
        ("[a]", "s:1:1: found a list; allowed: a map from key to its description"),
    ];
    for (text, line) in cases {
        let faults = Schema::from_text("s", text).unwrap_err();
        assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), [line], "{text}");
    }
    assert_eq!(Schema::from_text("s", "# none\n"), Ok(Schema::default()));
}

#[test]
fn an_absent_node_is_a_map_without_keys() {
    let schema = Schema::from_text("s", "a: {type: integer, default: 3}").unwrap();
    let mut faults = Vec::new();
    let value = schema.check("f", "", None, &mut faults).unwrap();
    assert_eq!(value.get("a").and_then(Value::as_integer), Some(3));
    assert_eq!(check(&schema, "").unwrap(), value);
    let place = Location::new("f", "ports.lan", Position { line: 7, column: 3 });
    assert_eq!(firewall().check_at(&place, None, &[], &mut faults), None);
    assert_eq!(
        faults[0].to_string(),
        "f:7:3: ports.lan.name: the required key `name` is missing; allowed: text of 1 to 15 characters"
    );
}

#[test]
fn keys_beside_the_schemas_are_the_callers() {
    let schema = Schema::from_text("s", "mtu: {type: integer, required: false}").unwrap();
    let document = Document::parse("f", "{type: tap, mtu: 1500, tenat: x}").unwrap();
    let mut faults = Vec::new();
    let place = Location::new("f", "", document.root().position);
    assert_eq!(schema.check_at(&place, Some(document.root()), &["type", "tenant"], &mut faults), None);
    assert_eq!(
        faults[0].to_string(),
        "f:1:24: tenat: unknown key `tenat`; allowed: type, tenant, mtu; did you mean `tenant`?"
    );
    assert_eq!(faults.len(), 1);
}

#[test]
fn a_small_text_makes_no_huge_configuration() {
    let items = vec!["1"; 4000].join(",");
    let text = format!(
        "a: {{type: list, max: 100000, required: true, items: {{type: map, keys: {{b: {{type: list, default: [{items}], \
         items: {{type: integer}}}}}}}}}}"
    );
    let schema = Schema::from_text("s", &text).unwrap();
    let faults = check(&schema, &format!("a: [{}]", "{},".repeat(100_000))).unwrap_err();
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].ends_with(&format!("there are too many values, defaults included; allowed: {MAX_VALUES}"))
    );
}

#[test]
fn literals() {
    let kinds = "{d: {type: duration, required: false}, i: {type: integer, required: false}, b: {type: boolean, required: \
                 false}, p: {type: prefix, required: false}, r: {type: port_range, required: false}, m: {type: mac, \
                 required: false}, a: {type: address, required: false}, t: {type: string, required: false}}";
    let schema = Schema::from_text("s", kinds).unwrap();
    let good = [
        ("d: 0s", "{d: 0ns}"),
        ("d: 0.000000001s", "{d: 1ns}"),
        ("d: 5 s", "{d: 5s}"),
        ("d: 213503d", "{d: 213503d}"),
        ("i: -9223372036854775808", "{i: -9223372036854775808}"),
        ("p: ::/0", "{p: ::/0}"),
        ("p: 0.0.0.0/0", "{p: 0.0.0.0/0}"),
        ("p: 2001:db8::1/128", "{p: 2001:db8::1/128}"),
        ("r: 0-65535", "{r: 0-65535}"),
        ("t: 10", "{t: 10}"),
        ("t: 'a b'", "{t: \"a b\"}"),
    ];
    for (text, shown) in good {
        assert_eq!(check(&schema, text).map(|v| v.to_string()), Ok(shown.to_owned()), "{text}");
    }
    let bad = [
        ("d: 0.0000000001s", None),
        ("d: 1.5ns", None),
        ("d: 213504d", None),
        ("d: -1s", None),
        ("d: s", None),
        ("d: 1..5s", None),
        ("d: 1.s", None),
        ("d: 10sec", Some("10s")),
        ("d: 10S", Some("10s")),
        ("i: 9223372036854775808", None),
        ("i: 1.5", None),
        ("i: 1,000", Some("1000")),
        ("i: 010", Some("10")),
        ("i: '7'", Some("7")),
        ("i: +7", None),
        ("b: True", Some("true")),
        ("b: 'true'", Some("true")),
        ("p: 10.0.0.0/33", None),
        ("p: 10.0.0.0/+8", None),
        ("p: 2001:db8::1/32", Some("2001:db8::/32")),
        ("p: 10.0.0.0/8/8", None),
        ("r: 65536", None),
        ("r: 80:90", Some("80-90")),
        ("r: \"-\"", None),
        ("r: ''", None),
        ("m: 02:00:00:00:00", None),
        ("m: 02:00:00:00:00:0g", None),
        ("m: 02:00:00:00:00:01:02", None),
        ("m: 2:00:00:00:00:01", None),
        ("a: 10.0.0.1/24", Some("10.0.0.1")),
        ("a: 10.0.0", None),
        ("a: fe80::1%eth0", None),
    ];
    for (text, meant) in bad {
        let faults = check(&schema, text).unwrap_err();
        assert_eq!(faults.len(), 1);
        match meant {
            Some(meant) => {
                assert!(faults[0].ends_with(&format!("did you mean `{meant}`?")), "{text}: {faults:?}")
            }
            None => assert!(!faults[0].contains("did you mean"), "{text}: {faults:?}"),
        }
    }
}

#[test]
fn a_list_that_is_too_long_names_the_file_that_takes_more() {
    let list = "{type: list, max: 2, default: [], items: {type: integer, min: 0, max: 9}}";
    for (beside, more) in [
        ("routes_file: {type: file, max: 1KiB, required: false}", ", and more in `routes_file`"),
        ("routes_file: {type: boolean, default: false}", ""),
        ("paths_file: {type: file, max: 1KiB, required: false}", ""),
    ] {
        let schema = Schema::from_text("s", &format!("routes: {list}\n{beside}\n")).expect("a schema");
        let document = Document::parse("c", "routes: [1, 2, 3]\n").expect("YAML");
        let mut faults = Vec::new();
        assert_eq!(schema.check("c", "", Some(document.root()), &mut faults), None);
        let told: Vec<String> = faults.iter().map(|fault| fault.message.clone()).collect();
        assert_eq!(told, [format!("found 3 items; allowed: a list of at most 2 items{more}")]);
    }
}

#[test]
fn documentation_lists_every_key() {
    let lines: Vec<String> = firewall().documentation().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines[0],
        "default_action: Optional, default drop; one of accept, drop. What happens to a packet that no rule matches."
    );
    assert_eq!(lines[1], "max_flows: Optional, default 65536; an integer from 1 to 4000000 (unit: flows).");
    assert_eq!(lines[7], "name: Required; text of 1 to 15 characters.");
    let rules: Vec<_> = lines.iter().filter(|line| line.starts_with("rules")).collect();
    assert_eq!(rules[0], "rules: Optional; a list of at most 3 items, each a map.");
    assert_eq!(rules[1], "rules[].action: Required; one of accept, drop.");
    assert_eq!(lines.len(), 17);
    let rate = Schema::from_text("s", "r: {type: rate, default: 1.5Mpps, help: Offered load.}").unwrap();
    assert!(
        rate.documentation()[0].to_string().starts_with("r: Optional, default 1500kpps; a rate, such as")
    );
    let table = firewall().to_markdown();
    assert!(
        table.contains(
            "| `max_flows` | Optional | an integer from 1 to 4000000 (unit: flows) | `65536` |  |\n"
        )
    );
}

#[test]
fn cbor_has_the_shortest_heads() {
    // RFC 8949, appendix A.
    let examples: [(i64, &[u8]); 12] = [
        (0, &[0x00]),
        (23, &[0x17]),
        (24, &[0x18, 0x18]),
        (255, &[0x18, 0xff]),
        (256, &[0x19, 0x01, 0x00]),
        (1000, &[0x19, 0x03, 0xe8]),
        (65536, &[0x1a, 0x00, 0x01, 0x00, 0x00]),
        (1000000, &[0x1a, 0x00, 0x0f, 0x42, 0x40]),
        (1000000000000, &[0x1b, 0x00, 0x00, 0x00, 0xe8, 0xd4, 0xa5, 0x10, 0x00]),
        (-1, &[0x20]),
        (-1000, &[0x39, 0x03, 0xe7]),
        (i64::MIN, &[0x3b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    ];
    for (number, bytes) in examples {
        assert_eq!(Value::Integer(number).to_cbor(), bytes, "{number}");
    }
    let map: Map = [("a", Value::Boolean(true)), ("b", Value::Prefix(Ipv4Addr::new(10, 0, 0, 0).into(), 8))]
        .into_iter()
        .collect();
    let bytes = [0xa2, 0x61, b'a', 0xf5, 0x61, b'b', 0x82, 0x44, 10, 0, 0, 0, 8];
    assert_eq!(Value::Map(map).to_cbor(), bytes);
}

/// A kind with one of its values.
fn kind_and_value() -> impl Strategy<Value = (Kind, Value)> {
    let number = prop_oneof![any::<u64>(), 0u64..1000, (0u64..100).prop_map(|n| n << 20)];
    let leaf = prop_oneof![
        any::<bool>().prop_map(|b| (Kind::Boolean, Value::Boolean(b))),
        any::<i64>().prop_map(|n| (Kind::Integer { min: i64::MIN, max: i64::MAX }, Value::Integer(n))),
        any::<String>().prop_map(|t| (Kind::Text { min_length: 0, max_length: 4096 }, Value::Text(t))),
        "[a-z]{1,8}".prop_map(|t| (Kind::Enum { values: vec!["other".into(), t.clone()] }, Value::Text(t))),
        number.clone().prop_map(|n| (Kind::Duration { min: 0, max: u64::MAX }, Value::Duration(n))),
        (0..=i64::MAX).prop_map(|n| {
            (Kind::Rate { of: RateOf::Packets, min: 0, max: i64::MAX as u64 }, Value::Integer(n))
        }),
        (0..=WHOLE).prop_map(|n| (Kind::Fraction { min: 0, max: WHOLE }, Value::Integer(n as i64))),
        number.clone().prop_map(|n| (Kind::Size { min: 0, max: u64::MAX }, Value::Size(n))),
        any::<[u8; 6]>().prop_map(|mac| (Kind::Mac, Value::Mac(mac))),
        any::<IpAddr>().prop_map(|ip| (Kind::Address { family: Family::Any }, Value::Address(ip))),
        (any::<u32>(), 0u8..=32).prop_map(|(bits, length)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            let address = Ipv4Addr::from_bits(bits & mask).into();
            (Kind::Prefix { family: Family::Ipv4 }, Value::Prefix(address, length))
        }),
        (any::<u128>(), 0u8..=128).prop_map(|(bits, length)| {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            let address = Ipv6Addr::from_bits(bits & mask).into();
            (Kind::Prefix { family: Family::Any }, Value::Prefix(address, length))
        }),
        any::<(u16, u16)>().prop_map(|(a, b)| (Kind::PortRange, Value::PortRange(a.min(b), a.max(b)))),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            (inner.clone(), 0usize..4).prop_map(|((kind, value), count)| {
                (Kind::List { items: Box::new(kind), min: 0, max: 4096 }, Value::List(vec![value; count]))
            }),
            proptest::collection::vec(("[a-z][a-z0-9_]{0,6}", inner, any::<bool>()), 0..6).prop_map(map_of),
        ]
    })
}

fn map_of(keys: Vec<(String, (Kind, Value), bool)>) -> (Kind, Value) {
    let mut schema = Schema::default();
    let mut map = Map::new();
    for (name, (kind, value), there) in keys {
        if schema.key(&name).is_some() {
            continue;
        }
        let presence = if there { Presence::Required } else { Presence::Optional };
        if there {
            map.insert(&name, value);
        }
        schema.keys.push(SchemaKey { name, kind, presence, unit: None, help: String::new() });
    }
    (Kind::Map(schema), Value::Map(map))
}

/// What an independent decoder makes of a value's CBOR.
fn decoded(value: &Value) -> ciborium::Value {
    use ciborium::Value as Cbor;
    let octets = |address: &IpAddr| match address {
        IpAddr::V4(v4) => Cbor::Bytes(v4.octets().to_vec()),
        IpAddr::V6(v6) => Cbor::Bytes(v6.octets().to_vec()),
    };
    match value {
        Value::Boolean(b) => Cbor::Bool(*b),
        Value::Integer(n) => Cbor::Integer((*n).into()),
        Value::Text(text) => Cbor::Text(text.clone()),
        Value::Duration(n) | Value::Size(n) => Cbor::Integer((*n).into()),
        Value::File(path, contents) => {
            Cbor::Array(vec![Cbor::Text(path.clone()), Cbor::Bytes(contents.clone())])
        }
        Value::Mac(mac) => Cbor::Bytes(mac.to_vec()),
        Value::Address(address) => octets(address),
        Value::Prefix(address, length) => Cbor::Array(vec![octets(address), Cbor::Integer((*length).into())]),
        Value::PortRange(a, b) => Cbor::Array(vec![Cbor::Integer((*a).into()), Cbor::Integer((*b).into())]),
        Value::List(items) => Cbor::Array(items.iter().map(decoded).collect()),
        Value::Map(map) => {
            Cbor::Map(map.iter().map(|(key, value)| (Cbor::Text(key.into()), decoded(value))).collect())
        }
    }
}

proptest! {
    #[test]
    fn a_value_that_is_written_out_is_read_back((kind, value) in kind_and_value()) {
        let document = Document::parse("f", &format!("- {}\n", kind.spelled(&value))).unwrap();
        let node = &document.root().as_list().unwrap()[0];
        let mut faults = Vec::new();
        let again = kind.check_at(&Location::new("f", "", node.position), node, &mut faults);
        prop_assert_eq!(again, Some(value), "{:?}", faults);
    }

    #[test]
    fn cbor_carries_the_same_value((_, value) in kind_and_value()) {
        let bytes = value.to_cbor();
        let mut rest = bytes.as_slice();
        let again: ciborium::Value = ciborium::from_reader(&mut rest).unwrap();
        prop_assert_eq!(again, decoded(&value));
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn a_value_of_one_kind_is_checked_against_any_other((kind, _) in kind_and_value(), (_, value) in kind_and_value()) {
        let document = Document::parse("f", &format!("- {value}\n")).unwrap();
        let node = &document.root().as_list().unwrap()[0];
        let mut faults = Vec::new();
        let checked = kind.check_at(&Location::new("f", "", node.position), node, &mut faults);
        prop_assert_eq!(checked.is_none(), !faults.is_empty());
        for fault in faults {
            prop_assert_eq!(fault.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn no_schema_makes_it_panic(text in "[a-c]: \\{type: (integer|list|map|enum|size|string), ((min|max|items|keys|values|default|required|help): [a\\[\\]{}0-9: ]{0,6},? ?){0,4}\\}?") {
        let _ = Schema::from_text("s", &text);
    }

    #[test]
    fn no_scalar_makes_it_panic(text in "\\PC{0,24}", of_bits in any::<bool>()) {
        let of = if of_bits { RateOf::Bits } else { RateOf::Packets };
        for kind in [
            Kind::Boolean,
            Kind::Integer { min: 0, max: 9 },
            Kind::Duration { min: 0, max: u64::MAX },
            Kind::Size { min: 0, max: u64::MAX },
            Kind::Fraction { min: 0, max: WHOLE },
            Kind::Rate { of, min: 0, max: u64::MAX },
            Kind::Mac,
            Kind::Address { family: Family::Any },
            Kind::Prefix { family: Family::Any },
            Kind::PortRange,
        ] {
            let _ = crate::check::scalar(&kind, &text, false);
        }
    }
}

/// One file.
struct Shelf;

impl Files for Shelf {
    fn read(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        match path {
            "small" => Ok(b"four".to_vec()),
            _ if most < 5 => Err("larger than allowed".to_owned()),
            _ => Err("No such file".to_owned()),
        }
    }
}

#[test]
fn a_file_is_its_contents_and_one_that_cannot_be_read_is_a_fault() {
    let schema = Schema::from_text("s", "rules: {type: file, max: 4B, required: true}").unwrap();
    let check = |text: &str| {
        let document = Document::parse("f", text).unwrap();
        let mut faults = Vec::new();
        let place = Location::new("f", "", document.root().position);
        let value = schema.check_with(&place, Some(document.root()), &[], &Shelf, &mut faults);
        value.ok_or_else(|| faults.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let value = check("rules: small").unwrap();
    assert_eq!(value.get("rules").and_then(Value::as_file), Some(("small", b"four".as_slice())));
    let faults = check("rules: large").unwrap_err();
    assert_eq!(
        faults,
        ["f:1:8: rules: `large`: larger than allowed; allowed: the path of a file of at most 4B"]
    );
    assert!(check("rules: [small]").unwrap_err()[0].contains("the path of a file"));
    assert!(check("rules: \"\"").unwrap_err()[0].contains("the path of a file"));
}

#[test]
fn a_default_cannot_be_a_file() {
    let faults = Schema::from_text("s", "rules: {type: file, default: small}").unwrap_err();
    assert!(faults[0].to_string().contains("files are not read here"), "{}", faults[0]);
}
