//! VXLAN over IPv4 and nothing else, the commonest layer, with every field at a fixed place. What is not
//! plain is left to the general way, which also says what is wrong with it.
//!
//! Beginnings of frames are looked at, and headers made, in words that fit into registers: bytes that were
//! just written in other pieces than they are read in would have to reach memory first.

use crate::emit::{Ending, Fresh, Headers, Spot};
use crate::fields::{ETHERNET, put};
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
    // In whichever order of bytes (RFC 1071, section 2(B)).
    let sum = Sum::ZERO.add_u16((link >> 48) as u16).add_u32(ip as u32).add_u32((ip >> 32) as u32);
    let sum = sum.add_u32(addresses as u32).add_u32((addresses >> 32) as u32).add_u16(ports as u16);
    // Congestion that was signalled may concern the packet inside.
    let plain = is(link, [0, 0, 0, 0, 255, 255, 255, 1], [0, 0, 0, 0, k0, k1, 0x45, 0])
        && is(ip, [0, 0, 0, 0, 0x3f, 255, 0, 255], [0, 0, 0, 0, 0, 0, 0, protocol::UDP])
        && is(ports, [0, 0, 0, 0, 255, 255, 0, 0], [0, 0, 0, 0, p0, p1, 0, 0])
        && is(datagram, [255, 255, 0x0c, 0, 0, 0, 0, 0], [0, 0, 8, 0, 0, 0, 0, 0])
        && total == u32::from(((ports >> 48) as u16).swap_bytes()) + 20
        && total as usize >= PLAIN_FRAME - ETHERNET
        && total + ETHERNET as u32 <= length
        && sum.folded() == 0xffff;
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

impl Headers {
    /// Whether they are of this layer alone.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.count == 1
            && self.length == PLAIN as u8
            && self.layers[0] == LAYER
            && self.bytes[ETHERNET] == 0x45
            && self.bytes[ETHERNET + 26] | self.bytes[ETHERNET + 27] == 0
    }

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
        if !self.is_plain() || (length as usize) < first.len() {
            return None;
        }
        let mut made: [u8; PLAIN] = *self.bytes.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([self.bytes[ETHERNET + at], self.bytes[ETHERNET + at + 1]]);
        let (old, before, old_id) = (self.bytes[ETHERNET + 1], word(2), word(4));
        let (mut services, mut id) = (old, old_id);
        if let Some(fresh) = fresh {
            if fresh.services & 1 != 0 {
                services = packet;
            }
            // An identification matters to fragments alone (RFC 6864).
            if word(6) == 0 {
                id = fresh.identification;
            }
            put(&mut made, ETHERNET + 20, (0xc000 | (fresh.hash ^ fresh.hash >> 16) as u16).to_be_bytes());
        }
        let class = services & !3 | packet & 3;
        // RFC 1624, equation 3, of what changes: class, length, identification.
        let sum = Sum::ZERO.add_u16(!word(10)).add_u16(!u16::from(old)).add_u16(!before).add_u16(!old_id);
        let sum = sum.add_u16(class.into()).add_u16(total).add_u16(id);
        put(&mut made, ETHERNET + 1, [class]);
        put(&mut made, ETHERNET + 2, total.to_be_bytes());
        put(&mut made, ETHERNET + 4, id.to_be_bytes());
        put(&mut made, ETHERNET + 10, sum.checksum().to_be_bytes());
        put(&mut made, ETHERNET + 24, (total - 20).to_be_bytes());
        Some(made)
    }
}
