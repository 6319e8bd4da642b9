//! What an object counted in the last minute: by name, and as a histogram.

use crate::code::{decode, encode};

/// Parts of ten seconds.
const PARTS: usize = 6;
/// Most names.
const NAMES: usize = 48;

/// A counter: as it stood when it was last looked at, and by how much it grew in each part.
#[derive(Clone, Debug, Default)]
struct Counter {
    before: u64,
    grew: [u16; PARTS],
}

impl Counter {
    fn look(&mut self, part: usize, count: u64, is_new: bool) {
        // One that begins anew counts from 0; what was before the first look is of no minute.
        let grown = count.checked_sub(self.before).unwrap_or(count);
        self.before = count;
        let sum = decode(self.grew[part]) + if is_new { 0 } else { grown };
        self.grew[part] = encode(sum);
    }

    fn sum(&self) -> u64 {
        self.grew.iter().map(|code| decode(*code)).sum()
    }
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct Minute {
    /// When it was last looked at, in tens of seconds; none before the first look.
    looked: Option<u64>,
    counters: Vec<(Box<str>, Counter)>,
    histogram: Vec<Counter>,
}

impl Minute {
    /// Whether it was never looked at.
    pub(crate) fn is_new(&self) -> bool {
        self.looked.is_none()
    }

    pub(crate) fn record<'a>(
        &mut self,
        now: u64,
        counters: impl Iterator<Item = (&'a str, u64)>,
        histogram: impl Iterator<Item = u64>,
    ) {
        let is_new = self.looked.is_none();
        let since = self.looked.replace(now).map_or(0, |looked| now.saturating_sub(looked));
        // Parts that have come since are empty.
        for step in 0..since.min(PARTS as u64) {
            let part = ((now - step) % PARTS as u64) as usize;
            let all = self.counters.iter_mut().map(|(_, counter)| counter);
            all.chain(&mut self.histogram).for_each(|counter| counter.grew[part] = 0);
        }
        let part = (now % PARTS as u64) as usize;
        for (name, count) in counters.filter(|(_, count)| *count > 0) {
            let known = self.counters.iter().position(|(known, _)| **known == *name);
            let at = match known {
                Some(at) => at,
                None if self.counters.len() < NAMES => {
                    self.counters.reserve_exact(1);
                    self.counters.push((name.into(), Counter::default()));
                    self.counters.len() - 1
                }
                None => continue,
            };
            self.counters[at].1.look(part, count, is_new);
        }
        for (at, count) in histogram.enumerate() {
            if at == self.histogram.len() {
                self.histogram.push(Counter::default());
            }
            self.histogram[at].look(part, count, is_new);
        }
        if is_new {
            self.histogram.shrink_to_fit();
        }
    }

    /// Counters that grew, and by how much.
    pub fn counters(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = self.counters.iter().map(|(name, counter)| (&**name, counter.sum()));
        all.filter(|(_, count)| *count > 0)
    }

    /// By how much each part of the histogram grew.
    pub fn histogram(&self) -> impl Iterator<Item = u64> {
        self.histogram.iter().map(Counter::sum)
    }

    /// Bytes that it has from the system.
    pub(crate) fn bytes(&self) -> usize {
        let names: usize = self.counters.iter().map(|(name, _)| name.len()).sum();
        names
            + self.counters.capacity() * size_of::<(Box<str>, Counter)>()
            + self.histogram.capacity() * size_of::<Counter>()
    }
}

/// Bytes of a usual one: a histogram of 25 parts, and a few names.
pub(crate) const USUAL: usize = 25 * size_of::<Counter>() + 6 * (size_of::<(Box<str>, Counter)>() + 12);
