//! The classifier's hash of a flow.

use crate::dissection::{Fragment, dissect};
use crate::ethernet::{ethertype, is_tag};
use crate::field_access::u16_at;
use crate::protocol;
use core::net::IpAddr;

// Fractions of the square roots of 2, 3 and 5: bits without a pattern.
const K0: u64 = 0x6a09_e667_f3bc_c909;
const K1: u64 = 0xbb67_ae85_84ca_a73b;
const K2: u64 = 0x3c6e_f372_fe94_f82b;

/// Bytes of a frame in which [`plain_flow_hash`] finds what it is of.
const PLAIN: usize = 48;

/// A hash of addresses, protocol and ports that is equal for both directions of a flow, and the outermost
/// VLAN tag's control information (0: untagged).
///
/// `prefix` is a frame's first bytes: 64 suffice for all but IPv6 with extension headers. The hash is 0,
/// meaning "not computed", for anything but IP and for headers that are cut or impossible; otherwise never.
/// All fragments of a packet have one hash, which leaves out the ports, because later fragments have none.
/// VLAN tags do not count: the directions of a flow may be tagged differently.
///
/// It spreads flows well but is no defence: with no secret in it, a sender can make flows collide. Tables
/// that strangers can fill need a keyed hash of their own.
#[inline]
pub fn symmetric_flow_hash(prefix: &[u8]) -> (u32, u16) {
    if let Some(plain) = prefix.first_chunk().and_then(plain_flow_hash) {
        return plain;
    }
    // What nearly every other packet is, without a tag or with one, is read at fixed places behind a single
    // check of length.
    let is_tagged = is_tag(u16_at(prefix, 12..14));
    let (kind, vlan) = if is_tagged { (16, u16_at(prefix, 14..16)) } else { (12, 0) };
    let v6 = prefix.get(kind + 2..).filter(|_| u16_at(prefix, kind..kind + 2) == ethertype::IPV6);
    let hash = v6.and_then(|l3| l3.first_chunk()).and_then(plain_v6);
    (hash.unwrap_or_else(|| of_dissection(prefix)), vlan)
}

/// The same of a frame that begins with these bytes, if it is IPv4 without options, in one piece, with ports,
/// and has one tag at the most. They are read in words that fit into registers: bytes that were copied in
/// other pieces than they are read in have to reach memory first.
#[inline(always)]
pub fn plain_flow_hash(frame: &[u8; PLAIN]) -> Option<(u32, u16)> {
    let word = |at: usize| frame.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word));
    let (w1, w2, w3, w4, w5) = (word(8)?, word(16)?, word(24)?, word(32)?, word(40)?);
    let big = |word: u64, shift: u32| (word >> shift) as u16;
    let is_v4 = |link: u64| link >> 32 & 0xff_ffff == u64::from(ethertype::IPV4.swap_bytes()) | 0x45 << 16;
    let (mut vlan, mut link, mut ip, mut hosts, mut ports) = (0, w1, w2, w3, w4);
    if !is_v4(w1) && is_tag(big(w1, 32).swap_bytes()) {
        vlan = big(w1, 48).swap_bytes();
        (link, ip, hosts, ports) = (w2 << 32, w2 >> 32 | w3 << 32, w3 >> 32 | w4 << 32, w4 >> 32 | w5 << 32);
    }
    let protocol = (ip >> 56) as u8;
    let is_whole = ip >> 32 & 0xff3f == 0 && big(ip, 0).swap_bytes() >= 24;
    let plain = is_v4(link) && is_whole && protocol::has_ports(protocol);
    let end = |ip: u64, port: u16| u64::from((ip as u32).swap_bytes()) << 16 | u64::from(port.swap_bytes());
    let source = end(hosts >> 16, big(ports, 16));
    let destination = end(hosts >> 48 | ports << 16, big(ports, 32));
    plain.then(|| (finish(source, destination, protocol), vlan))
}

/// Control information of the outermost VLAN tag, 0 when there is none, from the four bytes behind a frame's
/// addresses: what [`symmetric_flow_hash`] says of it.
#[inline]
pub fn outer_vlan([t0, t1, c0, c1]: [u8; 4]) -> u16 {
    if is_tag(u16::from_be_bytes([t0, t1])) { u16::from_be_bytes([c0, c1]) } else { 0 }
}

/// IPv6 without extension headers, with ports.
#[inline(always)]
fn plain_v6(l3: &[u8; 44]) -> Option<u32> {
    let (&[first, _, _, _, l0, l1, protocol, _], rest) = l3.split_first_chunk()?;
    let (source, rest) = rest.split_first_chunk()?;
    let (destination, &[p0, p1, q0, q1]) = rest.split_first_chunk()? else { return None };
    let plain = first >> 4 == 6 && u16::from_be_bytes([l0, l1]) >= 4 && protocol::has_ports(protocol);
    let end = |address: &[u8; 16], port| endpoint_v6(u128::from_be_bytes(*address), u16::from_be_bytes(port));
    plain.then(|| finish(end(source, [p0, p1]), end(destination, [q0, q1]), protocol))
}

/// The same for everything that is less simple.
#[cold]
pub(crate) fn of_dissection(frame: &[u8]) -> u32 {
    let Some(network) = dissect(frame).ok().and_then(|d| d.network) else { return 0 };
    let mut key = network.flow_key();
    if network.fragment != Fragment::Whole {
        (key.source_port, key.destination_port) = (0, 0);
    }
    let (source, destination) =
        (endpoint(key.source, key.source_port), endpoint(key.destination, key.destination_port));
    // The fragment header of a later IPv6 fragment may name an extension header where the first fragment's
    // walk went on to the transport protocol: the protocol of fragments cannot count either.
    let protocol = if network.fragment == Fragment::Whole { key.protocol } else { protocol::FRAGMENT };
    finish(source, destination, protocol)
}

fn endpoint(address: IpAddr, port: u16) -> u64 {
    match address {
        IpAddr::V4(address) => u64::from(address.to_bits()) << 16 | u64::from(port),
        IpAddr::V6(address) => endpoint_v6(address.to_bits(), port),
    }
}

#[inline(always)]
fn endpoint_v6(address: u128, port: u16) -> u64 {
    multiply_mix((address >> 64) as u64 ^ K0, address as u64 ^ K1)
        .wrapping_add(u64::from(port).wrapping_mul(K2))
}

/// Symmetric by order: sums and exclusive ors would make all flows between equal ends collide.
#[inline(always)]
fn finish(source: u64, destination: u64, protocol: u8) -> u32 {
    let (low, high) = (source.min(destination), source.max(destination));
    let mixed = multiply_mix(low ^ K0, high ^ K1 ^ u64::from(protocol) << 48);
    ((mixed ^ mixed >> 32) as u32).max(1)
}

#[inline(always)]
fn multiply_mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
