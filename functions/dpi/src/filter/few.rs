//! Finds literals that are few, sixteen places at a time: each belongs to one of eight buckets, and two
//! tables for each of two to four of its bytes say which buckets a byte may belong to, by its lower and its
//! upper half. What all tables agree on is compared (as the Teddy algorithm of Hyperscan does, Wang et al.,
//! NSDI 2019, section 4.2).

use super::literals::{Literal, Literals, commonness};
use super::{Findings, NEAR, Zone};
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
/// Most bytes of a literal that are looked at before it is compared.
const WIDEST: usize = 4;
/// Bytes that a block is taken from: a window may begin at each of its places.
const ROOM: usize = BLOCK + WIDEST;

/// Where a literal is looked for.
#[derive(Clone, Copy, Debug)]
struct Entry {
    literal: u32,
    /// Where its fragment begins.
    offset: i32,
}

/// Few literals.
#[derive(Debug)]
pub struct Few {
    /// For each byte of a fragment, buckets by its lower half and by its upper one.
    tables: [[u8x16; 2]; WIDEST],
    /// Bytes of a fragment.
    width: usize,
    buckets: [Vec<Entry>; BUCKETS],
}

/// Where the fragment of a literal begins that is looked for: its rarest bytes.
fn fragment(literal: &Literal, width: usize) -> usize {
    let common = |window: &[u8]| window.iter().map(|byte| commonness(*byte)).sum::<u32>();
    let windows = literal.bytes.windows(width).map(common).enumerate();
    windows.min_by_key(|(_, common)| *common).map_or(0, |(start, _)| start)
}

/// Sixteen bytes as a whole: one load, while byte by byte it would be sixteen in the sandbox.
#[inline(always)]
fn load<const AT: usize>(block: &[u8; ROOM]) -> u8x16 {
    let mut bytes = [0; BLOCK];
    bytes.copy_from_slice(&block[AT..AT + BLOCK]);
    u8x16::new(bytes)
}

/// Whether a bucket is left at any place.
#[inline(always)]
fn any(agreed: u8x16) -> bool {
    !agreed.simd_eq(u8x16::ZERO).all()
}

impl Few {
    /// For these literals, [`MAX_LITERALS`] at most.
    pub fn new(numbers: &[u32], literals: &Literals) -> Self {
        let literal = |number: &u32| &literals.list[*number as usize];
        // The more share a bucket, the more bytes it takes to tell them from others.
        let wanted = match numbers.len() {
            0..=12 => 2,
            13..=32 => 3,
            _ => WIDEST,
        };
        let width = numbers.iter().map(|number| literal(number).bytes.len()).fold(wanted, usize::min);
        let of = |number: &u32| fragment(literal(number), width);
        let mut order = numbers.to_vec();
        // What begins alike shares a bucket, and lets fewer others through.
        order.sort_by_key(|number| literal(number).bytes[of(number)..].to_vec());
        let mut tables = [[[0u8; 16]; 2]; WIDEST];
        let mut buckets = [(); BUCKETS].map(|()| vec![]);
        for (place, number) in order.iter().enumerate() {
            let bucket = place * BUCKETS / order.len();
            let (bytes, offset) = (&literal(number).bytes, of(number));
            buckets[bucket].push(Entry { literal: *number, offset: offset as i32 });
            for (byte, [lower, upper]) in bytes[offset..offset + width].iter().zip(&mut tables) {
                let cases =
                    if literal(number).nocase { [*byte, byte.to_ascii_uppercase()] } else { [*byte; 2] };
                for case in cases {
                    lower[usize::from(case & 15)] |= 1 << bucket;
                    upper[usize::from(case >> 4)] |= 1 << bucket;
                }
            }
        }
        Few { tables: tables.map(|halves| halves.map(u8x16::new)), width, buckets }
    }

    /// Buckets that each of sixteen places may belong to.
    #[inline(always)]
    fn buckets_at<const WIDTH: usize>(tables: &[[u8x16; 2]; WIDEST], block: &[u8; ROOM]) -> u8x16 {
        const LOWER: u8x16 = u8x16::new([15; 16]);
        let mut agreed = u8x16::new([255; 16]);
        let windows = [load::<0>(block), load::<1>(block), load::<2>(block), load::<3>(block)];
        for ([lower, upper], bytes) in tables.iter().zip(windows).take(WIDTH) {
            let high: u8x16 = cast(cast::<u8x16, u16x8>(bytes) >> 4u32);
            // All indices are below 16, where all kinds of shuffling agree.
            agreed &= lower.shuffle(bytes & LOWER) & upper.shuffle(high & LOWER);
        }
        agreed
    }

