//! Devices, and what opens them.

use super::*;
use ::virtual_device::{Balance, Mode, Share};
use std::net::IpAddr;
use telemetry::clock::Nanos;
use wiring::{Opening, PortStation};

/// A file with three ports, and functions of two tenants, followed by `text` in line 9 and below.
pub(super) fn nics(text: &str) -> String {
    format!(
        "superfluid: 1\ntenants: {{red: {{}}, default: {{}}}}\nports: {{nic1: {{type: 'null'}}, nic2: {{type: 'null'}}, nic3: {{type: \
         'null'}}}}\nfunctions:\n  fw: {{image: firewall}}\n  ids: {{image: monitor}}\n  flows: {{image: monitor}}\n  foe: {{image: \
         monitor, tenant: red}}\n{text}"
    )
}

#[test]
fn a_file_of_devices_is_read() {
    let Configuration { wiring, warnings } = good(
        "\
superfluid: 1
tenants: {red: {}, default: {}}
ports: {nic1: {type: 'null'}, nic2: {type: 'null'}, nic3: {type: 'null'}, nic4: {type: 'null'}}
devices:
  bridge0: {mode: bridge, over: {nic1: {receive: udp port 4789}, nic2: {receive: net 192.168.0.0/16, priority: 7}}}
  bond0: {mode: bond, balance: flowlet, gap: 1ms, over: {nic2: {receive: net 192.0.0.0/8}, nic3: , nic4: {}}, share: duplicate,
    open_to: [{tenant: red, function: foe}]}
  virt0: {mode: rootless}
functions:
  fw: {image: firewall}
  ids: {image: monitor, attach: {tap: {to: bond0, order: 3}}}
  foe: {image: monitor, tenant: red, attach: {tap: bond0}}
  a: {image: monitor, attach: {0: virt0}}
  b: {image: monitor}
chains: {c: ['bridge0:nic1', fw, 'bridge0:nic2']}
wires: [[virt0, b:0]]
services: {7: bond0, 8: 'bridge0:nic1'}
",
    );
    assert_eq!(lines(&warnings), "");
    let modes: Vec<_> = wiring.devices.values().map(|device| (device.mode, device.share)).collect();
    let flowlets = Mode::Bond(Balance::Flowlet { gap: Nanos::from_millis(1) });
    assert_eq!(
        modes,
        [(Mode::Bridge, Share::Single), (flowlets, Share::Duplicate), (Mode::Rootless, Share::Single)]
    );
    let over = |name: &str| -> Vec<(String, Option<String>, u32)> {
        let over = wiring.devices[name].over.iter();
        let text = |policy: &wiring::PortPolicy| policy.receive.as_ref().map(|it| it.text().to_owned());
        over.map(|(name, policy)| (name.clone(), text(policy), policy.priority)).collect()
    };
    let want =
        |name: &str, receive: Option<&str>, priority| (name.to_owned(), receive.map(str::to_owned), priority);
    assert_eq!(
        over("bridge0"),
        [want("nic1", Some("udp port 4789"), 100), want("nic2", Some("net 192.168.0.0/16"), 7)]
    );
    assert_eq!(
        over("bond0"),
        [want("nic2", Some("net 192.0.0.0/8"), 100), want("nic3", None, 100), want("nic4", None, 100)]
    );
    let edges: Vec<String> = wiring.edges.iter().map(ToString::to_string).collect();
    assert_eq!(
        edges,
        [
            "bond0 - foe:0",
            "bond0 - ids:0",
            "bridge0:nic1 - fw:0",
            "bridge0:nic2 - fw:1",
            "virt0 - a:0",
            "virt0 - b:0"
        ]
    );
    let opening = |edge: &str| {
        let edge = wiring.edges.iter().find(|it| it.to_string() == edge).unwrap();
        edge.opening().unwrap().1.clone()
    };
    assert_eq!(opening("bond0 - ids:0"), Opening { order: 3, ..Opening::of("bond0", None) });
    assert_eq!(opening("bridge0:nic1 - fw:0"), Opening::of("bridge0", Some("nic1")));
    let bond = Endpoint::Device(Opening::of("bond0", None));
    assert_eq!(wiring.services[&service("default", 7)], bond);
}

