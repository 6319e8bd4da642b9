//! The requirements of RFC 4787, by number.

use super::frames::*;
use nf_sdk::Verdict;
use nf_sdk::headers::ipv4;
use nf_sdk::native::frames::{seal, tagged};
use nf_sdk::native::{ConfigValue, TestPacket};
use nf_sdk::{PacketRecord, offload};

#[test]
fn req_1_a_mapping_is_independent_of_the_remote_end() {
    let mut bench = Bench::new(&[("preserve_ports", ConfigValue::Boolean(false))]);
    let mapped = bench.mapped(udp((A, 4000), (R, 53)));
    assert_eq!(mapped.0, EXT);
    assert_eq!(bench.mapped(udp((A, 4000), (R, 54))), mapped);
    assert_eq!(bench.mapped(udp((A, 4000), (S, 53))), mapped);
    // Another port, another host and another protocol are other inside ends.
    assert_ne!(bench.mapped(udp((A, 4002), (R, 53))), mapped);
    assert_ne!(bench.mapped(udp((B, 4000), (R, 53))), mapped);
    assert_eq!(bench.report()["mappings"]["now"], 3);
    assert_eq!(bench.report()["sessions"]["now"], 5);
}

#[test]
fn req_2_mappings_of_a_host_have_one_address() {
    let mut bench = Bench::new(&[("pool", pool("198.51.100.0/28"))]);
    let mut seen = std::collections::BTreeSet::new();
    for host in 1..60 {
        let host = format!("10.0.0.{host}");
        let first = bench.mapped(udp((&host, 1000), (R, 53))).0;
        for port in 1001..1005 {
            assert_eq!(bench.mapped(udp((&host, port), (R, 53))).0, first);
            assert_eq!(bench.mapped(tcp((&host, port), (S, 80), flags::SYN)).0, first);
        }
        seen.insert(first);
    }
    assert!(seen.len() > 8, "{seen:?}");
}

#[test]
fn req_2_arbitrary_pooling_goes_on_with_another_address() {
    let few = ("ports", ConfigValue::PortRange(5000, 5003));
    let two = ("pool", pool("198.51.100.0/31"));
    let mut paired = Bench::new(&[few.clone(), two.clone()]);
    let mut arbitrary = Bench::new(&[few, two, ("pooling", ConfigValue::text("arbitrary"))]);
    // TCP that is established makes no room.
    let open = |bench: &mut Bench, port| {
        let (verdict, frame) = bench.show(0, tcp((A, port), (R, 80), flags::SYN));
        if verdict == OUT {
            let (address, port) = ends(&frame).0;
            assert_eq!(bench.outside(tcp((R, 80), (&address, port), flags::SYN | flags::ACK)), IN);
        }
        verdict
    };
    for port in 6000..6004 {
        assert_eq!((open(&mut paired, port), open(&mut arbitrary, port)), (OUT, OUT));
    }
    for port in 6004..6008 {
        assert_eq!((open(&mut paired, port), open(&mut arbitrary, port)), (drop::NO_PORT, OUT));
    }
    assert_eq!(open(&mut arbitrary, 6008), drop::NO_PORT);
    assert_eq!(arbitrary.report()["pool"]["ports"], 8);
}

#[test]
fn req_3_a_port_is_one_mappings_and_of_the_same_range() {
    let mut bench = Bench::new(&[]);
    assert_eq!(bench.mapped(udp((A, 500), (R, 500))), end(EXT, 500));
    assert_eq!(bench.mapped(udp((A, 5000), (R, 500))), end(EXT, 5000));
    // REQ-3a: taken ports are not used again.
    let (_, low) = bench.mapped(udp((B, 500), (R, 500)));
    let (_, high) = bench.mapped(udp((B, 5000), (R, 500)));
    assert!(low != 500 && low < 1024, "{low}");
    assert!(high != 5000 && high >= 1024, "{high}");
    // TCP has ports of its own.
    assert_eq!(bench.mapped(tcp((B, 500), (R, 500), flags::SYN)), end(EXT, 500));
}

