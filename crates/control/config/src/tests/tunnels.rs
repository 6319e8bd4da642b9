//! Headers that devices take off and put on at their ports.

use super::devices::nics;
use super::*;
use wiring::TunnelEnds;

#[test]
fn headers_that_are_taken_off_and_put_on_are_read() {
    use encapsulation::LayerKind::{Geneve, Mpls, Vlan, Vxlan};
    let ends = "local: 192.0.2.1, remote: 192.0.2.2, local_mac: '02:00:00:00:00:01', remote_mac: '02:00:00:00:00:02'";
    let Configuration { wiring, .. } = good(&nics(&format!(
        "devices:\n  d:\n    mode: bridge\n    over:\n      nic1: {{decapsulate: [vlan, vxlan], send: nic3}}\n      nic2: {{encapsulate: \
         [{{vlan: {{id: 7, service: true}}}}, {{geneve: {{vni: 9, {ends}, ttl: 3, dscp: 4, fragment: true}}}}]}}\n      nic3: \
         {{decapsulate: [mpls], encapsulate: [{{mpls: {{label: 5}}}}]}}\nwires: [[d, fw:0]]\n"
    )));
    let over = &wiring.devices["d"].over;
    let layers = |port: &str| -> (Vec<_>, Vec<_>) {
        let policy = &over[port];
        (policy.decapsulate.clone(), policy.encapsulate.iter().flat_map(|it| it.layers()).collect())
    };
    assert_eq!(layers("nic1"), (vec![Vlan, Vxlan], vec![]));
    assert_eq!(layers("nic2"), (vec![], vec![Vlan, Geneve]));
    assert_eq!(layers("nic3"), (vec![Mpls], vec![Mpls]));
    assert_eq!(over["nic1"].send.as_deref(), Some("nic3"));
    assert_eq!(over["nic2"].encapsulate.map(|it| it.overhead()), Some(14 + 4 + 20 + 8 + 8));
}

#[test]
fn headers_that_cannot_be_are_told() {
    let faults = |text: String| match check("f.yaml", &text, &shelf()) {
        Ok(configuration) => panic!("accepted: {configuration:#?}"),
        Err(faults) => lines(&faults),
    };
    let told = |policy: &str| {
        faults(nics(&format!(
            "devices:\n  d: {{mode: direct, over: {{nic1: {{{policy}}}}}}}\nwires: [[d, fw:0]]\n"
        )))
    };
    for (policy, fault) in [
        ("decapsulate: [vxlan, gtp]", "found `gtp`"),
        ("decapsulate: [vlan, vlan, vlan, vlan, vlan]", "allowed: "),
        ("encapsulate: vlan", "allowed: a list of layers, outermost first, such as `[{vlan: {id: 7}}]`"),
        ("encapsulate: [vlan]", "allowed: a map of one key, of these: "),
        ("encapsulate: [{vlam: {id: 7}}]", "no layer is named `vlam`"),
        ("encapsulate: [{vlan: {id: 4095}}]", "found `4095`"),
        ("encapsulate: [{vlan: {}}]", "the required key `id` is missing"),
        (
            "encapsulate: [{gre: {local: 192.0.2.1, remote: 192.0.2.2}}]",
            "`local_mac` is missing; allowed without it: `frames: false`",
        ),
        ("encapsulate: [{ipip: {local: 192.0.2.1, remote: '2001:db8::1'}}]", "are of different families"),
        (
            "encapsulate: [{ipip: {local: 192.0.2.1, remote: 192.0.2.2}}, {vlan: {id: 7}}]",
            "vlan inside of ipip; allowed there: ",
        ),
        (
            "decapsulate: [ipip, vlan]",
            "nic1.decapsulate[1]: found `vlan` inside of ipip; allowed there: gre, nvgre, vxlan, geneve, ipip",
        ),
        ("decapsulate: [vlan, ipip, mpls]", "nic1.decapsulate[2]: found `mpls` inside of ipip"),
        ("send: nic2", "`nic2` is no port of this device"),
    ] {
        let faults = told(policy);
        assert!(faults.contains(fault) && faults.contains("devices.d.over"), "{policy}: {faults}");
    }
    let small = faults(nics(
        "devices:\n  d: {mode: direct, over: {nic1: {encapsulate: [{vlan: {id: 7}}]}}}\nwires: [[d, fw:0]]\n",
    ).replace("default: {}", "default: {pool: {headroom: 0}}"));
    assert!(small.contains("the headers take 4 bytes, and buffers of the port's tenant have 0"), "{small}");
}

