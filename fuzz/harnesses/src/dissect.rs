//! Arbitrary frames through the dissector and its model, which have to agree, the flow hash and every view.
//!
//! The model takes one field after the other off the front of what is left; where there is not as much, the
//! frame cannot be read.

use packet::{Fragment, Network, Transport, arp, dissect, ethernet, icmpv4, icmpv6, ipv4, ipv6};
use packet::{symmetric_flow_hash, tcp, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is left, and how much was taken.
#[derive(Clone, Copy)]
struct Rest<'a> {
    bytes: &'a [u8],
    taken: usize,
}

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.bytes.split_at_checked(count)?;
        *self = Rest { bytes: left, taken: self.taken + count };
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<u128> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
    }

    fn byte(&mut self) -> Option<u8> {
        self.number(1).map(|number| number as u8)
    }

    fn half(&mut self) -> Option<u16> {
        self.number(2).map(|number| number as u16)
    }

    /// Without what lies behind so many bytes.
    fn cut(self, length: usize) -> Rest<'a> {
        Rest { bytes: &self.bytes[..self.bytes.len().min(length)], ..self }
    }
}

/// EtherType, tags with their numbers, where the network header begins, and that header.
type Found = (u16, Vec<(u16, u16)>, usize, Option<Network>);

fn model(frame: &[u8]) -> Option<Found> {
    let mut rest = Rest { bytes: frame, taken: 0 };
    rest.take(12)?;
    let (mut ethertype, mut tags) = (rest.half()?, vec![]);
    while [0x8100, 0x88a8, 0x9100].contains(&ethertype) {
        tags.push((ethertype, rest.half()?));
        ethertype = rest.half()?;
    }
    if ethertype < 0x600
        && let [0xaa, 0xaa, 3, 0, 0, 0 | 0xf8, high, low, ..] = *rest.bytes
    {
        ethertype = u16::from_be_bytes([high, low]);
        rest.take(8)?;
    }
    let network = match ethertype {
        _ if tags.len() > 16 => return None,
        0x0800 => Some(v4(rest)?),
        0x86dd => Some(v6(rest)?),
        _ => None,
    };
    Some((ethertype, tags, rest.taken, network))
}

fn v4(mut rest: Rest<'_>) -> Option<Network> {
    let start = rest;
    let (first, _, total) = (rest.byte()?, rest.byte()?, usize::from(rest.half()?));
    let (identification, bits) = (u32::from(rest.half()?), rest.half()?);
    let (_, protocol, _) = (rest.byte()?, rest.byte()?, rest.half()?);
    let [source, destination] =
        [rest.number(4)?, rest.number(4)?].map(|address| Ipv4Addr::from_bits(address as u32));
    let header = usize::from(first % 16) * 4;
    rest.take(header.checked_sub(20)?)?;
    // Captures have 0 where a network card cut the segment.
    let length = if total == 0 { start.bytes.len() } else { total };
    if first / 16 != 4 || length < header {
        return None;
    }
    let (offset, more) = (bits % 0x2000 * 8, bits & 0x2000 != 0);
    let fragment = fragment(identification, offset, more);
    let network = Network {
        source: source.into(),
        destination: destination.into(),
        protocol,
        fragment,
        transport: transport(protocol, protocol == 1, fragment, rest.cut(length - header))?,
        l4_offset: rest.taken,
        end: start.taken + length,
    };
    Some(network)
}

fn v6(mut rest: Rest<'_>) -> Option<Network> {
    let version = rest.number(4)? >> 28;
    let (length, mut next, _) = (usize::from(rest.half()?), rest.byte()?, rest.byte()?);
    let [source, destination] = [rest.number(16)?, rest.number(16)?].map(Ipv6Addr::from_bits);
    if version != 6 {
        return None;
    }
    let end = rest.taken + length;
    let (mut rest, mut found, mut headers) = (rest.cut(length), Fragment::Whole, 0);
    loop {
        let (this, mut header) = (next, rest);
        let length = match this {
            // Only directly behind the fixed header.
            0 if headers > 0 => return None,
            0 | 43 | 60 => (header.byte()?, 8 + 8 * usize::from(header.byte()?)).1,
            51 => (header.byte()?, 8 + 4 * usize::from(header.byte()?)).1,
            44 => 8,
            _ => break,
        };
        let mut header = Rest { bytes: rest.take(length)?, taken: 0 };
        (next, headers) = (header.byte()?, headers + 1);
        if this == 44 {
            let (_, bits, identification) = (header.byte()?, header.half()?, header.number(4)? as u32);
            found = fragment(identification, bits / 8 * 8, bits % 2 == 1);
            if bits >= 8 {
                break;
            }
        }
        if headers > 184 {
            return None;
        }
    }
    let network = Network {
        source: source.into(),
        destination: destination.into(),
        protocol: next,
        fragment: found,
        transport: transport(next, next == 58, found, rest)?,
        l4_offset: rest.taken,
        end,
    };
    Some(network)
}

