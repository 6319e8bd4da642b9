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
/// Bytes of them from IPv4 on, and of the beginning of a packet that says what they say of it.
const AROUND: u32 = (PLAIN - ETHERNET) as u32;
const SHORTEST: u32 = ETHERNET as u32 + 2;
const LAYER: Spot = Spot { kind: LayerKind::Vxlan, at: ETHERNET as u8 };
const LAYERS: [Spot; MAX_LAYERS] = [LAYER; MAX_LAYERS];

/// As [`crate::take_off`] of VXLAN alone from a frame of so many bytes, whose first [`PLAIN`] go then and
/// none come in their place; `None` where that is not all there is to it. `head` is the frame's beginning.
#[inline(always)]
pub fn take_plain_off(head: &[u8; PLAIN_FRAME], length: u32, kept: &mut Headers) -> Option<TakenOff> {
    let (words, _) = head.as_chunks::<8>();
    let [_, link, ip, addresses, ports, datagram, vni, last] = *words else { return None };
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
    let kind = ((le(last) >> 48) as u16).swap_bytes();
    Some(TakenOff { length, kind, tunnel: Some(LayerKind::Vxlan), key, vlan: 0, sums: [0; MAX_LAYERS] })
}

/// The sum of an IPv4 header behind a frame's addresses, of the words around it, in the order of bytes that
/// they have (RFC 1071, section 2(B)).
#[inline(always)]
fn sum(link: u64, ip: u64, addresses: u64, ports: u64) -> Sum {
    let sum = Sum::ZERO.add_u16((link >> 48) as u16).add_u32(ip as u32).add_u32((ip >> 32) as u32);
    sum.add_u32(addresses as u32).add_u32((addresses >> 32) as u32).add_u16(ports as u16)
}

/// Headers of VXLAN over IPv4 and nothing else: what all packets have in common on which they are put, in
/// words. Fields that a packet says are zero.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    words: [u64; 6],
    rest: [u8; 2],
    /// Of the IPv4 header, in the order of bytes that the words have.
    sum: u16,
    /// Bits that come from the packet's traffic class, from the identification and from the flow.
    class: u8,
    identification: u16,
    port: u16,
}

impl Headers {
    /// These headers for packets that follow each other, if they are VXLAN over IPv4 and nothing else: with
    /// what is `fresh`, of which flow and identification are said for each packet, or as they were.
    #[inline]
    pub fn plain(&self, fresh: Option<Fresh>) -> Option<Plain> {
        let ([to, link, ip, addresses, ports, datagram, rest, ..], _) = self.bytes.as_chunks::<8>() else {
            return None;
        };
        let le = u64::from_le_bytes;
        let (mut to, datagram) = (le(*to), le(*datagram));
        // Without lengths, checksum and congestion.
        let (link, ip) = (le(*link) & !(3 << 56), le(*ip) & !0xffff);
        let (addresses, ports) = (le(*addresses) & !0xffff, le(*ports) & !0 >> 16);
        let is_alone = self.count == 1 && self.length == PLAIN as u8 && self.layers[0] == LAYER;
        if !is_alone || (link >> 48) as u8 != 0x45 || datagram as u16 != 0 {
            return None;
        }
        let (mut class, mut identification, mut port) = (3, 0, 0);
        if let Some(fresh) = fresh {
            class = if fresh.services & 1 != 0 { !0 } else { 3 };
            // It matters to fragments alone (RFC 6864).
            identification = if (ip >> 32) as u16 == 0 { !0 } else { 0 };
            port = !0;
            if let Some([a, b, c, d, e, f]) = fresh.next_hop {
                to = to & !0 << 48 | le([a, b, c, d, e, f, 0, 0]);
            }
        }
        let sum = sum(link, ip, addresses, ports).folded();
        let words = [to, link, ip, addresses, ports, datagram];
        Some(Plain { words, rest: [rest[0], rest[1]], sum, class, identification, port })
    }
}

impl Plain {
    /// As [`Headers::put_on`], which removes nothing; `None` where there is more to it than IP without tags.
    /// `first` is the packet's beginning; what is beyond its end is anything. `flow` are the hash of its flow
    /// and its identification.
    #[inline(always)]
    pub fn front(&self, first: [u8; ETHERNET + 2], length: u32, flow: (u32, u16)) -> Option<[u8; PLAIN]> {
        let [.., k0, k1, c0, c1] = first;
        let class = match u16::from_be_bytes([k0, k1]) {
            ethertype::IPV4 if c0 >> 4 == 4 => c1,
            ethertype::IPV6 if c0 >> 4 == 6 => c0 << 4 | c1 >> 4,
            _ => return None,
        };
        let total = u16::try_from(length.checked_add(AROUND)?).ok().filter(|_| length >= SHORTEST)?;
        // In the order of the network.
        let (datagram, total) = ((total - 20).swap_bytes(), total.swap_bytes());
        let (hash, identification) = (flow.0, (flow.1 & self.identification).swap_bytes());
        let port = ((0xc000 | (hash ^ hash >> 16) as u16) & self.port).swap_bytes();
        let class = u16::from(class & self.class) << 8;
        let sum = Sum::ZERO.add_u16(self.sum).add_u16(total).add_u16(identification).add_u16(class);
        let at = |field: u16, shift: u32| u64::from(field) << shift;
        let [to, link, ip, addresses, ports, vxlan] = self.words;
        let mut made = [0; PLAIN];
        if let ([w0, w1, w2, w3, w4, w5], rest) = made.as_chunks_mut::<8>() {
            (*w0, *w1) = (to.to_le_bytes(), (link | at(class, 48)).to_le_bytes());
            *w2 = (ip | at(total, 0) | at(identification, 16)).to_le_bytes();
            *w3 = (addresses | at(sum.checksum(), 0)).to_le_bytes();
            *w4 = (ports | at(port, 16) | at(datagram, 48)).to_le_bytes();
            *w5 = vxlan.to_le_bytes();
            rest.copy_from_slice(&self.rest);
        }
        Some(made)
    }
}
