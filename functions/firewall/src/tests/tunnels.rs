//! Packets in tunnels, and IP that cannot be read.

use super::frames::{Bench, IN, OUT, drop, flags, icmp, packet, rule, tagged, tcp, udp};
use flags::{ACK, RST, SYN};
use nf_sdk::Verdict;
use nf_sdk::native::ConfigValue;

const A: &str = "10.0.0.1";
const B: &str = "192.0.2.9";
const A6: &str = "2001:db8::1";
const B6: &str = "2001:db8:1::9";

/// A frame in VXLAN, between two ends that the rules do not know.
fn vxlan(network: u8, inner: &[u8]) -> Vec<u8> {
    let mut payload = vec![0xc3, 0x50, 0x12, 0xb5];
    payload.extend((16 + inner.len() as u16).to_be_bytes());
    payload.extend([0, 0, 8, 0, 0, 0, 0, 0, network, 0]);
    payload.extend(inner);
    packet("172.16.0.1", "172.16.0.2", 17, &payload)
}

fn outbound() -> Vec<ConfigValue> {
    vec![
        rule(
            "accept",
            &[("from", ConfigValue::text("inside")), ("source", super::frames::prefix("10.0.0.0/8"))],
        ),
        rule(
            "accept",
            &[("from", ConfigValue::text("inside")), ("source", super::frames::prefix("2001:db8::/64"))],
        ),
    ]
}

fn kinds(names: &[&str]) -> (&'static str, ConfigValue) {
    ("tunnels", ConfigValue::List(names.iter().map(|name| ConfigValue::text(name)).collect()))
}

#[test]
fn the_packet_inside_is_judged_where_that_is_asked_for() {
    let inner = udp(A, 4000, B, 53);
    for (names, verdict) in [(&[][..], drop::DENIED), (&["gre"], drop::DENIED), (&["gre", "vxlan"], OUT)] {
        for stateful in [true, false] {
            let mut bench =
                Bench::new(outbound(), &[kinds(names), ("stateful", ConfigValue::Boolean(stateful))]);
            assert_eq!(bench.inside(vxlan(7, &inner)), verdict, "{names:?}");
            assert_eq!(bench.inside(inner.clone()), OUT, "what is in no tunnel is as before");
            assert_eq!(bench.inside(udp("11.0.0.1", 1, B, 53)), drop::DENIED);
        }
    }
}

#[test]
fn connections_in_tunnels_are_tracked_apart() {
    for (a, b) in [(A, B), (A6, B6)] {
        let there = |flags, seq, ack| tcp([(a, 1000), (b, 80)], flags, seq, ack, 0);
        let back = |flags, seq, ack| tcp([(b, 80), (a, 1000)], flags, seq, ack, 0);
        let mut bench = Bench::new(outbound(), &[kinds(&["vxlan"])]);
        assert_eq!(bench.inside(vxlan(7, &there(SYN, 100, 0))), OUT);
        assert_eq!(bench.outside(vxlan(8, &back(SYN | ACK, 500, 101))), drop::NO_FLOW, "another network");
        assert_eq!(bench.outside(back(SYN | ACK, 500, 101)), drop::NO_FLOW, "no tunnel");
        assert_eq!(bench.outside(vxlan(7, &tagged(&back(SYN | ACK, 500, 101), &[5]))), drop::NO_FLOW);
        assert_eq!(bench.outside(vxlan(7, &back(SYN | ACK, 500, 101))), IN);
        assert_eq!(bench.inside(vxlan(7, &there(ACK, 101, 501))), OUT);
        bench.wait(3600.0);
        assert_eq!(bench.outside(vxlan(7, &back(ACK, 501, 101))), IN);
        // An error about it belongs to it in its tunnel alone.
        let router = if a == A { "198.51.100.1" } else { "2001:db8:9::1" };
        let about =
            icmp(router, a, if a == A { [3, 1] } else { [1, 0] }, [0; 4], &there(ACK, 101, 501)[14..]);
        assert_eq!(bench.outside(vxlan(7, &about)), IN);
        assert_eq!(bench.outside(vxlan(8, &about)), drop::NO_FLOW);
        assert_eq!(bench.outside(about), drop::NO_FLOW);
        // It moves to another instance, with its tunnel.
        let state = bench.runner.export_state().expect("offered");
        let mut to = Bench::new(outbound(), &[kinds(&["vxlan"])]);
        assert!(to.runner.import_state(&state));
        assert_eq!(to.outside(vxlan(7, &back(ACK, 501, 101))), IN);
        assert_eq!(to.outside(vxlan(8, &back(ACK, 501, 101))), drop::NO_FLOW);
        let mut denied = Bench::new(vec![], &[kinds(&["vxlan"])]);
        assert!(denied.runner.import_state(&state));
        assert_eq!(denied.outside(vxlan(7, &back(ACK, 501, 101))), drop::NO_FLOW, "by its own addresses");
        assert_eq!(bench.outside(vxlan(7, &back(RST, 501, 0))), IN);
    }
}

