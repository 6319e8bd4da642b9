//! A set of the table, which any number of threads read and write at once.
//!
//! An entry is two words: a key, and a place (port and time). The two must never be taken from different
//! entries, though a writer may replace one while a reader is between them. Each set has a word that says how
//! often one of its keys was replaced, with a lock for writers in its lowest bit:
//!
//! | | writer that replaces, under the lock | | reader |
//! |---|---|---|---|
//! | 1 | place := nothing | 1 | read the generation |
//! | 2 | generation := another | 2 | read the place |
//! | 3 | key := the new one | 3 | read the key: is it mine? |
//! | 4 | place := the new one | 4 | read the generation: is it the same? |
//!
//! Each of the reader's loads acquires, each of the writer's stores from 2 on releases. Had a reader a place
//! and a later key (from its writer's step 3), then its step 4 sees that writer's step 2; its step 1 did not,
//! or step 2 had seen nothing or what is later: it tries again. A key and a later place it cannot have: a
//! reader that sees step 4 sees step 3. The generation has 63 bits and does not come round. Changes of the
//! place alone, which are one store, need no generation.
//!
//! No reader waits for a writer, not even for one that was preempted with the lock: an entry that is being
//! replaced is missing. The tests compile this file once more, and run it under loom.

use super::sync::{ATTEMPTS, Acquire, AtomicU64, Relaxed, Release, yield_now};
use crate::frame::Key;
use crate::place::Place;

const LOCKED: u64 = 1;
const NO_KEY: u64 = 0;

/// The entries of a set: keys in one cache line, places in the next.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Ways<const N: usize> {
    keys: [AtomicU64; N],
    places: [AtomicU64; N],
}

impl<const N: usize> Default for Ways<N> {
    fn default() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::default());
        Ways { keys: zeros(), places: zeros() }
    }
}

/// A set: its entries and its generation, which lies with others' to keep the entries in whole cache lines.
#[derive(Debug)]
pub(crate) struct Set<'a, const N: usize> {
    pub generation: &'a AtomicU64,
    pub ways: &'a Ways<N>,
}

impl<'a, const N: usize> Set<'a, N> {
    /// Where a key is, aged or not. `first` is the way to look at first.
    #[inline]
    pub fn find(&self, key: Key, first: usize) -> Option<Place> {
        for _ in 0..ATTEMPTS {
            let before = self.generation.load(Acquire) | LOCKED;
            let at = |way: &usize| self.ways.keys[*way].load(Acquire) == key.0;
            // Most are where they are looked for first.
            let likely = first & (N - 1);
            let way = if at(&likely) { likely } else { order::<N>(first).skip(1).find(at)? };
            let place = Place::from_word(self.ways.places[way].load(Acquire));
            let same = self.ways.keys[way].load(Acquire) == key.0;
            if same && self.generation.load(Acquire) | LOCKED == before {
                return place;
            }
        }
        None
    }

    /// What is in a way.
    pub fn entry(&self, way: usize) -> Option<(Key, Place)> {
        for _ in 0..ATTEMPTS {
            let before = self.generation.load(Acquire) | LOCKED;
            let place = Place::from_word(self.ways.places[way].load(Acquire));
            let key = self.ways.keys[way].load(Acquire);
            if self.generation.load(Acquire) | LOCKED == before {
                return place.filter(|_| key != NO_KEY).map(|place| (Key(key), place));
            }
        }
        None
    }

    /// The right to write, unless another writer has it.
    pub fn try_lock(&self) -> Option<Locked<'a, N>> {
        let generation = self.generation.load(Acquire);
        let taken = generation & LOCKED == 0
            && self.generation.compare_exchange(generation, generation | LOCKED, Acquire, Relaxed).is_ok();
        taken.then(|| Locked { generation: self.generation, ways: self.ways, now: generation })
    }

    /// The right to write.
    pub fn lock(&self) -> Locked<'a, N> {
        loop {
            match self.try_lock() {
                Some(locked) => return locked,
                None => yield_now(),
            }
        }
    }
}

/// The ways, from the first to look at on.
#[inline(always)]
fn order<const N: usize>(first: usize) -> impl Iterator<Item = usize> {
    const { assert!(N.is_power_of_two()) };
    (0..N).map(move |n| (first ^ n) & (N - 1))
}

/// A set whose only writer one is, until this is dropped.
pub(crate) struct Locked<'a, const N: usize> {
    generation: &'a AtomicU64,
    ways: &'a Ways<N>,
    now: u64,
}

impl<const N: usize> Locked<'_, N> {
    /// What is in the ways, from the first to look at on.
    pub fn entries(&self, first: usize) -> impl Iterator<Item = (usize, Option<(Key, Place)>)> {
        order::<N>(first)
            .map(|way| (way, self.place(way).map(|place| (Key(self.ways.keys[way].load(Acquire)), place))))
    }

    /// The place in a way.
    pub fn place(&self, way: usize) -> Option<Place> {
        Place::from_word(self.ways.places[way].load(Acquire))
    }

    /// Another place for the key that is there.
    pub fn replace_place(&mut self, way: usize, place: Place) {
        self.ways.places[way].store(place.word(), Release);
    }

    /// Another entry, or none.
    pub fn replace(&mut self, way: usize, entry: Option<(Key, Place)>) {
        let (key, place) = entry.map_or((NO_KEY, 0), |(key, place)| (key.0, place.word()));
        self.ways.places[way].store(0, Release);
        self.now = self.now.wrapping_add(2);
        self.generation.store(self.now | LOCKED, Release);
        self.ways.keys[way].store(key, Release);
        self.ways.places[way].store(place, Release);
    }
}

impl<const N: usize> Drop for Locked<'_, N> {
    fn drop(&mut self) {
        self.generation.store(self.now, Release);
    }
}
