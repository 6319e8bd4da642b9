//! What is inside of packets: flows of their own, told apart by the tunnels that they are in.

use super::{monitor, report};
use crate::Monitor;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use nf_sdk::Nanos;
use nf_sdk::native::{ConfigValue, Runner, TestPacket};
use serde_json::Value;

/// UDP from port 1000 over IPv4 from 10.0.0.1 to 10.0.0.2.
fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((28 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x03, 0xe8]);
    packet.extend(port.to_be_bytes());
    packet.extend((8 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

fn ethernet(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&[2; 12], &ethertype.to_be_bytes()[..], packet].concat()
}

fn vxlan(network: u8, inner: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &udp(4789, &[&[8, 0, 0, 0, 0, 0, network, 0], inner].concat()))
}

fn inner() -> Vec<u8> {
    ethernet(0x0800, &udp(53, b"query"))
}

fn run(runner: &mut Runner<Monitor>, frames: &[Vec<u8>]) {
    let packets: Vec<_> = frames.iter().map(|frame| TestPacket::new(frame.clone(), 0)).collect();
    runner.run(&packets, Nanos(7));
}

/// Destination port, tunnel, what identifies it, and packets of each flow, in order.
fn flows(report: &Value) -> Vec<(u64, String, u64, u64)> {
    let flow = |flow: &Value| {
        let tunnel = flow["tunnel"].as_str().unwrap_or_default().into();
        let number = |key: &str| flow[key].as_u64().unwrap_or(0);
        (number("destination_port"), tunnel, number("tunnel_id"), number("packets"))
    };
    let mut flows: Vec<_> = report["top_by_packets"].as_array().expect("a list").iter().map(flow).collect();
    flows.sort();
    flows
}

#[test]
fn packets_in_tunnels_are_flows_of_their_own() {
    let mut runner = monitor(100, 100, true);
    let frames = [inner(), vxlan(1, &inner()), vxlan(1, &inner()), vxlan(2, &inner())];
    run(&mut runner, &frames);
    let found = report(&runner);
    let expected = [(53, "", 0, 1), (53, "vxlan", 1, 2), (53, "vxlan", 2, 1), (4789, "", 0, 3)];
    let of = |(port, tunnel, id, packets): (u64, &str, u64, u64)| (port, tunnel.into(), id, packets);
    assert_eq!(flows(&found), expected.map(of));
    assert_eq!(found["packets"], 4, "a frame counts once");
    let bytes: usize = frames[1..].iter().map(Vec::len).sum();
    assert_eq!(found["tunnels"], serde_json::json!([{"name": "vxlan", "packets": 3, "bytes": bytes}]));

    let state = runner.export_state().expect("offered");
    let mut to = monitor(100, 100, true);
    assert!(to.import_state(&state));
    run(&mut to, &frames);
    let twice = expected.map(|(port, tunnel, id, packets)| (port, tunnel, id, 2 * packets));
    assert_eq!(flows(&report(&to)), twice.map(of));
}

#[test]
fn only_the_tunnels_that_are_asked_for_are_looked_into() {
    let keys_of = |tunnels: &[&str], key, ports: &[i64]| {
        let tunnels = tunnels.iter().map(|name| ConfigValue::text(name)).collect();
        let ports = ports.iter().map(|port| ConfigValue::Integer(*port)).collect();
        let config = ConfigValue::map(vec![
            ("flows", ConfigValue::Integer(100)),
            ("top", ConfigValue::Integer(100)),
            ("bidirectional", ConfigValue::Boolean(true)),
            ("tunnels", ConfigValue::List(tunnels)),
            (key, ConfigValue::List(ports)),
        ]);
        Runner::<Monitor>::new(&config.to_cbor())
    };
    let keys = |tunnels: &[&str], ports: &[i64]| keys_of(tunnels, "vxlan_ports", ports);
    for (tunnels, ports, expected) in [
        (&["vxlan"][..], &[4789][..], 2),
        (&["vxlan"], &[8472, 4789], 2),
        (&["vxlan"], &[8472], 1),
        (&["gre", "geneve"], &[4789], 1),
        (&[], &[4789], 1),
    ] {
        let mut runner = keys(tunnels, ports).expect("a good configuration");
        run(&mut runner, &[vxlan(1, &inner())]);
        assert_eq!(flows(&report(&runner)).len(), expected, "{tunnels:?} {ports:?}");
    }
    let geneve =
        ethernet(0x0800, &udp(6081, &[&[0, 0, 0x65, 0x58, 0, 0, 1, 0], inner().as_slice()].concat()));
    for (port, expected) in [(6081, 2), (16_081, 1)] {
        let mut runner = keys_of(&["geneve"], "geneve_ports", &[port]).expect("a good configuration");
        run(&mut runner, std::slice::from_ref(&geneve));
        assert_eq!(flows(&report(&runner)).len(), expected, "geneve at {port}");
    }
    let refused = keys(&["vxlna"], &[]).err().expect("no such tunnel");
    assert_eq!(refused.to_string(), "tunnels: `vxlna` is no kind of tunnel");
    assert!(keys(&[], &[1, 2, 3, 4, 5]).is_err());
}

#[test]
fn every_level_counts_and_what_cannot_be_read_is_said() {
    let ip_in_ip = |inner: &[u8]| {
        let mut packet = udp(0, inner)[..20].to_vec();
        packet[2..4].copy_from_slice(&(20 + inner.len() as u16).to_be_bytes());
        packet[9] = 4;
        [&packet, inner].concat()
    };
    let nested = |depth| (0..depth).fold(udp(53, b"query"), |packet, _| ip_in_ip(&packet));
    for depth in 0..6 {
        let mut runner = monitor(100, 100, true);
        run(&mut runner, &[ethernet(0x0800, &nested(depth))]);
        let found = report(&runner);
        assert_eq!(flows(&found).len(), 1 + depth.min(4), "{depth}");
        assert_eq!(found["malformed"]["packets"], u64::from(depth > 4), "{depth}");
    }
    let mut runner = monitor(100, 100, true);
    let cut = ethernet(0x0800, &ip_in_ip(&udp(53, b"")[..22]));
    run(&mut runner, &[cut, vxlan(1, &inner()[..20])]);
    let found = report(&runner);
    assert_eq!((flows(&found).len(), &found["malformed"]["packets"]), (2, &2.into()));
}

#[test]
fn a_length_of_zero_is_that_of_the_frame() {
    let mut runner = monitor(100, 100, true);
    let mut frame = inner();
    frame[16..18].fill(0);
    assert_eq!(crate::sighting::extra(&frame), 0);
    run(&mut runner, &[inner(), frame]);
    let found = report(&runner);
    assert_eq!(flows(&found), [(53, String::new(), 0, 2)]);
    assert_eq!(found["malformed"]["packets"], 0);
}
