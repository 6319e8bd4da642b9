//! ICMP errors, echo, ARP and neighbour discovery.

use super::{Router, ask, at, changed, counted, drop, hops, packet, router, udp, verdict};
use crate::metrics::Reason;
use nf_sdk::Verdict;
use nf_sdk::native::Runner;
use nf_sdk::native::frames::seal;
use packet::checksum::Endpoints;
use packet::{arp, dissect, icmpv6, protocol};
use std::vec;
use std::vec::Vec;

const ROUTES: &str = "
routes:
  - {to: 10.0.0.0/8, via: 198.51.100.2}
  - {to: 10.9.9.9/32, action: reject}
  - {to: 10.66.0.0/16, via: 198.51.100.66}
  - {to: '2001:db8:5::/48', via: '2001:db8:b::2'}
  - {to: '2001:db8:6::/48', action: reject}
";

/// The only packet of the router's own so far, with the interface it went out by; its checksums are right.
fn sent(runner: &Runner<Router>) -> (Verdict, Vec<u8>) {
    let [one] = runner.host().emitted() else { panic!("{:?}", runner.host().emitted()) };
    let bytes = one.bytes.clone().expect("its own");
    let mut sealed = bytes.clone();
    seal(&mut sealed);
    assert_eq!(sealed, bytes, "checksums");
    (one.verdict, bytes)
}

#[test]
fn senders_are_told_what_is_wrong() {
    let df = |frame| changed(frame, 20, 0x40);
    for (frame, kind, code, rest) in [
        (hops(udp("192.0.2.9", "10.1.2.3", 30), 1), 11, 0, 0),
        (udp("192.0.2.9", "203.0.113.1", 30), 3, 0, 0),
        (udp("192.0.2.9", "10.66.0.1", 30), 3, 1, 0),
        (udp("192.0.2.9", "10.9.9.9", 30), 3, 13, 0),
        (df(udp("192.0.2.9", "10.1.2.3", 1400)), 3, 4, 1400),
        (hops(udp("2001:db8:a::9", "2001:db8:5::1", 30), 1), 3, 0, 0),
        (udp("2001:db8:a::9", "2001:db8:7::1", 30), 1, 0, 0),
        (udp("2001:db8:a::9", "2001:db8:6::1", 30), 1, 1, 0),
        (udp("2001:db8:a::9", "2001:db8:b::77", 30), 1, 3, 0),
        (udp("2001:db8:a::9", "2001:db8:5::1", 1400), 2, 0, 1400),
    ] {
        let mut runner = router(ROUTES);
        assert!(matches!(verdict(&mut runner, &frame), Verdict::Drop(_)));
        let (to, bytes) = sent(&runner);
        assert_eq!(to, Verdict::Interface(0));
        assert_eq!(bytes[..12], [2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 0, 1]);
        let network = dissect(&bytes).expect("sound").network.expect("IP");
        let asked = dissect(&frame).expect("sound").network.expect("IP");
        assert_eq!(network.destination, asked.source);
        let six = asked.source.is_ipv6();
        let own = if six { "2001:db8:a::1" } else { "192.0.2.1" };
        assert_eq!(network.source, own.parse::<core::net::IpAddr>().unwrap());
        assert_eq!(network.protocol, if six { protocol::ICMPV6 } else { protocol::ICMPV4 });
        let message = &bytes[network.l4_offset..];
        assert_eq!((message[0], message[1]), (kind, code), "{asked:?}");
        assert_eq!(message[4..8], u32::to_be_bytes(rest));
        // The packet as it came, as much of it as there is room for.
        let room = if six { 1280 - 48 } else { 576 - 28 };
        assert_eq!(message[8..], frame[14..frame.len().min(14 + room)]);
        assert_eq!(counted(&runner, "icmp-sent"), 1);
    }
}

