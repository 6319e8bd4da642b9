//! NAT64 by the requirements of RFC 6146, RFC 7915 and RFC 6052.

use super::frames::*;
use super::udp::{fragments, whole};
use crate::nat64::Prefix;
use flags::{ACK, SYN};
use nf_sdk::headers::checksum::{self, Endpoints};
use nf_sdk::headers::ipv6;
use nf_sdk::native::frames::seal;
use nf_sdk::native::{ConfigValue, Emitted, TestPacket};
use nf_sdk::{PacketRecord, Verdict, offload};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const H: &str = "2001:db8::1";
const K: &str = "2001:db8::2";
/// What stands for `R`, `S` and `EXT`.
const R6: &str = "64:ff9b::cb00:7109";
const S6: &str = "64:ff9b::cb00:710a";
const EXT6: &str = "64:ff9b::c633:6407";

fn prefix(text: &str, bits: u8) -> (&'static str, ConfigValue) {
    ("nat64_prefix", ConfigValue::Prefix(ip(text), bits))
}

fn bench() -> Bench {
    Bench::new(&[prefix("64:ff9b::", 96)])
}

#[test]
fn rfc_6052_addresses() {
    for (text, bits, address) in [
        ("2001:db8::", 32, "2001:db8:c000:221::"),
        ("2001:db8:100::", 40, "2001:db8:1c0:2:21::"),
        ("2001:db8:122::", 48, "2001:db8:122:c000:2:2100::"),
        ("2001:db8:122:300::", 56, "2001:db8:122:3c0:0:221::"),
        ("2001:db8:122:344::", 64, "2001:db8:122:344:c0:2:2100::"),
        ("2001:db8:122:344::", 96, "2001:db8:122:344::192.0.2.33"),
    ] {
        let prefix = Prefix::new(ip(text), bits).expect("a good length");
        let four = u32::from_le_bytes([192, 0, 2, 33]);
        let bytes: Vec<u8> = prefix.embed(four).iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(IpAddr::from(<[u8; 16]>::try_from(bytes).expect("sixteen")), ip(address), "{bits}");
        assert_eq!(prefix.extract(prefix.embed(four)), Some(four));
        let mut other = prefix.embed(four);
        other[0] ^= 1;
        assert_eq!(prefix.extract(other), None);
    }
    assert_eq!(Prefix::new(ip("64:ff9b::"), 95), None);
    assert_eq!(Prefix::new(ip("192.0.2.0"), 32), None);
}

#[test]
fn sessions_of_every_protocol_go_there_and_back() {
    let mut bench = bench();
    let frames = [
        (tcp((H, 4000), (R6, 80), SYN), tcp((R, 80), (EXT, 4000), SYN | ACK)),
        (tcp((H, 4000), (R6, 80), ACK), tcp((R, 80), (EXT, 4000), ACK)),
        (udp((H, 4000), (R6, 80)), udp((R, 80), (EXT, 4000))),
        (echo(H, R6, 128, 4000), echo(R, EXT, 0, 4000)),
    ];
    for (there, back) in frames {
        let (verdict, out) = bench.show(0, there.clone());
        assert_eq!(verdict, OUT);
        let (from, to) = ends(&out);
        assert_eq!((from, to.0.as_str()), (end(EXT, 4000), R));
        assert_eq!(out.len() + 20, there.len());
        assert_eq!((&out[..12], out[22]), (&there[..12], 63));
        let (verdict, inside) = bench.show(1, back.clone());
        assert_eq!(verdict, IN);
        let (from, to) = ends(&inside);
        assert_eq!((from.0.as_str(), to), (R6, end(H, 4000)));
        assert_eq!((inside.len(), inside[21]), (back.len() + 20, 63));
    }
    assert_eq!(bench.report()["sessions"]["now"], 3);
    // Without the prefix, IPv6 passes as it is; so does what is not for the prefix.
    let other = udp((H, 4000), (K, 80));
    assert_eq!(bench.show(0, other.clone()), (OUT, other));
    let frame = udp((H, 4000), (R6, 80));
    assert_eq!(Bench::new(&[]).show(0, frame.clone()), (OUT, frame));
}

