//! What is read from packets and written to them: the common ones by a few fixed loads and stores.

use crate::hops::{Way, mix};
use packet::protocol;

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;

#[inline(always)]
fn le64<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|n| bytes[at + n]))
}

#[inline(always)]
fn le32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|n| bytes[at + n]))
}

/// An Ethernet address as the first six bytes of a word.
pub fn mac_word(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

const MAC: u64 = 0xffff_ffff_ffff;

/// 1 for first bytes of IPv4 addresses that no packet may come from: this network, loopback, groups, what is
/// reserved (RFC 1812 section 5.3.7, RFC 6890).
static MARTIAN: [u8; 256] = {
    let mut martian = [0; 256];
    martian[0] = 1;
    martian[127] = 1;
    let mut first = 224;
    while first < 256 {
        martian[first] = 1;
        first += 1;
    }
    martian
};

/// Whether a packet may come from an IPv4 address with this first byte.
#[inline(always)]
pub fn is_source(first: u8) -> bool {
    MARTIAN[usize::from(first)] == 0
}

/// The common packet of IPv4: untagged, to this Ethernet address, without options, its header's checksum
/// right, hops left, from an address that may be. Its destination and its length.
#[inline(always)]
pub fn common4(packet: &[u8], mac: u64) -> Option<(u32, u32)> {
    let header: &[u8; 34] = packet.first_chunk()?;
    let start = le64(header, 12);
    if le64(header, 0) & MAC != mac || start & 0xff_ffff != 0x45_0008 {
        return None;
    }
    let total = u32::from(((start >> 32) as u16).swap_bytes());
    if total < 20 || total as usize > packet.len() - ETHERNET {
        return None;
    }
    let (first, second, destination) = (le64(header, 14), le64(header, 22), le32(header, 30));
    // Five words of 32 bits (RFC 1071 section 2: in any order of bytes).
    let sum = (first & 0xffff_ffff)
        + (first >> 32)
        + (second & 0xffff_ffff)
        + (second >> 32)
        + u64::from(destination);
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    if sum != 0xffff || second & 0xff <= 1 || !is_source((second >> 32) as u8) {
        return None;
    }
    Some((destination.swap_bytes(), total))
}

/// The common packet of IPv6: untagged, to this Ethernet address, hops left, from a global address. Its
/// length.
#[inline(always)]
pub fn common6(packet: &[u8], mac: u64) -> Option<u32> {
    let header: &[u8; 54] = packet.first_chunk()?;
    let start = le64(header, 12);
    if le64(header, 0) & MAC != mac || start & 0xf0_ffff != 0x60_dd86 {
        return None;
    }
    let payload = u32::from(((start >> 48) as u16).swap_bytes());
    let total = 40 + payload;
    // Addresses that begin otherwise are looked at closely.
    let common = payload != 0 && header[21] > 1 && !matches!(header[22], 0 | 0xfe | 0xff);
    (common && total as usize <= packet.len() - ETHERNET).then_some(total)
}

/// Sends an IPv4 packet on: new Ethernet addresses, one hop less, and the checksum after that (RFC 1624; the
/// time to live is a high byte, so the sum grows by 0x0100, which is 1 in the order of bytes of the load).
#[inline(always)]
pub fn forward4(packet: &mut [u8], way: &Way) {
    let Some(header) = packet.first_chunk_mut::<34>() else { return };
    header[..12].copy_from_slice(&way.addresses);
    let word = le32(header, 22);
    let checksum = (word >> 16) + 1;
    // Of the two zeros of one's complement the one that a sum over the header gives.
    let checksum = (checksum + u32::from(checksum >= 0xffff)) & 0xffff;
    let word = (word & 0xffff).wrapping_sub(1) | checksum << 16;
    header[22..26].copy_from_slice(&word.to_le_bytes());
}

/// Sends an IPv6 packet on: new Ethernet addresses, one hop less.
#[inline(always)]
pub fn forward6(packet: &mut [u8], way: &Way) {
    let Some(header) = packet.first_chunk_mut::<54>() else { return };
    header[..12].copy_from_slice(&way.addresses);
    header[21] = header[21].wrapping_sub(1);
}

/// A hash of an IPv4 packet's flow. Fragments have no ports, and the first one is treated like the others.
#[inline(never)]
pub fn flow4(packet: &[u8]) -> u32 {
    let Some(header) = packet.first_chunk::<34>() else { return 0 };
    let mut ports = 0;
    let length = usize::from(header[14] & 0xf) * 4;
    let fragment = u16::from_be_bytes([header[20], header[21]]) & 0x3fff != 0;
    if !fragment
        && protocol::has_ports(header[23])
        && let Some(found) = packet.get(ETHERNET + length..).and_then(|rest| rest.first_chunk::<4>())
    {
        ports = u32::from_le_bytes(*found);
    }
    mix(mix(le64(header, 26)) ^ u64::from(ports) << 8 ^ u64::from(header[23])) as u32
}

/// A hash of an IPv6 packet's flow: its addresses, and ports that follow at once.
#[inline(never)]
pub fn flow6(packet: &[u8]) -> u32 {
    let Some(header) = packet.first_chunk::<54>() else { return 0 };
    let mut ports = 0;
    if protocol::has_ports(header[20])
        && let Some(found) = packet.get(54..).and_then(|rest| rest.first_chunk::<4>())
    {
        ports = u32::from_le_bytes(*found);
    }
    let addresses = (0..4).fold(0, |hash, n| mix(hash ^ le64(header, 22 + 8 * n)));
    mix(addresses ^ u64::from(ports) << 8 ^ u64::from(header[20])) as u32
}
