//! What is forwarded, how, and what is dropped for which reason.

use super::{LINKS, ask, at, changed, configure, counted, drop, hops, packet, report, router, udp, verdict};
use crate::Router;
use crate::header::{common4, forward4, mac_word};
use crate::hops::Way;
use crate::metrics::Reason;
use nf_sdk::native::frames::{seal, tagged};
use nf_sdk::native::{Runner, TestPacket};
use nf_sdk::{PacketRecord, Verdict};
use packet::{checksum, dissect};
use proptest::prelude::*;
use std::format;
use std::vec;
use std::vec::Vec;

const ROUTES: &str = "
routes:
  - {to: 10.0.0.0/8, via: 198.51.100.2}
  - {to: 10.9.0.0/16, via: 198.51.100.3}
  - {to: 10.9.9.0/24, action: blackhole}
  - {to: 10.9.9.9/32, action: reject}
  - {to: 10.66.0.0/16, via: 198.51.100.66}
  - {to: '2001:db8:5::/48', via: '2001:db8:b::2'}
  - {to: '2001:db8:5:5::/64', action: blackhole}
";

#[test]
fn a_packet_has_new_addresses_and_one_hop_less() {
    let mut runner = router(ROUTES);
    for (from, to, mac) in [
        ("192.0.2.9", "10.1.2.3", 0xb2),
        ("192.0.2.9", "10.9.2.3", 0xb3),
        ("192.0.2.9", "198.51.100.3", 0xb3),
        ("2001:db8:a::9", "2001:db8:5::7", 0xb6),
        ("2001:db8:a::9", "2001:db8:b::2", 0xb6),
    ] {
        let frame = udp(from, to, 30);
        let out = ask(&mut runner, &frame, at(0));
        assert_eq!(out.verdict, Some(Verdict::Interface(1)), "{to}");
        let mut expected = hops(frame, 63);
        expected[..12].copy_from_slice(&[2, 0, 0, 0, 0, mac, 2, 0, 0, 0, 0, 0x0b]);
        assert_eq!(out.bytes, Some(expected), "{to}");
    }
    assert_eq!(counted(&runner, "forwarded"), 5);
    assert_eq!(report(&runner)["packets"]["forwarded"], 5);
}

