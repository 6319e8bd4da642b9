//! Headers against a plain model ([`model`]), against the views and the decoder of `packet`, and against
//! tshark.

mod model;
mod tshark;

use crate::*;
use model::{layers, packets};
use packet::checksum::{self, Sum};
use packet::dissect;
use packet::tunnel::{Level, Tunnel, Tunnels};
use proptest::prelude::*;
use std::net::IpAddr;

/// A packet with another beginning.
fn changed(packet: &[u8], front: &Front) -> Vec<u8> {
    [front.bytes(), &packet[front.removes()..]].concat()
}

fn outer() -> Outer {
    Outer {
        local: [192, 0, 2, 1].into(),
        remote: [192, 0, 2, 2].into(),
        ttl: 64,
        services: None,
        dont_fragment: true,
        checksum: false,
        link: ([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]),
    }
}

fn vxlan() -> Encapsulation {
    Encapsulation::new(&[LayerSettings::Vxlan { vni: 7, outer: outer() }]).expect("allowed")
}

/// Bytes of a packet of UDP over IPv4 with this traffic class.
fn udp(class: u8) -> Vec<u8> {
    let mut bytes = vec![4, 4, 4, 4, 4, 4, 6, 6, 6, 6, 6, 6, 8, 0];
    let mut ip = vec![0x45, class, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 2];
    let sum = checksum::of(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(ip);
    bytes.extend([0x10, 0, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
    bytes
}

fn put_on(
    encapsulation: &Encapsulation,
    packet: &[u8],
    length: u32,
    hash: u32,
    id: u16,
) -> Result<Front, Mismatch> {
    // What was in its place before does not matter.
    let mut front = Front { removes: 7, length: 9, bytes: [0xa5; MAX_BYTES], sums: [0xa5; MAX_LAYERS] };
    let made = encapsulation.put_on(packet, length, hash, id, &mut front);
    let (headers, fresh) = encapsulation.for_flow(hash, id, None);
    let plain = headers.plain(Some(fresh)).and_then(|it| it.front(first(packet), length, (hash, id)));
    check_plain(plain, made, &front);
    to_next_hop(encapsulation, packet, length, (hash, id), &front);
    made.map(|()| complete(front, packet))
}

/// What goes to a next hop goes there, and is the same otherwise.
fn to_next_hop(encapsulation: &Encapsulation, packet: &[u8], length: u32, of: (u32, u16), made: &Front) {
    let (next_hop, mut front) = ([2, 4, 6, 8, 10, 12], Front::NONE);
    let (headers, fresh) = encapsulation.for_flow(of.0, of.1, Some(next_hop));
    let done = headers.put_on(packet, length, Some(fresh), &mut front);
    let plain = headers.plain(Some(fresh)).and_then(|it| it.front(first(packet), length, of));
    check_plain(plain, done, &front);
    if done.is_ok() {
        let mut expected = *made;
        expected.set_destination(next_hop);
        assert_eq!((front.removes(), front.bytes()), (expected.removes(), expected.bytes()));
        assert_eq!(front.is_incomplete(), expected.is_incomplete());
    }
}

/// The first bytes of a packet, or zeros.
fn first(packet: &[u8]) -> [u8; 16] {
    packet.first_chunk().copied().unwrap_or_default()
}

/// What is made at once is what is made field by field.
fn check_plain(plain: Option<[u8; PLAIN]>, made: Result<(), Mismatch>, front: &Front) {
    if let Some(plain) = plain {
        assert_eq!((made, front.removes(), front.is_incomplete()), (Ok(()), 0, false));
        assert_eq!(front.bytes(), plain);
    }
}

/// With the checksums of UDP that it wants.
fn complete(mut front: Front, packet: &[u8]) -> Front {
    if front.is_incomplete() {
        front.complete(Sum::ZERO.add_bytes(&packet[front.removes()..]));
    }
    front
}

fn on(encapsulation: &Encapsulation, packet: &[u8]) -> Vec<u8> {
    let front = put_on(encapsulation, packet, packet.len() as u32, 0x1234_5678, 9).expect("it fits");
    changed(packet, &front)
}

/// A packet with the kept headers put back.
fn back(kept: &Headers, packet: &[u8]) -> Result<Vec<u8>, Mismatch> {
    let mut front = Front { removes: 7, length: 9, bytes: [0xa5; MAX_BYTES], sums: [0xa5; MAX_LAYERS] };
    let made = put_back(kept, packet, packet.len() as u32, &mut front);
    let plain = kept.plain(None).and_then(|it| it.front(first(packet), packet.len() as u32, (9, 9)));
    check_plain(plain, made, &front);
    made?;
    Ok(changed(packet, &complete(front, packet)))
}

/// What was found, with what [`take_off`] writes.
#[derive(Debug)]
struct Taken {
    length: u32,
    tunnel: Option<LayerKind>,
    key: u32,
    vlan: u16,
    /// Whether the checksums of UDP are right that are there.
    sums_are_right: bool,
    front: Front,
    kept: Headers,
}

fn cut_off(frame: &[u8], whole: u32, layers: &[LayerKind]) -> Result<Taken, Mismatch> {
    let mut front = Front { removes: 7, length: 9, bytes: [0xa5; MAX_BYTES], sums: [0xa5; MAX_LAYERS] };
    let mut kept = Headers { bytes: [0xa5; MAX_BYTES], length: 9, count: 3, ..Headers::NONE };
    let mut plainly = kept;
    let taken = take_off(frame, whole, layers, &mut front, &mut kept);
    if let ([LayerKind::Vxlan], Some(head)) = (layers, frame.first_chunk())
        && let Some(plain) = take_plain_off(head, whole, &mut plainly)
    {
        assert_eq!((taken, front.removes(), front.bytes()), (Ok(plain), PLAIN, &[][..]));
        assert_eq!((plainly.bytes(), plainly.spots()), (kept.bytes(), kept.spots()));
        assert_eq!((plainly.ethernet, plainly.ending), (kept.ethernet, kept.ending));
    }
    let TakenOff { length, kind, tunnel, key, vlan, sums } = taken?;
    let found = changed(frame, &front).get(12..14).map(<[u8]>::to_vec);
    assert!(found.is_none_or(|found| found == kind.to_be_bytes()));
    let is_right = |at: &u8| {
        let (pseudo, range) = datagram(frame, *at).expect("it was read");
        frame.get(range).is_some_and(|bytes| pseudo.add_bytes(bytes).folded() == 0xffff)
    };
    let sums_are_right = sums.iter().filter(|at| **at > 0).all(is_right);
    Ok(Taken { length, tunnel, key, vlan, sums_are_right, front, kept })
}

fn off(frame: &[u8], layers: &[LayerKind]) -> Result<Taken, Mismatch> {
    cut_off(frame, frame.len() as u32, layers)
}

#[test]
fn vxlan_as_the_rfc_has_it() {
    let packet = udp(0xb9);
    let frame = on(&vxlan(), &packet);
    let expected = [
        &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..],
        &[0x45, 0xb9, 0, 82, 0, 0, 0x40, 0, 64, 17, 0xb5, 0xde, 192, 0, 2, 1, 192, 0, 2, 2],
        &[0xc4, 0x4c, 0x12, 0xb5, 0, 62, 0, 0],
        &[8, 0, 0, 0, 0, 0, 7, 0],
        &packet,
    ];
    assert_eq!(frame, expected.concat());
    let taken = off(&frame, &[LayerKind::Vxlan]).expect("it is VXLAN");
    assert_eq!((taken.tunnel, taken.key, taken.length), (Some(LayerKind::Vxlan), 7, 46));
    assert_eq!((taken.front.removes(), taken.front.bytes()), (50, &[][..]));
    // What is put back on a packet that became longer has the new lengths, and a right checksum.
    let longer = [&packet[..], &[0; 10]].concat();
    let back = back(&taken.kept, &longer).expect("it fits");
    assert_eq!((back[16..18].to_vec(), back[38..40].to_vec()), (vec![0, 92], vec![0, 72]));
    assert!(checksum::verify(&back[14..34]));
    assert_eq!((&back[..16], &back[50..]), (&frame[..16], &longer[..]));
}

#[test]
fn the_ethernet_addresses_of_the_packet_are_kept_where_it_has_none_of_its_own_inside() {
    let settings =
        [LayerSettings::Vlan { id: 5, priority: 1, service: true }, LayerSettings::IpIp { outer: outer() }];
    let packet = udp(0);
    let frame = on(&Encapsulation::new(&settings).expect("allowed"), &packet);
    assert_eq!(frame[..18], [4, 4, 4, 4, 4, 4, 6, 6, 6, 6, 6, 6, 0x88, 0xa8, 0x20, 5, 8, 0]);
    let taken = off(&frame, &[LayerKind::Vlan, LayerKind::IpIp]).expect("both are there");
    assert_eq!(
        (taken.vlan, taken.tunnel, changed(&frame, &taken.front)),
        (0x2005, Some(LayerKind::IpIp), packet)
    );
    // A function has changed the addresses, and the packet to IPv6.
    let mut six = vec![9; 12];
    six.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 59, 64]);
    six.extend([1; 32]);
    let back = back(&taken.kept, &six).expect("it fits");
    assert_eq!((&back[..12], back[27], &back[38..]), (&[9; 12][..], 41, &six[14..]));
}

