//! The dissector and the flow hash, on frames built layer by layer and on arbitrary bytes.

use crate::checksum::Endpoints;
use crate::ethernet::{self, Tag, Tags, ethertype};
use crate::flow_hash::of_dissection as slow_flow_hash;
use crate::*;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use std::vec::Vec;

/// A frame to be built, and what must be found in it.
#[derive(Clone, Debug)]
struct Plan {
    tags: Tags,
    key: FlowKey,
    fragment: Fragment,
    /// IPv4 options or IPv6 extension headers of eight bytes each.
    extras: usize,
    padding: usize,
}

impl Plan {
    fn build(&self) -> Vec<u8> {
        let segment = self.segment();
        let mut frame = std::vec![0; ethernet::HEADER_LENGTH + 4 * self.tags.as_slice().len()];
        let kind = match (self.key.source, self.key.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend(self.packet_v4(source, destination, &segment));
                ethertype::IPV4
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend(self.packet_v6(source, destination, &segment));
                ethertype::IPV6
            }
            _ => unreachable!(),
        };
        frame.extend(std::vec![0xee; self.padding]);
        let repr = ethernet::Repr { destination: [2; 6], source: [4; 6], tags: self.tags, ethertype: kind };
        repr.emit(&mut frame).unwrap();
        frame
    }

    /// The transport header and some data; of a later fragment, bytes that would make wrong ports.
    fn segment(&self) -> Vec<u8> {
        let endpoints = Endpoints::new(self.key.source, self.key.destination).unwrap();
        let mut segment = std::vec![0; 40];
        if matches!(self.fragment, Fragment::Later { .. }) {
            segment.fill(0xdd);
            return segment;
        }
        let (source_port, destination_port) = (self.key.source_port, self.key.destination_port);
        match self.key.protocol {
            protocol::TCP => {
                let repr = tcp::Repr {
                    source_port,
                    destination_port,
                    sequence: 1,
                    acknowledgment: 2,
                    flags: tcp::Flags::ACK,
                    window: 3,
                    urgent: 0,
                    options: &[],
                };
                repr.emit(&mut segment, &endpoints).unwrap();
            }
            protocol::UDP => {
                let repr = udp::Repr { source_port, destination_port, payload_length: 32 };
                repr.emit(&mut segment, &endpoints).unwrap();
            }
            _ => {}
        }
        segment
    }

    fn packet_v4(&self, source: Ipv4Addr, destination: Ipv4Addr, segment: &[u8]) -> Vec<u8> {
        let options = std::vec![1; 4 * self.extras];
        let (fragment_offset, more_fragments, identification) = match self.fragment {
            Fragment::Whole => (0, false, 0),
            Fragment::First { identification } => (0, true, identification as u16),
            Fragment::Later { identification, offset, more } => (offset, more, identification as u16),
        };
        let repr = ipv4::Repr {
            traffic_class: 0,
            identification,
            dont_fragment: false,
            more_fragments,
            fragment_offset,
            ttl: 64,
            protocol: self.key.protocol,
            source,
            destination,
            options: &options,
            payload_length: segment.len(),
        };
        let mut packet = std::vec![0; repr.header_length()];
        repr.emit(&mut packet).unwrap();
        packet.extend(segment);
        packet
    }

    fn packet_v6(&self, source: Ipv6Addr, destination: Ipv6Addr, segment: &[u8]) -> Vec<u8> {
        let header = match self.fragment {
            Fragment::Whole => None,
            Fragment::First { identification } => {
                Some(ipv6::FragmentHeader { identification, offset: 0, more: true })
            }
            Fragment::Later { identification, offset, more } => {
                Some(ipv6::FragmentHeader { identification, offset, more })
            }
        };
        let mut payload = Vec::new();
        let last = if header.is_some() { protocol::FRAGMENT } else { self.key.protocol };
        for n in 0..self.extras {
            let next = if n + 1 == self.extras { last } else { protocol::DESTINATION_OPTIONS };
            payload.extend([next, 0, 1, 4, 0, 0, 0, 0]);
        }
        if let Some(header) = header {
            let mut bytes = [0; ipv6::FRAGMENT_HEADER_LENGTH];
            ipv6::emit_fragment_header(header, self.key.protocol, &mut bytes).unwrap();
            payload.extend(bytes);
        }
        payload.extend(segment);
        let repr = ipv6::Repr {
            traffic_class: 0,
            flow_label: 0,
            payload_length: payload.len() as u16,
            next_header: if self.extras > 0 { protocol::DESTINATION_OPTIONS } else { last },
            hop_limit: 64,
            source,
            destination,
        };
        let mut packet = std::vec![0; ipv6::HEADER_LENGTH];
        repr.emit(&mut packet).unwrap();
        packet.extend(payload);
        packet
    }

    fn reversed(&self) -> Plan {
        Plan { key: self.key.reversed(), ..self.clone() }
    }
}

fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|[s, d]| (IpAddr::from(s), IpAddr::from(d))),
        any::<[[u8; 16]; 2]>().prop_map(|[s, d]| (IpAddr::from(s), IpAddr::from(d))),
    ]
}

fn fragments() -> impl Strategy<Value = Fragment> {
    prop_oneof![
        3 => Just(Fragment::Whole),
        1 => any::<u16>().prop_map(|id| Fragment::First { identification: id.into() }),
        1 => (any::<u16>(), 1u16..0x2000, any::<bool>()).prop_map(|(id, offset, more)| Fragment::Later {
            identification: id.into(), offset: offset << 3, more,
        }),
    ]
}

fn plans() -> impl Strategy<Value = Plan> {
    let tag = |tpid| any::<u16>().prop_map(move |tci| Tag { tpid, tci });
    let tags = prop_oneof![
        Just(Tags::NONE),
        tag(ethertype::VLAN).prop_map(Tags::one),
        (tag(ethertype::SERVICE_VLAN), tag(ethertype::VLAN)).prop_map(|(o, i)| Tags::two(o, i)),
    ];
    let protocols = prop_oneof![Just(protocol::TCP), Just(protocol::UDP), Just(protocol::ESP)];
    (tags, addresses(), any::<[u16; 2]>(), protocols, fragments(), 0usize..5, 0usize..30).prop_map(
        |(tags, (source, destination), ports, protocol, fragment, extras, padding)| {
            let has_ports = protocol::has_ports(protocol) && !matches!(fragment, Fragment::Later { .. });
            let [source_port, destination_port] = if has_ports { ports } else { [0, 0] };
            let key = FlowKey { source, destination, protocol, source_port, destination_port };
            Plan { tags, key, fragment, extras, padding }
        },
    )
}

