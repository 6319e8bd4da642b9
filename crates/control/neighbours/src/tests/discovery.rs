//! Neighbour discovery: solicitations, duplicates, routers, and what makes a message invalid.

use super::*;
use crate::discovery::{ALL_NODES, ALL_ROUTERS, HOP_LIMIT, solicited_node};
use crate::frame::{self, Way, group_mac};
use crate::{AddressState, Fault, Input, NeighbourState, Origin, Resolution};
use packet::icmpv6::{self, kind};
use packet::{ethernet, ipv6};
use std::net::Ipv6Addr;

const LINK_LOCAL: &str = "fe80::ff:fe00:1";

pub(super) fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// A message of any kind; `rest` are flags and the like, `data` what follows.
fn message(from_mac: [u8; 6], (from, to): (&str, Ipv6Addr), kind: u8, rest: [u8; 4], data: &[u8]) -> Vec<u8> {
    let to_mac = if to.is_multicast() { group_mac(to.into()) } else { OURS };
    let way = Way { from_mac, to_mac, from: v6(from), to };
    frame::icmpv6(way, (HOP_LIMIT, false), icmpv6::Repr { kind, code: 0, rest }, data).unwrap()
}

fn option(kind: u8, mac: [u8; 6]) -> Vec<u8> {
    [&[kind, 1][..], &mac].concat()
}

pub(super) fn solicitation(from_mac: [u8; 6], from: &str, target: &str) -> Vec<u8> {
    let link = if from == "::" { vec![] } else { option(1, from_mac) };
    let data = [&v6(target).octets()[..], &link].concat();
    message(from_mac, (from, solicited_node(v6(target))), kind::NEIGHBOUR_SOLICITATION, [0; 4], &data)
}

pub(super) fn advertisement(mac: [u8; 6], target: &str, to: Ipv6Addr, flags: u8) -> Vec<u8> {
    let data = [&v6(target).octets()[..], &option(2, mac)].concat();
    message(mac, (target, to), kind::NEIGHBOUR_ADVERTISEMENT, [flags, 0, 0, 0], &data)
}

/// An option with a prefix: on-link and autonomous, with lifetimes in seconds.
pub(super) fn prefix_option(network: &str, (valid, preferred): (u32, u32)) -> Vec<u8> {
    let head = [3, 4, 64, 0xc0];
    let network = v6(network).octets();
    [&head[..], &valid.to_be_bytes(), &preferred.to_be_bytes(), &[0; 4], &network].concat()
}

pub(super) fn router(lifetime: u16, options: &[Vec<u8>]) -> Vec<u8> {
    let [high, low] = lifetime.to_be_bytes();
    let data = [&[0; 8][..], &options.concat()].concat();
    message(THEIRS, ("fe80::2", ALL_NODES), kind::ROUTER_ADVERTISEMENT, [64, 0, high, low], &data)
}

/// What an own message says: destination and source, kind, flags, and the data.
fn read(frame: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr, u8, u8, Vec<u8>)> {
    if crate::classify(frame) != Some(crate::Protocol::Discovery) {
        return None;
    }
    let view = ethernet::View::new(frame).unwrap();
    let packet = ipv6::View::new(view.payload()).ok()?;
    assert_eq!((packet.hop_limit(), view.source()), (HOP_LIMIT, OURS));
    let body = &packet.payload()[packet.upper().unwrap().offset..];
    let message = icmpv6::View::new(body).unwrap();
    let endpoints =
        packet::checksum::Endpoints::V6 { source: packet.source(), destination: packet.destination() };
    assert!(message.verify_checksum(&endpoints));
    Some((
        packet.destination(),
        packet.source(),
        message.kind(),
        message.rest()[0],
        message.payload().to_vec(),
    ))
}

