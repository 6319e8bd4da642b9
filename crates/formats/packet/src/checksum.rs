//! The Internet checksum (RFC 1071), its incremental update (RFC 1624) and the pseudo headers of IPv4 (RFC
//! 9293 section 3.1, RFC 768) and IPv6 (RFC 8200 section 8.1).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wide::bytemuck::cast;
use wide::{u32x4, u32x8};

/// Bytes that are summed in a turn: with fewer, what a turn itself costs is most of it in the sandbox, whose
/// compiler makes each turn of a loop look at the deadline.
const BLOCK: usize = 64;
/// Blocks after which no lane of 32 bits has overflowed: to each of the last four a block adds eight words of
/// 16.
const MOST_BLOCKS: usize = 1 << 13;

/// The sum of the 16-bit words of [`MOST_BLOCKS`] at most, in the processor's order. As vectors, because
/// compilers do not make these of a loop in the sandbox, or do it across blocks.
///
/// Words of 32 bits are summed without their carries, and their upper halves by themselves: what the first
/// sum is beside the second one is that of the lower halves. That is an operation less for each word than to
/// take the halves apart.
fn sum_of_blocks(blocks: &[[u8; BLOCK]]) -> u64 {
    let (mut sum, mut upper) = (u32x8::ZERO, u32x8::ZERO);
    for block in blocks {
        let [a, b]: [u32x8; 2] = cast(*block);
        sum += a + b;
        upper += (a >> 16u32) + (b >> 16u32);
    }
    let [a, b]: [u32x4; 2] = cast(sum - (upper << 16u32) + upper);
    let lanes: [u32; 4] = cast(a + b);
    lanes.iter().map(|lane| u64::from(*lane)).sum()
}

/// A one's complement sum under way.
///
/// Only the last piece added may have an odd number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Nothing added yet.
    pub const ZERO: Sum = Sum(0);

    /// Adds bytes; a last odd one counts as the high half of a word.
    #[inline]
    #[must_use]
    pub fn add_bytes(self, bytes: &[u8]) -> Sum {
        // Words are summed in the order of bytes that the processor has, and the sum is turned at the end
        // (RFC 1071 section 2(B)). Words of 32 bits in 64 cannot overflow below 16 GiB.
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        let mut sum: u64 = blocks.chunks(MOST_BLOCKS).map(sum_of_blocks).sum();
        let (quads, rest) = rest.as_chunks::<4>();
        sum += quads.iter().map(|&quad| u64::from(u32::from_ne_bytes(quad))).sum::<u64>();
        let (pairs, odd) = rest.as_chunks::<2>();
        for &pair in pairs {
            sum += u64::from(u16::from_ne_bytes(pair));
        }
        if let [last] = odd {
            sum += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        self.add_u16(Sum(sum).folded().to_be())
    }

    /// Adds one 16-bit word.
    #[inline]
    #[must_use]
    pub const fn add_u16(self, word: u16) -> Sum {
        Sum(self.0 + word as u64)
    }

    /// Adds two 16-bit words at once.
    #[inline]
    #[must_use]
    pub const fn add_u32(self, words: u32) -> Sum {
        Sum(self.0 + words as u64)
    }

    /// Adds the pseudo header of a transport protocol over IPv4.
    #[inline]
    #[must_use]
    pub fn add_pseudo_v4(self, source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> Sum {
        self.add_u32(source.to_bits())
            .add_u32(destination.to_bits())
            .add_u16(u16::from(protocol))
            .add_u16(length)
    }

    /// Adds the pseudo header of a transport protocol over IPv6.
    #[inline]
    #[must_use]
    pub fn add_pseudo_v6(self, source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: u32) -> Sum {
        self.add_bytes(&source.octets())
            .add_bytes(&destination.octets())
            .add_u16(u16::from(protocol))
            .add_u32(length)
    }

    /// The sum in 16 bits, not complemented.
    #[inline]
    pub const fn folded(self) -> u16 {
        // Carries go round: from 64 bits to 32, and to 16, where the upper half of the two halves' sum and
        // that of the other order has the carry of the lower one.
        let (sum, carry) = (self.0 as u32).overflowing_add((self.0 >> 32) as u32);
        let sum = sum + carry as u32;
        (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
    }

    /// The checksum to store in a header.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// Addresses between which a transport header travels; the pseudo header without protocol and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoints {
    /// Over IPv4.
    V4 {
        /// From.
        source: Ipv4Addr,
        /// To.
        destination: Ipv4Addr,
    },
    /// Over IPv6.
    V6 {
        /// From.
        source: Ipv6Addr,
        /// To.
        destination: Ipv6Addr,
    },
}

impl Endpoints {
    /// Two addresses; `None` when they are of different families.
    pub fn new(source: IpAddr, destination: IpAddr) -> Option<Endpoints> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Endpoints::V4 { source, destination }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Endpoints::V6 { source, destination }),
            _ => None,
        }
    }

    /// The sum over the pseudo header and the whole segment: [`Sum::checksum`] of it belongs into a header
    /// whose checksum field is zero, and [`Sum::folded`] of it is `0xffff` when the field is right.
    #[inline]
    pub fn sum(&self, protocol: u8, segment: &[u8]) -> Sum {
        let length = segment.len();
        match *self {
            Endpoints::V4 { source, destination } => {
                Sum::ZERO.add_pseudo_v4(source, destination, protocol, length as u16)
            }
            Endpoints::V6 { source, destination } => {
                Sum::ZERO.add_pseudo_v6(source, destination, protocol, length as u32)
            }
        }
        .add_bytes(segment)
    }

    /// Whether the checksum inside `segment` is right.
    #[inline]
    pub fn verify(&self, protocol: u8, segment: &[u8]) -> bool {
        self.sum(protocol, segment).folded() == 0xffff
    }
}