#[test]
fn errors_groups_and_fragments_are_not_answered() {
    let icmp4 = |kind: u8| hops(packet("192.0.2.9", "10.1.2.3", 1, &[kind, 0, 0, 0, 0, 0, 0, 0, 0x45]), 1);
    let icmp6 =
        |kind: u8| hops(packet("2001:db8:a::9", "2001:db8:5::1", 58, &[kind, 0, 0, 0, 0, 0, 0, 0, 1]), 1);
    let mut later = hops(udp("192.0.2.9", "10.1.2.3", 30), 1);
    later[21] = 9;
    seal(&mut later);
    let later6 = hops(packet("2001:db8:a::9", "2001:db8:5::1", 44, &[17, 0, 0, 9, 0, 0, 0, 1, 7, 7]), 1);
    for frame in [3, 4, 5, 11, 12].map(icmp4).into_iter().chain([1, 2, 3, 4, 127, 137].map(icmp6)) {
        let mut runner = router(ROUTES);
        assert_eq!(verdict(&mut runner, &frame), drop(Reason::HopsExceeded));
        assert_eq!(runner.host().emitted(), [], "{frame:02x?}");
    }
    for frame in [later, later6] {
        let mut runner = router(ROUTES);
        assert_eq!(verdict(&mut runner, &frame), drop(Reason::HopsExceeded));
        assert_eq!(runner.host().emitted(), []);
    }
    // Echo requests are, and so is the first fragment.
    let mut first = hops(udp("192.0.2.9", "10.1.2.3", 30), 1);
    first[20] = 0x20;
    seal(&mut first);
    for frame in [icmp4(8), icmp6(128), first] {
        let mut runner = router(ROUTES);
        verdict(&mut runner, &frame);
        sent(&runner);
    }
    // There is no way back to this one.
    let mut runner = router(ROUTES);
    assert_eq!(
        verdict(&mut runner, &hops(udp("203.0.113.7", "10.1.2.3", 30), 1)),
        drop(Reason::HopsExceeded)
    );
    assert_eq!((runner.host().emitted().len(), counted(&runner, "icmp-unsent")), (0, 1));
}

#[test]
fn errors_are_as_many_as_the_limit_says() {
    let mut runner = router("icmp_rate: 10pps\nicmp_burst: 3");
    let frame = udp("192.0.2.9", "203.0.113.1", 30);
    let sent = |runner: &mut Runner<Router>, count: usize, nanos: u64| {
        let before = counted(runner, "icmp-sent");
        for _ in 0..count {
            assert_eq!(ask(runner, &frame, at(nanos)).verdict, Some(drop(Reason::NoRoute)));
        }
        counted(runner, "icmp-sent") - before
    };
    assert_eq!(sent(&mut runner, 10, 0), 3);
    assert_eq!(sent(&mut runner, 10, 99_999_999), 0);
    assert_eq!(sent(&mut runner, 10, 100_000_000), 1);
    assert_eq!(sent(&mut runner, 10, 350_000_000), 2);
    // Time that runs backwards brings nothing, and what is not taken is not kept beyond the burst.
    assert_eq!(sent(&mut runner, 10, 300_000_000), 0);
    assert_eq!(sent(&mut runner, 10, 400_000_000), 1);
    assert_eq!(sent(&mut runner, 10, u64::MAX / 2), 3);
    assert_eq!(counted(&runner, "icmp-sent") + counted(&runner, "icmp-limited"), 70);
    // The next instance goes on where this one was.
    let state = runner.export_state().expect("offered");
    let mut next = router("icmp_rate: 10pps\nicmp_burst: 3");
    assert!(next.import_state(&state));
    assert_eq!(sent(&mut next, 10, u64::MAX / 2), 0);
    assert!(
        !next.import_state(&state[..state.len() - 1]) && !next.import_state(b"\x01\0\0\0\x08\0\0\0x12345678")
    );
}

#[test]
fn echo_requests_for_the_router_are_answered() {
    let mut runner = router("");
    for (from, to) in [("192.0.2.9", "198.51.100.1"), ("2001:db8:a::9", "2001:db8:a::1")] {
        let six = from.contains(':');
        let kinds = if six { [128, 129] } else { [8, 0] };
        let message = |kind: u8| {
            let mut message = vec![kind, 0, 0, 0, 1, 2, 0, 3];
            message.extend([0x5a; 41]);
            message
        };
        let protocol = if six { 58 } else { 1 };
        let out = ask(&mut runner, &hops(packet(from, to, protocol, &message(kinds[0])), 3), at(0));
        assert_eq!(out.verdict, Some(Verdict::Interface(0)));
        let mut expected = packet(to, from, protocol, &message(kinds[1]));
        expected[..12].copy_from_slice(&[2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 0, 1]);
        assert_eq!(out.bytes, Some(expected));
    }
    assert_eq!(counted(&runner, "answered"), 2);
    let mut wrong = packet("192.0.2.9", "192.0.2.1", 1, &[8, 0, 0, 0, 1, 2, 0, 3]);
    wrong[36] ^= 1;
    assert_eq!(verdict(&mut runner, &wrong), drop(Reason::Malformed));
    let request = packet("192.0.2.9", "192.0.2.1", 1, &[8, 0, 0, 0, 1, 2, 0, 3]);
    assert_eq!(verdict(&mut router("echo: false"), &request), drop(Reason::ForRouter));
}