/// Messages of neighbour discovery alone.
fn discovery<'a>(
    frames: impl IntoIterator<Item = &'a Vec<u8>>,
) -> Vec<(Ipv6Addr, Ipv6Addr, u8, u8, Vec<u8>)> {
    frames.into_iter().filter_map(|frame| read(frame)).collect()
}

pub(super) fn states(bench: &Bench) -> Vec<(IpAddr, Origin, AddressState)> {
    bench.device.addresses().map(|own| (own.prefix.address, own.origin, own.state)).collect()
}

/// A device with a static address and no interest in routers.
fn quiet() -> Settings {
    Settings { router_advertisements: false, ..settings(OURS, &["2001:db8::1/64"]) }
}

#[test]
fn addresses_are_probed_once_and_told_to_routers() {
    let mut bench = Bench::new(quiet());
    let sent = bench.run(Nanos(10 * SECOND.0));
    let of = |address: &str| {
        let data = |m: &Vec<u8>| m.starts_with(&v6(address).octets());
        let all = discovery(sent.iter().map(|(_, frame)| frame));
        all.into_iter().filter(|m| data(&m.4)).map(|m| (m.0, m.1, m.2, m.3)).collect::<Vec<_>>()
    };
    for address in ["2001:db8::1", LINK_LOCAL] {
        let probe = (solicited_node(v6(address)), v6("::"), kind::NEIGHBOUR_SOLICITATION, 0);
        let told = (ALL_ROUTERS, v6(address), kind::NEIGHBOUR_ADVERTISEMENT, 0);
        assert_eq!(of(address), [probe, told], "{address}");
    }
    let expected = [
        (ip("2001:db8::1"), Origin::Static, AddressState::Valid),
        (ip(LINK_LOCAL), Origin::LinkLocal, AddressState::Valid),
    ];
    assert_eq!(states(&bench), expected);
}

#[test]
fn a_probe_or_an_advertisement_of_a_tentative_address_makes_it_a_duplicate() {
    let by_probe = solicitation(THEIRS, "::", "2001:db8::1");
    let by_answer = advertisement(THEIRS, "2001:db8::1", ALL_NODES, 0x20);
    for frame in [by_probe, by_answer] {
        let mut bench = Bench::new(quiet());
        bench.run(SECOND);
        // A question that is no probe is not answered, and no conflict.
        let (outcome, sent) = bench.input(&solicitation(THEIRS, "2001:db8::2", "2001:db8::1"));
        assert_eq!((outcome, sent.len(), states(&bench)[0].2), (Input::Taken, 0, AddressState::Tentative));
        assert_eq!(bench.input(&frame), (Input::Taken, vec![]));
        assert_eq!(states(&bench)[0].2, AddressState::Duplicate);
        assert_eq!(bench.device.counters().conflicts, 1);
    }
}

#[test]
fn what_one_station_says_once_takes_no_address_away_for_ever() {
    let mut bench = Bench::new(Settings { ipv6: true, ..settings(OURS, &[]) });
    bench.run(Nanos(SECOND.0 / 2));
    let made = "2001:db8:1::ff:fe00:1";
    let said = router(1800, &[option(1, THEIRS), prefix_option("2001:db8:1::", (7200, 3600))]);
    bench.input(&said);
    for (address, origin) in [(LINK_LOCAL, Origin::LinkLocal), (made, Origin::Router)] {
        bench.input(&advertisement(OTHER, address, ALL_NODES, 0x20));
        assert!(states(&bench).contains(&(ip(address), origin, AddressState::Duplicate)), "{address}");
    }
    bench.run(Nanos(30 * SECOND.0));
    assert!(
        states(&bench).iter().all(|(.., state)| *state == AddressState::Duplicate),
        "not before a minute"
    );
    let sent = bench.run(Nanos(40 * SECOND.0));
    let valid = [
        (ip(LINK_LOCAL), Origin::LinkLocal, AddressState::Valid),
        (ip(made), Origin::Router, AddressState::Valid),
    ];
    assert_eq!(states(&bench), valid);
    let probes = discovery(sent.iter().map(|(_, frame)| frame)).into_iter().filter(|m| m.1 == v6("::"));
    assert_eq!(probes.count(), 2, "each is probed for again");
}