#[test]
fn ends_of_tunnels_that_no_packet_can_have_are_told() {
    let told = |local: &str, remote: &str, macs: [&str; 2]| {
        let [near, far] = macs;
        let text = nics(&format!(
            "devices:\n  d: {{mode: direct, over: {{nic1: {{encapsulate: [{{vxlan: {{vni: 7, local: {local}, remote: {remote}, \
             local_mac: '{near}', remote_mac: '{far}'}}}}]}}}}}}\nwires: [[d, fw:0]]\n"
        ));
        check("f.yaml", &text, &shelf()).err().map(|faults| lines(&faults)).unwrap_or_default()
    };
    let own = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
    assert_eq!(told("192.0.2.1", "192.0.2.2", own), "");
    assert_eq!(told("192.0.2.1", "239.1.1.1", [own[0], "01:00:5e:01:01:01"]), "");
    assert_eq!(told("192.0.2.1", "239.1.1.1", own), "");
    for (local, remote, macs, fault) in [
        ("224.0.0.1", "192.0.2.2", own, "vxlan.local: found `224.0.0.1`; allowed: the address of one host"),
        ("0.0.0.0", "192.0.2.2", own, "vxlan.local: found `0.0.0.0`; allowed: "),
        (
            "192.0.2.1",
            "127.0.0.1",
            own,
            "vxlan.remote: found `127.0.0.1`; allowed: the address of one host, or of a group",
        ),
        ("192.0.2.1", "255.255.255.255", own, "vxlan.remote: found `255.255.255.255`; allowed: "),
        (
            "192.0.2.1",
            "192.0.2.1",
            own,
            "vxlan.remote: found `192.0.2.1`; allowed: the address of the other end",
        ),
        (
            "192.0.2.1",
            "192.0.2.2",
            ["01:00:00:00:00:01", own[1]],
            "vxlan.local_mac: found `01:00:00:00:00:01`; allowed: ",
        ),
        (
            "192.0.2.1",
            "239.1.1.1",
            ["00:00:00:00:00:00", own[1]],
            "vxlan.local_mac: found `00:00:00:00:00:00`",
        ),
        (
            "192.0.2.1",
            "192.0.2.2",
            [own[0], "ff:ff:ff:ff:ff:ff"],
            "vxlan.remote_mac: found `ff:ff:ff:ff:ff:ff`; allowed: ",
        ),
        (
            "192.0.2.1",
            "239.1.1.1",
            [own[0], "00:00:00:00:00:00"],
            "vxlan.remote_mac: found `00:00:00:00:00:00`",
        ),
    ] {
        let told = told(local, remote, macs);
        assert!(told.contains(fault), "{fault}: {told}");
    }
}

/// What `receive` lets in has to have the first of the layers that are taken off.
#[test]
fn layers_that_no_packet_has_that_comes_are_warned_of() {
    let warned = |receive: &str, layer: &str| {
        let Configuration { warnings, .. } = good(&nics(&format!(
            "devices:\n  d: {{mode: direct, over: {{nic1: {{receive: '{receive}', decapsulate: [{layer}]}}}}}}\nwires: [[d, fw:0]]\n"
        )));
        lines(&warnings).contains("d.over.nic1.decapsulate: no packet that `receive` lets in has")
    };
    for (receive, layer) in [
        ("udp dst port 4789", "geneve"),
        ("tcp", "vxlan"),
        ("udp port 4789", "gre"),
        ("vni 7", "ipip"),
        ("arp", "nvgre"),
        ("ip proto 47", "ipip"),
        ("udp dst port 4790", "vxlan"),
    ] {
        assert!(warned(receive, layer), "{receive}, {layer}");
    }
    for (receive, layer) in [
        ("udp port 4789", "vxlan"),
        ("udp port 4789 and vni 7", "vxlan"),
        ("vni 7", "geneve"),
        ("vni 7 and tcp port 80", "vxlan"),
        ("udp", "geneve"),
        ("ip", "vxlan"),
        ("net 192.0.2.0/24", "vxlan"),
        ("ip proto 47", "gre"),
        ("gre key 9", "nvgre"),
        ("gre", "gre"),
        ("ip6 proto 41", "ipip"),
        ("src host 192.0.2.1", "ipip"),
        ("vlan 7", "vlan"),
        ("mpls", "mpls"),
        ("greater 100", "vxlan"),
    ] {
        assert!(!warned(receive, layer), "{receive}, {layer}");
    }
}

