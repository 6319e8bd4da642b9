//! Fragments and ICMP errors, which go where their connections go.

use super::*;
use flags::ACK;
use nf_sdk::native::frames::seal;
use proptest::prelude::*;

const SERVICES: &str = "
services:
  - {name: web, address: 198.51.100.7, protocol: tcp, ports: '80', servers: [{address: 10.0.0.1, port: 8080}, {address: 10.0.0.2, port: 8080}]}
  - {name: six, address: '2001:db8:f::7', protocol: udp, ports: '80', servers: [{address: '2001:db8:a::1', port: 8080}, {address: '2001:db8:a::2', port: 8080}]}
  - {name: dns, address: 198.51.100.7, protocol: udp, ports: '53', servers: [{address: 10.0.0.1}, {address: 10.0.0.2}]}
  - {name: near, address: 198.51.100.8, protocol: udp, ports: '53', forward: direct, servers: [{address: 10.0.0.1, mac: '02:00:00:00:00:51'}]}
";

/// Cuts an IPv4 datagram behind so many bytes of its payload.
fn cut(frame: &[u8], at: usize) -> (Vec<u8>, Vec<u8>) {
    let piece = |from: usize, to: usize, field: u16| {
        let mut piece = frame[..34].to_vec();
        piece.extend(&frame[34 + from..34 + to]);
        piece[16..18].copy_from_slice(&((20 + to - from) as u16).to_be_bytes());
        piece[20..22].copy_from_slice(&field.to_be_bytes());
        seal(&mut piece);
        piece
    };
    let length = frame.len() - 34;
    (piece(0, at, 0x2000), piece(at, length, (at / 8) as u16))
}

/// The same of IPv6.
fn cut6(frame: &[u8], at: usize) -> (Vec<u8>, Vec<u8>) {
    let piece = |from: usize, to: usize, more: u8| {
        let mut piece = frame[..54].to_vec();
        piece[20] = 44;
        piece[18..20].copy_from_slice(&((8 + to - from) as u16).to_be_bytes());
        let offset = (from as u16).to_be_bytes();
        piece.extend([frame[20], 0, offset[0], offset[1] | more, 0, 0, 0, 7]);
        piece.extend(&frame[54 + from..54 + to]);
        piece
    };
    let length = frame.len() - 54;
    (piece(0, at, 1), piece(at, length, 0))
}

fn destination(frame: &[u8]) -> String {
    dissect(frame).expect("good").network.expect("IP").destination.to_string()
}

fn source(frame: &[u8]) -> String {
    dissect(frame).expect("good").network.expect("IP").source.to_string()
}

