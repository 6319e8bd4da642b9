//! Checksums of UDP around what a tunnel carries.

use crate::fields::{array_at, u16_at};
use packet::checksum::Sum;
use packet::protocol;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Of the datagram whose outer IP header begins at a place of a frame: the sum of its pseudo header, and
/// which bytes of the frame its checksum is over beside that. `head` is the frame's beginning, up to the UDP
/// header.
pub fn datagram(head: &[u8], at: u8) -> Option<(Sum, Range<usize>)> {
    let at = usize::from(at);
    let v4 = head.get(at)? >> 4 == 4;
    let start = at + if v4 { 20 } else { 40 };
    let length = u16_at(head, start + 4)?;
    let pseudo = if v4 {
        let [source, destination] = [12, 16].map(|field| array_at::<4>(head, at + field).map(Ipv4Addr::from));
        Sum::ZERO.add_pseudo_v4(source?, destination?, protocol::UDP, length)
    } else {
        let [source, destination] = [8, 24].map(|field| array_at::<16>(head, at + field).map(Ipv6Addr::from));
        Sum::ZERO.add_pseudo_v6(source?, destination?, protocol::UDP, length.into())
    };
    Some((pseudo, start..start + usize::from(length)))
}
