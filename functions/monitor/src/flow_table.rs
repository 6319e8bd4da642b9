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
//! A flow's hash names its group ([`Groups`]), and in a full table it takes the place of the lightest flow of
//! the group: the algorithm runs in each group by itself, and what a flow can have weighed before is what its
//! own group gave up. Until the table is full nothing is given up: a flow whose group has no slot left goes
//! to another. When it is full, a group that has less than its share takes one from a group that has more,
//! so that soon all have as many flows to choose from.
//!
//! The lightest of a group is found among weights that were true once, side by side in a cache line; weights
//! only grow, so the least is looked up until it tells the truth. Packets of known flows never touch them.

use crate::flow_id::{FlowHash, FlowId};
use crate::totals::sum;
use crate::tracks::{Origin, Track, Tracks};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use nf_sdk::groups::{GROUP, Groups};
use wide::bytemuck::cast;
use wide::u32x4;

/// What a packet weighs beside its bytes. Near the mean length of packets, so that neither measure drowns the
/// other.
pub(crate) const PACKET_WEIGHT: u64 = 512;
/// The number of no entry.
pub(crate) const NONE: u32 = u32::MAX;

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

/// What is known of the flows in a group's slots, two cache lines that lie side by side.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
struct Slots {
    /// What each flow weighed once, [`HEAVY`] standing for that and more, and for none; the last is none.
    weights: [u32; LANES],
    /// The number of each.
    entries: [u32; GROUP],
    /// A bit for each whose first group is another.
    away: u32,
}

/// The slots of a group, in whole vectors.
const LANES: usize = GROUP + 1;
/// The most that a slot tells of a weight.
const HEAVY: u32 = u32::MAX;

impl Slots {
    const EMPTY: Slots = Slots { weights: [HEAVY; LANES], entries: [0; GROUP], away: 0 };