#[test]
fn devices_that_cannot_be() {
    bad(
        "\
superfluid: 1
ports: {lan: {type: 'null'}, wan: {type: 'null'}}
switches: {hall: {}}
devices:
  lan: {mode: direct}
  a: {mode: direct, over: [lan, wan]}
  b: {over: [lan]}
  c: {mode: bridge, over: [lan]}
  d: {mode: rootless, over: [lan]}
  e: {mode: bond, over: []}
  f: {mode: bond, balance: flow, gap: 1ms, over: [lan, wann, hall]}
  g: {mode: direct, balance: flow, over: {lan: {receive: 'udp prt 7', priority: -1}}}
  h: {mode: direct, over: {lan: {receive: dropped}}}
  i: {mode: direct, over: [lan, lan], open_to: [{tenant: rad}, red]}
  j: 7
",
        "\
f.yaml:5:3: devices.lan: `lan` is the name of the port in line 2; allowed: a name of its own
f.yaml:6:27: devices.a.over: found 2 ports; allowed for this mode: one port
f.yaml:7:6: devices.b.mode: the required key `mode` is missing; allowed: one of direct, bond, bridge, rootless
f.yaml:8:27: devices.c.over: found one port; allowed for this mode: two ports or more
f.yaml:9:29: devices.d.over: found one port; allowed for this mode: no `over`: what one opener sends the others get
f.yaml:10:25: devices.e.over: found no ports; allowed for this mode: one port or more
f.yaml:11:39: devices.f.gap: `gap` says nothing here; allowed: with `balance: flowlet`
f.yaml:11:56: devices.f.over[1]: no port is named `wann`; allowed: lan, wan; did you mean `wan`?
f.yaml:11:62: devices.f.over[2]: `hall` is a switch; allowed: lan, wan
f.yaml:12:30: devices.g.balance: `balance` says nothing here; allowed: with `mode: bond`
f.yaml:12:81: devices.g.over.lan.priority: found `-1`; allowed: an integer from 0 to 65535
f.yaml:13:43: devices.h.over.lan.receive: found `dropped` or `passed`; allowed: what a packet is when it comes, before anything has become of it
f.yaml:14:33: devices.i.over[1]: `lan` is named twice; allowed: once
f.yaml:14:58: devices.i.open_to[0].tenant: found `rad`; allowed: default
f.yaml:14:64: devices.i.open_to[1]: found `red`; allowed: a map of these keys: tenant, function
f.yaml:15:6: devices.j: found `7`; allowed: a map with the key `mode`
",
    );
}

