//! Reading and writing fields of copied bytes, and what of a frame matters to the headers around it.

use packet::ethernet::{ethertype, is_tag};

/// Bytes of a frame's two addresses, and of its header.
pub(crate) const ADDRESSES: usize = 12;
pub(crate) const ETHERNET: usize = 14;

/// Tags behind which a packet's IP header is looked for.
const TAGS: usize = 4;

#[inline]
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_be_bytes)
}

/// Writes where there is room; every caller has made sure of it.
#[inline]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
        *place = value;
    }
}

/// Where the IP header of a frame begins, behind tags, and whether it is IPv4's.
#[inline]
pub(crate) fn ip_of(kind: u16, body: usize, head: &[u8]) -> Option<(usize, bool)> {
    let (mut kind, mut at) = (kind, body);
    for _ in 0..TAGS {
        if !is_tag(kind) {
            break;
        }
        kind = u16_at(head, at + 2)?;
        at += 4;
    }
    match (kind, head.get(at)? >> 4) {
        (ethertype::IPV4, 4) => Some((at, true)),
        (ethertype::IPV6, 6) => Some((at, false)),
        _ => None,
    }
}

/// Traffic class of an IP header: differentiated services and ECN.
#[inline]
pub(crate) fn traffic_class(head: &[u8], at: usize, v4: bool) -> Option<u8> {
    let first = u16_at(head, at)?;
    Some(if v4 { first as u8 } else { (first >> 4) as u8 })
}
