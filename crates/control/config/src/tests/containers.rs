//! Functions that are containers: what the launcher will be asked for, and their ports.

use super::*;
use wiring::{
    Container, ContainerInterface, ContainerKind, InterfaceKind, KvmUse, ProbeAsks, container_link,
};

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
        kind: InterfaceKind::Veth,
        inside: inside.to_owned(),
        outer: container_link("router", number),
        addresses: addresses.iter().map(|it| (*it).to_owned()).collect(),
        gateways: Vec::new(),
        mtu: None,
        mac: None,
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
    let ring = |port: &str| wiring.ports[port].settings.get("ring").and_then(schema::Value::as_size);
    assert_eq!((ring("router:in"), ring("lan")), (Some(1 << 20), Some(8 << 20)), "a start waits for it");
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
    assert_eq!(wiring.containers["router"].attach_within, None, "the launcher makes its interfaces");
}

#[test]
fn a_container_beside_a_worker_claims_a_part_of_it_that_is_promised_once() {
    let with = |reserve: &str| {
        format!(
            "superfluid: 1\nworkers: 2\nfunctions:\n  fw: {{image: firewall, worker: 1, cpu: {{reserve: {reserve}}}}}\n  \
             box: {{guest: container, image: ./a, memory: 64MiB, worker: 1, cpu: {{weight: 300}}}}\n"
        )
    };
    let Configuration { wiring, .. } = good(&with("25%"));
    assert_eq!(wiring.containers["box"].worker, Some(1));
    assert_eq!(wiring.containers["box"].claim().weight.get(), 300);
    let told = check("f.yaml", &with("26%"), &shelf()).expect_err("it is promised away");
    assert!(
        lines(&told).contains("functions.fw.cpu.reserve: found `26%`; allowed: at most 25%"),
        "{}",
        lines(&told)
    );
    let far = with("25%").replace("worker: 1, cpu: {weight", "worker: 2, cpu: {weight");
    let told = check("f.yaml", &far, &shelf()).expect_err("there is none");
    assert!(lines(&told).contains("functions.box.worker: found `2`; allowed: 0 to 1"), "{}", lines(&told));
}