#[test]
fn req_4_parity_is_preserved() {
    let mut bench = Bench::new(&[("preserve_ports", ConfigValue::Boolean(false))]);
    for port in 3000..3200 {
        let (_, mapped) = bench.mapped(udp((A, port), (R, 53)));
        assert_eq!(mapped % 2, port % 2, "{port}");
    }
    // With no port of that parity left, another one is better than none.
    let mut bench = Bench::new(&[("ports", ConfigValue::PortRange(7000, 7003))]);
    let mapped: Vec<u16> = (0..4).map(|n| bench.mapped(udp((A, 3000 + 2 * n), (R, 53))).1).collect();
    assert!(mapped[..2].iter().all(|port| port % 2 == 0), "{mapped:?}");
    assert!(mapped[2..].iter().all(|port| port % 2 == 1), "{mapped:?}");
}

#[test]
fn req_5_a_session_lasts_five_minutes() {
    let mut bench = Bench::new(&[]);
    bench.mapped(udp((A, 4000), (R, 53)));
    bench.wait(299.0);
    assert_eq!(bench.inward(udp((R, 53), (EXT, 4000))), end(A, 4000));
    bench.wait(1.5);
    assert_eq!(bench.outside(udp((R, 53), (EXT, 4000))), drop::NO_MAPPING);
    bench.wait(20.0);
    assert_eq!(bench.report()["mappings"]["now"], 0);
    assert_eq!(bench.report()["pool"]["ports"], 0);
    assert_eq!(bench.report()["sessions"]["expired"], 1);
}

#[test]
fn req_6_packets_from_inside_refresh_and_those_from_outside_do_not() {
    let mut bench = Bench::new(&[]);
    bench.mapped(udp((A, 4000), (R, 53)));
    for _ in 0..4 {
        bench.wait(200.0);
        assert_eq!(bench.mapped(udp((A, 4000), (R, 53))), end(EXT, 4000));
    }
    for _ in 0..2 {
        bench.wait(140.0);
        assert_eq!(bench.inward(udp((R, 53), (EXT, 4000))), end(A, 4000));
    }
    bench.wait(30.0);
    assert_eq!(bench.outside(udp((R, 53), (EXT, 4000))), drop::NO_MAPPING);
    let mut bench = Bench::new(&[("udp_inbound_refresh", ConfigValue::Boolean(true))]);
    bench.mapped(udp((A, 4000), (R, 53)));
    bench.inward(udp((R, 53), (EXT, 4000)));
    for _ in 0..4 {
        bench.wait(200.0);
        assert_eq!(bench.inward(udp((R, 53), (EXT, 4000))), end(A, 4000));
    }
}

#[test]
fn req_7_the_same_addresses_may_be_on_both_sides() {
    for inside in ["0.0.0.0/0", "10.0.0.0/8"] {
        let mut bench = Bench::new(&[("inside", pool(inside))]);
        // B is a host inside, and another one outside.
        let mapped = bench.mapped(udp((B, 4000), (R, 53)));
        let (own, remote) = bench.out(udp((A, 5000), (B, 4000)));
        assert_eq!(remote, end(B, 4000));
        let (verdict, arrived) = bench.show(1, udp((B, 4000), (&own.0, own.1)));
        assert_eq!((verdict, ends(&arrived)), (IN, (end(B, 4000), end(A, 5000))), "{inside}");
        // Each has what is its own, errors too.
        assert_eq!(bench.inward(udp((R, 53), (&mapped.0, mapped.1))), end(B, 4000));
        let sent = udp((&own.0, own.1), (B, 4000));
        assert_eq!(bench.outside(icmp(B, &own.0, [3, 3], [0; 4], &carried(&sent, 8))), IN);
    }
}

#[test]
fn req_8_filtering() {
    let frames = || [udp((R, 53), (EXT, 4000)), udp((R, 54), (EXT, 4000)), udp((S, 53), (EXT, 4000))];
    for (filtering, verdicts) in [
        ("endpoint-independent", [IN, IN, IN]),
        ("address-dependent", [IN, IN, drop::FILTERED]),
        ("address-and-port-dependent", [IN, drop::FILTERED, drop::FILTERED]),
    ] {
        let mut bench = Bench::with("filtering", filtering);
        bench.mapped(udp((A, 4000), (R, 53)));
        assert_eq!(frames().map(|frame| bench.outside(frame)), verdicts, "{filtering}");
        bench.mapped(udp((A, 4000), (S, 9)));
        let s = if filtering == "address-and-port-dependent" { drop::FILTERED } else { IN };
        assert_eq!(bench.outside(udp((S, 53), (EXT, 4000))), s, "{filtering}");
        // The permission goes with the session.
        bench.wait(320.0);
        bench.mapped(udp((A, 4000), (R, 53)));
        let after = if filtering == "endpoint-independent" { IN } else { drop::FILTERED };
        assert_eq!(bench.outside(udp((S, 53), (EXT, 4000))), after, "{filtering}");
    }
}

