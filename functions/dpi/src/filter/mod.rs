//! Which rules a payload makes worth a closer look.
//!
//! 1. [`literals`] takes from each rule the bytes that are rarest, at most [`literals::LONGEST`] of them, and
//!    from these the fragment that the scan looks for.
//! 2. [`tier`] finds fragments: a sample of the payload every few bytes, a hash of it, a bit in a table, and
//!    only then a comparison. Upper and lower case are one to it. Short literals, when they are few, [`few`]
//!    finds sixteen places at a time.
//! 3. [`groups`] keeps a [`Filter`] for each protocol and kind of port, so that rules for other ports cost
//!    nothing.
//! 4. [`unfiltered`] has the rules without a literal, by what they ask of headers.
//! 5. A literal that lies across the seam of a payload and the stream before it has its fragment in one of
//!    them, whose scan tells that it reaches beyond ([`Findings`]), or across the seam, which is told by the
//!    few bytes around it ([`Filter::may_cross`]). Only then is the seam scanned.
//!
//! Every literal is searched for in every payload, to its end, and compared until it is found. What the
//! search costs is bounded by the payload's length: where more than [`CROWD`] literals have a sample in
//! common, comparing them is taken from an allowance of the packet, and that something was left out when it
//! is spent is known.

pub mod few;
pub mod groups;
pub mod literals;
pub mod tier;
pub mod unfiltered;

use crate::budget::Budget;
use crate::rules::Rules;
use alloc::boxed::Box;
use alloc::vec::Vec;
use few::Few;
use literals::Literals;
use tier::Tier;
use unfiltered::Unfiltered;

/// Most literals with a sample in common that are always compared.
pub const CROWD: usize = 8;

/// Bytes before a seam, and behind it, that a fragment across it may have: one less than the windows of a
/// literal take together.
pub const NEAR: usize = 6;

/// The bytes on both sides of a seam; zeros where there are none.
pub type Zone = [u8; 2 * NEAR];

/// What a scan found, and what was found before in the same packet.
#[derive(Debug, Default)]
pub struct Findings {
    /// Number of the packet that a literal was found in last.
    stamps: Vec<u32>,
    stamp: u32,
    /// Comparisons of literals that look alike which are still allowed.
    left: u32,
    was_spent: bool,
    /// A literal may begin before what was scanned.
    pub reaches_before: bool,
    /// A literal may end behind what was scanned.
    pub reaches_behind: bool,
    /// Literals that were found.
    pub found: Vec<u32>,
}

impl Findings {
    /// For so many literals.
    pub fn new(literals: usize) -> Findings {
        Findings { stamps: alloc::vec![0; literals], ..Findings::default() }
    }

    /// Begins another payload, with the allowance of its packet.
    #[inline]
    pub fn begin(&mut self, budget: &Budget) {
        (self.left, self.was_spent) = (budget.literals, false);
        (self.reaches_before, self.reaches_behind) = (false, false);
        self.found.clear();
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.stamps.fill(0);
            self.stamp = 1;
        }
    }

    /// What is left of the allowance goes back to the budget, which learns whether it was too little.
    pub fn end(&mut self, budget: &mut Budget) {
        budget.literals = self.left;
        if self.was_spent {
            budget.cut_short();
        }
    }

    /// Whether so many literals that look alike may be compared.
    #[inline]
    fn may_compare(&mut self, count: usize) -> bool {
        if count <= CROWD {
            return true;
        }
        match self.left.checked_sub(count as u32) {
            Some(left) => {
                self.left = left;
                true
            }
            None => {
                // Where those lie that are not compared is not known.
                (self.was_spent, self.reaches_before, self.reaches_behind) = (true, true, true);
                false
            }
        }
    }

    #[inline]
    fn has(&self, literal: u32) -> bool {
        self.stamps[literal as usize] == self.stamp
    }

    #[inline]
    fn add(&mut self, literal: u32) {
        self.stamps[literal as usize] = self.stamp;
        self.found.push(literal);
    }
}

/// Most windows of literals of five and six bytes that reach beyond them: with more, too many bits of the
/// table would be set.
const MAX_WINDOWS_BEYOND: usize = 48;

