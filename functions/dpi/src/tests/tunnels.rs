//! What is inside of packets is inspected like what comes by itself, and apart from it.

use super::frames::{Bench, CLIENT, NONE, SERVER, flags, fragments, packet, tcp, udp};
use flags::{ACK, SYN};
use nf_sdk::Verdict;
use nf_sdk::native::ConfigValue;

/// A frame in VXLAN, of this network.
fn vxlan(network: u8, inner: &[u8]) -> Vec<u8> {
    udp(("10.9.0.1", 50_000), ("10.9.0.2", 4789), &[&[8, 0, 0, 0, 0, 0, network, 0], inner].concat())
}

const RULE: &str =
    "alert tcp any any -> any 80 (msg:\"x\"; flow:established,to_server; content:\"secret\"; sid:1;)";

#[test]
fn a_stream_in_a_tunnel_is_followed() {
    let mut bench = Bench::new(RULE, &[]);
    for frame in [
        tcp(CLIENT, SERVER, SYN, 99, 0, &[]),
        tcp(SERVER, CLIENT, SYN | ACK, 499, 100, &[]),
        tcp(CLIENT, SERVER, ACK, 100, 500, &[]),
        tcp(CLIENT, SERVER, ACK, 100, 500, b"sec"),
    ] {
        assert_eq!(bench.sids(vxlan(7, &frame)), NONE);
    }
    // What has the same ends in another network, or in none, is no part of the stream.
    let rest = tcp(CLIENT, SERVER, ACK, 103, 500, b"ret");
    assert_eq!(bench.sids(vxlan(8, &rest)), NONE);
    assert_eq!(bench.sids(rest.clone()), NONE);
    assert_eq!(bench.sids(vxlan(7, &rest)), [1]);
}

#[test]
fn an_alert_tells_the_tunnel() {
    let rule = "alert udp any any -> any 53 (msg:\"x\"; content:\"secret\"; sid:1;)";
    let mut bench = Bench::new(rule, &[]);
    let query = udp(("10.0.0.1", 1000), ("10.0.0.2", 53), b"secret");
    bench.show(0, query.clone());
    bench.show(0, vxlan(7, &query));
    let told: Vec<serde_json::Value> =
        bench.runner.host().events().iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(told[0].get("tunnel").is_none());
    assert_eq!(told[1]["tunnel"], serde_json::json!({"kind": "vxlan", "id": 7, "depth": 1}));
    assert_eq!((&told[1]["src_ip"], &told[1]["dest_port"]), (&"10.0.0.1".into(), &53.into()));
}

#[test]
fn the_packet_around_is_inspected_too() {
    let rules = "alert udp any any -> any 4789 (msg:\"x\"; content:\"|08 00 00 00|\"; sid:1;)\n\
                 drop udp any any -> any 53 (msg:\"x\"; content:\"secret\"; sid:2;)";
    let mut bench = Bench::new(rules, &[]);
    let query = udp(("10.0.0.1", 1000), ("10.0.0.2", 53), b"secret");
    let (verdict, sids) = bench.show(0, vxlan(7, &query));
    assert_eq!(sids, [1, 2]);
    assert_eq!(verdict, Verdict::Drop(0), "the frame goes with what is inside");
}

#[test]
fn tunnels_are_looked_into_where_they_are_asked_for() {
    let rule = "alert udp any any -> any 53 (msg:\"x\"; content:\"secret\"; sid:1;)";
    let query = udp(("10.0.0.1", 1000), ("10.0.0.2", 53), b"secret");
    let expected = |kinds: &[&str]| {
        let kinds = kinds.iter().map(|kind| ConfigValue::text(kind)).collect();
        let mut bench = Bench::new(rule, &[("tunnels", ConfigValue::List(kinds))]);
        bench.sids(vxlan(7, &query)).len()
    };
    assert_eq!((expected(&["gre", "vxlan"]), expected(&["gre"]), expected(&[])), (1, 0, 0));
    // A tunnel that cannot be read to the end is malformed.
    let mut bench = Bench::new(rule, &[]);
    bench.sids(vxlan(7, &query[..20]));
    assert_eq!(bench.count("malformed-seen"), 1);
}

#[test]
fn any_number_of_tags_and_snap_are_looked_behind() {
    let rule = "alert udp any any -> any 53 (msg:\"x\"; content:\"secret\"; sid:1;)";
    let query = udp(("10.0.0.1", 1000), ("10.0.0.2", 53), b"secret");
    let mut bench = Bench::new(rule, &[]);
    for (n, tags) in [&[0x8100u16, 0x8100, 0x8100][..], &[0x9100, 0x88a8], &[0x88a8, 0x88a8, 0x9100, 0x8100]]
        .into_iter()
        .enumerate()
    {
        let tags: Vec<u8> =
            tags.iter().flat_map(|tpid| [(tpid >> 8) as u8, *tpid as u8, 0, n as u8]).collect();
        assert_eq!(bench.sids([&query[..12], &tags, &query[12..]].concat()), [1]);
    }
    let length = (query.len() - 14 + 8) as u8;
    let snap = [&query[..12], &[0, length, 0xaa, 0xaa, 3, 0, 0, 0], &query[12..]].concat();
    assert_eq!(bench.sids(snap), [1]);
}

