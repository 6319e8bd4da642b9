//! Tunnels of devices and of functions with the kernel's VXLAN at the other end, and TCP that interfaces
//! leave to be segmented. Runs in namespaces of its own.

use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};
use testbed::{Background, CLIENT, Line, Namespace, SERVER, isolated};

const LIMIT: Duration = Duration::from_secs(15);
/// Of the start, which compiles images where that was not done before.
const START: Duration = Duration::from_secs(35);
/// Of the tunnel's ends on the wire.
const NEAR: &str = "192.0.2.1";
const FAR: &str = "192.0.2.2";
/// Longer than the kernel hands over at once.
const STREAM: usize = 3 << 20;

/// Buffers that take what is still to be segmented as a whole.
const LARGE: &str = "tenants: {default: {pool: {buffers: 1024, buffer_size: 64KiB}}}\n";

/// Gives a host a device of the kernel's for network 7, with the host's address in it. Without the other
/// end's Ethernet address it asks for that.
fn vxlan(host: &Namespace, own: &str, other: &str, other_mac: Option<&str>, address: &str) {
    host.ip("addr flush dev eth0").expect("the address moves into the tunnel");
    let is_v6 = own.contains(':');
    if is_v6 {
        host.enter(|| {
            for which in ["all", "eth0"] {
                let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
                fs::write(path, "0").expect("IPv6 can be switched on");
            }
        });
    }
    let prefix = if is_v6 { "64 dev eth0 nodad" } else { "24 dev eth0" };
    host.ip(&format!("addr add {own}/{prefix}")).expect("an address");
    if let Some(mac) = other_mac {
        host.ip(&format!("neigh replace {other} lladdr {mac} dev eth0")).expect("a neighbour");
    }
    host.ip(&format!("link add vxlan7 type vxlan id 7 local {own} remote {other} dstport 4789 dev eth0"))
        .expect("the kernel's VXLAN");
    host.ip(&format!("addr add {address}/24 dev vxlan7")).expect("an address");
    host.ip("link set vxlan7 up").expect("switched on");
}

/// Runs a file over a line while `traffic` passes, and returns the account at its end.
fn run(line: &Line, text: &str, large: bool, traffic: impl FnOnce()) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tunnels.yaml");
    fs::write(&file, format!("{text}{}", if large { LARGE } else { "" })).expect("written");
    let mut command = line.middle.command(env!("CARGO_BIN_EXE_superfluid"));
    let mut program = Background::start(command.args(["run", "--json"]).arg(&file)).expect("it starts");
    let begin = Instant::now();
    while line.client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT).is_err() {
        if begin.elapsed() > START || !program.is_running() {
            let (out, err) = program.finish();
            let last = out.lines().last().unwrap_or_default();
            panic!("no answer from the other end:\n{last}\n{err}");
        }
    }
    traffic();
    let shown = program.interrupt(LIMIT).unwrap_or_else(|error| panic!("{error}")).stdout;
    let mut events = shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let account = events.rfind(|event| event["event"] == "final").expect("an account");
    assert_eq!(account["balanced"], true, "{account}");
    account
}

fn pings_and_streams(line: &Line) {
    line.client.run(&format!("ping -c 5 -i 0.01 -W 2 {SERVER}"), LIMIT).expect("answers");
    testbed::echo(&line.client, &line.server, STREAM);
}

/// Both ends have the tunnel: the function between sees the frames in it, and each leaves as it came.
#[test]
fn what_is_in_a_tunnel_passes_a_function_and_goes_on_in_the_tunnel() {
    isolated("what_is_in_a_tunnel_passes_a_function_and_goes_on_in_the_tunnel", || {
        let line = Line::new().expect("a line");
        vxlan(&line.client, NEAR, FAR, Some("02:00:00:00:00:02"), CLIENT);
        vxlan(&line.server, FAR, NEAR, Some("02:00:00:00:00:01"), SERVER);
        let text = "\
superfluid: 1
ports: {lan: {type: af_packet, interface: sf-lan}, wan: {type: af_packet, interface: sf-wan}}
devices:
  inner: {mode: bridge, over: {lan: {receive: udp port 4789, decapsulate: [vxlan]}, wan: {receive: udp port 4789, decapsulate: [vxlan]}}}
functions:
  gate:
    image: firewall
    config:
      default_action: drop
      rules:
        - {name: ping, action: accept, from: inside, protocol: icmp, icmp_type: 8, destination: 10.83.0.2/32}
        - {name: web, action: accept, from: inside, protocol: tcp, destination_ports: 7000}
chains: {c: ['inner:lan', gate, 'inner:wan']}
";
        for large in [false, true] {
            let account = run(&line, text, large, || pings_and_streams(&line));
            let packets = account["functions"]["gate"]["packets"].as_u64().expect("a number");
            assert!(packets > 20, "{account}");
            assert!(account["packets"]["split"].as_u64() > Some(0), "{account}");
        }
    });
}

