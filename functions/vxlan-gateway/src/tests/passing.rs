//! Frames that pass two gateways, and what is around them between the two.

use super::*;
use nf_sdk::{PacketRecord, offload};
use packet::checksum::Endpoints;
use packet::tunnel::{Tunnel, Tunnels};
use packet::{checksum, dissect, ipv4, protocol, udp};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Between two hosts, in a VLAN or without a tag, of anything.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>(), 1u32..9, 0u32..9, prop::collection::vec(any::<u8>(), 2..1400)).prop_map(
        |(is_tagged, from, to, mut rest)| {
            // No tag by accident, and no type by which it would say what it is not.
            rest[..2].copy_from_slice(&[0x88, 0xb5]);
            let mut frame = if to == 0 { ALL } else { host(to + 10) }.to_vec();
            frame.extend(host(from));
            if is_tagged {
                frame.extend([0x81, 0, 0, 10]);
            }
            frame.extend(rest);
            frame
        },
    )
}

proptest! {
    #[test]
    fn what_passes_two_gateways_is_as_it_was(
        frames in prop::collection::vec((any_frame(), any::<bool>()), 1..30), is_v6: bool,
    ) {
        let pair = FIRST.replace(", 192.0.2.3, 192.0.2.4", "");
        let mut ends = if is_v6 { [FIRST_V6, SECOND_V6] } else { [pair.as_str(), SECOND] }.map(gateway);
        for (frame, is_back) in frames {
            let [first, second] = &mut ends;
            // Hosts of one side have other addresses than those of the other.
            let mut frame = frame;
            if is_back {
                frame.copy_within(..12, 0);
                frame[7] = 9;
                if frame[0] == 2 { frame[1] = 7; }
            } else if frame[0] == 2 {
                frame[1] = 9;
            }
            let (from, to) = if is_back { (second, first) } else { (first, second) };
            let outcome = from_vlan(from, &frame, at(0));
            let Some(Verdict::Interface(VXLAN)) = outcome.verdict else {
                return Err(TestCaseError::fail(format!("{outcome:?}")));
            };
            let outer = outcome.bytes.expect("within its buffer");
            let outcome = from_vxlan(to, &outer, at(0));
            prop_assert_eq!(outcome.verdict, Some(Verdict::Interface(VLAN)));
            prop_assert_eq!(outcome.bytes, Some(frame));
        }
    }

    /// Each flow has one port, and all are in RFC 7348's range.
    #[test]
    fn the_source_port_is_the_flows(source in 1u16.., destination in 1u16..) {
        let mut first = gateway(FIRST);
        let mut frame = tagged(ALL, host(1), 20);
        frame[38..40].copy_from_slice(&source.to_be_bytes());
        frame[40..42].copy_from_slice(&destination.to_be_bytes());
        let port = |bytes: &[u8]| u16::from_be_bytes([bytes[34], bytes[35]]);
        let once = port(&sent(&from_vlan(&mut first, &frame, at(0)), VXLAN));
        frame[60] ^= 1;
        prop_assert!(once >= 49152);
        prop_assert_eq!(port(&sent(&from_vlan(&mut first, &frame, at(0)), VXLAN)), once);
    }
}

#[test]
fn flows_have_different_source_ports() {
    let mut first = gateway(FIRST);
    let ports: BTreeSet<[u8; 2]> = (0..200u16)
        .map(|port| {
            let mut frame = tagged(ALL, host(1), 20);
            frame[38..40].copy_from_slice(&port.to_be_bytes());
            let outer = sent(&from_vlan(&mut first, &frame, at(0)), VXLAN);
            [outer[34], outer[35]]
        })
        .collect();
    assert!(ports.len() > 150, "{}", ports.len());
    // What is no IP has those of its addresses.
    let arp = |number| {
        let mut frame = tagged(ALL, host(number), 46);
        frame[16..18].copy_from_slice(&[8, 6]);
        frame
    };
    let of = |outer: Vec<u8>| [outer[34], outer[35]];
    let ports: BTreeSet<[u8; 2]> =
        (0..50).map(|number| of(sent(&from_vlan(&mut first, &arp(number), at(0)), VXLAN))).collect();
    assert!(ports.len() > 40, "{}", ports.len());
}

#[test]
fn the_headers_are_those_of_the_rfc() {
    let mut first = gateway(&format!("{FIRST}ttl: 9\ndscp: 46\n"));
    let mut inner = tagged(ALL, host(1), 20);
    // ECT(0): the outer header has it too (RFC 6040).
    inner[19] = 2;
    let outer = sent(&from_vlan(&mut first, &inner, at(0)), VXLAN);
    assert_eq!(outer[..14], [2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1, 8, 0]);
    let header = ipv4::View::new(&outer[14..]).expect("a header");
    assert!(header.verify_checksum() && header.dont_fragment());
    assert_eq!((header.ttl(), header.traffic_class()), (9, 46 << 2 | 2));
    assert_eq!((header.source().octets(), header.destination().octets()), ([192, 0, 2, 1], [192, 0, 2, 2]));
    let datagram = udp::View::new(header.payload()).expect("a header");
    assert_eq!((datagram.destination_port(), datagram.checksum()), (4789, 0));
    assert_eq!(datagram.payload()[..8], [8, 0, 0, 0, 0, 0, 7, 0]);
    let level = packet::tunnel::Level::outermost(dissect(&outer).expect("sound"), outer.len());
    let found = Tunnels::new([Tunnel::Vxlan]).header(&outer, &level);
    assert_eq!(found, Ok(Some((Tunnel::Vxlan, 7))));
    // Without the tag, and otherwise as it was.
    assert_eq!(outer[50..62], inner[..12]);
    assert_eq!(outer[62..], inner[16..]);
}