#[test]
fn a_length_of_zero_is_that_of_the_frame_in_captures_alone() {
    for (checksums, expected) in [("ignore", &[1][..]), ("verify", &[])] {
        let mut bench = Bench::new(RULE, &[("checksums", ConfigValue::text(checksums))]);
        bench.handshake();
        let mut frame = tcp(CLIENT, SERVER, ACK, 100, 500, &[&[b'.'; 5000][..], b"secret"].concat());
        frame[16..18].fill(0);
        assert_eq!(bench.sids(frame), expected);
    }
}

#[test]
fn ports_of_tunnels_are_those_that_are_configured() {
    let rule = "alert udp any any -> any 53 (msg:\"x\"; content:\"secret\"; sid:1;)";
    let query = udp(("10.0.0.1", 1000), ("10.0.0.2", 53), b"secret");
    let around = |port, header: [u8; 8]| {
        udp(("10.9.0.1", 50_000), ("10.9.0.2", port), &[&header[..], query.as_slice()].concat())
    };
    let (vxlan, geneve) = ([8, 0, 0, 0, 0, 0, 7, 0], [0, 0, 0x65, 0x58, 0, 0, 7, 0]);
    let frames = [around(4789, vxlan), around(8472, vxlan), around(6081, geneve), around(16_081, geneve)];
    let found = |changes: &[(&str, ConfigValue)]| {
        let mut bench = Bench::new(rule, changes);
        frames.each_ref().map(|frame| !bench.sids(frame.clone()).is_empty())
    };
    let ports = |key, port| (key, ConfigValue::List(vec![ConfigValue::Integer(port)]));
    assert_eq!(found(&[]), [true, false, true, false]);
    assert_eq!(found(&[ports("vxlan_ports", 8472)]), [false, true, true, false]);
    assert_eq!(found(&[ports("geneve_ports", 16_081)]), [true, false, false, true]);
}

/// A frame in two fragments, the second first if that is asked for.
fn in_two(frame: &[u8], id: u16, at: usize, backwards: bool) -> Vec<Vec<u8>> {
    let mut parts = fragments(frame, id, &[0..at, at..frame.len() - 34]);
    if backwards {
        parts.reverse();
    }
    parts
}

/// All frames pass but the last, with which the rule is met.
fn the_last_is_dropped(mut frames: Vec<Vec<u8>>, what: &str) {
    let rule = "drop udp any any -> any 53 (msg:\"x\"; content:\"malicious stuff\"; sid:1;)";
    let mut bench = Bench::new(rule, &[]);
    let last = frames.pop().expect("a frame");
    for frame in frames {
        assert_eq!(bench.show(0, frame), (Verdict::Interface(1), vec![]), "{what}");
    }
    assert_eq!(bench.show(0, last), (Verdict::Drop(0), vec![1]), "{what}");
    assert_eq!(bench.count("ignored-seen"), 0, "{what}");
}

#[test]
fn fragments_are_put_together_inside_of_tunnels_around_them_and_both() {
    let query = udp(("10.0.0.1", 1000), ("10.0.0.2", 53), b"some malicious stuff");
    for (inside, around) in [(false, false), (true, false), (false, true), (true, true)] {
        for order in 0..4 {
            let parts = if inside { in_two(&query, 7, 16, order & 1 != 0) } else { vec![query.clone()] };
            let cut = |(id, part): (u16, &Vec<u8>)| {
                let frame = vxlan(7, part);
                // In the header of the packet inside.
                if around { in_two(&frame, id, 32, order & 2 != 0) } else { vec![frame] }
            };
            let frames = (1..).zip(&parts).flat_map(cut).collect();
            the_last_is_dropped(frames, &format!("inside {inside}, around {around}, order {order}"));
        }
    }
}

#[test]
fn fragments_are_put_together_at_every_level() {
    for backwards in [false, true] {
        let query = udp(("10.0.0.1", 1000), ("10.0.0.2", 53), b"some malicious stuff");
        let mut frames = in_two(&query, 0, 16, backwards);
        for _ in 0..4 {
            let around = |(id, part): (u16, &Vec<u8>)| {
                in_two(&packet("10.9.0.1", "10.9.0.2", 4, &part[14..]), id, 16, backwards)
            };
            frames = (0..).zip(&frames).flat_map(around).collect();
        }
        assert_eq!(frames.len(), 32);
        the_last_is_dropped(frames, &format!("backwards {backwards}"));
    }
}

#[test]
fn a_datagram_that_is_still_a_fragment_is_ignored() {
    let first = |next: u8, data: &[u8]| [&[next, 0, 0, 1, 0, 0, 0, 7], data].concat();
    let last = |next: u8, data: &[u8]| [&[next, 0, 0, 16, 0, 0, 0, 7], data].concat();
    let (a, b) = ("2001:db8::1", "2001:db8::2");
    // Behind the header of the fragment is another one.
    let inner = first(17, &[0; 16]);
    let mut bench = Bench::new(RULE, &[]);
    bench.sids(packet(a, b, 44, &first(44, &inner[..16])));
    bench.sids(packet(a, b, 44, &last(44, &inner[16..])));
    assert_eq!((bench.count("datagrams"), bench.count("ignored-seen")), (1, 1));
}