/// RFC 8200, section 8.1: UDP over IPv6 has a checksum unless both ends agree on none; RFC 7348: over IPv4 it
/// has none.
#[test]
fn udp_has_a_checksum_over_ipv6_unless_it_is_told_otherwise() {
    let headers = |layer: &str, four: bool, more: &str| {
        let [local, remote] = match four {
            true => ["192.0.2.1", "192.0.2.2"],
            false => ["'2001:db8::1'", "'2001:db8::2'"],
        };
        let macs = "local_mac: '02:00:00:00:00:01', remote_mac: '02:00:00:00:00:02'";
        let Configuration { wiring, .. } = good(&nics(&format!(
            "devices:\n  d: {{mode: direct, over: {{nic1: {{encapsulate: [{{{layer}: {{vni: 9, local: {local}, remote: \
             {remote}, {macs}{more}}}}}]}}}}}}\nwires: [[d, fw:0]]\n"
        )));
        let own = wiring.devices["d"].over["nic1"].encapsulate.expect("it has some");
        let mut front = encapsulation::Front::NONE;
        own.put_on(&[0; 64], 64, 0, 0, &mut front).expect("a frame");
        front.is_incomplete()
    };
    for layer in ["vxlan", "geneve"] {
        for (four, more, has) in [
            (true, "", false),
            (false, "", true),
            (true, ", checksum: true", true),
            (false, ", checksum: false", false),
        ] {
            assert_eq!(headers(layer, four, more), has, "{layer} {four} {more}");
        }
    }
}

#[test]
fn headers_that_leave_too_little_of_a_ports_mtu_are_told_with_the_numbers() {
    let told = |mtu: u32, device: &str, encapsulate: &str| {
        let text = format!(
            "superfluid: 1\nports: {{lan: {{type: tap, interface: tap0, mtu: {mtu}}}}}\ndevices:\n  d: {{mode: direct, over: \
             {{lan: {{decapsulate: [vlan], encapsulate: [{encapsulate}]}}}}{device}}}\nfunctions: {{fw: {{image: firewall, \
             attach: {{inside: d}}}}}}\n"
        );
        check("f.yaml", &text, &shelf()).map(|_| ()).map_err(|faults| lines(&faults))
    };
    let tunnel = "{vlan: {id: 7}}, {vxlan: {vni: 7, local: 192.0.2.1, remote: 192.0.2.2, local_mac: '02:00:00:00:00:01', \
                  remote_mac: '02:00:00:00:00:02'}}";
    assert_eq!(told(626, "", tunnel), Ok(()));
    assert_eq!(
        told(625, "", tunnel),
        Err("f.yaml:4:68: devices.d.over.lan.encapsulate: the headers take 50 bytes of the port's `mtu` of 625, which leaves \
             575; allowed: `mtu` of the port of at least 626\n"
            .to_owned())
    );
    // What functions are told: a tag outside of all else does not count, a second one does.
    let tags = "{vlan: {id: 7, service: true}}, {mpls: {label: 5}}";
    let addresses = ", addresses: [192.0.2.9/24], mtu: 1500";
    assert_eq!(told(1500, addresses, "{vlan: {id: 7}}"), Ok(()));
    let fault = told(1499, addresses, "{vlan: {id: 7}}").unwrap_err();
    assert!(
        fault.contains(
            "the headers take 0 bytes of the port's `mtu` of 1499, which leaves 1499, and functions are told 1500; allowed: \
             `mtu: 1499` of the device, or `mtu: 1500` of the port"
        ),
        "{fault}"
    );
    assert!(told(579, "", tags).unwrap_err().contains("the headers take 4 bytes of the port's `mtu` of 579"));
}