#[test]
fn udp_over_ipv6_has_a_checksum_unless_it_is_told() {
    let mut first = gateway(FIRST_V6);
    let ends = Endpoints::new(ip("2001:db8::1"), ip("2001:db8::2")).expect("one family");
    for payload in 0..20 {
        let outer = sent(&from_vlan(&mut first, &tagged(ALL, host(1), payload), at(0)), VXLAN);
        assert_ne!(outer[60..62], [0, 0]);
        assert!(ends.verify(protocol::UDP, &outer[54..]), "{payload}");
    }
    let mut without = gateway(&format!("{FIRST_V6}udp6_zero_checksum: true\n"));
    let outer = sent(&from_vlan(&mut without, &tagged(ALL, host(1), 20), at(0)), VXLAN);
    assert_eq!(outer[60..62], [0, 0]);
}

fn ip(text: &str) -> std::net::IpAddr {
    text.parse().expect("an address")
}

/// A checksum in the frame that a card would complete: the outer one is right when it is.
#[test]
fn a_checksum_that_is_to_be_completed_stays_so() {
    for (text, l4) in [(FIRST, 34), (FIRST_V6, 54)] {
        let mut first = gateway(text);
        for payload in 20..24 {
            let mut inner = tagged(ALL, host(1), payload);
            let complete = inner.clone();
            let ends = Endpoints::new(ip("10.0.0.1"), ip("10.0.0.2")).expect("one family");
            let (start, length) = (38, inner.len() - 38);
            // The sum of the pseudo header stands in its place.
            let Endpoints::V4 { source, destination } = ends else { panic!("IPv4") };
            let pseudo = checksum::Sum::ZERO.add_pseudo_v4(source, destination, 17, length as u16).folded();
            inner[start + 6..start + 8].copy_from_slice(&pseudo.to_be_bytes());
            let record = PacketRecord {
                ingress: VLAN,
                offload_flags: offload::NEEDS_CHECKSUM,
                csum_start: start as u16,
                csum_offset: 6,
                ..PacketRecord::default()
            };
            let outcome = first.run(&[TestPacket { bytes: inner.clone(), record }], at(0)).remove(0);
            let mut outer = sent(&outcome, VXLAN);
            assert_eq!(outer[l4 + 28..], inner[16..]);
            // What a card makes of it.
            outer[l4 + 28..].copy_from_slice(&complete[16..]);
            if text == FIRST_V6 {
                let ends = Endpoints::new(ip("2001:db8::1"), ip("2001:db8::2")).expect("one family");
                assert!(ends.verify(protocol::UDP, &outer[54..]), "{payload}");
            }
        }
    }
}

/// The kernel's tunnels over IPv6 leave the outer checksum to the card: the frame goes on without it.
#[test]
fn a_checksum_of_the_outer_headers_that_is_to_be_completed_goes_with_them() {
    let mut first = gateway(FIRST_V6);
    let inner = frame(host(1), host(2), 20);
    let mut outer = in_vxlan(7, "2001:db8::2", &inner);
    outer[60..62].copy_from_slice(&[1, 2]);
    let record = PacketRecord {
        ingress: VXLAN,
        offload_flags: offload::NEEDS_CHECKSUM,
        csum_start: 54,
        csum_offset: 6,
        ..PacketRecord::default()
    };
    let outcome = first.run(&[TestPacket { bytes: outer.clone(), record }], at(0)).remove(0);
    assert_eq!(outcome.verdict, Some(Verdict::Consume));
    let made = &first.host().emitted()[0];
    assert_eq!(made.verdict, Verdict::Interface(VLAN));
    assert_eq!(made.bytes, Some(tagged(host(1), host(2), 20)));
    // Several packets of the tunnel in one cannot be told apart.
    let record = PacketRecord { gso_type: offload::GSO_UDP_L4, gso_size: 100, ..record };
    dropped(&first.run(&[TestPacket { bytes: outer, record }], at(0)).remove(0), Reason::Unsegmented);
}

/// RFC 6040, figure 4.
#[test]
fn congestion_that_the_outer_packet_met_is_told() {
    for (inner, outer, becomes) in [
        (0u8, 0u8, Some(0u8)),
        (0, 3, None),
        (1, 3, Some(3)),
        (2, 3, Some(3)),
        (2, 1, Some(1)),
        (3, 0, Some(3)),
    ] {
        let mut first = gateway(FIRST);
        let mut frame = frame(host(1), host(2), 20);
        frame[15] = 0x28 | inner;
        nf_sdk::native::frames::seal(&mut frame);
        let mut packet = in_vxlan(7, "192.0.2.2", &frame);
        packet[15] = outer;
        packet[24..26].fill(0);
        let sum = checksum::of(&packet[14..34]);
        packet[24..26].copy_from_slice(&sum.to_be_bytes());
        let outcome = from_vxlan(&mut first, &packet, at(0));
        let Some(becomes) = becomes else {
            dropped(&outcome, Reason::Congestion);
            continue;
        };
        let out = sent(&outcome, VLAN);
        assert_eq!(out[19], 0x28 | becomes);
        assert!(ipv4::View::new(&out[18..]).expect("a header").verify_checksum());
    }
    // The same of IPv6, which has no checksum.
    let mut first = gateway(FIRST);
    let mut inner = packet("2001:db8::1", "2001:db8::2", 59, &[]);
    inner[15] = 0x20;
    let mut outer = in_vxlan(7, "192.0.2.2", &inner);
    outer[15] = 3;
    outer[24..26].fill(0);
    let sum = checksum::of(&outer[14..34]);
    outer[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(sent(&from_vxlan(&mut first, &outer, at(0)), VLAN)[18..20], [0x60, 0x30]);
}