#[test]
fn mappings_filtering_and_times_are_those_of_ipv4() {
    let mut bench = Bench::new(&[
        prefix("64:ff9b::", 96),
        ("filtering", ConfigValue::text("address-dependent")),
        ("preserve_ports", ConfigValue::Boolean(false)),
    ]);
    let mapped = bench.mapped(udp((H, 4000), (R6, 80)));
    assert_eq!(bench.mapped(udp((H, 4000), (R6, 81))), mapped);
    let other = bench.mapped(udp((K, 4000), (R6, 80)));
    let four = bench.mapped(udp((A, 4000), (R, 80)));
    assert!(mapped != other && mapped != four && other != four);
    assert_eq!(bench.inward(udp((R, 9), (EXT, mapped.1))), end(H, 4000));
    assert_eq!(bench.inward(udp((R, 9), (EXT, four.1))), end(A, 4000));
    assert_eq!(bench.outside(udp((S, 80), (EXT, mapped.1))), drop::FILTERED);
    bench.wait(200.0);
    // Sessions go over, and end where there is no prefix.
    let state = bench.runner.export_state().expect("offered");
    let mut next = self::bench();
    next.now = bench.now;
    assert!(next.runner.import_state(&state));
    assert_eq!(next.inward(udp((R, 80), (EXT, mapped.1))), end(H, 4000));
    assert_eq!(next.mapped(udp((H, 4000), (R6, 80))), mapped);
    let mut without = Bench::new(&[]);
    assert!(without.runner.import_state(&state));
    assert_eq!(without.report()["sessions"]["now"], 1);
    bench.wait(110.0);
    assert_eq!(bench.outside(udp((R, 80), (EXT, mapped.1))), drop::NO_MAPPING);
}

#[test]
fn hairpins_between_hosts_of_either_version() {
    let mut bench = bench();
    bench.mapped(udp((K, 5000), (R6, 53)));
    bench.mapped(udp((B, 6000), (R, 53)));
    let (verdict, bytes) = bench.show(0, udp((H, 4000), (EXT6, 5000)));
    assert_eq!((verdict, ends(&bytes)), (IN, (end(EXT6, 4000), end(K, 5000))));
    let (verdict, bytes) = bench.show(0, udp((H, 4000), (EXT6, 6000)));
    assert_eq!((verdict, ends(&bytes)), (IN, (end(EXT, 4000), end(B, 6000))));
    let (verdict, bytes) = bench.show(0, udp((B, 6000), (EXT, 4000)));
    assert_eq!((verdict, ends(&bytes)), (IN, (end(EXT6, 6000), end(H, 4000))));
    assert_eq!(bench.report()["packets"]["hairpinned"], 3);
}

/// What an error carries of a frame of either version.
fn beginning(frame: &[u8], bytes: usize) -> Vec<u8> {
    let header = if frame[14] >> 4 == 6 { 40 } else { 20 };
    frame[14..(14 + header + bytes).min(frame.len())].to_vec()
}

