//! Flows by key, in memory that is taken once: which slot a flow is in is decided by [`Groups`].

use alloc::boxed::Box;
use nf_sdk::groups::Groups;
use nf_sdk::keyed_hash::KeyedHash;
use nf_sdk::{HalfLine, Line, TableEntry, zeroed_table};

/// How many groups that a key may be in are searched for a flow that can make room.
const VICTIM_PROBES: usize = 4;

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
    /// The hash of a key with a secret.
    fn hash(key: &Self::Key, secret: &KeyedHash<6>) -> u64;
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
            fn hash(key: &[u32; $words], secret: &KeyedHash<6>) -> u64 {
                let pairs: [u64; $words / 2] = core::array::from_fn(|pair| {
                    u64::from(key[2 * pair]) | u64::from(key[2 * pair + 1]) << 32
                });
                secret.of_first(&pairs)
            }
        }
    };
}

slot!(HalfLine, 4);
slot!(Line, 12);

/// A table of at most `limit` flows.
pub struct FlowTable<S: Slot> {
    groups: Groups,
    slots: Box<[S]>,
    count: usize,
    limit: usize,
    secret: KeyedHash<6>,
    /// The group that is swept next.
    sweep: u32,
}

impl<S: Slot> FlowTable<S> {
    /// An empty table; `None` when there is no memory for it.
    pub fn new(limit: usize) -> Option<FlowTable<S>> {
        let groups = Groups::new(limit)?;
        let slots = zeroed_table(groups.slots())?;
        Some(FlowTable { groups, slots, count: 0, limit, secret: KeyedHash::new(0), sweep: 0 })
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
    pub fn hash(&self, key: &S::Key) -> u64 {
        S::hash(key, &self.secret)
    }

    /// The slot that probably has the key, by its tag in its first group.
    #[inline(always)]
    pub fn probable(&self, hash: u64) -> u32 {
        self.groups.probable(hash)
    }

    /// Reads a word of the slot, for no other purpose than to have its line in the cache.
    #[inline(always)]
    pub fn touch(&self, slot: u32) -> u32 {
        self.slots.get(slot as usize).map_or(0, |slot| slot.flow().expires)
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
            self.slots[slot].set_flow(&Flow::default());
        }
    }

    /// The slot, when it has the key. A free slot has none: its state is 0.
    #[inline(always)]
    pub fn slot_if(&mut self, slot: u32, key: &S::Key) -> Option<&mut S> {
        self.slots.get_mut(slot as usize).filter(|slot| slot.has(key))
    }

    /// The slot that has the key.
    pub fn find(&self, key: &S::Key, hash: u64) -> Option<u32> {
        self.groups.find(hash, |slot| self.slots[slot as usize].has(key))
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
        let Some(slot) = self.groups.take(hash) else { return false };
        self.slots[slot] = S::new(key, flow);
        self.count += 1;
        true
    }

    /// Takes a flow out.
    pub fn remove(&mut self, slot: u32) {
        let slot = slot as usize;
        if !self.groups.is_taken(slot) {
            return;
        }
        self.groups.give_back(slot, self.hash(&self.slots[slot].key()));
        // The zero state keeps `slot_if` from taking what is left here for a flow.
        self.slots[slot].set_flow(&Flow::default());
        self.count -= 1;
    }

    /// The flow that `rank` gives the lowest rank to, in the first of a few groups that the key may be in
    /// which has one; `None` when `rank` ranks none of them.
    pub fn victim(&self, hash: u64, rank: impl Fn(&Flow) -> Option<u32>) -> Option<u32> {
        self.groups.path(hash).take(VICTIM_PROBES).find_map(|group| {
            let ranked = self
                .groups
                .taken(group)
                .filter_map(|slot| rank(&self.slots[slot as usize].flow()).map(|rank| (rank, slot)));
            ranked.min().map(|(_, slot)| slot)
        })
    }

    /// Takes out what `ended` names, of the next `groups` groups; how many flows that were.
    pub fn sweep(&mut self, groups: usize, ended: impl Fn(&Flow) -> bool) -> usize {
        let before = self.count;
        for _ in 0..groups.min(self.groups.count()) {
            let group = self.sweep as usize;
            self.sweep = if group + 1 == self.groups.count() { 0 } else { group as u32 + 1 };
            for slot in self.groups.taken(group) {
                if ended(&self.slots[slot as usize].flow()) {
                    self.remove(slot);
                }
            }
        }
        before - self.count
    }

    /// Every flow.
    pub fn iter(&self) -> impl Iterator<Item = (S::Key, Flow)> + '_ {
        self.groups.iter().map(|slot| {
            let slot = &self.slots[slot as usize];
            (slot.key(), slot.flow())
        })
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.sweep(self.groups.count(), |_| true);
    }
}
