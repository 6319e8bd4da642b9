//! Flows by key, in memory that is taken once.
//!
//! Slots come in groups of fifteen, with one vector of sixteen bytes each: a tag of eight bits for every slot
//! (0: free) and the number of flows that belong here but had to go to a later group. A lookup compares all
//! tags of a group at once and touches the one flow whose tag agrees, hence two cache lines, whatever the
//! table's size. The number of flows that went on says whether there is any use in looking further, so that
//! removing a flow leaves no trace (as F14 does, engineering.fb.com, "Open-sourcing F14").
//!
//! Which groups a key may be in is decided by its hash, [`MAX_PROBES`] of them: keys that collide on purpose
//! cost a bounded time, and are refused.

use alloc::boxed::Box;
use nf_sdk::{HalfLine, Line, QuarterLine, TableEntry, zeroed_table};
use wide::bytemuck::cast;
use wide::{u8x16, u32x4};

/// Slots in a group.
pub const GROUP: usize = 15;
/// How many groups a key may be in.
pub const MAX_PROBES: usize = 16;
/// How many of them are searched for a flow that can make room.
const VICTIM_PROBES: usize = 4;

/// Where the tags leave a byte for the number of flows that went on.
const OVERFLOW: usize = 15;
/// The largest number; from here on it is not counted down, because it may be larger.
const OVERFLOW_MAX: u8 = 255;

/// What is known of a flow beside its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// When it ends unless another packet comes, in ticks.
    pub expires: u32,
    /// State and which side began it, see `tracker`.
    pub state: u32,
    /// The sequence number behind the last byte that was sent, from inside and from outside.
    pub ends: [u32; 2],
}

/// A slot: a key's words, then a flow's.
pub trait Slot: TableEntry {
    /// The key.
    type Key: Copy + Eq;
    /// Reads the key.
    fn key(&self) -> Self::Key;
    /// Whether the slot has this key.
    fn has(&self, key: &Self::Key) -> bool;
    /// Reads the flow.
    fn flow(&self) -> Flow;
    /// Writes the flow.
    fn set_flow(&mut self, flow: &Flow);
    /// Gives the flow more time, and moves the newest byte of one side (0 or 1) on to `end`, unless it is
    /// there.
    fn refresh(&mut self, expires: u32, side: usize, end: u32);
    /// Key and flow.
    fn new(key: &Self::Key, flow: &Flow) -> Self;
    /// Mixes a key with a secret.
    fn hash(key: &Self::Key, seed: u64) -> u64;
}

const MULTIPLIERS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

#[inline(always)]
fn mix(hash: u64, low: u32, high: u32, multiplier: u64) -> u64 {
    let mixed = (hash ^ (u64::from(low) | u64::from(high) << 32)).wrapping_mul(multiplier);
    mixed ^ mixed >> 32
}

macro_rules! slot {
    ($type:ty, $words:literal) => {
        impl Slot for $type {
            type Key = [u32; $words];

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
            fn flow(&self) -> Flow {
                let [.., expires, state, inside, outside] = self.0[..$words + 4] else {
                    return Flow::default();
                };
                Flow { expires, state, ends: [inside, outside] }
            }

            #[inline(always)]
            fn set_flow(&mut self, flow: &Flow) {
                self.0[$words] = flow.expires;
                self.0[$words + 1] = flow.state;
                self.0[$words + 2] = flow.ends[0];
                self.0[$words + 3] = flow.ends[1];
            }

            #[inline(always)]
            fn refresh(&mut self, expires: u32, side: usize, end: u32) {
                self.0[$words] = expires;
                let newest = &mut self.0[$words + 2 + (side & 1)];
                *newest = if end.wrapping_sub(*newest) as i32 > 0 { end } else { *newest };
            }

            fn new(key: &[u32; $words], flow: &Flow) -> Self {
                let mut slot = Self([0; _]);
                slot.0[..$words].copy_from_slice(key);
                slot.set_flow(flow);
                slot
            }

            #[inline(always)]
            fn hash(key: &[u32; $words], seed: u64) -> u64 {
                let mut hash = seed;
                for (index, pair) in key.chunks_exact(2).enumerate() {
                    hash = mix(hash, pair[0], pair[1], MULTIPLIERS[index % 2]);
                }
                hash
            }
        }
    };
}

slot!(HalfLine, 4);
slot!(Line, 12);

/// The first prime number from `number` on: any step then leads through all groups.
fn prime_from(number: usize) -> usize {
    let is_prime = |n: &usize| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (number.max(2)..).find(is_prime).unwrap_or(number)
}

/// A table of at most `limit` flows.
pub struct FlowTable<S: Slot> {
    tags: Box<[QuarterLine]>,
    slots: Box<[S]>,
    count: usize,
    limit: usize,
    seed: u64,
    /// The group that is swept next.
    sweep: u32,
}

#[inline(always)]
fn tag(hash: u64) -> u8 {
    (hash as u8).max(1)
}

impl<S: Slot> FlowTable<S> {
    /// An empty table; `None` when there is no memory for it.
    pub fn new(limit: usize) -> Option<FlowTable<S>> {
        // Two thirds full at most: beyond that, groups run over too often.
        let groups = prime_from((limit + limit / 2).div_ceil(GROUP));
        let (tags, slots) = (zeroed_table(groups)?, zeroed_table(groups * GROUP)?);
        Some(FlowTable { tags, slots, count: 0, limit, seed: 0, sweep: 0 })
    }

