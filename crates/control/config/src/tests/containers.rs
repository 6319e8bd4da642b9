//! Functions that are containers: what the launcher will be asked for, and their ports.

use super::*;
use wiring::{Container, ContainerInterface, container_link};

const ROUTER: &str = "\
superfluid: 1
ports:
  lan: {type: af_packet, interface: sf-lan}
  wan: {type: af_packet, interface: sf-wan}
functions:
  fw: {image: firewall, config: {default_action: accept}}
  router:
    guest: container
    image: ./busybox
    command: [/bin/sleep, '100']
    interfaces:
      out: {addresses: [192.0.2.1/24, '2001:db8::1/64']}
      in: {as: veth, name: lan0}
      beside:
    mounts: {/etc/a.yaml: ./a.yaml}
    memory: 64MiB
    cpu: {weight: 300, cap: 12.5%}
    attach: {beside: 'fw:1'}
chains:
  site: [lan, router, wan]
observers:
  flows: {at: ['router:in']}
wires: [[lan2, 'fw:0']]
services:
  7: router:beside
";

fn text(change: (&str, &str)) -> String {
    let text = ROUTER
        .replace("  wan:", "  lan2: {type: 'null'}\n  wan:")
        .replace("  fw:", "  flows: {image: monitor}\n  fw:");
    assert!(text.contains(change.0), "{}", change.0);
    text.replacen(change.0, change.1, 1)
}

#[test]
fn a_container_is_what_is_asked_for_and_a_port_for_each_interface() {
    let Configuration { wiring, warnings } = good(&text(("\n", "\n")));
    assert_eq!(lines(&warnings), "");
    let interface = |name: &str, inside: &str, number, addresses: &[&str]| ContainerInterface {
        name: name.to_owned(),
        inside: inside.to_owned(),
        outer: container_link("router", number),
        addresses: addresses.iter().map(|it| (*it).to_owned()).collect(),
    };
    let Container { interfaces, command, mounts, memory, weight, cap, processes, tenant, .. } =
        &wiring.containers["router"];
    assert_eq!(
        *interfaces,
        [
            interface("out", "eth0", 0, &["192.0.2.1/24", "2001:db8::1/64"]),
            interface("in", "lan0", 1, &[]),
            interface("beside", "eth2", 2, &[]),
        ]
    );
    assert_eq!((command.len(), &*mounts["/etc/a.yaml"], *memory), (2, "./a.yaml", 64 << 20));
    assert_eq!((*weight, *cap, *processes, tenant.as_str()), (300, Some(125), 256, "default"));
    let port = &wiring.ports["router:in"];
    assert_eq!((port.driver.as_str(), port.tenant.as_str()), ("af_packet", "default"));
    let settings = port.settings.get("interface").and_then(schema::Value::as_text);
    assert_eq!(settings, Some(container_link("router", 1).as_str()));
    // In a chain it is entered by its first interface and left by its second, as any function.
    let port = |name: &str| Endpoint::Port(name.to_owned());
    for (one, other) in [
        (port("lan"), port("router:out")),
        (port("router:in"), port("wan")),
        (port("router:beside"), Endpoint::Interface("fw".to_owned(), 1)),
    ] {
        assert_eq!(wiring.peer(&one), Some(&other));
    }
    assert_eq!(wiring.services[&service("default", 7)], port("router:beside"));
    assert!(!wiring.instances.contains_key("router"));
}