#[test]
fn ip_that_cannot_be_read_goes_by_its_key() {
    let text = ConfigValue::text;
    let cut = |mut frame: Vec<u8>| {
        frame.truncate(frame.len() - 1);
        frame
    };
    let unreadable = [
        cut(udp(A, 4000, B, 53)),
        cut(udp(A6, 4000, B6, 53)),
        tagged(&udp(A, 4000, B, 53), &[1; 17]),
        packet(A6, B6, 60, &[[60, 0, 0, 0, 0, 0, 0, 0]; 10].concat()),
    ];
    let mut wrong = udp(A, 4000, B, 53);
    wrong[14] = 0x42;
    let arp = [&[0xff; 12][..], &[8, 6, 0, 1]].concat();
    for (changes, onward) in [
        (vec![], false),
        (vec![("default_action", text("accept"))], true),
        (vec![("unreadable", text("accept"))], true),
        (vec![("default_action", text("accept")), ("unreadable", text("drop"))], false),
    ] {
        let mut bench = Bench::new(outbound(), &changes);
        let verdict = if onward { OUT } else { drop::UNREADABLE };
        for frame in &unreadable {
            assert_eq!(bench.inside(frame.clone()), verdict, "{changes:?}");
        }
        let passed = if onward { 0 } else { unreadable.len() };
        assert_eq!(bench.report()["packets"]["unreadable"], passed);
        assert_eq!(bench.inside(wrong.clone()), drop::MALFORMED, "it contradicts itself");
        assert_eq!(bench.inside(arp.clone()), OUT, "it is no IP");
    }
    // Too deep, and only there where tunnels are looked into.
    let nested = |depth| (0..depth).fold(udp(A, 4000, B, 53), |inner, _| packet(A, B, 4, &inner[14..]));
    for (depth, verdict) in [(4, OUT), (5, drop::UNREADABLE)] {
        let mut bench = Bench::new(outbound(), &[kinds(&["ip-in-ip"])]);
        assert_eq!(bench.inside(nested(depth)), verdict);
        assert_eq!(Bench::new(outbound(), &[]).inside(nested(depth)), OUT);
    }
    // Cut inside of the tunnel.
    let mut bench = Bench::new(outbound(), &[kinds(&["vxlan"])]);
    assert_eq!(bench.inside(vxlan(7, &cut(udp(A, 4000, B, 53)))), drop::UNREADABLE);
    assert_eq!(bench.inside(vxlan(7, &arp)), OUT, "no IP inside");
    assert_eq!(bench.inside(vxlan(7, &[1; 5])), drop::UNREADABLE);
}

#[test]
fn udp_keeps_its_fast_path_where_no_port_is_a_tunnel() {
    let mut bench = Bench::new(outbound(), &[kinds(&["gre"])]);
    assert_eq!(bench.inside(udp(A, 4000, B, 53)), OUT);
    assert_eq!(bench.outside(udp(B, 53, A, 4000)), IN);
    assert_eq!(bench.outside(udp(B, 53, A, 4001)), Verdict::Drop(0));
}

#[test]
fn a_length_of_zero_is_that_of_the_frame() {
    let mut bench = Bench::new(outbound(), &[]);
    let mut segment = tcp([(A, 1000), (B, 80)], SYN, 100, 0, 0);
    segment[16..18].fill(0);
    assert_eq!(bench.inside(segment), OUT);
    let mut back = tcp([(B, 80), (A, 1000)], SYN | ACK, 500, 101, 0);
    back[16..18].fill(0);
    assert_eq!(bench.outside(back), IN);
    let mut data = tcp([(A, 1000), (B, 80)], ACK, 101, 501, 60_000);
    data[16..18].fill(0);
    assert_eq!(bench.inside(data), OUT);
    assert_eq!(bench.outside(tcp([(B, 80), (A, 1000)], ACK, 501, 60_101, 0)), IN, "all of it was seen");
    assert_eq!(bench.outside(tcp([(B, 80), (A, 1000)], ACK, 501, 60_102, 0)), drop::BAD_STATE);
}

#[test]
fn ports_of_tunnels_are_those_that_are_configured() {
    let around = |port: u16, header: [u8; 8]| {
        let inner = udp(A, 4000, B, 53);
        let mut payload = vec![0xc3, 0x50];
        payload.extend(port.to_be_bytes());
        payload.extend((16 + inner.len() as u16).to_be_bytes());
        payload.extend([0, 0]);
        payload.extend(header);
        payload.extend(inner);
        packet("172.16.0.1", "172.16.0.2", 17, &payload)
    };
    let (vxlan, geneve) = ([8, 0, 0, 0, 0, 0, 7, 0], [0, 0, 0x65, 0x58, 0, 0, 7, 0]);
    let frames = [around(4789, vxlan), around(8472, vxlan), around(6081, geneve), around(16_081, geneve)];
    // The packet inside is accepted, the one around is not.
    let passed = |changes: &[(&str, ConfigValue)]| {
        let changes = [&[kinds(&["vxlan", "geneve"])], changes].concat();
        frames.each_ref().map(|frame| Bench::new(outbound(), &changes).inside(frame.clone()) == OUT)
    };
    let ports = |key, port| (key, ConfigValue::List(vec![ConfigValue::Integer(port)]));
    assert_eq!(passed(&[]), [true, false, true, false]);
    assert_eq!(passed(&[ports("vxlan_ports", 8472)]), [false, true, true, false]);
    assert_eq!(passed(&[ports("geneve_ports", 16_081)]), [true, false, false, true]);
}

