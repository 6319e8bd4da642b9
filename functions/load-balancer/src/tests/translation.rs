//! Translation both ways, direct server return, and what is for no service.

use super::*;
use flags::{ACK, SYN};
use nf_sdk::PacketRecord;
use nf_sdk::offload;
use proptest::prelude::*;

const BOTH: &str = "
services:
  - {name: web, address: 198.51.100.7, protocol: tcp, ports: '80', servers: [{address: 10.0.0.1, port: 8080}, {address: 10.0.0.2}]}
  - {name: six, address: '2001:db8:f::7', protocol: tcp, ports: '80', servers: [{address: '2001:db8:a::1', port: 8080}]}
  - {name: dns, address: 198.51.100.7, protocol: udp, ports: 50-59, servers: [{address: 10.0.0.1}]}
  - {name: near, address: 198.51.100.8, protocol: tcp, ports: '80', forward: direct, servers: [{address: 10.0.0.1, mac: '02:00:00:00:00:51'}]}
";

proptest! {
    #[test]
    fn both_ends_see_a_connection_of_their_own(number in 0u32..1000, six in any::<bool>(), times in 1usize..4) {
        let mut bench = Bench::new(BOTH);
        let (from, service) = match six {
            true => (end("2001:db8:c::9", 1000 + number as u16), end(VIP6, 80)),
            false => (client(number), end(VIP, 80)),
        };
        let server = bench.connect(&from, &service);
        let theirs = match (six, server.0.as_str()) {
            (true, _) => end("2001:db8:a::1", 8080),
            (false, "10.0.0.1") => end("10.0.0.1", 8080),
            _ => end("10.0.0.2", 80),
        };
        prop_assert_eq!(&server, &theirs);
        // The slow packet, and the usual one.
        for _ in 0..times {
            let (verdict, bytes) = bench.show(0, tcp(&from, &service, ACK));
            prop_assert_eq!((verdict, ends(&bytes)), (TO_SERVER, (from.clone(), theirs.clone())));
            let (verdict, bytes) = bench.show(1, tcp(&theirs, &from, ACK));
            prop_assert_eq!((verdict, ends(&bytes)), (TO_CLIENT, (service.clone(), from.clone())));
            // Ethernet addresses stay without a device.
            prop_assert_eq!(&bytes[..12], &tcp(&theirs, &from, ACK)[..12]);
        }
        prop_assert_eq!(bench.report()["connections"]["half_open"].as_u64(), Some(0));
    }

    /// A wrong checksum stays wrong by as much: what the balancer did not see it does not mend.
    #[test]
    fn wrong_checksums_stay_wrong(number in 0u32..100, wrong in 1u16..0xffff) {
        let mut bench = Bench::new(BOTH);
        let service = end(VIP, 80);
        let server = bench.connect(&client(number), &service);
        for flags in [ACK, ACK | flags::FIN] {
            let mut frame = tcp(&client(number), &service, flags);
            let sum = u16::from_be_bytes([frame[50], frame[51]]);
            frame[50..52].copy_from_slice(&(sum ^ wrong).to_be_bytes());
            let (_, right) = (0, tcp(&client(number), &server, flags));
            let out = bench.runner.run(&[TestPacket::new(frame, 0)], at(0.0)).remove(0);
            prop_assert!(out.bytes.expect("an extent")[50..52] != right[50..52]);
        }
    }
}

#[test]
fn ports_of_a_range_stay() {
    let mut bench = Bench::new(BOTH);
    for port in 50..60 {
        assert_eq!(bench.server(udp(&client(1), &end(VIP, port))), end("10.0.0.1", port));
        assert_eq!(bench.answer(udp(&end("10.0.0.1", port), &client(1))), end(VIP, port));
    }
    assert_eq!(bench.event("connections-opened"), 10);
    assert_eq!(bench.client(udp(&client(1), &end(VIP, 60))), drop(Reason::NoService));
}