/// Short literals, by samples or, when they are few, all places at a time.
#[derive(Debug, Default)]
enum Either<const STRIDE: usize, const SAMPLE: usize> {
    #[default]
    None,
    Few(Box<Few>),
    Many(Tier<STRIDE, SAMPLE>),
}

impl<const STRIDE: usize, const SAMPLE: usize> Either<STRIDE, SAMPLE> {
    fn new(numbers: &[u32], literals: &Literals) -> Self {
        match numbers.len() {
            0 => Either::None,
            1..=few::MAX_LITERALS => Either::Few(Box::new(Few::new(numbers, literals))),
            _ => Either::Many(Tier::new(numbers, literals)),
        }
    }

    #[inline(always)]
    fn may_cross(&self, zone: &Zone) -> bool {
        match self {
            Either::None => false,
            Either::Few(few) => few.may_cross(zone),
            Either::Many(tier) => tier.may_cross(zone),
        }
    }

    #[inline(always)]
    fn scan(&self, data: &[u8], seam: usize, literals: &Literals, findings: &mut Findings) {
        match self {
            Either::None => {}
            Either::Few(few) => few.scan(data, seam, literals, findings),
            Either::Many(tier) => tier.scan(data, seam, literals, findings),
        }
    }
}

/// What is looked for in the packets of a group.
#[derive(Debug, Default)]
pub struct Filter {
    /// For literals of seven bytes and more, or five if these are few; of four to six; and of two and three.
    long: Option<Tier<4, 4>>,
    middle: Either<2, 3>,
    short: Either<1, 2>,
    /// Rules without a literal, which every packet is looked at for.
    pub unfiltered: Unfiltered,
    /// Bytes of the longest literal.
    pub longest: usize,
}

impl Filter {
    /// A filter for these rules; `of_rule`: the literals that are looked for, by the rule's number.
    pub fn new(numbers: &[u32], of_rule: &[Option<u32>], rules: &Rules, literals: &Literals) -> Filter {
        let mut filter = Filter::default();
        let mut unfiltered = Vec::new();
        let (mut long, mut middle, mut short) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = alloc::vec![false; literals.list.len()];
        for rule in numbers {
            let Some(number) = of_rule[*rule as usize] else {
                unfiltered.push(*rule);
                continue;
            };
            if core::mem::replace(&mut seen[number as usize], true) {
                continue;
            }
            let length = literals.list[number as usize].bytes.len();
            filter.longest = filter.longest.max(length);
            match length {
                7.. => long.push(number),
                4.. => middle.push(number),
                _ => short.push(number),
            }
        }
        // Those that lack a byte or two to be long are taken along, while they are few.
        let beyond = |number: &u32| Tier::<4, 4>::windows_beyond(literals.list[*number as usize].bytes.len());
        if middle.iter().filter_map(beyond).sum::<usize>() <= MAX_WINDOWS_BEYOND {
            long.extend(middle.extract_if(.., |number| beyond(number).is_some()));
        }
        filter.long = (!long.is_empty()).then(|| Tier::new(&long, literals));
        filter.middle = Either::new(&middle, literals);
        filter.short = Either::new(&short, literals);
        filter.unfiltered = Unfiltered::new(&unfiltered, rules);
        filter
    }

    /// There is no literal to look for.
    pub fn is_empty(&self) -> bool {
        self.longest == 0
    }

    /// Whether a literal's fragment may lie across the middle of these bytes.
    #[inline]
    pub fn may_cross(&self, zone: &Zone) -> bool {
        self.long.as_ref().is_some_and(|tier| tier.may_cross(zone))
            || self.middle.may_cross(zone)
            || self.short.may_cross(zone)
    }

    /// Looks for all literals that end behind `seam` and, unless `seam` is 0, begin before it.
    #[inline]
    pub fn scan(&self, data: &[u8], seam: usize, literals: &Literals, findings: &mut Findings) {
        if let Some(tier) = &self.long {
            tier.scan(data, seam, literals, findings);
        }
        self.middle.scan(data, seam, literals, findings);
        self.short.scan(data, seam, literals, findings);
    }
}