/// The checksum over `bytes`, whose checksum field is zero.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    Sum::ZERO.add_bytes(bytes).checksum()
}

/// Whether the checksum inside `bytes` is right.
#[inline]
pub fn verify(bytes: &[u8]) -> bool {
    Sum::ZERO.add_bytes(bytes).folded() == 0xffff
}

/// The checksum after bytes that it covers changed from `old` to `new` (RFC 1624, equation 3). Both begin at
/// an even distance from the first byte covered and are equally long.
#[inline]
pub fn update(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    let removed = !Sum::ZERO.add_bytes(old).folded();
    Sum::ZERO.add_u16(!checksum).add_u16(removed).add_bytes(new).checksum()
}

/// [`update`] for one 16-bit word.
#[inline]
pub const fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::ZERO.add_u16(!checksum).add_u16(!old).add_u16(new).checksum()
}

/// What UDP puts on the wire: a computed zero is sent as all ones, since zero means "none" (RFC 768).
#[inline]
pub const fn udp_wire(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// RFC 1071 section 4.1, word by word.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(!of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn a_header_from_the_wire() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01,
            0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert!(verify(&header));
    }

    #[test]
    fn the_largest_words_overflow_nothing() {
        // Enough blocks for three rounds, and a rest of every kind.
        let bytes = std::vec![0xff; 2 * MOST_BLOCKS * BLOCK + BLOCK + 15];
        for cut in [0, 1, 2, 3, 14] {
            let bytes = &bytes[cut..];
            assert_eq!(of(bytes), plain(bytes), "{} bytes", bytes.len());
        }
    }

    /// That a sum is folded means that it is the same modulo 0xffff, and zero if it is nothing alone.
    fn check_folded(sum: u64) {
        let expected = if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 };
        assert_eq!(u64::from(Sum(sum).folded()), expected, "{sum:#x}");
    }

    #[test]
    fn carries_go_round_at_every_edge() {
        for shift in 0..64 {
            for edge in [1 << shift, u64::MAX >> shift, u64::MAX << shift] {
                (-2i64..=2).for_each(|more| check_folded(edge.wrapping_add_signed(more)));
            }
        }
    }

    proptest! {
        #[test]
        fn any_sum_is_folded(sum in any::<u64>(), shift in 0..64) {
            check_folded(sum >> shift);
        }

        #[test]
        fn equals_the_plain_way(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(of(&bytes), plain(&bytes));
        }

        #[test]
        fn update_equals_computing_anew(
            mut bytes in proptest::collection::vec(any::<u8>(), 8..200),
            at in 0usize..50,
            new in proptest::collection::vec(any::<u8>(), 2..16),
        ) {
            // All zeros are the one case in which the two zeros of one's complement differ (RFC 1624 section
            // 3).
            bytes[0] |= 1;
            let new: Vec<u8> = new[..new.len() & !1].to_vec();
            let at = (2 + at * 2).min((bytes.len() - 2) & !1);
            let end = (at + new.len()).min(bytes.len() & !1);
            let before = of(&bytes);
            let old = bytes[at..end].to_vec();
            bytes[at..end].copy_from_slice(&new[..end - at]);
            prop_assert_eq!(update(before, &old, &new[..end - at]), of(&bytes));
        }
    }
}
