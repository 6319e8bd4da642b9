//! Switches, and what is plugged into them.

use super::*;
use ::virtual_switch::{MAX_AGE, MAX_ENTRIES, MIN_AGE};
use schema::Kind;
use wiring::Switch;

/// A file with the switch `hall` in line 2 and `yard` in line 3, followed by `text` in line 11 and below.
fn halls(text: &str) -> String {
    format!(
        "superfluid: 1\nswitches: {{hall: {{entries: 8}},\n  yard: }}\nports:\n  lan: {{type: 'null'}}\n  wan: {{type: 'null'}}\n\
         functions:\n  fw: {{image: firewall}}\n  nat: {{image: forwarder}}\n  flows: {{image: monitor}}\n{text}"
    )
}

#[test]
fn the_schema_has_the_switchs_bounds_and_defaults() {
    let kind = |key: &str| switch_schema().key(key).unwrap().kind.clone();
    assert_eq!(kind("age"), Kind::Duration { min: MIN_AGE.0, max: MAX_AGE.0 });
    assert_eq!(kind("entries"), Kind::Integer { min: 8, max: i64::from(MAX_ENTRIES) });
    let wiring = good("superfluid: 1\nswitches: {a: , b: {}, c: {age: 1s, entries: 65536}}\n").wiring;
    assert_eq!((wiring.switches["a"], wiring.switches["b"]), (Switch::default(), Switch::default()));
    assert_eq!((wiring.switches["c"].age, wiring.switches["c"].entries), (MIN_AGE, MAX_ENTRIES));
}

#[test]
fn any_number_of_ends_are_plugged_into_a_switch() {
    let Configuration { wiring, .. } = good(&halls(
        "chains: {a: [hall, fw, wan], b: [lan, hall]}\nwires: [[nat:left, hall], [hall, flows:tap]]\nservices: {7: hall}\n",
    ));
    let edges: Vec<String> = wiring.edges.iter().map(ToString::to_string).collect();
    assert_eq!(edges, ["lan - hall", "wan - fw:1", "hall - flows:0", "hall - fw:0", "hall - nat:0"]);
    let ends: Vec<String> = wiring.plugged_into("hall").map(ToString::to_string).collect();
    assert_eq!(ends, ["lan", "flows:0", "fw:0", "nat:0"]);
    assert_eq!(wiring.services[&service("default", 7)], Endpoint::Switch("hall".into()));
    assert_eq!(wiring.peer(&Endpoint::Port("lan".into())), Some(&Endpoint::Switch("hall".into())));
    assert_eq!(wiring.peer(&Endpoint::Switch("hall".into())), None);
}

#[test]
fn switches_that_cannot_be() {
    bad(
        "\
superfluid: 1
ports: {lan: {type: 'null'}}
switches:
  lan: {}
  a: {entries: 4097}
  b: {entries: 4, age: 999ms}
  c: {mac: x}
  d: 5
functions:
  a: {image: firewall}
",
        "\
f.yaml:4:3: switches.lan: `lan` is the name of the port in line 2; allowed: a name of its own
f.yaml:5:16: switches.a.entries: found `4097`; allowed: a power of two from 8 to 65536; did you mean `8192`?
f.yaml:6:16: switches.b.entries: found `4`; allowed: an integer from 8 to 65536 (unit: addresses)
f.yaml:6:24: switches.b.age: found `999ms`; allowed: a duration from 1000ms to 1000000s, such as `10s` (units: ns, us, ms, s, m, h, d)
f.yaml:7:7: switches.c.mac: unknown key `mac`; allowed: age, entries
f.yaml:8:6: switches.d: found `5`; allowed: a map of these keys: age, entries
f.yaml:10:3: functions.a: `a` is the name of the switch in line 5; allowed: a name of its own
",
    );
}

