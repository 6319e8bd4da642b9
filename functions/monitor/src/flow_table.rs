//! The heaviest flows of a stream, in bounded memory.
//!
//! The algorithm is SpaceSaving (Metwally, Agrawal and El Abbadi, "Efficient computation of frequent and
//! top-k elements in data streams", 2005) over a weight that counts bytes and packets alike,
//! [`PACKET_WEIGHT`] for each packet and 1 for each byte, so that one table answers for both. A flow that
//! comes to a full table takes the place of the lightest one.
//!
//! What holds at any time, and the property tests check:
//! - a flow's counts are what was seen of it since it came in; before that it weighed at most its `missed`;
//! - a flow that is not in the table weighs at most `floor`, which stays 0 until the first flow is replaced.
//!
//! Flows and places are divided into groups of [`GROUP`]. A flow's hash names its group, and in a full table it
//! takes the place of the lightest flow that lies in the group's places: the algorithm runs in each group by
//! itself, and what a flow can have weighed before is what its own group gave up. Until the table is full,
//! flows take the next free place of whatever group, so that nothing is given up early. The lightest of a
//! group is found among weights that were true once, side by side in two cache lines; weights only grow, so the
//! least is looked up until it tells the truth. Packets of known flows never touch them.

use crate::flow_id::{FlowHash, FlowId};
use crate::totals::sum;
use crate::tracks::{Origin, Track, Tracks};
use alloc::vec;
use alloc::vec::Vec;

/// What a packet weighs beside its bytes. Near the mean length of packets, so that neither measure drowns the
/// other.
pub(crate) const PACKET_WEIGHT: u64 = 512;
/// Places of a group, of which the last has the remaining ones too: so many that heavy flows seldom fill one.
const GROUP: usize = 16;

/// The part of an index slot that numbers an entry, from 1; the rest is the hash's upper half, which says where
/// the slot belongs, so that neither a search nor a removal looks at flows in vain.
const NUMBER: u64 = u32::MAX as u64;

/// A flow and its counts: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Flow {
    pub(crate) id: FlowId,
    /// Seen since it came in.
    pub(crate) packets: u64,
    /// Seen since it came in.
    pub(crate) bytes: u64,
    /// The most that it weighed before.
    pub(crate) missed: u64,
}

impl Flow {
    /// The most that it can weigh.
    #[inline(always)]
    pub(crate) fn weight(&self) -> u64 {
        sum(self.missed, sum(self.bytes, self.packets.saturating_mul(PACKET_WEIGHT)))
    }
}

#[derive(Debug)]
pub(crate) struct FlowTable {
    flows: Vec<Flow>,
    /// The way to each flow's packets, entry by entry: 0 in no tunnel.
    paths: Vec<u64>,
    capacity: usize,
    /// Open addressing with linear probing, at most half full. 0: empty.
    index: Vec<u64>,
    /// What each flow weighed once, entry by entry.
    weights: Vec<u64>,
    /// By group, the most that a flow of its weighed when it gave up its place.
    floors: Vec<u64>,
    hash: FlowHash,
    seed: u64,
    floor: u64,
    replaced: u64,
    /// What is to be exported of each flow, entry by entry; none when nothing is.
    tracks: Option<Tracks>,
}

impl FlowTable {
    /// An empty table; `capacity` is 1 to [`crate::config::MOST_FLOWS`].
    pub(crate) fn new(capacity: usize, seed: u64) -> FlowTable {
        FlowTable {
            tracks: None,
            flows: Vec::with_capacity(capacity),
            paths: Vec::with_capacity(capacity),
            capacity,
            index: vec![0; (2 * capacity).next_power_of_two()],
            weights: Vec::with_capacity(capacity),
            floors: vec![0; (capacity / GROUP).max(1)],
            hash: FlowHash::new(seed),
            seed,
            floor: 0,
            replaced: 0,
        }
    }

    /// Keeps track of what is to be exported; only an empty table can begin to.
    pub(crate) fn track(&mut self) {
        if self.flows.is_empty() {
            self.tracks = Some(Tracks::new(self.capacity));
        }
    }

    /// What is to be exported, and the flows that it is of.
    pub(crate) fn tracked(&mut self) -> Option<(&mut Tracks, &mut [Flow])> {
        self.tracks.as_mut().map(|tracks| (tracks, &mut self.flows[..]))
    }

    /// What is to be exported.
    pub(crate) fn tracks(&self) -> Option<&Tracks> {
        self.tracks.as_ref()
    }

