//! What is inside of frames: cases built by hand, and any bytes against the model.

use crate::ethernet::ethertype;
use crate::tunnel::{GENEVE_PORT, Level, MAX_LABELS, Path, Tunnel, Tunnels, VXLAN_PORT};
use crate::tunnel_model::{Found, model};
use crate::{ParseError, dissect};
use proptest::prelude::*;
use std::vec::Vec;

fn ether(kind: u16, rest: &[u8]) -> Vec<u8> {
    [&[2; 12], &kind.to_be_bytes()[..], rest].concat()
}

fn v4(protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = std::vec![0x45, 0];
    packet.extend((20 + rest.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(rest);
    packet
}

fn v6(protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = std::vec![0x60, 0, 0, 0];
    packet.extend((rest.len() as u16).to_be_bytes());
    packet.extend([protocol, 64]);
    packet.extend([0x20; 32]);
    packet.extend(rest);
    packet
}

fn udp(port: u16, rest: &[u8]) -> Vec<u8> {
    let mut segment = std::vec![0x30, 0x39];
    segment.extend(port.to_be_bytes());
    segment.extend((8 + rest.len() as u16).to_be_bytes());
    segment.extend([0, 0]);
    segment.extend(rest);
    segment
}

/// A packet that no tunnel is in: UDP to port 53.
fn plain() -> Vec<u8> {
    v4(17, &udp(53, &[7; 4]))
}

fn frame() -> Vec<u8> {
    ether(ethertype::IPV4, &plain())
}

/// All levels of a frame, and what they ended with.
fn levels(frame: &[u8], tunnels: &Tunnels) -> (Vec<Level>, Option<ParseError>) {
    let mut levels = Vec::new();
    let mut next = dissect(frame).map(|found| Some(Level::outermost(found, frame.len())));
    loop {
        match next {
            Ok(None) => return (levels, None),
            Err(error) => return (levels, Some(error)),
            Ok(Some(level)) => {
                levels.push(level);
                next = tunnels.inside(frame, &level);
            }
        }
    }
}

/// Every kind around the plain packet or frame, and what identifies it.
fn wrapped() -> Vec<(Tunnel, u32, Vec<u8>)> {
    let gre = |bytes: &[u8], rest: &[u8]| ether(ethertype::IPV4, &v4(47, &[bytes, rest].concat()));
    let over_udp = |port, header: &[u8], rest: &[u8]| {
        ether(ethertype::IPV6, &v6(17, &udp(port, &[header, rest].concat())))
    };
    let (packet, inner) = (plain(), frame());
    std::vec![
        (
            Tunnel::Pppoe,
            0x1234,
            ether(0x8864, &[&[0x11, 0, 0x12, 0x34, 0, 34, 0, 0x21], &packet[..]].concat())
        ),
        (Tunnel::Pppoe, 1, ether(0x8864, &[&[0x11, 0, 0, 1, 0, 33, 0x21], &packet[..]].concat())),
        (
            Tunnel::Mpls,
            0x12345,
            ether(0x8847, &[&[0, 1, 0x20, 1, 0x12, 0x34, 0x51, 64], &packet[..]].concat())
        ),
        (Tunnel::Mpls, 16, ether(0x8848, &[&[0, 1, 1, 64, 0, 0, 0, 0], &inner[..]].concat())),
        (Tunnel::Mpls, 17, ether(ethertype::IPV4, &v4(137, &[&[0, 1, 0x11, 64], &packet[..]].concat()))),
        (Tunnel::Gre, 0, gre(&[0, 0, 8, 0], &packet)),
        (Tunnel::Gre, 0x0102_0304, gre(&[0xb0, 0, 0x65, 0x58, 9, 9, 9, 9, 1, 2, 3, 4, 0, 0, 0, 1], &inner)),
        (
            Tunnel::Gre,
            77,
            gre(&[0x30, 0x81, 0x88, 0x0b, 0, 33, 0, 77, 0, 0, 0, 1, 0, 0, 0, 2, 0xff, 3, 0, 0x21], &packet)
        ),
        (Tunnel::IpInIp, 0, ether(ethertype::IPV6, &v6(4, &packet))),
        (Tunnel::Vxlan, 42, over_udp(VXLAN_PORT, &[8, 0, 0, 0, 0, 0, 42, 0], &inner)),
        (Tunnel::Vxlan, 43, over_udp(VXLAN_PORT, &[12, 0, 0, 1, 0, 0, 43, 0], &packet)),
        (Tunnel::Geneve, 44, over_udp(GENEVE_PORT, &[1, 0, 0x65, 0x58, 0, 0, 44, 0, 1, 2, 3, 4], &inner)),
        (Tunnel::Nsh, 0x0000_05ff, ether(0x894f, &[&[0, 2, 2, 1, 0, 0, 5, 255], &packet[..]].concat())),
        (Tunnel::Erspan, 0, gre(&[0, 0, 0x88, 0xbe], &inner)),
        (Tunnel::Erspan, 5, gre(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 7, 0, 5, 0, 0, 0, 0], &inner)),
        (
            Tunnel::Erspan,
            6,
            gre(&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 7, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0], &inner)
        ),
    ]
}