#[test]
fn solicitations_for_own_addresses_are_answered() {
    let mut bench = Bench::settled(quiet());
    let (outcome, sent) = bench.input(&solicitation(THEIRS, "2001:db8::2", "2001:db8::1"));
    assert_eq!(outcome, Input::Taken);
    let expected_data = [&v6("2001:db8::1").octets()[..], &option(2, OURS)].concat();
    let (to, from) = (v6("2001:db8::2"), v6("2001:db8::1"));
    let expected = (to, from, kind::NEIGHBOUR_ADVERTISEMENT, 0x60, expected_data.clone());
    assert_eq!(discovery(&sent), [expected]);
    // Another station's probe for it.
    let sent = bench.input(&solicitation(THEIRS, "::", "2001:db8::1")).1;
    assert_eq!(discovery(&sent), [(ALL_NODES, from, kind::NEIGHBOUR_ADVERTISEMENT, 0x20, expected_data)]);
    let other = solicitation(THEIRS, "2001:db8::2", "2001:db8::9");
    assert_eq!(bench.input(&other), (Input::Taken, vec![]));
    assert_eq!(bench.device.neighbours_count(), 0);
}

#[test]
fn an_ask_is_answered_by_a_solicited_advertisement() {
    let mut bench = Bench::settled(quiet());
    let neighbour = ip("2001:db8::2");
    assert_eq!(bench.device.resolve(neighbour, bench.now), Resolution::Asked);
    let sent = bench.run(Nanos(0));
    let data = [&v6("2001:db8::2").octets()[..], &option(1, OURS)].concat();
    let to = solicited_node(v6("2001:db8::2"));
    let question = (to, v6("2001:db8::1"), kind::NEIGHBOUR_SOLICITATION, 0, data);
    assert_eq!(discovery(sent.iter().map(|(_, f)| f)), [question]);
    bench.input(&advertisement(THEIRS, "2001:db8::2", v6("2001:db8::1"), 0x60));
    assert_eq!(bench.device.resolve(neighbour, bench.now), Resolution::Known(THEIRS));
    assert_eq!(bench.device.neighbours().next().unwrap().state, NeighbourState::Reachable);
    // A link-local neighbour is asked from the link-local address.
    bench.device.resolve(ip("fe80::77"), bench.now);
    let sent = bench.run(Nanos(0));
    assert_eq!(discovery(sent.iter().map(|(_, f)| f))[0].1, v6(LINK_LOCAL));
    // It asks itself before it answers: known, not reachable.
    bench.input(&solicitation(OTHER, "fe80::77", LINK_LOCAL));
    assert_eq!(bench.device.resolve(ip("fe80::77"), bench.now), Resolution::Known(OTHER));
    let found = bench.device.neighbours().find(|n| n.address == ip("fe80::77")).unwrap();
    assert_eq!(found.state, NeighbourState::Delay);
}

#[test]
fn another_station_is_asked_about_before_it_takes_over() {
    let mut bench = Bench::settled(quiet());
    let neighbour = ip("2001:db8::2");
    bench.device.resolve(neighbour, bench.now);
    bench.run(Nanos(0));
    bench.input(&advertisement(THEIRS, "2001:db8::2", v6("2001:db8::1"), 0x60));
    // Without the override flag nothing is even asked.
    bench.input(&advertisement(OTHER, "2001:db8::2", v6("2001:db8::1"), 0x40));
    assert!(bench.run(Nanos(0)).is_empty());
    for _ in 0..10_000 {
        bench.input(&advertisement(OTHER, "2001:db8::2", ALL_NODES, 0x20));
    }
    assert_eq!(bench.device.resolve(neighbour, bench.now), Resolution::Known(THEIRS));
    let sent = bench.run(Nanos(500_000_000));
    let [(to, ..)] = discovery(sent.iter().map(|(_, f)| f))[..] else { panic!("{}", sent.len()) };
    assert_eq!(to, v6("2001:db8::2"));
    bench.run(Nanos(600_000_000));
    assert_eq!(bench.device.resolve(neighbour, bench.now), Resolution::Asked);
    bench.input(&advertisement(OTHER, "2001:db8::2", v6("2001:db8::1"), 0x60));
    assert_eq!(bench.device.resolve(neighbour, bench.now), Resolution::Known(OTHER));
}

