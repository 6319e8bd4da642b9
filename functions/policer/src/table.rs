//! Buckets by key, in memory that is taken once: which slot a bucket is in is decided by [`Groups`]. The hash
//! has a secret, so that a sender cannot choose groups.

use crate::meter::Level;
use alloc::boxed::Box;
use nf_sdk::groups::Groups;
use nf_sdk::{Line, QuarterLine, zeroed_table};
use wide::bytemuck::{cast, cast_mut, cast_ref};

/// A key; the first word is never 0.
pub type Key = [u64; 5];

/// How many groups that a key may be in are searched for a bucket that can be forgotten.
const VICTIM_PROBES: usize = 4;

/// What went beyond a bucket's limits since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Excess {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Key, then level: one cache line.
#[inline(always)]
fn words(line: &Line) -> &[u64; 8] {
    cast_ref(&line.0)
}

#[inline(always)]
fn words_mut(line: &mut Line) -> &mut [u64; 8] {
    cast_mut(&mut line.0)
}

#[inline(always)]
fn split(words: &[u64; 8]) -> (Key, Level) {
    let [a, b, c, d, e, level @ ..] = *words;
    ([a, b, c, d, e], level)
}

/// A table of at most `limit` buckets.
pub struct BucketTable {
    groups: Groups,
    slots: Box<[Line]>,
    excess: Box<[QuarterLine]>,
    count: usize,
    limit: usize,
    secret: [u32; 10],
    /// The group that is swept next.
    sweep: usize,
}

impl BucketTable {
    /// An empty table; `None` when there is no memory for it. `seed`: its secret.
    pub fn new(limit: usize, seed: u64) -> Option<BucketTable> {
        let groups = Groups::new(limit)?;
        Some(BucketTable {
            slots: zeroed_table(groups.slots())?,
            excess: zeroed_table(groups.slots())?,
            groups,
            count: 0,
            limit,
            secret: stretch(seed),
            sweep: 0,
        })
    }

    /// Buckets in the table.
    pub fn len(&self) -> usize {
        self.count
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Most buckets.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Groups in the table.
    pub fn groups(&self) -> usize {
        self.groups.count()
    }

    /// The key's hash, for the methods that take one: NH (Black et al., "UMAC: fast and secure message
    /// authentication", 1999), and a finishing step that brings its good bits to where the table looks. Words
    /// that are mostly 0 together are then left out.
    #[inline(always)]
    pub fn hash(&self, key: &Key) -> u64 {
        let part = |n: usize| {
            let low = (key[n] as u32).wrapping_add(self.secret[2 * n]);
            let high = ((key[n] >> 32) as u32).wrapping_add(self.secret[2 * n + 1]);
            u64::from(low).wrapping_mul(u64::from(high))
        };
        let mut sum = part(0).wrapping_add(part(1));
        if key[2] | key[3] | key[4] != 0 {
            sum = sum.wrapping_add(part(2)).wrapping_add(part(3)).wrapping_add(part(4));
        }
        let mixed = (sum ^ sum >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    }

    /// The slot that probably has the key, by its tag in its first group.
    #[inline(always)]
    pub fn probable(&self, hash: u64) -> u32 {
        self.groups.probable(hash)
    }

    /// Reads a word of the slot, for no other purpose than to have its line in the cache.
    #[inline(always)]
    pub fn touch(&self, slot: u32) -> u64 {
        self.slots.get(slot as usize).map_or(0, |line| words(line)[5])
    }

    /// Whether the slot has the key. A free slot has none: its first word is 0.
    #[inline(always)]
    pub fn has(&self, slot: u32, key: &Key) -> bool {
        // Not `==`, which in the sandbox is a call.
        let same = |line: &Line| key.iter().zip(words(line)).fold(0, |all, (a, b)| all | (a ^ b)) == 0;
        self.slots.get(slot as usize).is_some_and(same)
    }

    /// The slot that has the key.
    pub fn find(&self, key: &Key, hash: u64) -> Option<u32> {
        self.groups.find(hash, |slot| self.has(slot, key))
    }

    /// Key and level of a slot that [`BucketTable::find`] or [`BucketTable::insert`] answered.
    pub fn get(&self, slot: u32) -> (Key, Level) {
        split(words(&self.slots[slot as usize]))
    }

    /// The level of such a slot.
    #[inline(always)]
    pub fn level_mut(&mut self, slot: u32) -> &mut Level {
        let [_, _, _, _, _, level @ ..] = words_mut(&mut self.slots[slot as usize]);
        level
    }

    /// What went beyond the limits of such a slot.
    pub fn excess(&self, slot: u32) -> Excess {
        let [packets, bytes] = cast::<[u8; 16], [u64; 2]>(self.excess[slot as usize].0);
        Excess { packets, bytes }
    }

    /// Counts packets that went beyond them.
    #[inline]
    pub fn exceed(&mut self, slot: u32, packets: u64, bytes: u64) {
        if let Some(place) = self.excess.get_mut(slot as usize) {
            let [before, sum] = cast::<[u8; 16], [u64; 2]>(place.0);
            place.0 = cast([before.saturating_add(packets), sum.saturating_add(bytes)]);
        }
    }

    /// Puts in a bucket whose key is not there; its slot. `None` when there is no room: the table has as many
    /// as it may, or all groups that the key may be in are full.
    pub fn insert(&mut self, key: &Key, hash: u64, level: &Level) -> Option<u32> {
        if self.count >= self.limit {
            return None;
        }
        let slot = self.groups.take(hash)?;
        let words = words_mut(&mut self.slots[slot]);
        words[..5].copy_from_slice(key);
        words[5..].copy_from_slice(level);
        self.excess[slot] = QuarterLine([0; 16]);
        self.count += 1;
        Some(slot as u32)
    }

    /// Takes a bucket out.
    pub fn remove(&mut self, slot: u32) {
        let slot = slot as usize;
        if !self.groups.is_taken(slot) {
            return;
        }
        self.groups.give_back(slot, self.hash(&split(words(&self.slots[slot])).0));
        // The zero word keeps `has` from taking what is left here for a bucket.
        words_mut(&mut self.slots[slot])[0] = 0;
        self.count -= 1;
    }

    /// A bucket in one of a few groups that the key may be in which `may_go`.
    pub fn victim(&self, hash: u64, may_go: impl Fn(&Key, &Level) -> bool) -> Option<u32> {
        self.groups.path(hash).take(VICTIM_PROBES).find_map(|group| {
            self.groups.taken(group).find(|slot| {
                let (key, level) = self.get(*slot);
                may_go(&key, &level)
            })
        })
    }

    /// Takes out what `may_go` of the next `groups` groups; how many buckets that were.
    pub fn sweep(&mut self, groups: usize, may_go: impl Fn(&Key, &Level) -> bool) -> usize {
        let before = self.count;
        for _ in 0..groups.min(self.groups.count()) {
            let group = self.sweep;
            self.sweep = if group + 1 == self.groups.count() { 0 } else { group + 1 };
            for slot in self.groups.taken(group) {
                let (key, level) = self.get(slot);
                if may_go(&key, &level) {
                    self.remove(slot);
                }
            }
        }
        before - self.count
    }

    /// Every slot that is taken.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.groups.iter()
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.groups.clear();
        for line in &mut self.slots {
            words_mut(line)[0] = 0;
        }
        self.count = 0;
    }
}

/// Stretches a seed to a secret.
fn stretch(seed: u64) -> [u32; 10] {
    let mut state = seed;
    core::array::from_fn(|_| {
        // SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as u32
    })
}