proptest! {
    #[test]
    fn finds_what_was_built(plan in plans()) {
        let frame = plan.build();
        let found = dissect(&frame).unwrap();
        prop_assert_eq!(found.tags, plan.tags);
        prop_assert_eq!(found.flow_key(), Some(plan.key));
        let network = found.network.unwrap();
        prop_assert_eq!(network.fragment, plan.fragment);
        prop_assert_eq!(network.end, frame.len() - plan.padding);
        prop_assert_eq!(network.l4_offset, network.end - 40);
        let has_ports = protocol::has_ports(plan.key.protocol) && !matches!(plan.fragment, Fragment::Later { .. });
        prop_assert_eq!(matches!(network.transport, Transport::Ports { .. }), has_ports);
    }

    #[test]
    fn a_length_of_zero_is_that_of_the_frame(plan in plans()) {
        let mut frame = Plan { padding: 0, ..plan }.build();
        let l3 = dissect(&frame).unwrap().l3_offset;
        let expected = dissect(&frame).unwrap();
        if expected.ethertype == ethertype::IPV4 {
            frame[l3 + 2..l3 + 4].fill(0);
            prop_assert_eq!(dissect(&frame), Ok(expected));
            prop_assert_ne!(symmetric_flow_hash(&frame).0, 0);
        }
    }

    #[test]
    fn the_hash_is_symmetric_and_one_way_of_computing_it(plan in plans()) {
        let frame = plan.build();
        let (hash, vlan) = symmetric_flow_hash(&frame);
        prop_assert_eq!(vlan, outer_vlan([frame[12], frame[13], frame[14], frame[15]]));
        prop_assert_ne!(hash, 0);
        prop_assert_eq!(vlan, plan.tags.outer_tci());
        prop_assert_eq!(hash, slow_flow_hash(&frame));
        prop_assert_eq!(hash, symmetric_flow_hash(&plan.reversed().build()).0);
        let untagged = Plan { tags: Tags::NONE, ..plan };
        prop_assert_eq!(hash, symmetric_flow_hash(&untagged.build()).0);
    }

    #[test]
    fn the_hash_takes_every_part_of_the_key(plan in plans(), bit in 0u32..16) {
        prop_assume!(plan.fragment == Fragment::Whole && protocol::has_ports(plan.key.protocol));
        let hash = |key| symmetric_flow_hash(&Plan { key, ..plan.clone() }.build()).0;
        let this = hash(plan.key);
        let mut other = plan.key;
        other.source_port ^= 1 << bit;
        prop_assert_ne!(hash(other), this);
        other = plan.key;
        other.protocol = protocol::TCP + protocol::UDP - other.protocol;
        prop_assert_ne!(hash(other), this);
        other = plan.key;
        other.destination = match other.destination {
            IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits() ^ 1 << bit).into(),
            IpAddr::V6(a) => Ipv6Addr::from_bits(a.to_bits() ^ 1 << (bit * 8)).into(),
        };
        prop_assert_ne!(hash(other), this);
    }

    #[test]
    fn all_fragments_of_a_packet_have_one_hash(plan in plans()) {
        let first = Plan { fragment: Fragment::First { identification: 7 }, ..plan.clone() };
        let later = Fragment::Later { identification: 7, offset: 1480, more: false };
        let later = Plan { fragment: later, ..plan };
        let hash = |plan: &Plan| symmetric_flow_hash(&plan.build()).0;
        prop_assert_eq!(hash(&first), hash(&later));
    }

    #[test]
    fn every_cut_is_an_error_or_the_truth(plan in plans()) {
        let frame = plan.build();
        let whole = dissect(&frame).unwrap();
        for length in 0..frame.len() {
            match dissect(&frame[..length]) {
                Ok(found) => prop_assert_eq!(found, whole),
                Err(ParseError::Truncated { needed, found, .. }) => prop_assert!(needed > found),
                Err(other) => prop_assert!(false, "{} bytes: {}", length, other),
            }
            let hash = symmetric_flow_hash(&frame[..length]).0;
            prop_assert!(hash == 0 || hash == symmetric_flow_hash(&frame).0);
        }
    }

    #[test]
    fn nothing_panics_on_damaged_frames(plan in plans(), damage in proptest::collection::vec(any::<(u16, u8)>(), 1..8)) {
        let mut frame = plan.build();
        for (at, value) in damage {
            let at = usize::from(at) % frame.len();
            frame[at] = value;
        }
        look_at_everything(&frame);
    }

    #[test]
    fn nothing_panics_on_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        look_at_everything(&bytes);
    }
}

/// Every parser of the crate, and the two ways to compute the hash.
fn look_at_everything(bytes: &[u8]) {
    assert_eq!(symmetric_flow_hash(bytes).0, slow_flow_hash(bytes));
    if let Ok(found) = dissect(bytes) {
        assert!(found.l3_offset <= bytes.len());
        assert!(found.network.is_none_or(|n| n.l4_offset <= bytes.len().max(n.end)));
    }
    let _ = ethernet::View::new(bytes).map(|v| (ethernet::Repr::parse(&v), v.payload().len()));
    let _ = arp::View::new(bytes).map(|v| arp::Repr::parse(&v));
    let _ = ipv4::View::new(bytes).map(|v| {
        (ipv4::Repr::parse(&v), v.options().count(), v.payload().len(), v.is_cut(), v.verify_checksum())
    });
    let _ = ipv6::View::new(bytes).map(|v| (ipv6::Repr::parse(&v), v.upper(), v.payload().len(), v.is_cut()));
    let _ = tcp::View::new(bytes).map(|v| (tcp::Repr::parse(&v), v.options().count(), v.payload().len()));
    let _ = udp::View::new(bytes).map(|v| (udp::Repr::parse(&v), v.payload().len(), v.is_cut()));
    let _ = icmpv4::View::new(bytes).map(|v| (icmpv4::Repr::parse(&v), v.verify_checksum()));
    let _ = icmpv6::View::new(bytes).map(|v| (icmpv6::Repr::parse(&v), v.payload().len()));
}

