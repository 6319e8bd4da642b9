//! What is known of stations: sets of eight entries, chosen by a keyed hash.

use crate::counters::{Count, Counters};
use crate::frame::Key;
use crate::place::{Place, SwitchPort, Tick};
use crate::ports::Ports;
use crate::set::{Locked, Set, Ways};
use crate::settings::{SwitchSettings, WAYS};
use std::hash::BuildHasher;
use std::sync::atomic::AtomicU64;
use telemetry::clock::Nanos;

/// Entries of one port in a set from which on that port replaces its own.
const OWN_SHARE: usize = WAYS / 2;

/// A station that the switch knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its address.
    pub address: [u8; 6],
    /// Its VLAN; 0: untagged.
    pub vlan: u16,
    /// Where it is.
    pub port: SwitchPort,
    /// How long ago it was heard of, exact to a second.
    pub age: Nanos,
}

#[derive(Debug)]
pub(crate) struct Table {
    generations: Box<[AtomicU64]>,
    ways: Box<[Ways<AtomicU64, WAYS>]>,
    /// One less than the number of sets.
    mask: u64,
    secret: [u64; 2],
    age: Tick,
    /// An entry's time is not renewed before it is that old, so that workers do not take its cache line from
    /// each other.
    renewal: Tick,
}

impl Table {
    /// Of settings that were checked.
    pub fn new(settings: &SwitchSettings) -> Table {
        let sets = settings.entries as usize / WAYS;
        let drawn = || {
            // The standard library's source of secrets for tables that strangers fill.
            let state = std::hash::RandomState::new();
            [state.hash_one(0u8), state.hash_one(1u8)]
        };
        Table {
            generations: (0..sets).map(|_| AtomicU64::default()).collect(),
            ways: (0..sets).map(|_| Ways::default()).collect(),
            mask: sets as u64 - 1,
            secret: settings.secret.unwrap_or_else(drawn),
            age: Tick::of(settings.age),
            renewal: Tick::of(Nanos((settings.age.0 / 8).min(1_000_000_000))),
        }
    }

    #[cfg(test)]
    pub fn secret(&self) -> [u64; 2] {
        self.secret
    }

    /// The set of a key, and the way in which to look for it first.
    #[inline]
    fn set(&self, key: Key) -> (Set<'_, AtomicU64, WAYS>, usize) {
        let [a, b] = self.secret;
        let product = u128::from(key.0 ^ a) * u128::from(key.0.rotate_left(32) ^ b);
        let hash = product as u64 ^ (product >> 64) as u64;
        let n = (hash & self.mask) as usize;
        (Set { generation: &self.generations[n], ways: &self.ways[n] }, (hash >> 32) as usize)
    }

    fn sets(&self) -> impl Iterator<Item = Set<'_, AtomicU64, WAYS>> {
        self.generations.iter().zip(&self.ways).map(|(generation, ways)| Set { generation, ways })
    }

    /// Where a station is.
    #[inline]
    pub fn find(&self, key: Key, now: Tick) -> Option<SwitchPort> {
        let (set, first) = self.set(key);
        set.find(key, first).filter(|place| now.since(place.heard()) <= self.age).map(Place::port)
    }

    /// A station was heard at a port.
    #[inline]
    pub fn learn(&self, key: Key, from: SwitchPort, now: Tick, ports: &Ports, counters: &Counters) {
        let (set, first) = self.set(key);
        let is_news = |place: Place| place.port() != from || now.since(place.heard()) > self.renewal;
        if set.find(key, first).is_none_or(is_news) {
            self.write(&set, first, key, Place::new(from, now), ports, counters);
        }
    }

    #[cold]
    fn write(
        &self,
        set: &Set<'_, AtomicU64, WAYS>,
        first: usize,
        key: Key,
        place: Place,
        ports: &Ports,
        counters: &Counters,
    ) {
        let count = |what| counters.add(place.port(), what, 1);
        let Some(mut locked) = set.try_lock() else { return count(Count::Deferred) };
        // Under the lock: detaching a port goes through all sets after the port's number is void.
        if !ports.contains(place.port()) {
            return;
        }
        let known = locked.entries(first).find_map(|(way, entry)| {
            let (there, old) = entry?;
            (there == key).then_some((way, old))
        });
        let Some((way, old)) = known else {
            let (way, end) = self.victim(&locked, first, place);
            locked.replace(way, Some((key, place)));
            end.into_iter().for_each(count);
            return count(Count::Learned);
        };
        // Another worker's clock may have been ahead: time does not go back.
        let heard = place.heard().max(old.heard());
        locked.replace_place(way, Place::new(place.port(), heard));
        if place.heard().since(old.heard()) > self.age {
            count(Count::Aged);
            count(Count::Learned);
        } else if old.port() != place.port() {
            count(Count::Moved);
        }
    }

    /// The way for a new entry, and how the entry there ends: a free way, or one whose entry is too old, or
    /// the oldest entry of the port itself when half of the set is that port's, or the oldest of all.
    fn victim(
        &self,
        locked: &Locked<'_, AtomicU64, WAYS>,
        first: usize,
        new: Place,
    ) -> (usize, Option<Count>) {
        let mut own = 0;
        let (mut oldest, mut oldest_own) = ((Tick::MAX, 0), (Tick::MAX, 0));
        for (way, entry) in locked.entries(first) {
            let Some((_, place)) = entry else { return (way, None) };
            let candidate = (place.heard(), way);
            oldest = oldest.min(candidate);
            if place.port() == new.port() {
                own += 1;
                oldest_own = oldest_own.min(candidate);
            }
        }
        if new.heard().since(oldest.0) > self.age {
            return (oldest.1, Some(Count::Aged));
        }
        let (_, way) = if own >= OWN_SHARE { oldest_own } else { oldest };
        (way, Some(Count::Evicted))
    }

    /// Ends entries that are too old.
    pub fn sweep(&self, now: Tick, counters: &Counters) {
        self.clear(counters, Count::Aged, |place| now.since(place.heard()) > self.age);
    }

    /// Ends what was learned at a port.
    pub fn flush(&self, port: SwitchPort, counters: &Counters) {
        self.clear(counters, Count::Flushed, |place| place.port() == port);
    }

    fn clear(&self, counters: &Counters, end: Count, which: impl Fn(Place) -> bool) {
        for set in self.sets() {
            let mut locked = set.lock();
            for way in 0..WAYS {
                if let Some(place) = locked.place(way).filter(|place| which(*place)) {
                    locked.replace(way, None);
                    counters.add(place.port(), end, 1);
                }
            }
        }
    }

    /// The stations that are known.
    pub fn entries(&self, now: Tick) -> impl Iterator<Item = Entry> {
        let entries = self.sets().flat_map(|set| (0..WAYS).filter_map(move |way| set.entry(way)));
        entries.filter(move |(_, place)| now.since(place.heard()) <= self.age).map(move |(key, place)| {
            Entry {
                address: key.address(),
                vlan: key.vlan(),
                port: place.port(),
                age: now.since(place.heard()).nanos(),
            }
        })
    }
}