    /// Takes another seed; only an empty table can.
    pub(crate) fn reseed(&mut self, seed: u64) {
        if self.flows.is_empty() {
            (self.seed, self.hash) = (seed, FlowHash::new(seed));
        }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn flows(&self) -> &[Flow] {
        &self.flows
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The most that a flow weighs which is not in the table.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Flows that gave their place to another.
    pub(crate) fn replaced(&self) -> u64 {
        self.replaced
    }

    #[inline(always)]
    pub(crate) fn hash(&self, id: &FlowId) -> u64 {
        self.hash.of(id)
    }

    /// Counts a packet of a flow whose hash was computed before.
    #[inline(always)]
    pub(crate) fn count(&mut self, id: &FlowId, hash: u64, bytes: u64) {
        match self.find(id, hash) {
            Some(flow) => {
                flow.packets += 1;
                flow.bytes += bytes;
            }
            None => {
                let flow = Flow { id: *id, packets: 1, bytes, missed: self.missed(hash) };
                self.insert(flow, 0, hash, Track::default());
            }
        }
    }

    /// The same, and keeps track of it: when the packet came and by what way, and how many of its bytes are
    /// neither IP's nor a plain Ethernet header's.
    #[inline(always)]
    pub(crate) fn count_tracked(&mut self, id: &FlowId, hash: u64, bytes: u64, ms: u64, origin: Origin) {
        match self.find_entry(id, hash) {
            Some(entry) => {
                let Some(flow) = self.flows.get_mut(entry) else { return };
                flow.packets += 1;
                flow.bytes += bytes;
                if flow.id.stamp(ms) | (origin.extra != 0)
                    && let Some(tracks) = &mut self.tracks
                {
                    tracks.note(entry, ms, origin);
                }
            }
            None => {
                let mut flow = Flow { id: *id, packets: 1, bytes, missed: self.missed(hash) };
                flow.id.stamp(ms);
                self.insert(flow, 0, hash, Track::begun(ms, origin));
            }
        }
    }

    /// Counts a packet of a flow in a tunnel; `track` when it was seen and how, with a collector.
    #[cold]
    pub(crate) fn count_inside(&mut self, id: &FlowId, path: u64, bytes: u64, track: Option<(u64, Origin)>) {
        let hash = self.hash.of_inside(id, path);
        let Some(entry) = self.find_inside(id, path, hash) else {
            let mut flow = Flow { id: *id, packets: 1, bytes, missed: self.missed(hash) };
            let track = track.map(|(ms, origin)| {
                flow.id.stamp(ms);
                Track::begun(ms, origin)
            });
            return self.insert(flow, path, hash, track.unwrap_or_default());
        };
        let Some(flow) = self.flows.get_mut(entry) else { return };
        flow.packets += 1;
        flow.bytes += bytes;
        if let Some((ms, origin)) = track {
            flow.id.stamp(ms);
            if let Some(tracks) = &mut self.tracks {
                tracks.note(entry, ms, origin);
            }
        }
    }

    /// The way to a flow's packets.
    pub(crate) fn path(&self, entry: usize) -> u64 {
        self.paths.get(entry).copied().unwrap_or(0)
    }

    fn hash_at(&self, entry: usize) -> u64 {
        self.flows.get(entry).map_or(0, |flow| self.hash_of(&flow.id, self.path(entry)))
    }

    fn hash_of(&self, id: &FlowId, path: u64) -> u64 {
        if id.is_inside() { self.hash.of_inside(id, path) } else { self.hash.of(id) }
    }

    fn find_inside(&self, id: &FlowId, path: u64, hash: u64) -> Option<usize> {
        self.search(hash, |entry, flow| flow.id.is(id) && self.path(entry) == path)
    }

    #[inline(always)]
    fn find(&mut self, id: &FlowId, hash: u64) -> Option<&mut Flow> {
        let entry = self.find_entry(id, hash)?;
        self.flows.get_mut(entry)
    }

    #[inline(always)]
    fn find_entry(&self, id: &FlowId, hash: u64) -> Option<usize> {
        self.search(hash, |_, flow| flow.id.is(id))
    }

    #[inline(always)]
    fn search(&self, hash: u64, is: impl Fn(usize, &Flow) -> bool) -> Option<usize> {
        let (mask, tag) = (self.index.len() - 1, hash & !NUMBER);
        let mut place = home(tag) & mask;
        loop {
            let slot = *self.index.get(place)?;
            if slot == 0 {
                return None;
            }
            if slot & !NUMBER == tag {
                let entry = number(slot);
                if self.flows.get(entry).is_some_and(|flow| is(entry, flow)) {
                    return Some(entry);
                }
            }
            place = (place + 1) & mask;
        }
    }

    /// Reads what a search of the flow will begin with, for no other purpose than to have it in the cache.
    #[inline(always)]
    pub(crate) fn touch_index(&self, hash: u64) -> u64 {
        self.index.get(home(hash) & (self.index.len() - 1)).copied().unwrap_or(0)
    }

    /// The same for what [`FlowTable::touch_index`] gave: the flow, or the weights among which one will be found
    /// that gives up its place.
    #[inline(always)]
    pub(crate) fn touch(&self, hash: u64, slot: u64) -> u64 {
        if slot & !NUMBER == hash & !NUMBER {
            self.flows.get(number(slot)).map_or(0, |flow| flow.packets)
        } else {
            self.weights.get(self.group(hash) * GROUP).copied().unwrap_or(0)
        }
    }

    /// The most that a flow weighed which is not in the table.
    fn missed(&self, hash: u64) -> u64 {
        self.floors.get(self.group(hash)).copied().unwrap_or(0)
    }

    /// The group of a flow.
    #[inline(always)]
    fn group(&self, hash: u64) -> usize {
        (((hash & NUMBER) * self.floors.len() as u64) >> 32) as usize
    }

    /// Takes a flow in that is not there yet.
    #[cold]
    #[inline(never)]
    fn insert(&mut self, flow: Flow, path: u64, hash: u64, track: Track) {
        let group = self.group(hash);
        if self.flows.len() < self.capacity {
            let entry = self.flows.len();
            self.flows.push(flow);
            self.paths.push(path);
            if let Some(tracks) = &mut self.tracks {
                tracks.push(track);
            }
            self.link(entry, hash);
            self.weights.push(flow.weight());
            return;
        }
        let Some(entry) = self.lightest(group) else { return };
        let leaving = self.flows[entry];
        let (weight, leaving_hash) = (leaving.weight(), self.hash_at(entry));
        let left = self.group(leaving_hash);
        self.floors[left] = weight.max(self.floors[left]);
        self.floor = self.floor.max(weight);
        self.replaced += 1;
        if let Some(tracks) = &mut self.tracks {
            tracks.replace(entry, &leaving, track);
        }
        self.unlink(entry, leaving_hash);
        // It may have been here before and weighed what the flow that leaves now weighs.
        let flow = Flow { missed: flow.missed.max(self.floors[group]), ..flow };
        self.flows[entry] = flow;
        self.paths[entry] = path;
        self.weights[entry] = flow.weight();
        self.link(entry, hash);
    }

    /// The entry of the lightest flow in the places of a group.
    fn lightest(&mut self, group: usize) -> Option<usize> {
        let first = group * GROUP;
        let end = if group + 1 == self.floors.len() { self.capacity } else { first + GROUP };
        let places = self.weights.get_mut(first..end)?;
        // After so many looks, all weights are true.
        for _ in 0..=2 * GROUP {
            let (place, weight) = places.iter().copied().enumerate().min_by_key(|(_, weight)| *weight)?;
            let now = self.flows.get(first + place)?.weight();
            if now == weight {
                return Some(first + place);
            }
            places[place] = now;
        }
        None
    }

    fn link(&mut self, entry: usize, hash: u64) {
        let mask = self.index.len() - 1;
        let mut place = home(hash) & mask;
        while self.index[place] != 0 {
            place = (place + 1) & mask;
        }
        self.index[place] = hash & !NUMBER | (entry as u64 + 1);
    }

    /// Takes an entry out of the index and moves those behind it up, so that no probe ends too early (Knuth,
    /// "The Art of Computer Programming", 6.4, algorithm R).
    fn unlink(&mut self, entry: usize, hash: u64) {
        let mask = self.index.len() - 1;
        let mut hole = home(hash) & mask;
        while number(self.index[hole]) != entry {
            hole = (hole + 1) & mask;
        }
        let mut place = hole;
        loop {
            place = (place + 1) & mask;
            let slot = self.index[place];
            if slot == 0 {
                break;
            }
            let home = home(slot) & mask;
            // Whether the hole lies between its home and its place, around the end of the index.
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(hole) & mask {
                self.index[hole] = slot;
                hole = place;
            }
        }
        self.index[hole] = 0;
    }

    /// Adds what another table saw, of other packets.
    pub(crate) fn merge(&mut self, flows: &[(Flow, u64)], floor: u64) {
        // Every flow here may have been there, unseen; those of which we know better are corrected below.
        if floor > 0 {
            for flow in &mut self.flows {
                flow.missed = sum(flow.missed, floor);
            }
        }
        self.floor = sum(self.floor, floor);
        for own in &mut self.floors {
            *own = sum(*own, floor);
        }
        for (theirs, path) in flows {
            let hash = self.hash_of(&theirs.id, *path);
            match self.search(hash, |entry, flow| flow.id.is(&theirs.id) && self.path(entry) == *path) {
                Some(entry) => {
                    let flow = &mut self.flows[entry];
                    flow.packets = sum(flow.packets, theirs.packets);
                    flow.bytes = sum(flow.bytes, theirs.bytes);
                    flow.missed = sum(flow.missed.saturating_sub(floor), theirs.missed);
                    if let Some(tracks) = &mut self.tracks {
                        tracks.leave_out(entry, theirs);
                    }
                }
                // A flow replaced in this very loop has raised its group's floor, which `insert` heeds.
                None => {
                    let own = self.floors[self.group(hash)].saturating_sub(floor);
                    let mut flow = Flow { missed: sum(theirs.missed, own), ..*theirs };
                    flow.id.rest();
                    self.insert(flow, *path, hash, Track::left_out(theirs));
                }
            }
        }
    }
}

/// Where in the index a hash, or a slot, belongs; to be cut to the index' length.
#[inline(always)]
fn home(hash: u64) -> usize {
    (hash >> 32) as usize
}

/// The entry that a used slot names.
#[inline(always)]
fn number(slot: u64) -> usize {
    ((slot & NUMBER) as usize).wrapping_sub(1)
}