#[test]
fn later_fragments_follow_the_first_one() {
    let mut bench = Bench::new(SERVICES);
    for (service, server) in [(end(VIP, 53), None), (end("198.51.100.8", 53), Some("198.51.100.8"))] {
        let (first, later) = cut(&datagram(&client(1), &service, 100), 48);
        let (verdict, bytes) = bench.show(0, first);
        assert_eq!(verdict, TO_SERVER);
        let expected = server.map_or_else(|| destination(&bytes), str::to_owned);
        let (verdict, after) = bench.show(0, later.clone());
        assert_eq!((verdict, destination(&after)), (TO_SERVER, expected));
        assert_eq!(after[34..], later[34..]);
        assert_eq!(after[..12], bytes[..12]);
    }
    // Both put together have a right checksum.
    let (first, later) = cut(&datagram(&client(2), &end(VIP, 53), 100), 48);
    let (first, later) = (bench.show(0, first).1, bench.show(0, later).1);
    let mut whole = first.clone();
    whole.extend(&later[34..]);
    let length = (whole.len() - 14) as u16;
    whole[16..18].copy_from_slice(&length.to_be_bytes());
    whole[20..22].fill(0);
    whole[24..26].fill(0);
    let sum = checksum::of(&whole[14..34]);
    whole[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_sound(&whole);
}

#[test]
fn fragments_of_ipv6_follow_too_and_answers_have_the_virtual_address() {
    let mut bench = Bench::new(SERVICES);
    let from = end("2001:db8:c::9", 4000);
    let (first, later) = cut6(&datagram(&from, &end(VIP6, 80), 100), 48);
    let (_, bytes) = bench.show(0, first);
    let server = destination(&bytes);
    let (verdict, after) = bench.show(0, later);
    assert_eq!((verdict, destination(&after)), (TO_SERVER, server.clone()));
    let (first, later) = cut6(&datagram(&end(&server, 8080), &from, 100), 48);
    for piece in [first, later] {
        let (verdict, after) = bench.show(1, piece);
        assert_eq!((verdict, source(&after)), (TO_CLIENT, VIP6.to_owned()));
    }
}

#[test]
fn a_later_fragment_waits_for_its_first_one() {
    let mut bench = Bench::new(SERVICES);
    let (first, later) = cut(&datagram(&client(1), &end(VIP, 53), 100), 48);
    let (verdict, _) = bench.show(0, later.clone());
    assert!(matches!(verdict, Verdict::Hold(_)));
    let (_, bytes) = bench.show(0, first);
    let emitted = bench.runner.host().emitted();
    assert_eq!(emitted[0].verdict, TO_SERVER);
    assert_eq!(destination(emitted[0].bytes.as_ref().expect("its own")), destination(&bytes));
    // One whose first one does not come is dropped when its time is over.
    let (_, lost) = cut(&datagram(&end("192.0.2.2", 7), &end(VIP, 53), 100), 48);
    assert!(matches!(bench.show(0, lost).0, Verdict::Hold(_)));
    bench.wait(0.9);
    assert_eq!(bench.runner.host().emitted().last().expect("one").verdict, drop(Reason::Fragment));
    assert_eq!(bench.runner.host().held(), 0);
    // One that overlaps the first is none of the datagram.
    let (first, _) = cut(&datagram(&end("192.0.2.3", 7), &end(VIP, 53), 100), 48);
    bench.show(0, first);
    let (_, early) = cut(&datagram(&end("192.0.2.3", 7), &end(VIP, 53), 100), 40);
    assert_eq!(bench.client(early), drop(Reason::Fragment));
    assert_eq!(bench.counted(), 5);
}

#[test]
fn later_fragments_follow_for_as_long_as_is_configured() {
    for (said, seconds) in [("", 5.0), ("fragment_timeout: 30s\n", 30.0)] {
        let follows = |after: f64| {
            let mut bench = Bench::new(&format!("{SERVICES}{said}"));
            let (first, later) = cut(&datagram(&client(1), &end(VIP, 53), 100), 48);
            assert_eq!(bench.show(0, first).0, TO_SERVER);
            bench.wait(after);
            bench.show(0, later).0 == TO_SERVER
        };
        assert!(follows(seconds - 2.0) && !follows(seconds + 2.0), "{said}");
    }
}

/// An ICMP error about a frame, from a router.
fn error(router: &str, to: &str, frame: &[u8], kind: u8) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, 0, 0, 5, 0];
    message.extend(&frame[14..(14 + 60).min(frame.len())]);
    packet(router, to, if router.contains(':') { 58 } else { 1 }, &message)
}

/// Source and destination of the packet that an error carries, with ports.
fn carried(frame: &[u8]) -> (End, End) {
    let at = if frame[14] >> 4 == 4 { 14 + 28 } else { 14 + 48 };
    let mut inner = frame[..14].to_vec();
    inner.extend(&frame[at..]);
    // It is cut: its length is what is there.
    ends_of_cut(inner)
}

fn ends_of_cut(mut inner: Vec<u8>) -> (End, End) {
    let length = inner.len() - 14;
    if inner[14] >> 4 == 4 {
        inner[16..18].copy_from_slice(&(length as u16).to_be_bytes());
    } else {
        inner[18..20].copy_from_slice(&((length - 40) as u16).to_be_bytes());
    }
    ends(&inner)
}