#[test]
fn errors_from_outside_are_turned_inside_out() {
    for frame in [tcp((H, 4000), (R6, 80), SYN), udp((H, 4000), (R6, 80)), echo(H, R6, 128, 4000)] {
        let mut bench =
            Bench::new(&[prefix("64:ff9b::", 96), ("preserve_ports", ConfigValue::Boolean(false))]);
        let (_, out) = bench.show(0, frame.clone());
        for (sent, rest, told, word) in [
            ([3, 1], 0u32, [1, 0], 0u32),
            ([3, 3], 0, [1, 4], 0),
            ([3, 13], 0, [1, 1], 0),
            ([3, 2], 0, [4, 1], 6),
            ([3, 4], 1400, [2, 0], 1420),
            ([3, 4], 0, [2, 0], 1280),
            ([11, 0], 0, [3, 0], 0),
            ([12, 0], 9 << 24, [4, 0], 6),
        ] {
            for bytes in [8, 100] {
                let error = icmp(S, EXT, sent, rest.to_be_bytes(), &beginning(&out, bytes));
                let (verdict, inside) = bench.show(1, error);
                assert_eq!(verdict, IN);
                assert_eq!((ends(&inside).0.0.as_str(), ends(&inside).1.0.as_str()), (S6, H));
                assert_eq!((&inside[54..56], &inside[58..62]), (&told[..], &word.to_be_bytes()[..]));
                // What it carries is what was sent, but for the hop that it has come on.
                let mut carried = inside[62..].to_vec();
                carried[7] += 1;
                let length = carried.len();
                if frame[20] != 58 {
                    assert_eq!(carried, beginning(&frame, 100)[..length]);
                } else {
                    assert_eq!(carried[44..], beginning(&frame, 100)[44..length]);
                }
            }
        }
        let strange = icmp(S, EXT, [3, 14], [0; 4], &beginning(&out, 8));
        assert_eq!(bench.outside(strange), drop::UNTRANSLATABLE);
    }
}

#[test]
fn errors_from_inside_are_turned_inside_out() {
    let mut bench = Bench::new(&[prefix("64:ff9b::", 96), ("preserve_ports", ConfigValue::Boolean(false))]);
    let (_, port) = bench.mapped(udp((H, 4000), (R6, 80)));
    let arrived = udp((R, 80), (EXT, port));
    let (_, inside) = bench.show(1, arrived.clone());
    for (sent, rest, told, word) in [
        ([1, 4], 0u32, [3, 3], 0u32),
        ([1, 0], 0, [3, 1], 0),
        ([1, 1], 0, [3, 10], 0),
        ([2, 0], 1280, [3, 4], 1260),
        ([3, 0], 0, [11, 0], 0),
        ([4, 1], 6, [3, 2], 0),
        ([4, 0], 7, [12, 0], 8 << 24),
    ] {
        let (verdict, out) = bench.show(0, icmp(H, R6, sent, rest.to_be_bytes(), &beginning(&inside, 100)));
        assert_eq!(verdict, OUT);
        assert_eq!((ends(&out).0.0.as_str(), ends(&out).1.0.as_str()), (EXT, R));
        assert_eq!((&out[34..36], &out[38..42]), (&told[..], &word.to_be_bytes()[..]));
        assert!(checksum::verify(&out[42..62]));
        assert_eq!(out[54..62], arrived[26..34]);
        assert_eq!(out[62..], arrived[34..]);
    }
    let mut wrong = icmp(H, R6, [1, 4], [0; 4], &beginning(&inside, 100));
    wrong[56] ^= 1;
    assert_eq!(bench.inside(wrong), drop::MALFORMED);
    let unknown = beginning(&udp((R6, 80), (K, 4000)), 100);
    assert_eq!(bench.inside(icmp(K, R6, [1, 4], [0; 4], &unknown)), drop::NO_SESSION);
    assert_eq!(bench.inside(icmp(H, R6, [133, 0], [0; 4], &[])), drop::UNTRANSLATABLE);
}

/// The fragments of an IPv6 frame.
fn fragments6(frame: &[u8], cut: usize) -> [Vec<u8>; 2] {
    let parts = [(&frame[54..54 + cut], 1u16), (&frame[54 + cut..], cut as u16)];
    parts.map(|(data, field)| {
        let mut part = frame[..54].to_vec();
        part[18..20].copy_from_slice(&(8 + data.len() as u16).to_be_bytes());
        part[20] = 44;
        part.extend([frame[20], 0]);
        part.extend(field.to_be_bytes());
        part.extend([0, 1, 2, 3]);
        part.extend(data);
        part
    })
}

