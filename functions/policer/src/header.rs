//! What is read from a packet: the common one by a few fixed loads, every other by `packet`, completely.

use crate::table::Key;
use packet::{Fragment, Transport, dissect, protocol};

/// The bits of the first word of a [`View`].
pub mod kind {
    /// Protocol number, for IPv6 the one behind the extension headers.
    pub const PROTOCOL: u64 = 0xff;
    /// Set for packets from outside.
    pub const INGRESS: u64 = 1 << 8;
    /// IPv4.
    pub const IPV4: u64 = 1 << 9;
    /// IPv6.
    pub const IPV6: u64 = 1 << 10;
    /// Set in every key, so that none is 0.
    pub const KEY: u64 = 1 << 11;
    /// Identifier of the outermost VLAN tag, 12 bits from here on.
    pub const VLAN_AT: u32 = 12;
    /// All of them.
    pub const VLAN: u64 = 0xfff << VLAN_AT;
    /// In a key, the number of the policer: 6 bits from here on.
    pub const POLICER_AT: u32 = 24;
    /// The packet has ports.
    pub const HAS_PORTS: u64 = 1 << 30;
    /// It is IP, and the protocol number is one.
    pub const IP: u64 = 1 << 31;
    /// Source port, as its bytes lie in the packet.
    pub const SOURCE_PORT: u64 = 0xffff << 32;
    /// Destination port, as its bytes lie in the packet.
    pub const DESTINATION_PORT: u64 = 0xffff << 48;
}

/// What kind of frame it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// IPv4 or IPv6.
    Ip,
    /// Neither.
    NonIp,
    /// It says that it is, but its headers are cut short or impossible.
    Malformed,
}

/// What policers look at: [`kind`], then the addresses' bytes as little-endian words. IPv4: source and
/// destination in one word. IPv6: source, destination, two words each.
pub type View = Key;

/// A packet, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What policers look at.
    pub view: View,
    /// Length from the network header on in bytes, without padding.
    pub network: u32,
    /// What kind of frame it is.
    pub class: Class,
}

#[inline(always)]
fn le64<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|n| bytes[at + n]))
}

#[inline(always)]
fn le32<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(core::array::from_fn(|n| bytes[at + n])))
}

/// 1 for protocols that have ports. A choice by comparisons would become a table of jumps in the sandbox.
static HAS_PORTS: [u8; 256] = {
    let mut has = [0; 256];
    let mut number = 0;
    while number < 256 {
        has[number] = protocol::has_ports(number as u8) as u8;
        number += 1;
    }
    has
};

/// The common packet: untagged, IPv4 without options, whole, with ports. `None` when it is another, for
/// [`read`].
#[inline(always)]
pub fn common(packet: &[u8], ingress: u64) -> Option<Seen> {
    let bytes: &[u8; 38] = packet.first_chunk()?;
    let start = le64(bytes, 12);
    let middle = le64(bytes, 20);
    let total = u32::from((start >> 32) as u16).swap_bytes() >> 16;
    let protocol = middle >> 24 & 0xff;
    // EtherType, version and header length; no fragment.
    if start & 0xff_ffff != 0x45_0008 || middle & 0xff3f != 0 || HAS_PORTS[protocol as usize] == 0 {
        return None;
    }
    if total < 24 || total as usize > packet.len() - 14 {
        return None;
    }
    let kind = protocol | ingress << 8 | kind::IPV4 | kind::IP | kind::HAS_PORTS | le32(bytes, 34) << 32;
    Some(Seen { view: [kind, le64(bytes, 26), 0, 0, 0], network: total, class: Class::Ip })
}

/// The same of IPv6, without extension headers.
#[inline(always)]
fn common6(packet: &[u8], ingress: u64) -> Option<Seen> {
    let bytes: &[u8; 58] = packet.first_chunk()?;
    let start = le64(bytes, 12);
    let total = 40 + (u32::from((start >> 48) as u16).swap_bytes() >> 16);
    let protocol = u64::from(bytes[20]);
    if start & 0xf0_ffff != 0x60_dd86 || HAS_PORTS[protocol as usize] == 0 {
        return None;
    }
    if total < 44 || total as usize > packet.len() - 14 {
        return None;
    }
    let kind = protocol | ingress << 8 | kind::IPV6 | kind::IP | kind::HAS_PORTS | le32(bytes, 54) << 32;
    let view = [kind, le64(bytes, 22), le64(bytes, 30), le64(bytes, 38), le64(bytes, 46)];
    Some(Seen { view, network: total, class: Class::Ip })
}

/// Any packet. `snapped`: bytes that a capture left out behind the packet's last.
#[inline(never)]
pub fn read(packet: &[u8], snapped: u16, ingress: u64) -> Seen {
    common6(packet, ingress).unwrap_or_else(|| read_closely(packet, snapped, ingress))
}

/// Any packet, by its definition: what the faster ways have to agree with.
pub fn read_closely(packet: &[u8], snapped: u16, ingress: u64) -> Seen {
    let other = |class, network| Seen { view: [ingress << 8, 0, 0, 0, 0], network, class };
    let Ok(frame) = dissect(packet) else { return other(Class::Malformed, 0) };
    let there = packet.len().saturating_sub(frame.l3_offset) as u32 + u32::from(snapped);
    let vlan = u64::from(frame.vlan() & 0xfff) << kind::VLAN_AT;
    let Some(network) = frame.network else {
        let mut seen = other(Class::NonIp, there);
        seen.view[0] |= vlan;
        return seen;
    };
    let mut kind = u64::from(network.protocol) | ingress << 8 | vlan | kind::IP;
    if let Transport::Ports { source, destination } = network.transport
        && !matches!(network.fragment, Fragment::Later { .. })
    {
        let port = |port: u16| u64::from(u16::from_ne_bytes(port.to_be_bytes()).to_le());
        kind |= kind::HAS_PORTS | port(source) << 32 | port(destination) << 48;
    }
    let mut view = [0; 5];
    match (network.source, network.destination) {
        (core::net::IpAddr::V4(source), core::net::IpAddr::V4(destination)) => {
            kind |= kind::IPV4;
            let word = |octets: [u8; 4]| u64::from(u32::from_le_bytes(octets));
            view[1] = word(source.octets()) | word(destination.octets()) << 32;
        }
        (core::net::IpAddr::V6(source), core::net::IpAddr::V6(destination)) => {
            kind |= kind::IPV6;
            let bits = [source.to_bits(), destination.to_bits()].map(u128::swap_bytes);
            view = [0, bits[0] as u64, (bits[0] >> 64) as u64, bits[1] as u64, (bits[1] >> 64) as u64];
        }
        _ => return other(Class::Malformed, 0),
    }
    view[0] = kind;
    let told = network.end.saturating_sub(frame.l3_offset) as u32;
    Seen { view, network: told.min(there), class: Class::Ip }
}