#[test]
fn openers_that_may_not() {
    let cases = [
        (
            "devices: {d: {mode: direct, over: [nic1]}}\nwires: [[nic1, fw:0], [d, nic2]]\n",
            "f.yaml:10:10: wires[0][0]: the device `d` is over the port `nic1`; allowed: `d`, or one side of it, `d:nic1`\n\
             f.yaml:10:27: wires[1][1]: a wire from the device `d` to `nic2`; allowed: from a device to an interface of a function\n",
        ),
        (
            "devices: {d: {mode: direct, over: [nic1]}}\nwires: [[d, foe:0]]\n",
            "f.yaml:10:10: functions.foe: `foe:0` opens the device `d`, which is not open to it; allowed: functions of the device's tenant, and \
             those that its `open_to` names\n",
        ),
        (
            "devices: {d: {mode: direct, over: [nic1]}}\nwires: [[d, ids:0], [d, flows:0]]\n",
            "f.yaml:10:10: functions.ids: `ids:0` is a second opener of the device `d`, beside `flows:0` in line 10; allowed: one, or \
             `share: duplicate` or `share: balance` of the device\n",
        ),
        (
            "devices: {d: {mode: direct, over: [nic1]}}\nwires: [['d:nic2', ids:0]]\n",
            "f.yaml:10:10: wires[0][0]: the device `d` is over no port `nic2`; allowed: d, d:nic1\n",
        ),
        (
            "devices: {d: {mode: direct, over: [nic1]}}\nservices: {7: nic1}\n",
            "f.yaml:10:15: services.7: the device `d` is over the port `nic1`; allowed: `d`, or one side of it, `d:nic1`\n",
        ),
        (
            "devices: {d: {mode: rootless}}\nwires: [[d, ids:0], [d, flows:0], [d, fw:0]]\n",
            "f.yaml:10:10: functions.ids: `ids:0` is a second opener of the device `d`, beside `fw:0` in line 10; allowed: one, or \
             `share: duplicate` or `share: balance` of the device\n",
        ),
        (
            "devices: {d: {mode: direct, over: [nic1]}}\nchains: {c: [nic2, d, nic3]}\n",
            "f.yaml:10:20: chains.c[1]: the device `d` stands inside a chain; allowed: ports, switches and devices at its two ends\n",
        ),
        (
            "devices: {d: {mode: rootless}}\nobservers: {foe: {at: [d]}, ids: {at: ['d:nic1']}}\n",
            "f.yaml:10:24: observers.foe.at[0]: the device `d` is not open to `foe` and the observer is `red`'s; allowed: what is of \
             the same tenant, and devices that are open to the observer\n\
             f.yaml:10:40: observers.ids.at[0]: the device `d` is over no port `nic1`; allowed: d\n",
        ),
        (
            "devices: {d: {mode: rootless}}\nwires: [[d, fw:0], [d, fw:1]]\n",
            "f.yaml:10:21: functions.fw: `fw:0` and `fw:1` get the same packets of the device `d`: what the function sends by one would \
             come back by the other; allowed: one of them, or sides of the device\n",
        ),
        (
            "devices: {d: {mode: direct, over: [nic1], open_to: [{tenant: red}]}}\nwires: [[d, foe:0], [d, ids:0]]\n",
            "f.yaml:10:22: functions.ids: `ids:0` is a second opener of the device `d`, beside another tenant's function; allowed: one, \
             or `share: duplicate` or `share: balance` of the device\n",
        ),
    ];
    for (text, expected) in cases {
        bad(&nics(text), expected);
    }
}

#[test]
fn what_one_port_of_a_device_brings_has_one_opener_unless_the_device_is_shared() {
    good(&nics(
        "devices: {d: {mode: bridge, over: [nic1, nic2]}}\nwires: [['d:nic1', ids:0], ['d:nic2', flows:0]]\n",
    ));
    good(&nics(
        "devices: {d: {mode: direct, over: [nic1], share: balance}}\nwires: [[d, ids:0], [d, flows:0]]\n",
    ));
    good(&nics(
        "devices: {d: {mode: rootless, share: duplicate}}\nwires: [[d, ids:0], [d, flows:0], [d, fw:0]]\n",
    ));
    let seen = "chains: {c: [nic2, fw, nic3]}\nobservers: {flows: {at: [fw]}}\n";
    good(&nics(&format!("devices: {{d: {{mode: direct, over: [nic1]}}}}\nwires: [[d, ids:0]]\n{seen}")));
}

#[test]
fn a_device_that_nothing_opens_is_a_warning() {
    let Configuration { warnings, .. } = good(&nics("devices: {d: {mode: direct, over: [nic1]}}\n"));
    let devices: Vec<_> = warnings.iter().filter(|fault| fault.key.starts_with("devices")).cloned().collect();
    assert_eq!(
        lines(&devices),
        "f.yaml:9:11: devices.d: nothing opens the device `d`; what comes for it is dropped (no-device)\n"
    );
    assert!(!lines(&warnings).contains("ports.nic1"), "a device is over it");
}

#[test]
fn policies_that_take_packets_from_each_other_are_warnings() {
    let wants = |policies: &str| {
        let devices = format!("devices: {{{policies}}}\nwires: [[a, ids:0], [b, flows:0]]\n");
        let Configuration { warnings, .. } = good(&nics(&devices));
        let of_devices: Vec<_> =
            warnings.into_iter().filter(|warning| warning.key.starts_with("devices")).collect();
        lines(&of_devices)
    };
    let two = |a: &str, b: &str| {
        wants(&format!("a: {{mode: bond, over: {{nic1: {a}}}}},\n  b: {{mode: bond, over: {{nic1: {b}}}}}"))
    };
    assert_eq!(two("{receive: udp port 53}", "{receive: tcp port 53}"), "");
    assert_eq!(two("{receive: udp port 53, priority: 3}", "{receive: udp}"), "", "the priority says it");
    assert_eq!(
        two("{receive: udp}", "{receive: udp port 53}"),
        "f.yaml:10:6: devices.b: `b` never gets a packet of `nic1`: `a` takes all that it wants\n"
    );
    assert_eq!(
        two("{receive: udp port 53}", "{receive: udp}"),
        "f.yaml:10:6: devices.b: `a` and `b` want the same packets of `nic1`, and `a` takes them, being the first by name; a \
         `priority` of one of them says which is meant\n"
    );
    assert_eq!(
        two("{receive: tcp and udp}", "{receive: udp}"),
        "f.yaml:9:14: devices.a: no packet of `nic1` can be what `a` wants\n"
    );
}