#[test]
fn every_fault_of_a_container_has_its_place() {
    for (change, wanted) in [
        (("memory: 64MiB", "memory: 64KiB"), "functions.router.memory: found `64KiB`; allowed:"),
        (
            ("memory: 64MiB", "memory: 64MiB\n    digest: sha256:abc"),
            "functions.router.digest: found `sha256:abc`; allowed: sha256: and 64 digits, 0 to f",
        ),
        (("    memory: 64MiB\n", ""), "functions.router.memory: the required key `memory` is missing"),
        (
            ("guest: container", "guest: pod"),
            "functions.router.guest: found `pod`; allowed: wasm, container, program, vm",
        ),
        (
            ("as: veth", "as: vet"),
            "functions.router.interfaces.in.as: found `vet`; allowed: veth, af_xdp, tap, library, memif, vhost-user; did you mean `veth`?",
        ),
        (
            ("as: veth", "as: veth, write: true"),
            "functions.router.interfaces.in.write: unknown key `write`; allowed: as, name, addresses, gateways",
        ),
        (
            ("memory: 64MiB", "memory: 64MiB\n    heartbeat: 100ms"),
            "functions.router.heartbeat: found `100ms`; allowed: `probe`, or `as: library`",
        ),
        (
            ("memory: 64MiB", "memory: 64MiB\n    attach_within: 5s"),
            "functions.router.attach_within: found `5s`, and no interface is a socket; allowed: with one that is `as: library`",
        ),
        (
            ("name: lan0", "name: eth0"),
            "functions.router.interfaces.in.name: found `eth0`; allowed: a lower-case",
        ),
        (
            ("name: lan0", "name: lo"),
            "functions.router.interfaces.in.name: found `lo`; allowed: a lower-case",
        ),
        (
            ("name: lan0", "name: default"),
            "functions.router.interfaces.in.name: found `default`; allowed: a lower-case",
        ),
        (
            ("192.0.2.1/24", "192.0.2.1/33"),
            "functions.router.interfaces.out.addresses[0]: found `192.0.2.1/33`",
        ),
        (
            ("192.0.2.1/24", "127.0.0.1/8"),
            "functions.router.interfaces.out.addresses[0]: found `127.0.0.1/8`; allowed: a host's address",
        ),
        (
            ("2001:db8::1/64", "ff02::1/64"),
            "functions.router.interfaces.out.addresses[1]: found `ff02::1/64`; allowed: a host's address",
        ),
        (
            ("2001:db8::1/64", "192.0.2.1/32"),
            "functions.router.interfaces.out.addresses[1]: found `192.0.2.1/32` once more; allowed: each address once",
        ),
        (
            ("as: veth", "as: veth, gateways: [192.0.2.254]"),
            "functions.router.interfaces.in.gateways: found 192.0.2.254, which is in no network of the interface's `addresses`",
        ),
        (
            ("2001:db8::1/64']", "2001:db8::1/64'], gateways: [192.0.2.1]"),
            "functions.router.interfaces.out.gateways: found 192.0.2.1, which is its own; allowed: the address of another station",
        ),
        (
            ("2001:db8::1/64']", "2001:db8::1/64'], gateways: [192.0.2.2, 192.0.2.3]"),
            "functions.router.interfaces.out.gateways: found 192.0.2.3, and 192.0.2.2 is the guest's router of IPv4; allowed: one",
        ),
        (
            ("/etc/a.yaml:", "etc/a.yaml:"),
            "functions.router.mounts.etc/a.yaml: found `etc/a.yaml` as a path inside",
        ),
        (("./a.yaml}", "[]}"), "functions.router.mounts./etc/a.yaml: found a list; allowed: the path"),
        (
            ("{/etc/a.yaml:", "{/proc/a.yaml:"),
            "functions.router.mounts./proc/a.yaml: found `/proc/a.yaml` as a path inside; allowed: absolute paths",
        ),
        (
            ("{/etc/a.yaml:", "{/etc/../a.yaml:"),
            "functions.router.mounts./etc/../a.yaml: found `/etc/../a.yaml` as a path inside",
        ),
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
        (("flows: {at", "router: {at"), "observers.router: `router` is an observer and is wired in line 2"),
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

    let alone = "superfluid: 1\nfunctions:\n  a: {guest: container, image: ./a, memory: 8MiB, interfaces: {in: {}}, fail: open}\n";
    bad(
        alone,
        "f.yaml:3:79: functions.a.fail: found `open` with 1 interfaces; allowed: with two or more, between which packets pass by it\n",
    );
    let round = "superfluid: 1\nswitches: {hall: {}}\nfunctions:\n  a: {guest: container, image: ./a, memory: 8MiB, interfaces: {in: {}, out: {}}, fail: open, attach: {in: hall, out: hall}}\n";
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
fn a_container_is_asked_by_a_program_or_at_a_port() {
    let with = |probe: &str| text(("memory: 64MiB", &format!("memory: 64MiB\n    probe: {probe}")));
    let probe = |probe: &str| good(&with(probe)).wiring.containers["router"].probe.clone().expect("a probe");
    let second = telemetry::clock::Nanos(1_000_000_000);
    let found = probe("{tcp: 443, every: 200ms, failures: 3}");
    assert_eq!((found.asks, found.every.0, found.failures), (ProbeAsks::Tcp(443), 200_000_000, 3));
    let found = probe("{exec: [/bin/ask, me]}");
    assert_eq!(found.asks, ProbeAsks::Exec(vec!["/bin/ask".into(), "me".into()]));
    assert_eq!(
        (found.every, found.within, found.failures, found.start.0),
        (second, second, 1, 10 * second.0)
    );
    for (text, wanted) in [
        ("{}", "functions.router.probe: found neither; allowed: one of `exec` and `tcp`"),
        ("{tcp: 1, exec: [a]}", "functions.router.probe: found both; allowed: one of `exec` and `tcp`"),
        ("{tcp: 0}", "functions.router.probe.tcp: found `0`; allowed:"),
        (
            "{exec: [a], every: 999ms}",
            "functions.router.probe.every: found 999ms; allowed: with `exec` at least 1s",
        ),
        ("{tcp: 1, failures: 0}", "functions.router.probe.failures: found `0`; allowed:"),
        ("{udp: 1}", "functions.router.probe.udp: unknown key `udp`; allowed:"),
    ] {
        let found = lines(&check("f.yaml", &with(text), &shelf()).expect_err(text));
        assert!(found.contains(wanted) && found.lines().count() == 1, "{text}: {found}");
    }
}

#[test]
fn a_container_observes_by_its_first_interface() {
    let text = "superfluid: 1\nports: {a: {type: 'null'}, b: {type: 'null'}}\nfunctions:\n  \
                ids: {guest: container, image: ./a, memory: 8MiB, interfaces: {in: {}, manage: {}}}\nchains: {c: [a, b]}\n\
                observers: {ids: {at: [a], filter: 'not port 22'}}\n";
    let Configuration { wiring, warnings } = good(text);
    assert_eq!(lines(&warnings), "");
    let seen: Vec<String> = wiring.observations.iter().map(ToString::to_string).collect();
    assert_eq!(seen, ["ids:in at a"]);
    // By the others it has ordinary wires, by this one none.
    good(&text.replace("chains: {c: [a, b]}", "wires: [[a, 'ids:manage']]").replace("b: {type: 'null'}", ""));
    for (change, wanted) in [
        (
            ("chains: {c: [a, b]}", "wires: [[b, 'ids:in']]"),
            "observers.ids: `ids` is an observer and is wired in line 5; allowed: either",
        ),
        (
            ("chains: {c: [a, b]}", "services: {7: ids:in}"),
            "observers.ids: `ids` is an observer and is a service in line 5",
        ),
        (("at: [a]", "at: ['ids:in']"), "observers.ids.at[0]: `ids` is to observe itself"),
        (
            ("memory: 8MiB", "memory: 8MiB, fail: open"),
            "observers.ids: `ids` is an observer and has `fail: open`; allowed: `fail: closed`",
        ),
        (
            ("{in: {}, manage: {}}", "{}"),
            "observers.ids: `ids` is an observer without interfaces; allowed: one or more",
        ),
    ] {
        let text = text.replacen(change.0, change.1, 1);
        let found = lines(&check("f.yaml", &text, &shelf()).expect_err(change.1));
        assert!(found.contains(wanted), "{change:?}: {found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn a_container_that_nothing_is_wired_to_is_warned_of() {
    let alone = "superfluid: 1\nfunctions:\n  a: {guest: container, image: ./a, memory: 8MiB, interfaces: {in: {}}}\n";
    let warnings = lines(&good(alone).warnings);
    assert!(warnings.contains("nothing is wired to the container `a`"), "{warnings}");
}

const PROGRAM: &str = "\
superfluid: 1
ports: {a: {type: 'null'}, b: {type: 'null'}, c: {type: 'null'}, d: {type: 'null'}, e: {type: 'null'}}
functions:
  fwd:
    guest: program
    command: [/usr/local/bin/forwarder, /run/superfluid/in.sock]
    interfaces:
      in: {as: library, write: true}
      out_to_the_other_side: {as: library, name: out, heartbeat: 1s, ring: 64}
      side: {as: memif, queues: 2, secret: x}
      vm: {as: vhost-user, queues: 2, offload: off}
      wire: {}
      fast: {as: af_xdp, mode: generic}
      tap: {as: tap, name: lan, addresses: [192.0.2.1/24], mtu: 9000, mac: '02:00:00:00:00:01', offload: off}
    memory: 64MiB
    heartbeat: 100ms
    fail: open
chains: {c: [a, fwd, b]}
wires: [[c, 'fwd:side'], [d, 'fwd:wire'], [e, 'fwd:vm']]
";

#[test]
fn a_program_is_started_as_a_container_is_and_its_interfaces_are_of_any_kind() {
    let Configuration { wiring, warnings } = good(PROGRAM);
    assert_eq!(lines(&warnings), "");
    let Container { kind, image, interfaces, command, .. } = &wiring.containers["fwd"];
    assert_eq!((*kind, image.as_str(), command.len()), (ContainerKind::Program, "", 2));
    let seen: Vec<_> = interfaces.iter().map(|it| (it.kind, &*it.inside, it.outer.clone())).collect();
    let expected = [
        (InterfaceKind::Library, "in", "fwd/in.sock".to_owned()),
        (InterfaceKind::Library, "out", "fwd/out.sock".to_owned()),
        (InterfaceKind::Memif, "side", "fwd/side.sock".to_owned()),
        (InterfaceKind::VhostUser, "vm", "fwd/vm.sock".to_owned()),
        (InterfaceKind::Veth, "eth4", container_link("fwd", 4)),
        (InterfaceKind::AfXdp, "eth5", container_link("fwd", 5)),
        (InterfaceKind::Tap, "lan", container_link("fwd", 6)),
    ];
    assert_eq!(seen, expected);
    let drivers: Vec<&str> =
        interfaces.iter().map(|it| wiring.ports[&format!("fwd:{}", it.name)].driver.as_str()).collect();
    assert_eq!(drivers, ["native", "native", "memif", "vhost-user", "af_packet", "af_xdp", "tap"]);
    let setting = |port: &str, key: &str| wiring.ports[port].settings.get(key).cloned();
    let duration = |ms: u64| Some(schema::Value::Duration(ms * 1_000_000));
    assert_eq!(setting("fwd:in", "heartbeat"), duration(100), "the function's");
    assert_eq!(setting("fwd:out_to_the_other_side", "heartbeat"), duration(1000), "its own");
    let text = |port: &str, key: &str| setting(port, key).and_then(|it| it.as_text().map(str::to_owned));
    assert_eq!(text("fwd:in", "socket").as_deref(), Some("fwd/in.sock"));
    assert_eq!(text("fwd:side", "role").as_deref(), Some("master"));
    assert_eq!(text("fwd:vm", "role").as_deref(), Some("server"));
    assert_eq!(text("fwd:vm", "offload").as_deref(), Some("off"));
    assert_eq!(text("fwd:tap", "interface"), Some(container_link("fwd", 6)));
    assert_eq!(text("fwd:tap", "offload").as_deref(), Some("off"));
    let tap = &interfaces[6];
    assert_eq!((tap.mtu, tap.mac, tap.addresses.len()), (Some(9000), Some([2, 0, 0, 0, 0, 1]), 1));
    assert_eq!(setting("fwd:tap", "mtu").and_then(|mtu| mtu.as_integer()), Some(9000));
    assert_eq!(text("fwd:side", "secret").as_deref(), Some("x"));
    assert_eq!(text("fwd:fast", "mode").as_deref(), Some("generic"));
    let port = |name: &str| Endpoint::Port(name.to_owned());
    assert_eq!(wiring.peer(&port("b")), Some(&port("fwd:out_to_the_other_side")));
    let within = |text: &str| good(text).wiring.containers["fwd"].attach_within;
    assert_eq!(within(PROGRAM), Some(telemetry::clock::Nanos(60_000_000_000)));
    let said = PROGRAM.replacen("    fail: open", "    fail: open\n    attach_within: 2s", 1);
    assert_eq!(within(&said), Some(telemetry::clock::Nanos(2_000_000_000)));
    let sides = ["in", "out_to_the_other_side"].map(|it| wiring.ports[&format!("fwd:{it}")].bypass.is_some());
    assert_eq!(sides, [true, true], "what goes on without it does so between sockets, too");
}

#[test]
fn every_fault_of_a_program_has_its_place() {
    for (change, wanted) in [
        (
            ("    command:", "    image: ./a\n    command:"),
            "functions.fwd.image: unknown key `image`; allowed: attach, interfaces, mounts, guest, command",
        ),
        (
            ("    command: [/usr/local/bin/forwarder, /run/superfluid/in.sock]\n", ""),
            "functions.fwd.command: the required key `command` is missing",
        ),
        (
            ("command: [/usr/local/bin/forwarder, /run/superfluid/in.sock]", "command: []"),
            "functions.fwd.command: ",
        ),
        (
            ("name: out, ", ""),
            "functions.fwd.interfaces.out_to_the_other_side.name: found `out_to_the_other_side`; allowed: letters, digits",
        ),
        (("name: out,", "name: ../x,"), "out_to_the_other_side.name: found `../x`; allowed: letters, digits"),
        (("name: out,", "name: in,"), "out_to_the_other_side.name: found `in`; allowed: letters, digits"),
        (
            ("write: true", "socket: /etc/x"),
            "functions.fwd.interfaces.in.socket: unknown key `socket`; allowed: ",
        ),
        (("write: true", "uid: 0"), "functions.fwd.interfaces.in.uid: unknown key `uid`; allowed: "),
        (
            ("write: true", "standby: 1"),
            "functions.fwd.interfaces.in.standby: unknown key `standby`; allowed: ",
        ),
        (
            ("write: true", "addresses: [192.0.2.1/24]"),
            "functions.fwd.interfaces.in.addresses: unknown key `addresses`; allowed: as, name, write",
        ),
        (("queues: 2", "role: slave"), "functions.fwd.interfaces.side.role: unknown key `role`; allowed: "),
        (("queues: 2", "queues: 17"), "functions.fwd.interfaces.side.queues: found `17`; allowed: "),
        (
            ("ring: 64", "ring: 63"),
            "functions.fwd.interfaces.out_to_the_other_side.ring: found `63`; allowed: ",
        ),
        (("mode: generic", "mode: quick"), "functions.fwd.interfaces.fast.mode: found `quick`; allowed: "),
        (("heartbeat: 100ms", "heartbeat: 1ms"), "functions.fwd.heartbeat: found `1ms`; allowed: "),
        (("mtu: 9000", "mtu: 67"), "functions.fwd.interfaces.tap.mtu: found `67`; allowed: "),
        (
            ("mtu: 9000", "queues: 2"),
            "functions.fwd.interfaces.tap.queues: unknown key `queues`; allowed: as, ",
        ),
        (("'02:00", "'01:00"), "functions.fwd.interfaces.tap.mac: not the address of one interface"),
        (
            ("mode: generic", "mac: '02:00:00:00:00:02'"),
            "functions.fwd.interfaces.fast.mac: unknown key `mac`",
        ),
    ] {
        assert!(PROGRAM.contains(change.0), "{}", change.0);
        let text = PROGRAM.replacen(change.0, change.1, 1);
        let faults = check("f.yaml", &text, &shelf()).expect_err(change.1);
        let found = lines(&faults);
        assert!(found.contains(wanted), "{change:?}: {found}");
    }
    let alone = "superfluid: 1\nfunctions:\n  a: {guest: program, command: [/usr/bin/a], memory: 8MiB, interfaces: {in: {}}}\n";
    let warnings = lines(&good(alone).warnings);
    assert!(warnings.contains("nothing is wired to the program `a`"), "{warnings}");
}

#[test]
fn those_that_stand_by_share_sockets_of_the_library_or_have_interfaces_of_their_own() {
    let of = |interfaces: &str| {
        format!(
            "superfluid: 1\nports: {{a: {{type: 'null'}}, b: {{type: 'null'}}}}\nfunctions:\n  fwd: {{guest: program, command: [/usr/bin/a], \
             memory: 8MiB, standby: 2, interfaces: {interfaces}}}\nchains: {{c: [a, fwd, b]}}\n"
        )
    };
    let wiring = good(&of("{in: {as: library}, out: {as: library}}")).wiring;
    assert_eq!((wiring.containers["fwd"].standby, wiring.containers["fwd"].promised_memory()), (2, 24 << 20));
    for port in ["fwd:in", "fwd:out"] {
        let standby = wiring.ports[port].settings.get("standby").and_then(schema::Value::as_integer);
        assert_eq!(standby, Some(2));
    }
    let links = good(&of("{in: {as: tap}, out: {as: af_xdp}, more: {}}")).wiring;
    assert_eq!((links.containers["fwd"].standby, links.containers["fwd"].promised_memory()), (2, 24 << 20));
    // What its ports are opened with is the same without others, so that they stay as they are.
    let alone = good(&of("{in: {as: tap}, out: {as: af_xdp}, more: {}}").replace("standby: 2, ", "")).wiring;
    assert_eq!(links.ports, alone.ports);
    for interfaces in [
        "{in: {as: library}, out: {}}",
        "{in: {as: library}, out: {as: memif}}",
        "{in: {as: vhost-user}}",
        "{}",
    ] {
        let found = lines(&check("f.yaml", &of(interfaces), &shelf()).expect_err("it has others"));
        assert!(found.contains("functions.fwd.standby: found `2`; allowed: where all interfaces"), "{found}");
    }
    // The outer ends of those that stand by are none of an operator's.
    let outer = wiring::standby_link(&wiring::container_link("fwd", 1), 2);
    let taken = of("{in: {}, out: {}}")
        .replace("a: {type: 'null'}", &format!("a: {{type: af_packet, interface: {outer}}}"));
    let found = lines(&check("f.yaml", &taken, &shelf()).expect_err("it is taken"));
    assert!(found.contains("on which the port `a` is; allowed: another name for this function"), "{found}");
}

const MACHINE: &str = "\
superfluid: 1
ports: {lan: {type: 'null'}, wan: {type: 'null'}}
functions:
  machine:
    guest: vm
    kernel: /boot/vmlinuz
    initrd: ./initramfs
    image: /opt/disk.qcow2
    append: quiet
    memory: 448MiB
    processors: 2
    interfaces: {in: {queues: 2}, out: {as: vhost-user, name: other}}
chains: {c: [lan, machine, wan]}
";

#[test]
fn a_virtual_machine_is_a_program_whose_command_follows_from_what_is_said_of_it() {
    let Configuration { wiring, warnings } = good(MACHINE);
    assert_eq!(lines(&warnings), "");
    let Container { kind, command, mounts, interfaces, memory, .. } = &wiring.containers["machine"];
    assert_eq!((*kind, *memory), (ContainerKind::Vm, 448 << 20));
    let line = command.join(" ");
    for part in [
        "-m 256M -object memory-backend-memfd,id=memory,size=256M,share=on -numa node,memdev=memory",
        "-smp 2",
        "-accel kvm -accel tcg,tb-size=64",
        "-kernel /vm/kernel -initrd /vm/initrd",
        "-drive file=/vm/image,format=qcow2,if=virtio,readonly=on",
        "panic=-1 quiet",
        "-chardev socket,id=socket0,path=/run/superfluid/in.sock,reconnect=1 -netdev vhost-user,id=net0,chardev=socket0,queues=2",
        "path=/run/superfluid/other.sock,reconnect=1 -netdev vhost-user,id=net1,chardev=socket1,queues=1",
    ] {
        assert!(line.contains(part), "`{part}` in: {line}");
    }
    assert!(command[0].starts_with("/usr/bin/qemu-system-"), "{line}");
    let macs: Vec<&str> = line.split("mac=").skip(1).map(|rest| &rest[..17]).collect();
    assert!(macs.len() == 2 && macs[0] != macs[1] && macs[0].starts_with("52:54:00:"), "{macs:?}");
    let expected =
        [("/vm/image", "/opt/disk.qcow2"), ("/vm/initrd", "./initramfs"), ("/vm/kernel", "/boot/vmlinuz")];
    let found: Vec<(&str, &str)> = mounts.iter().map(|(inside, path)| (&**inside, &**path)).collect();
    assert_eq!(found, expected);
    assert!(interfaces.iter().all(|it| it.kind == InterfaceKind::VhostUser));
    assert_eq!(wiring.ports["machine:in"].driver, "vhost-user");
    let within = wiring.containers["machine"].attach_within;
    assert_eq!(within.map(|it| it.0), Some(300_000_000_000), "it boots first, emulated it may be");
    for (accel, kvm, options) in [
        ("auto", KvmUse::IfPossible, vec!["kvm", "tcg,tb-size=64"]),
        ("kvm", KvmUse::Required, vec!["kvm"]),
        ("tcg", KvmUse::No, vec!["tcg,tb-size=64"]),
    ] {
        let text = MACHINE.replacen("processors: 2", &format!("accel: {accel}"), 1);
        let machine = &good(&text).wiring.containers["machine"];
        let found: Vec<&str> =
            machine.command.windows(2).filter(|it| it[0] == "-accel").map(|it| it[1].as_str()).collect();
        assert_eq!((machine.kvm, found), (kvm, options), "{accel}");
    }
    for (change, wanted) in [
        (("448MiB", "255MiB"), "functions.machine.memory: found 255MiB; allowed: at least 256MiB"),
        (
            ("as: vhost-user", "as: veth"),
            "functions.machine.interfaces.out.as: found `veth`; allowed: vhost-user",
        ),
        (("kernel: /boot/vmlinuz", "command: [/bin/sh]"), "functions.machine.command: "),
        (
            ("processors: 2", "accel: hax"),
            "functions.machine.accel: found `hax`; allowed: one of auto, kvm, tcg",
        ),
        (("processors: 2", "standby: 1"), "functions.machine.standby: "),
        (
            ("processors: 2", "probe: {tcp: 80}"),
            "f.yaml:11:18: functions.machine.probe.tcp: found a port of a virtual machine",
        ),
    ] {
        let text = MACHINE.replacen(change.0, change.1, 1);
        let found = lines(&check("f.yaml", &text, &shelf()).expect_err(change.1));
        assert!(found.contains(wanted), "{change:?}: {found}");
    }
}
