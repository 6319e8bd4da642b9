//! Whether all contents, expressions and conditions of a rule are met in bytes.
//!
//! Elements that are relative to each other form a chain; a chain that fails behind a match goes on with the
//! next match before it, so that it is found whenever it is there. Chains do not depend on each other. All
//! work is paid for from a [`Budget`]; when that is spent, nothing matches.
//!
//! In a stream that goes on, what must not be within so many bytes is known to be absent when that many have
//! come or the stream has ended, and not before.

use crate::budget::Budget;
use crate::rules::bytes::{MAX_TAKEN, Taken};
use crate::rules::content::Content;
use crate::rules::regex::{MAX_STEPS, Regex, Span};
use crate::rules::{DataAt, Element, Pattern};

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

/// Whether everything that is looked for is there.
pub fn inspect(pattern: &Pattern, subject: &Subject<'_>, budget: &mut Budget) -> bool {
    let mut search = Search { subject, budget, must_be_new: false, taken: [0; MAX_TAKEN] };
    if !pattern.conditions.iter().all(|element| search.condition(element, 0)) {
        return false;
    }
    let mut has_new = subject.new_from == 0 || pattern.chains.is_empty();
    for chain in &pattern.chains {
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
    /// Numbers that were extracted.
    taken: Taken,
}

impl Search<'_, '_> {
    /// Where a content may begin at the earliest and, if that is limited, must end at the latest, when the
    /// match before ended at `base`.
    fn span(&self, content: &Content, base: usize) -> Option<(i64, Option<i64>)> {
        // Numbers from the data may be anything.
        let taken = |place: Option<u8>, given: i64| {
            let number = place.and_then(|place| self.taken.get(usize::from(place)));
            number.map_or(given, |number| i64::try_from(*number).unwrap_or(i64::MAX).min(1 << 40))
        };
        let places = &content.taken;
        let (first, length) = match content.relative {
            Some(relative) => {
                let first = base as i64 + taken(places.distance, i64::from(relative.distance));
                (first, relative.within.map(|within| taken(places.within, i64::from(within))))
            }
            None => {
                let stream = i64::try_from(self.subject.base).ok()?;
                let first = taken(places.offset, i64::from(content.offset)) - stream;
                (first, content.depth.map(|depth| taken(places.depth, i64::from(depth))))
            }
        };
        Some((first, length.map(|length| first + length)))
    }

    /// The same within the data.
    fn bounds(&self, content: &Content, base: usize) -> Option<(usize, usize)> {
        let length = self.subject.data.len() as i64;
        let (first, last) = self.span(content, base)?;
        let (first, last) = (first.max(0), last.unwrap_or(length).min(length));
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
        if data.len() < length || !self.budget.pay(1) {
            return None;
        }
        let found = content.find(data);
        let walked = found.at.map_or(data.len(), |at| at + length);
        let is_paid = self.budget.pay(walked as u32 / 16 + found.compared / 2);
        found.at.filter(|_| is_paid).map(|at| first + at)
    }

    /// Where a content has to end at the latest lies behind what has come, and more may follow.
    fn may_still_come(&self, content: &Content, base: usize) -> bool {
        let last = self.span(content, base).and_then(|(_, last)| last);
        self.subject.is_open && last.is_some_and(|last| last > self.subject.data.len() as i64)
    }

    /// How far data have to reach that a condition asks for.
    fn asked(&self, data: &DataAt, base: usize) -> usize {
        let bytes = u64::try_from(data.bytes.value(&self.taken)).unwrap_or(u64::MAX);
        let end = if data.is_relative {
            (base as u64).saturating_add(bytes)
        } else {
            bytes.saturating_add(1).saturating_sub(self.subject.base)
        };
        usize::try_from(end).unwrap_or(usize::MAX)
    }

    fn data_at(&self, data: &DataAt, base: usize) -> bool {
        let is_there = self.asked(data, base) <= self.subject.data.len();
        // That nothing is there, the end of the data tells.
        if data.is_negated { !is_there && !self.subject.is_open } else { is_there }
    }

    /// The first match of an expression, paid for.
    fn matched(&mut self, regex: &Regex, base: usize, from: usize) -> Option<Span> {
        let length = self.subject.data.len();
        let cost = length.saturating_sub(from) as u32 / 4 + 1;
        // How many steps it takes is not told; few that are seen take more than a sixty-fourth of the limit.
        let steps = if regex.is_stepwise() { cost + MAX_STEPS as u32 / 64 } else { 0 };
        if !self.budget.pay(cost + steps) {
            return None;
        }
        match regex.find(self.subject.data, base, from) {
            Ok(found) => found,
            Err(_) => {
                self.budget.pay(MAX_STEPS as u32);
                None
            }
        }
    }

    /// What is no match of its own: a negated content or expression, `isdataat` and the like.
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
                let from = if regex.is_relative { base } else { 0 };
                self.matched(regex, base, from).is_none() && !self.budget.is_spent()
            }
            Element::DataAt(data) => self.data_at(data, base),
            Element::Length(compare) => {
                compare.holds(u32::try_from(self.subject.data.len()).unwrap_or(u32::MAX))
            }
            Element::Test(test) => self.budget.pay(1) && test.holds(self.subject.data, base, &self.taken),
            Element::Jump(_) | Element::Extract(_) => false,
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
                let mut from = if regex.is_relative { base } else { 0 };
                while let Some((start, end)) = self.matched(regex, base, from) {
                    if self.chain(rest, end, reach.max(end)) {
                        return true;
                    }
                    from = start + 1;
                }
                false
            }
            Element::Jump(jump) => {
                let target = jump.target(self.subject.data, base, &self.taken);
                target.is_some_and(|target| self.chain(rest, target, reach.max(target)))
            }
            Element::Extract(extract) => {
                let Some((number, end)) = extract.take(self.subject.data, base, &self.taken) else {
                    return false;
                };
                if let Some(slot) = self.taken.get_mut(usize::from(extract.place)) {
                    *slot = number;
                }
                self.chain(rest, end, reach.max(end))
            }
            Element::DataAt(_) | Element::Length(_) | Element::Test(_) => false,
        }
    }
}
