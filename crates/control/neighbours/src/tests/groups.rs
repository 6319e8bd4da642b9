//! Membership in groups: joining, leaving, queries of each version.

use super::*;
use crate::frame::{self, Way, group_mac};
use crate::{Fault, Input};
use packet::icmpv6::{self, kind};
use packet::{checksum, ethernet, ipv4, ipv6, protocol};
use std::net::{Ipv4Addr, Ipv6Addr};

const GROUP: &str = "239.1.1.1";
const OTHER_GROUP: &str = "239.1.1.2";
const NODE: &str = "ff02::1:ff00:1";

fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn member() -> Settings {
    let multicast = vec![ip(GROUP), ip(OTHER_GROUP)];
    Settings { multicast, ..settings(OURS, &["192.0.2.1/24"]) }
}

fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[2..4].fill(0);
    let sum = checksum::of(&bytes);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// A message of IGMP from a station.
fn igmp(to: &str, bytes: Vec<u8>, ttl: u8) -> Vec<u8> {
    let way = Way { from_mac: THEIRS, to_mac: group_mac(ip(to)), from: v4("192.0.2.254"), to: v4(to) };
    frame::ipv4(way, (protocol::IGMP, ttl, &[148, 4, 0, 0]), bytes.len(), |room, _| {
        room.copy_from_slice(&bytes);
        Some(())
    })
    .unwrap()
}

/// A query: bytes behind the code and checksum are the group and, in version 3, four more.
fn query(code: u8, group: &str, version: u8) -> Vec<u8> {
    let mut bytes = vec![0x11, code, 0, 0];
    bytes.extend(v4(group).octets());
    if version == 3 {
        bytes.extend([2, 125, 0, 0]);
    }
    igmp(if group == "0.0.0.0" { "224.0.0.1" } else { group }, summed(bytes), 1)
}

/// Own messages of IGMP: where to, kind, and what follows the checksum.
fn own(sent: &[(Nanos, Vec<u8>)]) -> Vec<(Nanos, IpAddr, u8, Vec<u8>)> {
    let read = |(at, frame): &(Nanos, Vec<u8>)| {
        let view = ethernet::View::new(frame).unwrap();
        let packet = ipv4::View::new(view.payload()).ok()?;
        assert_eq!(view.destination(), group_mac(packet.destination().into()));
        assert!(packet.verify_checksum() && checksum::verify(packet.payload()));
        assert_eq!((packet.protocol(), packet.ttl(), packet.options_bytes()), (2, 1, &[148, 4, 0, 0][..]));
        let bytes = packet.payload();
        Some((*at, packet.destination().into(), bytes[0], bytes[4..].to_vec()))
    };
    sent.iter().filter_map(read).collect()
}

/// What a report of version 3 says of both groups.
fn both(record: u8) -> Vec<u8> {
    [&[0, 0, 0, 2][..], &[record, 0, 0, 0, 239, 1, 1, 1], &[record, 0, 0, 0, 239, 1, 1, 2]].concat()
}

#[test]
fn groups_are_joined_and_left_by_two_reports_each() {
    let mut bench = Bench::new(member());
    let sent = own(&bench.run(Nanos(30 * SECOND.0)));
    let found: Vec<_> = sent.iter().map(|(_, to, kind, rest)| (*to, *kind, rest.clone())).collect();
    let joins = (ip("224.0.0.22"), 0x22, both(4));
    assert_eq!(found, [joins.clone(), joins]);
    assert!(sent[0].0 == Nanos(0) && sent[1].0 <= SECOND, "{:?}", sent[1].0);
    assert_eq!(bench.device.groups().collect::<Vec<_>>(), [ip(GROUP), ip(OTHER_GROUP)]);
    // One is left, the other is not told of.
    let fewer = Settings { multicast: vec![ip(OTHER_GROUP)], ..member() };
    bench.device.change(fewer, bench.now).unwrap();
    let sent = own(&bench.run(Nanos(30 * SECOND.0)));
    let left = [&[0, 0, 0, 1][..], &[3, 0, 0, 0, 239, 1, 1, 1]].concat();
    assert_eq!(sent.iter().map(|sent| sent.3.clone()).collect::<Vec<_>>(), [left.clone(), left]);
    assert_eq!(bench.device.groups().collect::<Vec<_>>(), [ip(OTHER_GROUP)]);
    // Another link-layer address: left as this station, joined as the other.
    let other = Settings { mac: OTHER, ..member() };
    let mut moved = Bench::settled(member());
    moved.device.change(other, moved.now).unwrap();
    let sent = moved.run(Nanos(0));
    let told: Vec<_> = sent.iter().map(|(_, f)| ethernet::View::new(f).unwrap().source()).collect();
    assert_eq!(
        (told, own(&sent)[0].3.clone(), own(&sent)[1].3.clone()),
        (vec![OURS, OTHER], both(3), both(4))
    );
    bench.device.stop(bench.now);
    let frame = bench.device.next_frame().unwrap();
    assert_eq!(own(&[(bench.now, frame)])[0].3, [&[0, 0, 0, 1][..], &[3, 0, 0, 0, 239, 1, 1, 2]].concat());
}