#[test]
fn policies_beyond_those_that_are_told_one_by_one_are_counted() {
    let warnings = |count: usize| {
        let device = |n: usize| format!("  d{n}: {{mode: direct, over: {{nic1: {{receive: port {n}}}}}}}\n");
        let devices: String = (1..=count).map(device).collect();
        let Configuration { warnings, .. } = good(&nics(&format!("devices:\n{devices}")));
        let told = warnings.into_iter().filter(|warning| warning.message.contains("of `nic1`"));
        lines(&told.collect::<Vec<_>>())
    };
    assert_eq!(warnings(4).lines().count(), 6, "each pair");
    let (five, six) = (warnings(5), warnings(6));
    assert_eq!((five.lines().count(), six.lines().count()), (9, 9), "{five}{six}");
    let last = |told: &str| told.lines().last().map(str::to_owned);
    let counted = |times: &str, more: &str| {
        Some(format!(
            "f.yaml:14:7: devices.d5: `d5` loses packets of `nic1` to others' policies: {times} times besides the 8 pairs of \
             policies there that are told one by one{more}"
        ))
    };
    assert_eq!(last(&five), counted("2", ""));
    assert_eq!(last(&six), counted("2", ", and so do 1 more"));
}

#[test]
fn policies_that_are_not_compared_are_said_to_be() {
    let warnings = |count: usize| {
        let device =
            |n: usize| format!("  d{n:03}: {{mode: direct, over: {{nic1: {{receive: udp port {n}}}}}}}\n");
        let devices: String = (1..=count).map(device).collect();
        let Configuration { warnings, .. } = good(&nics(&format!("devices:\n{devices}")));
        let told = warnings.into_iter().filter(|warning| warning.message.contains("compared"));
        lines(&told.collect::<Vec<_>>())
    };
    let beyond = |more: &str| {
        format!(
            "f.yaml:266:9: devices.d257: whether `d257` gets packets of `nic1` is not checked: the policies of 256 devices there \
             are compared, the first ones by priority and name{more}\n"
        )
    };
    assert_eq!(warnings(256), "");
    assert_eq!(warnings(257), beyond(""));
    assert_eq!(warnings(300), beyond(", and 43 more are not"));
}

