//! A split ring (Virtio 1.2, section 2.7) in memory of the guest's: where its words lie, and what of them is
//! believed.
//!
//! | part | what | written by |
//! |---|---|---|
//! | table | descriptors of 16 bytes: guest's address, length, flags, next | the guest |
//! | available | flags, count, numbers of descriptors, the count from which on it wants to be woken | the guest |
//! | used | flags, count, numbers and lengths, the count from which on this side wants to be woken | this side |
//!
//! A chain of descriptors is read once, from its first to its last, into memory of this side's; what is done
//! with it is done by what was read. This side's count is its own; of the guest's one thing is believed: that
//! it is not further away than the ring is long. Anything else, and the number of a descriptor that there is
//! not, ends the connection. Other faults of a chain lose a packet.

use crate::counts::{self, NO_NOTIFY};
use crate::dirty::DirtyLog;
use crate::features::{EVENT_IDX, has_state, header_length};
use crate::guest_memory::{GuestMemory, Part, Piece};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;

/// Most descriptors of a chain, and most pieces of memory that it lies in. Linux's drivers use 19.
pub const CHAIN_MAX: usize = 256;
/// Chains that are read at once.
pub(crate) const BATCH: usize = 32;
/// Most descriptors of a ring.
pub const SIZE_MAX: u32 = 32_768;

/// Bytes of a descriptor.
const DESCRIPTOR: u32 = 16;
/// In a descriptor's flags: the chain goes on; this side writes; it names a table of descriptors.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// The peer has written a count or a number that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what it wrote into its rings was impossible")]
pub struct OutOfStep;

/// A chain that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    head: u16,
    /// It cannot be used.
    pub is_wrong: bool,
    /// Its pieces, among those of the batch.
    from: u32,
    to: u32,
    /// Bytes of its pieces together.
    pub bytes: u32,
}

/// Where the parts of a ring lie, by the guest's addresses.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Descriptors, a power of two.
    pub size: u16,
    /// See the module's documentation.
    pub table: u64,
    /// See the module's documentation.
    pub available: u64,
    /// See the module's documentation.
    pub used: u64,
}

/// What a ring is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Buffers that the guest has filled.
    FromGuest,
    /// Buffers that this side fills.
    ToGuest,
}

/// This side's end of a ring.
#[derive(Debug)]
pub struct Queue {
    pub(crate) memory: Arc<GuestMemory>,
    pub(crate) log: Option<Arc<DirtyLog>>,
    /// The guest's address of the used part, where writes to it are noted.
    log_used: Option<u64>,
    direction: Direction,
    pub(crate) features: u64,
    pub(crate) header_length: u32,
    /// Whether headers of the guest's frames are read.
    pub(crate) has_state: bool,
    size: u16,
    table: Part,
    available: Part,
    used: Part,
    /// Chains that were used, a count that wraps.
    position: u16,
    /// The same when the guest was last looked at.
    told: u16,
    /// Chains that the guest is known to have made available.
    seen: u16,
    /// The most that were available at a time.
    most: Cell<u16>,
    /// The region in which something was last found.
    near: u32,
    /// Whether there is a way to wake the guest.
    pub(crate) has_call: bool,
    /// Chains that were read and not used, from `next` on.
    pub(crate) chains: Vec<Chain>,
    pub(crate) next: usize,
    pieces: Vec<Piece>,
}

impl Queue {
    /// The end of a ring that goes on at `position`, or where its used part says.
    ///
    /// # Errors
    /// A part does not lie in one region, or not at a multiple of what it is made of.
    pub fn new(
        memory: &Arc<GuestMemory>,
        parts: Parts,
        direction: Direction,
        features: u64,
        position: Option<u16>,
    ) -> Result<Queue, String> {
        let size = u32::from(parts.size);
        let mut near = 0;
        let events = if features & EVENT_IDX != 0 { 2 } else { 0 };
        let mut find = |what: &str, guest: u64, length: u32, align: usize| {
            let piece = memory.find(guest, length, &mut near).filter(|piece| piece.length == length);
            piece.and_then(|piece| Part::new(memory, piece, align)).ok_or_else(|| {
                format!("{what}: found: {length} bytes at {guest:#x}; allowed: multiples of {align}, within one region")
            })
        };
        let table = find("table of descriptors", parts.table, size * DESCRIPTOR, 16)?;
        let available = find("available ring", parts.available, 4 + size * 2 + events, 2)?;
        let used = find("used ring", parts.used, 4 + size * 8 + events, 4)?;
        let position = position.unwrap_or_else(|| used.half(2).load(Relaxed));
        let queue = Queue {
            memory: memory.clone(),
            log: None,
            log_used: None,
            direction,
            features,
            header_length: header_length(features),
            has_state: has_state(features),
            size: parts.size,
            table,
            available,
            used,
            position,
            told: position,
            seen: position,
            most: Cell::new(0),
            near,
            has_call: false,
            chains: Vec::with_capacity(BATCH),
            next: 0,
            pieces: Vec::with_capacity(2 * BATCH),
        };
        queue.poll();
        Ok(queue)
    }

