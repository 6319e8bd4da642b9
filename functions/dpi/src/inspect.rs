//! Whether all contents, expressions and conditions of a rule are met in bytes.
//!
//! Elements that are relative to each other form a chain; a chain that fails behind a match goes on with the
//! next match before it, so that it is found whenever it is there. Chains do not depend on each other. All
//! work is paid for from a [`Budget`]; when that is spent, nothing matches.
//!
//! In a stream that goes on, what must not be within so many bytes is known to be absent when that many have
//! come or the stream has ended, and not before.

use crate::budget::Budget;
use crate::rules::bytes::{MAX_TAKEN, Number, Taken};
use crate::rules::content::{Content, Places, Taken as Numbers};
use crate::rules::regex::{MAX_STEPS, Regex, Span};
use crate::rules::{Chain, DataAt, Element, Pattern};

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

/// What is known of a chain of a pattern from looking at the same data before: it is not met by what begins
/// before a place in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failed {
    /// Number of the chain, from 1; 0 for none.
    pub chain: u32,
    /// The place.
    pub until: usize,
}

/// Whether everything that is looked for is there.
#[inline]
pub fn inspect(pattern: &Pattern, subject: &Subject<'_>, budget: &mut Budget) -> bool {
    inspect_again(pattern, subject, &mut Failed::default(), budget)
}

/// The same of what was looked at before, when more has come since, and when more may come.
pub fn inspect_again(
    pattern: &Pattern,
    subject: &Subject<'_>,
    failed: &mut Failed,
    budget: &mut Budget,
) -> bool {
    // Many patterns are one content, as that of a method.
    if let ([], [chain]) = (pattern.conditions.as_slice(), pattern.chains.as_slice())
        && let [Element::Content(content)] = chain.as_slice()
        && content.is_anywhere()
    {
        let old = if subject.new_from == 0 { 0 } else { subject.new_from + 1 };
        let mut places = Places::from(old.saturating_sub(content.bytes.len()));
        return find(content, subject.data, &mut places, budget).is_some();
    }
    let mut search = Search {
        subject,
        budget,
        failed,
        must_be_new: false,
        least: 0,
        barren: (0, 0),
        taken: [0; MAX_TAKEN],
    };
    if !pattern.conditions.iter().all(|element| search.condition(element, 0)) {
        return false;
    }
    let chains = || pattern.chains.iter().enumerate();
    let begins_with_content = |chain: &Chain| first_content(chain).is_some();
    let mut has_new = subject.new_from == 0 || pattern.chains.is_empty();
    // One of the chains has to be new, and others may be old. Where one is that begins with a content is told
    // soon: it is looked for in the new bytes, and not far before them.
    let mut new = None;
    if !has_new {
        let mut contents = chains().filter(|(_, chain)| begins_with_content(chain));
        new = contents.find(|(number, chain)| search.is_new(*number, chain)).map(|(number, _)| number);
        has_new = new.is_some();
        if !has_new && chains().all(|(_, chain)| begins_with_content(chain)) {
            if let [chain] = pattern.chains.as_slice() {
                search.fail(0, chain);
            }
            return false;
        }
    }
    let contents = chains().filter(|(number, chain)| begins_with_content(chain) && new != Some(*number));
    for (number, chain) in contents {
        if !search.begin(number, chain) {
            search.fail(number, chain);
            return false;
        }
    }
    let mut others = chains().filter(|(_, chain)| !begins_with_content(chain)).peekable();
    while let Some((number, chain)) = others.next() {
        if !has_new && search.is_new(number, chain) {
            has_new = true;
        } else if !has_new && others.peek().is_none() || !search.begin(number, chain) {
            // It may be old when another one is new.
            return false;
        }
    }
    has_new && !search.budget.is_spent()
}

/// The content that a chain begins with, and what is relative to it.
fn first_content(chain: &Chain) -> Option<(&Content, &[Element])> {
    match chain.split_first() {
        Some((Element::Content(content), rest)) if !content.is_negated => Some((content, rest)),
        _ => None,
    }
}

/// How many bytes from the beginning of a content on tell whether it and what is relative to it are met, if
/// that is bounded.
fn span(content: &Content, rest: &[Element]) -> Option<usize> {
    let (mut base, mut reach) = (content.bytes.len(), content.bytes.len());
    for element in rest {
        match element {
            Element::DataAt(DataAt { bytes: Number::Given(bytes), is_relative: true, .. }) => {
                reach = reach.max(base + usize::try_from(*bytes).ok()?);
            }
            Element::Test(test) => reach = reach.max(base + test.source.longest()?),
            Element::Content(content) => {
                let relative = content.relative.filter(|_| content.taken == Numbers::default())?;
                let more = relative.distance.saturating_add_unsigned(relative.within?).max(0);
                let end = base + usize::try_from(more).ok()?;
                reach = reach.max(end);
                if !content.is_negated {
                    base = end;
                }
            }
            Element::Jump(jump) => {
                base += jump.longest()?;
                reach = reach.max(base);
            }
            _ => return None,
        }
    }
    Some(reach)
}