fn fragment(identification: u32, offset: u16, more: bool) -> Fragment {
    match (offset, more) {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First { identification },
        _ => Fragment::Later { identification, offset, more },
    }
}

fn transport(protocol: u8, is_icmp: bool, fragment: Fragment, mut rest: Rest<'_>) -> Option<Transport> {
    if matches!(fragment, Fragment::Later { .. }) {
        return Some(Transport::Opaque);
    }
    Some(match protocol {
        // TCP, UDP, DCCP, SCTP, UDP-Lite.
        6 | 17 | 33 | 132 | 136 => Transport::Ports { source: rest.half()?, destination: rest.half()? },
        _ if is_icmp => {
            let (kind, code, _) = (rest.byte()?, rest.byte()?, rest.half()?);
            let echoes = if protocol == 1 { [0, 8] } else { [128, 129] };
            let is_echo = echoes.contains(&kind);
            let identifier = if is_echo { (rest.half()?, rest.half()?).0 } else { 0 };
            Transport::Icmp { kind, code, identifier }
        }
        _ => Transport::Opaque,
    })
}

/// The plainest frame of the same flow that goes the other way.
fn answer(network: &Network) -> Vec<u8> {
    let key = network.flow_key().reversed();
    let is_fragment = network.fragment != Fragment::Whole;
    let ports = [key.source_port.to_be_bytes(), key.destination_port.to_be_bytes()].concat();
    let (mut frame, segment) = (vec![2; 12], [ports, vec![0; 4]].concat());
    match (key.source, key.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, if is_fragment { 0x20 } else { 0 }, 0, 1]);
            frame.extend([key.protocol, 0, 0]);
            frame.extend([source.octets(), destination.octets()].concat());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, if is_fragment { 16 } else { 8 }]);
            frame.extend([if is_fragment { 44 } else { key.protocol }, 1]);
            frame.extend([source.octets(), destination.octets()].concat());
            if is_fragment {
                frame.extend([59, 0, 0, 1, 0, 0, 0, 0]);
            }
        }
        _ => panic!("ends of two families"),
    }
    frame.extend(segment);
    frame
}

pub fn run(frame: &[u8]) {
    let found = dissect(frame).ok();
    let told = found.map(|found| {
        let tags: Vec<_> = found.tags.as_slice().iter().map(|tag| (tag.tpid, tag.tci)).collect();
        (found.ethertype, (tags, found.tags.count()), found.l3_offset, found.network)
    });
    let expected = model(frame).map(|(ethertype, tags, l3_offset, network)| {
        let count = tags.len();
        (ethertype, (tags.into_iter().take(2).collect(), count), l3_offset, network)
    });
    assert_eq!(told, expected);

    let (hash, vlan) = symmetric_flow_hash(frame);
    let network = found.and_then(|found| found.network);
    assert_eq!(hash, network.map_or(0, |network| symmetric_flow_hash(&answer(&network)).0));
    assert!(network.is_none() || hash != 0);
    if let Some(found) = found {
        assert_eq!(vlan, found.vlan());
    }
    let _ = ethernet::View::new(frame).map(|v| ethernet::Repr::parse(&v));
    let _ = arp::View::new(frame).map(|v| arp::Repr::parse(&v));
    let _ = ipv4::View::new(frame).map(|v| (ipv4::Repr::parse(&v), v.options().count(), v.payload().len()));
    let _ = ipv6::View::new(frame).map(|v| (ipv6::Repr::parse(&v), v.upper().is_ok(), v.payload().len()));
    let _ = tcp::View::new(frame).map(|v| (tcp::Repr::parse(&v), v.options().count(), v.payload().len()));
    let _ = udp::View::new(frame).map(|v| (udp::Repr::parse(&v), v.payload().len()));
    let _ = icmpv4::View::new(frame).map(|v| (icmpv4::Repr::parse(&v), v.verify_checksum()));
    let _ = icmpv6::View::new(frame).map(|v| (icmpv6::Repr::parse(&v), v.payload().len()));
}
