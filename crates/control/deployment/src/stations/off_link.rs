//! Addresses that are on no network of a station: what asked for them is told so for a while.

use neighbours::Asker;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use telemetry::clock::Nanos;

/// How long such an address is unreachable.
const TOLD: Nanos = Nanos::from_millis(20_000);
/// Most of them.
pub(super) const MOST: usize = 256;

/// They, by what asked.
#[derive(Debug, Default)]
pub(super) struct OffLink {
    until: BTreeMap<(Asker, IpAddr), Nanos>,
}

impl OffLink {
    /// Those of one asker.
    pub(super) fn of(&self, asker: Asker) -> impl Iterator<Item = IpAddr> + '_ {
        self.until.keys().filter(move |(other, _)| *other == asker).map(|(_, address)| *address)
    }

    /// An address that is asked for is on no network. Whose addresses are others now: where there is no room,
    /// the asker with the most gives one up, unless that is this one.
    pub(super) fn insert(&mut self, asker: Asker, address: IpAddr, now: Nanos) -> Vec<Asker> {
        let until = now.saturating_add(TOLD);
        if let Some(known) = self.until.get_mut(&(asker, address)) {
            *known = until;
            return Vec::new();
        }
        let mut changed = vec![asker];
        if self.until.len() >= MOST {
            let mut counts: BTreeMap<Asker, usize> = BTreeMap::new();
            self.until.keys().for_each(|(asker, _)| *counts.entry(*asker).or_default() += 1);
            let own = counts.get(&asker).copied().unwrap_or(0);
            let Some((most, count)) = counts.into_iter().max_by_key(|(_, count)| *count) else {
                return Vec::new();
            };
            let of_most = self.until.iter().filter(|((asker, _), _)| *asker == most);
            match of_most.min_by_key(|(_, until)| **until).map(|(key, _)| *key) {
                Some(oldest) if count >= own + 2 => self.until.remove(&oldest),
                _ => return Vec::new(),
            };
            changed.push(most);
        }
        self.until.insert((asker, address), until);
        changed
    }

    /// An address that is asked for is on the link; whether it was not.
    pub(super) fn remove(&mut self, asker: Asker, address: IpAddr) -> bool {
        self.until.remove(&(asker, address)).is_some()
    }

    /// Forgets those whose time is over; whose they were.
    pub(super) fn expire(&mut self, now: Nanos) -> BTreeSet<Asker> {
        let over = self.until.extract_if(.., |_, until| *until <= now);
        over.map(|((asker, _), _)| asker).collect()
    }

    /// When the first one's time is over.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.until.values().min().copied()
    }
}