#[test]
fn other_frames_have_no_network_and_no_hash() {
    let mut frame = [0u8; 60];
    frame[12..14].copy_from_slice(&ethertype::ARP.to_be_bytes());
    assert_eq!(dissect(&frame).unwrap().network, None);
    assert_eq!(symmetric_flow_hash(&frame), (0, 0));
    assert_eq!(symmetric_flow_hash(&[]), (0, 0));
}

#[test]
fn bytes_behind_the_packets_end_are_no_ports() {
    // A UDP packet whose total length ends after two bytes of its header; the padding would be read as a
    // port.
    let mut frame = [0x11u8; 60];
    frame[12..14].copy_from_slice(&ethertype::IPV4.to_be_bytes());
    let repr = ipv4::Repr {
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 1,
        protocol: protocol::UDP,
        source: Ipv4Addr::LOCALHOST,
        destination: Ipv4Addr::LOCALHOST,
        options: &[],
        payload_length: 2,
    };
    repr.emit(&mut frame[14..]).unwrap();
    assert_eq!(dissect(&frame), Err(ParseError::Truncated { layer: Layer::Udp, needed: 4, found: 2 }));
    assert_eq!(symmetric_flow_hash(&frame), (0, 0));
}

#[test]
fn icmp_has_type_code_and_the_identifier_of_an_echo() {
    let mut frame = std::vec![0u8; 14 + 20 + 8];
    frame[12..14].copy_from_slice(&ethertype::IPV4.to_be_bytes());
    let mut repr = ipv4::Repr {
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 1,
        protocol: protocol::ICMPV4,
        source: Ipv4Addr::LOCALHOST,
        destination: Ipv4Addr::LOCALHOST,
        options: &[],
        payload_length: 8,
    };
    repr.emit(&mut frame[14..]).unwrap();
    let echo = icmpv4::Repr { kind: icmpv4::kind::ECHO_REQUEST, code: 0, rest: [0x12, 0x34, 0, 1] };
    echo.emit(&mut frame[34..]).unwrap();
    let transport = |frame: &[u8]| dissect(frame).unwrap().network.unwrap().transport;
    assert_eq!(transport(&frame), Transport::Icmp { kind: 8, code: 0, identifier: 0x1234 });
    let unreachable = icmpv4::Repr { kind: icmpv4::kind::UNREACHABLE, code: 3, rest: [0x12, 0x34, 0, 1] };
    unreachable.emit(&mut frame[34..]).unwrap();
    assert_eq!(transport(&frame), Transport::Icmp { kind: 3, code: 3, identifier: 0 });
    // ICMP of the other family is no ICMP.
    repr.protocol = protocol::ICMPV6;
    repr.emit(&mut frame[14..]).unwrap();
    assert_eq!(transport(&frame), Transport::Opaque);
}

#[test]
fn the_hash_spreads_neighbouring_flows() {
    let mut buckets = [0u32; 256];
    for n in 0..65_536u32 {
        let key = FlowKey {
            source: Ipv4Addr::from_bits(0x0a00_0000 + (n >> 8)).into(),
            destination: Ipv4Addr::new(192, 0, 2, 1).into(),
            protocol: protocol::UDP,
            source_port: 1024 + (n & 0xff) as u16,
            destination_port: 53,
        };
        let plan = Plan { tags: Tags::NONE, key, fragment: Fragment::Whole, extras: 0, padding: 0 };
        buckets[(symmetric_flow_hash(&plan.build()).0 & 0xff) as usize] += 1;
    }
    // 256 expected in each, with a deviation of 16: eight deviations never happen by chance.
    let (low, high) = (buckets.iter().min().unwrap(), buckets.iter().max().unwrap());
    assert!(*low > 128 && *high < 384, "{low} to {high}");
}
