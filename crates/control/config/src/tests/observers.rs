//! Observers at functions, ports, devices, sides and wires.

use super::*;

/// A file of ports, a switch, devices and functions, followed by `text` in line 11 and below.
fn office(text: &str) -> String {
    format!(
        "superfluid: 1\ntenants: {{red: {{}}, default: {{}}}}\nports: {{a: {{type: 'null'}}, b: {{type: 'null'}}, c: {{type: 'null'}}, \
         d: {{type: 'null', tenant: red}}}}\nswitches: {{hall: {{}}}}\ndevices: {{edge: {{mode: bridge, over: [b, c], open_to: [{{tenant: \
         red, function: foe}}]}}}}\nfunctions:\n  fw: {{image: firewall}}\n  flows: {{image: monitor}}\n  foe: {{image: monitor, \
         tenant: red}}\nchains: {{one: [a, fw, hall]}}\n{text}"
    )
}

#[test]
fn observers_stand_wherever_packets_pass() {
    let text = "wires: [[hall, d]]\nobservers:\n  flows: {at: [fw, 'fw:inside', a, edge, 'edge:b', 'fw:0~a', 'hall~fw:outside'], filter: udp port \
                53, sample: 1/100}\n  foe: {at: [edge, d]}\n";
    let Configuration { wiring, warnings } = good(&office(text));
    assert_eq!(lines(&warnings), "", "a device that is observed is used");
    let seen: Vec<String> = wiring.observations.iter().map(ToString::to_string).collect();
    assert_eq!(
        seen,
        [
            "flows at fw",
            "flows at fw:0",
            "flows at a",
            "flows at edge",
            "flows at edge:b",
            "flows at a~fw:0",
            "flows at hall~fw:1",
            "foe at d",
            "foe at edge"
        ]
    );
    for seen in &wiring.observations {
        let shown = seen.filter.as_ref().map(|shown| shown.0.text());
        let expected = if seen.observer == "flows" { (Some("udp port 53"), 100) } else { (None, 1) };
        assert_eq!((shown, seen.one_of), expected, "{seen}");
    }
    assert_eq!(wiring.validate(), Ok(()));
}

#[test]
fn a_port_observes_when_nothing_else_is_at_it() {
    let ports =
        |text: &str| office(text).replace("d: {type", "e: {type: 'null'}, f: {type: 'null'}, d: {type");
    let Configuration { wiring, warnings } =
        good(&ports("wires: [[hall, d]]\nobservers: {e: {at: [fw, 'edge:b', a]}, f: {at: [fw]}}\n"));
    assert!(!lines(&warnings).contains("port `e`"), "it is used: {}", lines(&warnings));
    assert_eq!(wiring.observations.iter().filter(|seen| seen.observer == "e").count(), 3);
    // Where it is is nothing to the functions that it observes.
    good(
        &ports("observers: {e: {at: [fw, flows]}}\n")
            .replace("firewall}", "firewall, worker: 0}")
            .replace("monitor}", "monitor, worker: 1}")
            .replacen("superfluid: 1", "superfluid: 1\nworkers: 2", 1),
    );
    for (text, wanted) in [
        (
            "observers: {e: {at: [f]}, f: {at: [a]}}",
            "observers.f: `f` is an observer and is observed in line 11; allowed: either",
        ),
        ("observers: {e: {at: [e]}}", "observers.e.at[0]: `e` is to observe itself"),
        (
            "observers: {b: {at: [a]}}",
            "observers.b: `b` is an observer and the device `edge` is over it; allowed: either",
        ),
        (
            "observers: {a: {at: [fw]}}",
            "observers.a: `a` is an observer and is wired in line 10; allowed: either",
        ),
        (
            "observers: {e: {at: [d]}}",
            "observers.e.at[0]: `d` is another tenant's and the observer is `default`'s",
        ),
        ("observers: {d: {at: [edge]}}", "observers.d.at[0]: the device `edge` is not open to `d`"),
        ("observers: {hall: {at: [fw]}}", "observers.hall: `hall` is a switch; allowed: functions and ports"),
        ("observers: {edgy: {at: [fw]}}", "no port, switch, device or function is named `edgy`"),
    ] {
        let found = lines(&check("f.yaml", &ports(&format!("{text}\n")), &shelf()).expect_err(text));
        assert!(found.contains(wanted), "{text}: {found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn bad_observers_are_told_where_and_why() {
    let foreign = "allowed: what is of the same tenant, and devices that are open to the observer\n";
    let cases = [
        ("at: [hall]", "26: observers.flows.at[0]: `hall` is a switch; allowed: ports, devices, functions, and wires to it, such as \
          fw:1~hall\n".to_owned()),
        ("at: [d]", format!("26: observers.flows.at[0]: `d` is another tenant's and the observer is `default`'s; {foreign}")),
        ("at: ['edge:a']", "26: observers.flows.at[0]: the device `edge` is over no port `a`; allowed: edge, edge:b, edge:c\n".into()),
        ("at: ['a~hall']", "26: observers.flows.at[0]: no wire leads from `a` to `hall`; `a` is wired to `fw:0`; allowed: a wire that \
          there is\n".into()),
        ("at: ['a~fw']", "26: observers.flows.at[0]: found `fw` without an interface; allowed: fw:inside, fw:outside (or fw:0 to \
          fw:1)\n".into()),
        ("at: [a], filter: dropped", "38: observers.flows.filter: found `dropped` or `passed`; allowed: what a packet is when it comes, \
          before anything has become of it\n".into()),
        ("at: [a], filter: port x", "38: observers.flows.filter: column 6: ".into()),
        ("at: [a], sample: 1%", "38: observers.flows.sample: found `1%`; allowed: one of so many packets, `1/1` to `1/1000000000`\n".into()),
        ("at: [a], sample: 1/0", "38: observers.flows.sample: found `1/0`; allowed: one of so many packets, `1/1` to `1/1000000000`\n".into()),
        ("at: [a], sample: 2/3", "38: observers.flows.sample: found `2/3`; allowed: one of so many packets, `1/1` to `1/1000000000`\n".into()),
    ];
    for (text, expected) in cases {
        let file = office(&format!("observers: {{flows: {{{text}}}}}\n"));
        let found = lines(&check("f.yaml", &file, &shelf()).expect_err(text));
        assert!(found.starts_with(&format!("f.yaml:11:{expected}")), "{found}--- expected: {expected}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}
