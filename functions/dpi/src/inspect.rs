//! Whether all contents, expressions and conditions of a rule are met in bytes.
//!
//! Elements that are relative to each other form a chain; a chain that fails behind a match goes on with the
//! next match before it, so that it is found whenever it is there. Chains do not depend on each other. All
//! work is paid for from a [`Budget`]; when that is spent, nothing matches.
//!
//! In a stream that goes on, what must not be within so many bytes is known to be absent when that many have
//! come or the stream has ended, and not before.

use crate::budget::Budget;
use crate::rules::content::Content;
use crate::rules::{DataAt, Element, Rule};

/// Bytes that rules are applied to.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// What lies before was there already: a match has to reach behind it.
    pub new_from: usize,
    /// Where in the stream `data` begins; 0 for a packet.
    pub base: u64,
    /// More may follow: what is not there yet may still come.
    pub is_open: bool,
}

/// Whether the rule's contents are met.
pub fn inspect(rule: &Rule, subject: &Subject<'_>, budget: &mut Budget) -> bool {
    let mut search = Search { subject, budget, must_be_new: false };
    if !rule.conditions.iter().all(|element| search.condition(element, 0)) {
        return false;
    }
    let mut has_new = subject.new_from == 0 || rule.chains.is_empty();
    for chain in &rule.chains {
        search.must_be_new = !has_new;
        if search.chain(chain, 0, 0) {
            has_new = true;
            continue;
        }
        // It may be old when another chain is new.
        search.must_be_new = false;
        if has_new || !search.chain(chain, 0, 0) {
            return false;
        }
    }
    has_new && !search.budget.is_spent()
}

struct Search<'a, 'b> {
    subject: &'a Subject<'a>,
    budget: &'b mut Budget,
    must_be_new: bool,
}

impl Search<'_, '_> {
    /// Where a content may begin at the earliest and must end at the latest, when the match before ended at
    /// `base`.
    fn bounds(&self, content: &Content, base: usize) -> Option<(usize, usize)> {
        let length = self.subject.data.len() as i64;
        let (first, last) = match content.relative {
            Some(relative) => {
                let first = base as i64 + i64::from(relative.distance);
                let last = relative.within.map_or(length, |within| first + i64::from(within));
                (first.max(0), last.min(length))
            }
            None => {
                let stream = i64::try_from(self.subject.base).ok()?;
                let first = i64::from(content.offset) - stream;
                let last = content.depth.map_or(length, |depth| first + i64::from(depth));
                (first.max(0), last.min(length))
            }
        };
        (first < last).then_some((first as usize, last as usize))
    }

    /// The first place of a content between these bounds.
    fn find(&mut self, content: &Content, first: usize, last: usize) -> Option<usize> {
        let length = content.bytes.len();
        if content.at_end {
            let start = self.subject.data.len().checked_sub(length)?;
            let is_inside = start >= first && last == self.subject.data.len();
            return (is_inside && self.budget.pay(1) && content.is_at(&self.subject.data[start..]))
                .then_some(start);
        }
        let data = self.subject.data.get(first..last)?;
        // Letters in both cases are compared one by one.
        let cost = if content.nocase { data.len() / 4 } else { data.len() / 16 };
        if data.len() < length || !self.budget.pay(1) {
            return None;
        }
        match content.find(data) {
            Some(at) => {
                let walked = (at + length) as u32;
                self.budget.pay(walked / if content.nocase { 4 } else { 16 }).then_some(first + at)
            }
            None => {
                self.budget.pay(cost as u32);
                None
            }
        }
    }

    /// Where a content has to end at the latest lies behind what has come, and more may follow.
    fn may_still_come(&self, content: &Content, base: usize) -> bool {
        let last = match content.relative {
            Some(relative) => {
                let first = base as i64 + i64::from(relative.distance);
                relative.within.map(|within| first + i64::from(within))
            }
            None => {
                let first = i64::from(content.offset) - i64::try_from(self.subject.base).unwrap_or(i64::MAX);
                content.depth.map(|depth| first + i64::from(depth))
            }
        };
        self.subject.is_open && last.is_some_and(|last| last > self.subject.data.len() as i64)
    }

    /// How far data have to reach that a condition asks for.
    fn asked(&self, data: &DataAt, base: usize) -> usize {
        if data.is_relative {
            base + data.bytes as usize
        } else {
            let end = u64::from(data.bytes) + 1;
            usize::try_from(end.saturating_sub(self.subject.base)).unwrap_or(usize::MAX)
        }
    }

    fn data_at(&self, data: &DataAt, base: usize) -> bool {
        let is_there = self.asked(data, base) <= self.subject.data.len();
        // That nothing is there, the end of the data tells.
        if data.is_negated { !is_there && !self.subject.is_open } else { is_there }
    }

    /// A negated content or expression, or `isdataat`.
    fn condition(&mut self, element: &Element, base: usize) -> bool {
        match element {
            Element::Content(content) => {
                let is_absent = match self.bounds(content, base) {
                    None => true,
                    Some((first, last)) => {
                        self.find(content, first, last).is_none() && !self.budget.is_spent()
                    }
                };
                is_absent && !self.may_still_come(content, base)
            }
            Element::Regex(regex) => {
                self.budget.pay(self.subject.data.len() as u32 / 4)
                    && regex.find(self.subject.data, base, base).is_none()
            }
            Element::DataAt(data) => self.data_at(data, base),
        }
    }

    /// Whether the elements are met, the match before having ended at `base`, and the farthest at `reach`.
    fn chain(&mut self, elements: &[Element], base: usize, reach: usize) -> bool {
        let Some((element, rest)) = elements.split_first() else {
            return !self.must_be_new || reach > self.subject.new_from;
        };
        if self.budget.is_spent() {
            return false;
        }
        if element.is_condition() {
            let asked = match element {
                Element::DataAt(data) if !data.is_negated => self.asked(data, base),
                _ => 0,
            };
            return self.condition(element, base) && self.chain(rest, base, reach.max(asked));
        }
        match element {
            Element::Content(content) => {
                let Some((mut first, last)) = self.bounds(content, base) else { return false };
                // The last one that could still be new has to be: what ends before is passed over.
                if self.must_be_new && rest.is_empty() && reach <= self.subject.new_from {
                    first = first.max((self.subject.new_from + 1).saturating_sub(content.bytes.len()));
                }
                while let Some(at) = self.find(content, first, last) {
                    let end = at + content.bytes.len();
                    if self.chain(rest, end, reach.max(end)) {
                        return true;
                    }
                    if content.at_end {
                        return false;
                    }
                    first = at + 1;
                }
                false
            }
            Element::Regex(regex) => {
                let mut from = base;
                while self
                    .budget
                    .pay((self.subject.data.len() - from.min(self.subject.data.len())) as u32 / 4 + 1)
                {
                    let Some((start, end)) = regex.find(self.subject.data, base, from) else { return false };
                    if self.chain(rest, end, reach.max(end)) {
                        return true;
                    }
                    from = start + 1;
                }
                false
            }
            Element::DataAt(_) => false,
        }
    }
}
