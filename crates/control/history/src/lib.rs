//! The last hour of what a host counted, in little memory: steps of a second for ten minutes, and of ten
//! seconds for an hour.
//!
//! The life of a step:
//! 1. [`History::begin`] says which second it is. What counters had grown by since the last one belongs to
//!    it; where seconds were left out, it is spread over them. [`next_step`] says which second is next: where
//!    there are many objects, not each of them is.
//! 2. [`History::record`] is told of each object: the counters as they stand, and what is measured at this
//!    moment. An object that is new gets room for all of its series, if there is some.
//! 3. [`History::end`] ends it: objects of which nothing was told are gone. Ten steps make one of ten
//!    seconds.
//! 4. [`History::moment`] reads all objects at one step, [`History::line`] one object over time. Of the last
//!    minute there is more: [`History::minute`].
//!
//! A number takes 12 bits: exact below 128, and above that six bits behind the first, so that it is wrong by
//! less than 0.8% ([`code`]). A series is a ring of 960 of them, 1,440 bytes, which is taken from the system
//! when the first number that is not 0 comes. A host that changes nothing takes no memory once all its series
//! are there.
//!
//! What it does not know: engines, tenants' rights, the clock. Limits: [`Limits`]; an object for which there
//! is no room has no history, and is counted. Objects that are gone give way first.

#![forbid(unsafe_code)]

pub mod code;
mod minute;
mod object;
mod pace;
mod ring;
#[cfg(test)]
mod tests;

pub use minute::Minute;
pub use object::{Column, Kind, LATE, Rule};
pub use pace::next_step;

use object::Object;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Steps of a second that are kept.
pub const FINE: u64 = 600;
/// Seconds of a coarse step.
pub const COARSE_STEP: u64 = 10;
/// Coarse steps that are kept.
pub const COARSE: u64 = 360;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in all.
    pub bytes: usize,
    /// Bytes of one tenant's objects.
    pub tenant_bytes: usize,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct History {
    limits: Limits,
    /// The kinds, as they were given.
    kinds: &'static [Kind],
    /// Where an object is that is there now, by its name, for each kind.
    there: Vec<HashMap<Arc<str>, usize>>,
    objects: Vec<Option<Object>>,
    free: Vec<usize>,
    /// Those that are gone, the oldest first.
    gone: BTreeSet<(u64, usize)>,
    /// What is taken, in all and by tenant.
    taken: usize,
    taken_by: HashMap<Arc<str>, usize>,
    /// The step that is being recorded, or was last; none at first.
    step: Option<u64>,
    /// Steps since the one before.
    passed: u64,
    /// Another number for each set of objects.
    layout: u64,
    /// Objects of this step without room.
    left_out: u64,
    left_out_now: u64,
}

/// All objects of a kind at a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objects<'a> {
    /// The kind.
    pub kind: &'static Kind,
    /// The objects: name, tenant.
    pub names: Vec<(&'a str, Option<&'a str>)>,
    /// Their values, a list for each of the kind's columns.
    pub values: Vec<Vec<u64>>,
}

/// A part of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Its first step.
    pub from: u64,
    /// The values, a list for each of the kind's columns.
    pub values: Vec<Vec<u64>>,
}

/// An object over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The columns.
    pub kind: &'static Kind,
    /// In steps of [`COARSE_STEP`] seconds, what is before `fine`.
    pub coarse: Span,
    /// In steps of a second.
    pub fine: Span,
}

impl History {
    /// Of objects of these kinds; nothing yet.
    #[must_use]
    pub fn new(kinds: &'static [Kind], limits: Limits) -> History {
        History {
            limits,
            kinds,
            there: kinds.iter().map(|_| HashMap::new()).collect(),
            objects: Vec::new(),
            free: Vec::new(),
            gone: BTreeSet::new(),
            taken: 0,
            taken_by: HashMap::new(),
            step: None,
            passed: 1,
            layout: 0,
            left_out: 0,
            left_out_now: 0,
        }
    }