/// Two IPv6 fragments put together again.
fn whole6(first: &[u8], second: &[u8]) -> Vec<u8> {
    let mut frame = first[..54].to_vec();
    frame[20] = first[54];
    frame.extend(&first[62..]);
    frame.extend(&second[62..]);
    let length = (frame.len() - 54) as u16;
    frame[14..][ipv6::field::PAYLOAD_LENGTH].copy_from_slice(&length.to_be_bytes());
    frame
}

#[test]
fn fragments_in_any_order() {
    for early in [false, true] {
        let mut bench = bench();
        let run = |bench: &mut Bench, ingress: u16, [first, second]: [Vec<u8>; 2]| {
            let before = bench.runner.host().emitted().len();
            if early {
                assert!(matches!(bench.show(ingress, second.clone()).0, Verdict::Hold(_)));
            }
            let one = bench.show(ingress, first).1;
            if early {
                let emitted = bench.runner.host().emitted();
                return (one, emitted[before].bytes.clone().expect("a packet of its own"));
            }
            let (verdict, two) = bench.show(ingress, second);
            assert!(matches!(verdict, Verdict::Interface(_)), "{verdict:?}");
            (one, two)
        };
        let (one, two) = run(&mut bench, 0, fragments6(&udp((H, 4000), (R6, 80)), 8));
        let frame = whole(&one, &two);
        assert_sound(&frame);
        assert_eq!(ends(&frame), (end(EXT, 4000), end(R, 80)));
        let (one, two) = run(&mut bench, 1, fragments(&udp((R, 80), (EXT, 4000)), 8));
        let frame = whole6(&one, &two);
        assert_sound(&frame);
        assert_eq!(ends(&frame), (end(R6, 80), end(H, 4000)));
    }
}

/// A UDP packet of IPv4 from outside with so many bytes behind its header, which may be fragmented.
fn long(length: u16) -> Vec<u8> {
    let mut bytes = [80u16, 4000, length, 0].map(u16::to_be_bytes).concat();
    bytes.extend((8..length).map(|n| (n / 7) as u8));
    packet(R, EXT, 17, &bytes)
}

/// What comes out inside of these frames from outside, in the order of their places in the datagram.
fn parts(bench: &mut Bench, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    bench.runner.take_told();
    let mut parts = Vec::new();
    for frame in frames {
        match bench.show(1, frame.clone()) {
            (IN, part) => parts.push(part),
            (verdict, _) => assert!(matches!(verdict, Verdict::Hold(_)), "{verdict:?}"),
        }
    }
    for emitted in bench.runner.take_told().emitted {
        parts.extend(emitted.bytes.filter(|_| emitted.verdict == IN));
    }
    parts.sort_by_key(|part| u16::from_be_bytes([part[56], part[57]]) & !7);
    parts
}

/// IPv6 fragments put together again, of which none is missing, none too long, and the last one says so.
fn joined6(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = parts[0][..54].to_vec();
    frame[20] = parts[0][54];
    for (number, part) in parts.iter().enumerate() {
        let field = u16::from_be_bytes([part[56], part[57]]);
        let is_last = number + 1 == parts.len();
        assert_eq!((part[20], usize::from(field & !7)), (44, frame.len() - 54), "{number}");
        assert_eq!((field & 1 == 0, &part[58..62]), (is_last, &[0, 0, 0, 7][..]), "{number}");
        assert_eq!(usize::from(u16::from_be_bytes([part[18], part[19]])), part.len() - 54);
        assert!(part.len() <= 14 + 1280, "{}", part.len());
        frame.extend(&part[62..]);
    }
    let length = (frame.len() - 54) as u16;
    frame[14..][ipv6::field::PAYLOAD_LENGTH].copy_from_slice(&length.to_be_bytes());
    frame
}

