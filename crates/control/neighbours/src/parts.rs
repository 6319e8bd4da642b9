//! What asked for which entries of a table: each asker has a part of it, and they take turns.
//!
//! 1. [`Parts::hold`] notes that an asker needs an entry; several may need one.
//! 2. When there is no room, [`Parts::giving`] says which asker gives up an entry: the asker that has the
//!    most, so that none can take more than an equal part from others that want theirs. An asker that has no
//!    more than any other gives up one of its own.
//! 3. [`Parts::due`] goes round the askers that have something to be done; the device's own come first.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use telemetry::clock::Nanos;

/// On whose behalf an address is asked for: those of one asker share its part of a device's table and its
/// turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asker(pub u64);

impl Asker {
    /// The device itself, for its routers and its tunnels.
    pub const OWN: Asker = Asker(0);
}

/// What one asker has of the table.
#[derive(Debug, Default)]
struct Part {
    /// Whether it was answered, when this asker asked last: the first is the first to go.
    held: BTreeSet<(bool, Nanos, IpAddr)>,
    /// When something is to be done.
    timers: BTreeSet<(Nanos, IpAddr)>,
}

/// The parts of all askers.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    parts: BTreeMap<Asker, Part>,
    /// Whose turn was the last.
    turn: Option<Asker>,
}

/// How an entry stands in the part of an asker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) answered: bool,
    pub(crate) asked: Nanos,
    pub(crate) due: Nanos,
}

impl Parts {
    /// An asker has an entry from now on.
    pub(crate) fn hold(&mut self, asker: Asker, address: IpAddr, standing: Standing) {
        let part = self.parts.entry(asker).or_default();
        part.held.insert((standing.answered, standing.asked, address));
        part.timers.insert((standing.due, address));
    }

    /// It has it no more.
    pub(crate) fn release(&mut self, asker: Asker, address: IpAddr, standing: Standing) {
        let Some(part) = self.parts.get_mut(&asker) else { return };
        part.held.remove(&(standing.answered, standing.asked, address));
        part.timers.remove(&(standing.due, address));
        if part.held.is_empty() {
            self.parts.remove(&asker);
        }
    }

    /// Which asker gives up which entry for one more of `asker`, which is at least as much in need of it;
    /// none: that one has as many as any, and all of them have answered.
    pub(crate) fn giving(&self, asker: Asker) -> Option<(Asker, IpAddr)> {
        let own = self.parts.get(&asker).map_or(0, |part| part.held.len());
        let (most, part) = self.parts.iter().max_by_key(|(_, part)| part.held.len())?;
        let first = |part: &Part| part.held.first().copied();
        // The other one has no fewer than this one afterwards, or it would take it back.
        if part.held.len() >= own + 2 {
            return first(part).map(|(_, _, address)| (*most, address));
        }
        let (answered, _, address) = first(self.parts.get(&asker)?)?;
        (!answered).then_some((asker, address))
    }

    /// Which asker gives up which entry when the table gets smaller.
    pub(crate) fn largest(&self) -> Option<(Asker, IpAddr)> {
        let (asker, part) = self.parts.iter().max_by_key(|(_, part)| part.held.len())?;
        part.held.first().map(|(_, _, address)| (*asker, *address))
    }

    /// The first entry of the asker whose turn it is, of those for which something is to be done by now.
    pub(crate) fn due(&self, now: Nanos) -> Option<(Asker, IpAddr)> {
        let first = |(asker, part): (&Asker, &Part)| {
            part.timers.first().filter(|(due, _)| *due <= now).map(|(_, address)| (*asker, *address))
        };
        let own = self.parts.get(&Asker::OWN).and_then(|part| first((&Asker::OWN, part)));
        let last = self.turn.unwrap_or(Asker::OWN);
        let behind = (std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded);
        let mut in_turn = self.parts.range(behind).chain(self.parts.range(..=last));
        own.or_else(|| in_turn.find_map(first))
    }

    /// An asker had its turn.
    pub(crate) fn had_its_turn(&mut self, asker: Asker) {
        self.turn = Some(asker);
    }

    /// When something is to be done for the device's own entries, and for those of others.
    pub(crate) fn deadlines(&self) -> (Option<Nanos>, Option<Nanos>) {
        let first = |part: &Part| part.timers.first().map(|(due, _)| *due);
        let others = self.parts.iter().filter(|(asker, _)| **asker != Asker::OWN);
        (self.parts.get(&Asker::OWN).and_then(first), others.filter_map(|(_, part)| first(part)).min())
    }
}
