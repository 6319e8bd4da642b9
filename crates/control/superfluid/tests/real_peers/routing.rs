//! The function `router` between two routing daemons, bird, which tell each other of networks by BGP (RFC
//! 4271).

use crate::support::daemon::{Daemon, Options};
use crate::{LIMIT, Product, is_installed, peer, set, shown};
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

/// Routes of IPv6 alone; what the daemons tell each other of is in a file.
const ROUTER6: &str = "superfluid: 1
ports: {lan: {type: af_packet, interface: sf-lan}, wan: {type: af_packet, interface: sf-wan}}
devices:
  left: {mode: direct, over: [lan], addresses: ['2001:db8:1::fe/64']}
  right: {mode: direct, over: [wan], addresses: ['2001:db8:2::fe/64']}
functions:
  core:
    image: router
    attach: {a: left, b: right}
    config: {interfaces: [{name: a}, {name: b}], routes_file: routes}
";

const LEFT6: Speaker = Speaker { address: "2001:db8:1::1", number: 64_512, network: "2001:db8:90" };
const RIGHT6: Speaker = Speaker { address: "2001:db8:2::2", number: 64_513, network: "2001:db8:91" };

/// A daemon's configuration, which tells another of its network and of so many more.
fn settings6(own: &Speaker, other: &Speaker, more: u32) -> String {
    let Speaker { address, number, network } = own;
    let more: String = (0..more).map(|n| format!("route {network}:f{n:03x}::/64 unreachable; ")).collect();
    format!(
        "router id 192.0.2.{};
        protocol device {{ scan time 1; }}
        protocol static own {{ ipv6; route {network}::/48 unreachable; {more} }}
        protocol direct {{ ipv6; interface \"eth0\"; }}
        protocol kernel {{ scan time 1; learn; ipv6 {{ import all; export where source = RTS_BGP; }}; }}
        protocol bgp beyond {{
          local {address} as {number}; neighbor {} as {}; multihop 2;
          connect delay time 1; connect retry time 1; error wait time 1, 2;
          ipv6 {{ import all; export where proto = \"own\"; }};
        }}\n",
        number - 64_511,
        other.address,
        other.number
    )
}

/// A daemon of IPv6, its configuration and its socket.
struct Bird<'h> {
    host: &'h Namespace,
    _running: Background,
    file: std::path::PathBuf,
    socket: std::path::PathBuf,
}

impl<'h> Bird<'h> {
    fn start(host: &'h Namespace, own: &Speaker, other: &Speaker, folder: &Path) -> Bird<'h> {
        host.ip(&format!("addr add {}::1/64 dev lo nodad", own.network)).expect("an address");
        let (file, socket) =
            (folder.join(format!("{}.conf", own.number)), folder.join(format!("{}.ctl", own.number)));
        fs::write(&file, settings6(own, other, 0)).expect("written");
        // Refused, it would end after its start.
        shown(host, &format!("bird -p -c {}", file.display()));
        let mut command = host.command("bird");
        let running = peer(command.arg("-f").arg("-c").arg(&file).arg("-s").arg(&socket), "bird2");
        Bird { host, _running: running.expect("it is installed"), file, socket }
    }

    /// Tells of other networks from now on.
    fn tell(&self, own: &Speaker, other: &Speaker, more: u32) {
        fs::write(&self.file, settings6(own, other, more)).expect("written");
        shown(self.host, &format!("birdc -s {} configure", self.socket.display()));
    }

    /// The networks that it was told of, as the kernel has them.
    fn told(&self) -> Vec<String> {
        let routes = shown(self.host, "ip -6 route show proto bird");
        let mut networks: Vec<String> =
            routes.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
        networks.sort();
        networks
    }
}

/// Writes what both were told of as the router's file, and has it taken.
fn export(daemon: &Daemon, left: &Bird<'_>, right: &Bird<'_>) {
    let ways = [(left, "2001:db8:2::2 dev b"), (right, "2001:db8:1::1 dev a")];
    let lines = ways
        .iter()
        .flat_map(|(bird, via)| bird.told().into_iter().map(move |network| format!("{network} via {via}\n")));
    daemon.write("routes", &lines.collect::<String>());
    daemon.done("apply -f router.yaml");
}

#[test]
#[ignore = "make peers"]
fn routes_that_are_exported_change_while_packets_pass() {
    isolated("routing::routes_that_are_exported_change_while_packets_pass", || {
        let line = Line::new().expect("a line");
        if !is_installed(&line.client, "bird", "bird2") {
            return;
        }
        for (host, address, beyond, via) in [
            (&line.client, LEFT6.address, "2001:db8:2::/64", "2001:db8:1::fe"),
            (&line.server, RIGHT6.address, "2001:db8:1::/64", "2001:db8:2::fe"),
        ] {
            for which in ["all", "lo", "eth0"] {
                set(host, &format!("ipv6/conf/{which}/disable_ipv6"), "0");
            }
            host.ip(&format!("addr add {address}/64 dev eth0 nodad")).expect("an address");
            host.ip(&format!("-6 route add {beyond} via {via}")).expect("a route");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let left = Bird::start(&line.client, &LEFT6, &RIGHT6, folder.path());
        let right = Bird::start(&line.server, &RIGHT6, &LEFT6, folder.path());
        let daemon = Options::new(folder.path()).shared_cache().limit(LIMIT).start();
        daemon.write("router.yaml", ROUTER6);
        daemon.write("routes", "");
        daemon.done("apply -f router.yaml");
        daemon.wait("each is told of the other's network", || {
            left.told() == ["2001:db8:91::/48"] && right.told() == ["2001:db8:90::/48"]
        });
        export(&daemon, &left, &right);
        let ping = "ping -6 -c 1 -W 1 -I 2001:db8:90::1 2001:db8:91::1";
        daemon.wait("a way", || line.client.run(ping, LIMIT).is_ok());

        // Networks come and go, and with them lines of the file.
        let mut passes = line.client.command("ping");
        passes.args(["-6", "-i", "0.02", "-c", "300", "-W", "5", "-I", "2001:db8:90::1", "2001:db8:91::1"]);
        let mut passes = Background::start(&mut passes).expect("it starts");
        let mut changes = 0;
        while passes.is_running() {
            changes += 1;
            let more = if changes % 2 == 0 { 0 } else { 300 };
            right.tell(&RIGHT6, &LEFT6, more);
            daemon.wait("the change is told", || left.told().len() == 1 + more as usize);
            export(&daemon, &left, &right);
            let routes = || daemon.get("/v1/functions/core/report")["report"]["routes"]["ipv6"].as_u64();
            let at_least = if more == 0 { 0 } else { u64::from(more) };
            daemon.wait("it is in force", || {
                routes().is_some_and(|count| (at_least..at_least + 100).contains(&count))
            });
        }
        let (printed, _) = passes.finish();
        assert!(printed.contains(" 0% packet loss"), "{changes} changes: {printed}");
        assert!(changes >= 2, "{changes} changes");
        daemon.end();
    });
}