#[test]
fn every_other_packet_is_dropped_for_its_reason() {
    let good = udp("192.0.2.9", "10.1.2.3", 30);
    let six = udp("2001:db8:a::9", "2001:db8:5::7", 30);
    let mut checksum = good.clone();
    checksum[24] ^= 1;
    let mut elsewhere = good.clone();
    elsewhere[5] = 77;
    let mut broadcast = good.clone();
    broadcast[..6].fill(0xff);
    let mut group = udp("192.0.2.9", "239.1.1.1", 30);
    group[..6].copy_from_slice(&[1, 0, 0x5e, 1, 1, 1]);
    // A loose source route by one router.
    let mut source_routed = good.clone();
    source_routed.splice(34..34, [131, 7, 4, 10, 9, 9, 9, 0]);
    source_routed[14] = 0x47;
    source_routed[17] += 8;
    seal(&mut source_routed);
    let mut other = good.clone();
    other[12..14].copy_from_slice(&[0x88, 0xcc]);
    for (frame, reason) in [
        (good[..20].to_vec(), Reason::Malformed),
        (changed(good.clone(), 14, 0x44), Reason::Malformed),
        (good[..60].to_vec(), Reason::Malformed),
        (six[..70].to_vec(), Reason::Malformed),
        (other, Reason::NotIp),
        (tagged(&good, &[7]), Reason::NotIp),
        (elsewhere, Reason::NotForRouter),
        (checksum, Reason::BadChecksum),
        (udp("127.0.0.1", "10.1.2.3", 30), Reason::MartianSource),
        (udp("0.0.0.0", "10.1.2.3", 30), Reason::MartianSource),
        (udp("240.0.0.1", "10.1.2.3", 30), Reason::MartianSource),
        (udp("::1", "2001:db8:5::7", 30), Reason::MartianSource),
        (udp("::", "2001:db8:5::7", 30), Reason::MartianSource),
        (udp("ff02::1", "2001:db8:5::7", 30), Reason::MartianSource),
        (udp("fe80::9", "2001:db8:5::7", 30), Reason::MartianSource),
        (udp("192.0.2.9", "127.0.0.1", 30), Reason::MartianDestination),
        (udp("192.0.2.9", "0.1.2.3", 30), Reason::MartianDestination),
        (udp("192.0.2.9", "255.255.255.255", 30), Reason::MartianDestination),
        (udp("2001:db8:a::9", "fe80::7", 30), Reason::MartianDestination),
        (udp("192.0.2.9", "224.1.2.3", 30), Reason::Multicast),
        (udp("2001:db8:a::9", "ff0e::7", 30), Reason::Multicast),
        (group, Reason::Multicast),
        (broadcast, Reason::Broadcast),
        (udp("192.0.2.9", "198.51.100.255", 30), Reason::Broadcast),
        (source_routed, Reason::SourceRouted),
        (hops(good.clone(), 1), Reason::HopsExceeded),
        (hops(good.clone(), 0), Reason::HopsExceeded),
        (hops(six.clone(), 1), Reason::HopsExceeded),
        (udp("192.0.2.9", "203.0.113.1", 30), Reason::NoRoute),
        (udp("2001:db8:a::9", "2001:db8:77::7", 30), Reason::NoRoute),
        (udp("192.0.2.9", "10.9.9.1", 30), Reason::Blackhole),
        (udp("2001:db8:a::9", "2001:db8:5:5::7", 30), Reason::Blackhole),
        (udp("192.0.2.9", "10.9.9.9", 30), Reason::Rejected),
        (udp("2001:db8:a::9", "2001:db8:5::7", 1400), Reason::TooBig),
        (udp("192.0.2.9", "10.66.9.9", 30), Reason::NoNeighbour),
        (udp("192.0.2.9", "198.51.100.77", 30), Reason::NoNeighbour),
        (udp("192.0.2.9", "192.0.2.1", 30), Reason::ForRouter),
        (udp("192.0.2.9", "198.51.100.1", 30), Reason::ForRouter),
        (udp("2001:db8:a::9", "2001:db8:b::1", 30), Reason::ForRouter),
    ] {
        let mut runner = router(ROUTES);
        assert_eq!(verdict(&mut runner, &frame), drop(reason), "{frame:02x?}");
        assert_eq!(runner.host().counter(reason.counter() as u32), 1, "{reason:?}");
    }
}

#[test]
fn what_comes_by_an_interface_that_is_not_configured_is_not_for_the_router() {
    let mut runner = router(ROUTES);
    for ingress in [2, 7, 8, 65_535] {
        let out = runner.run(&[TestPacket::new(udp("192.0.2.9", "10.1.2.3", 30), ingress)], at(0));
        assert_eq!(out[0].verdict, Some(drop(Reason::NotForRouter)), "{ingress}");
    }
}

#[test]
fn a_packet_to_be_segmented_is_measured_by_its_segments() {
    let mut segment = vec![0; 20];
    segment[12] = 0x50;
    segment.extend([7; 4000]);
    for (gso_size, expected) in [(1360, Verdict::Interface(1)), (1361, drop(Reason::TooBig))] {
        let mut runner = router(ROUTES);
        let bytes = changed(packet("192.0.2.9", "10.1.2.3", 6, &segment), 20, 0x40);
        let record = PacketRecord { gso_type: 1, gso_size, ..PacketRecord::default() };
        let out = runner.run(&[TestPacket { bytes, record }], at(0));
        assert_eq!(out[0].verdict, Some(expected), "{gso_size}");
    }
}

#[test]
fn fragments_make_the_datagram_again() {
    for (payload, count) in [(1373, 2), (2744, 2), (2745, 3), (5000, 4)] {
        let mut runner = router(ROUTES);
        let frame = udp("192.0.2.9", "10.1.2.3", payload);
        assert_eq!(verdict(&mut runner, &frame), Verdict::Consume, "{payload}");
        let mut whole = Vec::new();
        let emitted = runner.host().emitted();
        assert_eq!(emitted.len(), count, "{payload}");
        for (number, one) in emitted.iter().enumerate() {
            assert_eq!(one.verdict, Verdict::Interface(1));
            let bytes = one.bytes.as_deref().expect("its own");
            assert_eq!(bytes[..12], [2, 0, 0, 0, 0, 0xb2, 2, 0, 0, 0, 0, 0x0b]);
            let header = packet::ipv4::View::new(&bytes[14..]).expect("a header");
            assert!(header.verify_checksum() && usize::from(header.total_length()) == bytes.len() - 14);
            assert!(bytes.len() <= 1414);
            assert_eq!((header.ttl(), header.identification()), (63, 7));
            assert_eq!(usize::from(header.fragment_offset()), whole.len());
            assert_eq!(header.more_fragments(), number + 1 < count);
            whole.extend_from_slice(header.payload());
        }
        assert_eq!(whole, frame[34..]);
        assert_eq!((counted(&runner, "fragmented"), counted(&runner, "fragments-made")), (1, count as u64));
    }
}

