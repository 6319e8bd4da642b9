//! Sets of numbers as ranges: what addresses and ports of a rule come down to.

use alloc::vec;
use alloc::vec::Vec;

/// Ranges, both ends included, sorted, and at least one number apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    /// From the first number to the last.
    pub fn one(first: u128, last: u128) -> Ranges {
        Ranges(vec![(first, last)])
    }

    /// All ranges, in order.
    pub fn as_slice(&self) -> &[(u128, u128)] {
        &self.0
    }

    /// There is no number in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every number up to `last` is in it.
    pub fn is_all(&self, last: u128) -> bool {
        matches!(self.0.as_slice(), [(0, end)] if *end == last)
    }

    /// What is in any of them.
    pub fn union(sets: impl IntoIterator<Item = Ranges>) -> Ranges {
        let mut all: Vec<(u128, u128)> = sets.into_iter().flat_map(|set| set.0).collect();
        all.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Ranges(merged)
    }

    /// What is up to `last` and not in it.
    pub fn complement(&self, last: u128) -> Ranges {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(0);
        for (first, end) in &self.0 {
            if let Some(next) = next
                && next < *first
            {
                gaps.push((next, first - 1));
            }
            next = end.checked_add(1).filter(|next| *next <= last);
        }
        if let Some(next) = next {
            gaps.push((next, last));
        }
        Ranges(gaps)
    }

    /// What is in this set and not in the other one.
    pub fn minus(&self, other: &Ranges, last: u128) -> Ranges {
        // A ∖ B is the complement of (not A) ∪ B.
        Ranges::union([self.complement(last), other.clone()]).complement(last)
    }

    /// Whether the number is in it.
    pub fn contains(&self, number: u128) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= number);
        after > 0 && number <= self.0[after - 1].1
    }
}