#[test]
fn a_router_brings_an_address_a_route_and_an_mtu() {
    let mut bench = Bench::new(settings(OURS, &["fe80::ffff/64"]));
    let sent = bench.run(Nanos(40 * SECOND.0));
    let asked = sent.iter().filter(|(_, f)| read(f).is_some_and(|m| m.2 == kind::ROUTER_SOLICITATION));
    let asked: Vec<_> = asked.map(|(at, _)| at.0 / SECOND.0).collect();
    assert!((3..=4).contains(&asked.len()), "{asked:?}");
    bench.device.take_changes();
    let mtu = [5, 1, 0, 0, 0, 0, 0x05, 0x78].to_vec();
    let said = router(1800, &[option(1, THEIRS), mtu, prefix_option("2001:db8:1::", (7200, 3600))]);
    assert_eq!(bench.input(&said).0, Input::Taken);
    let changes = bench.device.take_changes();
    assert!(changes.addresses && changes.routers && changes.mtu && !changes.neighbours);
    assert_eq!(bench.device.routers().collect::<Vec<_>>(), [ip("fe80::2")]);
    assert_eq!(bench.device.mtu(), 1400);
    let made = ip("2001:db8:1::ff:fe00:1");
    assert_eq!(states(&bench)[2], (made, Origin::Router, AddressState::Tentative));
    let sent = bench.run(Nanos(10 * SECOND.0));
    assert_eq!(states(&bench)[2].2, AddressState::Valid);
    assert!(sent.iter().all(|(_, f)| read(f).is_none_or(|m| m.2 != kind::ROUTER_SOLICITATION)));
    assert_eq!(bench.device.resolve(ip("2001:db8:1::9"), bench.now), Resolution::Asked, "it is on the link");
    // It ends with its lifetimes: the router after 1,800 s, preference after 3,600, the address after 7,200.
    bench.run(Nanos(1_795 * SECOND.0));
    assert_eq!(bench.device.routers().count(), 0);
    bench.run(Nanos(1_800 * SECOND.0));
    assert_eq!(states(&bench)[2].2, AddressState::Deprecated);
    bench.run(Nanos(3_600 * SECOND.0));
    assert_eq!(states(&bench).len(), 2);
    bench.device.resolve(ip("2001:db8:1::9"), bench.now);
    assert_eq!(bench.device.neighbours_count(), 0, "nor is its prefix on the link");
}