    /// The last step that is whole, if there is one.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.step
    }

    /// The first step that is still known, of those up to the last.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.step.map_or(0, |last| (last + 1).saturating_sub(COARSE * COARSE_STEP))
    }

    /// Another number for each set of objects that are there now.
    #[must_use]
    pub fn layout(&self) -> u64 {
        self.layout
    }

    /// Objects of the last step for which there was no room.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Bytes that are promised to objects: what it takes when all of their series have come to be.
    #[must_use]
    pub fn promised(&self) -> usize {
        self.taken
    }

    /// Bytes that it has from the system now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let objects = self.objects.iter().flatten().map(Object::bytes).sum::<usize>();
        let slots = self.objects.capacity() * size_of::<Option<Object>>();
        let maps: usize =
            self.there.iter().map(|map| map.capacity() * (size_of::<(Arc<str>, usize)>() + 1)).sum();
        objects + slots + maps + self.free.capacity() * size_of::<usize>()
    }

    /// A step begins. One that is not after the last is taken for the next.
    pub fn begin(&mut self, step: u64) {
        let next = match self.step {
            Some(last) => step.max(last + 1),
            None => step,
        };
        self.passed = self.step.map_or(1, |last| next - last).min(COARSE * COARSE_STEP);
        self.step = Some(next);
        self.left_out_now = 0;
    }

    /// What an object has counted, and how it is, in the order of its kind's columns. `None`: there is no
    /// room for it.
    ///
    /// # Panics
    /// The kind is not one of those that were given, or the values are not as many as its columns.
    pub fn record(&mut self, kind: usize, name: &str, tenant: Option<&str>, values: &[u64]) -> Option<usize> {
        let step = self.step?;
        let there = self.there[kind].get(name).copied();
        let same = there.filter(|at| self.objects[*at].as_ref().is_some_and(|object| object.is_of(tenant)));
        let at = match (same, there) {
            (Some(at), _) => at,
            (None, other) => {
                // Another tenant's of the same name is another object.
                if let Some(other) = other {
                    self.leave(other, step);
                }
                let Some(at) = self.come(kind, name, tenant, step) else {
                    self.left_out_now += 1;
                    return None;
                };
                at
            }
        };
        if let Some(object) = self.objects[at].as_mut() {
            object.record(step, self.passed, values);
        }
        Some(at)
    }

    /// The same of what is kept of the last minute alone: counters by name, and a histogram's. It is wanted
    /// from time to time: see [`wants_minute`](History::wants_minute).
    pub fn record_minute<'a>(
        &mut self,
        object: usize,
        counters: impl Iterator<Item = (&'a str, u64)>,
        histogram: impl Iterator<Item = u64>,
    ) {
        let Some(step) = self.step else { return };
        if let Some(object) = self.objects.get_mut(object).and_then(Option::as_mut) {
            object.minute.record(step / COARSE_STEP, counters, histogram);
        }
    }

    /// Whether it is an object's turn: a tenth of them are looked at in each second, and where seconds were
    /// left out, those whose second was among them too.
    #[must_use]
    pub fn wants_minute(&self, object: usize) -> bool {
        self.step.is_some_and(|step| {
            let since = (step + COARSE_STEP - object as u64 % COARSE_STEP) % COARSE_STEP;
            let turn = since < self.passed;
            let known = self.objects.get(object).and_then(Option::as_ref);
            turn || known.is_some_and(|object| object.minute.is_new())
        })
    }

    /// The step is whole.
    pub fn end(&mut self) {
        let Some(step) = self.step else { return };
        self.left_out = self.left_out_now;
        let unseen = |object: &Option<Object>| {
            object.as_ref().is_some_and(|object| object.until.is_none() && object.seen != step)
        };
        // Nothing is allocated where nothing has gone.
        let mut at = 0;
        while let Some(found) = self.objects[at..].iter().position(unseen) {
            at += found;
            self.leave(at, step);
        }
        let first = self.first();
        while let Some(&(until, at)) = self.gone.first() {
            if until > first {
                break;
            }
            self.forget(until, at);
        }
    }

    /// Room for an object, and its place.
    fn come(&mut self, kind: usize, name: &str, tenant: Option<&str>, step: u64) -> Option<usize> {
        let whole = &self.kinds[kind];
        let cost = Object::cost(whole, name);
        let tenant: Option<Arc<str>> = tenant.map(|tenant| {
            let known = self.taken_by.get_key_value(tenant).map(|(known, _)| known.clone());
            known.unwrap_or_else(|| tenant.into())
        });
        let has_room = |this: &History| {
            let of_tenant =
                tenant.as_ref().and_then(|tenant| this.taken_by.get(tenant)).copied().unwrap_or(0);
            let fits = tenant.is_none() || of_tenant + cost <= this.limits.tenant_bytes;
            this.taken + cost <= this.limits.bytes && fits
        };
        while !has_room(self) {
            // The oldest that is gone makes room; where the tenant has no more, the oldest of the tenant's.
            let full = self.taken + cost > self.limits.bytes;
            let is_it = |(_, at): &&(u64, usize)| {
                full || self.objects[*at].as_ref().is_some_and(|object| object.tenant == tenant)
            };
            let (until, at) = self.gone.iter().find(is_it).copied()?;
            self.forget(until, at);
        }
        let name: Arc<str> = name.into();
        let object = Object::new(whole, name.clone(), tenant.clone(), step);
        self.taken += cost;
        if let Some(tenant) = tenant {
            *self.taken_by.entry(tenant).or_default() += cost;
        }
        let at = match self.free.pop() {
            Some(at) => {
                self.objects[at] = Some(object);
                at
            }
            None => {
                self.objects.push(Some(object));
                self.objects.len() - 1
            }
        };
        self.there[kind].insert(name, at);
        self.layout += 1;
        Some(at)
    }

    /// An object is there no more from this step on.
    fn leave(&mut self, at: usize, step: u64) {
        let Some(object) = self.objects[at].as_mut() else { return };
        object.until = Some(step);
        object.finish();
        let kind = self.kinds.iter().position(|kind| std::ptr::eq(kind, object.kind));
        if let Some(kind) = kind {
            self.there[kind].remove(&object.name);
        }
        self.gone.insert((step, at));
        self.layout += 1;
    }

    /// A tenant is deleted: what was its own is shown as no tenant's from now on, also where another one
    /// comes to have the name.
    pub fn end_tenant(&mut self, tenant: &str) {
        let step = self.step.unwrap_or(0);
        for at in 0..self.objects.len() {
            let Some(object) = self.objects[at].as_mut().filter(|object| object.is_of(Some(tenant))) else {
                continue;
            };
            object.is_ended = true;
            if object.until.is_none() {
                self.leave(at, step);
            }
        }
    }

    /// Nothing is left of one that is gone.
    fn forget(&mut self, until: u64, at: usize) {
        self.gone.remove(&(until, at));
        let Some(object) = self.objects[at].take() else { return };
        let cost = Object::cost(object.kind, &object.name);
        self.taken -= cost;
        if let Some(tenant) = &object.tenant
            && let Some(taken) = self.taken_by.get_mut(tenant)
        {
            *taken -= cost;
            if *taken == 0 {
                self.taken_by.remove(tenant);
            }
        }
        self.free.push(at);
    }

    /// Seconds of the steps in which a step is kept: 1, [`COARSE_STEP`], or none if it is not kept (any more,
    /// or yet).
    #[must_use]
    pub fn resolution(&self, step: u64) -> Option<u64> {
        let last = self.step?;
        if step > last || step < self.first() {
            return None;
        }
        let fine = last - step < FINE;
        Some(if fine { 1 } else { COARSE_STEP })
    }

    /// All objects that were there at a step, by kind, that are to be shown (`shown` is asked with kind, name
    /// and tenant); `None`: the step is not known.
    #[must_use]
    pub fn moment(&self, step: u64, shown: impl Fn(&Kind, Option<&str>) -> bool) -> Option<Vec<Objects<'_>>> {
        let coarse = self.resolution(step)? == COARSE_STEP;
        let newest = self.step == Some(step);
        let mut all: Vec<Objects<'_>> = self
            .kinds
            .iter()
            .map(|kind| Objects {
                kind,
                names: Vec::new(),
                values: kind.columns.iter().map(|_| Vec::new()).collect(),
            })
            .collect();
        for object in self.objects.iter().flatten() {
            if !object.was_there(step, newest) || !shown(object.kind, object.shown_to()) {
                continue;
            }
            let Some(kind) = all.iter_mut().find(|of| std::ptr::eq(of.kind, object.kind)) else { continue };
            kind.names.push((&*object.name, object.tenant.as_deref()));
            for (column, values) in kind.values.iter_mut().enumerate() {
                values.push(object.value(column, step, coarse));
            }
        }
        Some(all)
    }

    /// An object over the last `seconds`; the last one of a name that is shown. `None`: there is none.
    #[must_use]
    pub fn line(
        &self,
        kind: &str,
        name: &str,
        seconds: u64,
        shown: impl Fn(&Kind, Option<&str>) -> bool,
    ) -> Option<Line> {
        let (last, object) = (self.step?, self.found(kind, name, shown)?);
        let end = object.until.unwrap_or(last + 1).min(last + 1);
        let from = (last + 1).saturating_sub(seconds).max(object.from).max(self.first()).min(end);
        let fine = from.max((last + 1).saturating_sub(FINE)).min(end);
        let read = |steps: &mut dyn Iterator<Item = u64>, coarse| -> Vec<Vec<u64>> {
            let steps: Vec<u64> = steps.collect();
            let column = |column| steps.iter().map(|step| object.value(column, *step, coarse)).collect();
            (0..object.kind.columns.len()).map(column).collect()
        };
        // Whole coarse steps: what is older than the fine ones.
        let begin = from / COARSE_STEP * COARSE_STEP;
        let mut before = (begin..fine).step_by(COARSE_STEP as usize).filter(|_| from < fine);
        Some(Line {
            kind: object.kind,
            coarse: Span { from: begin.min(fine), values: read(&mut before, true) },
            fine: Span { from: fine, values: read(&mut (fine..end), false) },
        })
    }

    /// What an object counted in the last minute; the last one of a name that is shown.
    #[must_use]
    pub fn minute(
        &self,
        kind: &str,
        name: &str,
        shown: impl Fn(&Kind, Option<&str>) -> bool,
    ) -> Option<&Minute> {
        self.found(kind, name, shown).map(|object| &object.minute)
    }

    fn found(&self, kind: &str, name: &str, shown: impl Fn(&Kind, Option<&str>) -> bool) -> Option<&Object> {
        let number = self.kinds.iter().position(|known| known.name == kind)?;
        let is_shown = |object: &&Object| shown(object.kind, object.shown_to());
        let now = self.there[number].get(name).and_then(|at| self.objects[*at].as_ref()).filter(is_shown);
        now.or_else(|| {
            let of_name = |object: &&Object| object.kind.name == kind && *object.name == *name;
            let gone = self.gone.iter().rev().filter_map(|(_, at)| self.objects[*at].as_ref());
            gone.filter(of_name).find(is_shown)
        })
    }
}