/// RFC 8200, section 8.1: over IPv6 and its pseudo header, in each of two tunnels. What had none gets none
/// again.
#[test]
fn udp_over_ipv6_has_its_checksum() {
    let six = |checksum| Outer {
        local: IpAddr::from([0x20; 16]),
        remote: IpAddr::from([0x21; 16]),
        checksum,
        ..outer()
    };
    let around = |checksum| {
        let layers =
            [LayerSettings::Geneve { vni: 8, outer: six(checksum) }, LayerSettings::IpIp { outer: outer() }];
        Encapsulation::new(&layers).expect("allowed")
    };
    let packet = udp(0);
    let frame = on(&around(true), &packet);
    let (pseudo, range) = datagram(&frame, 14).expect("UDP");
    assert_eq!((range.start, range.end), (54, frame.len()));
    assert_eq!(pseudo.add_bytes(&frame[range]).folded(), 0xffff);
    assert_ne!(frame[60..62], [0, 0]);
    let kinds = [LayerKind::Geneve, LayerKind::IpIp];
    for (checksum, wrong) in [(true, false), (true, true), (false, false)] {
        let mut frame = on(&around(checksum), &packet);
        if wrong {
            *frame.last_mut().expect("bytes") ^= 1;
        }
        let taken = off(&frame, &kinds).expect("both are there");
        assert_eq!(taken.sums_are_right, !wrong);
        let longer = [&packet[..], &[0xa5; 3]].concat();
        let back = off(&back(&taken.kept, &longer).expect("it fits"), &kinds).expect("again");
        assert!(back.sums_are_right);
        assert_eq!(back.kept.bytes()[60..62] == [0, 0], !checksum);
    }
}