    /// Notes writes in a log; those to the used part too, if its guest's address is given.
    pub fn log_to(&mut self, log: Option<Arc<DirtyLog>>, used: Option<u64>) {
        (self.log, self.log_used) = (log, used);
    }

    /// Where it goes on.
    pub fn position(&self) -> u16 {
        self.position
    }

    fn place(&self, count: u16) -> usize {
        usize::from(count & (self.size - 1))
    }

    /// Chains that the guest has made available.
    ///
    /// # Errors
    /// [`OutOfStep`].
    #[inline]
    pub fn waiting(&self) -> Result<u16, OutOfStep> {
        let waiting = counts::waiting(self.size, self.position, self.available.half(2)).ok_or(OutOfStep)?;
        self.most.set(self.most.get().max(waiting));
        Ok(waiting)
    }

    /// Chains that are available, as far as that is known, or as it is `anew`; where there were never as many
    /// as `all`, in a measure in which the most that there were are so many. A guest decides how long its
    /// rings are, and may never offer all of their buffers.
    #[inline]
    pub(crate) fn room(&self, all: usize, anew: bool) -> usize {
        let known = if anew { self.waiting() } else { Ok(self.seen.wrapping_sub(self.position)) };
        // The next packets find out that the guest is out of step.
        let Ok(room) = known else { return usize::MAX };
        match usize::from(self.most.get()) {
            most if most < all => usize::from(room) * all / most.max(1),
            _ => usize::from(room),
        }
    }