#[test]
fn a_device_is_a_station_on_a_link() {
    let file = |device: &str| {
        format!(
            "superfluid: 1\nports: {{lan: {{type: af_packet, interface: eth0}}, dev: {{type: 'null'}}}}\n\
             devices:\n  d: {{{device}}}\nfunctions: {{fw: {{image: firewall, attach: {{inside: d}}}}}}\n"
        )
    };
    let station = |device: &str| match check("f.yaml", &file(device), &shelf()) {
        Ok(configuration) => Ok(configuration.wiring.devices["d"].station.clone()),
        Err(faults) => Err(lines(&faults)),
    };
    assert_eq!(station("mode: direct, over: [lan]"), Ok(None));
    let given = station(
        "mode: direct, over: [lan], addresses: [192.0.2.9/24, '2001:db8::9/64'], mac: 02:00:00:00:00:09, mtu: 9000, \
         multicast: [239.1.1.1]",
    );
    let given = given.unwrap().unwrap();
    let addresses: Vec<String> = given.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["192.0.2.9/24", "2001:db8::9/64"]);
    assert_eq!((given.mac, given.mtu, given.dhcp, given.ipv6), ([2, 0, 0, 0, 0, 9], 9000, false, true));
    assert_eq!(given.multicast, [IpAddr::from([239, 1, 1, 1])]);
    let own = station("mode: direct, over: [lan], dhcp: true").unwrap().unwrap();
    assert_eq!((own.mac[0], own.mtu, own.dhcp, own.ipv6), (2, 1500, true, false));
    assert_eq!(station("mode: direct, over: [lan], dhcp: true").unwrap().unwrap().mac, own.mac);
    for (device, fault) in [
        (
            "mode: direct, over: [lan], addresses: [192.0.2.9]",
            "addresses[0]: found `192.0.2.9`; allowed: an address with",
        ),
        ("mode: direct, over: [lan], addresses: [192.0.2.9/+8]", "found `192.0.2.9/+8`"),
        ("mode: direct, over: [lan], addresses: [192.0.2.9/33]", "192.0.2.9/33: allowed are 1 to 32 bits"),
        (
            "mode: direct, over: [lan], addresses: [192.0.2.255/24]",
            "192.0.2.255; allowed: the address of one host",
        ),
        ("mode: direct, over: [lan], addresses: [192.0.2.9/24, 192.0.2.9/24]", "192.0.2.9 is there twice"),
        ("mode: direct, over: [lan], multicast: [192.0.2.9]", "192.0.2.9; allowed: 224.0.0.0/4"),
        (
            "mode: direct, over: [lan], dhcp: true, mac: 01:00:00:00:00:09",
            "01:00:00:00:00:09; allowed: the address of one",
        ),
        ("mode: direct, over: [lan], mac: 02:00:00:00:00:09", "d.mac: `mac` says nothing here"),
        ("mode: direct, over: [lan], mtu: 9000", "d.mtu: `mtu` says nothing here"),
        ("mode: rootless, dhcp: true", "d.dhcp: the device is over no port"),
        (
            "mode: direct, over: [dev], dhcp: true",
            "d.dhcp: the driver of its port `dev` is `null`; allowed: over ports of",
        ),
        (
            "mode: direct, over: {lan: {decapsulate: [vlan]}}, addresses: [192.0.2.9/24]",
            "packets of its port `lan` are in tunnels",
        ),
        (
            "mode: direct, over: {lan: {encapsulate: [{vlan: {id: 7}}]}}, addresses: [192.0.2.9/24]",
            "packets of its port `lan` are in tunnels",
        ),
        (
            "mode: direct, over: {lan: {decapsulate: [vxlan]}}, addresses: [192.0.2.9/24]",
            "packets of its port `lan` are in tunnels",
        ),
        ("mode: direct, over: [lan], gateways: [192.0.2.1]", "d.gateways: `gateways` says nothing here"),
    ] {
        let faults = station(device).unwrap_err();
        assert!(faults.contains(fault), "{device}: {faults}");
    }
}

