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
//! Flows and places are divided into groups of [`GROUP`]. A flow's hash names its group, and in a full table
//! it takes the place of the lightest flow that lies in the group's places: the algorithm runs in each group
//! by itself, and what a flow can have weighed before is what its own group gave up. Until the table is full,
//! flows take the next free place of whatever group, so that nothing is given up early. The lightest of a
//! group is found among weights that were true once, side by side in a cache line; weights only grow, so the
//! least is looked up until it tells the truth. Packets of known flows never touch them. Beside them is where
//! each flow belongs in the index, so that what a flow touches that gives up its place is known before that
//! place is read.

use crate::flow_id::{FlowHash, FlowId};
use crate::totals::sum;
use crate::tracks::{Origin, Track, Tracks};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use wide::bytemuck::cast;
use wide::u32x4;

/// What a packet weighs beside its bytes. Near the mean length of packets, so that neither measure drowns the
/// other.
pub(crate) const PACKET_WEIGHT: u64 = 512;
/// Places of a group, of which the last has the remaining ones too: so many that heavy flows seldom fill one.
const GROUP: usize = 16;

/// The part of an index slot that numbers an entry, from 1; the rest is the hash's upper half, which says
/// where the slot belongs, so that neither a search nor a removal looks at flows in vain.
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

/// What is known of sixteen entries that lie side by side, two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Places {
    /// What each flow weighed once, [`HEAVY`] standing for that and more.
    weights: [u32; GROUP],
    /// The upper halves of the flows' hashes.
    homes: [u32; GROUP],
}

/// The most that a place tells of a weight.
const HEAVY: u32 = u32::MAX;

impl Places {
    /// The first of the lightest places, and what it weighs.
    #[inline(always)]
    fn lightest(&self) -> (usize, u32) {
        let [a, b, c, d]: [u32x4; 4] = cast(self.weights);
        let [e, f, g, h] = a.min(b).min(c.min(d)).to_array();
        let least = e.min(f).min(g.min(h));
        let wanted = u32x4::splat(least);
        let at = |four: u32x4| four.simd_eq(wanted).to_bitmask() & 15;
        let places = at(a) | at(b) << 4 | at(c) << 8 | at(d) << 12;
        (places.trailing_zeros() as usize, least)
    }
}

#[derive(Debug)]
pub(crate) struct FlowTable {
    flows: Vec<Flow>,
    /// The way to each flow's packets, entry by entry; says something only of flows in tunnels.
    paths: Vec<u64>,
    capacity: usize,
    /// Open addressing with linear probing, at most half full. 0: empty.
    index: Vec<u64>,
    /// Of each group, and of the remaining places of the last one.
    places: Box<[Places]>,
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
            places: vec![Places { weights: [HEAVY; GROUP], homes: [0; GROUP] }; capacity.div_ceil(GROUP)]
                .into_boxed_slice(),
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

    /// Counts a packet of a flow whose hash is known; `slot`: what [`FlowTable::touch`] gave, or 0.
    #[inline(always)]
    pub(crate) fn count(&mut self, id: &FlowId, hash: u64, slot: u64, bytes: u64) {
        match self.find_near(id, hash, slot).and_then(|entry| self.flows.get_mut(entry)) {
            Some(flow) => {
                flow.packets += 1;
                flow.bytes += bytes;
            }
            None => {
                let flow = Flow { id: *id, packets: 1, bytes, missed: self.missed(hash) };
                self.insert(&flow, 0, hash, Track::default);
            }
        }
    }

