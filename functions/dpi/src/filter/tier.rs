//! Finds literals of a minimal length: a sample of `WIDTH` bytes is taken every `STRIDE` bytes, and every literal has
//! `STRIDE` windows of that width side by side in the table, so that one of them meets a sample wherever the literal is.

use super::literals::Literals;
use super::{Budget, Findings};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Bits of the table, as a power of two.
const MAP_BITS: u32 = 17;
/// Bytes of the table.
const MAP_BYTES: usize = 1 << (MAP_BITS - 3);
/// Payload bytes between two branches.
const BLOCK: usize = 32;
/// Makes lower case of upper, and something of everything else that the table has been made with too.
const FOLD: u32 = 0x2020_2020;

/// A window of a literal.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its bytes, folded.
    word: u32,
    /// Number of the literal.
    literal: u32,
    /// Where in the literal it is.
    offset: u32,
}

/// Literals, found by samples.
#[derive(Debug)]
pub struct Tier<const STRIDE: usize, const WIDTH: usize> {
    map: Box<[u8; MAP_BYTES]>,
    /// Where the entries of a hash begin; one more than there are hashes.
    heads: Vec<u32>,
    entries: Vec<Entry>,
    shift: u32,
}

#[inline(always)]
fn hash(word: u32) -> u32 {
    word.wrapping_mul(0x9e37_79b1)
}

impl<const STRIDE: usize, const WIDTH: usize> Tier<STRIDE, WIDTH> {
    const MASK: u32 = u32::MAX >> (32 - 8 * WIDTH);

    /// A tier for these literals, of at least `STRIDE + WIDTH - 1` bytes each.
    pub fn new(numbers: &[u32], literals: &Literals) -> Self {
        let mut entries = Vec::with_capacity(numbers.len() * STRIDE);
        for number in numbers {
            let literal = &literals.list[*number as usize];
            for offset in literal.fragment..literal.fragment + STRIDE {
                let window = &literal.bytes[offset..offset + WIDTH];
                let word = window.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
                let entry =
                    Entry { word: (word | FOLD) & Self::MASK, literal: *number, offset: offset as u32 };
                entries.push(entry);
            }
        }
        let bits = (entries.len() * 2).next_power_of_two().trailing_zeros().clamp(4, 20);
        let shift = 32 - bits;
        entries.sort_by_key(|entry| (hash(entry.word) >> shift, entry.word));
        let mut heads = vec![0u32; (1 << bits) + 1];
        // On the heap from the beginning: the sandbox's stack is small.
        let map: Box<[u8]> = vec![0u8; MAP_BYTES].into_boxed_slice();
        let Ok(mut map) = <Box<[u8; MAP_BYTES]>>::try_from(map) else { unreachable!("of this length") };
        for entry in &entries {
            heads[(hash(entry.word) >> shift) as usize + 1] += 1;
            let bit = hash(entry.word) >> (32 - MAP_BITS);
            map[(bit >> 3) as usize] |= 1 << (bit & 7);
        }
        for at in 1..heads.len() {
            heads[at] += heads[at - 1];
        }
        Tier { map, heads, entries, shift }
    }

    /// One sample's bit, as it is in the table.
    #[inline(always)]
    fn probe(&self, word: u32) -> u32 {
        let bit = hash((word | FOLD) & Self::MASK) >> (32 - MAP_BITS);
        u32::from(self.map[(bit >> 3) as usize]) >> (bit & 7) & 1
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
            let hits = self.probe_block(block);
            if hits != 0 && !self.meet(data, at, hits, seam, literals, budget, findings) {
                return;
            }
            at += BLOCK;
        }
        // The rest, with zeros behind it: what they make match ends behind the data and is none.
        let rest = &data[at..];
        for first in [0, BLOCK] {
            let Some(some) = rest.get(first..).filter(|some| !some.is_empty()) else { return };
            let mut block = [0u8; ROOM];
            let length = some.len().min(ROOM);
            block[..length].copy_from_slice(&some[..length]);
            let hits = self.probe_block(&block);
            if hits != 0 && !self.meet(data, at + first, hits, seam, literals, budget, findings) {
                return;
            }
        }
    }

    /// Bits of all samples that begin in the first [`BLOCK`] bytes, the first one's the highest.
    #[inline(always)]
    fn probe_block(&self, block: &[u8; BLOCK + 4]) -> u32 {
        let mut hits = 0;
        let mut at = 0;
        while at < BLOCK {
            // One bit behind the other, and two samples from one word: placed each by itself, they would be put together
            // in vectors and taken out again, at a loss.
            if STRIDE == 4 {
                let mut pair = [0; 8];
                pair.copy_from_slice(&block[at..at + 8]);
                let pair = u64::from_le_bytes(pair);
                hits = hits << 1 | self.probe(pair as u32);
                hits = hits << 1 | self.probe((pair >> 32) as u32);
                at += 8;
            } else {
                let mut word = [0; 4];
                word.copy_from_slice(&block[at..at + 4]);
                hits = hits << 1 | self.probe(u32::from_le_bytes(word));
                at += STRIDE;
            }
        }
        hits
    }

    /// Compares what samples of a block point at; false when the budget is spent.
    #[allow(clippy::too_many_arguments)]
    #[inline(never)]
    fn meet(
        &self,
        data: &[u8],
        block: usize,
        mut hits: u32,
        seam: usize,
        literals: &Literals,
        budget: &mut Budget,
        findings: &mut Findings,
    ) -> bool {
        while hits != 0 {
            let bit = 31 - hits.leading_zeros();
            let at = block + (BLOCK / STRIDE - 1 - bit as usize) * STRIDE;
            hits ^= 1 << bit;
            let Some(window) = data.get(at..at + WIDTH) else { continue };
            let word = window.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
            let word = (word | FOLD) & Self::MASK;
            let head = (hash(word) >> self.shift) as usize;
            let entries = &self.entries[self.heads[head] as usize..self.heads[head + 1] as usize];
            for entry in entries {
                if entry.word != word || findings.has(entry.literal) {
                    continue;
                }
                let literal = &literals.list[entry.literal as usize];
                if !budget.pay(1 + literal.bytes.len() as u32 / 16) {
                    return false;
                }
                let Some(start) = at.checked_sub(entry.offset as usize) else { continue };
                literals.meet(entry.literal, data, start, seam, findings);
            }
            if entries.len() > 16 && !budget.pay(entries.len() as u32 / 16) {
                return false;
            }
        }
        true
    }
}