    /// Sets the secret; only while the table is empty.
    pub fn set_seed(&mut self, seed: u64) {
        if self.count == 0 {
            self.seed = seed;
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
        self.tags.len()
    }

    /// The key's hash, for the methods that take one.
    #[inline(always)]
    pub fn hash(&self, key: &S::Key) -> u64 {
        S::hash(key, self.seed)
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
    pub fn touch(&self, slot: u32) -> u32 {
        self.slots.get(slot as usize).map_or(0, |slot| slot.flow().expires)
    }

    /// The same for the tags of a key's first group.
    #[inline(always)]
    pub fn touch_home(&self, hash: u64) -> u32 {
        u32::from(self.tags[self.home(hash)].0[0])
    }

    /// Writes to a free slot of a key's first group, if there is one, for no other purpose than to have its
    /// line in the cache.
    #[inline(always)]
    pub fn prepare(&mut self, hash: u64) {
        let home = self.home(hash);
        let free = Self::agreeing(&self.tags[home], 0);
        if free != 0 {
            self.slots[home * GROUP + free.trailing_zeros() as usize].set_flow(&Flow::default());
        }
    }

    /// The slot, when it has the key. A free slot has none: its state is 0.
    #[inline(always)]
    pub fn slot_if(&mut self, slot: u32, key: &S::Key) -> Option<&mut S> {
        self.slots.get_mut(slot as usize).filter(|slot| slot.has(key))
    }

    /// The slot that has the key.
    pub fn find(&self, key: &S::Key, hash: u64) -> Option<u32> {
        let mut group = self.home(hash);
        for _ in 0..MAX_PROBES {
            let tags = &self.tags[group];
            let mut agreeing = Self::agreeing(tags, u32::from(tag(hash)));
            while agreeing != 0 {
                let slot = group * GROUP + agreeing.trailing_zeros() as usize;
                if self.slots[slot].has(key) {
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

    /// A slot from [`FlowTable::find`].
    pub fn get(&self, slot: u32) -> &S {
        &self.slots[slot as usize]
    }

    /// A slot from [`FlowTable::find`].
    pub fn get_mut(&mut self, slot: u32) -> &mut S {
        &mut self.slots[slot as usize]
    }

    /// Puts in a flow whose key is not there. False when there is no room: the table has as many as it may,
    /// or all groups that the key may be in are full.
    pub fn insert(&mut self, key: &S::Key, hash: u64, flow: &Flow) -> bool {
        if self.count >= self.limit {
            return false;
        }
        let mut group = self.home(hash);
        let free = (0..MAX_PROBES).find_map(|probe| {
            let free = Self::agreeing(&self.tags[group], 0);
            if free != 0 {
                return Some((probe, group * GROUP + free.trailing_zeros() as usize));
            }
            group = self.after(group, hash);
            None
        });
        let Some((probe, slot)) = free else { return false };
        let mut group = self.home(hash);
        for _ in 0..probe {
            let overflow = &mut self.tags[group].0[OVERFLOW];
            *overflow = overflow.saturating_add(1);
            group = self.after(group, hash);
        }
        self.tags[group].0[slot % GROUP] = tag(hash);
        self.slots[slot] = S::new(key, flow);
        self.count += 1;
        true
    }

    /// Takes a flow out.
    pub fn remove(&mut self, slot: u32) {
        let slot = slot as usize;
        let group = slot / GROUP;
        if self.tags[group].0[slot % GROUP] == 0 {
            return;
        }
        let hash = self.hash(&self.slots[slot].key());
        let mut probe = self.home(hash);
        while probe != group {
            let overflow = &mut self.tags[probe].0[OVERFLOW];
            if *overflow != OVERFLOW_MAX {
                *overflow -= 1;
            }
            probe = self.after(probe, hash);
        }
        self.tags[group].0[slot % GROUP] = 0;
        // The zero state keeps `slot_if` from taking what is left here for a flow.
        self.slots[slot].set_flow(&Flow::default());
        self.count -= 1;
    }

    /// The flow that `rank` gives the lowest rank to, in the first of a few groups that the key may be in
    /// which has one; `None` when `rank` ranks none of them.
    pub fn victim(&self, hash: u64, rank: impl Fn(&Flow) -> Option<u32>) -> Option<u32> {
        let mut group = self.home(hash);
        (0..VICTIM_PROBES).find_map(|_| {
            let (first, tags) = (group * GROUP, self.tags[group].0);
            group = self.after(group, hash);
            let ranked = (0..GROUP).filter(|slot| tags[*slot] != 0).filter_map(|slot| {
                let slot = first + slot;
                rank(&self.slots[slot].flow()).map(|rank| (rank, slot as u32))
            });
            ranked.min().map(|(_, slot)| slot)
        })
    }

    /// Takes out what `ended` names, of the next `groups` groups; how many flows that were.
    pub fn sweep(&mut self, groups: usize, ended: impl Fn(&Flow) -> bool) -> usize {
        let before = self.count;
        for _ in 0..groups.min(self.tags.len()) {
            let group = self.sweep as usize;
            self.sweep = if group + 1 == self.tags.len() { 0 } else { group as u32 + 1 };
            let tags = self.tags[group].0;
            for slot in (0..GROUP).filter(|slot| tags[*slot] != 0) {
                let slot = group * GROUP + slot;
                if ended(&self.slots[slot].flow()) {
                    self.remove(slot as u32);
                }
            }
        }
        before - self.count
    }

    /// Every flow.
    pub fn iter(&self) -> impl Iterator<Item = (S::Key, Flow)> + '_ {
        self.tags.iter().zip(self.slots.chunks_exact(GROUP)).flat_map(|(tags, slots)| {
            let mut taken = Self::agreeing(tags, 0) ^ 0x7fff;
            core::iter::from_fn(move || {
                let bit = (taken != 0).then(|| taken.trailing_zeros())?;
                taken &= taken - 1;
                slots.get(bit as usize).map(|slot| (slot.key(), slot.flow()))
            })
        })
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.sweep(self.tags.len(), |_| true);
    }
}