#[test]
fn what_routers_say_is_bounded() {
    let mut bench = Bench::settled(settings(OURS, &["fe80::ffff/64"]));
    for n in 0..1_000u32 {
        let [.., c, d] = n.to_be_bytes();
        let mtu = [5, 1, 0, 0, 0, 0, c, d].to_vec();
        let network = format!("2001:db8:{n:x}::");
        let from = format!("fe80::1:{n:x}");
        let data = [&[0; 8][..], &prefix_option(&network, (7200, 3600)), &mtu].concat();
        let frame = message(THEIRS, (&from, ALL_NODES), kind::ROUTER_ADVERTISEMENT, [0, 0, 7, 8], &data);
        bench.input(&frame);
    }
    assert_eq!((bench.device.routers().count(), states(&bench).len()), (8, 2 + 16));
    assert_eq!(bench.device.mtu(), 1500, "an MTU below 1,280 is not taken");
    // A lifetime is not shortened below two hours by a message that is not authenticated, a prefix of other
    // than 64 bits makes no address, and a router that says so is none any more.
    let mut bench = Bench::settled(settings(OURS, &["fe80::ffff/64"]));
    bench.input(&router(1800, &[prefix_option("2001:db8::", (86_400, 3600))]));
    bench.input(&router(0, &[prefix_option("2001:db8::", (1, 1))]));
    let mut other = prefix_option("2001:db8:9::", (7200, 3600));
    other[2] = 56;
    bench.input(&router(0, &[other, prefix_option("fe80::", (7200, 3600))]));
    assert_eq!((bench.device.routers().count(), states(&bench).len()), (0, 3));
    bench.run(Nanos(7_100 * SECOND.0));
    assert_eq!(states(&bench).len(), 3);
    bench.run(Nanos(200 * SECOND.0));
    assert_eq!(states(&bench).len(), 2);
}

/// What a flood has filled is not lost to the link's router for the lifetimes that the flood said, and a
/// router that goes on advertising keeps its place in the next one.
#[test]
fn what_a_flood_of_advertisements_has_filled_is_free_again_after_it() {
    let flood = |bench: &mut Bench, first: u32| {
        for n in first..first + 100 {
            let network = format!("2001:db8:{n:x}::");
            let data = [&[0; 8][..], &prefix_option(&network, (u32::MAX, u32::MAX))].concat();
            let (from, rest) = (format!("fe80::1:{n:x}"), [0, 0, 0xff, 0xff]);
            let sender = [2, 9, 0, 0, 0, n as u8];
            bench.input(&message(sender, (&from, ALL_NODES), kind::ROUTER_ADVERTISEMENT, rest, &data));
        }
    };
    let real = router(1800, &[prefix_option("2001:db8:ffff::", (86_400, 3600))]);
    let (address, gateway) = (ip("2001:db8:ffff::ff:fe00:1"), ip("fe80::2"));
    let has = |bench: &Bench| {
        let formed = states(bench).iter().any(|(own, ..)| *own == address);
        (bench.device.routers().any(|router| router == gateway), formed)
    };
    let mut bench = Bench::settled(settings(OURS, &["fe80::ffff/64"]));
    flood(&mut bench, 0);
    // During the flood there is no room.
    bench.input(&real);
    assert_eq!(has(&bench), (false, false));
    for _ in 0..4 {
        bench.run(Nanos(600 * SECOND.0));
        bench.input(&real);
    }
    assert_eq!(has(&bench), (true, true));
    bench.run(Nanos(10 * SECOND.0));
    let asked = bench.device.resolve(ip("2001:db8:ffff::9"), bench.now);
    assert_eq!(asked, Resolution::Asked, "its prefix is on the link");
    // It stays, whatever else is said.
    for round in 1..10 {
        flood(&mut bench, 1000 * round);
        bench.run(Nanos(600 * SECOND.0));
        bench.input(&real);
        assert_eq!(has(&bench), (true, true));
    }
    assert_eq!((bench.device.routers().count(), states(&bench).len()), (8, 2 + 16));
}