fn who_has(target: &str, operation: u16) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 9, 9, 8, 6]);
    frame.resize(60, 0);
    let repr = arp::Repr {
        operation,
        sender_mac: [2, 0, 0, 0, 9, 9],
        sender: "192.0.2.9".parse().unwrap(),
        target_mac: [0; 6],
        target: target.parse().unwrap(),
    };
    repr.emit(&mut frame[14..]).expect("room");
    frame
}

#[test]
fn the_interfaces_own_addresses_are_told_by_arp() {
    let mut runner = router("");
    let out = ask(&mut runner, &who_has("192.0.2.1", arp::REQUEST), at(0));
    assert_eq!(out.verdict, Some(Verdict::Interface(0)));
    let bytes = out.bytes.expect("an answer");
    assert_eq!(bytes[..12], [2, 0, 0, 0, 9, 9, 2, 0, 0, 0, 0, 1]);
    let answer = arp::View::new(&bytes[14..]).expect("ARP");
    assert_eq!((answer.operation(), answer.sender_mac()), (arp::REPLY, [2, 0, 0, 0, 0, 1]));
    assert_eq!(
        (answer.sender(), answer.target()),
        ("192.0.2.1".parse().unwrap(), "192.0.2.9".parse().unwrap())
    );
    // Another interface's address, another host's, and a reply.
    for frame in [
        who_has("198.51.100.1", arp::REQUEST),
        who_has("192.0.2.7", arp::REQUEST),
        who_has("192.0.2.1", arp::REPLY),
    ] {
        assert_eq!(verdict(&mut runner, &frame), drop(Reason::NotIp));
    }
    assert_eq!(verdict(&mut runner, &who_has("192.0.2.1", arp::REQUEST)[..40]), drop(Reason::Malformed));
    assert_eq!(verdict(&mut router("echo: false"), &who_has("192.0.2.1", arp::REQUEST)), drop(Reason::NotIp));
}

fn solicitation(source: &str, target: &str) -> Vec<u8> {
    let mut message = vec![icmpv6::kind::NEIGHBOUR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.parse::<core::net::Ipv6Addr>().unwrap().octets());
    let mut frame = hops(packet(source, "ff02::1:ff00:1", 58, &message), 255);
    frame[..12].copy_from_slice(&[0x33, 0x33, 0xff, 0, 0, 1, 2, 0, 0, 0, 9, 9]);
    frame
}

#[test]
fn the_interfaces_own_addresses_are_told_by_neighbour_discovery() {
    for (source, to, mac, flags) in [
        ("2001:db8:a::9", "2001:db8:a::9", [2, 0, 0, 0, 9, 9], 0xe0),
        ("::", "ff02::1", [0x33, 0x33, 0, 0, 0, 1], 0xa0),
    ] {
        let mut runner = router("");
        assert_eq!(verdict(&mut runner, &solicitation(source, "2001:db8:a::1")), Verdict::Consume);
        let (out, bytes) = sent(&runner);
        assert_eq!((out, &bytes[..6]), (Verdict::Interface(0), &mac[..]));
        let network = dissect(&bytes).expect("sound").network.expect("IP");
        assert_eq!(network.destination, to.parse::<core::net::IpAddr>().unwrap());
        assert_eq!((bytes[21], bytes[54], bytes[58]), (255, icmpv6::kind::NEIGHBOUR_ADVERTISEMENT, flags));
        assert_eq!(bytes[78..], [2, 1, 2, 0, 0, 0, 0, 1]);
        let ends = Endpoints::new(network.source, network.destination).expect("of one family");
        assert!(ends.verify(protocol::ICMPV6, &bytes[54..]));
    }
    // Another's address, and a hop limit that a packet from elsewhere could have.
    let mut runner = router("");
    let other = solicitation("2001:db8:a::9", "2001:db8:a::77");
    assert_eq!(verdict(&mut runner, &other), drop(Reason::Multicast));
    let far = hops(solicitation("2001:db8:a::9", "2001:db8:a::1"), 254);
    assert_eq!(verdict(&mut runner, &far), drop(Reason::Malformed));
    assert_eq!(runner.host().emitted(), []);
}
