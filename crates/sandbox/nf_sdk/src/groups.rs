//! Places for entries by the hash of their keys, for tables whose entries lie beside their tags: flows,
//! buckets.
//!
//! Slots come in groups of fifteen, with one vector of sixteen bytes each: a tag of eight bits for every slot
//! (0: free) and the number of entries that belong here but had to go to a later group. A lookup compares all
//! tags of a group at once and touches the one entry whose tag agrees, hence two cache lines, whatever the
//! table's size. The number of entries that went on says whether there is any use in looking further, so that
//! removing one leaves no trace (as F14 does, engineering.fb.com, "Open-sourcing F14").
//!
//! The entries are the table's own: one with a key that is found by slot ([`Groups::slots`] of them). Where
//! an entry is to be found under two keys, or is longer than a line, [`index`](crate::index) keeps numbers of
//! entries instead.
//!
//! Limits: memory is taken once. Which groups a key may be in is decided by its hash, [`MAX_PROBES`] of them:
//! keys that collide on purpose cost a bounded time, and are refused. The hash is to have a secret.

use crate::{QuarterLine, zeroed_table};
use alloc::boxed::Box;
use wide::bytemuck::cast;
use wide::{u8x16, u32x4};

/// Slots in a group.
pub const GROUP: usize = 15;
/// How many groups a key may be in.
pub const MAX_PROBES: usize = 16;

/// Where the tags leave a byte for the number of entries that went on.
const OVERFLOW: usize = 15;
/// The largest number; from here on it is not counted down, because it may be larger.
const OVERFLOW_MAX: u8 = 255;
/// The slots of a group, a bit each.
const SLOTS: u32 = 0x7fff;

/// Which slots are taken, and by the tags of their keys' hashes what may be in them.
#[derive(Debug)]
pub struct Groups {
    tags: Box<[QuarterLine]>,
}

/// The first prime number from `number` on: any step then leads through all groups.
pub(crate) fn prime_from(number: usize) -> usize {
    let is_prime = |n: &usize| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (number.max(2)..).find(is_prime).unwrap_or(number)
}

/// The tag of a hash, which is that of no free slot.
#[inline(always)]
pub(crate) fn tag(hash: u64) -> u8 {
    (hash as u8).max(1)
}

/// The slots of a group whose tag is the low byte of `tag`, a bit each.
#[inline(always)]
fn agreeing(group: &QuarterLine, tag: u32) -> u32 {
    let tags: u8x16 = cast(group.0);
    // The first byte in every lane.
    let wanted = cast::<u32x4, u8x16>(u32x4::splat(tag)).shuffle_zeroing(u8x16::ZERO);
    tags.simd_eq(wanted).to_bitmask() & SLOTS
}

impl Groups {
    /// Slots enough for `limit` entries, all free; `None` when there is no memory for them.
    pub fn new(limit: usize) -> Option<Groups> {
        // Two thirds full at most: beyond that, groups run over too often.
        Groups::of(prime_from((limit + limit / 2).div_ceil(GROUP)))
    }

    /// The same with an eighth of the slots to spare, for tables that are to be full and in which entries
    /// give way to others: those that had to go to a later group do so soon.
    pub fn crowded(limit: usize) -> Option<Groups> {
        let groups = (limit + limit / 7).div_ceil(GROUP).max(1);
        Groups::of(if groups == 1 { 1 } else { prime_from(groups) })
    }

    fn of(groups: usize) -> Option<Groups> {
        Some(Groups { tags: zeroed_table(groups)? })
    }

