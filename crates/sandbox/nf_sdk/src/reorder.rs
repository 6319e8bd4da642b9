//! Streams put in order: copies of segments that came before what precedes them, or that their receiver may
//! not have taken yet, by their place in the stream. Memory is bounded, and shared out among clients.
//!
//! 1. A direction of a connection has a number, 0 while nothing of it is held, and a place: how many of its
//!    bytes were seen. The function keeps both, beside what else it knows of the connection.
//! 2. [`Reorder::hold`] keeps a segment. Where it overlaps another one, the receiver's choice decides
//!    ([`Overlap`]).
//! 3. [`Reorder::due`] gives what the stream has come to.
//! 4. When memory is scarce or nothing more comes, [`Reorder::victim`] names a direction that gives up what
//!    it holds: [`Reorder::runs`] has it as it is. [`Reorder::give_back`] is for that and for the end of the
//!    connection.
//!
//! Limits: as many bytes as were asked for; of the last quarter a client gets nothing that has a quarter.
//!
//! ```
//! use nf_sdk::Nanos;
//! use nf_sdk::pieces::Overlap;
//! use nf_sdk::reorder::{Holder, Reorder, Segment};
//!
//! /// One direction of a connection.
//! #[derive(Default)]
//! struct Stream {
//!     seen: u64,
//!     held: u32,
//! }
//!
//! /// The bytes that are next, of this segment and of those that waited for it.
//! fn take(reorder: &mut Reorder, stream: &mut Stream, at: u64, data: &[u8], now: Nanos) -> Vec<u8> {
//!     let (mut next, holder) = (Vec::new(), Holder { flow: 7, side: 0, source: 42, last: now });
//!     let segment = Segment { at, data, is_doubtful: false };
//!     // Where there is no room for it, it will come again.
//!     reorder.hold(&mut stream.held, stream.seen, segment, holder);
//!     while let Some((start, bytes)) = reorder.due(stream.held, stream.seen, u64::MAX) {
//!         let new = bytes.get((stream.seen - start) as usize..).unwrap_or_default();
//!         next.extend_from_slice(new);
//!         stream.seen += new.len() as u64;
//!     }
//!     reorder.tidy(&mut stream.held);
//!     next
//! }
//!
//! // Room for 64 KiB ahead of a stream, and 1 MiB in all.
//! let mut reorder = Reorder::new(1 << 16, 1 << 20, Overlap::Longer);
//! let mut stream = Stream::default();
//! assert_eq!(take(&mut reorder, &mut stream, 3, b"def", Nanos(1)), b"");
//! assert_eq!(take(&mut reorder, &mut stream, 0, b"abc", Nanos(2)), b"abcdef");
//! assert_eq!(take(&mut reorder, &mut stream, 4, b"efgh", Nanos(3)), b"gh");
//! assert_eq!(reorder.cost(), 0);
//! ```

use crate::Nanos;
use crate::pieces::{Inserted, Overlap, PIECE_COST, Pieces};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// What a client may have of the memory when less than that is left, and when directions begin to give up
/// what they hold: a fraction of it.
const PART: usize = 4;
const SCARCE: usize = 16;
/// Directions that are looked at for one that gives up what it holds.
const CANDIDATES: usize = 16;
/// What is held so long without more of it will not be waited for.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// A direction of a flow, the number of its client, and the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Number of the flow.
    pub flow: u32,
    /// Its side.
    pub side: usize,
    /// Clients whose addresses have this number share a part of the memory.
    pub source: u8,
    /// When a segment came that is held.
    pub last: Nanos,
}

#[derive(Debug)]
struct Held {
    pieces: Pieces,
    holder: Holder,
}

/// All held segments.
#[derive(Debug)]
pub struct Reorder {
    list: Vec<Held>,
    free: Vec<u32>,
    /// Bytes by the clients' numbers.
    used: Box<[usize]>,
    hand: usize,
    /// Most bytes of one direction, and of all, [`PIECE_COST`] for each piece included.
    limits: (usize, usize),
    overlap: Overlap,
    cost: usize,
    bytes: usize,
}

/// Bytes that belong at a place of their stream.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Number of the first byte.
    pub at: u64,
    /// The bytes.
    pub data: &'a [u8],
    /// The receiver may not take it: it counts where nothing else is, once it is acknowledged.
    pub is_doubtful: bool,
}