#[test]
fn queries_are_answered_within_their_time() {
    let mut bench = Bench::settled(member());
    let mut pauses = Vec::new();
    for _ in 0..20 {
        assert_eq!(bench.input(&query(100, "0.0.0.0", 3)), (Input::Taken, vec![]));
        let sent = own(&bench.run(Nanos(10 * SECOND.0)));
        let [(at, to, 0x22, ref rest)] = sent[..] else { panic!("{sent:?}") };
        assert_eq!((to, rest), (ip("224.0.0.22"), &both(2)));
        pauses.push(at);
    }
    pauses.sort_unstable();
    assert!(pauses[19].since(pauses[0]) > Nanos(3 * SECOND.0), "they are drawn: {pauses:?}");
    // After one group: only that.
    bench.input(&query(10, OTHER_GROUP, 3));
    let sent = own(&bench.run(SECOND));
    assert_eq!(sent[0].3, [&[0, 0, 0, 1][..], &[2, 0, 0, 0, 239, 1, 1, 2]].concat());
    bench.input(&query(10, "239.9.9.9", 3));
    assert!(bench.run(SECOND).is_empty(), "a group of others");
}

#[test]
fn a_storm_of_queries_is_answered_no_oftener_than_ten_times_a_second() {
    let mut bench = Bench::settled(member());
    let mut sent = 0;
    for _ in 0..10_000 {
        bench.input(&query(0x80, "0.0.0.0", 3));
        bench.input(&query(1, "0.0.0.0", 3));
        sent += bench.run(Nanos(100_000)).len();
    }
    assert!((5..=11).contains(&sent), "{sent} in a second");
}

#[test]
fn older_queriers_are_answered_in_their_version() {
    let mut bench = Bench::settled(member());
    bench.input(&query(50, "0.0.0.0", 2));
    let sent = own(&bench.run(Nanos(5 * SECOND.0)));
    let mut found: Vec<_> = sent.iter().map(|(_, to, kind, rest)| (*to, *kind, rest.clone())).collect();
    found.sort_unstable();
    let expected = [(ip(GROUP), 0x16, vec![239, 1, 1, 1]), (ip(OTHER_GROUP), 0x16, vec![239, 1, 1, 2])];
    assert_eq!(found, expected);
    // Another member's report is enough.
    bench.input(&query(50, "0.0.0.0", 2));
    bench.input(&igmp(GROUP, summed(vec![0x16, 0, 0, 0, 239, 1, 1, 1]), 1));
    let sent = own(&bench.run(Nanos(5 * SECOND.0)));
    assert_eq!(sent.iter().map(|sent| sent.1).collect::<Vec<_>>(), [ip(OTHER_GROUP)]);
    bench.device.change(settings(OURS, &["192.0.2.1/24"]), bench.now).unwrap();
    let sent = own(&bench.run(Nanos(5 * SECOND.0)));
    assert_eq!((sent[0].1, sent[0].2), (ip("224.0.0.2"), 0x17));
    // After 260 s it is version 3 again.
    bench.run(Nanos(260 * SECOND.0));
    bench.device.change(member(), bench.now).unwrap();
    assert!(own(&bench.run(SECOND)).iter().all(|sent| sent.2 == 0x22));
    // Version 1 knows no leaving.
    bench.input(&query(0, "0.0.0.0", 1));
    let sent = own(&bench.run(Nanos(10 * SECOND.0)));
    assert!(sent.len() == 2 && sent.iter().all(|sent| sent.2 == 0x12), "{sent:?}");
    bench.device.change(settings(OURS, &["192.0.2.1/24"]), bench.now).unwrap();
    assert!(own(&bench.run(Nanos(5 * SECOND.0))).is_empty());
}

#[test]
fn invalid_messages_of_igmp_have_no_effect() {
    let mut bench = Bench::settled(member());
    let mut wrong = query(10, "0.0.0.0", 3);
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    for (name, frame, fault) in [
        ("checksum", wrong, Fault::Checksum),
        ("over a router", igmp("224.0.0.1", summed(vec![0x11, 10, 0, 0, 0, 0, 0, 0]), 2), Fault::HopLimit),
        ("no group", query(10, "192.0.2.7", 3), Fault::Address),
        ("short", igmp("224.0.0.1", summed(vec![0x11, 10, 0, 0, 0, 0, 0]), 1), Fault::Malformed),
        (
            "neither version",
            igmp("224.0.0.1", summed(vec![0x11, 10, 0, 0, 0, 0, 0, 0, 0]), 1),
            Fault::Malformed,
        ),
    ] {
        assert_eq!(bench.input(&frame), (Input::Dropped(fault), vec![]), "{name}");
    }
    assert_eq!(
        bench.input(&igmp("224.0.0.2", summed(vec![0x17, 0, 0, 0, 239, 1, 1, 1]), 1)).0,
        Input::Ignored
    );
    assert!(bench.run(Nanos(20 * SECOND.0)).is_empty());
}

