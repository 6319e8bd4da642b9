//! VXLAN over IPv4 and nothing else, the commonest layer, with every field at a fixed place. What is not
//! plain is left to the general way, which also says what is wrong with it.
//!
//! Beginnings of frames are looked at, and headers made, in words that fit into registers: bytes that were
//! just written in other pieces than they are read in would have to reach memory first.

use crate::emit::{Ending, Fresh, Headers, Spot};
use crate::fields::ETHERNET;
use crate::{LayerKind, MAX_LAYERS, TakenOff};
use packet::checksum::Sum;
use packet::ethernet::ethertype;
use packet::protocol;
use packet::tunnel::VXLAN_PORT;

/// Bytes of Ethernet, IPv4, UDP and VXLAN.
pub const PLAIN: usize = ETHERNET + 20 + 8 + 8;
/// Bytes of such headers and of the Ethernet header inside.
pub const PLAIN_FRAME: usize = PLAIN + ETHERNET;
const LAYER: Spot = Spot { kind: LayerKind::Vxlan, at: ETHERNET as u8 };
const LAYERS: [Spot; MAX_LAYERS] = [LAYER; MAX_LAYERS];

/// As [`crate::take_off`] of VXLAN alone from a frame of so many bytes, whose first [`PLAIN`] go then and
/// none come in their place; `None` where that is not all there is to it. `head` is the frame's beginning.
#[inline(always)]
pub fn take_plain_off(head: &[u8; PLAIN_FRAME], length: u32, kept: &mut Headers) -> Option<TakenOff> {
    let (words, _) = head.as_chunks::<8>();
    let [_, link, ip, addresses, ports, datagram, vni, _] = *words else { return None };
    // Not by `map`, which is a loop and a call.
    let le = u64::from_le_bytes;
    let (link, ip, addresses) = (le(link), le(ip), le(addresses));
    let (ports, datagram, vni) = (le(ports), le(datagram), le(vni));
    let is = |word: u64, bits: [u8; 8], value: [u8; 8]| {
        (word ^ u64::from_le_bytes(value)) & u64::from_le_bytes(bits) == 0
    };
    let ([k0, k1], [p0, p1]) = (ethertype::IPV4.to_be_bytes(), VXLAN_PORT.to_be_bytes());
    let total = u32::from((ip as u16).swap_bytes());
    // Congestion that was signalled may concern the packet inside.
    let plain = is(link, [0, 0, 0, 0, 255, 255, 255, 1], [0, 0, 0, 0, k0, k1, 0x45, 0])
        && is(ip, [0, 0, 0, 0, 0x3f, 255, 0, 255], [0, 0, 0, 0, 0, 0, 0, protocol::UDP])
        && is(ports, [0, 0, 0, 0, 255, 255, 0, 0], [0, 0, 0, 0, p0, p1, 0, 0])
        && is(datagram, [255, 255, 0x0c, 0, 0, 0, 0, 0], [0, 0, 8, 0, 0, 0, 0, 0])
        && total == u32::from(((ports >> 48) as u16).swap_bytes()) + 20
        && total as usize >= PLAIN_FRAME - ETHERNET
        && total + ETHERNET as u32 <= length
        && sum(link, ip, addresses, ports).folded() == 0xffff;
    if !plain {
        return None;
    }
    *kept.bytes.first_chunk_mut()? = *head;
    (kept.length, kept.count, kept.ethernet) = (PLAIN as u8, 1, PLAIN as u8);
    (kept.layers, kept.ending) = (LAYERS, Ending::Frame);
    let key = ((datagram >> 48) as u32 | (vni as u32 & 0xff) << 16).swap_bytes() >> 8;
    let length = total + ETHERNET as u32 - PLAIN as u32;
    Some(TakenOff { length, tunnel: Some(LayerKind::Vxlan), key, vlan: 0, sums: [0; MAX_LAYERS] })
}

/// The sum of an IPv4 header behind a frame's addresses, of the words around it, in the order of bytes that
/// they have (RFC 1071, section 2(B)).
#[inline(always)]
fn sum(link: u64, ip: u64, addresses: u64, ports: u64) -> Sum {
    let sum = Sum::ZERO.add_u16((link >> 48) as u16).add_u32(ip as u32).add_u32((ip >> 32) as u32);
    sum.add_u32(addresses as u32).add_u32((addresses >> 32) as u32).add_u16(ports as u16)
}

impl Headers {
    /// As [`Headers::put_on`], of VXLAN alone on IP without tags, which removes nothing; `None` where they
    /// are more than that. `first` is the packet's beginning; what is beyond its end is anything.
    #[inline(always)]
    pub fn plain(&self, first: [u8; ETHERNET + 2], length: u32, fresh: Option<Fresh>) -> Option<[u8; PLAIN]> {
        let [.., k0, k1, c0, c1] = first;
        let packet = match u16::from_be_bytes([k0, k1]) {
            ethertype::IPV4 if c0 >> 4 == 4 => c1,
            ethertype::IPV6 if c0 >> 4 == 6 => c0 << 4 | c1 >> 4,
            _ => return None,
        };
        let total = u16::try_from(u64::from(length) + (PLAIN - ETHERNET) as u64).ok()?;
        let ([to, link, ip, addresses, ports, datagram, rest, ..], _) = self.bytes.as_chunks::<8>() else {
            return None;
        };
        let le = u64::from_le_bytes;
        let (mut to, mut link, mut ip) = (le(*to), le(*link), le(*ip));
        let (mut addresses, mut ports, datagram) = (le(*addresses), le(*ports), le(*datagram));
        let is_alone = self.count == 1 && self.length == PLAIN as u8 && self.layers[0] == LAYER;
        let is_bare = (link >> 48) as u8 == 0x45 && datagram as u16 == 0;
        if !is_alone || !is_bare || (length as usize) < first.len() {
            return None;
        }
        // A field of 16 bits, in the order of the network.
        let with = |word: u64, at: u32, it: u16| word & !(0xffff << at) | u64::from(it.swap_bytes()) << at;
        let mut services = (link >> 56) as u8;
        if let Some(fresh) = fresh {
            if fresh.services & 1 != 0 {
                services = packet;
            }
            // An identification matters to fragments alone (RFC 6864).
            if (ip >> 32) as u16 == 0 {
                ip = with(ip, 16, fresh.identification);
            }
            if let Some([a, b, c, d, e, f]) = fresh.next_hop {
                to = to & !0 << 48 | le([a, b, c, d, e, f, 0, 0]);
            }
            ports = with(ports, 16, 0xc000 | (fresh.hash ^ fresh.hash >> 16) as u16);
        }
        link = link & !(0xff << 56) | u64::from(services & !3 | packet & 3) << 56;
        (ip, ports) = (with(ip, 0, total), with(ports, 48, total - 20));
        addresses &= !0xffff;
        addresses |= u64::from(sum(link, ip, addresses, ports).checksum());
        let mut made = [0; PLAIN];
        if let ([w0, w1, w2, w3, w4, w5], [w6, w7]) = made.as_chunks_mut::<8>() {
            (*w0, *w1, *w2) = (to.to_le_bytes(), link.to_le_bytes(), ip.to_le_bytes());
            (*w3, *w4, *w5) = (addresses.to_le_bytes(), ports.to_le_bytes(), datagram.to_le_bytes());
            (*w6, *w7) = (rest[0], rest[1]);
        }
        Some(made)
    }
}
