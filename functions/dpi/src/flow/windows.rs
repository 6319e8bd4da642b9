//! The last bytes of streams, in memory that is bounded: rings of one size, taken when a stream needs one,
//! and taken from another stream when there is no more: among a few from one whose client has a quarter of
//! them, and from the one that was idle the longest.

use crate::filter::{NEAR, Zone};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use nf_sdk::Nanos;

/// Most rules of a stream that wait for more of it.
pub const MAX_PENDING: usize = 32;
/// How many streams are looked at for one that makes room.
const CANDIDATES: usize = 8;
/// Kinds of clients that windows are counted for, and what one may have before others' are spared: a fraction
/// of them.
const SOURCES: usize = 256;
const PART: usize = 4;

/// A rule whose literal was found, but not yet all that it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Number of the rule.
    pub rule: u32,
    /// Number of the first byte that came with the literal: what ends before does not count.
    pub from: u64,
    /// Number of the byte in the stream up to which the literal may lie.
    pub end: u64,
    /// A chain that it has failed at, from 1: what was compared in vain is not compared again with each
    /// segment.
    pub chain: u32,
    /// Number of the byte from which on the chain may be met.
    pub failed: u64,
}

/// The last bytes of a stream.
#[derive(Debug)]
pub struct Window {
    ring: Box<[u8]>,
    /// Bytes that are there, and where the next one goes.
    length: usize,
    next: usize,
    /// The last of them, once more: they are asked for with every payload.
    near: [u8; NEAR],
    /// A literal may lie across the next seam, and others behind it, until so many bytes have come.
    pub open: usize,
    /// Rules that wait, at most [`MAX_PENDING`].
    pub pending: Vec<Pending>,
    /// There were more: from the first byte that came with their literals on, all literals are to be looked
    /// for again.
    pub crowded: Option<u64>,
    /// Number of the flow and of its side.
    pub owner: (u32, usize),
    /// Number of a byte that comes out of band, those that were passed counted too.
    pub urgent: Option<u64>,
    /// How many urgent bytes were passed, which are no part of the stream.
    pub passed: u64,
    /// The client, as far as clients are told apart.
    source: u8,
    last: Nanos,
}

/// A stream that makes room for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Robbed {
    /// Number of the flow and of its side.
    pub owner: (u32, usize),
    /// There were bytes.
    pub had_bytes: bool,
}

impl Window {
    /// Bytes that are there.
    pub fn len(&self) -> usize {
        self.length
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        (self.length, self.next) = (0, 0);
        (self.near, self.open) = ([0; NEAR], 0);
        self.pending.clear();
        self.crowded = None;
    }

    /// The bytes on both sides of the seam with what the stream goes on with.
    #[inline]
    pub fn seam(&self, data: &[u8]) -> Zone {
        let mut zone = [0; 2 * NEAR];
        zone[..NEAR].copy_from_slice(&self.near);
        match data.first_chunk::<NEAR>() {
            Some(first) => zone[NEAR..].copy_from_slice(first),
            None => zone[NEAR..NEAR + data.len()].copy_from_slice(data),
        }
        zone
    }

    /// Takes in what the stream goes on with.
    #[inline]
    pub fn append(&mut self, data: &[u8]) {
        match data.last_chunk() {
            Some(last) => self.near = *last,
            None => {
                self.near.rotate_left(data.len());
                self.near[NEAR - data.len()..].copy_from_slice(data);
            }
        }
        let size = self.ring.len();
        if let Some(start) = data.len().checked_sub(size) {
            self.ring.copy_from_slice(&data[start..]);
            (self.length, self.next) = (size, 0);
            return;
        }
        let first = data.len().min(size - self.next);
        self.ring[self.next..self.next + first].copy_from_slice(&data[..first]);
        if first < data.len() {
            self.ring[..data.len() - first].copy_from_slice(&data[first..]);
        }
        let next = self.next + data.len();
        self.next = if next < size { next } else { next - size };
        self.length = (self.length + data.len()).min(size);
    }

    /// Appends the last `count` bytes, or all there are, to `out`.
    pub fn copy_last(&self, count: usize, out: &mut Vec<u8>) {
        let count = count.min(self.length);
        if count <= self.next {
            out.extend_from_slice(&self.ring[self.next - count..self.next]);
        } else {
            let before = count - self.next;
            out.extend_from_slice(&self.ring[self.ring.len() - before..]);
            out.extend_from_slice(&self.ring[..self.next]);
        }
    }

