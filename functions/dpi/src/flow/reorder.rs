//! Copies of segments that came before what precedes them, or that their receiver may not have taken yet, by
//! their place in the stream.

use alloc::vec::Vec;
use nf_sdk::pieces::{Inserted, Overlap, PIECE_COST, Pieces};

/// All held segments.
#[derive(Debug)]
pub struct Reorder {
    list: Vec<Pieces>,
    free: Vec<u32>,
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
        Reorder { list: Vec::new(), free: Vec::new(), limits: (of_one, of_all), overlap, cost: 0, bytes: 0 }
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
        self.list.get((number as usize).checked_sub(1)?)
    }

    /// Changes what a direction holds, and accounts for it.
    fn change<T>(&mut self, number: u32, change: impl FnOnce(&mut Pieces) -> T) -> Option<T> {
        let held = self.list.get_mut((number as usize).checked_sub(1)?)?;
        let (cost, bytes) = (held.cost(), held.bytes());
        let result = change(held);
        self.cost = self.cost - cost + held.cost();
        self.bytes = self.bytes - bytes + held.bytes();
        Some(result)
    }

    /// Holds a copy. `number` is the direction's, counted from 1, and is set when it held nothing before;
    /// `next` is the byte that the stream waits for. `None` when there is no room, or it lies too far ahead.
    pub fn hold(&mut self, number: &mut u32, next: u64, segment: Segment<'_>) -> Option<Inserted> {
        let ahead = (segment.at + segment.data.len() as u64).saturating_sub(next);
        // What it overlaps may be cut in two.
        let most = segment.data.len() + 2 * PIECE_COST;
        let held = self.get(*number).map_or(0, Pieces::cost);
        let fits = ahead <= self.limits.0 as u64
            && held + most <= self.limits.0 + 2 * PIECE_COST
            && self.cost + most <= self.limits.1;
        if !fits {
            return None;
        }
        if *number == 0 {
            let free = self.free.pop().unwrap_or_else(|| {
                self.list.push(Pieces::new());
                self.list.len() as u32 - 1
            });
            *number = free + 1;
        }
        let overlap = self.overlap;
        self.change(*number, |held| held.insert(segment.at, segment.data, overlap, segment.is_doubtful))
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
