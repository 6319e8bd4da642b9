//! Finds checksums that a sender left to its interface.
//!
//! AF_XDP carries no checksum state. Where the other end of an interface is a kernel (a veth pair), frames
//! come with what that kernel left to its "hardware": the sum of the pseudo header alone stands in the
//! checksum's place (`CHECKSUM_PARTIAL`, `linux/skbuff.h`).

use nf_abi::offload;
use packet::checksum::Sum;
use packet_memory::{Packet, Pool};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of a packet that are looked at: Ethernet with two tags, IPv6, TCP.
pub const LOOKED_AT: usize = 14 + 8 + 40 + 20;

/// Where a checksum is unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Where checksumming starts, from the frame's first byte.
    pub start: u16,
    /// Where the checksum is stored, from there.
    pub offset: u16,
}

/// Finds the checksum of a TCP or UDP packet that holds the sum of its pseudo header and nothing else. `head`
/// is the beginning of a frame of `length` bytes.
///
/// One in 65,536 finished checksums looks the same by chance; finishing it once more yields what stood there.
/// Fragments, packets behind IPv6 extension headers or in tunnels, and frames with bytes behind their packet
/// are not looked at.
#[inline]
pub fn find_unfinished(head: &[u8], length: u32) -> Option<Unfinished> {
    let word = |at: usize| head.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
    let (mut kind, mut network) = (word(12)?, 14);
    while matches!(kind, 0x8100 | 0x88a8) && network < 22 {
        kind = word(network + 2)?;
        network += 4;
    }
    let (sum, protocol, transport, size) = match kind {
        0x0800 => {
            let header: &[u8; 20] = head.get(network..)?.first_chunk()?;
            let words = usize::from(header[0] & 0x0f);
            let total = u16::from_be_bytes([header[2], header[3]]);
            let size = usize::from(total).checked_sub(words * 4)?;
            let whole = u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0;
            if header[0] >> 4 != 4 || words < 5 || !whole {
                return None;
            }
            let address =
                |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
            let protocol = header[9];
            let sum = Sum::ZERO.add_pseudo_v4(address(12), address(16), protocol, size as u16);
            (sum, protocol, network + words * 4, size)
        }
        0x86dd => {
            let header: &[u8; 40] = head.get(network..)?.first_chunk()?;
            let size = u16::from_be_bytes([header[4], header[5]]);
            let address = |bytes: &[u8; 16]| Ipv6Addr::from(*bytes);
            let (source, destination) = (header[8..].first_chunk()?, header[24..].first_chunk()?);
            let protocol = header[6];
            if header[0] >> 4 != 6 {
                return None;
            }
            let sum =
                Sum::ZERO.add_pseudo_v6(address(source), address(destination), protocol, u32::from(size));
            (sum, protocol, network + 40, usize::from(size))
        }
        _ => return None,
    };
    let offset = match protocol {
        6 => 16,
        17 => 6,
        _ => return None,
    };
    let found = word(transport + offset)?;
    let unfinished = found == sum.folded() && transport + size == length as usize;
    unfinished.then_some(Unfinished { start: transport as u16, offset: offset as u16 })
}

/// Notes in a received packet's record that its checksum is unfinished, if it is; returns that.
#[inline]
pub(crate) fn note_unfinished(pool: &Pool, packet: &mut Packet) -> bool {
    let (head, count) = pool.head::<LOOKED_AT>(packet);
    let found = find_unfinished(&head[..count], packet.length());
    if let Some(Unfinished { start, offset }) = found {
        packet.edit(|record| {
            record.offload_flags = offload::NEEDS_CHECKSUM;
            (record.csum_start, record.csum_offset) = (start, offset);
        });
    }
    found.is_some()
}
