//! Many rules: each 16-bit chunk of what they look at is looked up in a table of its own, which answers with
//! the set of rules that the chunk's value agrees with; the first rule in all sets is the one (T. V.
//! Lakshman, D. Stiliadis, "High-speed policy-based packet forwarding", SIGCOMM 1998; the summaries are F.
//! Baboescu and G. Varghese, "Scalable packet classification", SIGCOMM 2001).
//!
//! Values that agree with the same rules share a class, and a class has one row: a summary, of which bit `n`
//! says that word `n` is not zero, and the words. Up to 64 words of 64 rules, hence 4,096 rules, fit one
//! summary.

use crate::rule::{Family, Rule, View};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// Most rules that a summary has room for.
pub const MAX_RULES: usize = 64 * 64;

/// Rules of one family whose packets have `W` words of addresses, hence `C` = 2 `W` + 3 chunks: addresses,
/// both ports, and the kind.
pub struct BitVectorRules<const W: usize, const C: usize> {
    /// By chunk and value: the class' row, counted in rows of that chunk.
    classes: Box<[[u16; 1 << 16]; C]>,
    /// By chunk: the rows, one behind the other.
    rows: [Vec<u64>; C],
    /// Words of a row, the summary included.
    stride: u32,
    /// Rules.
    count: usize,
}

/// Values `first` to `last` of a chunk, in the order of numbers.
type Interval = (u16, u16);

impl<const W: usize, const C: usize> BitVectorRules<W, C> {
    /// From at most [`MAX_RULES`] rules that all concern the family; `None` when there is no memory for the
    /// tables.
    pub fn new(rules: &[Rule]) -> Option<BitVectorRules<W, C>> {
        let rules = rules.get(..rules.len().min(MAX_RULES))?;
        let words = rules.len().div_ceil(64).max(1);
        let classes = vec![[0u16; 1 << 16]; C].into_boxed_slice().try_into().ok()?;
        let mut made = BitVectorRules {
            classes,
            rows: [const { Vec::new() }; C],
            stride: words as u32 + 1,
            count: rules.len(),
        };
        for chunk in 0..C {
            let intervals: Vec<Vec<Interval>> =
                rules.iter().map(|rule| intervals::<W, C>(rule, chunk)).collect();
            made.fill(chunk, &intervals, words)?;
        }
        Some(made)
    }

    /// Makes the classes and rows of one chunk.
    fn fill(&mut self, chunk: usize, intervals: &[Vec<Interval>], words: usize) -> Option<()> {
        // Where rules begin and where they have ended.
        let mut events: Vec<(u32, usize, bool)> = vec![];
        for (rule, intervals) in intervals.iter().enumerate() {
            for (first, last) in intervals {
                events.push((u32::from(*first), rule, true));
                events.push((u32::from(*last) + 1, rule, false));
            }
        }
        events.sort_unstable();
        let mut known: BTreeMap<Vec<u64>, u16> = BTreeMap::new();
        let mut current = vec![0u64; words];
        let (mut value, mut events) = (0u32, events.into_iter().peekable());
        while value <= 0xffff {
            while let Some((_, rule, begins)) = events.next_if(|(at, _, _)| *at <= value) {
                let bit = 1u64 << (rule % 64);
                if begins {
                    current[rule / 64] |= bit;
                } else {
                    current[rule / 64] &= !bit;
                }
            }
            let end = events.peek().map_or(0x1_0000, |(at, _, _)| (*at).min(0x1_0000));
            let class = match known.get(&current) {
                Some(class) => *class,
                None => {
                    let class = u16::try_from(known.len()).ok()?;
                    let summary =
                        current.iter().enumerate().fold(0, |all, (n, word)| all | u64::from(*word != 0) << n);
                    self.rows[chunk].push(summary);
                    self.rows[chunk].extend_from_slice(&current);
                    known.insert(current.clone(), class);
                    class
                }
            };
            let table = &mut self.classes[chunk];
            for value in value..end {
                // Addresses are looked up by the word as it was read, ports by their number.
                let raw = if chunk < 2 * W { (value as u16).swap_bytes() } else { value as u16 };
                table[usize::from(raw)] = class;
            }
            value = end;
        }
        Some(())
    }

    /// The rows that a packet's chunks lead to.
    #[inline(always)]
    fn rows(&self, view: &View<W>) -> [u32; C] {
        let mut rows = [0; C];
        for (chunk, row) in rows.iter_mut().enumerate() {
            let value = chunk_of::<W>(view, chunk);
            let class = u32::from(self.classes[chunk][usize::from(value)]);
            *row = class * self.stride;
        }
        rows
    }

    /// The words that can have a rule in all rows.
    #[inline(always)]
    fn summary(&self, rows: &[u32; C]) -> u64 {
        self.all(rows, 0)
    }

    /// The first rule in all rows, by its place.
    #[inline(always)]
    fn first(&self, rows: &[u32; C], mut summary: u64) -> usize {
        while summary != 0 {
            let word = summary.trailing_zeros();
            let matching = self.all(rows, 1 + word);
            if matching != 0 {
                return (word * 64 + matching.trailing_zeros()) as usize;
            }
            summary &= summary - 1;
        }
        self.count
    }

    /// The first rule that matches, by its place; when none does, the number of rules. A call of its own:
    /// inlined, it would take the registers of the search through few rules.
    #[inline(never)]
    pub fn find(&self, view: &View<W>) -> usize {
        let rows = self.rows(view);
        self.first(&rows, self.summary(&rows))
    }

    /// What the rows have in common at this place.
    #[inline(always)]
    fn all(&self, rows: &[u32; C], place: u32) -> u64 {
        self.rows.iter().zip(rows).fold(u64::MAX, |all, (words, row)| all & words[(row + place) as usize])
    }
}

#[inline(always)]
fn chunk_of<const W: usize>(view: &View<W>, chunk: usize) -> u16 {
    if chunk < 2 * W {
        (view.addresses[chunk / 2] >> (chunk % 2 * 16)) as u16
    } else {
        match chunk - 2 * W {
            0 => (view.ports >> 16) as u16,
            1 => view.ports as u16,
            _ => view.kind as u16,
        }
    }
}

/// The values of one chunk that a rule agrees with.
fn intervals<const W: usize, const C: usize>(rule: &Rule, chunk: usize) -> Vec<Interval> {
    if chunk < 2 * W {
        let (prefix, part) = if chunk < W { (rule.source, chunk) } else { (rule.destination, chunk - W) };
        let Some(prefix) = prefix else { return vec![(0, 0xffff)] };
        let words = Family::<W>::words(prefix.address).unwrap_or_default();
        let half = |word: u32| ((word >> (part % 2 * 16)) as u16).swap_bytes();
        let mask = half(Family::<W>::mask(prefix.length, part / 2));
        let value = half(words[part / 2]) & mask;
        return vec![(value, value | !mask)];
    }
    match chunk - 2 * W {
        0 => vec![rule.first],
        1 => vec![rule.second],
        _ => {
            let (low, high) = rule.protocol.map_or((0, 0xff), |p| (u16::from(p), u16::from(p)));
            let sides = rule.from.map_or(0..=1u16, |from| u16::from(from)..=u16::from(from));
            sides.map(|side| (side << 8 | low, side << 8 | high)).collect()
        }
    }
}