#[test]
fn places_where_no_switch_can_stand() {
    let cases = [
        (
            "wires: [[hall, yard]]\n",
            "f.yaml:11:16: wires[0][1]: a wire from the switch `hall` to the switch `yard`; allowed: from a switch to a port or a \
             function, because what a switch floods goes round for ever when there are two ways between switches\n",
        ),
        (
            "chains: {c: [hall, hall]}\n",
            "f.yaml:11:20: chains.c[1]: a wire from the switch `hall` to the switch `hall`; allowed: from a switch to a port or a \
             function, because what a switch floods goes round for ever when there are two ways between switches\n",
        ),
        (
            "chains: {c: [lan, hall, fw]}\n",
            "f.yaml:11:19: chains.c[1]: the switch `hall` stands inside a chain; allowed: ports, switches and devices at its two ends\n",
        ),
        (
            "chains: {c: [lan, hall:0]}\n",
            "f.yaml:11:19: chains.c[1]: `hall` is a switch and has no interfaces; did you mean `hall`?\n",
        ),
        (
            "observers: {flows: {at: [hall]}, yard: {at: [fw]}}\n",
            "f.yaml:11:26: observers.flows.at[0]: `hall` is a switch; allowed: ports, devices, functions, and wires to it\n\
             f.yaml:11:34: observers.yard: `yard` is a switch; allowed: functions and ports\n",
        ),
        (
            "services: {7: hal}\n",
            "f.yaml:11:15: services.7: no port, switch, device or function is named `hal`; allowed: lan, wan, hall, yard, fw, nat, flows; \
             did you mean `hall`?\n",
        ),
    ];
    for (text, expected) in cases {
        bad(&halls(text), expected);
    }
}

#[test]
fn a_switch_with_fewer_than_two_ends_is_a_warning() {
    let Configuration { warnings, .. } =
        good(&halls("chains: {a: [hall, fw, wan], b: [lan, nat]}\nservices: {1: yard}\n"));
    let switches: Vec<_> =
        warnings.into_iter().filter(|warning| warning.key.starts_with("switches")).collect();
    assert_eq!(
        lines(&switches),
        "\
f.yaml:2:12: switches.hall: one end alone is wired to the switch `hall`: there is no other to forward to
f.yaml:3:3: switches.yard: nothing is wired to the switch `yard`
"
    );
}

#[test]
fn what_leads_round_is_refused_with_both_names() {
    let cases = [
        (
            "chains: {c: [hall, fw, nat, hall]}\n",
            "f.yaml:11:24: functions.nat: `nat:1` and `fw:0` in line 11 are both at the switch `hall`, and what comes by one \
             leaves by the other, so that frames would go round; allowed: one of them\n",
        ),
        (
            "wires: [[hall, fw:outside], [fw:inside, hall]]\n",
            "f.yaml:11:10: functions.fw: `fw:1` and `fw:0` in line 11 are both at the switch `hall`, and what comes by one \
             leaves by the other, so that frames would go round; allowed: one of them\n",
        ),
        (
            "wires: [[nat:right, fw:inside], [fw:outside, nat:left]]\n",
            "f.yaml:11:10: functions.nat: `nat:1` and `fw:0` in line 11 lead into each other: no packet gets there, and one \
             that did would go round; allowed: a port, a switch or a device at the end of what is wired\n",
        ),
        (
            "wires: [[nat:right, nat:left]]\n",
            "f.yaml:11:10: functions.nat: `nat:1` and `nat:0` in line 11 lead into each other: no packet gets there, and one \
             that did would go round; allowed: a port, a switch or a device at the end of what is wired\n",
        ),
    ];
    for (text, expected) in cases {
        bad(&halls(text), expected);
    }
}

#[test]
fn two_ways_between_switches_are_a_warning_with_both_names() {
    let Configuration { warnings, .. } =
        good(&halls("chains: {a: [hall, fw, yard], b: [yard, nat, hall], c: [lan, hall]}\n"));
    let loops: Vec<_> = warnings.into_iter().filter(|it| it.message.contains("go round")).collect();
    assert_eq!(
        lines(&loops),
        "\
f.yaml:11:35: functions.nat: `nat:0` leads from `yard` to `hall`, and so does `fw:1` in line 11: frames go round unless a \
         function on one of the two ways ends them, as a router does; what went round is dropped (hop-budget)
"
    );
}