    /// Begins with a batch: what was read and not used is read again.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.chains.clear();
        self.pieces.clear();
        self.next = 0;
    }

    /// Reads up to `most` chains behind those that were read; returns how many there were.
    ///
    /// # Errors
    /// [`OutOfStep`].
    #[inline]
    pub(crate) fn fetch(&mut self, most: usize) -> Result<usize, OutOfStep> {
        let first = self.chains.len();
        let ahead = (first - self.next) as u16;
        let mut known = self.seen.wrapping_sub(self.position);
        if known > self.size || usize::from(known) < usize::from(ahead) + most {
            known = self.waiting()?;
            self.seen = self.position.wrapping_add(known);
        }
        let count = usize::from(known.saturating_sub(ahead)).min(most);
        for n in 0..count as u16 {
            let place = self.place(self.position.wrapping_add(ahead + n));
            let head = self.available.half(4 + place * 2).load(Relaxed);
            if head >= self.size {
                return Err(OutOfStep);
            }
            self.table.prefetch((u32::from(head) * DESCRIPTOR) as usize);
            self.chains.push(Chain { head, is_wrong: false, from: 0, to: 0, bytes: 0 });
        }
        for n in first..first + count {
            self.walk(n);
        }
        Ok(count)
    }

    /// Reads a chain, each of its descriptors once.
    #[inline]
    fn walk(&mut self, n: usize) {
        let from = self.pieces.len();
        let head = self.chains[n].head;
        let bytes = self.read_one(head).or_else(|| self.read_chain(head));
        if bytes.is_none() {
            self.pieces.truncate(from);
        }
        let mut header = self.header_length;
        // The header, and what may lie apart from it.
        for piece in self.pieces[from..].iter().take(2) {
            let headed = header.min(piece.length);
            match self.direction {
                Direction::FromGuest if self.has_state => self.memory.prefetch(*piece),
                Direction::FromGuest => self.memory.prefetch(piece.behind(headed)),
                Direction::ToGuest => self.memory.prefetch_to_write(*piece, headed),
            }
            header -= headed;
        }
        let chain = &mut self.chains[n];
        (chain.from, chain.to) = (from as u32, self.pieces.len() as u32);
        (chain.is_wrong, chain.bytes) = (bytes.is_none(), bytes.unwrap_or(0));
    }

    /// Appends the piece of a chain that is one descriptor within one region, as most are; `None` when it is
    /// another: nothing is appended, and what was read is forgotten.
    #[inline]
    fn read_one(&mut self, head: u16) -> Option<u32> {
        let at = (u32::from(head) * DESCRIPTOR) as usize;
        let [guest, word] = [at, at + 8].map(|at| self.table.long(at).load(Relaxed));
        let (length, flags) = (word as u32, (word >> 32) as u16);
        if length == 0 || flags != if self.direction == Direction::ToGuest { WRITE } else { 0 } {
            return None;
        }
        let piece = self.memory.find(guest, length, &mut self.near)?;
        (piece.length == length).then(|| {
            self.pieces.push(piece);
            length
        })
    }

    /// Appends a chain's pieces; `None` when it cannot be used.
    fn read_chain(&mut self, head: u16) -> Option<u32> {
        let end = self.pieces.len() + CHAIN_MAX;
        let mut bytes = 0u32;
        // The table of descriptors itself is aligned; one that a descriptor names need not be.
        let (mut indirect, mut index) = (None::<Piece>, u32::from(head));
        for _ in 0..CHAIN_MAX {
            let (guest, word) = match indirect {
                None => {
                    let at = (index * DESCRIPTOR) as usize;
                    (self.table.long(at).load(Relaxed), self.table.long(at + 8).load(Relaxed))
                }
                Some(table) => {
                    let bytes = self.memory.read::<16>(table.behind(index * DESCRIPTOR))?;
                    let number = u128::from_le_bytes(bytes);
                    (number as u64, (number >> 64) as u64)
                }
            };
            let (mut length, flags, next) = (word as u32, (word >> 32) as u16, (word >> 48) as u16);
            if flags & INDIRECT != 0 {
                if indirect.is_some()
                    || flags & NEXT != 0
                    || length == 0
                    || !length.is_multiple_of(DESCRIPTOR)
                {
                    return None;
                }
                let table = self.memory.find(guest, length, &mut self.near)?;
                indirect = Some(table).filter(|table| table.length == length);
                indirect?;
                index = 0;
                continue;
            }
            if (flags & WRITE != 0) != (self.direction == Direction::ToGuest) {
                return None;
            }
            bytes = bytes.checked_add(length)?;
            let mut guest = guest;
            while length > 0 {
                let piece = self.memory.find(guest, length, &mut self.near)?;
                if self.pieces.len() >= end {
                    return None;
                }
                self.pieces.push(piece);
                length -= piece.length;
                guest = guest.wrapping_add(u64::from(piece.length));
            }
            if flags & NEXT == 0 {
                return Some(bytes);
            }
            index = u32::from(next);
            let entries = indirect.map_or(u32::from(self.size), |table| table.length / DESCRIPTOR);
            if index >= entries {
                return None;
            }
        }
        None
    }

    /// The pieces of a chain.
    #[inline]
    pub(crate) fn pieces(&self, chain: &Chain) -> &[Piece] {
        &self.pieces[chain.from as usize..chain.to as usize]
    }

    /// Gives the next chain back, with so many bytes written. The guest sees it when it is published.
    #[inline]
    pub(crate) fn give_back(&mut self, written: u32) {
        let Some(chain) = self.chains.get(self.next) else { return };
        let at = 4 + self.place(self.position) * 8;
        self.used.word(at).store(u32::from(chain.head), Relaxed);
        self.used.word(at + 4).store(written, Relaxed);
        self.note_used(at as u64, 8);
        self.position = self.position.wrapping_add(1);
        self.next += 1;
    }

    #[inline]
    fn note_used(&self, at: u64, length: u64) {
        if let (Some(log), Some(used)) = (&self.log, self.log_used) {
            log.note(used.saturating_add(at), length);
        }
    }

    /// Shows the guest what was given back; whether it is to be woken.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let old = std::mem::replace(&mut self.told, self.position);
        if old == self.position {
            return false;
        }
        counts::show(self.used.half(2), self.position);
        self.note_used(2, 2);
        if !self.has_call {
            return false;
        }
        let event = self.event(&self.available, 4 + usize::from(self.size) * 2);
        counts::should_call(old, self.position, event, self.available.half(0))
    }

    /// The event index at a place of a part, if the two sides count by events.
    #[inline]
    fn event<'a>(&self, part: &'a Part, at: usize) -> Option<&'a AtomicU16> {
        (self.features & EVENT_IDX != 0).then(|| part.half(at))
    }

    /// This side polls, and needs no kicks. A guest that counts kicks by events gives one when its count
    /// comes round.
    pub fn poll(&self) {
        self.used.half(0).store(NO_NOTIFY, Relaxed);
        self.note_used(0, 2);
    }

    /// This side sleeps from now on, and wants kicks. It looks at the ring once more before it does.
    pub fn will_sleep(&self) {
        let at = 4 + usize::from(self.size) * 8;
        let event = self.event(&self.used, at);
        let noted = if event.is_some() { at as u64 } else { 0 };
        counts::will_sleep(self.position, event, self.used.half(0));
        // Behind the write: what is noted before it may be copied without it.
        self.note_used(noted, 2);
    }

    /// Whether memory of it was taken away.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.memory.is_lost() || self.log.as_ref().is_some_and(|log| log.is_lost())
    }
}