    /// The first of the lightest flows, and what it weighs.
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
    groups: Groups,
    /// By group.
    slots: Box<[Slots]>,
    /// Flows of a group in a full table, where all have the same.
    share: usize,
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
    /// An empty table; `capacity` is 1 to [`crate::config::MOST_FLOWS`]. `None` when there is no memory for
    /// it.
    pub(crate) fn new(capacity: usize, seed: u64) -> Option<FlowTable> {
        let groups = Groups::crowded(capacity)?;
        let count = groups.count();
        Some(FlowTable {
            tracks: None,
            flows: Vec::with_capacity(capacity),
            paths: Vec::with_capacity(capacity),
            capacity,
            groups,
            slots: vec![Slots::EMPTY; count].into_boxed_slice(),
            share: capacity / count,
            floors: vec![0; count],
            hash: FlowHash::new(seed),
            seed,
            floor: 0,
            replaced: 0,
        })
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

    /// Flows of a group in a full table, where all have the same.
    #[cfg(test)]
    pub(crate) fn share(&self) -> usize {
        self.share
    }

    /// Flows of the group that has fewest.
    #[cfg(test)]
    pub(crate) fn poorest(&self) -> usize {
        (0..self.groups.count()).map(|group| self.groups.held(group)).min().unwrap_or(0)
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

    /// Counts a packet of a flow whose hash is known; `likely`: what [`FlowTable::likely`] gave, or [`NONE`].
    #[inline(always)]
    pub(crate) fn count(&mut self, id: &FlowId, hash: u64, likely: u32, bytes: u64) {
        match self.find_near(id, hash, likely).and_then(|entry| self.flows.get_mut(entry)) {
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
        (hash, likely): (u64, u32),
        bytes: u64,
        ms: u64,
        origin: Origin,
    ) {
        match self.find_near(id, hash, likely) {
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

    /// The entry of a flow, the likely one or by a search.
    #[inline(always)]
    fn find_near(&self, id: &FlowId, hash: u64, likely: u32) -> Option<usize> {
        match self.flows.get(likely as usize) {
            Some(flow) if flow.id.is(id) => Some(likely as usize),
            _ => self.search(hash, |_, flow| flow.id.is(id)),
        }
    }

    #[inline(always)]
    fn search(&self, hash: u64, is: impl Fn(usize, &Flow) -> bool) -> Option<usize> {
        let slot = self.groups.find(hash, |slot| {
            let entry = self.entry(slot as usize);
            self.flows.get(entry).is_some_and(|flow| is(entry, flow))
        })?;
        Some(self.entry(slot as usize))
    }

    /// The entry of the flow in a slot.
    #[inline(always)]
    fn entry(&self, slot: usize) -> usize {
        self.slots.get(slot / GROUP).map_or(NONE, |slots| slots.entries[slot % GROUP]) as usize
    }

    /// Every place is taken: a flow that comes takes that of another one.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.flows.len() >= self.capacity
    }

    /// Reads what a search of the flow begins with, for no other purpose than to have it in the cache.
    #[inline(always)]
    pub(crate) fn touch_group(&self, hash: u64) -> u32 {
        self.slots.get(self.groups.home(hash)).map_or(0, |slots| slots.weights[0] ^ slots.entries[0])
    }

    /// What the group then says: the entry that seems to be the flow's, or [`NONE`], and the one whose flow
    /// is needed: the same, or that of the flow which will give up its place.
    #[inline(always)]
    pub(crate) fn likely(&self, hash: u64) -> (u32, u32) {
        if let Some(slot) = self.groups.candidate(hash) {
            let entry = self.entry(slot as usize) as u32;
            return (entry, entry);
        }
        let Some(slots) = self.slots.get(self.groups.home(hash)).filter(|_| self.is_full()) else {
            return (NONE, NONE);
        };
        let (lightest, _) = slots.lightest();
        (NONE, slots.entries.get(lightest).copied().unwrap_or(NONE))
    }

    /// Reads a flow, for no other purpose than to have it in the cache.
    #[inline(always)]
    pub(crate) fn touch(&self, entry: u32) -> u32 {
        self.flows.get(entry as usize).map_or(0, |flow| flow.packets as u32)
    }

    /// The most that a flow weighed which is not in the table.
    fn missed(&self, hash: u64) -> u64 {
        self.floors.get(self.groups.home(hash)).copied().unwrap_or(0)
    }

    /// Takes a flow in that is not there yet.
    #[inline(never)]
    fn insert(&mut self, flow: &Flow, path: u64, hash: u64, track: impl FnOnce() -> Track) {
        if !self.is_full()
            && let Some(slot) = self.groups.take(hash)
        {
            let entry = self.flows.len();
            self.flows.push(*flow);
            self.paths.push(path);
            if let Some(tracks) = &mut self.tracks {
                tracks.push(track());
            }
            return self.set_slot(slot, hash, entry, flow.weight());
        }
        let (home, giving) = (self.groups.home(hash), self.giving(hash));
        let Some((slot, entry)) = self.lightest(giving) else { return };
        // Of flows with the same first group, which most are, one takes the other's slot as it is.
        let in_place = giving == home && !self.is_away(slot);
        let leaving_hash = if in_place { hash } else { self.hash_at(entry) };
        let Some(place) = self.flows.get_mut(entry) else { return };
        let weight = place.weight();
        if flow.id.is_inside()
            && let Some(own) = self.paths.get_mut(entry)
        {
            *own = path;
        }
        if let Some(tracks) = &mut self.tracks {
            tracks.replace(entry, place, track());
        }
        *place = *flow;
        let left = self.groups.home(leaving_hash);
        self.floors[left] = weight.max(self.floors[left]);
        self.floor = self.floor.max(weight);
        self.replaced += 1;
        // It may have been here before and weighed what the flow that leaves now weighs.
        let floor = self.floors[home];
        let place = &mut self.flows[entry];
        place.missed = place.missed.max(floor);
        let weight = place.weight();
        if in_place {
            self.groups.replace(slot, hash);
            self.slots[home].weights[slot % GROUP] = brief(weight);
        } else {
            self.move_slot(slot, leaving_hash, hash, entry, weight);
        }
    }

    /// Gives one flow's slot back, and takes one for the flow that has its entry now.
    #[cold]
    fn move_slot(&mut self, slot: usize, leaving_hash: u64, hash: u64, entry: usize, weight: u64) {
        self.groups.give_back(slot, leaving_hash);
        self.slots[slot / GROUP].weights[slot % GROUP] = HEAVY;
        // There is one: the slot that was given back, or the group had less than its share.
        if let Some(slot) = self.groups.take(hash) {
            self.set_slot(slot, hash, entry, weight);
        }
    }

    /// Notes the flow in a slot, and what it weighs.
    #[inline(always)]
    fn set_slot(&mut self, slot: usize, hash: u64, entry: usize, weight: u64) {
        let (group, place) = (slot / GROUP, slot % GROUP);
        let away = u32::from(group != self.groups.home(hash));
        let slots = &mut self.slots[group];
        (slots.weights[place], slots.entries[place]) = (brief(weight), entry as u32);
        slots.away = slots.away & !(1 << place) | away << place;
    }

    /// Whether the flow in a slot has another first group.
    #[inline(always)]
    fn is_away(&self, slot: usize) -> bool {
        self.slots.get(slot / GROUP).is_some_and(|slots| slots.away >> (slot % GROUP) & 1 != 0)
    }

    /// The group whose lightest flow gives up its place to one that comes.
    #[inline(always)]
    fn giving(&self, hash: u64) -> usize {
        let home = self.groups.home(hash);
        if self.groups.held(home) >= self.share.max(1) { home } else { self.giving_instead(home, hash) }
    }

    /// The same where its own group has less than its share.
    #[cold]
    fn giving_instead(&self, home: usize, hash: u64) -> usize {
        let has_more = |than: usize| move |group: &usize| self.groups.held(*group) > than;
        let rich = self.groups.path(hash).find(has_more(self.share));
        rich.or_else(|| core::iter::once(home).chain(0..self.groups.count()).find(has_more(0)))
            .unwrap_or(home)
    }

    /// The slot and the entry of the lightest flow of a group.
    #[inline(always)]
    fn lightest(&mut self, group: usize) -> Option<(usize, usize)> {
        // After so many looks, all weights are true.
        for _ in 0..=GROUP {
            let slots = self.slots.get_mut(group)?;
            let (place, weight) = slots.lightest();
            if weight == HEAVY {
                return self.lightest_of_heavy(group);
            }
            let entry = slots.entries[place % GROUP] as usize;
            let now = brief(self.flows.get(entry)?.weight());
            if now == weight {
                return Some((group * GROUP + place, entry));
            }
            slots.weights[place % LANES] = now;
        }
        None
    }

    /// The same where every flow weighs more than its slot tells.
    #[cold]
    fn lightest_of_heavy(&self, group: usize) -> Option<(usize, usize)> {
        let taken = self.groups.taken(group).map(|slot| (slot as usize, self.entry(slot as usize)));
        taken.min_by_key(|(_, entry)| self.flows.get(*entry).map_or(u64::MAX, Flow::weight))
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
                    let own = self.floors[self.groups.home(hash)].saturating_sub(floor);
                    let mut flow = Flow { missed: sum(theirs.missed, own), ..*theirs };
                    flow.id.rest();
                    self.insert(&flow, *path, hash, || Track::left_out(theirs));
                }
            }
        }
    }
}

/// What a slot tells of a weight.
#[inline(always)]
fn brief(weight: u64) -> u32 {
    u32::try_from(weight).unwrap_or(HEAVY)
}