#[test]
fn packets_that_may_be_fragmented_are_cut_for_links_of_ipv6() {
    let mut bench = bench();
    bench.mapped(udp((H, 4000), (R6, 80)));
    let fits = long(1240);
    assert_eq!(parts(&mut bench, std::slice::from_ref(&fits))[0].len(), 14 + 1280);
    // Whole, in order, and the other way round.
    for (frames, count) in [
        (vec![long(1241)], 2),
        (vec![long(1480)], 2),
        (fragments(&long(1480), 1400).to_vec(), 3),
        (fragments(&long(1480), 8).to_vec(), 3),
        (fragments(&long(1480), 8).into_iter().rev().collect(), 3),
    ] {
        let parts = parts(&mut bench, &frames);
        assert_eq!(parts.len(), count);
        let frame = joined6(&parts);
        assert_sound(&frame);
        assert_eq!(ends(&frame), (end(R6, 80), end(H, 4000)));
    }
    // An error about the first part says what the sender knows.
    let first = &parts(&mut bench, &[long(1480)])[0];
    let (verdict, out) = bench.show(0, icmp(H, R6, [1, 4], [0; 4], &first[14..200]));
    assert_eq!((verdict, &out[34..36]), (OUT, &[3, 3][..]));
    assert_eq!((&out[42..44], &out[46..50]), (&[0x45, 0][..], &[0, 7, 0x20, 0][..]), "a first fragment");
    assert_eq!((&out[54..62], &out[62..66]), (&long(1480)[26..34], &long(1480)[34..38]));
    let later = &parts(&mut bench, &[long(1480)])[1];
    assert_eq!(bench.inside(icmp(H, R6, [1, 4], [0; 4], &later[14..100])), drop::NO_SESSION);
    // Its sender is told where one does not fit that may not be.
    let mut whole = long(1480);
    whole[20] = 0x40;
    seal(&mut whole);
    assert_eq!(parts(&mut bench, std::slice::from_ref(&whole))[0].len(), whole.len() + 20);
    // What the host is still to cut or to sum is left to it.
    let mut packet = TestPacket::new(long(1480), 1);
    packet.record.gso_type = offload::GSO_UDP_L4;
    let out = bench.runner.run(&[packet], at(0.0));
    assert_eq!(out[0].bytes.as_ref().map(Vec::len), Some(14 + 40 + 1480));
    // All parts or none, however many the host makes of those that it is asked for.
    let mut bench = Bench::new(&[prefix("64:ff9b::", 96)]);
    bench.mapped(udp((H, 4000), (R6, 80)));
    for most in [0, 1, 3] {
        bench.runner.take_told();
        bench.runner.bound_packets(most, 2000);
        assert_eq!(bench.outside(long(6000)), drop::FRAGMENT, "{most}");
        let emitted = bench.runner.take_told().emitted;
        assert_eq!(emitted.len(), most);
        assert!(emitted.iter().all(|part| part.verdict == Verdict::Consume));
        // One that waited for its first one.
        let [first, later] = fragments(&long(6000), 8);
        assert!(matches!(bench.outside(later), Verdict::Hold(_)));
        assert_eq!(bench.show(1, first).0, IN);
        let emitted = bench.runner.take_told().emitted;
        let ends = |part: &Emitted| matches!(part.verdict, Verdict::Consume | drop::FRAGMENT);
        assert!(emitted.len() == most + 1 && emitted.iter().all(ends), "{emitted:?}");
        bench.wait(10.0);
    }
    bench.runner.take_told();
    bench.runner.bound_packets(4, 2000);
    assert_eq!(parts(&mut bench, &[long(6000)]).len(), 5);
    let mut bench = Bench::new(&[prefix("64:ff9b::", 96), ("nat64_mtu", ConfigValue::Integer(1500))]);
    bench.mapped(udp((H, 4000), (R6, 80)));
    assert_eq!(parts(&mut bench, &[long(1460)]).len(), 1);
    assert_eq!(parts(&mut bench, &[long(1461)]).len(), 2);
}