/// The next place of a content in data, paid for.
#[inline]
fn find(content: &Content, data: &[u8], places: &mut Places, budget: &mut Budget) -> Option<usize> {
    let (length, first) = (content.bytes.len(), places.first());
    if data.len() < first + length || !budget.pay(1) {
        return None;
    }
    if data.len() == first + length {
        // One place, as behind a jump.
        *places = Places::from(data.len());
        return (budget.pay(length as u32 / 16) && content.is_at(&data[first..])).then_some(first);
    }
    let at = content.find(data, places);
    let walked = at.map_or(data.len(), |at| at + length) - first;
    let is_paid = budget.pay(walked as u32 / 16 + core::mem::take(&mut places.compared));
    at.filter(|_| is_paid)
}

struct Search<'a, 'b> {
    subject: &'a Subject<'a>,
    budget: &'b mut Budget,
    failed: &'b mut Failed,
    must_be_new: bool,
    /// Where the first content of the chain that is begun may be.
    least: usize,
    /// Address of an expression that matches nowhere behind this place.
    barren: (usize, usize),
    /// Numbers that were extracted.
    taken: Taken,
}

impl Search<'_, '_> {
    /// Whether a chain is met.
    fn begin(&mut self, number: usize, chain: &Chain) -> bool {
        self.least = if self.failed.chain as usize == number + 1 { self.failed.until } else { 0 };
        let is_met = self.chain(chain, 0, 0);
        self.least = 0;
        is_met
    }

    /// Whether a chain is met by what is new.
    fn is_new(&mut self, number: usize, chain: &Chain) -> bool {
        self.must_be_new = true;
        let is_met = self.begin(number, chain);
        self.must_be_new = false;
        is_met
    }

    /// Notes that a chain is not met, as far as what comes later changes nothing of that.
    fn fail(&mut self, number: usize, chain: &Chain) {
        let Some((content, rest)) = first_content(chain) else { return };
        if let Some(span) = span(content, rest).filter(|_| !self.budget.is_spent()) {
            let until = (self.subject.data.len() + 1).saturating_sub(span);
            *self.failed = Failed { chain: number as u32 + 1, until };
        }
    }

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

    /// Whether a content that must be the last bytes is there, and within these bounds.
    fn is_at_end(&mut self, content: &Content, first: usize, last: usize) -> bool {
        let data = self.subject.data;
        let start = data.len().checked_sub(content.bytes.len()).filter(|start| *start >= first);
        start.is_some_and(|start| last == data.len() && self.budget.pay(1) && content.is_at(&data[start..]))
    }

    /// Whether a content is between these bounds.
    fn is_within(&mut self, content: &Content, first: usize, last: usize) -> bool {
        if content.at_end {
            return self.is_at_end(content, first, last);
        }
        let data = self.subject.data.get(..last).unwrap_or_default();
        find(content, data, &mut Places::from(first), self.budget).is_some()
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
        let cost = regex.walk(self.subject.data, base, from) as u32 / 4 + 1;
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
                    Some((first, last)) => !self.is_within(content, first, last) && !self.budget.is_spent(),
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

    /// The same of what follows a match.
    #[inline(always)]
    fn rest(&mut self, elements: &[Element], base: usize, reach: usize) -> bool {
        if elements.is_empty() {
            return !self.must_be_new || reach > self.subject.new_from;
        }
        self.chain(elements, base, reach)
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
            return self.condition(element, base) && self.rest(rest, base, reach.max(asked));
        }
        match element {
            Element::Content(content) => {
                let least = core::mem::take(&mut self.least);
                let Some((mut first, last)) = self.bounds(content, base) else { return false };
                first = first.max(least);
                // What begins so early that it ends before what is new is passed over.
                if self.must_be_new
                    && reach <= self.subject.new_from
                    && let Some(span) = span(content, rest)
                {
                    first = first.max((self.subject.new_from + 1).saturating_sub(span));
                }
                if content.at_end {
                    let end = last;
                    return self.is_at_end(content, first, last) && self.rest(rest, end, reach.max(end));
                }
                let data = self.subject.data.get(..last).unwrap_or_default();
                let mut places = Places::from(first);
                while let Some(at) = find(content, data, &mut places, self.budget) {
                    let end = at + content.bytes.len();
                    if self.rest(rest, end, reach.max(end)) {
                        return true;
                    }
                }
                false
            }
            Element::Regex(regex) => {
                let address = core::ptr::from_ref(regex).addr();
                if self.barren.0 == address && base >= self.barren.1 {
                    return false;
                }
                let (mut from, mut is_there) = (if regex.is_relative { base } else { 0 }, false);
                while let Some((start, end)) = self.matched(regex, base, from) {
                    if self.rest(rest, end, reach.max(end)) {
                        return true;
                    }
                    (from, is_there) = (start + 1, true);
                }
                if regex.is_free() && !is_there && !self.budget.is_spent() {
                    self.barren = (address, base);
                }
                false
            }
            Element::Jump(jump) => {
                let target = jump.target(self.subject.data, base, &self.taken).filter(|_| self.budget.pay(1));
                target.is_some_and(|target| self.rest(rest, target, reach.max(target)))
            }
            Element::Extract(extract) => {
                let Some((number, end)) = extract.take(self.subject.data, base, &self.taken) else {
                    return false;
                };
                if let Some(slot) = self.taken.get_mut(usize::from(extract.place)) {
                    *slot = number;
                }
                self.rest(rest, end, reach.max(end))
            }
            Element::DataAt(_) | Element::Length(_) | Element::Test(_) => false,
        }
    }
}
