//! What packets count for.

use super::{at, function, packet, report, tagged, udp};
use crate::length::Counting;
use nf_sdk::native::TestPacket;
use nf_sdk::offload::{GSO_ECN, GSO_TCPV4, GSO_TCPV6, GSO_UDP, GSO_UDP_L4};
use nf_sdk::{Nanos, PacketRecord};
use std::format;
use std::vec;
use std::vec::Vec;

/// TCP with `options` bytes of options and `data` bytes.
fn tcp(source: &str, destination: &str, options: usize, data: usize) -> Vec<u8> {
    let mut payload = vec![0; 20 + options + data];
    payload[12] = ((20 + options) * 4) as u8;
    packet(source, destination, 6, &payload)
}

const V4: (&str, &str) = ("10.0.0.1", "10.0.0.2");
const V6: (&str, &str) = ("2001:db8::1", "2001:db8::2");

#[test]
fn segments_count_with_their_headers() {
    let frame = Counting { ip: false, overhead: 0 };
    let ip = Counting { ip: true, overhead: 0 };
    let wire = Counting { ip: false, overhead: 24 };
    let big = tcp(V4.0, V4.1, 12, 60_000);
    // 41 segments of 1,448 bytes and one of 632, 66 bytes of headers each.
    assert_eq!(frame.segmented(&big, GSO_TCPV4, 1448), (60_000 + 42 * 66, 42));
    assert_eq!(ip.segmented(&big, GSO_TCPV4 | GSO_ECN, 1448), (60_000 + 42 * 52, 42));
    assert_eq!(wire.segmented(&big, GSO_TCPV4, 1448), (60_000 + 42 * 90, 42));
    let tag = tagged(&big, &[5]);
    assert_eq!(frame.segmented(&tag, GSO_TCPV4, 1448), (60_000 + 42 * 70, 42));
    let six = tcp(V6.0, V6.1, 0, 3_000);
    assert_eq!(frame.segmented(&six, GSO_TCPV6, 1_000), (3_000 + 3 * 74, 3));
    assert_eq!(frame.segmented(&six, GSO_TCPV6, 1_001), (3_000 + 3 * 74, 3));
    assert_eq!(frame.segmented(&six, GSO_TCPV6, 999), (3_000 + 4 * 74, 4));
    // Datagrams of their own, and fragments of one: the UDP header is then in the first alone.
    let datagrams = udp(V4.0, [1, 2], V4.1, 42 + 2_500);
    assert_eq!(frame.segmented(&datagrams, GSO_UDP_L4, 1_000), (2_500 + 3 * 42, 3));
    assert_eq!(frame.segmented(&datagrams, GSO_UDP, 1_480), (2_508 + 2 * 34, 2));
    let fragments = udp(V6.0, [1, 2], V6.1, 62 + 2_500);
    assert_eq!(frame.segmented(&fragments, GSO_UDP, 1_448), (2_508 + 2 * 62, 2));
    assert_eq!(wire.segmented(&fragments, GSO_UDP, 1_448), (2_508 + 2 * 86, 2));
}

#[test]
fn what_cannot_be_segmented_counts_once() {
    let frame = Counting { ip: false, overhead: 4 };
    for (bytes, kind) in [
        (vec![0; 9], GSO_TCPV4),
        (packet(V4.0, V4.1, 1, &[0; 2_000]), GSO_TCPV4),
        (tcp(V4.0, V4.1, 0, 50)[..40].to_vec(), GSO_TCPV4),
        (tcp(V4.0, V4.1, 0, 50), GSO_TCPV4),
        (udp(V4.0, [1, 2], V4.1, 60), GSO_UDP_L4),
    ] {
        assert_eq!(frame.segmented(&bytes, kind, 1_000), (bytes.len() as u32 + 4, 1), "{bytes:x?}");
    }
    // One byte a segment is the worst that there is.
    let big = tcp(V4.0, V4.1, 0, 65_000);
    assert_eq!(frame.segmented(&big, GSO_TCPV4, 1), (65_000 * 59, 65_000));
}

#[test]
fn padding_and_link_headers_count_as_configured() {
    let short = {
        let mut frame = udp(V4.0, [1, 2], V4.1, 46);
        frame.resize(60, 0);
        frame
    };
    let long = udp(V6.0, [1, 2], V6.1, 500);
    for (count, overhead, wanted) in [("frame", 24, 84 + 524 + 528), ("ip", 0, 32 + 486 + 486)] {
        let mut runner = function(&format!(
            "{{count: {count}, overhead: {overhead}, policers: [{{rate: 1Gbps, packet_rate: 1Mpps}}]}}"
        ));
        let frames = [short.clone(), long.clone(), tagged(&long, &[3])];
        runner.run(&frames.map(|frame| TestPacket::new(frame, 0)), at(0));
        assert_eq!(report(&runner)["policers"][0]["conform"]["bytes"], wanted);
    }
}

#[test]
fn a_large_packet_takes_what_its_segments_would() {
    let mut runner = function("policers: [{packet_rate: 10pps, packet_burst: 45}]");
    let record = PacketRecord { gso_type: GSO_TCPV4, gso_size: 1448, ..PacketRecord::default() };
    let big = TestPacket { bytes: tcp(V4.0, V4.1, 12, 60_000), record };
    let verdicts = |runner: &mut nf_sdk::native::Runner<crate::Policers>, now: Nanos| {
        runner.run(std::slice::from_ref(&big), now)[0].verdict.expect("a verdict")
    };
    assert_eq!(verdicts(&mut runner, at(0)), super::PASS);
    // Three are left, and it takes 3.9 s for 39 more.
    assert_eq!(verdicts(&mut runner, at(3_899_999_999)), super::EXCEEDED);
    assert_eq!(verdicts(&mut runner, at(3_900_000_000)), super::PASS);
    let exceed = &report(&runner)["policers"][0]["exceed"];
    assert_eq!((exceed["packets"].as_u64(), exceed["bytes"].as_u64()), (Some(1), Some(60_000 + 42 * 66)));
}

/// What a capture left out was on the wire, and is metered: of the frame, or of what the IP packet tells of
/// it.
#[test]
fn a_snapped_packet_counts_as_it_was_on_the_wire() {
    for (count, padding, wanted) in [("frame", 0, 1042), ("ip", 0, 1028), ("frame", 9, 1051), ("ip", 9, 1028)]
    {
        for (source, destination) in [V4, V6] {
            let wanted = wanted + if source.contains(':') { 20 } else { 0 };
            let mut runner = function(&format!("count: {count}\npolicers: [{{rate: 1Mbps}}]"));
            let mut frame = packet(source, destination, 17, &[0; 1008]);
            frame.extend(vec![0; padding]);
            for kept in [frame.len(), frame.len() - 1, 100, 62] {
                let record =
                    PacketRecord { gso_size: (frame.len() - kept) as u16, ..PacketRecord::default() };
                runner.run(&[TestPacket { bytes: frame[..kept].to_vec(), record }], at(0));
            }
            assert_eq!(report(&runner)["policers"][0]["conform"]["bytes"], 4 * wanted, "{count} {source}");
        }
    }
}