#[test]
fn what_may_be_fragmented_on_its_way_has_an_identification_of_its_own() {
    let mut bench = bench();
    // 1,260 bytes as a packet of IPv4, and one more.
    for (body, may_not) in [(1240, false), (1241, true)] {
        let mut found = std::collections::BTreeSet::new();
        for host in [H, K, H] {
            let datagram = [&[15, 160, 0, 80, 4, 216, 0, 0][..], &vec![5; body - 8]].concat();
            for frame in
                [packet(host, R6, 17, &datagram), icmp(host, R6, [128, 0], [0, 9, 0, 1], &vec![7; body - 8])]
            {
                let (verdict, out) = bench.show(0, frame);
                assert_eq!((verdict, out[20]), (OUT, if may_not { 0x40 } else { 0 }), "{body}");
                assert!(checksum::verify(&out[14..34]));
                found.insert([out[18], out[19]]);
            }
        }
        assert_eq!(found.len(), if may_not { 1 } else { 6 }, "{body}");
    }
    // An error is a packet of its own as well.
    let (_, arrived) = bench.show(1, udp((R, 80), (EXT, 4000)));
    let told = || icmp(H, R6, [1, 4], [0; 4], &arrived[14..]);
    let numbers = [0, 1].map(|_| bench.show(0, told()).1[18..20].to_vec());
    assert_ne!(numbers[0], numbers[1]);
    // One that has one keeps it, in all of its fragments.
    let whole = packet(H, R6, 17, &[&[15, 160, 0, 80, 0, 28, 0, 0][..], &[7; 20]].concat());
    let fragment = |field: u16, part: &[u8]| {
        let [high, low] = field.to_be_bytes();
        packet(H, R6, 44, &[&[17, 0, high, low, 0, 0, 0x12, 0x34][..], part].concat())
    };
    for frame in [fragment(1, &whole[54..70]), fragment(16, &whole[70..])] {
        let (verdict, out) = bench.show(0, frame);
        assert_eq!((verdict, &out[18..20]), (OUT, &[0x12, 0x34][..]));
    }
}

#[test]
fn fragments_of_hairpins_go_to_the_same_host() {
    let mut bench = bench();
    bench.mapped(udp((H, 4000), (R6, 53)));
    let [first, second] = fragments(&udp((B, 6000), (EXT, 4000)), 8);
    for early in [false, true] {
        bench.wait(10.0);
        bench.runner.take_told();
        if early {
            assert!(matches!(bench.inside(second.clone()), Verdict::Hold(_)));
        }
        let (verdict, one) = bench.show(0, first.clone());
        assert_eq!(verdict, IN);
        let two = match early {
            true => bench.runner.take_told().emitted[0].bytes.clone().expect("a packet of its own"),
            false => bench.show(0, second.clone()).1,
        };
        assert_eq!((&one[..12], &one[22..54]), (&two[..12], &two[22..54]), "the same addresses");
        assert_eq!(ends(&whole6(&one, &two)), (end(EXT6, 6000), end(H, 4000)));
    }
    assert_eq!(bench.report()["packets"]["hairpinned"], 4);
}

#[test]
fn udp_without_a_checksum_gets_one() {
    let mut bench = bench();
    bench.mapped(udp((H, 4000), (R6, 80)));
    let mut frame = udp((R, 80), (EXT, 4000));
    frame[40..42].fill(0);
    let (verdict, bytes) = bench.show(1, frame.clone());
    assert_eq!(verdict, IN);
    let ends = Endpoints::V6 {
        source: R6.parse::<Ipv6Addr>().expect("an address"),
        destination: H.parse::<Ipv6Addr>().expect("an address"),
    };
    assert!(bytes[60..62] != [0, 0] && ends.verify(17, &bytes[54..]));
    let [first, _] = fragments(&frame, 8);
    assert_eq!(bench.outside(first), drop::UNTRANSLATABLE);
}