#[test]
fn every_fault_of_a_container_has_its_place() {
    for (change, wanted) in [
        (("memory: 64MiB", "memory: 64KiB"), "functions.router.memory: found `64KiB`; allowed:"),
        (("    memory: 64MiB\n", ""), "functions.router.memory: the required key `memory` is missing"),
        (("guest: container", "guest: vm"), "functions.router.guest: found `vm`; allowed: wasm, container"),
        (("as: veth", "as: tap"), "functions.router.interfaces.in.as: found `tap`; allowed: one of veth"),
        (
            ("name: lan0", "name: eth0"),
            "functions.router.interfaces.in.name: found `eth0`; allowed: a lower-case",
        ),
        (
            ("name: lan0", "name: lo"),
            "functions.router.interfaces.in.name: found `lo`; allowed: a lower-case",
        ),
        (
            ("192.0.2.1/24", "192.0.2.1/33"),
            "functions.router.interfaces.out.addresses[0]: found `192.0.2.1/33`",
        ),
        (
            ("/etc/a.yaml:", "etc/a.yaml:"),
            "functions.router.mounts.etc/a.yaml: found `etc/a.yaml` as a path inside",
        ),
        (("./a.yaml}", "[]}"), "functions.router.mounts./etc/a.yaml: found a list; allowed: the path"),
        (("12.5%", "120%"), "functions.router.cpu.cap: found `120%`; allowed:"),
        (
            ("cpu: {weight", "config: {a: 1}\n    cpu: {weight"),
            "functions.router.config: unknown key `config`; allowed: attach, interfaces, mounts, guest",
        ),
        (
            ("router:in'", "router:inn'"),
            "`router` has no interface `inn`; allowed: router:out, router:in, router:beside (or router:0 to router:2); did you mean `router:in`?",
        ),
        (("at: ['router:in']", "at: [router]"), "found `router` without an interface; allowed: router:out"),
        (("flows: {at", "router: {at"), "`router` is a container; allowed: "),
        (
            ("wires: [[lan2, 'fw:0']]", "wires: [[lan2, 'router:0']]"),
            "`router:out` has a wire already: to `lan`",
        ),
    ] {
        let faults = check("f.yaml", &text(change), &shelf()).expect_err(change.1);
        let found = lines(&faults);
        assert!(found.contains(wanted), "{change:?}: {found}");
    }
}

#[test]
fn packets_pass_by_a_container_that_fails_open_between_its_first_two_interfaces() {
    let open = text(("memory: 64MiB", "memory: 64MiB\n    fail: open"));
    let wiring = good(&open).wiring;
    let side =
        |name: &str| wiring.ports[name].bypass.as_ref().map(|side| (side.container.as_str(), side.second));
    assert_eq!(side("router:out"), Some(("router", false)));
    assert_eq!(side("router:in"), Some(("router", true)));
    assert_eq!((side("router:beside"), side("lan")), (None, None));
    assert!(good(&text(("\n", "\n"))).wiring.ports.values().all(|port| port.bypass.is_none()));

    let alone = "superfluid: 1\nfunctions:\n  a: {guest: container, image: ./a, memory: 1MiB, interfaces: {in: {}}, fail: open}\n";
    bad(
        alone,
        "f.yaml:3:79: functions.a.fail: found `open` with 1 interfaces; allowed: with two or more, between which packets pass by it\n",
    );
    let round = "superfluid: 1\nswitches: {hall: {}}\nfunctions:\n  a: {guest: container, image: ./a, memory: 1MiB, interfaces: {in: {}, out: {}}, fail: open, attach: {in: hall, out: hall}}\n";
    let found = lines(&check("f.yaml", round, &shelf()).expect_err("a loop"));
    assert!(
        found.contains("functions.a.fail: found `open`, and both") && found.contains("the switch `hall`"),
        "{found}"
    );
}

#[test]
fn a_port_on_the_outer_end_of_a_container_is_told() {
    let outer = container_link("router", 1);
    let taken = text(("interface: sf-wan", &format!("interface: {outer}")));
    let found = lines(&check("f.yaml", &taken, &shelf()).expect_err("two ports on one interface"));
    assert!(
        found.contains(&format!("would be {outer}, on which the port `wan` is; allowed: another name")),
        "{found}"
    );
}

#[test]
fn a_container_that_nothing_is_wired_to_is_warned_of() {
    let alone = "superfluid: 1\nfunctions:\n  a: {guest: container, image: ./a, memory: 1MiB, interfaces: {in: {}}}\n";
    let warnings = lines(&good(alone).warnings);
    assert!(warnings.contains("nothing is wired to the container `a`"), "{warnings}");
}