#[test]
fn invalid_messages_have_no_effect() {
    let mut bench = Bench::settled(quiet());
    let good = solicitation(THEIRS, "2001:db8::2", "2001:db8::1");
    // A frame with another byte, and the checksum made right.
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame[56..58].fill(0);
        let endpoints = packet::checksum::Endpoints::V6 {
            source: <[u8; 16]>::try_from(&frame[22..38]).unwrap().into(),
            destination: <[u8; 16]>::try_from(&frame[38..54]).unwrap().into(),
        };
        let sum = endpoints.sum(packet::protocol::ICMPV6, &frame[54..]).checksum();
        frame[56..58].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    assert_eq!(with(54, 135), good);
    let mut wrong = good.clone();
    wrong[57] ^= 1;
    let from_group = message(
        THEIRS,
        ("ff02::5", solicited_node(v6("2001:db8::1"))),
        135,
        [0; 4],
        &v6("2001:db8::1").octets(),
    );
    let probe_with_option = {
        let data = [&v6("2001:db8::1").octets()[..], &option(1, THEIRS)].concat();
        message(THEIRS, ("::", solicited_node(v6("2001:db8::1"))), 135, [0; 4], &data)
    };
    let probe_to_one = message(THEIRS, ("::", v6("2001:db8::1")), 135, [0; 4], &v6("2001:db8::1").octets());
    let solicited_to_all = advertisement(THEIRS, "2001:db8::2", ALL_NODES, 0x60);
    let global_router = message(THEIRS, ("2001:db8::2", ALL_NODES), 134, [0; 4], &[0; 8]);
    for (name, frame, fault) in [
        ("checksum", wrong, Fault::Checksum),
        ("hop limit", with(21, 254), Fault::HopLimit),
        ("code", with(55, 1), Fault::Malformed),
        ("option without length", with(79, 0), Fault::Malformed),
        ("option that reaches out", with(79, 2), Fault::Malformed),
        ("target of a group", with(62, 0xff), Fault::Address),
        ("another station's option", with(85, 9), Fault::Address),
        ("a group's option", with(80, 3), Fault::Address),
        ("cut", good[..70].to_vec(), Fault::Malformed),
        ("from a group", from_group, Fault::Address),
        ("a probe with an option", probe_with_option, Fault::Address),
        ("a probe to one", probe_to_one, Fault::Address),
        ("solicited, to all", solicited_to_all, Fault::Address),
        (
            "short",
            message(THEIRS, ("2001:db8::2", v6("2001:db8::1")), 135, [0; 4], &[0; 15]),
            Fault::Malformed,
        ),
        ("in the device's name", solicitation(THEIRS, "2001:db8::1", "2001:db8::1"), Fault::Address),
    ] {
        assert_eq!(bench.input(&frame), (Input::Dropped(fault), vec![]), "{name}");
    }
    let mut open = Bench::settled(settings(OURS, &["2001:db8::1/64"]));
    assert_eq!(open.input(&global_router).0, Input::Dropped(Fault::Address));
    assert_eq!(bench.input(&router(1800, &[])).0, Input::Ignored, "routers are of no interest");
    let redirect = message(THEIRS, ("fe80::2", v6("2001:db8::1")), kind::REDIRECT, [0; 4], &[0; 32]);
    assert_eq!(bench.input(&redirect), (Input::Ignored, vec![]));
    assert_eq!((bench.device.neighbours_count(), bench.device.counters().conflicts), (0, 0));
}

#[test]
fn a_storm_of_solicitations_moves_no_entry() {
    let mut bench = Bench::settled(quiet());
    bench.device.resolve(ip("2001:db8::2"), bench.now);
    bench.run(Nanos(0));
    bench.input(&advertisement(THEIRS, "2001:db8::2", v6("2001:db8::1"), 0x60));
    bench.device.take_changes();
    let mut sent = 0;
    for n in 0..100_000u32 {
        let [a, b, c, d] = n.to_be_bytes();
        let from = format!("2001:db8::{:x}:{:x}", 1 + (n >> 16), n & 0xffff);
        sent += bench.input(&solicitation([2, 9, a, b, c, d], &from, "2001:db8::1")).1.len();
        bench.now = bench.now.saturating_add(Nanos(10_000));
    }
    let limits = crate::Limits::default();
    assert!(sent <= (limits.answers.per_second + limits.answers.burst) as usize + 1, "{sent}");
    assert_eq!((bench.device.neighbours_count(), bench.device.take_changes().any()), (1, false));
    assert_eq!(bench.device.resolve(ip("2001:db8::2"), bench.now), Resolution::Known(THEIRS));
}