#[test]
fn what_has_no_counterpart_is_dropped() {
    let mut bench = bench();
    let mut last_hop = udp((H, 4000), (R6, 80));
    last_hop[21] = 1;
    assert_eq!(bench.inside(last_hop), drop::UNTRANSLATABLE);
    assert_eq!(bench.inside(udp((EXT6, 4000), (R6, 80))), drop::MALFORMED);
    assert_eq!(bench.inside(udp(("::10.0.0.1", 4000), (R6, 80))), drop::MALFORMED);
    assert_eq!(bench.inside(packet(H, R6, 132, &[0; 30])), drop::PROTOCOL);
    for (gso_type, gso_size) in [(offload::GSO_UDP, 1000), (offload::GSO_TCPV6, 39)] {
        let mut segmented = TestPacket::new(tcp((H, 4000), (R6, 80), SYN), 0);
        (segmented.record.gso_type, segmented.record.gso_size) = (gso_type, gso_size);
        let out = bench.runner.run(&[segmented], at(0.0));
        assert_eq!((out[0].verdict, out[0].other_version), (Some(drop::UNTRANSLATABLE), false));
    }
    assert_eq!(bench.report()["sessions"]["opened"], 0);
    let refused = nf_sdk::native::Runner::<crate::Nat>::new(&config(&[prefix("64:ff9b::", 90)]));
    assert!(refused.is_err_and(|error| error.message().contains("96 bits")));
}

#[test]
fn the_well_known_prefix_stands_for_the_internet_alone() {
    let nowhere = ["0.0.0.0", "127.0.0.1", "169.254.0.1", "224.0.0.1", "239.1.1.1", "255.255.255.255"];
    let private =
        ["10.0.0.1", "100.64.0.1", "172.31.255.255", "192.0.0.8", "192.168.1.1", "198.19.0.1", "240.0.0.1"];
    let global =
        ["9.255.255.255", "11.0.0.1", "100.128.0.1", "172.32.0.1", "192.0.1.1", "192.88.99.1", "198.20.0.1"];
    for (text, of_private) in [("64:ff9b::", drop::UNTRANSLATABLE), ("2001:db8:64::", OUT)] {
        let mut bench = Bench::new(&[prefix(text, 96)]);
        let mut sent = |address: &str| bench.inside(udp((H, 4000), (&format!("{text}{address}"), 80)));
        for (addresses, verdict) in
            [(&nowhere[..], drop::UNTRANSLATABLE), (&private[..], of_private), (&global[..], OUT)]
        {
            for address in addresses {
                assert_eq!(sent(address), verdict, "{text}{address}");
            }
        }
    }
}

#[test]
fn a_partial_checksum_stays_one() {
    let mut bench = bench();
    let mut frame = udp((H, 4000), (R6, 80));
    let pseudo = |frame: &[u8], addresses: std::ops::Range<usize>, length: u16| {
        let sum = checksum::Sum::ZERO.add_bytes(&frame[addresses]).add_u16(17).add_u16(length);
        sum.folded().to_be_bytes()
    };
    let sum = pseudo(&frame, 22..54, 20);
    frame[60..62].copy_from_slice(&sum);
    let mut packet = TestPacket::new(frame, 0);
    packet.record = PacketRecord {
        offload_flags: offload::NEEDS_CHECKSUM,
        csum_start: 54,
        csum_offset: 6,
        ..PacketRecord::default()
    };
    let out = bench.runner.run(&[packet], at(0.0));
    let bytes = out[0].bytes.as_ref().expect("an extent");
    assert_eq!((out[0].verdict, &bytes[40..42]), (Some(OUT), &pseudo(bytes, 26..34, 20)[..]));
}