/// A query of MLD, of version 2 or 1.
fn listener_query(within: u16, group: &str, version: u8, (hop_limit, alert): (u8, bool)) -> Vec<u8> {
    let to = if group == "::" { v6("ff02::1") } else { v6(group) };
    let way = Way { from_mac: THEIRS, to_mac: group_mac(to.into()), from: v6("fe80::2"), to };
    let [high, low] = within.to_be_bytes();
    let header = icmpv6::Repr { kind: kind::LISTENER_QUERY, code: 0, rest: [high, low, 0, 0] };
    let more: &[u8] = if version == 2 { &[2, 125, 0, 0] } else { &[] };
    let data = [&v6(group).octets()[..], more].concat();
    frame::icmpv6(way, (hop_limit, alert), header, &data).unwrap()
}

/// Own messages of MLD: from, to, kind and data.
fn listener(sent: &[(Nanos, Vec<u8>)]) -> Vec<(Ipv6Addr, Ipv6Addr, u8, Vec<u8>)> {
    let read = |(_, frame): &(Nanos, Vec<u8>)| {
        let view = ethernet::View::new(frame).unwrap();
        let packet = ipv6::View::new(view.payload()).ok()?;
        (packet.next_header() == protocol::HOP_BY_HOP).then_some(())?;
        assert_eq!((packet.hop_limit(), &packet.payload()[..8]), (1, &[58, 0, 5, 2, 0, 0, 1, 0][..]));
        let message = icmpv6::View::new(&packet.payload()[8..]).unwrap();
        let endpoints =
            checksum::Endpoints::V6 { source: packet.source(), destination: packet.destination() };
        assert!(message.verify_checksum(&endpoints));
        Some((packet.source(), packet.destination(), message.kind(), message.payload().to_vec()))
    };
    sent.iter().filter_map(read).collect()
}

fn record(kind: u8, group: &str) -> Vec<u8> {
    [&[kind, 0, 0, 0][..], &v6(group).octets()].concat()
}

fn listens() -> Settings {
    let multicast = vec![ip("ff05::7")];
    Settings { multicast, router_advertisements: false, ..settings(OURS, &["2001:db8::1/64"]) }
}

#[test]
fn groups_of_ipv6_are_joined_before_addresses_are_probed() {
    let mut bench = Bench::new(listens());
    let sent = bench.run(Nanos(20 * SECOND.0));
    let reports = listener(&sent);
    let all = [record(4, NODE), record(4, "ff05::7")].concat();
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[0], (v6("::"), v6("ff02::16"), kind::LISTENER_REPORT_V2, all));
    let first = sent.iter().position(|(_, f)| !listener(&[(Nanos(0), f.clone())]).is_empty());
    assert_eq!(first, Some(0));
    bench.input(&listener_query(1000, "::", 2, (1, true)));
    let sent = listener(&bench.run(SECOND));
    let all = [record(2, NODE), record(2, "ff05::7")].concat();
    assert_eq!(sent, [(v6("fe80::ff:fe00:1"), v6("ff02::16"), kind::LISTENER_REPORT_V2, all)]);
    bench.input(&listener_query(1000, "ff05::7", 1, (1, true)));
    let sent = listener(&bench.run(SECOND));
    let data = v6("ff05::7").octets().to_vec();
    assert_eq!(sent, [(v6("fe80::ff:fe00:1"), v6("ff05::7"), kind::LISTENER_REPORT, data)]);
}

#[test]
fn invalid_queries_of_mld_have_no_effect() {
    let mut bench = Bench::settled(listens());
    let mut wrong = listener_query(1000, "::", 2, (1, true));
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    for (name, frame, fault) in [
        ("checksum", wrong, Fault::Checksum),
        ("over a router", listener_query(1000, "::", 2, (2, true)), Fault::HopLimit),
        ("no alert", listener_query(1000, "::", 2, (1, false)), Fault::HopLimit),
        ("no group", listener_query(1000, "2001:db8::7", 2, (1, true)), Fault::Address),
    ] {
        assert_eq!(bench.input(&frame), (Input::Dropped(fault), vec![]), "{name}");
    }
    assert!(bench.run(Nanos(10 * SECOND.0)).is_empty());
}