#[test]
fn errors_about_answers_reach_the_server_that_sent_them() {
    let mut bench = Bench::new(SERVICES);
    for number in 0..20 {
        let (from, service) = (client(number), end(VIP, 80));
        let server = bench.connect(&from, &service);
        let (verdict, bytes) = bench.show(0, error("203.0.113.1", VIP, &tcp(&service, &from, ACK), 3));
        assert_eq!((verdict, destination(&bytes)), (TO_SERVER, server.0.clone()));
        assert_eq!(source(&bytes), "203.0.113.1");
        assert_eq!(carried(&bytes), (server, from));
    }
    let (from, service) = (end("2001:db8:c::9", 4000), end(VIP6, 80));
    let server = bench.server(udp(&from, &service));
    let (verdict, bytes) = bench.show(0, error("2001:db8:e::1", VIP6, &udp(&service, &from), 2));
    assert_eq!((verdict, destination(&bytes)), (TO_SERVER, server.0.clone()));
    assert_eq!(carried(&bytes), (server, from));
}

#[test]
fn errors_about_clients_packets_come_from_the_virtual_address() {
    let mut bench = Bench::new(SERVICES);
    let (from, service) = (client(1), end(VIP, 80));
    let server = bench.connect(&from, &service);
    for router in ["10.0.0.254", server.0.as_str()] {
        let (verdict, bytes) = bench.show(1, error(router, &from.0, &tcp(&from, &server, ACK), 3));
        assert_eq!((verdict, source(&bytes)), (TO_CLIENT, VIP.to_owned()));
        assert_eq!(carried(&bytes), (from.clone(), service.clone()));
    }
    let (from, service) = (end("2001:db8:c::9", 4000), end(VIP6, 80));
    let server = bench.server(udp(&from, &service));
    let (verdict, bytes) = bench.show(1, error(&server.0, &from.0, &udp(&from, &server), 1));
    assert_eq!((verdict, source(&bytes)), (TO_CLIENT, VIP6.to_owned()));
    assert_eq!(carried(&bytes), (from, service));
}

#[test]
fn errors_about_nothing_and_forged_ones_go_nowhere() {
    let mut bench = Bench::new(SERVICES);
    let (from, service) = (client(1), end(VIP, 80));
    bench.connect(&from, &service);
    let about = |frame: &[u8]| error("203.0.113.1", VIP, frame, 3);
    // About another address, another port, a protocol without ports; with a wrong checksum.
    let other = tcp(&end("192.0.2.5", 80), &from, ACK);
    assert_eq!(bench.client(about(&other)), drop(Reason::NoConnection));
    assert_eq!(bench.client(about(&tcp(&end(VIP, 82), &from, ACK))), drop(Reason::NoConnection));
    assert_eq!(bench.client(about(&packet(VIP, &from.0, 47, &[0; 20]))), drop(Reason::NoConnection));
    let mut wrong = about(&tcp(&service, &from, ACK));
    wrong[40] ^= 1;
    assert_eq!(bench.client(wrong), drop(Reason::Malformed));
    // An error refreshes nothing, and ends nothing.
    bench.wait(899.0);
    bench.client(about(&tcp(&service, &from, ACK)));
    bench.wait(20.0);
    assert_eq!(bench.report()["connections"]["now"], 0);
}

proptest! {
    /// What comes out is sound, whatever fragment goes first, in one batch or two.
    #[test]
    fn fragments_in_any_order(order in any::<bool>(), batch in 1usize..3, at in 1usize..12, length in 100usize..400) {
        let mut bench = Bench::new(SERVICES);
        let (first, later) = cut(&datagram(&client(1), &end(VIP, 53), length), at * 8);
        let pieces = if order { [first, later] } else { [later, first] };
        let mut onward = 0;
        for packets in pieces.map(|piece| TestPacket::new(piece, 0)).chunks(batch) {
            let out = bench.runner.run(packets, at_start());
            onward += out.iter().filter(|one| one.verdict == Some(TO_SERVER)).count();
        }
        prop_assert_eq!(bench.counted(), 2);
        let host = bench.runner.host();
        prop_assert_eq!(host.held(), 0);
        onward += host.emitted().iter().filter(|one| one.verdict == TO_SERVER).count();
        prop_assert_eq!(onward, 2);
    }
}

fn at_start() -> Nanos {
    at(0.0)
}