/// RFC 6040: figure 4, by inner and outer ECN field.
#[test]
fn congestion_is_told_to_the_packet_inside_or_ends_it() {
    const NONE: u8 = 0;
    const ECT1: u8 = 1;
    const ECT0: u8 = 2;
    const CE: u8 = 3;
    let table = [
        (NONE, [Some(NONE), Some(NONE), Some(NONE), None]),
        (ECT0, [Some(ECT0), Some(ECT0), Some(ECT1), Some(CE)]),
        (ECT1, [Some(ECT1), Some(ECT1), Some(ECT1), Some(CE)]),
        (CE, [Some(CE); 4]),
    ];
    for (inner, row) in table {
        for (outer, expected) in [NONE, ECT0, ECT1, CE].into_iter().zip(row) {
            for tagged in [false, true] {
                let mut packet = udp(0x40 | inner);
                if tagged {
                    packet.splice(12..12, [0x81, 0, 0, 3]);
                }
                let mut frame = on(&vxlan(), &packet);
                assert_eq!(frame[15] & 3, inner, "normal mode copies it");
                frame[15] = frame[15] & !3 | outer;
                frame[24..26].fill(0);
                let sum = checksum::of(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
                let found = off(&frame, &[LayerKind::Vxlan]);
                let Some(expected) = expected else {
                    let mismatch = found.expect_err("it has to end");
                    assert_eq!(mismatch.reason, Reason::Congestion, "{inner} {outer}");
                    continue;
                };
                let inside = changed(&frame, &found.expect("it is VXLAN").front);
                let mut same = udp(0x40 | expected);
                if tagged {
                    same.splice(12..12, [0x81, 0, 0, 3]);
                }
                assert_eq!(inside, same, "{inner} {outer}");
            }
        }
    }
}

#[test]
fn what_is_not_as_it_has_to_be_is_refused_with_a_reason() {
    let whole = on(&vxlan(), &udp(0));
    let with = |changes: &[(usize, u8)]| {
        let mut frame = whole.clone();
        for (at, byte) in changes {
            frame[*at] = *byte;
        }
        if !changes.iter().any(|(at, _)| *at == 24) {
            frame[24..26].fill(0);
            let sum = checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        off(&frame, &[LayerKind::Vxlan]).expect_err("it is refused").reason
    };
    for (changes, reason) in [
        (&[(12, 0x86), (13, 0xdd)][..], Reason::Flags),
        (&[(13, 6)], Reason::Other),
        (&[(14, 0x46)], Reason::Options),
        (&[(14, 0x44)], Reason::Flags),
        (&[(20, 0x20)], Reason::Fragment),
        (&[(21, 1)], Reason::Fragment),
        (&[(24, 1)], Reason::Checksum),
        (&[(23, 6)], Reason::Other),
        (&[(17, 83)], Reason::Length),
        (&[(17, 19)], Reason::Length),
        (&[(17, 70)], Reason::Length),
        (&[(37, 0)], Reason::Other),
        (&[(39, 7)], Reason::Length),
        (&[(39, 63)], Reason::Length),
        (&[(39, 20)], Reason::Truncated),
        (&[(42, 0)], Reason::Flags),
        (&[(42, 0x0c)], Reason::Flags),
    ] {
        assert_eq!(with(changes), reason, "{changes:?}");
    }
    for length in 0..64 {
        let found = cut_off(&whole[..length], whole.len() as u32, &[LayerKind::Vxlan]);
        assert!(found.is_err(), "{length}");
    }
    assert!(cut_off(&whole[..64], whole.len() as u32, &[LayerKind::Vxlan]).is_ok());
    let all = [LayerKind::Vlan; 5];
    let tags = [&[2; 12][..], &[0x81, 0, 0, 1].repeat(5), &[8, 0]].concat();
    assert_eq!(off(&tags, &all).expect_err("five").reason, Reason::TooMany);
    let label = [&[2; 12][..], &[0x88, 0x47, 0, 0, 0x10, 64, 0, 0, 0x21, 64, 0x45]].concat();
    assert_eq!(off(&label, &[LayerKind::Mpls]).expect_err("not the bottom").reason, Reason::Other);
    let taken = off(&label, &[LayerKind::Mpls; 2]).expect("both");
    assert_eq!((taken.key, taken.front.bytes()), (2, &[&[2; 12][..], &[8, 0]].concat()[..]));
    // ARP in a frame without tags: no IP, for layers that carry nothing else; and nothing is longer than IP
    // allows.
    let ipip = Encapsulation::new(&[LayerSettings::IpIp { outer: outer() }]).expect("allowed");
    let arp = [&[2; 12][..], &[8, 6], &[0; 28]].concat();
    assert_eq!(put_on(&ipip, &arp, 42, 1, 1).expect_err("no IP").reason, Reason::NotIp);
    assert_eq!(put_on(&vxlan(), &udp(0), 65_500, 1, 1).expect_err("long").reason, Reason::TooLong);
    assert!(put_on(&vxlan(), &udp(0), 65_499, 1, 1).is_ok());
}

#[test]
fn settings_that_cannot_be_are_told() {
    let tag = LayerSettings::Vlan { id: 5, priority: 0, service: false };
    let label = LayerSettings::Mpls { label: 5, class: 0, ttl: 64 };
    let vxlan = |vni| LayerSettings::Vxlan { vni, outer: outer() };
    let six = LayerSettings::IpIp { outer: Outer { remote: IpAddr::from([0; 16]), ..outer() } };
    let long = LayerSettings::Vxlan {
        vni: 1,
        outer: Outer { local: IpAddr::from([1; 16]), remote: IpAddr::from([2; 16]), ..outer() },
    };
    for (layers, told) in [
        (&[vxlan(1 << 24)][..], "vxlan: vni is 16777216; allowed: 0 to 16777215"),
        (
            &[LayerSettings::Vlan { id: 4095, priority: 0, service: false }],
            "vlan: id is 4095; allowed: 0 to 4094",
        ),
        (&[six], "ipip: 192.0.2.1 and :: are of different families"),
        (&[label, tag], "vlan inside of mpls; allowed there: mpls, and what is in IP"),
        (
            &[LayerSettings::IpIp { outer: outer() }, label],
            "mpls inside of ipip; allowed there: what is in IP",
        ),
        (&[tag; 5], "5 layers; allowed: at most 4"),
        (&[long, long], "the layers take 140 bytes; allowed: at most 128"),
    ] {
        let error = Encapsulation::new(layers).expect_err(told).to_string();
        assert!(error.starts_with(told), "{error}");
    }
    assert_eq!(Encapsulation::new(&[tag, vxlan(7), tag]).expect("allowed").overhead(), 4 + 50 + 4);
}

/// The decoder's kind of a layer, which knows no tags, and takes labels together.
fn decoded(kind: LayerKind) -> Option<Tunnel> {
    match kind {
        LayerKind::Vlan => None,
        LayerKind::Gre | LayerKind::Nvgre => Some(Tunnel::Gre),
        LayerKind::Vxlan => Some(Tunnel::Vxlan),
        LayerKind::Geneve => Some(Tunnel::Geneve),
        LayerKind::Mpls => Some(Tunnel::Mpls),
        LayerKind::IpIp => Some(Tunnel::IpInIp),
    }
}

/// Kinds of the tunnels of a frame, what identifies the innermost, and what is in it, as `packet` reads them.
fn levels(frame: &[u8], until: usize) -> (Vec<Tunnel>, u32, Option<packet::FlowKey>) {
    let tunnels = Tunnels::new(Tunnel::ALL);
    let mut level = Level::outermost(dissect(frame).expect("a frame"), frame.len());
    let mut kinds = Vec::new();
    while kinds.len() < until {
        level = tunnels.inside(frame, &level).expect("it can be read").expect("another tunnel");
        kinds.extend(level.path.tunnel());
    }
    (kinds, level.path.id(), level.dissection.flow_key())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn what_is_put_on_is_what_the_model_writes_and_comes_off_again(
        settings in layers(),
        packet in packets(),
        hash in any::<u32>(),
        identification in any::<u16>(),
    ) {
        let Ok(encapsulation) = Encapsulation::new(&settings) else { return Ok(()) };
        let length = packet.len() as u32;
        let front = put_on(&encapsulation, &packet, length, hash, identification);
        let Some(expected) = model::put_on(&settings, &packet, hash, identification) else {
            prop_assert!(front.is_err());
            return Ok(());
        };
        let frame = changed(&packet, &front.expect("the model could"));
        prop_assert_eq!(&frame, &expected);
        prop_assert_eq!(frame.len(), packet.len() + encapsulation.overhead());
        // Off again, with padding behind.
        let kinds: Vec<_> = settings.iter().map(LayerSettings::kind).collect();
        let mut padded = frame.clone();
        let has_end = settings.iter().any(|layer| !matches!(layer.kind(), LayerKind::Vlan | LayerKind::Mpls));
        padded.resize(frame.len() + if has_end { 5 } else { 0 }, 0);
        let taken = off(&padded, &kinds).expect("it is there");
        prop_assert_eq!(taken.length, length);
        prop_assert!(taken.sums_are_right);
        prop_assert_eq!(&changed(&frame, &taken.front), &packet);
        prop_assert_eq!(&back(&taken.kept, &packet).expect("it fits"), &frame);
        // The decoder of tunnels finds the same.
        let mut kinds: Vec<_> = kinds.into_iter().filter_map(decoded).collect();
        kinds.dedup_by(|a, b| *a == Tunnel::Mpls && *a == *b);
        let (found, id, key) = levels(&frame, kinds.len());
        prop_assert_eq!(&found, &kinds);
        let innermost = settings.iter().rev().find(|layer| layer.kind() != LayerKind::Vlan);
        if let Some(layer) = innermost.filter(|layer| layer.kind() != LayerKind::Nvgre) {
            prop_assert_eq!((taken.tunnel, taken.key), (Some(layer.kind()), id));
        }
        prop_assert_eq!(key, dissect(&packet).expect("a frame").flow_key());
    }

    #[test]
    fn any_bytes_are_refused_or_come_off_and_go_back(
        settings in layers(),
        packet in packets(),
        changes in prop::collection::vec((0usize..160, any::<u8>()), 0..4),
        cut in 0usize..40,
        kinds in prop::collection::vec(prop::sample::select(&LayerKind::ALL[..]), 0..4),
        other in any::<bool>(),
    ) {
        let Ok(encapsulation) = Encapsulation::new(&settings) else { return Ok(()) };
        let mut frame = match put_on(&encapsulation, &packet, packet.len() as u32, 1, 1) {
            Ok(front) => changed(&packet, &front),
            Err(_) => packet,
        };
        for (at, byte) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        frame.truncate(frame.len().saturating_sub(cut));
        let kinds = if other { kinds } else { settings.iter().map(LayerSettings::kind).collect() };
        let Ok(taken) = off(&frame, &kinds) else { return Ok(()) };
        let mut packet = changed(&frame, &taken.front);
        prop_assert!(taken.length as usize <= packet.len());
        packet.truncate(taken.length as usize);
        if let Ok(again) = back(&taken.kept, &packet) {
            let taken_again = off(&again, &kinds).expect("it was there");
            prop_assert_eq!((taken_again.length, taken_again.key), (taken.length, taken.key));
            prop_assert_eq!(changed(&again, &taken_again.front), packet);
        }
    }
}

#[test]
fn the_commonest_headers_are_taken_off_and_made_at_once() {
    let (vxlan, mut kept) = (vxlan(), Headers::NONE);
    for packet in [udp(0), udp(2)] {
        let frame = on(&vxlan, &packet);
        let head = frame.first_chunk().expect("long enough");
        assert!(take_plain_off(head, frame.len() as u32, &mut kept).is_some());
        let (headers, fresh) = vxlan.for_flow(1, 2, None);
        for (headers, fresh) in [(headers, Some(fresh)), (&kept, None)] {
            let length = packet.len() as u32;
            let plain = headers.plain(fresh).expect("plain");
            assert!(plain.front(first(&packet), length, (1, 2)).is_some());
            assert!(plain.front(first(&packet), 65_499, (1, 2)).is_some());
            assert!(plain.front(first(&packet), 65_500, (1, 2)).is_none(), "too long");
            assert!(plain.front([0; 16], length, (1, 2)).is_none(), "no IP");
            assert!(plain.front(first(&packet), 15, (1, 2)).is_none(), "cut off");
        }
        // Each of these says something that is not plain.
        for (at, value) in [(12, 0x86), (14, 0x46), (15, 1), (20, 0x20), (21, 8), (23, 6), (24, 0xff)] {
            let mut other = *head;
            other[at] ^= value;
            assert!(take_plain_off(&other, frame.len() as u32, &mut kept).is_none(), "{at}");
        }
        for (at, value) in [(17, 1), (36, 1), (37, 1), (39, 1), (40, 1), (41, 1), (42, 8), (42, 4)] {
            let mut other = *head;
            other[at] ^= value;
            assert!(take_plain_off(&other, frame.len() as u32, &mut kept).is_none(), "{at}");
        }
        assert!(take_plain_off(head, frame.len() as u32 - 1, &mut kept).is_none(), "cut off");
    }
}

/// `cargo test --release -p encapsulation -- --ignored --nocapture cost`
#[test]
#[ignore = "a measurement"]
fn cost() {
    use std::hint::black_box;
    use std::time::Instant;
    let times = std::env::var("TIMES").map_or(1 << 22, |times| times.parse().expect("a number"));
    let encapsulation = vxlan();
    let mut packet = udp(0);
    packet.resize(200, 1);
    let frame = on(&encapsulation, &packet);
    let length = frame.len() as u32;
    let mut front = Front::NONE;
    let mut kept = Headers::NONE;
    let time = |name: &str, each: &mut dyn FnMut()| {
        let best = (0..9)
            .map(|_| {
                let start = Instant::now();
                (0..times).for_each(|_: u32| each());
                start.elapsed().as_nanos() as f64 / f64::from(times)
            })
            .fold(f64::MAX, f64::min);
        println!("{name}: {best:.1} ns");
    };
    time("nothing", &mut || _ = black_box((black_box(&frame), black_box(length))));
    time("vxlan off", &mut || {
        let layers = black_box(&[LayerKind::Vxlan][..]);
        _ = black_box(take_off(black_box(&frame), length, layers, &mut front, &mut kept));
    });
    time("vxlan on", &mut || {
        _ = black_box(encapsulation.put_on(black_box(&packet), 200, black_box(7), 1, &mut front));
    });
    time("vxlan back", &mut || {
        _ = black_box(put_back(black_box(&kept), black_box(&packet), 200, &mut front));
    });
    time("plain vxlan off", &mut || {
        let head = black_box(frame.first_chunk().expect("long enough"));
        _ = black_box(take_plain_off(head, length, &mut kept));
    });
    let (headers, fresh) = encapsulation.for_flow(0, 0, None);
    let plain = black_box(headers.plain(Some(fresh)));
    time("plain vxlan on", &mut || {
        _ = black_box(plain.and_then(|plain| plain.front(black_box(first(&packet)), 200, (black_box(7), 1))));
    });
    time("plain vxlan back", &mut || {
        let plain = black_box(&kept).plain(None);
        _ = black_box(plain.and_then(|plain| plain.front(black_box(first(&packet)), 200, (0, 0))));
    });
}