/// The fragments of a frame with an IPv4 header of 20 bytes: those parts of what lies behind it.
fn fragments(frame: &[u8], parts: [std::ops::Range<usize>; 2]) -> [Vec<u8>; 2] {
    let data = &frame[34..];
    parts.map(|part| {
        let mut out = [&frame[..34], &data[part.clone()]].concat();
        out[16..18].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
        let more = u16::from(part.end < data.len()) << 13;
        out[20..22].copy_from_slice(&((part.start as u16 / 8) | more).to_be_bytes());
        out
    })
}

/// A fragment around a packet does not get by what the packet would be denied by: all of its datagram goes
/// by `unreadable`.
#[test]
fn fragments_of_tunnels_that_are_looked_into_are_unreadable() {
    let text = ConfigValue::text;
    let port_53 = ("destination_ports", ConfigValue::PortRange(53, 53));
    let denied = || vec![rule("drop", &[("protocol", text("udp")), port_53.clone()])];
    let inner = udp(A, 4000, B, 53);
    let in_ip = packet("172.16.0.1", "172.16.0.2", 4, &inner[14..]);
    for (frame, name) in [(vxlan(7, &inner), "vxlan"), (in_ip, "ip-in-ip")] {
        let [first, later] = fragments(&frame, [0..16, 16..frame.len() - 34]);
        for stateful in [true, false] {
            let bench = |unreadable| {
                let changes = [
                    kinds(&[name]),
                    ("default_action", text("accept")),
                    ("stateful", ConfigValue::Boolean(stateful)),
                    ("unreadable", text(unreadable)),
                ];
                Bench::new(denied(), &changes)
            };
            let mut drops = bench("drop");
            assert_eq!(drops.inside(frame.clone()), drop::DENIED, "{name}: in one piece");
            assert_eq!(drops.inside(first.clone()), drop::UNREADABLE, "{name}");
            assert_eq!(drops.inside(later.clone()), drop::FRAGMENT, "{name}: with its first one");
            // The other way round, the later one waits for the first and goes with it.
            let mut drops = bench("drop");
            assert!(matches!(drops.inside(later.clone()), Verdict::Hold(_)), "{name}");
            assert_eq!(drops.inside(first.clone()), drop::UNREADABLE, "{name}");
            assert_eq!(drops.runner.host().held(), 0, "{name}");
            assert_eq!(drops.runner.host().emitted()[0].verdict, drop::FRAGMENT, "{name}");
            let mut accepts = bench("accept");
            assert_eq!(accepts.inside(first.clone()), OUT, "{name}");
            assert_eq!(accepts.inside(later.clone()), OUT, "{name}");
            assert_eq!(accepts.report()["packets"]["accepted"], 2, "{name}");
        }
        // What is in no tunnel that is looked into is judged as before.
        let mut other = Bench::new(denied(), &[kinds(&["gre"]), ("default_action", text("accept"))]);
        assert_eq!((other.inside(first.clone()), other.inside(later)), (OUT, OUT), "{name}");
    }
    let mut bench = Bench::new(denied(), &[kinds(&["vxlan"]), ("default_action", text("accept"))]);
    let query = packet(A, B, 17, &[&[15, 160, 0, 53, 0, 24, 0, 0], &[7; 16][..]].concat());
    let [first, later] = fragments(&query, [0..8, 8..24]);
    assert_eq!((bench.inside(first), bench.inside(later)), (drop::DENIED, drop::FRAGMENT));
}

/// The same of a fragment that is in a tunnel itself, as deep as is looked into.
#[test]
fn fragments_of_tunnels_in_tunnels_are_unreadable() {
    let frame = packet(A, B, 4, &udp(A, 4000, B, 53)[14..]);
    for depth in 0..=4 {
        let [first, later] = fragments(&frame, [0..24, 24..frame.len() - 34]);
        let around = |fragment: &[u8]| {
            (0..depth).fold(fragment.to_vec(), |inner, _| packet("172.16.0.1", "172.16.0.2", 4, &inner[14..]))
        };
        let mut bench = Bench::new(outbound(), &[kinds(&["ip-in-ip"])]);
        assert_eq!(bench.inside(around(&first)), drop::UNREADABLE, "{depth}");
        assert_eq!(bench.inside(around(&later)), drop::FRAGMENT, "{depth}");
    }
}