#[test]
fn addresses_are_inside_of_a_tunnel_of_frames() {
    let macs = "local_mac: '02:00:00:00:00:01', remote_mac: '02:00:00:00:00:02'";
    let read = |device: &str, policy: &str, attach: &str| {
        let text = format!(
            "superfluid: 1\nports: {{nic: {{type: af_packet, interface: eth0}}}}\ndevices:\n  d: {{mode: direct, {device}over: \
             {{nic: {{{policy}}}}}}}\nfunctions: {{fw: {{image: firewall, attach: {{inside: {attach}}}}}}}\n"
        );
        check("f.yaml", &text, &shelf()).map(|it| it.wiring).map_err(|faults| lines(&faults))
    };
    let vxlan = |ends: &str| {
        format!("decapsulate: [vxlan], encapsulate: [{{vxlan: {{vni: 7, local: 192.0.2.1, {ends}}}}}]")
    };
    let given = vxlan(&format!("remote: 192.0.2.2, {macs}"));
    let ends = TunnelEnds { key: 7, local: [192, 0, 2, 1].into(), remote: [192, 0, 2, 2].into() };
    // The device's own, which are none of the tunnel's ends.
    let wiring = read("addresses: [10.0.0.1/24], ", &given, "d").unwrap();
    let device = &wiring.devices["d"];
    let found = device.over["nic"].station.unwrap();
    assert_eq!((found.outside, found.inside, device.has_station_inside()), (false, Some(ends), true));
    assert_eq!(device.station.as_ref().unwrap().mtu, 1450);
    let told = read("addresses: [10.0.0.1/24], mtu: 1400, ", &given, "d").unwrap();
    assert_eq!(told.devices["d"].station.as_ref().unwrap().mtu, 1400);
    // An interface's, beside a device that is outside and finds out where the tunnel goes, or without any.
    let found_out = vxlan("remote: 192.0.2.2");
    for (device, policy) in [("addresses: [192.0.2.1/24], ", &found_out), ("", &given)] {
        let wiring = read(device, policy, "{to: d, addresses: [10.0.0.9/24]}").unwrap();
        let found = wiring.devices["d"].over["nic"].station.unwrap();
        assert_eq!((found.outside, found.inside), (!device.is_empty(), Some(ends)));
        assert_eq!(wiring.instances["fw"].stations[&0].mtu, 1450);
    }
    let tagged = format!(
        "decapsulate: [vlan, gre], encapsulate: [{{vlan: {{id: 5}}}}, {{gre: {{key: 9, local: 192.0.2.1, remote: 192.0.2.2, {macs}}}}}]"
    );
    let found = read("addresses: [10.0.0.1/24], ", &tagged, "d").unwrap().devices["d"].over["nic"].station;
    let found = found.unwrap();
    assert_eq!((found.tag, found.inside), (Some((0x8100, 5)), Some(TunnelEnds { key: 9, ..ends })));
    for policy in [
        format!("encapsulate: [{{vxlan: {{vni: 7, local: 192.0.2.1, remote: 192.0.2.2, {macs}}}}}]"),
        format!(
            "decapsulate: [geneve], encapsulate: [{{vxlan: {{vni: 7, local: 192.0.2.1, remote: 192.0.2.2, {macs}}}}}]"
        ),
        "decapsulate: [vxlan]".to_owned(),
        "decapsulate: [ipip], encapsulate: [{ipip: {local: 192.0.2.1, remote: 192.0.2.2}}]".to_owned(),
    ] {
        let fault = read("addresses: [10.0.0.1/24], ", &policy, "d").unwrap_err();
        assert!(fault.contains("packets of its port `nic` are in tunnels; allowed: "), "{policy}: {fault}");
        let fault = read("", &policy, "{to: d, addresses: [10.0.0.9/24]}").unwrap_err();
        assert!(
            fault.contains("packets of the port `nic` of the device `d` are in tunnels"),
            "{policy}: {fault}"
        );
    }
}
