//! Flows by key: the SDK's [`Index`] finds their numbers, and they lie in one list. A full table gives up the
//! flow near the new one's place that was idle the longest of those on which both ends have not agreed, and
//! only then one of the others: a flood pushes itself out.

use super::{Flow, Key};
use alloc::vec::Vec;
use nf_sdk::Nanos;
use nf_sdk::index::Index;
use nf_sdk::keyed_hash::KeyedHash;

/// How many groups of the index are looked through for a flow that makes room and is not agreed on.
const VICTIM_GROUPS: usize = 4;

/// Most flows that a table can have.
pub const MAX_FLOWS: usize = 1_000_000;

/// A table of at most `limit` flows.
pub struct FlowTable {
    /// Numbers of flows, counted from 1.
    index: Index,
    /// With room for all: pages are taken when they are touched.
    flows: Vec<Flow>,
    free: Vec<u32>,
    count: usize,
    limit: usize,
    hash: KeyedHash<6>,
    sweep: usize,
}

impl FlowTable {
    /// An empty table; `None` when there is no memory for its index. `seed`: its secret.
    pub fn new(limit: usize, seed: u64) -> Option<FlowTable> {
        let limit = limit.clamp(1, MAX_FLOWS);
        let mut flows = Vec::new();
        flows.try_reserve_exact(limit).ok()?;
        Some(FlowTable {
            index: Index::new(limit)?,
            flows,
            free: Vec::new(),
            count: 0,
            limit,
            hash: KeyedHash::new(seed),
            sweep: 0,
        })
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
        let has_key = |number: u32| self.flows.get(number as usize - 1).is_some_and(|flow| flow.key == *key);
        self.index.find(hash, has_key).map(|number| number - 1)
    }

    /// Puts in a flow whose key is not there; its number, and the flow that had to make room.
    pub fn insert(&mut self, flow: Flow, hash: u64) -> (u32, Option<Flow>) {
        let mut evicted = if self.count >= self.limit { self.evict(hash) } else { None };
        let number = self.free.pop().unwrap_or_else(|| {
            self.flows.push(Flow::default());
            self.flows.len() as u32 - 1
        });
        *self.get_mut(number) = flow;
        if !self.index.insert(hash, number + 1) {
            // All groups that it may be in are full, though the table is not: one of theirs makes room.
            evicted = self.evict(hash);
            self.index.insert(hash, number + 1);
        }
        self.count += 1;
        (number, evicted)
    }

    /// The flow of a group that can make room best: whether both ends have agreed on it, when its last packet
    /// came, and its number.
    fn victim(&self, group: usize) -> Option<(bool, Nanos, u32)> {
        let ranked = self.index.entries(group).map(|number| {
            let flow = self.get(number - 1);
            (flow.is_agreed(), flow.last, number - 1)
        });
        ranked.min()
    }

    /// Takes out a flow of the groups that a hash leads to first: one that is not agreed on, else of the
    /// first of them that has any; else of any other group.
    fn evict(&mut self, hash: u64) -> Option<Flow> {
        let mut best: Option<(bool, Nanos, u32)> = None;
        for group in self.index.path(hash).take(VICTIM_GROUPS) {
            let Some(victim) = self.victim(group) else { continue };
            if best.is_none_or(|(is_agreed, ..)| is_agreed && !victim.0) {
                best = Some(victim);
            }
            if !victim.0 {
                break;
            }
        }
        let (.., number) = best.or_else(|| (0..self.index.groups()).find_map(|group| self.victim(group)))?;
        Some(self.take(number))
    }

    fn take(&mut self, number: u32) -> Flow {
        let flow = core::mem::take(self.get_mut(number));
        self.index.remove(self.hash.of(&flow.key), number + 1);
        self.count -= 1;
        self.free.push(number);
        flow
    }

    /// Takes out what `has_ended` names in the next `groups` groups, and hands it to `ended`.
    pub fn sweep(&mut self, groups: usize, has_ended: impl Fn(&Flow) -> bool, mut ended: impl FnMut(Flow)) {
        for _ in 0..groups.min(self.index.groups()) {
            let group = self.sweep;
            self.sweep = if group + 1 == self.index.groups() { 0 } else { group + 1 };
            loop {
                let over = self.index.entries(group).find(|number| has_ended(self.get(number - 1)));
                let Some(number) = over else { break };
                ended(self.take(number - 1));
            }
        }
    }

    /// Groups in the index.
    pub fn groups(&self) -> usize {
        self.index.groups()
    }

    /// Every flow.
    pub fn iter(&self) -> impl Iterator<Item = &Flow> + '_ {
        (0..self.index.groups())
            .flat_map(|group| self.index.entries(group))
            .map(|number| self.get(number - 1))
    }

    /// Changes every flow.
    pub fn for_each(&mut self, change: impl Fn(&mut Flow)) {
        let FlowTable { index, flows, .. } = self;
        for number in (0..index.groups()).flat_map(|group| index.entries(group)) {
            change(&mut flows[number as usize - 1]);
        }
    }

    /// Whether the flow's time has come.
    pub fn is_over(flow: &Flow, now: Nanos, timeout: Nanos) -> bool {
        now.since(flow.last) > timeout
    }
}
