//! Tunnels of devices with the kernel's at the other end, behind its bridge and with its neighbours, over
//! IPv4 and IPv6, and tags with those of its VLAN devices. A kind that this kernel has no devices of is told
//! and passed over.

use crate::{LIMIT, Product, set};
use testbed::{Line, SERVER, isolated};

const STREAM: usize = 1 << 20;

/// The tunnel's ends on the wire, and the length of their network's prefix.
const OVER: [(&str, &str, u8); 2] = [("192.0.2.1", "192.0.2.2", 24), ("2001:db8:1::1", "2001:db8:1::2", 64)];

/// Places in [`OVER`] and in [`Kind::devices`].
const V4: usize = 0;
const V6: usize = 1;

/// What the kernel calls a kind of device over IPv4 and over IPv6, and what makes it one of network 7.
struct Kind {
    devices: [&'static str; 2],
    options: &'static str,
    layer: &'static str,
    network: &'static str,
    receive: &'static str,
}

const VXLAN: Kind = Kind {
    devices: ["vxlan"; 2],
    options: "id 7 dstport 4789",
    layer: "vxlan",
    network: "vni",
    receive: "udp port 4789 and vni 7",
};
const GENEVE: Kind = Kind {
    devices: ["geneve"; 2],
    options: "id 7 dstport 6081",
    layer: "geneve",
    network: "vni",
    receive: "udp port 6081 and vni 7",
};
const GRE: Kind = Kind {
    devices: ["gretap", "ip6gretap"],
    options: "key 7",
    layer: "gre",
    network: "key",
    receive: "gre key 7",
};

/// A kind that this kernel has no devices of is told. False: there is nothing to test.
fn is_made(server: &testbed::Namespace, device: &str, words: &str) -> bool {
    let Err(error) = server.ip(words) else { return true };
    let told = error.to_string();
    assert!(told.contains("Unknown device type") || told.contains("not supported"), "{told}");
    eprintln!("skipped: this kernel has no devices of the type {device}");
    false
}

/// The server's address is at a bridge of the kernel's, which has a tunnel whose other end is a device.
fn through(kind: &Kind, over: usize) {
    let ((near, far, bits), device) = (OVER[over], kind.devices[over]);
    let line = Line::new().expect("a line");
    let server = &line.server;
    for which in ["all", "eth0"] {
        set(server, &format!("ipv6/conf/{which}/disable_ipv6"), "0");
    }
    server.ip("addr flush dev eth0").expect("the address moves behind the tunnel");
    let nodad = if bits == 64 { "nodad" } else { "" };
    server.ip(format!("addr add {far}/{bits} dev eth0 {nodad}").trim()).expect("an address");
    // A device of Geneve takes its own address from the way.
    let local = if kind.layer == "geneve" { String::new() } else { format!("local {far}") };
    let words = format!("link add seven type {device} {} {local} remote {near}", kind.options);
    if !is_made(server, device, &words) {
        return;
    }
    for words in [
        "link add hall type bridge",
        "link set seven mtu 1400 master hall",
        "link set hall mtu 1400",
        "link set seven up",
        &format!("addr add {SERVER}/24 dev hall"),
        "link set hall up",
    ] {
        server.ip(words).unwrap_or_else(|error| panic!("{words}: {error}"));
    }
    let mut product = Product::start(
        &line,
        &format!(
            "\
superfluid: 1
ports: {{lan: {{type: af_packet, interface: sf-lan}}, wan: {{type: af_packet, interface: sf-wan}}}}
devices:
  gateway:
    mode: bridge
    addresses: ['{near}/{bits}']
    over:
      lan: {{}}
      wan:
        receive: {receive}
        decapsulate: [{layer}]
        encapsulate: [{{{layer}: {{{network}: 7, local: '{near}', remote: '{far}'}}}}]
functions:
  gate: {{image: firewall, config: {{default_action: accept}}}}
chains: {{c: ['gateway:lan', gate, 'gateway:wan']}}
",
            receive = kind.receive,
            layer = kind.layer,
            network = kind.network,
        ),
    );
    product.until_done(&line.client, &format!("ping -c 1 -W 1 {SERVER}"));
    line.client.run(&format!("ping -c 20 -i 0.01 -W 2 {SERVER}"), LIMIT).expect("answers");
    testbed::echo(&line.client, server, STREAM);
    // The kernel found the device's address on the wire.
    let known = crate::shown(server, &format!("ip neigh show {near} dev eth0"));
    assert!(known.contains("lladdr"), "{known}");
    let account = product.end();
    assert!(account["functions"]["gate"]["packets"].as_u64() > Some(100), "{account}");
    assert!(account["packets"]["dropped"]["bad-tunnel"].is_null(), "{account}");
}

#[test]
#[ignore = "make peers"]
fn vxlan() {
    isolated("kernel::vxlan", || through(&VXLAN, V4));
}

#[test]
#[ignore = "make peers"]
fn vxlan_over_ipv6() {
    isolated("kernel::vxlan_over_ipv6", || through(&VXLAN, V6));
}

#[test]
#[ignore = "make peers"]
fn geneve() {
    isolated("kernel::geneve", || through(&GENEVE, V4));
}

#[test]
#[ignore = "make peers"]
fn geneve_over_ipv6() {
    isolated("kernel::geneve_over_ipv6", || through(&GENEVE, V6));
}

#[test]
#[ignore = "make peers"]
fn gre() {
    isolated("kernel::gre", || through(&GRE, V4));
}

#[test]
#[ignore = "make peers"]
fn gre_over_ipv6() {
    isolated("kernel::gre_over_ipv6", || through(&GRE, V6));
}

/// A gateway between the client's link and what the server has by a device of the kernel's.
fn gateway(line: &Line, receive: &str, decapsulate: &str, encapsulate: &str) -> Product {
    Product::start(
        line,
        &format!(
            "\
superfluid: 1
ports: {{lan: {{type: af_packet, interface: sf-lan}}, wan: {{type: af_packet, interface: sf-wan}}}}
devices:
  gateway:
    mode: bridge
    over: {{lan: {{}}, wan: {{receive: {receive}, decapsulate: [{decapsulate}], encapsulate: [{encapsulate}]}}}}
functions:
  gate: {{image: firewall, config: {{default_action: accept}}}}
chains: {{c: ['gateway:lan', gate, 'gateway:wan']}}
"
        ),
    )
}

/// Pings and a stream by TCP, both of which the function sees without headers.
fn passes(mut product: Product, line: &Line) {
    product.until_done(&line.client, &format!("ping -c 1 -W 1 {SERVER}"));
    line.client.run(&format!("ping -c 20 -i 0.01 -W 2 {SERVER}"), LIMIT).expect("answers");
    testbed::echo(&line.client, &line.server, STREAM);
    let account = product.end();
    assert!(account["functions"]["gate"]["packets"].as_u64() > Some(100), "{account}");
    assert!(account["packets"]["dropped"]["bad-tunnel"].is_null(), "{account}");
}

/// The server's address is at a device of the kernel's for VLAN 7, with a tag of 802.1Q or 802.1ad.
fn tagged(protocol: &str, service: bool) {
    let line = Line::new().expect("a line");
    let server = &line.server;
    server.ip("addr flush dev eth0").expect("the address moves behind the tag");
    if !is_made(server, "vlan", &format!("link add link eth0 name seven type vlan protocol {protocol} id 7"))
    {
        return;
    }
    for words in [&format!("addr add {SERVER}/24 dev seven"), "link set seven up"] {
        server.ip(words).unwrap_or_else(|error| panic!("{words}: {error}"));
    }
    let put_on = format!("{{vlan: {{id: 7, service: {service}}}}}");
    passes(gateway(&line, "vlan 7", "vlan", &put_on), &line);
}

#[test]
#[ignore = "make peers"]
fn vlan() {
    isolated("kernel::vlan", || tagged("802.1Q", false));
}

#[test]
#[ignore = "make peers"]
fn vlan_of_a_provider() {
    isolated("kernel::vlan_of_a_provider", || tagged("802.1ad", true));
}

/// The kernel's tunnel of IP in IP, which has no frames: both ends know each other's Ethernet address, which
/// the device keeps.
#[test]
#[ignore = "make peers"]
fn ipip() {
    isolated("kernel::ipip", || {
        let line = Line::new().expect("a line");
        let (near, far, bits) = OVER[V4];
        let server = &line.server;
        if !is_made(server, "ipip", &format!("link add seven type ipip local {far} remote {near}")) {
            return;
        }
        server.ip("addr flush dev eth0").expect("the address moves behind the tunnel");
        for words in [
            &format!("addr add {far}/{bits} dev eth0"),
            &format!("neigh replace {near} lladdr 02:00:00:00:00:01 dev eth0"),
            &format!("addr add {SERVER}/32 dev seven"),
            "link set seven up",
            &format!("route add {}/32 dev seven src {SERVER}", testbed::CLIENT),
        ] {
            server.ip(words).unwrap_or_else(|error| panic!("{words}: {error}"));
        }
        line.client
            .ip(&format!("neigh replace {SERVER} lladdr 02:00:00:00:00:02 dev eth0"))
            .expect("a neighbour");
        let put_on = format!("{{ipip: {{local: {near}, remote: {far}}}}}");
        passes(gateway(&line, "ip proto 4", "ipip", &put_on), &line);
    });
}
