//! A bounded table of flows: what a function knows of each is found by its key, in memory that is taken once.
//!
//! 1. An entry is a key of four words and a value of four ([`HalfLine`]), or a key of twelve and a value of
//!    four ([`Line`]): addresses, ports and protocol of IPv4, or of IPv6 and what else tells flows apart.
//! 2. [`FlowTable::set_seed`] makes the table's secret, of the instance's ([`Secret`](crate::Secret)), so
//!    that senders cannot choose keys that collide.
//! 3. [`FlowTable::find`] and [`FlowTable::insert`] take a key and its [hash](FlowTable::hash): a function
//!    that reads a whole batch first has the lines that it will need on their way together
//!    ([`FlowTable::probable`], [`FlowTable::touch`]).
//! 4. [`FlowTable::sweep`] takes out what has ended, a few groups at a time; [`FlowTable::victim`] names what
//!    makes room in a full table.
//!
//! Which place an entry is in is decided by [`Groups`]. A value of zeros stands for nothing: it is what is
//! left where an entry was, so that an entry in use needs a word that is not 0.
//!
//! Limits: as many entries as were asked for; a look-up takes at most 240 places, whatever comes.
//!
//! ```
//! use nf_sdk::HalfLine;
//! use nf_sdk::flow_table::FlowTable;
//!
//! /// Packets of a flow; the second word is never 0.
//! fn count(table: &mut FlowTable<HalfLine>, key: [u32; 4]) -> u32 {
//!     let hash = table.hash(&key);
//!     let Some(place) = table.find(&key, hash) else {
//!         // Where it is full, the flow with the fewest packets makes room.
//!         if !table.insert(&key, hash, [1, 1, 0, 0])
//!             && let Some(place) = table.victim(hash, |entry| Some(entry.value()[0]))
//!         {
//!             table.remove(place);
//!             table.insert(&key, hash, [1, 1, 0, 0]);
//!         }
//!         return 1;
//!     };
//!     let [packets, ..] = table.get_mut(place).value_mut();
//!     *packets += 1;
//!     *packets
//! }
//! # use nf_sdk::flow_table::Entry;
//! # let secret = nf_sdk::Secret::new(&[7; 32]);
//! // In `NetworkFunction::new`, after `let secret = config.secret()?`:
//! let mut table = FlowTable::new(1000).expect("memory");
//! table.set_seed(secret.seed("flows"));
//! assert_eq!(count(&mut table, [0x0a00_0001, 0xc000_0201, 40_000 << 16 | 443, 6]), 1);
//! assert_eq!(count(&mut table, [0x0a00_0001, 0xc000_0201, 40_000 << 16 | 443, 6]), 2);
//! assert_eq!(count(&mut table, [0x0a00_0002, 0xc000_0201, 40_000 << 16 | 443, 6]), 1);
//! assert_eq!(table.len(), 2);
//! ```

use crate::groups::Groups;
use crate::keyed_hash::KeyedHash;
use crate::{HalfLine, Line, TableEntry, zeroed_table};
use alloc::boxed::Box;

/// How many groups that a key may be in are searched for a flow that can make room.
const VICTIM_PROBES: usize = 4;

/// What is known of a flow beside its key.
pub type Value = [u32; 4];

/// A key's words, then a value's.
pub trait Entry: TableEntry {
    /// The key.
    type Key: Copy + Eq;
    /// Key and value.
    fn new(key: &Self::Key, value: Value) -> Self;
    /// Reads the key.
    fn key(&self) -> Self::Key;
    /// Whether the entry has this key.
    fn has(&self, key: &Self::Key) -> bool;
    /// Reads the value.
    fn value(&self) -> Value;
    /// The value, to be changed.
    fn value_mut(&mut self) -> &mut Value;
    /// The hash of a key with a secret.
    fn hash(key: &Self::Key, secret: &KeyedHash<6>) -> u64;
}

macro_rules! entry {
    ($type:ty, $words:literal) => {
        impl Entry for $type {
            type Key = [u32; $words];

            #[inline(always)]
            fn new(key: &[u32; $words], value: Value) -> Self {
                let mut entry = Self([0; _]);
                entry.0[..$words].copy_from_slice(key);
                *entry.value_mut() = value;
                entry
            }

            #[inline(always)]
            fn key(&self) -> [u32; $words] {
                let mut key = [0; $words];
                key.copy_from_slice(&self.0[..$words]);
                key
            }

            #[inline(always)]
            fn has(&self, key: &[u32; $words]) -> bool {
                // Not `==`, which in the sandbox is a call.
                key.iter().zip(&self.0).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
            }

            #[inline(always)]
            fn value(&self) -> Value {
                const { assert!(size_of::<$type>() == 4 * ($words + 4)) };
                self.0.last_chunk().copied().unwrap_or_default()
            }

            #[inline(always)]
            fn value_mut(&mut self) -> &mut Value {
                let (_, value) = self.0.split_last_chunk_mut().expect("an entry has more words");
                value
            }

            #[inline(always)]
            fn hash(key: &[u32; $words], secret: &KeyedHash<6>) -> u64 {
                let pairs: [u64; $words / 2] = core::array::from_fn(|pair| {
                    u64::from(key[2 * pair]) | u64::from(key[2 * pair + 1]) << 32
                });
                secret.of_first(&pairs)
            }
        }
    };
}