#[test]
fn every_tunnel_is_looked_into() {
    let all = Tunnels::new(Tunnel::ALL);
    let expected = dissect(&frame()).unwrap().flow_key();
    for (tunnel, id, frame) in wrapped() {
        let (found, error) = levels(&frame, &all);
        assert_eq!((found.len(), error), (2, None), "{tunnel:?}");
        let inner = found[1];
        assert_eq!((inner.path.tunnel(), inner.path.id(), inner.path.depth()), (Some(tunnel), id, 1));
        assert_eq!(inner.dissection.flow_key(), expected, "{tunnel:?}");
        assert_eq!(inner.dissection.network.unwrap().end, frame.len(), "{tunnel:?}");
        assert_eq!(Path::from_bits(inner.path.to_bits()), Some(inner.path));
        // Only where it is asked for.
        let others = Tunnels::new(Tunnel::ALL.into_iter().filter(|other| *other != tunnel));
        let (found, error) = levels(&frame, &others);
        let passed = tunnel == Tunnel::Erspan && found.len() == 2;
        assert!(error.is_none() && (found.len() == 1 || passed), "{tunnel:?}");
        assert_eq!(levels(&frame, &Tunnels::NONE).0.len(), 1);
        // Cut anywhere, it is at most the outer packet that is read, or an error.
        for length in 0..frame.len() - plain().len() {
            let (found, error) = levels(&frame[..length], &all);
            assert!(found.len() < 2 && (error.is_some() || length < 14 + 40), "{tunnel:?} {length}");
        }
    }
}

#[test]
fn ports_are_those_that_are_configured() {
    let all = Tunnels::new(Tunnel::ALL).with_ports(&[8472, 4789], &[]);
    let vxlan = |port| {
        ether(ethertype::IPV4, &v4(17, &udp(port, &[&[8, 0, 0, 0, 0, 0, 1, 0], &frame()[..]].concat())))
    };
    assert_eq!([8472, 4789, 4790, 0].map(|port| levels(&vxlan(port), &all).0.len()), [2, 2, 1, 1]);
    let (_, _, geneve) = wrapped().into_iter().find(|(tunnel, ..)| *tunnel == Tunnel::Geneve).unwrap();
    assert_eq!(levels(&geneve, &all).0.len(), 1);
}

#[test]
fn depth_and_labels_are_bounded() {
    let all = Tunnels::new(Tunnel::ALL);
    let nested = |depth| (0..depth).fold(plain(), |inner, _| v4(4, &inner));
    for depth in 0..7 {
        let (found, error) = levels(&ether(ethertype::IPV4, &nested(depth)), &all);
        assert_eq!(found.len(), 1 + depth.min(4));
        assert_eq!(error, (depth > 4).then_some(ParseError::TooDeep));
        assert!(found.iter().enumerate().all(|(n, level)| level.path.depth() == n));
    }
    for labels in [1, MAX_LABELS, MAX_LABELS + 1] {
        let stack: Vec<u8> = (1..=labels).flat_map(|n| [0, 1, u8::from(n == labels), 64]).collect();
        let (found, error) = levels(&ether(ethertype::MPLS, &[&stack, &plain()[..]].concat()), &all);
        let too_many = labels > MAX_LABELS;
        assert_eq!(
            (found.len(), error),
            (2 - usize::from(too_many), too_many.then_some(ParseError::TooManyLabels))
        );
    }
}

#[test]
fn fragments_are_not_looked_into() {
    let mut packet = v4(4, &plain());
    packet[6] = 0x20;
    assert_eq!(levels(&ether(ethertype::IPV4, &packet), &Tunnels::new(Tunnel::ALL)).0.len(), 1);
}

