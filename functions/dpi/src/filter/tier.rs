//! Finds literals of a minimal length: a sample of `WIDTH` bytes is taken every `STRIDE` bytes, and every
//! literal has `STRIDE` windows of that width side by side in the table, so that one of them meets a sample
//! wherever the literal is.
//!
//! A literal that is shorter by a byte or two has windows that reach one byte beyond it, with whatever byte
//! is there: [`BYTES`] entries each. A few of them are cheaper in the table than another scan.

use super::literals::Literals;
use super::{Findings, NEAR, Zone};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Places in the table, as a power of two: at each byte begins a word of 64 bits.
const MAP_BITS: u32 = 18;
/// Bytes of the table.
const MAP_BYTES: usize = (1 << MAP_BITS) + 7;
/// Payload bytes between two branches: with more, the sandbox's compiler has more at hand than there are
/// registers.
const GROUP: usize = 16;
/// Payload bytes of one turn.
const BLOCK: usize = 4 * GROUP;
/// What a group is taken from: a sample may begin with its last byte.
const ROOM: usize = GROUP + 4;
/// Makes lower case of upper, and something of everything else that the table has been made with too.
const FOLD: u32 = 0x2020_2020;
/// How many bytes there are when upper and lower case are one.
pub const BYTES: usize = 128;