proptest! {
    #[test]
    fn every_packet_stays_sound(
        host in any::<[u8; 16]>(), remote in any::<[u8; 4]>(), port in any::<u16>(), far in any::<u16>(),
        body in prop::collection::vec(any::<u8>(), 0..200), bits in 0usize..6, is_tcp in any::<bool>(),
    ) {
        let bits = [32, 40, 48, 56, 64, 96][bits];
        prop_assume!(host[0] != 0x20 && host[..12] != [0; 12]);
        let remote4 = Ipv4Addr::from(remote);
        let mut bench = Bench::new(&[prefix("2001:db8::", bits)]);
        let prefix = Prefix::new(ip("2001:db8::"), bits).expect("a good length");
        // What is no host, and the pool, apart.
        prop_assume!(prefix.stands_for(u32::from_le_bytes(remote)) && remote4.to_string() != EXT);
        let six: Vec<u8> = prefix.embed(u32::from_le_bytes(remote)).iter().flat_map(|word| word.to_le_bytes()).collect();
        let six = IpAddr::from(<[u8; 16]>::try_from(six).expect("sixteen")).to_string();
        let (host, remote) = (Ipv6Addr::from(host).to_string(), remote4.to_string());
        let make = |from: End<'_>, to: End<'_>| {
            let mut frame = if is_tcp { tcp(from, to, SYN) } else { udp(from, to) };
            frame.extend(&body);
            let at = if frame[14] >> 4 == 6 { 18 } else { 16 };
            let length = (frame.len() - if at == 18 { 54 } else { 14 }) as u16;
            frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
            if !is_tcp {
                let udp = if at == 18 { 58 } else { 38 };
                let length = 20 + body.len() as u16;
                frame[udp..udp + 2].copy_from_slice(&length.to_be_bytes());
            }
            seal(&mut frame);
            frame
        };
        let (verdict, out) = bench.show(0, make((&host, port), (&six, far)));
        prop_assert_eq!(verdict, OUT);
        let (from, to) = ends(&out);
        prop_assert_eq!((from.0.as_str(), to), (EXT, (remote.clone(), far)));
        let (verdict, back) = bench.show(1, make((&remote, far), (EXT, from.1)));
        prop_assert_eq!(verdict, IN);
        prop_assert_eq!(ends(&back), ((six, far), (host, port)));
    }
}

/// TCP and UDP that are still to be cut go whole, both ways, and say that their version is another one; what
/// comes back to a host of IPv6 by a hairpin has the one that it had.
#[test]
fn segments_are_cut_by_the_version_that_they_have_become() {
    let mut bench = bench();
    let mut show = |frame: Vec<u8>, ingress: u16, gso_type: u8| {
        let mut packet = TestPacket::new(frame, ingress);
        (packet.record.gso_type, packet.record.gso_size) = (gso_type, 1400);
        let out = bench.runner.run(&[packet], at(0.0));
        let bytes = out[0].bytes.as_ref().expect("an extent");
        (out[0].verdict, out[0].other_version, bytes[12])
    };
    let (tcp4, tcp6) = (offload::GSO_TCPV4, offload::GSO_TCPV6 | offload::GSO_ECN);
    assert_eq!(show(tcp((H, 4000), (R6, 80), SYN), 0, offload::GSO_NONE), (Some(OUT), false, 0x08));
    assert_eq!(show(tcp((R, 80), (EXT, 4000), SYN | ACK), 1, offload::GSO_NONE), (Some(IN), false, 0x86));
    assert_eq!(show(tcp((H, 4000), (R6, 80), ACK), 0, tcp6), (Some(OUT), true, 0x08));
    assert_eq!(show(tcp((R, 80), (EXT, 4000), ACK), 1, tcp4), (Some(IN), true, 0x86));
    assert_eq!(show(udp((H, 5000), (R6, 53)), 0, offload::GSO_UDP_L4), (Some(OUT), true, 0x08));
    assert!(!show(tcp((K, 6000), (EXT6, 4000), SYN), 0, tcp6).1);
    // IPv4 alone stays what it is.
    assert_eq!(show(tcp((A, 7000), (R, 80), SYN), 0, tcp4), (Some(OUT), false, 0x08));
}
