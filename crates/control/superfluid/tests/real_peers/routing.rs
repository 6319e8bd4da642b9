//! The function `router` between two routing daemons, bird, which tell each other of networks by BGP (RFC
//! 4271).

use crate::{Product, is_installed, peer, shown};
use std::fs;
use std::path::Path;
use testbed::{Background, CLIENT, Line, Namespace, isolated};

/// The server's address here: its link is a network of its own.
const BEYOND: &str = "10.84.0.2";

/// It speaks no BGP: what the daemons tell each other is in its configuration.
const ROUTER: &str = "superfluid: 1
ports: {lan: {type: af_packet, interface: sf-lan}, wan: {type: af_packet, interface: sf-wan}}
devices:
  left: {mode: direct, over: [lan], addresses: [10.83.0.254/24]}
  right: {mode: direct, over: [wan], addresses: [10.84.0.254/24]}
functions:
  core:
    image: router
    attach: {a: left, b: right}
    config:
      interfaces: [{name: a}, {name: b}]
      routes: [{to: 10.90.0.0/24, via: 10.83.0.1, interface: a}, {to: 10.91.0.0/24, via: 10.84.0.2, interface: b}]
";

/// Puts the server into a network of its own; each host's way to the other is a router at `.254`.
fn part(line: &Line) {
    line.server.ip("addr flush dev eth0").expect("it is up");
    line.server.ip(&format!("addr add {BEYOND}/24 dev eth0")).expect("an address");
    line.server.ip("route add 10.83.0.0/24 via 10.84.0.254").expect("a route");
    line.client.ip("route add 10.84.0.0/24 via 10.83.0.254").expect("a route");
}

/// A daemon with a network behind it.
struct Speaker {
    address: &'static str,
    number: u32,
    /// Its first three numbers.
    network: &'static str,
}

const LEFT: Speaker = Speaker { address: CLIENT, number: 64_512, network: "10.90.0" };
const RIGHT: Speaker = Speaker { address: BEYOND, number: 64_513, network: "10.91.0" };

/// Starts the daemon of a host, which tells another of its network.
fn start(host: &Namespace, own: &Speaker, other: &Speaker, folder: &Path) -> Background {
    let Speaker { address, number, network } = own;
    host.ip(&format!("addr add {network}.1/24 dev lo")).expect("an address");
    let text = format!(
        "router id {address};
        protocol device {{ scan time 1; }}
        protocol static own {{ ipv4; route {network}.0/24 unreachable; }}
        protocol direct {{ ipv4; interface \"eth0\"; }}
        protocol kernel {{ scan time 1; learn; ipv4 {{ import all; export where source = RTS_BGP; }}; }}
        protocol bgp beyond {{
          local {address} as {number}; neighbor {} as {}; multihop 2;
          connect delay time 1; connect retry time 1; error wait time 1, 2;
          ipv4 {{ import all; export where proto = \"own\"; }};
        }}\n",
        other.address, other.number
    );
    let file = folder.join(format!("{number}.conf"));
    fs::write(&file, text).expect("written");
    // Refused, it would end after its start.
    shown(host, &format!("bird -p -c {}", file.display()));
    let socket = folder.join(format!("{number}.ctl"));
    peer(host.command("bird").arg("-f").arg("-c").arg(&file).arg("-s").arg(socket), "bird2")
        .expect("it is installed")
}

#[test]
#[ignore = "make peers"]
fn bgp_passes_the_router_and_so_do_packets_of_its_routes() {
    isolated("routing::bgp_passes_the_router_and_so_do_packets_of_its_routes", || {
        let line = Line::new().expect("a line");
        part(&line);
        let folder = tempfile::tempdir().expect("a folder");
        if !is_installed(&line.client, "bird", "bird2") {
            return;
        }
        let left = start(&line.client, &LEFT, &RIGHT, folder.path());
        let right = start(&line.server, &RIGHT, &LEFT, folder.path());
        let mut product = Product::start(&line, ROUTER);
        let routes =
            [(&line.client, "10.91.0.0/24 via 10.83.0.254"), (&line.server, "10.90.0.0/24 via 10.84.0.254")];
        for (host, route) in routes {
            product.until(route, || shown(host, "ip route show proto bird").contains(route));
        }
        product.until_done(&line.client, "ping -c 1 -W 1 -I 10.90.0.1 10.91.0.1");

        // One daemon goes, and its network with it.
        drop(right);
        product
            .until("the route is withdrawn", || shown(&line.client, "ip route show proto bird").is_empty());
        let account = product.end();
        let counters = &account["functions"]["core"]["counters"];
        assert!(counters["forwarded"].as_u64() > Some(10), "{account}");
        drop(left);
    });
}
