//! What is known of stations: sets of eight entries, chosen by a keyed hash.

use crate::Switch;
use crate::counters::{Count, Counters};
use crate::frame::Key;
use crate::place::{Place, SwitchPort, Tick};
use crate::set::{Locked, Set, Ways};
use crate::settings::{SwitchSettings, WAYS};
use std::hash::BuildHasher;
use std::sync::atomic::AtomicU64;
use telemetry::clock::Nanos;

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
    ways: Box<[Ways<WAYS>]>,
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
    fn set(&self, key: Key) -> (Set<'_, WAYS>, usize) {
        let [a, b] = self.secret;
        let product = u128::from(key.0 ^ a) * u128::from(key.0.rotate_left(32) ^ b);
        let hash = product as u64 ^ (product >> 64) as u64;
        let n = (hash & self.mask) as usize;
        (Set { generation: &self.generations[n], ways: &self.ways[n] }, (hash >> 32) as usize)
    }

    fn sets(&self) -> impl Iterator<Item = Set<'_, WAYS>> {
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
    pub fn learn(&self, key: Key, from: SwitchPort, now: Tick, switch: &Switch) {
        let (set, first) = self.set(key);
        let is_news = |place: Place| place.port() != from || now.since(place.heard()) > self.renewal;
        if set.find(key, first).is_none_or(is_news) {
            self.write(&set, first, key, Place::new(from, now), switch);
        }
    }

    #[cold]
    fn write(&self, set: &Set<'_, WAYS>, first: usize, key: Key, place: Place, switch: &Switch) {
        let count = |what| switch.counters.add(place.port(), what, 1);
        let Some(mut locked) = set.try_lock() else { return count(Count::Deferred) };
        // Under the lock: detaching a port goes through all sets after the port's number is void.
        if !switch.ports.learns(place.port()) {
            return;
        }
        let of_key = |(there, old)| (there == key).then_some(old);
        let known = locked.entries(first).find_map(|(way, entry)| Some((way, entry.and_then(of_key)?)));
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

    /// The way for a new entry, and how the entry there ends: a free way, or the oldest entry if it is too
    /// old, or the oldest of the port that has the most in the set, the new one included; of several such
    /// ports, the new one's.
    fn victim(&self, locked: &Locked<'_, WAYS>, first: usize, new: Place) -> (usize, Option<Count>) {
        let mut all = [(new, 0); WAYS];
        for ((way, entry), known) in locked.entries(first).zip(&mut all) {
            let Some((_, place)) = entry else { return (way, None) };
            *known = (place, way);
        }
        all.sort_unstable_by_key(|(place, way)| (place.heard(), *way));
        let [(oldest, way), ..] = all;
        if new.heard().since(oldest.heard()) > self.age {
            return (way, Some(Count::Aged));
        }
        let is_new = |port: SwitchPort| usize::from(port == new.port());
        let count =
            |port: SwitchPort| all.iter().filter(|(place, _)| place.port() == port).count() + is_new(port);
        let part = |(place, _): &(Place, usize)| (count(place.port()), is_new(place.port()));
        // Of equals the last one: the oldest.
        let way = all.iter().rev().max_by_key(|entry| part(entry)).map_or(way, |(_, way)| *way);
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
