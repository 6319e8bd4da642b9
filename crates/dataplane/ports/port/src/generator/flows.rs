//! Which addresses and ports a flow has, computed from its number: no table, which would be larger than a
//! cache.

use super::config::Config;
use std::net::IpAddr;

/// Varied bits of an address.
const MAX_HOST_BITS: u32 = 16;

/// What varies between flows. Addresses are their last 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    pub source: u32,
    pub destination: u32,
    pub source_port: u16,
    pub destination_port: u16,
}

/// All 5-tuples that addresses and ports offer.
///
/// A flow's number is scrambled by a bijection of the bits that there are, so that flows with neighbouring
/// numbers are not neighbours, and then cut into the fields: two numbers never make the same flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowSpace {
    first: Flow,
    source: Field,
    destination: Field,
    source_port: Field,
    destination_port: Field,
    bits: u32,
    offset: u64,
}

/// Bits of the scrambled number.
#[derive(Clone, Copy, Debug)]
struct Field {
    shift: u32,
    mask: u64,
}

impl FlowSpace {
    pub fn new(config: &Config) -> FlowSpace {
        let (source, source_bits) = hosts(config.source);
        let (destination, destination_bits) = hosts(config.destination);
        let (source_port, source_port_bits) = ports(config.source_ports);
        let (destination_port, destination_port_bits) = ports(config.destination_ports);
        let mut bits = 0;
        let mut field = |width: u32| {
            // At most 64 bits in all; a field of none at shift 64 must not shift by that much.
            let field = Field { shift: bits.min(63), mask: (1 << width) - 1 };
            bits += width;
            field
        };
        FlowSpace {
            first: Flow { source, destination, source_port, destination_port },
            source_port: field(source_port_bits),
            source: field(source_bits),
            destination: field(destination_bits),
            destination_port: field(destination_port_bits),
            bits,
            offset: config.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// How many flows there are, or as many as can be told.
    pub fn capacity(&self) -> u64 {
        self.mask().saturating_add(1)
    }

    #[inline]
    fn mask(&self) -> u64 {
        u64::MAX.checked_shr(64 - self.bits).unwrap_or(0)
    }

    /// The flow of a number below the capacity.
    #[inline]
    pub fn flow(&self, number: u32) -> Flow {
        let bits = self.scramble(u64::from(number));
        let cut = |field: Field| bits >> field.shift & field.mask;
        Flow {
            source: self.first.source + cut(self.source) as u32,
            destination: self.first.destination + cut(self.destination) as u32,
            source_port: self.first.source_port + cut(self.source_port) as u16,
            destination_port: self.first.destination_port + cut(self.destination_port) as u16,
        }
    }

    /// A bijection of the numbers below the capacity: sums and products with odd numbers modulo a power of
    /// two, and exclusive ors with the upper half.
    #[inline]
    fn scramble(&self, number: u64) -> u64 {
        let mask = self.mask();
        let half = (self.bits / 2).max(1);
        let mut x = number.wrapping_add(self.offset) & mask;
        x = x.wrapping_mul(0xd6e8_feb8_6659_fd93) & mask;
        x ^= x >> half;
        x = x.wrapping_mul(0xa076_1d64_78bd_642f) & mask;
        x ^ x >> half
    }
}

/// The last 32 bits of the first address, and how many vary.
fn hosts((address, length): (IpAddr, u8)) -> (u32, u32) {
    let (low, width) = match address {
        IpAddr::V4(address) => (address.to_bits(), 32),
        IpAddr::V6(address) => (address.to_bits() as u32, 128),
    };
    let bits = u32::saturating_sub(width, length.into()).min(MAX_HOST_BITS);
    (low & !((1 << bits) - 1), bits)
}

/// The first port, and how many bits of it vary: the largest power of two of ports from it on.
fn ports((first, last): (u16, u16)) -> (u16, u32) {
    (first, (u32::from(last.saturating_sub(first)) + 1).ilog2())
}