#[test]
fn req_9_hairpins_come_from_the_outside_end() {
    for filtering in ["endpoint-independent", "address-dependent"] {
        let mut bench = Bench::with("filtering", filtering);
        bench.mapped(udp((B, 5000), (R, 53)));
        // Nothing is there yet, but B has sent to it.
        assert_eq!(bench.inside(udp((B, 5000), (EXT, 4000))), drop::NO_MAPPING);
        let mut frame = udp((A, 4000), (EXT, 5000));
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 0xa]);
        let (verdict, bytes) = bench.show(0, frame);
        assert_eq!(verdict, IN);
        assert_eq!(ends(&bytes), (end(EXT, 4000), end(B, 5000)));
        // To the host's Ethernet address, from the router's.
        assert_eq!(bytes[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        let (verdict, bytes) = bench.show(0, udp((B, 5000), (EXT, 4000)));
        assert_eq!(verdict, IN);
        assert_eq!(ends(&bytes), (end(EXT, 5000), end(A, 4000)));
        assert_eq!(bytes[..6], [2, 0, 0, 0, 0, 0xa]);
        assert_eq!(bench.report()["packets"]["hairpinned"], 2);
    }
}

#[test]
fn req_12_icmp_errors_end_nothing() {
    let mut bench = Bench::new(&[]);
    let (_, sent) = bench.show(0, udp((A, 4000), (R, 53)));
    let error = icmp(R, EXT, [3, 3], [0; 4], &carried(&sent, 8));
    assert_eq!(bench.outside(error), IN);
    bench.wait(200.0);
    assert_eq!(bench.inward(udp((R, 53), (EXT, 4000))), end(A, 4000));
}

/// The fragments of a frame, cut after so many bytes behind its IPv4 header.
pub fn fragments(frame: &[u8], cut: usize) -> [Vec<u8>; 2] {
    let mut parts = [frame[..34 + cut].to_vec(), frame[..34].to_vec()];
    parts[1].extend(&frame[34 + cut..]);
    for (part, field) in parts.iter_mut().zip([0x2000u16, (cut / 8) as u16]) {
        let total = (part.len() - 14) as u16;
        part[14..][ipv4::field::TOTAL_LENGTH].copy_from_slice(&total.to_be_bytes());
        part[20..22].copy_from_slice(&field.to_be_bytes());
        seal(part);
    }
    parts
}