entry!(HalfLine, 4);
entry!(Line, 12);

/// A table of at most `limit` flows.
pub struct FlowTable<E: Entry> {
    groups: Groups,
    entries: Box<[E]>,
    count: usize,
    limit: usize,
    secret: KeyedHash<6>,
    /// The group that is swept next.
    sweep: u32,
}

impl<E: Entry> FlowTable<E> {
    /// An empty table; `None` when there is no memory for it.
    pub fn new(limit: usize) -> Option<FlowTable<E>> {
        let groups = Groups::new(limit)?;
        let entries = zeroed_table(groups.slots())?;
        Some(FlowTable { groups, entries, count: 0, limit, secret: KeyedHash::new(0), sweep: 0 })
    }

    /// Sets the secret; only while the table is empty.
    pub fn set_seed(&mut self, seed: u64) {
        if self.count == 0 {
            self.secret = KeyedHash::new(seed);
        }
    }

    /// Flows in the table.
    pub fn len(&self) -> usize {
        self.count
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Most flows.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Groups in the table.
    pub fn groups(&self) -> usize {
        self.groups.count()
    }

    /// The key's hash, for the methods that take one.
    #[inline(always)]
    pub fn hash(&self, key: &E::Key) -> u64 {
        E::hash(key, &self.secret)
    }

    /// The slot that probably has the key, by its tag in its first group.
    #[inline(always)]
    pub fn probable(&self, hash: u64) -> u32 {
        self.groups.probable(hash)
    }

    /// Reads a word of the slot, for no other purpose than to have its line in the cache.
    #[inline(always)]
    pub fn touch(&self, slot: u32) -> u32 {
        self.entries.get(slot as usize).map_or(0, |entry| entry.value()[0])
    }

    /// The same for the tags of a key's first group.
    #[inline(always)]
    pub fn touch_home(&self, hash: u64) -> u32 {
        self.groups.touch(hash)
    }

    /// Writes to a free slot of a key's first group, if there is one, for no other purpose than to have its
    /// line in the cache.
    #[inline(always)]
    pub fn prepare(&mut self, hash: u64) {
        if let Some(slot) = self.groups.free_at_home(hash) {
            *self.entries[slot].value_mut() = Value::default();
        }
    }

    /// The entry of a slot, when it has the key. What was taken out still has its own, and a value of zeros.
    #[inline(always)]
    pub fn entry_if(&mut self, slot: u32, key: &E::Key) -> Option<&mut E> {
        self.entries.get_mut(slot as usize).filter(|slot| slot.has(key))
    }

    /// The slot that has the key.
    pub fn find(&self, key: &E::Key, hash: u64) -> Option<u32> {
        self.groups.find(hash, |slot| self.entries[slot as usize].has(key))
    }

    /// The entry of a slot from [`FlowTable::find`].
    pub fn get(&self, slot: u32) -> &E {
        &self.entries[slot as usize]
    }

    /// The entry of a slot from [`FlowTable::find`].
    pub fn get_mut(&mut self, slot: u32) -> &mut E {
        &mut self.entries[slot as usize]
    }

    /// Puts in a flow whose key is not there. False when there is no room: the table has as many as it may,
    /// or all groups that the key may be in are full.
    pub fn insert(&mut self, key: &E::Key, hash: u64, value: Value) -> bool {
        if self.count >= self.limit {
            return false;
        }
        let Some(slot) = self.groups.take(hash) else { return false };
        self.entries[slot] = E::new(key, value);
        self.count += 1;
        true
    }

    /// Takes a flow out.
    pub fn remove(&mut self, slot: u32) {
        let slot = slot as usize;
        if !self.groups.is_taken(slot) {
            return;
        }
        self.groups.give_back(slot, self.hash(&self.entries[slot].key()));
        // The zeros keep `entry_if` from taking what is left here for a flow.
        *self.entries[slot].value_mut() = Value::default();
        self.count -= 1;
    }

    /// The flow that `rank` gives the lowest rank to, in the first of a few groups that the key may be in
    /// which has one; `None` when `rank` ranks none of them.
    pub fn victim(&self, hash: u64, rank: impl Fn(&E) -> Option<u32>) -> Option<u32> {
        self.groups.path(hash).take(VICTIM_PROBES).find_map(|group| {
            let ranked = self
                .groups
                .taken(group)
                .filter_map(|slot| rank(&self.entries[slot as usize]).map(|rank| (rank, slot)));
            ranked.min().map(|(_, slot)| slot)
        })
    }

    /// Takes out what `ended` names, of the next `groups` groups; how many flows that were.
    pub fn sweep(&mut self, groups: usize, ended: impl Fn(&E) -> bool) -> usize {
        let before = self.count;
        for _ in 0..groups.min(self.groups.count()) {
            let group = self.sweep as usize;
            self.sweep = if group + 1 == self.groups.count() { 0 } else { group as u32 + 1 };
            for slot in self.groups.taken(group) {
                if ended(&self.entries[slot as usize]) {
                    self.remove(slot);
                }
            }
        }
        before - self.count
    }

    /// Every entry.
    pub fn iter(&self) -> impl Iterator<Item = &E> + '_ {
        self.groups.iter().map(|slot| &self.entries[slot as usize])
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.sweep(self.groups.count(), |_| true);
    }
}

#[cfg(test)]
mod tests;