#[test]
fn a_partial_checksum_stays_one() {
    let mut bench = Bench::new(BOTH);
    let service = end(VIP, 80);
    let server = bench.connect(&client(1), &service);
    for flags in [ACK, ACK | flags::FIN] {
        let mut frame = tcp(&client(1), &service, flags);
        let partial = |frame: &[u8]| {
            let network = dissect(frame).expect("good").network.expect("IP");
            let ends = Endpoints::new(network.source, network.destination).expect("one family");
            // The sum of the pseudo header alone, with the length of the whole segment.
            let empty = vec![0; network.end - network.l4_offset];
            ends.sum(6, &empty).folded().to_be_bytes()
        };
        let sum = partial(&frame);
        frame[50..52].copy_from_slice(&sum);
        let record = PacketRecord {
            offload_flags: offload::NEEDS_CHECKSUM,
            csum_start: 34,
            csum_offset: 16,
            ..PacketRecord::default()
        };
        let out = bench.runner.run(&[TestPacket { bytes: frame, record }], at(0.0)).remove(0);
        let bytes = out.bytes.expect("an extent");
        assert_eq!(bytes[50..52], partial(&tcp(&client(1), &server, flags)));
    }
}

#[test]
fn udp_without_a_checksum_stays_without() {
    let mut bench = Bench::new(BOTH);
    for _ in 0..2 {
        let mut frame = udp(&client(1), &end(VIP, 53));
        frame[40..42].fill(0);
        let (verdict, bytes) = bench.show(0, frame);
        assert_eq!((verdict, &bytes[40..42]), (TO_SERVER, &[0, 0][..]));
        bench.answer(udp(&end("10.0.0.1", 53), &client(1)));
    }
}

#[test]
fn direct_server_return_writes_the_ethernet_address_alone() {
    let mut bench = Bench::new(BOTH);
    let service = end("198.51.100.8", 80);
    for flags in [SYN, ACK, ACK, ACK | flags::FIN] {
        let frame = tcp(&client(1), &service, flags);
        let (verdict, bytes) = bench.show(0, frame.clone());
        assert_eq!(verdict, TO_SERVER);
        assert_eq!(bytes[..6], [2, 0, 0, 0, 0, 0x51]);
        assert_eq!(bytes[6..12], frame[..6]);
        assert_eq!(bytes[12..], frame[12..]);
    }
    // The client's second packet stands for the server's answer.
    assert_eq!(bench.report()["connections"]["half_open"], 0);
    // Answers do not pass; if they do, they are as they are.
    assert_eq!(bench.answer(tcp(&service, &client(1), ACK)), service);
    assert_eq!(bench.report()["packets"]["passed"], 1);
}

#[test]
fn what_is_for_no_service_passes_or_is_dropped() {
    let mut bench = Bench::new(BOTH);
    let arp = vec![0xff; 12].into_iter().chain([8, 6, 0, 1]).chain([0; 44]).collect::<Vec<u8>>();
    for (ingress, frame) in [
        (0, arp.clone()),
        (1, arp),
        (0, tcp(&client(1), &end("10.0.0.1", 8080), ACK)),
        (1, tcp(&end("10.0.0.1", 22), &client(1), ACK)),
        (1, tcp(&end("10.0.0.9", 8080), &client(1), ACK)),
        (0, nf_sdk::native::frames::tagged(&tcp(&client(1), &end(VIP, 80), SYN), &[7])),
    ] {
        let (verdict, bytes) = bench.show(ingress, frame.clone());
        assert_eq!((verdict, bytes), (Verdict::Interface(1 - ingress), frame));
    }
    assert_eq!(bench.client(tcp(&client(1), &end(VIP, 81), SYN)), drop(Reason::NoService));
    assert_eq!(bench.client(packet("192.0.2.1", VIP, 47, &[0; 8])), drop(Reason::NoService));
    assert_eq!(bench.client(vec![2; 13]), drop(Reason::Malformed));
    assert_eq!(bench.counted(), 9);
    let mut strict = Bench::new(&format!("{BOTH}unmatched: drop\n"));
    assert_eq!(strict.client(tcp(&client(1), &end("10.0.0.1", 8080), ACK)), drop(Reason::Other));
    assert_eq!(strict.show(1, tcp(&end("10.0.0.1", 22), &client(1), ACK)).0, drop(Reason::Other));
}

#[test]
fn a_service_without_servers_takes_nothing() {
    let mut bench = Bench::new(&web(0, ""));
    assert_eq!(bench.client(tcp(&client(1), &end(VIP, 80), SYN)), drop(Reason::NoServer));
    assert_eq!(bench.client(tcp(&client(1), &end(VIP, 80), ACK)), drop(Reason::NoServer));
}
