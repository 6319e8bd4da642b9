//! A few rules, all looked at: four rules at a time in vectors of four lanes.

use crate::rule::{Family, Rule, View};
use alloc::boxed::Box;
use wide::bytemuck::cast;
use wide::{u16x8, u32x4};

/// Four rules, lane by lane. A lane matches when every difference is zero.
#[derive(Clone, Copy)]
struct Four<const W: usize> {
    mask: [u32x4; W],
    value: [u32x4; W],
    /// Both ranges' first ports, as in [`View::ports`].
    first: u16x8,
    last: u16x8,
    kind_mask: u32x4,
    kind_value: u32x4,
}

/// Most rules. One lane is left for the one behind them that matches everything.
pub const MAX_RULES: usize = FOURS * 4 - 1;
const FOURS: usize = 16;

/// At most [`MAX_RULES`] rules of one family, four by four.
///
/// Looking at them is straight code, without a loop: at the end of a loop's body the sandbox looks at its
/// deadline, and for that puts every vector that is in use into memory and back. Eight at a time would need
/// more vectors than there are registers.
pub struct LinearRules<const W: usize> {
    fours: Box<[Four<W>; FOURS]>,
}

impl<const W: usize> Four<W> {
    fn new(rules: &[Rule]) -> Four<W> {
        let mut mask = [[0u32; 4]; W];
        let mut value = [[0u32; 4]; W];
        let (mut first, mut last) = ([0u32; 4], [u32::MAX; 4]);
        // A lane without a rule matches everything: behind the last rule, nothing is looked at.
        let (mut kind_mask, mut kind_value) = ([0; 4], [0; 4]);
        for (lane, rule) in rules.iter().enumerate().take(4) {
            for (side, prefix) in [rule.source, rule.destination].into_iter().enumerate() {
                let Some(prefix) = prefix else { continue };
                let words = Family::<W>::words(prefix.address).unwrap_or_default();
                for (index, word) in words.iter().enumerate().take(W / 2) {
                    let bits = Family::<W>::mask(prefix.length, index);
                    mask[side * W / 2 + index][lane] = bits;
                    value[side * W / 2 + index][lane] = word & bits;
                }
            }
            first[lane] = u32::from(rule.first.0) << 16 | u32::from(rule.second.0);
            last[lane] = u32::from(rule.first.1) << 16 | u32::from(rule.second.1);
            kind_mask[lane] = rule.protocol.map_or(0, |_| 0xff) | rule.from.map_or(0, |_| 1 << 8);
            kind_value[lane] =
                rule.protocol.map_or(0, u32::from) | rule.from.map_or(0, |from| u32::from(from) << 8);
        }
        Four {
            mask: mask.map(u32x4::new),
            value: value.map(u32x4::new),
            first: cast(first),
            last: cast(last),
            kind_mask: u32x4::new(kind_mask),
            kind_value: u32x4::new(kind_value),
        }
    }

    /// Zero in the lanes that match.
    #[inline(always)]
    fn difference(&self, packet: &Splat<W>) -> u32x4 {
        let mut difference = (packet.kind & self.kind_mask) ^ self.kind_value;
        for word in 0..W {
            difference |= (packet.addresses[word] & self.mask[word]) ^ self.value[word];
        }
        let below = self.first.saturating_sub(packet.ports);
        let above = packet.ports.saturating_sub(self.last);
        difference | cast::<u16x8, u32x4>(below | above)
    }
}

/// The packet in every lane.
struct Splat<const W: usize> {
    addresses: [u32x4; W],
    ports: u16x8,
    kind: u32x4,
}

impl<const W: usize> LinearRules<W> {
    /// From rules that all concern the family; those beyond [`MAX_RULES`] are left out.
    pub fn new(rules: &[Rule]) -> LinearRules<W> {
        let rules = rules.get(..MAX_RULES).unwrap_or(rules);
        let four = |index: usize| Four::new(rules.get(index * 4..).unwrap_or(&[]));
        LinearRules { fours: Box::new(core::array::from_fn(four)) }
    }

    /// The first rule that matches, by its place; when none does, the number of rules.
    #[inline(always)]
    pub fn find(&self, view: &View<W>) -> usize {
        let packet = Splat {
            addresses: view.addresses.map(u32x4::splat),
            ports: cast(u32x4::splat(view.ports)),
            kind: u32x4::splat(view.kind),
        };
        macro_rules! look_at {
            ($($four:literal)*) => {
                $(
                    let matching = self.fours[$four].difference(&packet).simd_eq(u32x4::ZERO).to_bitmask();
                    if matching != 0 {
                        return $four * 4 + matching.trailing_zeros() as usize;
                    }
                )*
            };
        }
        look_at!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        MAX_RULES
    }
}