/// Two fragments put together again.
pub fn whole(first: &[u8], second: &[u8]) -> Vec<u8> {
    let mut frame = first.to_vec();
    frame.extend(&second[34..]);
    let total = (frame.len() - 14) as u16;
    frame[14..][ipv4::field::TOTAL_LENGTH].copy_from_slice(&total.to_be_bytes());
    frame[20..22].fill(0);
    frame[14..][ipv4::field::CHECKSUM].fill(0);
    let sum = nf_sdk::headers::checksum::of(&frame[14..34]);
    frame[14..][ipv4::field::CHECKSUM].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn req_14_fragments_follow_the_first_in_order_and_out_of_order() {
    let mut bench = Bench::new(&[]);
    let [first, second] = fragments(&udp((A, 4000), (R, 53)), 8);
    let (verdict, one) = bench.show(0, first.clone());
    let (also, two) = bench.show(0, second.clone());
    assert_eq!((verdict, also), (OUT, OUT));
    let frame = whole(&one, &two);
    assert_sound(&frame);
    assert_eq!(ends(&frame), (end(EXT, 4000), end(R, 53)));
    // The other way round, from outside.
    let [first, second] = fragments(&udp((R, 53), (EXT, 4000)), 8);
    assert!(matches!(bench.outside(second.clone()), Verdict::Hold(_)));
    let (verdict, one) = bench.show(1, first);
    assert_eq!(verdict, IN);
    let emitted = bench.runner.host().emitted();
    assert_eq!(emitted.len(), 2);
    assert_eq!((emitted[0].verdict, emitted[1].verdict), (IN, Verdict::Consume));
    let frame = whole(&one, emitted[0].bytes.as_ref().expect("a packet of its own"));
    assert_sound(&frame);
    assert_eq!(ends(&frame).1, end(A, 4000));
}

#[test]
fn req_14_fragments_in_one_batch_in_any_order() {
    let mut bench = Bench::new(&[]);
    bench.inside(udp((A, 4000), (R, 53)));
    let [first, second] = fragments(&udp((R, 53), (EXT, 4000)), 16);
    let mut overlapping = second.clone();
    overlapping[21] = 1;
    seal(&mut overlapping);
    let packets = [&second, &overlapping, &first].map(|frame| TestPacket::new(frame.clone(), 1));
    let out = bench.runner.run(&packets, at(0.0));
    let verdicts: Vec<_> = out.iter().map(|one| one.verdict.expect("a verdict")).collect();
    assert_eq!(verdicts, [Verdict::Consume, drop::FRAGMENT, IN]);
    let host = bench.runner.host();
    assert_eq!((host.emitted().len(), host.held()), (1, 0));
    let copy = host.emitted()[0].bytes.as_ref().expect("a packet of its own");
    let frame = whole(out[2].bytes.as_ref().expect("it passes"), copy);
    assert_sound(&frame);
    assert_eq!(ends(&frame).1, end(A, 4000));
    assert_eq!(
        (bench.report()["packets"]["inward"].as_u64(), bench.report()["packets"]["fragment"].as_u64()),
        (Some(2), Some(1))
    );
}

#[test]
fn req_14_fragments_that_wait_are_bounded_and_dropped() {
    let mut bench = Bench::new(&[]);
    let [_, second] = fragments(&udp((A, 4000), (R, 53)), 8);
    let mut held = 0;
    for n in 0..100u8 {
        let mut frame = second.clone();
        frame[19] = n;
        seal(&mut frame);
        held += usize::from(matches!(bench.inside(frame), Verdict::Hold(_)));
    }
    assert_eq!(held, 16);
    for host in 1..=200 {
        let source = format!("10.0.1.{host}");
        let [_, second] = fragments(&udp((&source, 4000), (R, 53)), 8);
        held += usize::from(matches!(bench.inside(second), Verdict::Hold(_)));
    }
    assert_eq!(held, 64);
    bench.wait(0.4);
    assert_eq!(bench.runner.host().held(), 64, "their time is not over");
    bench.wait(0.9);
    assert_eq!(bench.runner.host().held(), 0, "before the host takes them back");
    let emitted = bench.runner.host().emitted();
    assert_eq!(emitted.len(), 64);
    assert!(emitted.iter().all(|packet| packet.verdict == drop::FRAGMENT));
    assert_eq!(bench.report()["fragments_held"], 0);
    // One that overlaps the first could replace its ports.
    let [first, second] = fragments(&udp((A, 4000), (R, 53)), 16);
    assert_eq!(bench.inside(first), OUT);
    let mut overlapping = second.clone();
    overlapping[21] = 1;
    seal(&mut overlapping);
    assert_eq!(bench.inside(overlapping), drop::FRAGMENT);
    assert_eq!(bench.inside(second), OUT);
}

#[test]
fn what_is_held_is_dropped_when_the_program_stops() {
    let mut bench = Bench::new(&[]);
    let [_, second] = fragments(&udp((A, 4000), (R, 53)), 8);
    assert!(matches!(bench.inside(second), Verdict::Hold(_)));
    assert!(!bench.runner.finish(at(1.0)));
    assert_eq!(bench.runner.host().emitted()[0].verdict, drop::FRAGMENT);
}

#[test]
fn packets_without_a_checksum_and_with_a_partial_one() {
    let mut bench = Bench::new(&[]);
    let mut frame = udp((A, 4000), (R, 53));
    frame[40..42].fill(0);
    let (_, bytes) = bench.show(0, frame);
    assert_eq!(bytes[40..42], [0, 0]);
    // The pseudo header's sum alone, on the first packet and on the usual one.
    for tcp_flags in [flags::SYN, flags::ACK] {
        let mut frame = tcp((A, 4000), (R, 53), tcp_flags);
        let pseudo = |frame: &[u8]| {
            let word = |at: usize| u32::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
            let sum = word(26) + word(28) + word(30) + word(32) + 6 + (frame.len() as u32 - 34);
            let sum = (sum & 0xffff) + (sum >> 16);
            ((sum & 0xffff) + (sum >> 16)) as u16
        };
        let sum = pseudo(&frame).to_be_bytes();
        frame[50..52].copy_from_slice(&sum);
        let mut packet = TestPacket::new(frame, 0);
        packet.record = PacketRecord {
            offload_flags: offload::NEEDS_CHECKSUM,
            csum_start: 34,
            csum_offset: 16,
            gso_type: offload::GSO_TCPV4,
            gso_size: 2,
            ..PacketRecord::default()
        };
        let out = bench.runner.run(&[packet], at(0.0));
        let bytes = out[0].bytes.as_ref().expect("an extent");
        assert_eq!(out[0].verdict, Some(OUT));
        assert_eq!(ends(bytes).0, end(EXT, 4000));
        assert_eq!(bytes[50..52], pseudo(bytes).to_be_bytes(), "{tcp_flags}");
        // The connection is established for the second round.
        bench.outside(tcp((R, 53), (EXT, 4000), flags::SYN | flags::ACK));
    }
}

#[test]
fn vlans_are_networks_of_their_own() {
    let mut bench = Bench::new(&[]);
    let show = |bench: &mut Bench, vlan: u16| {
        let (verdict, bytes) = bench.show(0, tagged(&udp((A, 4000), (R, 53)), &[vlan]));
        assert_eq!(verdict, OUT);
        ends(&bytes).0.1
    };
    let (one, two) = (show(&mut bench, 5), show(&mut bench, 6));
    assert_ne!(one, two);
    let back = |port, vlan: u16| tagged(&udp((R, 53), (EXT, port)), &[vlan]);
    assert_eq!(bench.outside(back(one, 5)), IN);
    assert_eq!(bench.outside(back(one, 6)), drop::NO_MAPPING);
    assert_eq!(bench.outside(back(two, 6)), IN);
}

#[test]
fn what_is_not_translated_passes_or_is_dropped() {
    let mut bench = Bench::new(&[("inside", pool("10.0.0.0/8"))]);
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6], &[0; 46]].concat();
    for (ingress, verdict) in [(0, OUT), (1, IN)] {
        let runner = &mut bench.runner;
        let out = runner.run(&[TestPacket::new(arp.clone(), ingress)], at(0.0));
        assert_eq!((out[0].verdict, out[0].bytes.as_ref()), (Some(verdict), Some(&arp)));
    }
    // A router's own address, inside as outside; an inside address is hidden.
    assert_eq!(bench.out(udp(("192.0.2.1", 5), (R, 6))), (end("192.0.2.1", 5), end(R, 6)));
    assert_eq!(bench.inward(udp((R, 5), ("192.0.2.1", 6))), end("192.0.2.1", 6));
    assert_eq!(bench.outside(udp((R, 5), (A, 6))), drop::NO_MAPPING);
    // Between neighbours.
    assert_eq!(bench.out(udp((A, 5), ("224.0.0.5", 6))).0, end(A, 5));
    assert_eq!(bench.out(udp(("0.0.0.0", 68), ("255.255.255.255", 67))).0, end("0.0.0.0", 68));
    assert_eq!(bench.inside(packet(A, R, 47, &[0; 30])), drop::PROTOCOL);
    assert_eq!(bench.inside(packet("192.0.2.1", R, 47, &[0; 30])), OUT);
    assert_eq!(bench.outside(packet(R, EXT, 47, &[0; 30])), drop::PROTOCOL);
    assert_eq!(bench.inside(packet(A, R, 6, &[0; 10])), drop::MALFORMED);
    let mut cut = udp((A, 5), (R, 6));
    cut.truncate(40);
    assert_eq!(bench.inside(cut), drop::MALFORMED);
    assert_eq!(bench.inside(packet("2001:db8::1", "2001:db8::2", 17, &[0; 30])), OUT);
}
