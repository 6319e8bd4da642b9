//! An object, and the series of its columns.

use crate::COARSE_STEP;
use crate::code::{decode, encode};
use crate::minute::{self, Minute};
use crate::ring::{self, Ring};
use std::sync::Arc;

/// How a column's values make a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It counts: a step has what it grew by. One that falls to less than half was made anew, and counts from
    /// the beginning; one that falls by less was read late, and has not grown until it is above what it was.
    Sum,
    /// The same of what is worked out from several counters that are not read at one moment: it may fall by
    /// [`LATE`] at any time.
    Derived,
    /// It is measured: a step has the highest.
    Highest,
    /// It is measured: a step has the lowest.
    Lowest,
    /// It is a number below 4096, kept as it is: a step has the last.
    Last,
    /// It is known as it is now, and not kept.
    Now,
}

/// How far what is worked out from counters may fall because they are read one after the other.
pub const LATE: u64 = 4096;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// How a step is made.
    pub rule: Rule,
}

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What is kept of its objects.
    pub columns: &'static [Column],
    /// Whether there is something of the last minute.
    pub has_minute: bool,
}

#[derive(Debug, Default)]
struct Series {
    /// The counter as it stood, or the last value.
    before: u64,
    /// Of the coarse step that is not whole yet.
    coarse: u64,
    ring: Ring,
}

#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) kind: &'static Kind,
    pub(crate) name: Arc<str>,
    pub(crate) tenant: Option<Arc<str>>,
    /// The tenant is there no more: another one may have its name.
    pub(crate) is_ended: bool,
    /// The first step that it was there in.
    pub(crate) from: u64,
    /// The first that it was not there in any more.
    pub(crate) until: Option<u64>,
    /// The last that something was told of it in.
    pub(crate) seen: u64,
    told: bool,
    series: Box<[Series]>,
    pub(crate) minute: Minute,
}

impl Object {
    pub(crate) fn new(kind: &'static Kind, name: Arc<str>, tenant: Option<Arc<str>>, from: u64) -> Object {
        let empty = |column: &Column| if column.rule == Rule::Lowest { u64::MAX } else { 0 };
        let series = |column| Series { coarse: empty(column), ..Series::default() };
        let series = kind.columns.iter().map(series).collect();
        Object {
            kind,
            name,
            tenant,
            is_ended: false,
            from,
            until: None,
            seen: from,
            told: false,
            series,
            minute: Minute::default(),
        }
    }

    /// What one of a kind takes at most, with what leads to it.
    pub(crate) fn cost(kind: &Kind, name: &str) -> usize {
        let kept = kind.columns.iter().filter(|column| column.rule != Rule::Now).count();
        let minute = if kind.has_minute { minute::USUAL } else { 0 };
        let own = size_of::<Object>() + kind.columns.len() * size_of::<Series>() + kept * ring::BYTES;
        own + minute + name.len() + 64
    }

    pub(crate) fn is_of(&self, tenant: Option<&str>) -> bool {
        self.tenant.as_deref() == tenant
    }

    /// The tenant that is shown it.
    pub(crate) fn shown_to(&self) -> Option<&str> {
        self.tenant.as_deref().filter(|_| !self.is_ended)
    }

    /// Whether it was there at a step; at the newest, what is gone is not.
    pub(crate) fn was_there(&self, step: u64, newest: bool) -> bool {
        match self.until {
            None => self.from <= step,
            Some(until) => !newest && self.from <= step && step < until,
        }
    }

    /// Takes the values of a step, `passed` steps after the one before.
    pub(crate) fn record(&mut self, step: u64, passed: u64, values: &[u64]) {
        assert_eq!(values.len(), self.series.len(), "a value for each column of {}", self.kind.name);
        // Of one that is new it is not known what it counted before.
        let passed = if self.told { passed } else { 1 };
        for ((series, column), value) in self.series.iter_mut().zip(self.kind.columns).zip(values) {
            series.record(column.rule, (step, passed), *value, self.told);
        }
        (self.seen, self.told) = (step, true);
    }

    /// Nothing more is told of it: what there is of a coarse step is all of it.
    pub(crate) fn finish(&mut self) {
        let seen = self.seen;
        if seen % COARSE_STEP == COARSE_STEP - 1 {
            return;
        }
        for (series, column) in self.series.iter_mut().zip(self.kind.columns) {
            let code = match column.rule {
                Rule::Now => continue,
                Rule::Last => raw(series.coarse),
                Rule::Sum | Rule::Derived | Rule::Highest | Rule::Lowest => encode(series.coarse),
            };
            series.ring.set(seen / COARSE_STEP, true, code);
        }
    }

    pub(crate) fn value(&self, column: usize, step: u64, coarse: bool) -> u64 {
        let (Some(series), Some(column)) = (self.series.get(column), self.kind.columns.get(column)) else {
            return 0;
        };
        let code = |step| series.ring.get(step, coarse);
        match column.rule {
            Rule::Now => series.before,
            Rule::Last => code(if coarse { step / COARSE_STEP } else { step }).into(),
            Rule::Sum | Rule::Derived | Rule::Highest | Rule::Lowest => {
                decode(code(if coarse { step / COARSE_STEP } else { step }))
            }
        }
    }

    /// Bytes that it has from the system.
    pub(crate) fn bytes(&self) -> usize {
        let rings: usize = self.series.iter().map(|series| series.ring.bytes()).sum();
        self.name.len() + 16 + self.series.len() * size_of::<Series>() + rings + self.minute.bytes()
    }
}

/// A number below 4096, as it is.
fn raw(value: u64) -> u16 {
    value.min(0xfff) as u16
}

impl Series {
    fn record(&mut self, rule: Rule, (step, passed): (u64, u64), value: u64, told: bool) {
        let first = step + 1 - passed;
        let least = match rule {
            Rule::Derived => (self.before / 2).min(self.before.saturating_sub(LATE)),
            _ => self.before / 2,
        };
        let counts = matches!(rule, Rule::Sum | Rule::Derived);
        let fell = counts && told && (least..self.before).contains(&value);
        let value = if fell { self.before } else { value };
        let before = std::mem::replace(&mut self.before, value);
        match rule {
            Rule::Now => {}
            Rule::Sum | Rule::Derived => {
                // What one that is new has counted before it was seen belongs to no step.
                let grown = if told { value.checked_sub(before).unwrap_or(value) } else { 0 };
                let (each, rest) = (grown / passed, grown % passed);
                for at in first..=step {
                    self.put(at, encode, each + if at == step { rest } else { 0 }, |a, b| a + b, 0);
                }
            }
            Rule::Highest => {
                (first..=step).for_each(|at| self.put(at, encode, value, u64::max, 0));
            }
            Rule::Lowest => {
                (first..=step).for_each(|at| self.put(at, encode, value, u64::min, u64::MAX));
            }
            Rule::Last => {
                (first..=step).for_each(|at| self.put(at, raw, value, |_, last| last, 0));
            }
        }
    }

    /// Sets a step, and with the last of ten the coarse step.
    fn put(
        &mut self,
        step: u64,
        code: impl Fn(u64) -> u16,
        value: u64,
        join: impl Fn(u64, u64) -> u64,
        empty: u64,
    ) {
        self.ring.set(step, false, code(value));
        let begins = step.is_multiple_of(COARSE_STEP);
        self.coarse = join(if begins { empty } else { self.coarse }, value);
        if step % COARSE_STEP == COARSE_STEP - 1 {
            self.ring.set(step / COARSE_STEP, true, code(self.coarse));
        }
    }
}
