//! Flows by key. The index is made of sets of sixteen numbers with a few bits of the key's hash each, a cache
//! line; a key belongs in one set, so that a lookup costs a line whatever comes. A full set gives up the flow
//! that was idle the longest of those on which both ends have not agreed, and only then one of the others: a
//! flood pushes itself out.

use super::{Flow, Key};
use alloc::boxed::Box;
use alloc::vec::Vec;
use nf_sdk::keyed_hash::KeyedHash;
use nf_sdk::{Line, Nanos, zeroed_table};
use wide::bytemuck::cast;
use wide::u32x4;

/// Bits of an index entry that number a flow, counted from 1; the others are of the hash.
const NUMBER_BITS: u32 = 20;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;

/// How many sets are looked through for a flow that makes room and is not agreed on.
const VICTIM_SETS: usize = 4;

/// Most flows that a table can have.
pub const MAX_FLOWS: usize = 1_000_000;

/// A table of at most `limit` flows.
pub struct FlowTable {
    sets: Box<[Line]>,
    /// With room for all: pages are taken when they are touched.
    flows: Vec<Flow>,
    free: Vec<u32>,
    count: usize,
    limit: usize,
    hash: KeyedHash<6>,
    sweep: usize,
}

impl FlowTable {
    /// An empty table; `None` when there is no memory for its index.
    pub fn new(limit: usize) -> Option<FlowTable> {
        let limit = limit.clamp(1, MAX_FLOWS);
        // Half full at most.
        let sets = (limit.div_ceil(8)).next_power_of_two();
        let mut flows = Vec::new();
        flows.try_reserve_exact(limit).ok()?;
        Some(FlowTable {
            sets: zeroed_table(sets)?,
            flows,
            free: Vec::new(),
            count: 0,
            limit,
            hash: KeyedHash::new(0),
            sweep: 0,
        })
    }

    /// Sets the secret; only while the table is empty.
    pub fn set_seed(&mut self, seed: u64) {
        if self.count == 0 {
            self.hash = KeyedHash::new(seed);
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

    /// The key's hash.
    #[inline]
    pub fn hash(&self, key: &Key) -> u64 {
        self.hash.of(key)
    }

    #[inline]
    fn set_of(&self, hash: u64) -> usize {
        hash as usize & (self.sets.len() - 1)
    }

    #[inline]
    fn tag(hash: u64) -> u32 {
        (hash >> 32) as u32 & !NUMBER
    }

    /// A flow.
    #[inline]
    pub fn get(&self, number: u32) -> &Flow {
        &self.flows[number as usize]
    }

    /// A flow.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut Flow {
        &mut self.flows[number as usize]
    }

    /// The number of the flow with this key.
    #[inline]
    pub fn find(&self, key: &Key, hash: u64) -> Option<u32> {
        let tag = FlowTable::tag(hash);
        let set = &self.sets[self.set_of(hash)].0;
        let (tags, wanted) = (u32x4::splat(!NUMBER), u32x4::splat(tag));
        let quarters: [u32x4; 4] = cast(*set);
        let agreeing = |four: u32x4| (four & tags).simd_eq(wanted).to_bitmask() & 15;
        let [a, b, c, d] = quarters.map(agreeing);
        let mut places = a | b << 4 | c << 8 | d << 12;
        while places != 0 {
            // A free entry agrees with a tag of zeros.
            let number = (set[places.trailing_zeros() as usize & 15] & NUMBER).wrapping_sub(1);
            if self.flows.get(number as usize).is_some_and(|flow| flow.key == *key) {
                return Some(number);
            }
            places &= places - 1;
        }
        None
    }

    /// Puts in a flow whose key is not there; its number, and the flow that had to make room.
    pub fn insert(&mut self, flow: Flow, hash: u64) -> (u32, Option<Flow>) {
        let mut evicted = None;
        let set = self.set_of(hash);
        let is_set_full = self.sets[set].0.iter().all(|entry| *entry != 0);
        if is_set_full || self.count >= self.limit {
            evicted = self.evict(set, !is_set_full);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.flows.push(Flow::default());
            self.flows.len() as u32 - 1
        });
        *self.get_mut(number) = flow;
        if let Some(entry) = self.sets[set].0.iter_mut().find(|entry| **entry == 0) {
            *entry = FlowTable::tag(hash) | (number + 1);
            self.count += 1;
        }
        (number, evicted)
    }

    /// The flow of a set that can make room best: whether both ends have agreed on it, when its last packet
    /// came, and its place.
    fn victim(&self, set: usize) -> Option<(bool, Nanos, usize)> {
        let taken = self.sets[set].0.iter().enumerate().filter(|(_, entry)| **entry != 0);
        let ranked = taken.map(|(slot, entry)| {
            let flow = self.get((entry & NUMBER) - 1);
            (flow.is_agreed(), flow.last, slot)
        });
        ranked.min()
    }

    /// Takes a flow out of this set. `is_anywhere`: or out of the next one that has any, or one that is not
    /// agreed on.
    fn evict(&mut self, set: usize, is_anywhere: bool) -> Option<Flow> {
        let sets = self.sets.len();
        let near = |step: usize| (set + step) & (sets - 1);
        let searched = if is_anywhere { VICTIM_SETS.min(sets) } else { 1 };
        let mut best: Option<(bool, usize, usize)> = None;
        for set in (0..searched).map(near) {
            if let Some((is_agreed, _, slot)) = self.victim(set)
                && best.is_none_or(|(other, ..)| other && !is_agreed)
            {
                best = Some((is_agreed, set, slot));
                if !is_agreed {
                    break;
                }
            }
        }
        let (_, set, slot) = best.or_else(|| {
            (searched..sets).map(near).find_map(|set| self.victim(set).map(|(.., slot)| (true, set, slot)))
        })?;
        Some(self.take(set, slot))
    }

    fn take(&mut self, set: usize, slot: usize) -> Flow {
        let number = (core::mem::take(&mut self.sets[set].0[slot]) & NUMBER) - 1;
        self.count -= 1;
        self.free.push(number);
        core::mem::take(self.get_mut(number))
    }

    /// Takes out what `has_ended` names in the next `sets` sets, and hands it to `ended`.
    pub fn sweep(&mut self, sets: usize, has_ended: impl Fn(&Flow) -> bool, mut ended: impl FnMut(Flow)) {
        for _ in 0..sets.min(self.sets.len()) {
            let set = self.sweep;
            self.sweep = (set + 1) & (self.sets.len() - 1);
            for slot in 0..self.sets[set].0.len() {
                let entry = self.sets[set].0[slot];
                if entry != 0 && has_ended(self.get((entry & NUMBER) - 1)) {
                    ended(self.take(set, slot));
                }
            }
        }
    }

    /// Sets in the index.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Every flow.
    pub fn iter(&self) -> impl Iterator<Item = &Flow> + '_ {
        let entries = self.sets.iter().flat_map(|set| set.0.iter()).filter(|entry| **entry != 0);
        entries.map(|entry| self.get((entry & NUMBER) - 1))
    }

    /// Changes every flow.
    pub fn for_each(&mut self, change: impl Fn(&mut Flow)) {
        for entry in self.sets.iter().flat_map(|set| set.0).filter(|entry| *entry != 0) {
            change(&mut self.flows[(entry & NUMBER) as usize - 1]);
        }
    }

    /// Whether the flow's time has come.
    pub fn is_over(flow: &Flow, now: Nanos, timeout: Nanos) -> bool {
        now.since(flow.last) > timeout
    }
}
