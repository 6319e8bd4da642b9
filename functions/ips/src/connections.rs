//! Connections that were found suspicious.
//!
//! 1. [`Connections::note`] remembers one; a further suspicious packet of it gives it its whole time again.
//! 2. [`Connections::told`] counts how often its ends were told.
//! 3. It is forgotten when its time is over, or when the table is full and it is the one that was suspicious
//!    the longest time ago: a flood makes the table forget, never grow.

use crate::segment::Key;
use alloc::collections::BTreeMap;
use nf_sdk::Nanos;

/// What became of noting a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// It was not known.
    New,
    /// It was.
    Known,
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// When it was last suspicious.
    pub since: Nanos,
    /// How often its ends were told.
    pub told: u8,
    /// Its place among those of one point in time.
    number: u64,
}

/// What came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turnover {
    /// Connections that were added.
    pub added: u64,
    /// Those whose time was over.
    pub ended: u64,
    /// Those that made room for others.
    pub displaced: u64,
}

/// The table.
#[derive(Debug)]
pub struct Connections {
    known: BTreeMap<Key, Connection>,
    /// The oldest first.
    ages: BTreeMap<(Nanos, u64), Key>,
    most: usize,
    lasting: Nanos,
    numbers: u64,
    /// What came and went.
    pub turnover: Turnover,
}

/// Connections that are forgotten with one that is noted: more than one, so that they are soon all gone.
const AT_ONCE: usize = 4;

impl Connections {
    /// For at most `most` connections, each remembered for `lasting`.
    pub fn new(most: usize, lasting: Nanos) -> Connections {
        Connections {
            known: BTreeMap::new(),
            ages: BTreeMap::new(),
            most,
            lasting,
            numbers: 0,
            turnover: Turnover::default(),
        }
    }

    /// Remembers one from now on.
    pub fn note(&mut self, key: Key, now: Nanos) -> Noted {
        self.forget(now, AT_ONCE);
        let before = self.take(&key);
        let is_over = before.is_some_and(|before| self.is_over(before.since, now));
        self.turnover.ended += u64::from(is_over);
        // Another connection of the same ends: these have not been told of it.
        let before = before.filter(|_| !is_over);
        if before.is_none() {
            self.turnover.added += 1;
            while self.known.len() >= self.most
                && let Some(oldest) = self.ages.first_key_value().map(|(_, key)| *key)
            {
                self.take(&oldest);
                self.turnover.displaced += 1;
            }
        }
        self.put(key, now, before.map_or(0, |before| before.told));
        if before.is_some() { Noted::Known } else { Noted::New }
    }

    /// Whether its time is not over.
    pub fn is_blocked(&mut self, key: Key, now: Nanos) -> bool {
        let Some(known) = self.known.get(&key) else { return false };
        if !self.is_over(known.since, now) {
            return true;
        }
        self.take(&key);
        self.turnover.ended += 1;
        false
    }

    /// How often its ends were told.
    pub fn told(&mut self, key: Key) -> Option<&mut u8> {
        self.known.get_mut(&key).map(|known| &mut known.told)
    }

    /// Puts in what another instance knew; false when there is no room.
    pub fn restore(&mut self, key: Key, since: Nanos, told: u8) -> bool {
        self.take(&key);
        let has_room = self.known.len() < self.most;
        if has_room {
            self.put(key, since, told);
        }
        has_room
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Connection)> {
        self.known.iter()
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// None is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Most that are remembered.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Forgets some whose time is over.
    fn forget(&mut self, now: Nanos, most: usize) {
        for _ in 0..most {
            let Some(((since, _), key)) = self.ages.first_key_value().map(|(age, key)| (*age, *key)) else {
                return;
            };
            if !self.is_over(since, now) {
                return;
            }
            self.take(&key);
            self.turnover.ended += 1;
        }
    }

    /// Whether the time of what was noted then is over; of what is in the future, too.
    fn is_over(&self, since: Nanos, now: Nanos) -> bool {
        now.0.abs_diff(since.0) > self.lasting.0
    }

    fn take(&mut self, key: &Key) -> Option<Connection> {
        let known = self.known.remove(key)?;
        self.ages.remove(&(known.since, known.number));
        Some(known)
    }

    fn put(&mut self, key: Key, since: Nanos, told: u8) {
        self.numbers += 1;
        let number = self.numbers;
        self.known.insert(key, Connection { since, told, number });
        self.ages.insert((since, number), key);
    }
}