/// The first fragment has all options, further ones those that are copied (RFC 791, section 3.1).
#[test]
fn options_of_a_packet_go_with_its_fragments() {
    // Record route, which is not copied; router alert and a basic security label, which are.
    let options = [7, 7, 4, 0, 0, 0, 0, 1, 148, 4, 0, 0, 130, 3, 9, 0];
    let mut frame = packet("192.0.2.9", "10.1.2.3", 17, &[5; 3000]);
    frame.splice(34..34, options);
    frame[14] = 0x40 | ((20 + options.len() as u8) / 4);
    let total = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame[24..26].fill(0);
    let sum = checksum::of(&frame[14..34 + options.len()]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let mut runner = router(ROUTES);
    assert_eq!(verdict(&mut runner, &frame), Verdict::Consume);
    let mut whole = Vec::new();
    let emitted = runner.host().emitted();
    assert_eq!(emitted.len(), 3);
    for (number, one) in emitted.iter().enumerate() {
        let bytes = one.bytes.as_deref().expect("its own");
        let header = packet::ipv4::View::new(&bytes[14..]).expect("a header");
        assert!(header.verify_checksum() && bytes.len() <= 1414, "{number}");
        assert_eq!((header.ttl(), usize::from(header.fragment_offset())), (63, whole.len()));
        let expected: &[u8] = if number == 0 { &options } else { &[148, 4, 0, 0, 130, 3, 9, 0] };
        assert_eq!(header.options_bytes(), expected, "{number}");
        whole.extend_from_slice(header.payload());
    }
    assert!(whole == frame[50..], "the payload");
    assert_eq!((counted(&runner, "fragmented"), counted(&runner, "too-big")), (1, 0));
}

#[test]
fn a_fragment_is_cut_at_its_own_place() {
    let mut runner = router(ROUTES);
    // The middle of a larger datagram: at 800 bytes, more follow.
    let mut frame = packet("192.0.2.9", "10.1.2.3", 17, &[5; 2000]);
    frame[20..22].copy_from_slice(&(0x2000u16 | 100).to_be_bytes());
    seal(&mut frame);
    assert_eq!(verdict(&mut runner, &frame), Verdict::Consume);
    let places: Vec<u16> = runner
        .host()
        .emitted()
        .iter()
        .map(|one| one.bytes.as_deref().map_or(0, |bytes| u16::from_be_bytes([bytes[20], bytes[21]])))
        .collect();
    assert_eq!(places, [0x2000 | 100, 0x2000 | (100 + 1376 / 8)]);
}

#[test]
fn a_fragment_beyond_the_end_of_a_datagram_is_not_cut() {
    // The second piece would be at 65,536 bytes, which the field says as 0, with the flag that more follow.
    let last = 0x2000 - 1376 / 8;
    for (place, length, expected) in [
        (last, 2000, drop(Reason::Malformed)),
        (0x1fff, 1400, drop(Reason::Malformed)),
        (8189 - 176, 1412, drop(Reason::Malformed)),
        (8189 - 176, 1411, Verdict::Consume),
    ] {
        let mut runner = router(ROUTES);
        let mut frame = packet("192.0.2.9", "10.1.2.3", 17, &vec![5; length]);
        frame[20..22].copy_from_slice(&u16::to_be_bytes(place));
        seal(&mut frame);
        assert_eq!(verdict(&mut runner, &frame), expected, "{place} {length}");
        for one in runner.host().emitted() {
            let bytes = one.bytes.as_deref().expect("its own");
            assert!(u16::from_be_bytes([bytes[20], bytes[21]]) & 0x1fff >= place, "{place} {length}");
        }
    }
}

#[test]
fn without_room_for_all_fragments_none_goes() {
    let mut runner = router(ROUTES);
    runner.refuse_packets(true);
    assert_eq!(verdict(&mut runner, &udp("192.0.2.9", "10.1.2.3", 3000)), drop(Reason::NoRoom));
    assert_eq!(runner.host().emitted(), []);
}

#[test]
fn a_partial_checksum_is_completed_before_the_packet_is_cut() {
    let mut runner = router(ROUTES);
    let whole = udp("192.0.2.9", "10.1.2.3", 3000);
    let mut partial = whole.clone();
    let network = dissect(&whole).expect("sound").network.expect("IP");
    let pseudo = checksum::Sum::ZERO
        .add_pseudo_v4("192.0.2.9".parse().unwrap(), "10.1.2.3".parse().unwrap(), 17, 3008)
        .folded();
    partial[40..42].copy_from_slice(&pseudo.to_be_bytes());
    let record = PacketRecord { offload_flags: 1, csum_start: 34, csum_offset: 6, ..PacketRecord::default() };
    assert_eq!(network.l4_offset, 34);
    runner.run(&[TestPacket { bytes: partial, record }], at(0));
    let first = runner.host().emitted()[0].bytes.clone().expect("its own");
    assert_eq!(first[40..42], whole[40..42]);
}

proptest! {
    #[test]
    fn the_checksum_after_a_hop_is_that_of_the_new_header(
        tos: u8, identification: u16, ttl in 2u8.., protocol: u8, source: u32, destination: u32, fragment: u16,
    ) {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, tos, 0, 40];
        frame.extend(identification.to_be_bytes());
        frame.extend(fragment.to_be_bytes());
        frame.extend([ttl, protocol, 0, 0]);
        // Not a martian's.
        frame.extend((source & 0x3fff_ffff | 0x0100_0000).to_be_bytes());
        frame.extend(destination.to_be_bytes());
        frame.resize(60, 7);
        let sum = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        prop_assert_eq!(common4(&frame, mac_word([2, 0, 0, 0, 0, 1])), Some((destination, 40)));
        let way = Way { addresses: [9; 12], verdict: 0, mtu: 1500 };
        let mut forwarded = frame.clone();
        forward4(&mut forwarded, &way);
        frame[..12].fill(9);
        frame[22] -= 1;
        frame[24..26].fill(0);
        let sum = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        prop_assert_eq!(forwarded, frame);
    }
}