    /// How many groups there are.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.tags.len()
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.tags.len() * GROUP
    }

    /// The first group of a key.
    #[inline(always)]
    pub fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.tags.len() as u64) >> 32) as usize
    }

    /// The group that follows on a key's path. Paths of keys that share a group part again, or full groups
    /// would lie side by side and grow together.
    #[inline(always)]
    fn after(&self, group: usize, hash: u64) -> usize {
        let step = 1 + usize::from(tag(hash)) % (self.tags.len() - 1).max(1);
        (group + step) % self.tags.len()
    }

    /// The slot that probably has the key, by its tag in its first group.
    #[inline(always)]
    pub fn probable(&self, hash: u64) -> u32 {
        let home = self.home(hash);
        // One in 256 keys has another tag than this and is looked for in vain: less than a correction costs
        // all.
        let agreeing = agreeing(&self.tags[home], hash as u32);
        // Without any, the last one; whatever is there is compared before it is used.
        (home * GROUP) as u32 + (agreeing | 0x4000).trailing_zeros()
    }

    /// The slot of a key's first group whose tag agrees, if one does.
    #[inline(always)]
    pub fn candidate(&self, hash: u64) -> Option<u32> {
        let home = self.home(hash);
        let agreeing = agreeing(&self.tags[home], u32::from(tag(hash)));
        (agreeing != 0).then(|| (home * GROUP) as u32 + agreeing.trailing_zeros())
    }

    /// How many slots of a group are taken.
    #[inline(always)]
    pub fn held(&self, group: usize) -> usize {
        GROUP - agreeing(&self.tags[group], 0).count_ones() as usize
    }

    /// Reads a tag of a key's first group, for no other purpose than to have its line in the cache.
    #[inline(always)]
    pub fn touch(&self, hash: u64) -> u32 {
        u32::from(self.tags[self.home(hash)].0[0])
    }

    /// A free slot of a key's first group: the one that [`Groups::take`] takes next.
    #[inline(always)]
    pub fn free_at_home(&self, hash: u64) -> Option<usize> {
        let home = self.home(hash);
        let free = agreeing(&self.tags[home], 0);
        (free != 0).then(|| home * GROUP + free.trailing_zeros() as usize)
    }

    /// The slot for which `has_key` holds, of those with this hash.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut has_key: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut group = self.home(hash);
        for _ in 0..MAX_PROBES {
            let tags = &self.tags[group];
            let mut agreeing = agreeing(tags, u32::from(tag(hash)));
            while agreeing != 0 {
                let slot = (group * GROUP) as u32 + agreeing.trailing_zeros();
                if has_key(slot) {
                    return Some(slot);
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

    /// Takes a free slot for a key; `None` when all groups that it may be in are full.
    pub fn take(&mut self, hash: u64) -> Option<usize> {
        let mut group = self.home(hash);
        let (probe, place) = (0..MAX_PROBES).find_map(|probe| {
            let free = agreeing(&self.tags[group], 0);
            if free != 0 {
                return Some((probe, free.trailing_zeros() as usize));
            }
            group = self.after(group, hash);
            None
        })?;
        let mut passed = self.home(hash);
        for _ in 0..probe {
            let overflow = &mut self.tags[passed].0[OVERFLOW];
            *overflow = overflow.saturating_add(1);
            passed = self.after(passed, hash);
        }
        self.tags[group].0[place] = tag(hash);
        Some(group * GROUP + place)
    }

    /// Whether a slot is taken.
    #[inline(always)]
    pub fn is_taken(&self, slot: usize) -> bool {
        self.tags[slot / GROUP].0[slot % GROUP] != 0
    }

    /// Gives a slot back that was taken with this hash.
    pub fn give_back(&mut self, slot: usize, hash: u64) {
        let group = slot / GROUP;
        let mut passed = self.home(hash);
        while passed != group {
            let overflow = &mut self.tags[passed].0[OVERFLOW];
            if *overflow != OVERFLOW_MAX {
                *overflow -= 1;
            }
            passed = self.after(passed, hash);
        }
        self.tags[group].0[slot % GROUP] = 0;
    }

    /// Gives a slot that was taken in the first group of a key to another key with the same first group.
    #[inline(always)]
    pub fn replace(&mut self, slot: usize, hash: u64) {
        debug_assert!(self.home(hash) == slot / GROUP, "another group is where it is looked for first");
        self.tags[slot / GROUP].0[slot % GROUP] = tag(hash);
    }

    /// The slots of a group that are taken, as they are now.
    #[inline(always)]
    pub fn taken(&self, group: usize) -> impl Iterator<Item = u32> + use<> {
        let mut taken = agreeing(&self.tags[group], 0) ^ SLOTS;
        core::iter::from_fn(move || {
            let place = (taken != 0).then(|| taken.trailing_zeros())?;
            taken &= taken - 1;
            Some((group * GROUP) as u32 + place)
        })
    }

    /// The groups that a key may be in, from its first one on.
    pub fn path(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        core::iter::successors(Some(self.home(hash)), move |group| Some(self.after(*group, hash)))
            .take(MAX_PROBES)
    }

    /// Gives all slots back.
    pub fn clear(&mut self) {
        self.tags.fill(QuarterLine([0; 16]));
    }

    /// Every slot that is taken.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.tags.len()).flat_map(|group| self.taken(group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        /// Keys of few hashes, so that groups run over, in a small table beside a map.
        #[test]
        fn a_table_is_a_map(
            steps in prop::collection::vec((0u64..24, any::<bool>()), 1..400), seed: u64, crowded: bool,
        ) {
            let mut groups = if crowded { Groups::crowded(13) } else { Groups::new(12) }.expect("memory");
            let mut keys: Vec<Option<(u64, u64)>> = (0..groups.slots()).map(|_| None).collect();
            let mut model: BTreeMap<(u64, u64), usize> = BTreeMap::new();
            let hash_of = |number: u64| (number % 3 + 1).wrapping_mul(seed | 1);
            for (number, comes) in steps {
                let (key, hash) = ((number, hash_of(number)), hash_of(number));
                let found = groups.find(hash, |slot| keys[slot as usize] == Some(key));
                prop_assert_eq!(found.map(|slot| slot as usize), model.get(&key).copied());
                let at_home = groups.candidate(hash).map(|slot| keys[slot as usize].map(|(_, hash)| hash));
                prop_assert!(at_home.is_none_or(|found| found.is_some_and(|found| tag(found) == tag(hash))));
                prop_assert!(groups.held(groups.home(hash)) == groups.taken(groups.home(hash)).count());
                match (found, comes) {
                    (None, true) => {
                        let first = groups.free_at_home(hash);
                        if let Some(slot) = groups.take(hash) {
                            prop_assert!(first.is_none_or(|first| first == slot));
                            prop_assert_eq!(keys[slot].replace(key), None);
                            model.insert(key, slot);
                        } else {
                            prop_assert!(groups.path(hash).all(|group| groups.taken(group).count() == GROUP));
                        }
                    }
                    (Some(slot), false) => {
                        groups.give_back(slot as usize, hash);
                        (keys[slot as usize], _) = (None, model.remove(&key));
                    }
                    _ => {}
                }
                let mut slots: Vec<usize> = model.values().copied().collect();
                slots.sort_unstable();
                prop_assert_eq!(groups.iter().map(|slot| slot as usize).collect::<Vec<_>>(), slots);
            }
            // Another key with the same first group takes a slot over.
            if let Some((key, slot)) = model.iter().find(|(key, slot)| groups.home(key.1) == **slot / GROUP) {
                let other = key.1 ^ 1;
                groups.replace(*slot, other);
                prop_assert!(groups.find(other, |found| found as usize == *slot).is_some());
                groups.replace(*slot, key.1);
            }
            for (key, slot) in model {
                groups.give_back(slot, key.1);
            }
            prop_assert!(groups.tags.iter().all(|tags| tags.0 == [0; 16]), "removing leaves no trace");
        }
    }
}
