//! Frames as they are written: Ethernet and what is in it.

use crate::settings::Mac;
use packet::checksum::Endpoints;
use packet::ethernet::{Tags, ethertype};
use packet::{arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// To all stations.
pub(crate) const BROADCAST: Mac = [0xff; 6];

/// The link-layer address of a group (RFC 1112 section 6.4, RFC 2464 section 7).
pub(crate) fn group_mac(group: IpAddr) -> Mac {
    match group {
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            [0x01, 0x00, 0x5e, b & 0x7f, c, d]
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            [0x33, 0x33, a, b, c, d]
        }
    }
}

/// A frame with room for `length` bytes behind its header, which are zero.
fn ethernet(destination: Mac, source: Mac, ethertype: u16, length: usize) -> Option<Vec<u8>> {
    let mut frame = vec![0; ethernet::HEADER_LENGTH + length];
    ethernet::Repr { destination, source, tags: Tags::NONE, ethertype }.emit(&mut frame).ok()?;
    Some(frame)
}

/// A frame with an ARP message.
pub(crate) fn arp(destination: Mac, message: arp::Repr) -> Option<Vec<u8>> {
    let mut frame = ethernet(destination, message.sender_mac, ethertype::ARP, arp::HEADER_LENGTH)?;
    message.emit(frame.get_mut(ethernet::HEADER_LENGTH..)?).ok()?;
    Some(frame)
}

/// Where a packet comes from and goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<A> {
    pub(crate) from_mac: Mac,
    pub(crate) to_mac: Mac,
    pub(crate) from: A,
    pub(crate) to: A,
}

/// A frame with an IPv4 packet, whose payload is written by `write`.
pub(crate) fn ipv4(
    way: Way<Ipv4Addr>,
    (protocol, ttl, options): (u8, u8, &[u8]),
    length: usize,
    write: impl FnOnce(&mut [u8], &Endpoints) -> Option<()>,
) -> Option<Vec<u8>> {
    let header = ipv4::Repr {
        // Groups' messages have precedence "internetwork control" (RFC 3376 section 4).
        traffic_class: if options.is_empty() { 0 } else { 0xc0 },
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl,
        protocol,
        source: way.from,
        destination: way.to,
        options,
        payload_length: length,
    };
    let start = ethernet::HEADER_LENGTH + header.header_length();
    let mut frame = ethernet(way.to_mac, way.from_mac, ethertype::IPV4, header.header_length() + length)?;
    header.emit(frame.get_mut(ethernet::HEADER_LENGTH..)?).ok()?;
    let endpoints = Endpoints::V4 { source: way.from, destination: way.to };
    write(frame.get_mut(start..)?, &endpoints)?;
    Some(frame)
}

/// A frame with an ICMP message.
pub(crate) fn icmpv4(way: Way<Ipv4Addr>, message: icmpv4::Repr, data: &[u8]) -> Option<Vec<u8>> {
    let length = icmpv4::HEADER_LENGTH + data.len();
    ipv4(way, (protocol::ICMPV4, 64, &[]), length, |bytes, _| {
        bytes.get_mut(icmpv4::HEADER_LENGTH..)?.copy_from_slice(data);
        message.emit(bytes).ok()
    })
}

/// A frame with an ICMPv6 message; `router_alert` puts the option of RFC 2711 in front, as MLD has it.
pub(crate) fn icmpv6(
    way: Way<Ipv6Addr>,
    (hop_limit, router_alert): (u8, bool),
    message: icmpv6::Repr,
    data: &[u8],
) -> Option<Vec<u8>> {
    let options: &[u8] = if router_alert { &[protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0] } else { &[] };
    let length = options.len() + icmpv6::HEADER_LENGTH + data.len();
    let mut frame = ethernet(way.to_mac, way.from_mac, ethertype::IPV6, ipv6::HEADER_LENGTH + length)?;
    let (header, payload) =
        frame.get_mut(ethernet::HEADER_LENGTH..)?.split_at_mut_checked(ipv6::HEADER_LENGTH)?;
    ipv6::Repr {
        traffic_class: 0,
        flow_label: 0,
        payload_length: u16::try_from(length).ok()?,
        next_header: if router_alert { protocol::HOP_BY_HOP } else { protocol::ICMPV6 },
        hop_limit,
        source: way.from,
        destination: way.to,
    }
    .emit(header)
    .ok()?;
    let (before, body) = payload.split_at_mut_checked(options.len())?;
    before.copy_from_slice(options);
    body.get_mut(icmpv6::HEADER_LENGTH..)?.copy_from_slice(data);
    let endpoints = Endpoints::V6 { source: way.from, destination: way.to };
    message.emit(body, &endpoints).ok()?;
    Some(frame)
}