#[test]
fn a_first_fragment_tells_whether_a_tunnel_may_begin_in_it() {
    let may_begin = |frame: &[u8], tunnels: &Tunnels| {
        tunnels.may_begin_in(&Level::outermost(dissect(frame).unwrap(), frame.len()))
    };
    let fragment = |protocol, payload: &[u8], flags: [u8; 2]| {
        let mut packet = v4(protocol, payload);
        packet[6..8].copy_from_slice(&flags);
        ether(ethertype::IPV4, &packet)
    };
    let all = Tunnels::new(Tunnel::ALL);
    let (first, later, whole) = ([0x20, 0], [0x20, 3], [0x40, 0]);
    for (protocol, payload, tunnel) in [
        (4, plain(), Tunnel::IpInIp),
        (47, std::vec![0; 16], Tunnel::Gre),
        (137, std::vec![0; 16], Tunnel::Mpls),
        (17, udp(VXLAN_PORT, &[8; 8]), Tunnel::Vxlan),
        (17, udp(GENEVE_PORT, &[8; 8]), Tunnel::Geneve),
    ] {
        assert!(may_begin(&fragment(protocol, &payload, first), &all), "{tunnel:?}");
        assert!(may_begin(&fragment(protocol, &payload, first), &Tunnels::new([tunnel])), "{tunnel:?}");
        assert!(!may_begin(&fragment(protocol, &payload, first), &Tunnels::new([Tunnel::Nsh])), "{tunnel:?}");
        assert!(!may_begin(&fragment(protocol, &payload, later), &all), "{tunnel:?}");
        assert!(!may_begin(&fragment(protocol, &payload, whole), &all), "{tunnel:?}");
    }
    assert!(!may_begin(&fragment(17, &udp(53, &[8; 8]), first), &all));
}

#[test]
fn an_inner_packet_ends_with_the_outer() {
    // The outer packet ends before the padding, in which the inner one would find its last bytes.
    let mut packet = v4(4, &plain());
    let length = packet.len() as u16 - 2;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    let (found, _) = levels(&ether(ethertype::IPV4, &v4(4, &packet)), &Tunnels::new(Tunnel::ALL));
    assert_eq!(found.len(), 3);
    assert!(found[2].dissection.network.unwrap().end > found[1].dissection.network.unwrap().end);
    let cut = v4(4, &v4(17, &[0, 1, 0, 2])[..22]);
    let (found, error) =
        levels(&ether(ethertype::IPV4, &[&cut[..], &[0; 30]].concat()), &Tunnels::new(Tunnel::ALL));
    assert!(found.len() == 1 && error.is_some_and(|error| error.is_unreadable()), "padding is no header");
}

fn compare(frame: &[u8], has: &[Tunnel]) -> Result<(), TestCaseError> {
    let tunnels = Tunnels::new(has.iter().copied());
    let (found, error) = levels(frame, &tunnels);
    let (expected, whole) = model(frame, has, &[VXLAN_PORT], &[GENEVE_PORT]);
    let found: Vec<(Option<Tunnel>, usize, u32, _)> = found
        .iter()
        .map(|level| (level.path.tunnel(), level.path.depth(), level.path.id(), level.dissection.flow_key()))
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(around, key): &Found| {
            let (tunnel, id) = around.last().map_or((None, 0), |(tunnel, id)| (Some(*tunnel), *id));
            (tunnel, around.len(), id, *key)
        })
        .collect();
    prop_assert_eq!(found, expected);
    prop_assert_eq!(error.is_none(), whole);
    Ok(())
}

proptest! {
    #[test]
    fn agrees_with_the_model(
        picks in prop::collection::vec(0usize..16, 0..7), tags in 0usize..4,
        changes in prop::collection::vec((0usize..300, any::<u8>()), 0..4),
        cut in prop::option::of(0usize..300), has in prop::sample::subsequence(Tunnel::ALL.to_vec(), 0..=8),
    ) {
        let wrapped = wrapped();
        let mut frame = frame();
        for pick in picks {
            // The frame of the packet inside is replaced by what there is; lengths may then disagree, which
            // is what comes from the wire as well.
            let (_, _, outer) = &wrapped[pick];
            let is_frame = outer.ends_with(&self::frame());
            let header = &outer[..outer.len() - if is_frame { self::frame().len() } else { plain().len() }];
            let inner = if is_frame || frame[12..14] != [8, 0] { &frame[..] } else { &frame[14..] };
            let mut next = [header, inner].concat();
            let length = next.len() as u16 - 14;
            match next[12..14] {
                [8, 0] => next[16..18].copy_from_slice(&length.to_be_bytes()),
                [0x86, 0xdd] => next[18..20].copy_from_slice(&(length - 40).to_be_bytes()),
                _ => {}
            }
            frame = next;
        }
        for n in 0..tags {
            let tag = [[0x81, 0, 0, 7], [0x88, 0xa8, 0, 8], [0x91, 0, 0, 9]][n % 3];
            frame.splice(12..12, tag);
        }
        for (at, byte) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        frame.truncate(cut.unwrap_or(frame.len()));
        compare(&frame, &has)?;
    }

    #[test]
    fn paths_are_numbers(bits: u64) {
        if let Some(path) = Path::from_bits(bits) {
            prop_assert_eq!(path.to_bits(), bits);
        }
    }
}
