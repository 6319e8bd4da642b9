//! VXLAN over IPv4 and nothing else, the commonest layer, with every field at a fixed place. What is not
//! plain is left to the general way, which also says what is wrong with it.

use crate::emit::{Ending, Fresh, Headers, Spot};
use crate::fields::{ETHERNET, put};
use crate::{Front, LayerKind, MAX_BYTES, MAX_LAYERS, TakenOff};
use packet::checksum::{Sum, verify};
use packet::ethernet::ethertype;
use packet::tunnel::VXLAN_PORT;

/// Bytes of Ethernet, IPv4, UDP and VXLAN.
const LENGTH: usize = ETHERNET + 20 + 8 + 8;
/// With an Ethernet header inside.
const LEAST: usize = LENGTH + ETHERNET;
const LAYER: Spot = Spot { kind: LayerKind::Vxlan, at: ETHERNET as u8 };
const LAYERS: [Spot; MAX_LAYERS] = [LAYER; MAX_LAYERS];

/// As [`crate::take_off`].
#[inline(always)]
pub(crate) fn take_off(head: &[u8], length: u32, front: &mut Front, kept: &mut Headers) -> Option<TakenOff> {
    let head: &[u8; LEAST] = head.first_chunk()?;
    let (link, rest) = head.split_first_chunk::<ETHERNET>()?;
    let (ip, rest) = rest.split_first_chunk::<20>()?;
    let (udp, rest) = rest.split_first_chunk::<8>()?;
    let [.., k0, k1] = *link;
    let [0x45, class, l0, l1, _, _, f0, f1, _, 17, ..] = *ip else { return None };
    let [_, _, p0, p1, u0, u1, s0, s1] = *udp;
    let [flags, _, _, _, v0, v1, v2, ..] = *rest else { return None };
    let total = u32::from(u16::from_be_bytes([l0, l1]));
    let datagram = u32::from(u16::from_be_bytes([u0, u1]));
    let plain = [k0, k1] == ethertype::IPV4.to_be_bytes()
        && [p0, p1] == VXLAN_PORT.to_be_bytes()
        && u16::from_be_bytes([f0, f1]) & 0x3fff == 0
        // Congestion that was signalled may concern the packet inside.
        && class & 1 == 0
        && flags & 0x0c == 0x08
        && [s0, s1] == [0, 0]
        && total == datagram + 20
        && total as usize >= LEAST - ETHERNET
        && total + ETHERNET as u32 <= length
        && verify(ip);
    if !plain {
        return None;
    }
    *kept.bytes.first_chunk_mut()? = *head;
    (kept.length, kept.count, kept.ethernet) = (LENGTH as u8, 1, LENGTH as u8);
    kept.layers = LAYERS;
    kept.ending = Ending::Frame;
    (front.removes, front.length) = (LENGTH as u16, 0);
    let key = u32::from_be_bytes([0, v0, v1, v2]);
    let length = total + ETHERNET as u32 - LENGTH as u32;
    Some(TakenOff { length, tunnel: Some(LayerKind::Vxlan), key, vlan: 0, sums: [0; MAX_LAYERS] })
}

/// Whether headers are of this layer alone.
#[inline(always)]
fn is_plain(headers: &Headers) -> bool {
    headers.count == 1
        && headers.length == LENGTH as u8
        && headers.layers[0] == LAYER
        && headers.bytes[ETHERNET] == 0x45
        && headers.bytes[ETHERNET + 26] | headers.bytes[ETHERNET + 27] == 0
}

/// As [`crate::emit::emit`]. The packet is IP without tags.
#[inline(always)]
pub(crate) fn emit(
    headers: &Headers,
    head: &[u8],
    length: u32,
    fresh: Option<Fresh>,
    front: &mut Front,
) -> Option<()> {
    let [.., k0, k1, c0, c1] = *head.first_chunk::<{ ETHERNET + 2 }>()?;
    if !is_plain(headers) {
        return None;
    }
    let made: &[u8; MAX_BYTES] = &headers.bytes;
    let (_, made_ip) = made.split_first_chunk::<ETHERNET>()?;
    let made_ip: &[u8; 28] = made_ip.first_chunk()?;
    let [0x45, old, m0, m1, i0, i1, f0, f1, ttl, protocol, s0, s1, ..] = *made_ip else { return None };
    let packet = match u16::from_be_bytes([k0, k1]) {
        ethertype::IPV4 if c0 >> 4 == 4 => c1,
        ethertype::IPV6 if c0 >> 4 == 6 => c0 << 4 | c1 >> 4,
        _ => return None,
    };
    let total = u16::try_from(u64::from(length) + (LENGTH - ETHERNET) as u64).ok()?;
    let mut services = old;
    let mut id = [i0, i1];
    let mut source = [*made.get(ETHERNET + 20)?, *made.get(ETHERNET + 21)?];
    if let Some(fresh) = fresh {
        if fresh.services & 1 != 0 {
            services = packet;
        }
        if [f0, f1] == [0, 0] {
            id = fresh.identification.to_be_bytes();
        }
        source = (0xc000 | (fresh.hash ^ fresh.hash >> 16) as u16).to_be_bytes();
    }
    let class = services & !3 | packet & 3;
    // RFC 1624, equation 3, of what changes: class, length, identification.
    let word = |bytes| u16::from_be_bytes(bytes);
    let sum = Sum::ZERO
        .add_u16(!word([s0, s1]))
        .add_u16(!word([0, old]))
        .add_u16(!word([m0, m1]))
        .add_u16(!word([i0, i1]))
        .add_u16(word([0, class]))
        .add_u16(total)
        .add_u16(word(id));
    let [s0, s1] = sum.checksum().to_be_bytes();
    let ([l0, l1], [i0, i1], [p0, p1]) = (total.to_be_bytes(), id, source);
    let [u0, u1] = (total - 20).to_be_bytes();
    let [t0, t1] = VXLAN_PORT.to_be_bytes();
    *front.bytes.first_chunk_mut::<LEAST>()? = *made.first_chunk()?;
    put(&mut front.bytes, ETHERNET, [0x45, class, l0, l1, i0, i1, f0, f1, ttl, protocol, s0, s1]);
    put(&mut front.bytes, ETHERNET + 20, [p0, p1, t0, t1, u0, u1, 0, 0]);
    (front.removes, front.length) = (0, LENGTH as u16);
    Some(())
}