    /// Whether the tables agree on a fragment across the middle.
    #[inline(always)]
    pub fn may_cross(&self, zone: &Zone) -> bool {
        let mut block = [0; ROOM];
        block[..2 * NEAR].copy_from_slice(zone);
        let agreed = match self.width {
            2 => Self::buckets_at::<2>(&self.tables, &block),
            3 => Self::buckets_at::<3>(&self.tables, &block),
            _ => Self::buckets_at::<WIDEST>(&self.tables, &block),
        };
        // Those that begin before the middle and end behind it.
        let places = (1 << NEAR) - (1 << (NEAR + 1 - self.width));
        !agreed.simd_eq(u8x16::ZERO).to_bitmask() & places != 0
    }

    /// See [`super::Filter::scan`].
    #[inline(always)]
    pub fn scan(&self, data: &[u8], seam: usize, literals: &Literals, findings: &mut Findings) {
        match self.width {
            2 => self.scan_width::<2>(data, seam, literals, findings),
            3 => self.scan_width::<3>(data, seam, literals, findings),
            _ => self.scan_width::<WIDEST>(data, seam, literals, findings),
        }
    }

    #[inline(always)]
    fn scan_width<const WIDTH: usize>(
        &self,
        data: &[u8],
        seam: usize,
        literals: &Literals,
        findings: &mut Findings,
    ) {
        let mut at = 0;
        loop {
            at = Self::next::<WIDTH>(&self.tables, data, at);
            let Some(block) = data.get(at..).and_then(<[u8]>::first_chunk) else { break };
            let agreed = Self::buckets_at::<WIDTH>(&self.tables, block);
            self.meet(data, at, agreed, seam, literals, findings);
            at += BLOCK;
        }
        // The rest, and what is before it as far as a block needs it; or all there is, with zeros behind it:
        // what they make match ends behind the data and is none.
        let room = BLOCK - 1 + WIDTH;
        let last = data.len().saturating_sub(room);
        let mut at = at.min(last);
        loop {
            let mut block = [0u8; ROOM];
            match data.get(at..at + room) {
                Some(some) => block[..room].copy_from_slice(some),
                None => block[..data.len()].copy_from_slice(data),
            }
            let agreed = Self::buckets_at::<WIDTH>(&self.tables, &block);
            if any(agreed) {
                self.meet(data, at, agreed, seam, literals, findings);
            }
            if at == last {
                return;
            }
            at = last;
        }
    }

    /// The first block from `at` on that tables agree on, or that has no [`ROOM`]. By itself, so that the
    /// sandbox's compiler has registers for all of it.
    #[inline(never)]
    fn next<const WIDTH: usize>(tables: &[[u8x16; 2]; WIDEST], data: &[u8], at: usize) -> usize {
        let tables = *tables;
        let mut rest = data.get(at..).unwrap_or_default();
        while let Some(blocks) = rest.first_chunk::<{ 4 * BLOCK + WIDEST }>() {
            let at = |place: usize| match blocks[place..].first_chunk() {
                Some(block) => Self::buckets_at::<WIDTH>(&tables, block),
                None => u8x16::ZERO,
            };
            let (first, second, third, fourth) = (at(0), at(BLOCK), at(2 * BLOCK), at(3 * BLOCK));
            if any((first | second) | (third | fourth)) {
                let before = [first, second, third].iter().position(|agreed| any(*agreed)).unwrap_or(3);
                return data.len() - rest.len() + before * BLOCK;
            }
            rest = &rest[4 * BLOCK..];
        }
        while let Some(block) = rest.first_chunk() {
            if any(Self::buckets_at::<WIDTH>(&tables, block)) {
                break;
            }
            rest = &rest[BLOCK..];
        }
        data.len() - rest.len()
    }

    /// Compares what the tables let through.
    #[inline(never)]
    fn meet(
        &self,
        data: &[u8],
        block: usize,
        agreed: u8x16,
        seam: usize,
        literals: &Literals,
        findings: &mut Findings,
    ) {
        let places = !agreed.simd_eq(u8x16::ZERO).to_bitmask() & 0xffff;
        let buckets: [u8; BLOCK] = cast(agreed);
        let mut places = places;
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            places &= places - 1;
            let mut bits = buckets[place & (BLOCK - 1)];
            // A bucket has few; several of them are a crowd.
            let several = bits & bits.wrapping_sub(1) != 0;
            if several && !findings.may_compare(bits.count_ones() as usize * (MAX_LITERALS / BUCKETS)) {
                continue;
            }
            while bits != 0 {
                let bucket = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                for entry in &self.buckets[bucket & (BUCKETS - 1)] {
                    literals.meet(entry.literal, data, (block + place, entry.offset), seam, findings);
                }
            }
        }
    }
}