    /// The same, and keeps track of it: when the packet came and by what way, and how many of its bytes are
    /// neither IP's nor a plain Ethernet header's.
    #[inline(always)]
    pub(crate) fn count_tracked(
        &mut self,
        id: &FlowId,
        (hash, slot): (u64, u64),
        bytes: u64,
        ms: u64,
        origin: Origin,
    ) {
        match self.find_near(id, hash, slot) {
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
                self.insert(&flow, 0, hash, || Track::begun(ms, origin));
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
            return self.insert(&flow, path, hash, || track.unwrap_or_default());
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

    /// The way to a flow's packets: 0 in no tunnel.
    pub(crate) fn path(&self, entry: usize) -> u64 {
        let is_inside = self.flows.get(entry).is_some_and(|flow| flow.id.is_inside());
        if is_inside { self.paths.get(entry).copied().unwrap_or(0) } else { 0 }
    }

    #[inline(always)]
    fn hash_at(&self, entry: usize) -> u64 {
        match self.flows.get(entry) {
            Some(flow) if flow.id.is_inside() => self.hash.of_inside(&flow.id, self.path(entry)),
            Some(flow) => self.hash.of(&flow.id),
            None => 0,
        }
    }

    fn hash_of(&self, id: &FlowId, path: u64) -> u64 {
        if id.is_inside() { self.hash.of_inside(id, path) } else { self.hash.of(id) }
    }

    fn find_inside(&self, id: &FlowId, path: u64, hash: u64) -> Option<usize> {
        self.search(hash, |entry, flow| flow.id.is(id) && self.path(entry) == path)
    }

    /// The entry of a flow, where `slot` names it or by a search.
    #[inline(always)]
    fn find_near(&self, id: &FlowId, hash: u64, slot: u64) -> Option<usize> {
        let entry = number(slot);
        match self.flows.get(entry) {
            Some(flow) if flow.id.is(id) => Some(entry),
            _ => self.search(hash, |_, flow| flow.id.is(id)),
        }
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

    /// Every place is taken: a flow that comes takes that of another one.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.flows.len() >= self.capacity
    }

    /// Reads what a search of the flow will begin with, for no other purpose than to have it in the cache.
    #[inline(always)]
    pub(crate) fn touch_index(&self, hash: u64) -> u64 {
        self.index.get(home(hash) & (self.index.len() - 1)).copied().unwrap_or(0)
    }

    /// The same for what the index then says: the flow, if it seems to be there, or the places among which
    /// one will be found for it. The slot that seems to be the flow's, or 0; and something of what was read.
    #[inline(always)]
    pub(crate) fn touch(&self, hash: u64) -> (u64, u64) {
        let (mask, tag) = (self.index.len() - 1, hash & !NUMBER);
        let mut place = home(hash) & mask;
        loop {
            let slot = self.index.get(place).copied().unwrap_or(0);
            if slot == 0 {
                let places = self.places.get(self.group(hash));
                return (0, places.map_or(0, |places| u64::from(places.weights[0] ^ places.homes[0])));
            }
            if slot & !NUMBER == tag {
                return (slot, self.flows.get(number(slot)).map_or(0, |flow| flow.packets));
            }
            place = (place + 1) & mask;
        }
    }

    /// The same for the flow that will give up its place in a full table, and where it is in the index.
    #[inline(always)]
    pub(crate) fn touch_leaving(&self, hash: u64) -> u64 {
        let group = self.group(hash);
        let Some(places) = self.places.get(group) else { return 0 };
        let (place, _) = places.lightest();
        let flow = self.flows.get(group * GROUP + place).map_or(0, |flow| flow.packets);
        flow ^ self.touch_index(u64::from(places.homes[place & (GROUP - 1)]) << 32)
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
    #[inline(never)]
    fn insert(&mut self, flow: &Flow, path: u64, hash: u64, track: impl FnOnce() -> Track) {
        let group = self.group(hash);
        if self.flows.len() < self.capacity {
            let entry = self.flows.len();
            self.flows.push(*flow);
            self.paths.push(path);
            if let Some(tracks) = &mut self.tracks {
                tracks.push(track());
            }
            self.link(entry, hash);
            self.set_place(entry, flow, hash);
            return;
        }
        let Some(entry) = self.lightest(group) else { return };
        let leaving_hash = self.hash_at(entry);
        let Some(place) = self.flows.get_mut(entry) else { return };
        let weight = place.weight();
        if place.id.is_inside() | flow.id.is_inside()
            && let Some(own) = self.paths.get_mut(entry)
        {
            *own = path;
        }
        if let Some(tracks) = &mut self.tracks {
            tracks.replace(entry, place, track());
        }
        *place = *flow;
        let left = self.group(leaving_hash);
        self.floors[left] = weight.max(self.floors[left]);
        self.floor = self.floor.max(weight);
        self.replaced += 1;
        self.unlink(entry, leaving_hash);
        // It may have been here before and weighed what the flow that leaves now weighs.
        let floor = self.floors[group];
        let place = &mut self.flows[entry];
        place.missed = place.missed.max(floor);
        let flow = *place;
        self.set_place(entry, &flow, hash);
        self.link(entry, hash);
    }

    /// Notes what an entry's flow weighs, and where it belongs.
    #[inline(always)]
    fn set_place(&mut self, entry: usize, flow: &Flow, hash: u64) {
        if let Some(places) = self.places.get_mut(entry / GROUP) {
            places.weights[entry % GROUP] = brief(flow.weight());
            places.homes[entry % GROUP] = (hash >> 32) as u32;
        }
    }

    /// The entry of the lightest flow in the places of a group.
    #[inline(always)]
    fn lightest(&mut self, group: usize) -> Option<usize> {
        // After so many looks, all weights are true.
        for _ in 0..=2 * GROUP {
            let (entry, weight) = self.apparent(group)?;
            let now = brief(self.flows.get(entry)?.weight());
            if now == weight {
                return if weight == HEAVY { self.lightest_of_heavy(group) } else { Some(entry) };
            }
            self.places[entry / GROUP].weights[entry % GROUP] = now;
        }
        None
    }

    /// The entry that seems to be the lightest of a group, and what it weighed once.
    #[inline(always)]
    fn apparent(&self, group: usize) -> Option<(usize, u32)> {
        let (place, weight) = self.places.get(group)?.lightest();
        let mut lightest = (group * GROUP + place, weight);
        if group + 1 == self.floors.len()
            && let Some(rest) = self.places.get(group + 1)
        {
            let (place, weight) = rest.lightest();
            if weight < lightest.1 {
                lightest = ((group + 1) * GROUP + place, weight);
            }
        }
        Some(lightest)
    }

    /// The same where every flow weighs more than its place tells.
    #[cold]
    fn lightest_of_heavy(&self, group: usize) -> Option<usize> {
        let first = group * GROUP;
        let end = if group + 1 == self.floors.len() { self.capacity } else { first + GROUP };
        let flows = self.flows.get(first..end)?.iter().enumerate();
        flows.min_by_key(|(_, flow)| flow.weight()).map(|(place, _)| first + place)
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
                    self.insert(&flow, *path, hash, || Track::left_out(theirs));
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

/// What a place tells of a weight.
#[inline(always)]
fn brief(weight: u64) -> u32 {
    u32::try_from(weight).unwrap_or(HEAVY)
}