/// A window of a literal.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its bytes, folded.
    word: u32,
    /// Number of the literal.
    literal: u32,
    /// Where in the literal it is; -1 when it begins before it.
    offset: i32,
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

    /// How many windows of a literal of so many bytes reach beyond it; `None` when there is one that would
    /// have to reach further than a byte.
    pub fn windows_beyond(length: usize) -> Option<usize> {
        let beyond = (STRIDE + WIDTH - 1).saturating_sub(length);
        (beyond == 0 || beyond <= 2 && length >= WIDTH).then_some(beyond)
    }

    /// The window of a literal that begins at `offset`, and those with any byte in place of the one that it
    /// lacks.
    fn windows(bytes: &[u8], offset: i32) -> impl Iterator<Item = u32> {
        let byte =
            |place: i32| usize::try_from(offset + place).ok().and_then(|place| bytes.get(place)).copied();
        let (mut word, mut missing) = (0, None);
        for place in 0..WIDTH as i32 {
            match byte(place) {
                Some(byte) => word |= u32::from(byte) << (8 * place),
                None => missing = Some(8 * place),
            }
        }
        let word = (word | FOLD) & Self::MASK;
        let count = if missing.is_some() { BYTES as u32 } else { 1 };
        let any = (0..u32::from(u8::MAX) + 1).filter(|byte| byte & (FOLD & 0xff) == 0).take(count as usize);
        any.map(move |byte| word | missing.map_or(0, |place| byte << place))
    }

    /// A tier for these literals, all of a length that [`Tier::windows_beyond`] allows.
    pub fn new(numbers: &[u32], literals: &Literals) -> Self {
        let mut entries = Vec::with_capacity(numbers.len() * STRIDE);
        for number in numbers {
            let literal = &literals.list[*number as usize];
            let first = match Self::windows_beyond(literal.bytes.len()) {
                Some(0) => literal.fragment.min(literal.bytes.len() + 1 - STRIDE - WIDTH) as i32,
                Some(1) | None => 0,
                Some(_) => -1,
            };
            for offset in first..first + STRIDE as i32 {
                let words = Self::windows(&literal.bytes, offset);
                entries.extend(words.map(|word| Entry { word, literal: *number, offset }));
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
            let (place, bit) = ((hash(entry.word) >> (32 - MAP_BITS)) as usize, entry.word & 63);
            map[place + (bit >> 3) as usize] |= 1 << (bit & 7);
        }
        for at in 1..heads.len() {
            heads[at] += heads[at - 1];
        }
        Tier { map, heads, entries, shift }
    }

    /// A sample's bit in the table, the lowest; the others are of other samples. The sample's first byte says
    /// which bit of the word it is, without a further operation: by six bits, of which [`FOLD`] sets one, so
    /// that nothing needs the sample as it was before.
    #[inline(always)]
    fn probe(map: &[u8; MAP_BYTES], word: u32) -> u32 {
        let place = (hash(word) >> (32 - MAP_BITS)) as usize;
        let mut bits = [0; 8];
        bits.copy_from_slice(&map[place..place + 8]);
        u64::from_le_bytes(bits).wrapping_shr(word) as u32
    }

    /// See [`super::Filter::scan`].
    #[inline(always)]
    pub fn scan(&self, data: &[u8], seam: usize, literals: &Literals, findings: &mut Findings) {
        let mut at = 0;
        loop {
            at = Self::next(&self.map, data, at);
            if at >= data.len() {
                return;
            }
            self.meet(data, at, seam, literals, findings);
            at += GROUP;
        }
    }

    /// A sample as it is in the table, with zeros behind the data: what they make match ends behind the data
    /// and is none.
    #[inline(always)]
    fn sample(data: &[u8], at: usize) -> u32 {
        let rest = data.get(at..).unwrap_or_default();
        let word = match rest.first_chunk() {
            Some(word) => u32::from_le_bytes(*word),
            None => rest.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte)),
        };
        (word | FOLD) & Self::MASK
    }

    /// Where the first group begins, from `at` on, that there is a bit for; the data's end, or behind it,
    /// when there is none. By itself, so that the sandbox's compiler has registers for all of it.
    #[inline(never)]
    fn next(map: &[u8; MAP_BYTES], data: &[u8], at: usize) -> usize {
        let mut rest = data.get(at..).unwrap_or_default();
        while let Some(block) = rest.first_chunk::<{ BLOCK + 4 }>() {
            let is_hit =
                |group: usize| block[group..].first_chunk().is_some_and(|some| Self::is_hit(map, some));
            for group in [0, GROUP, 2 * GROUP, 3 * GROUP] {
                if is_hit(group) {
                    return data.len() - rest.len() + group;
                }
            }
            rest = &rest[BLOCK..];
        }
        while let Some(some) = rest.first_chunk::<ROOM>() {
            if Self::is_hit(map, some) {
                return data.len() - rest.len();
            }
            rest = &rest[GROUP..];
        }
        let at = data.len() - rest.len();
        let Some(last) = data.last_chunk::<ROOM>().filter(|_| !rest.is_empty()) else { return at };
        // What is left is covered from behind, by samples of which some come again.
        if rest.len() > GROUP && Self::is_hit(map, last) {
            return data.len() - ROOM;
        }
        let mut padded = [0; ROOM];
        padded[..GROUP].copy_from_slice(&last[ROOM - GROUP..]);
        if Self::is_hit(map, &padded) { data.len() - GROUP } else { data.len() }
    }

    /// Whether there is a bit for one of the samples that begin in the first [`GROUP`] bytes. Which one is
    /// asked later, and seldom. Compilers make the hashes of four samples together.
    #[inline(always)]
    fn is_hit(map: &[u8; MAP_BYTES], group: &[u8; ROOM]) -> bool {
        let mut hits = 0;
        let mut at = 0;
        while at < GROUP {
            let mut word = [0; 4];
            word.copy_from_slice(&group[at..at + 4]);
            hits |= Self::probe(map, (u32::from_le_bytes(word) | FOLD) & Self::MASK);
            at += STRIDE;
        }
        hits & 1 != 0
    }

    /// Whether there is a bit for a sample of which the literal's windows may lie across the middle.
    #[inline(always)]
    pub fn may_cross(&self, zone: &Zone) -> bool {
        // All windows of a literal together are so long, and one more byte.
        const { assert!(STRIDE + WIDTH - 2 <= NEAR) };
        let reach = STRIDE + WIDTH - 2;
        let mut places = (NEAR - reach..=NEAR + reach - WIDTH).step_by(STRIDE);
        places.any(|at| Self::probe(&self.map, Self::sample(zone, at)) & 1 != 0)
    }

    /// Compares what samples of a group point at.
    #[inline(never)]
    fn meet(&self, data: &[u8], group: usize, seam: usize, literals: &Literals, findings: &mut Findings) {
        for at in (group..data.len().min(group + GROUP)).step_by(STRIDE) {
            let word = Self::sample(data, at);
            if Self::probe(&self.map, word) & 1 == 0 {
                continue;
            }
            let head = (hash(word) >> self.shift) as usize;
            let entries = &self.entries[self.heads[head] as usize..self.heads[head + 1] as usize];
            if !findings.may_compare(entries.len()) {
                continue;
            }
            for entry in entries {
                if entry.word == word {
                    literals.meet(entry.literal, data, (at, entry.offset), seam, findings);
                }
            }
        }
    }
}
