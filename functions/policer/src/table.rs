//! Buckets by key, in memory that is taken once.
//!
//! Slots come in groups of fifteen, with one vector of sixteen bytes each: a tag of eight bits for every slot
//! (0: free) and the number of buckets that belong here but had to go to a later group. A lookup compares all
//! tags of a group at once and touches the one bucket whose tag agrees, hence two cache lines, whatever the
//! table's size.
//!
//! Which groups a key may be in is decided by its hash, [`MAX_PROBES`] of them: keys that collide on purpose
//! cost a bounded time. The hash has a secret, so that a sender cannot choose them.

use crate::meter::Level;
use alloc::boxed::Box;
use nf_sdk::{Line, QuarterLine, zeroed_table};
use wide::bytemuck::{cast, cast_mut, cast_ref};
use wide::{u8x16, u32x4};

/// A key; the first word is never 0.
pub type Key = [u64; 5];

/// Slots in a group.
pub const GROUP: usize = 15;
/// How many groups a key may be in.
pub const MAX_PROBES: usize = 16;
/// How many of them are searched for a bucket that can be forgotten.
const VICTIM_PROBES: usize = 4;

/// Where the tags leave a byte for the number of buckets that went on.
const OVERFLOW: usize = 15;
/// The largest number; from here on it is not counted down, because it may be larger.
const OVERFLOW_MAX: u8 = 255;

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

/// The first prime number from `number` on: any step then leads through all groups.
fn prime_from(number: usize) -> usize {
    let is_prime = |n: &usize| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (number.max(2)..).find(is_prime).unwrap_or(number)
}

#[inline(always)]
fn tag(hash: u64) -> u8 {
    (hash as u8).max(1)
}

/// A table of at most `limit` buckets.
pub struct BucketTable {
    tags: Box<[QuarterLine]>,
    slots: Box<[Line]>,
    excess: Box<[QuarterLine]>,
    count: usize,
    limit: usize,
    secret: [u32; 10],
    /// The group that is swept next.
    sweep: usize,
}

impl BucketTable {
    /// An empty table; `None` when there is no memory for it.
    pub fn new(limit: usize) -> Option<BucketTable> {
        // Two thirds full at most: beyond that, groups run over too often.
        let groups = prime_from((limit + limit / 2).div_ceil(GROUP));
        Some(BucketTable {
            tags: zeroed_table(groups)?,
            slots: zeroed_table(groups * GROUP)?,
            excess: zeroed_table(groups * GROUP)?,
            count: 0,
            limit,
            secret: stretch(0),
            sweep: 0,
        })
    }

    /// Makes the secret of a seed; only while the table is empty.
    pub fn set_seed(&mut self, seed: u64) {
        if self.count == 0 {
            self.secret = stretch(seed);
        }
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
        self.tags.len()
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

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.tags.len() as u64) >> 32) as usize
    }

    /// The slots of a group whose tag is the low byte of `tag`, a bit each.
    #[inline(always)]
    fn agreeing(group: &QuarterLine, tag: u32) -> u32 {
        let tags: u8x16 = cast(group.0);
        // The first byte in every lane.
        let wanted = cast::<u32x4, u8x16>(u32x4::splat(tag)).shuffle_zeroing(u8x16::ZERO);
        tags.simd_eq(wanted).to_bitmask() & 0x7fff
    }

    /// The slot that probably has the key, by its tag in its first group.
    #[inline(always)]
    pub fn probable(&self, hash: u64) -> u32 {
        let home = self.home(hash);
        // One in 256 keys has another tag than this and is looked for in vain: less than a correction costs
        // all.
        let agreeing = Self::agreeing(&self.tags[home], hash as u32);
        // Without any, the last one; whatever is there is compared before it is used.
        (home * GROUP) as u32 + (agreeing | 0x4000).trailing_zeros()
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
        let mut group = self.home(hash);
        for _ in 0..MAX_PROBES {
            let tags = &self.tags[group];
            let mut agreeing = Self::agreeing(tags, u32::from(tag(hash)));
            while agreeing != 0 {
                let slot = group * GROUP + agreeing.trailing_zeros() as usize;
                if self.has(slot as u32, key) {
                    return Some(slot as u32);
                }
                agreeing &= agreeing - 1;
            }
            if tags.0[OVERFLOW] == 0 {
                break;
            }
            group = self.after(group, hash);
        }
        None
    }

    /// The group that follows on a key's path. Paths of keys that share a group part again, or full groups
    /// would lie side by side and grow together.
    #[inline(always)]
    fn after(&self, group: usize, hash: u64) -> usize {
        let step = 1 + usize::from(tag(hash)) % (self.tags.len() - 1).max(1);
        (group + step) % self.tags.len()
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
        let mut group = self.home(hash);
        let (probe, slot) = (0..MAX_PROBES).find_map(|probe| {
            let free = Self::agreeing(&self.tags[group], 0);
            if free != 0 {
                return Some((probe, group * GROUP + free.trailing_zeros() as usize));
            }
            group = self.after(group, hash);
            None
        })?;
        let mut group = self.home(hash);
        for _ in 0..probe {
            let overflow = &mut self.tags[group].0[OVERFLOW];
            *overflow = overflow.saturating_add(1);
            group = self.after(group, hash);
        }
        self.tags[group].0[slot % GROUP] = tag(hash);
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
        let group = slot / GROUP;
        if self.tags[group].0[slot % GROUP] == 0 {
            return;
        }
        let hash = self.hash(&split(words(&self.slots[slot])).0);
        let mut probe = self.home(hash);
        while probe != group {
            let overflow = &mut self.tags[probe].0[OVERFLOW];
            if *overflow != OVERFLOW_MAX {
                *overflow -= 1;
            }
            probe = self.after(probe, hash);
        }
        self.tags[group].0[slot % GROUP] = 0;
        // The zero word keeps `has` from taking what is left here for a bucket.
        words_mut(&mut self.slots[slot])[0] = 0;
        self.count -= 1;
    }

    /// The slots of a group that are taken.
    fn taken(&self, group: usize) -> impl Iterator<Item = u32> + use<> {
        let tags = self.tags[group].0;
        (0..GROUP).filter(move |slot| tags[*slot] != 0).map(move |slot| (group * GROUP + slot) as u32)
    }

    /// A bucket in one of a few groups that the key may be in which `may_go`.
    pub fn victim(&self, hash: u64, may_go: impl Fn(&Key, &Level) -> bool) -> Option<u32> {
        let mut group = self.home(hash);
        (0..VICTIM_PROBES).find_map(|_| {
            let found = self.taken(group).find(|slot| {
                let (key, level) = self.get(*slot);
                may_go(&key, &level)
            });
            group = self.after(group, hash);
            found
        })
    }

    /// Takes out what `may_go` of the next `groups` groups; how many buckets that were.
    pub fn sweep(&mut self, groups: usize, may_go: impl Fn(&Key, &Level) -> bool) -> usize {
        let before = self.count;
        for _ in 0..groups.min(self.tags.len()) {
            let group = self.sweep;
            self.sweep = if group + 1 == self.tags.len() { 0 } else { group + 1 };
            for slot in self.taken(group) {
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
        (0..self.tags.len()).flat_map(|group| self.taken(group))
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.tags.fill(QuarterLine([0; 16]));
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
