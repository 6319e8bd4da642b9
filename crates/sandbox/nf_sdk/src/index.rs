//! Finds entries by a key. The entries lie elsewhere, and one entry may be in several indexes under different
//! keys: a session is found by its inside ends and by its outside ends.
//!
//! 1. A group is one cache line: twelve tags of eight bits (0: free), the number of entries that belong here
//!    but went on to a later group, and twelve entry numbers.
//! 2. A lookup compares all tags of a group at once; the caller compares the key of the entry whose tag
//!    agrees. A lookup that succeeds hence touches two lines, whatever the number of entries.
//! 3. The count of entries that went on tells whether a further group has to be searched, so that a removal
//!    leaves no trace.
//!
//! Limits: memory is taken once; an entry is in one of [`MAX_PROBES`] groups chosen by the hash, so that keys
//! that collide on purpose cost bounded time and are refused.

use crate::groups::{prime_from, tag};
use crate::{Line, zeroed_table};
use alloc::boxed::Box;
use wide::bytemuck::cast;
use wide::u8x16;

/// Entries in a group.
const GROUP: usize = 12;
/// Groups that an entry may be in.
const MAX_PROBES: usize = 16;
/// The bits of the tags in a comparison of sixteen bytes.
const TAGS: u32 = 0xfff;
/// The word of a group that counts entries that went on.
const WENT_ON: usize = 3;
/// The first word of a group that is an entry's number.
const FIRST: usize = 4;

const MULTIPLIERS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// Mixes eight bytes of a key into a hash.
#[inline(always)]
pub fn mix(hash: u64, low: u32, high: u32) -> u64 {
    let mixed = (hash ^ (u64::from(low) | u64::from(high) << 32)).wrapping_mul(MULTIPLIERS[0]);
    mixed ^ mixed >> 32
}

/// Mixes the last eight bytes of a key into a hash.
#[inline(always)]
pub fn finish(hash: u64, low: u32, high: u32) -> u64 {
    let mixed = (hash ^ (u64::from(low) | u64::from(high) << 32)).wrapping_mul(MULTIPLIERS[1]);
    mixed ^ mixed >> 32
}

/// An index of entries whose numbers are not 0.
pub struct Index {
    groups: Box<[Line]>,
}

/// The places of a group whose tag is `tag`, a bit each.
#[inline(always)]
fn agreeing(group: &Line, tag: u8) -> u32 {
    let [a, b, c, d, ..] = group.0;
    let tags: u8x16 = cast([a, b, c, d]);
    tags.simd_eq(u8x16::splat(tag)).to_bitmask() & TAGS
}

impl Index {
    /// An empty index for `limit` entries; `None` when there is no memory for it.
    pub fn new(limit: usize) -> Option<Index> {
        // Two thirds full at most: beyond that, too many entries go on.
        let groups = prime_from((limit + limit / 2).div_ceil(GROUP));
        Some(Index { groups: zeroed_table(groups)? })
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The entries of a group.
    pub fn entries(&self, group: usize) -> impl Iterator<Item = u32> + '_ {
        let line = &self.groups[group];
        let mut taken = !agreeing(line, 0) & TAGS;
        core::iter::from_fn(move || {
            let place = (taken != 0).then(|| taken.trailing_zeros() as usize)?;
            taken &= taken - 1;
            Some(line.0[(FIRST + place) & 15])
        })
    }

    /// The groups that an entry of this hash may be in, from its first one on.
    pub fn path(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        core::iter::successors(Some(self.home(hash)), move |group| Some(self.after(*group, hash)))
            .take(MAX_PROBES)
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.groups.len() as u64) >> 32) as usize
    }

    /// The group that follows on the path of a hash. Paths that share a group part again.
    #[inline(always)]
    fn after(&self, group: usize, hash: u64) -> usize {
        let step = 1 + usize::from(tag(hash)) % (self.groups.len() - 1).max(1);
        (group + step) % self.groups.len()
    }

    /// Reads a word of the first group of a hash, for no other purpose than to have its line in the cache.
    #[inline(always)]
    pub fn touch(&self, hash: u64) -> u32 {
        self.groups[self.home(hash)].0[WENT_ON]
    }

    /// The entry that probably has the key, by its tag in its first group; any other number, or 0, if there
    /// is none.
    #[inline(always)]
    pub fn probable(&self, hash: u64) -> u32 {
        let group = &self.groups[self.home(hash)];
        let place = (agreeing(group, tag(hash)) | 1 << (GROUP - 1)).trailing_zeros() as usize;
        group.0[(FIRST + place) & 15]
    }

    /// The entry for which `has_key` holds, of those with this hash.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut has_key: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut group = self.home(hash);
        for _ in 0..MAX_PROBES {
            let line = &self.groups[group];
            let mut places = agreeing(line, tag(hash));
            while places != 0 {
                let entry = line.0[(FIRST + places.trailing_zeros() as usize) & 15];
                if has_key(entry) {
                    return Some(entry);
                }
                places &= places - 1;
            }
            if line.0[WENT_ON] == 0 {
                break;
            }
            group = self.after(group, hash);
        }
        None
    }

    /// Puts an entry in. False when all groups that it may be in are full.
    pub fn insert(&mut self, hash: u64, entry: u32) -> bool {
        let mut group = self.home(hash);
        for probe in 0..MAX_PROBES {
            let free = agreeing(&self.groups[group], 0);
            if free == 0 {
                group = self.after(group, hash);
                continue;
            }
            let mut passed = self.home(hash);
            for _ in 0..probe {
                self.groups[passed].0[WENT_ON] += 1;
                passed = self.after(passed, hash);
            }
            self.set(group, free.trailing_zeros() as usize, tag(hash), entry);
            return true;
        }
        false
    }

    fn set(&mut self, group: usize, place: usize, tag: u8, entry: u32) {
        let line = &mut self.groups[group].0;
        let shift = place % 4 * 8;
        let word = &mut line[place / 4];
        *word = *word & !(0xff << shift) | u32::from(tag) << shift;
        line[(FIRST + place) & 15] = entry;
    }

    /// Takes an entry out, if it is there.
    pub fn remove(&mut self, hash: u64, entry: u32) {
        let mut group = self.home(hash);
        for probe in 0..MAX_PROBES {
            let line = &self.groups[group];
            let mut places = agreeing(line, tag(hash));
            while places != 0 {
                let place = places.trailing_zeros() as usize;
                if line.0[(FIRST + place) & 15] == entry {
                    self.set(group, place, 0, 0);
                    let mut passed = self.home(hash);
                    for _ in 0..probe {
                        self.groups[passed].0[WENT_ON] -= 1;
                        passed = self.after(passed, hash);
                    }
                    return;
                }
                places &= places - 1;
            }
            if line.0[WENT_ON] == 0 {
                return;
            }
            group = self.after(group, hash);
        }
    }
}

#[cfg(test)]
mod tests;