/// Nothing looks into the tunnel: what is still to be segmented in it is segmented with its outer headers.
#[test]
fn tunnels_pass_a_wire_with_whatever_buffers() {
    isolated("tunnels_pass_a_wire_with_whatever_buffers", || {
        let line = Line::new().expect("a line");
        vxlan(&line.client, NEAR, FAR, Some("02:00:00:00:00:02"), CLIENT);
        vxlan(&line.server, FAR, NEAR, Some("02:00:00:00:00:01"), SERVER);
        let text = "\
superfluid: 1
ports: {lan: {type: af_packet, interface: sf-lan}, wan: {type: af_packet, interface: sf-wan}}
wires: [[lan, wan]]
";
        for large in [false, true] {
            let account = run(&line, text, large, || pings_and_streams(&line));
            let dropped = account["packets"]["dropped"].as_object().expect("reasons");
            // What is on its way when it ends is no loss of the tunnel's.
            assert!(dropped.keys().all(|reason| reason == "held-at-stop"), "{account}");
        }
    });
}

/// One end has no tunnel: the device is its gateway. What comes of TCP is still to be segmented, and a tunnel
/// carries segments.
#[test]
fn a_device_is_a_gateway_between_frames_and_a_tunnel() {
    isolated("a_device_is_a_gateway_between_frames_and_a_tunnel", || {
        let line = Line::new().expect("a line");
        vxlan(&line.server, FAR, NEAR, Some("02:00:00:00:00:01"), SERVER);
        let text = format!("\
superfluid: 1
ports: {{lan: {{type: af_packet, interface: sf-lan}}, wan: {{type: af_packet, interface: sf-wan}}}}
devices:
  gateway:
    mode: bridge
    over:
      lan: {{}}
      wan:
        receive: udp port 4789 and vni 7
        decapsulate: [vxlan]
        encapsulate: [{{vxlan: {{vni: 7, local: {NEAR}, remote: {FAR}, local_mac: '02:00:00:00:00:01', remote_mac: '02:00:00:00:00:02'}}}}]
functions:
  gate: {{image: firewall, config: {{default_action: accept}}}}
chains: {{c: ['gateway:lan', gate, 'gateway:wan']}}
");
        for large in [false, true] {
            let account = run(&line, &text, large, || {
                pings_and_streams(&line);
                // The client knows nothing of the tunnel's headers.
                let ping = |options: &str| {
                    line.client.run(&format!("ping -c 1 -W 2 -s 1450 {options} {SERVER}"), LIMIT)
                };
                ping("-M dont").expect("it is fragmented, and put together at the other end");
                let told = ping("-M do").expect_err("it is too long").to_string();
                assert!(told.contains("mtu = 1450") || told.contains("mtu=1450"), "{told}");
                line.client.ip("route flush cache").expect("what it learned is for the next round to learn");
            });
            assert!(account["packets"]["split"].as_u64() > Some(0), "{account}");
        }
    });
}

/// Over IPv6, where the kernel drops what has no checksum of UDP and sends what has one, of packets whose own
/// is still to be completed too. The other end is found out.
#[test]
fn a_tunnel_over_ipv6_has_checksums() {
    isolated("a_tunnel_over_ipv6_has_checksums", || {
        let (near, far) = ("2001:db8:1::1", "2001:db8:1::2");
        let line = Line::new().expect("a line");
        vxlan(&line.server, far, near, None, SERVER);
        let text = format!(
            "\
superfluid: 1
ports: {{lan: {{type: af_packet, interface: sf-lan}}, wan: {{type: af_packet, interface: sf-wan}}}}
devices:
  gateway:
    mode: bridge
    addresses: ['{near}/64']
    over:
      lan: {{}}
      wan:
        receive: udp port 4789 and vni 7
        decapsulate: [vxlan]
        encapsulate: [{{vxlan: {{vni: 7, local: '{near}', remote: '{far}'}}}}]
functions:
  gate: {{image: firewall, config: {{default_action: accept}}}}
chains: {{c: ['gateway:lan', gate, 'gateway:wan']}}
"
        );
        for large in [false, true] {
            let account = run(&line, &text, large, || pings_and_streams(&line));
            assert_eq!(account["packets"]["dropped"]["bad-tunnel"].as_u64().unwrap_or(0), 0, "{account}");
            assert!(account["packets"]["split"].as_u64() > Some(0), "{account}");
        }
    });
}

/// The function is the endpoint: the kernel at the other end finds it by ARP, and each learns what is behind
/// the other.
#[test]
fn the_gateway_joins_a_link_with_the_kernels_network() {
    isolated("the_gateway_joins_a_link_with_the_kernels_network", || {
        let line = Line::new().expect("a line");
        vxlan(&line.server, FAR, NEAR, None, SERVER);
        let text = format!(
            "\
superfluid: 1
ports: {{lan: {{type: af_packet, interface: sf-lan}}, wan: {{type: af_packet, interface: sf-wan}}}}
devices:
  underlay: {{mode: direct, over: [wan], addresses: [{NEAR}/24], mac: '02:00:00:00:00:01'}}
functions:
  gateway:
    image: vxlan-gateway
    attach: {{vlan: lan, vxlan: underlay}}
    config: {{local: {NEAR}, networks: [{{vni: 7, remotes: [{FAR}]}}]}}
"
        );
        for large in [false, true] {
            let account = run(&line, &text, large, || {
                pings_and_streams(&line);
                line.client
                    .run(&format!("ping -c 1 -W 2 -s 1450 -M dont {SERVER}"), LIMIT)
                    .expect("it is fragmented");
                let told = line.client.run(&format!("ping -c 1 -W 2 -s 1450 -M do {SERVER}"), LIMIT);
                let told = told.expect_err("it is too long").to_string();
                assert!(told.contains("mtu = 1450") || told.contains("mtu=1450"), "{told}");
                line.client.ip("route flush cache").expect("what it learned is for the next round to learn");
            });
            let counters = &account["functions"]["gateway"]["counters"];
            let number = |name: &str| counters[name].as_u64().unwrap_or(0);
            assert!(number("encapsulated") > 20 && number("decapsulated") > 20, "{account}");
            // The first question is for all, and waits until the other end is found.
            assert!(number("flooded") + number("held") > 0 && number("learned") >= 2, "{account}");
            assert_eq!((number("unknown-vni"), number("bad-checksum"), number("displaced")), (0, 0, 0));
        }
    });
}

/// No Ethernet address stands in the file: the device finds that of the other end, which finds the device's,
/// and follows when it becomes another one.
#[test]
fn a_tunnel_finds_its_next_hop() {
    isolated("a_tunnel_finds_its_next_hop", || {
        let line = Line::new().expect("a line");
        vxlan(&line.server, FAR, NEAR, None, SERVER);
        let text = format!(
            "\
superfluid: 1
ports: {{lan: {{type: af_packet, interface: sf-lan}}, wan: {{type: af_packet, interface: sf-wan}}}}
devices:
  gateway:
    mode: bridge
    addresses: [{NEAR}/24]
    over:
      lan: {{}}
      wan:
        receive: udp port 4789 and vni 7
        decapsulate: [vxlan]
        encapsulate: [{{vxlan: {{vni: 7, local: {NEAR}, remote: {FAR}}}}}]
functions:
  gate: {{image: firewall, config: {{default_action: accept}}}}
chains: {{c: ['gateway:lan', gate, 'gateway:wan']}}
"
        );
        let account = run(&line, &text, false, || {
            pings_and_streams(&line);
            line.server.ip("link set eth0 address 02:00:00:00:00:22").expect("another address");
            let begin = Instant::now();
            while line.client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT).is_err() {
                assert!(begin.elapsed() < START, "it is not found again");
                // The other end asks for the device, and so shows its address.
                let _ = line.server.run(&format!("ping -c 1 -W 1 {CLIENT}"), LIMIT);
            }
        });
        // The client's first packets come before the device may ask.
        assert!(account["packets"]["dropped"]["no-neighbour"].as_u64() > Some(0), "{account}");
    });
}
