//! Finds literals that are few, sixteen places at a time: each belongs to one of eight buckets, and two tables for each of its
//! first `WIDTH` bytes say which buckets a byte may belong to, by its lower and its upper half. What all tables
//! agree on is compared (as the Teddy algorithm of Hyperscan does, Wang et al., NSDI 2019, section 4.2).

use super::literals::{Literal, Literals};
use super::{Budget, Findings};
use alloc::vec;
use alloc::vec::Vec;
use wide::bytemuck::cast;
use wide::{u8x16, u16x8};

/// Most literals: with more, what the tables let through by mistake costs more than sampling.
pub const MAX_LITERALS: usize = 64;
/// Buckets, a bit each.
const BUCKETS: usize = 8;
/// Places that are looked at together.
const BLOCK: usize = 16;

/// Where a literal is looked for.
#[derive(Clone, Copy, Debug)]
struct Entry {
    literal: u32,
    /// Where its fragment begins.
    offset: u32,
}

/// Few literals.
#[derive(Debug)]
pub struct Few<const WIDTH: usize> {
    /// For each byte of a fragment, buckets by its lower half and by its upper one.
    tables: [[u8x16; 2]; WIDTH],
    buckets: [Vec<Entry>; BUCKETS],
}

/// The fragment of a literal that is looked for.
fn fragment<const WIDTH: usize>(literal: &Literal) -> usize {
    literal.fragment.min(literal.bytes.len() - WIDTH)
}

/// Sixteen bytes as a whole: one load, while byte by byte it would be sixteen in the sandbox.
#[inline(always)]
fn load<const AT: usize>(block: &[u8; BLOCK + 4]) -> u8x16 {
    let mut bytes = [0; BLOCK];
    bytes.copy_from_slice(&block[AT..AT + BLOCK]);
    u8x16::new(bytes)
}

impl<const WIDTH: usize> Few<WIDTH> {
    /// For these literals, of at least `WIDTH` bytes each.
    pub fn new(numbers: &[u32], literals: &Literals) -> Self {
        let literal = |number: &u32| &literals.list[*number as usize];
        let mut order = numbers.to_vec();
        // What begins alike shares a bucket, and lets fewer others through.
        order.sort_by_key(|number| literal(number).bytes[fragment::<WIDTH>(literal(number))..].to_vec());
        let mut tables = [[[0u8; 16]; 2]; WIDTH];
        let mut buckets = [(); BUCKETS].map(|()| vec![]);
        for (place, number) in order.iter().enumerate() {
            let bucket = place * BUCKETS / order.len();
            let (bytes, offset) = (&literal(number).bytes, fragment::<WIDTH>(literal(number)));
            buckets[bucket].push(Entry { literal: *number, offset: offset as u32 });
            for (byte, [lower, upper]) in bytes[offset..].iter().zip(&mut tables) {
                let cases =
                    if literal(number).nocase { [*byte, byte.to_ascii_uppercase()] } else { [*byte; 2] };
                for case in cases {
                    lower[usize::from(case & 15)] |= 1 << bucket;
                    upper[usize::from(case >> 4)] |= 1 << bucket;
                }
            }
        }
        Few { tables: tables.map(|halves| halves.map(u8x16::new)), buckets }
    }

    /// Buckets that each of sixteen places may belong to.
    #[inline(always)]
    fn buckets_at(&self, block: &[u8; BLOCK + 4]) -> u8x16 {
        const LOWER: u8x16 = u8x16::new([15; 16]);
        let mut agreed = u8x16::new([255; 16]);
        let windows = [load::<0>(block), load::<1>(block), load::<2>(block), load::<3>(block)];
        for ([lower, upper], bytes) in self.tables.iter().zip(windows) {
            let high: u8x16 = cast(cast::<u8x16, u16x8>(bytes) >> 4u32);
            agreed &= lower.shuffle_zeroing(bytes & LOWER) & upper.shuffle_zeroing(high & LOWER);
        }
        agreed
    }

    /// See [`super::Filter::scan`].
    #[inline(always)]
    pub fn scan(
        &self,
        data: &[u8],
        seam: usize,
        literals: &Literals,
        budget: &mut Budget,
        findings: &mut Findings,
    ) {
        const ROOM: usize = BLOCK + 4;
        let mut at = 0;
        while let Some(block) = data.get(at..).and_then(<[u8]>::first_chunk::<ROOM>) {
            let agreed = self.buckets_at(block);
            if agreed.simd_eq(u8x16::ZERO).to_bitmask() != 0xffff
                && !self.meet(data, at, agreed, seam, literals, budget, findings)
            {
                return;
            }
            at += BLOCK;
        }
        // The rest, with zeros behind it: what they make match ends behind the data and is none.
        for at in [at, at + BLOCK] {
            let Some(some) = data.get(at..).filter(|some| !some.is_empty()) else { return };
            let mut block = [0u8; ROOM];
            let length = some.len().min(ROOM);
            block[..length].copy_from_slice(&some[..length]);
            let agreed = self.buckets_at(&block);
            if !self.meet(data, at, agreed, seam, literals, budget, findings) {
                return;
            }
        }
    }

    /// Compares what the tables let through; false when the budget is spent.
    #[allow(clippy::too_many_arguments)]
    #[inline(never)]
    fn meet(
        &self,
        data: &[u8],
        block: usize,
        agreed: u8x16,
        seam: usize,
        literals: &Literals,
        budget: &mut Budget,
        findings: &mut Findings,
    ) -> bool {
        let places = !agreed.simd_eq(u8x16::ZERO).to_bitmask() & 0xffff;
        let buckets: [u8; BLOCK] = cast(agreed);
        let mut places = places;
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            places &= places - 1;
            let mut bits = buckets[place & (BLOCK - 1)];
            while bits != 0 {
                let bucket = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                for entry in &self.buckets[bucket & (BUCKETS - 1)] {
                    if findings.has(entry.literal) {
                        continue;
                    }
                    if !budget.pay(1) {
                        return false;
                    }
                    let Some(start) = (block + place).checked_sub(entry.offset as usize) else { continue };
                    literals.meet(entry.literal, data, start, seam, findings);
                }
            }
        }
        true
    }
}