impl Reorder {
    /// Room for so many bytes of one direction, and of all.
    pub fn new(of_one: usize, of_all: usize, overlap: Overlap) -> Reorder {
        Reorder {
            list: Vec::new(),
            free: Vec::new(),
            used: vec![0; 256].into_boxed_slice(),
            hand: 0,
            limits: (of_one, of_all),
            overlap,
            cost: 0,
            bytes: 0,
        }
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What they take, [`PIECE_COST`] for each piece included.
    pub fn cost(&self) -> usize {
        self.cost
    }

    fn get(&self, number: u32) -> Option<&Pieces> {
        self.list.get((number as usize).checked_sub(1)?).map(|held| &held.pieces)
    }

    /// Changes what a direction holds, and accounts for it.
    fn change<T>(&mut self, number: u32, change: impl FnOnce(&mut Pieces) -> T) -> Option<T> {
        let Held { pieces, holder } = self.list.get_mut((number as usize).checked_sub(1)?)?;
        let (cost, bytes) = (pieces.cost(), pieces.bytes());
        let result = change(pieces);
        self.cost = self.cost - cost + pieces.cost();
        self.bytes = self.bytes - bytes + pieces.bytes();
        let used = &mut self.used[usize::from(holder.source)];
        *used = *used - cost + pieces.cost();
        Some(result)
    }

    /// Holds a copy. `number` is the direction's, counted from 1, and is set when it held nothing before;
    /// `next` is the byte that the stream waits for. `None` when there is no room, or it lies too far ahead.
    pub fn hold(
        &mut self,
        number: &mut u32,
        next: u64,
        segment: Segment<'_>,
        holder: Holder,
    ) -> Option<Inserted> {
        let ahead = (segment.at + segment.data.len() as u64).saturating_sub(next);
        // What it overlaps may be cut in two.
        let most = segment.data.len() + 2 * PIECE_COST;
        let held = self.get(*number).map_or(0, Pieces::cost);
        let fits = ahead <= self.limits.0 as u64
            && held + most <= self.limits.0 + 2 * PIECE_COST
            && self.cost + most <= self.limits.1;
        if !fits
            || self.is_scarce(PART) && self.used[usize::from(holder.source)] + most > self.limits.1 / PART
        {
            return None;
        }
        if *number == 0 {
            let free = self.free.pop().unwrap_or_else(|| {
                self.list.push(Held { pieces: Pieces::new(), holder });
                self.list.len() as u32 - 1
            });
            *number = free + 1;
        }
        if let Some(held) = self.list.get_mut(*number as usize - 1) {
            held.holder = holder;
        }
        let overlap = self.overlap;
        self.change(*number, |held| held.insert(segment.at, segment.data, overlap, segment.is_doubtful))
    }

    /// Less than this fraction of the memory is left.
    fn is_scarce(&self, part: usize) -> bool {
        self.limits.1 - self.cost.min(self.limits.1) < self.limits.1 / part
    }

    /// Of a few directions the one that is to give up what it holds: one for which nothing came for long; or,
    /// where memory is scarce, one whose client has more than its part, or the one for which nothing came the
    /// longest.
    pub fn victim(&mut self, now: Nanos) -> Option<(u32, Holder)> {
        let count = self.list.len();
        if self.cost == 0 || count == 0 {
            return None;
        }
        let hand = self.hand;
        self.hand = (hand + CANDIDATES) % count;
        let is_scarce = self.is_scarce(SCARCE);
        let candidates = (0..CANDIDATES.min(count)).map(|step| (hand + step) % count);
        let candidates = candidates.map(|place| (place as u32 + 1, &self.list[place]));
        let holders = candidates.filter(|(_, held)| {
            !held.pieces.is_empty() && (is_scarce || now.since(held.holder.last) > PATIENCE)
        });
        let rank = |(_, held): &(u32, &Held)| {
            (self.used[usize::from(held.holder.source)] <= self.limits.1 / PART, held.holder.last)
        };
        holders.min_by_key(rank).map(|(number, held)| (number, held.holder))
    }

    /// Segments are held in most of the memory.
    pub fn is_short(&self) -> bool {
        self.is_scarce(SCARCE)
    }

    /// Where the first held segment begins.
    pub fn first(&self, number: u32) -> Option<u64> {
        self.get(number)?.first()
    }

    /// The first held segment that begins at `next` or before, where it begins. Of one that its receiver may
    /// not have taken, what lies before `acknowledged`.
    pub fn due(&mut self, number: u32, next: u64, acknowledged: u64) -> Option<(u64, Vec<u8>)> {
        self.change(number, |held| held.take(next, acknowledged))?
    }

    /// Copies of what is held, each without a gap: where it begins, and its bytes.
    pub fn runs(&self, number: u32) -> Vec<(u64, Vec<u8>)> {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (at, data) in self.get(number).into_iter().flat_map(Pieces::iter) {
            match runs.last_mut() {
                Some((start, run)) if *start + run.len() as u64 == at => run.extend_from_slice(data),
                _ => runs.push((at, data.to_vec())),
            }
        }
        runs
    }

    /// Gives a direction's place back with what it holds; how many segments that were.
    pub fn give_back(&mut self, number: &mut u32) -> usize {
        let lost = self.change(*number, |held| {
            let count = held.len();
            held.clear();
            count
        });
        if let Some(place) = number.checked_sub(1) {
            self.free.push(place);
        }
        *number = 0;
        lost.unwrap_or(0)
    }

    /// Gives the place back when nothing is held there.
    pub fn tidy(&mut self, number: &mut u32) {
        if self.get(*number).is_some_and(Pieces::is_empty) {
            self.give_back(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is held for whomever, what it takes has its bound, is what there is, and comes back.
        #[test]
        fn memory_is_bounded_and_accounted_for(
            steps in prop::collection::vec((0usize..6, 0u64..300, 1usize..200, any::<bool>()), 1..200),
        ) {
            const OF_ONE: usize = 1000;
            const OF_ALL: usize = 2000;
            let mut reorder = Reorder::new(OF_ONE, OF_ALL, Overlap::First);
            let mut numbers = [0; 6];
            for (time, (flow, at, length, gives_up)) in steps.into_iter().enumerate() {
                let last = Nanos(time as u64);
                let holder = Holder { flow: flow as u32, side: 0, source: flow as u8 % 2, last };
                let segment = Segment { at, data: &vec![7; length], is_doubtful: false };
                reorder.hold(&mut numbers[flow], 0, segment, holder);
                reorder.tidy(&mut numbers[flow]);
                if gives_up && let Some((number, holder)) = reorder.victim(last.saturating_add(PATIENCE)) {
                    let place = &mut numbers[holder.flow as usize];
                    prop_assert_eq!(*place, number);
                    prop_assert!(reorder.give_back(place) > 0 && *place == 0);
                }
                let runs = numbers.iter().flat_map(|number| reorder.runs(*number));
                prop_assert_eq!(runs.map(|(_, run)| run.len()).sum::<usize>(), reorder.bytes());
                prop_assert!(reorder.bytes() <= reorder.cost() && reorder.cost() <= OF_ALL);
            }
            for number in &mut numbers {
                reorder.give_back(number);
            }
            prop_assert_eq!((reorder.cost(), reorder.bytes()), (0, 0));
            prop_assert!(reorder.used.iter().all(|used| *used == 0));
        }
    }

    /// One client fills what it may have, and another one still finds room.
    #[test]
    fn a_client_leaves_room_for_others() {
        let mut reorder = Reorder::new(1 << 16, 1 << 14, Overlap::First);
        let data = [7; 100];
        let mut hold = |number: &mut u32, flow, source| {
            let holder = Holder { flow, side: 0, source, last: Nanos(1) };
            let at = u64::from(flow) * 200;
            reorder.hold(number, 0, Segment { at, data: &data, is_doubtful: false }, holder).is_some()
        };
        let mut greedy = [0; 200];
        let held = greedy
            .iter_mut()
            .enumerate()
            .filter_map(|(flow, number)| hold(number, flow as u32, 1).then_some(()));
        assert!((60..90).contains(&held.count()));
        let mut other = 0;
        assert!(hold(&mut other, 1, 2), "of another client");
    }
}
