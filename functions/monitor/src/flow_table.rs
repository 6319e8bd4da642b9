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
//! The lightest flow is found by a heap of weights that were true once: weights only grow, so the root is
//! looked up and put back until it tells the truth. Packets of known flows never touch the heap. After
//! [`MOST_LOOKS`] looks the root has to go as it is, which keeps the cost of a packet bounded and costs
//! tightness of `floor`, never its truth; so that it does not come to that when the table is full at last,
//! each new flow before pays for [`LOOKS_AHEAD`].

use crate::flow_id::{FlowHash, FlowId};
use crate::totals::sum;
use crate::tracks::{Origin, Track, Tracks};
use alloc::vec;
use alloc::vec::Vec;

/// What a packet weighs beside its bytes. Near the mean length of packets, so that neither measure drowns the
/// other.
pub(crate) const PACKET_WEIGHT: u64 = 512;
/// Heap roots that are looked at for one replacement.
const MOST_LOOKS: usize = 32;
/// Heap roots that are looked at for each flow that comes while there is room.
const LOOKS_AHEAD: usize = 2;

/// Bits of an index slot that number an entry, from 1; the others are the hash's, so that few wrong entries
/// are visited.
const NUMBER_BITS: u32 = 20;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;

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

/// A flow that may be the lightest.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// What it weighed once.
    weight: u64,
    entry: u32,
}

#[derive(Debug)]
pub(crate) struct FlowTable {
    flows: Vec<Flow>,
    capacity: usize,
    /// Open addressing with linear probing, at most half full. 0: empty.
    index: Vec<u32>,
    heap: Vec<Candidate>,
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
            capacity,
            index: vec![0; (2 * capacity).next_power_of_two()],
            heap: Vec::with_capacity(capacity),
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
                let missed = self.floor;
                self.insert(Flow { id: *id, packets: 1, bytes, missed }, hash, Track::default());
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
                let mut flow = Flow { id: *id, packets: 1, bytes, missed: self.floor };
                flow.id.stamp(ms);
                self.insert(flow, hash, Track::begun(ms, origin));
            }
        }
    }

    #[inline(always)]
    fn find(&mut self, id: &FlowId, hash: u64) -> Option<&mut Flow> {
        let entry = self.find_entry(id, hash)?;
        self.flows.get_mut(entry)
    }

    #[inline(always)]
    fn find_entry(&self, id: &FlowId, hash: u64) -> Option<usize> {
        let (mask, tag) = (self.index.len() - 1, tag(hash));
        let mut place = hash as usize & mask;
        loop {
            let slot = *self.index.get(place)?;
            if slot == 0 {
                return None;
            }
            if slot & !NUMBER == tag {
                let entry = number(slot);
                if self.flows.get(entry).is_some_and(|flow| flow.id.is(id)) {
                    return Some(entry);
                }
            }
            place = (place + 1) & mask;
        }
    }

    /// Takes a flow in that is not there yet.
    #[cold]
    #[inline(never)]
    fn insert(&mut self, flow: Flow, hash: u64, track: Track) {
        if self.flows.len() < self.capacity {
            let entry = self.flows.len();
            self.flows.push(flow);
            if let Some(tracks) = &mut self.tracks {
                tracks.push(track);
            }
            self.link(entry, hash);
            self.heap.push(Candidate { weight: flow.weight(), entry: entry as u32 });
            self.sift_up(self.heap.len() - 1);
            self.lightest(LOOKS_AHEAD);
            return;
        }
        let Some(entry) = self.lightest(MOST_LOOKS) else { return };
        let leaving = self.flows[entry];
        self.floor = self.floor.max(leaving.weight());
        self.replaced += 1;
        if let Some(tracks) = &mut self.tracks {
            tracks.replace(entry, &leaving, track);
        }
        self.unlink(entry, self.hash.of(&leaving.id));
        // It may have been here before and weighed what the flow that leaves now weighs.
        let flow = Flow { missed: flow.missed.max(self.floor), ..flow };
        self.flows[entry] = flow;
        self.link(entry, hash);
        self.heap[0].weight = flow.weight();
        self.sift_down(0);
    }

    /// The entry at the heap's root, the lightest unless more roots had to be corrected than may be looked
    /// at.
    fn lightest(&mut self, looks: usize) -> Option<usize> {
        for _ in 0..looks {
            let Candidate { weight, entry } = *self.heap.first()?;
            let now = self.flows[entry as usize].weight();
            if now == weight {
                break;
            }
            self.heap[0].weight = now;
            self.sift_down(0);
        }
        self.heap.first().map(|root| root.entry as usize)
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent].weight <= self.heap[at].weight {
                return;
            }
            self.heap.swap(parent, at);
            at = parent;
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(mut child) = self.heap.get(left).map(|_| left) else { return };
            if self.heap.get(right).is_some_and(|other| other.weight < self.heap[left].weight) {
                child = right;
            }
            if self.heap[at].weight <= self.heap[child].weight {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }

    fn link(&mut self, entry: usize, hash: u64) {
        let mask = self.index.len() - 1;
        let mut place = hash as usize & mask;
        while self.index[place] != 0 {
            place = (place + 1) & mask;
        }
        self.index[place] = tag(hash) | (entry as u32 + 1);
    }

    /// Takes an entry out of the index and moves those behind it up, so that no probe ends too early (Knuth,
    /// "The Art of Computer Programming", 6.4, algorithm R).
    fn unlink(&mut self, entry: usize, hash: u64) {
        let mask = self.index.len() - 1;
        let mut hole = hash as usize & mask;
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
            let home = self.hash.of(&self.flows[number(slot)].id) as usize & mask;
            // Whether the hole lies between its home and its place, around the end of the index.
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(hole) & mask {
                self.index[hole] = slot;
                hole = place;
            }
        }
        self.index[hole] = 0;
    }

    /// Adds what another table saw, of other packets.
    pub(crate) fn merge(&mut self, flows: &[Flow], floor: u64) {
        // Every flow here may have been there, unseen; those of which we know better are corrected below.
        if floor > 0 {
            for flow in &mut self.flows {
                flow.missed = sum(flow.missed, floor);
            }
        }
        let own = self.floor;
        self.floor = sum(self.floor, floor);
        for theirs in flows {
            let hash = self.hash.of(&theirs.id);
            match self.find_entry(&theirs.id, hash) {
                Some(entry) => {
                    let flow = &mut self.flows[entry];
                    flow.packets = sum(flow.packets, theirs.packets);
                    flow.bytes = sum(flow.bytes, theirs.bytes);
                    flow.missed = sum(flow.missed.saturating_sub(floor), theirs.missed);
                    if let Some(tracks) = &mut self.tracks {
                        tracks.leave_out(entry, theirs);
                    }
                }
                // A flow replaced in this very loop has raised the floor, which `insert` heeds.
                None => {
                    let mut flow = Flow { missed: sum(theirs.missed, own), ..*theirs };
                    flow.id.rest();
                    self.insert(flow, hash, Track::left_out(theirs));
                }
            }
        }
    }
}

#[inline(always)]
fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32 & !NUMBER
}

/// The entry that a used slot names.
#[inline(always)]
fn number(slot: u32) -> usize {
    ((slot & NUMBER) as usize).wrapping_sub(1)
}