#[test]
fn a_tunnel_has_its_next_hop_found_by_a_device_with_addresses() {
    let read = |device: &str, policy: &str| {
        let text = format!(
            "superfluid: 1\nports: {{lan: {{type: 'null'}}, wan: {{type: af_packet, interface: eth0}}}}\n\
             devices:\n  d: {{mode: bridge, {device} over: {{lan: {{}}, wan: {{{policy}}}}}}}\n\
             functions: {{fw: {{image: firewall, attach: {{inside: 'd:lan', outside: 'd:wan'}}}}}}\n"
        );
        match check("f.yaml", &text, &shelf()) {
            Ok(configuration) => Ok(configuration.wiring.devices["d"].clone()),
            Err(faults) => Err(lines(&faults)),
        }
    };
    let vxlan = |ends: &str| format!("decapsulate: [vxlan], encapsulate: [{{vxlan: {{vni: 7, {ends}}}}}]");
    let ends = "local: 192.0.2.9, remote: 192.0.2.7";
    let remote = |device: &str, policy: &str| {
        let device = read(device, policy).unwrap();
        assert!(!device.has_station_inside() && device.over["lan"].station.is_none());
        device.over["wan"].station.unwrap()
    };
    let addresses = "addresses: [192.0.2.9/24],";
    let found = remote(addresses, &vxlan(ends));
    let inside = found.inside;
    assert_eq!(found, PortStation { tag: None, outside: true, remote: Some([192, 0, 2, 7].into()), inside });
    // In a VLAN, behind a router, by DHCP; and with an address that is given.
    let tagged = format!(
        "decapsulate: [vlan, vxlan], encapsulate: [{{vlan: {{id: 5, priority: 3}}}}, {{vxlan: {{vni: 7, {ends}}}}}]"
    );
    assert_eq!(remote(addresses, &tagged), PortStation { tag: Some((0x8100, 0x6005)), ..found });
    let far = "local: 192.0.2.9, remote: 198.51.100.7";
    let routed = "addresses: [192.0.2.9/24], gateways: [192.0.2.1],";
    assert_eq!(remote(routed, &vxlan(far)).remote, Some([198, 51, 100, 7].into()));
    assert!(remote("dhcp: true,", &vxlan(far)).remote.is_some());
    let given = format!("{far}, remote_mac: '02:00:00:00:00:02'");
    let given = remote(addresses, &vxlan(&given));
    assert_eq!((given.outside, given.remote), (true, None));
    // What DHCP gives is inside where both Ethernet addresses are given, unless `local` is the device's.
    let links = "local_mac: '02:00:00:00:00:01', remote_mac: '02:00:00:00:00:02'";
    let linked = vxlan(&format!("{far}, {links}"));
    let inside_of = |device: &str, policy: &str| {
        let text = format!(
            "superfluid: 1\nports: {{wan: {{type: af_packet, interface: eth0}}}}\n\
             devices:\n  d: {{mode: direct, {device} over: {{wan: {{{policy}}}}}}}\n\
             functions: {{fw: {{image: firewall, attach: {{inside: d}}}}}}\n"
        );
        let device = good(&text).wiring.devices["d"].clone();
        (device.has_station_inside(), device.station.unwrap().mtu)
    };
    assert_eq!(inside_of("dhcp: true,", &linked), (true, 1450));
    assert_eq!(inside_of("dhcp: true,", &vxlan(far)), (false, 1500));
    assert_eq!(inside_of("dhcp: true, addresses: [192.0.2.9/24],", &linked), (false, 1500));
    let half = vxlan(&format!("{far}, remote_mac: '02:00:00:00:00:02'"));
    assert_eq!(inside_of("dhcp: true,", &half), (false, 1500));
    // A VLAN alone is inside.
    let vlan = read("addresses: [192.0.2.9/24],", "decapsulate: [vlan], encapsulate: [{vlan: {id: 7}}]");
    assert!(vlan.unwrap_err().contains("the driver of its port `lan` is `null`"));

    for (device, policy, fault) in [
        (
            "",
            vxlan(ends),
            "the required key `local_mac` is missing; allowed without it: the outermost tunnel of a device",
        ),
        (addresses, vxlan(far), "`remote` is 198.51.100.7, which is in no network of the device"),
        (
            addresses,
            vxlan("local: 192.0.2.8, remote: 192.0.2.7"),
            "`local` is 192.0.2.8, which is none of the",
        ),
        (
            addresses,
            format!("encapsulate: [{{vxlan: {{vni: 7, {ends}}}}}, {{vxlan: {{vni: 8, {ends}}}}}]"),
            "encapsulate[1].vxlan: the required key `local_mac` is missing",
        ),
        (
            addresses,
            format!("encapsulate: [{{mpls: {{label: 5}}}}, {{vxlan: {{vni: 8, {ends}}}}}]"),
            "`local_mac` is missing",
        ),
    ] {
        let faults = read(device, &policy).unwrap_err();
        assert!(faults.contains(fault), "{policy}: {faults}");
    }
}