#[test]
fn every_checksum_follows_its_header() {
    // Each identification gives another checksum, so that all are there, with those whose sums carry over.
    let way = Way { addresses: [9; 12], verdict: 0, mtu: 1500 };
    let mut frame = udp("192.0.2.9", "10.1.2.3", 4);
    for identification in 0..=u16::MAX {
        frame[18..20].copy_from_slice(&identification.to_be_bytes());
        frame[22] = 64;
        frame[24..26].fill(0);
        let sum = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        forward4(&mut frame, &way);
        assert_eq!(frame[22], 63);
        assert!(checksum::verify(&frame[14..34]) && frame[24..26] != [0xff, 0xff], "{identification}");
    }
}

#[test]
fn a_large_table_is_looked_up_like_a_small_one() {
    // Enough for a flat table, of which 10.200.0.0/16 is a part.
    let mut file = std::string::String::new();
    for n in 0..5000u32 {
        let [_, _, a, b] = n.to_be_bytes();
        file += &format!("10.{}.{b}.0/24 via 198.51.100.{}\n", 100 + a, 2 + n % 2);
    }
    file += "10.0.0.0/8 via 198.51.100.2\n10.101.1.128/25 blackhole\n";
    let config = configure(&format!("{LINKS}\nroutes_file: full.routes"), &file).expect("in order");
    let mut runner = Runner::<Router>::new(&config).expect("in order");
    assert!(report(&runner)["routes"]["bytes"].as_u64() > Some(32 << 20));
    for (to, mac) in [("10.101.1.1", 0xb3), ("10.101.2.1", 0xb2), ("10.250.1.1", 0xb2)] {
        let out = ask(&mut runner, &udp("192.0.2.9", to, 30), at(0));
        assert_eq!(out.bytes.map(|bytes| bytes[5]), Some(mac), "{to}");
    }
    assert_eq!(verdict(&mut runner, &udp("192.0.2.9", "10.101.1.129", 30)), drop(Reason::Blackhole));
}