    /// Whether `data` differs from the bytes that begin `back` bytes before the end, as far as they are
    /// there.
    pub fn differs(&self, back: usize, data: &[u8]) -> bool {
        let (size, lost) = (self.ring.len(), back.saturating_sub(self.length));
        let start = self.next + size - (back - lost).min(size);
        let data = data.get(lost..).unwrap_or_default();
        data.iter().enumerate().any(|(at, byte)| self.ring[(start + at) % size] != *byte)
    }

    /// Remembers a rule; false when another one had to be forgotten for it.
    pub fn remember(&mut self, pending: Pending) -> bool {
        if let Some(known) = self.pending.iter_mut().find(|known| known.rule == pending.rule) {
            let (from, end) = (known.from.min(pending.from), known.end.max(pending.end));
            *known = Pending { from, end, ..pending };
            return true;
        }
        if self.pending.len() < MAX_PENDING {
            self.pending.push(pending);
            return true;
        }
        // The one that will be of no use first. It is found again by its literal.
        let mut forgotten = pending;
        if let Some(oldest) = self.pending.iter_mut().min_by_key(|pending| pending.end) {
            forgotten = core::mem::replace(oldest, pending);
        }
        self.crowded = Some(self.crowded.map_or(forgotten.from, |crowded| crowded.min(forgotten.from)));
        false
    }
}

/// All windows.
#[derive(Debug)]
pub struct Windows {
    size: usize,
    limit: usize,
    list: Vec<Window>,
    free: Vec<u32>,
    /// How many there are of each kind of clients.
    used: Box<[u32]>,
    hand: usize,
    /// Rules that waited in windows which were taken from their streams.
    pub pending_lost: u64,
}

impl Windows {
    /// Windows of `size` bytes each, with the rules that wait in `memory` bytes.
    pub fn new(size: usize, memory: usize) -> Windows {
        let each = size + size_of::<Window>() + MAX_PENDING * size_of::<Pending>();
        let limit = if size == 0 { 0 } else { memory / each };
        let used = vec![0; SOURCES].into_boxed_slice();
        Windows { size, limit, list: Vec::new(), free: Vec::new(), used, hand: 0, pending_lost: 0 }
    }

    /// Windows in use.
    pub fn in_use(&self) -> usize {
        self.list.len() - self.free.len()
    }

    /// Most windows.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// A window.
    pub fn get(&self, number: u32) -> Option<&Window> {
        self.list.get((number as usize).checked_sub(1)?)
    }

    /// A window.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Window> {
        self.list.get_mut((number as usize).checked_sub(1)?)
    }

    /// Marks a window as just used.
    pub fn touch(&mut self, number: u32, now: Nanos) {
        if let Some(window) = self.get_mut(number) {
            window.last = now;
        }
    }

    /// Takes a window for a stream of this client's: its number, and the stream that it was taken from;
    /// `None` when there can be none.
    pub fn take(&mut self, owner: (u32, usize), source: u8, now: Nanos) -> Option<(u32, Option<Robbed>)> {
        let mut robbed = None;
        let place = if let Some(number) = self.free.pop() {
            number as usize
        } else if self.list.len() < self.limit {
            self.list.push(Window {
                ring: vec![0; self.size].into_boxed_slice(),
                length: 0,
                next: 0,
                near: [0; NEAR],
                open: 0,
                pending: Vec::new(),
                crowded: None,
                owner,
                urgent: None,
                passed: 0,
                source,
                last: now,
            });
            self.list.len() - 1
        } else {
            let place = self.victim()?;
            let window = &self.list[place];
            robbed = Some(Robbed { owner: window.owner, had_bytes: !window.is_empty() });
            self.used[usize::from(window.source)] -= 1;
            self.pending_lost += window.pending.len() as u64;
            place
        };
        let window = &mut self.list[place];
        window.clear();
        (window.owner, window.source, window.last) = (owner, source, now);
        (window.urgent, window.passed) = (None, 0);
        self.used[usize::from(source)] += 1;
        Some((place as u32 + 1, robbed))
    }

    /// The place of a window that makes room.
    fn victim(&mut self) -> Option<usize> {
        let count = self.list.len();
        let candidates = (0..CANDIDATES.min(count)).map(|step| (self.hand + step) % count);
        let is_spared = |window: &Window| self.used[usize::from(window.source)] as usize <= self.limit / PART;
        let rank = |place: &usize| (is_spared(&self.list[*place]), self.list[*place].last);
        let place = candidates.min_by_key(rank)?;
        self.hand = (self.hand + CANDIDATES) % count;
        Some(place)
    }

    /// Gives a window back.
    pub fn give_back(&mut self, number: u32) {
        if let Some(number) = number.checked_sub(1)
            && let Some(window) = self.list.get(number as usize)
        {
            self.used[usize::from(window.source)] -= 1;
            self.free.push(number);
        }
    }
}