#[test]
fn a_striped_bond_has_links_alone_and_room_for_its_header() {
    let file = |device: &str, beside: &str| {
        format!(
            "superfluid: 1\ntenants: {{default: {{pool: {{headroom: 12}}}}}}\nports: {{lan: {{type: af_packet, interface: \
             eth0}}, wan: {{type: af_packet, interface: eth1}}}}\ndevices:\n  d: {{{device}}}\nfunctions: {{fw: {{image: \
             monitor, attach: {{tap: d}}}}}}\n{beside}"
        )
    };
    let striped = |device: &str| {
        let Configuration { wiring, .. } = good(&file(device, ""));
        let device = &wiring.devices["d"];
        (device.mode, device.stripe.map(|it| it.number()), device.station.as_ref().map(|it| it.mtu))
    };
    let turns = Mode::Bond(Balance::RoundRobin);
    assert_eq!(striped("mode: bond, balance: stripe, over: [lan, wan]"), (turns, Some(0x88b5), None));
    assert_eq!(striped("mode: bond, balance: round-robin, over: [lan, wan]"), (turns, None, None));
    let other = "mode: bond, balance: stripe, ether_type: 0x9999, dhcp: true, over: {lan: {receive: ether proto 0x9999}}";
    assert_eq!(striped(other), (turns, Some(0x9999), Some(1488)));
    assert_eq!(striped(&format!("{other}, mtu: 9000")), (turns, Some(0x9999), Some(9000)));
    let stripe = |rest: &str| format!("mode: bond, balance: stripe, {rest}");
    for (device, beside, fault) in [
        (
            "mode: bond, ether_type: 7000, over: [lan]".to_owned(),
            "",
            "`ether_type` says nothing here; allowed: with `balance: stripe`",
        ),
        (
            stripe("ether_type: 0x8100, over: [lan]"),
            "",
            "found 0x8100; allowed: 0x0600 to 0xffff, except those of VLAN tags, IPv4, ARP, IPv6 and MPLS",
        ),
        (stripe("ether_type: 5, over: [lan]"), "", "found `5`; allowed: an integer from 1536 to 65535"),
        (
            stripe("over: {lan: {decapsulate: [vlan]}}"),
            "",
            "over.lan.decapsulate: `decapsulate` is not for the links of a striped bond",
        ),
        (stripe("over: {lan: {send: wan}, wan: {}}"), "", "over.lan.send: `send` is not for the links"),
        (
            stripe("over: [lan]"),
            "wires: [['d:lan', fw:0]]\n",
            "the device `d` is over no port `lan`; allowed: d",
        ),
    ] {
        let faults = lines(&check("f.yaml", &file(&device, beside), &shelf()).expect_err(fault));
        assert!(faults.contains(fault), "{device}: {faults}");
    }
    let small = file(&stripe("over: [lan]"), "").replace("headroom: 12", "headroom: 11");
    let faults = lines(&check("f.yaml", &small, &shelf()).expect_err("no room"));
    assert!(
        faults.contains("sequence headers take 12 bytes, and buffers of the ports' tenant have 11"),
        "{faults}"
    );
}

#[test]
fn interfaces_have_addresses_of_their_own() {
    let read = |devices: &str, functions: &str| {
        let text = format!(
            "superfluid: 1\nports: {{lan: {{type: af_packet, interface: eth0}}, dev: {{type: 'null'}}}}\n\
             devices:\n  d: {{{devices}}}\nfunctions:\n{functions}"
        );
        check("f.yaml", &text, &shelf()).map(|it| it.wiring).map_err(|faults| lines(&faults))
    };
    let one = |attach: &str| format!("  fw: {{image: firewall, attach: {{inside: {attach}}}}}\n");
    let device = "mode: direct, over: [lan], share: duplicate, addresses: [192.0.2.9/24]";
    let given = "{to: d, addresses: [192.0.2.10/24], mac: 02:00:00:00:00:10}";
    let wiring = read(device, &one(given)).unwrap();
    let station = &wiring.instances["fw"].stations[&0];
    assert_eq!((station.mac, station.addresses.len()), ([2, 0, 0, 0, 0, 0x10], 1));
    // They come and go while the function runs on.
    let plan = wiring::Plan::between(&read(device, &one("d")).unwrap(), &wiring);
    assert!(plan.adjust_instances.contains_key("fw") && plan.change_instances.is_empty());
    assert!(plan.wire.is_empty() && plan.add_instances.is_empty(), "{plan:?}");

    let two = |second: &str| {
        format!("{}  g: {{image: firewall, attach: {{inside: {{to: d, {second}}}}}}}\n", one(given))
    };
    assert!(read(device, &two("addresses: [192.0.2.11/24]")).is_ok());
    for (device, functions, fault) in [
        (
            device,
            two("addresses: [192.0.2.10/24]"),
            "`g:0` has 192.0.2.10 at the device `d`, and so has `fw:0` in line 6",
        ),
        (
            device,
            two("addresses: [192.0.2.9/24]"),
            "`g:0` has 192.0.2.9 at the device `d`, and so has the device `d` in line 4",
        ),
        (
            device,
            two("addresses: [192.0.2.12/24], mac: 02:00:00:00:00:10"),
            "`g:0` has the MAC address 02:00:00:00:00:10 at the device `d`",
        ),
        (
            device,
            one("{to: d, addresses: [192.0.2.10]}"),
            "addresses[0]: found `192.0.2.10`; allowed: an address with",
        ),
        (
            device,
            one("{to: d, mac: 02:00:00:00:00:10}"),
            "inside.mac: `mac` says nothing here; allowed: with `addresses`",
        ),
        (
            device,
            one("{to: dev, addresses: [192.0.2.10/24]}"),
            "`addresses` says nothing here; allowed: with the name of a",
        ),
        ("mode: rootless", one(given), "inside.addresses: the device `d` is over no port"),
        (
            "mode: direct, over: [dev]",
            one(given),
            "the driver of the port `dev` of the device `d` is `null`; allowed: over ports of af_packet",
        ),
        (
            "mode: direct, over: {lan: {decapsulate: [vxlan]}}",
            one(given),
            "packets of the port `lan` of the device `d` are in tunnels",
        ),
        (
            device,
            "  ids: {image: monitor, attach: {tap: {to: d, addresses: [192.0.2.10/24]}}}\nobservers: {ids: {at: [d]}}\n"
                .to_owned(),
            "`ids:0` has addresses, and `ids` is an observer; allowed: of functions that packets pass",
        ),
    ] {
        let faults = read(device, &functions).unwrap_err();
        assert!(faults.contains(fault), "{functions}: {faults}");
    }
}

/// Two stations on one link that have one address both answer for it; in two VLANs, tunnels or at two ports
/// they are on two links.
#[test]
fn addresses_of_two_devices_on_one_link_are_warned_of() {
    let warned = |one: &str, two: &str, rest: &str| {
        let Configuration { warnings, .. } = good(&format!(
            "superfluid: 1\ntenants: {{default: {{}}, red: {{}}}}\nports: {{nic1: {{type: af_packet, interface: eth0}}, nic2: {{type: \
             af_packet, interface: eth1}}}}\ndevices:\n  a: {{mode: direct, addresses: [192.0.2.9/24], {one}}}\n  b: {{mode: direct, \
             {two}}}\nfunctions: {{f: {{image: firewall, attach: {{inside: a}}}}, g: {{image: firewall, {rest}}}}}\n"
        ));
        let told = lines(&warnings);
        told.lines().filter(|line| line.contains("both answer for it")).map(str::to_owned).collect::<Vec<_>>()
    };
    let vlan = |id: u32| {
        format!(
            "over: {{nic1: {{receive: vlan {id}, decapsulate: [vlan], encapsulate: [{{vlan: {{id: {id}}}}}]}}}}"
        )
    };
    let (same, open) = ("addresses: [192.0.2.8/24, 192.0.2.9/24]", "attach: {inside: b}");
    assert_eq!(
        warned("over: [nic1]", &format!("over: [nic1], {same}"), open),
        [
            "f.yaml:6:6: devices.b: `b` has 192.0.2.9 on the link of `nic1`, and so has `a`: both answer for it"
        ]
    );
    assert_eq!(
        warned("over: [nic1]", "over: [nic1]", "attach: {inside: {to: b, addresses: [192.0.2.9/24]}}"),
        [
            "f.yaml:6:6: devices.b: `g:0` has 192.0.2.9 on the link of `nic1`, and so has `a`: both answer for it"
        ]
    );
    assert_eq!(warned(&vlan(7), &format!("{}, {same}", vlan(7)), open).len(), 1);
    for (one, two) in [
        ("over: [nic1]".to_owned(), format!("over: [nic2], {same}")),
        ("over: [nic1]".to_owned(), format!("{}, {same}", vlan(7))),
        (vlan(7), format!("{}, {same}", vlan(8))),
        ("over: [nic1]".to_owned(), "over: [nic1], addresses: [192.0.2.8/24]".to_owned()),
    ] {
        assert_eq!(warned(&one, &two, open), Vec::<String>::new(), "{one}, {two}");
    }
}
