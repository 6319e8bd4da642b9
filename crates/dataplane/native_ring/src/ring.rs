//! The two ends of a ring, over wherever its counts and entries lie.

use super::sync::{Acquire, AtomicU32, AtomicU64, Relaxed, Release};
use std::fmt;

/// The other side's count is no possible one: it is broken or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfStep;

impl fmt::Display for OutOfStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a count in the shared memory says that a ring holds more than it has places for")
    }
}

/// So many places ahead are fetched into the processor's cache: the other side has had them last. Those that
/// it may still have are left to it.
const AHEAD: u32 = 16;

/// Where a ring's counts and entries lie.
pub trait Entries<const W: usize> {
    /// Places, a power of two.
    fn size(&self) -> u32;
    /// The writer's count.
    fn tail(&self) -> &AtomicU32;
    /// The reader's count.
    fn head(&self) -> &AtomicU32;
    /// The words of a place; `place` is below the size.
    fn words(&self, place: u32) -> [&AtomicU64; W];
    /// Has the processor fetch a place, which is below the size, to be written or to be read.
    fn fetch(&self, _place: u32, _writes: bool) {}
}

/// The writer's end.
#[derive(Debug)]
pub struct Producing<E, const W: usize> {
    entries: E,
    tail: u32,
    /// Places that are known to be free.
    room: u32,
}

/// The reader's end.
#[derive(Debug)]
pub struct Consuming<E, const W: usize> {
    entries: E,
    head: u32,
    /// The count as the writer knows it.
    released: u32,
    /// Entries that were taken out since it was last time to look for a writer that waits for room.
    taken: u32,
    /// Entries that are known to be there.
    ready: u32,
}

impl<E: Entries<W>, const W: usize> Producing<E, W> {
    /// Of a ring that is empty.
    pub fn new(entries: E) -> Self {
        Producing { entries, tail: 0, room: 0 }
    }

    /// Looks how many places are free.
    ///
    /// # Errors
    /// [`OutOfStep`], by the reader's count.
    #[inline]
    pub fn room(&mut self) -> Result<u32, OutOfStep> {
        self.room = self.free()?;
        Ok(self.room)
    }

    /// The same where it is not known already that so many are free: the reader's count is in a cache line
    /// that the reader writes to.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn room_for(&mut self, wanted: u32) -> Result<u32, OutOfStep> {
        if self.room < wanted { self.room() } else { Ok(self.room) }
    }

    /// Places that are free, or fewer where more than half of them are known to be, without taking note of
    /// it.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn free(&self) -> Result<u32, OutOfStep> {
        if self.room > self.entries.size() / 2 {
            return Ok(self.room);
        }
        self.entries.size().checked_sub(self.ahead()).ok_or(OutOfStep)
    }

    /// Entries that the reader says that it has not taken out. Any number is possible.
    #[inline]
    pub fn ahead(&self) -> u32 {
        self.tail.wrapping_sub(self.entries.head().load(Acquire))
    }

    /// Puts an entry in, to be published; whether there was room when it was last looked at.
    #[inline]
    #[must_use]
    pub fn push(&mut self, entry: [u64; W]) -> bool {
        let has_room = self.room > 0;
        self.push_all([entry]);
        has_room
    }

    /// Puts entries in, to be published, as long as there is room as far as it was last looked at; the others
    /// are not asked for.
    #[inline(always)]
    pub fn push_all(&mut self, entries: impl IntoIterator<Item = [u64; W]>) {
        let mask = self.entries.size() - 1;
        // The end's own counts are written once: the compiler cannot know that no entry lies there.
        let (mut tail, mut room) = (self.tail, self.room);
        let mut entries = entries.into_iter();
        while room > 0
            && let Some(entry) = entries.next()
        {
            room -= 1;
            if room > AHEAD {
                self.entries.fetch(tail.wrapping_add(AHEAD) & mask, true);
            }
            for (word, value) in self.entries.words(tail & mask).into_iter().zip(entry) {
                word.store(value, Relaxed);
            }
            tail = tail.wrapping_add(1);
        }
        (self.tail, self.room) = (tail, room);
    }

    /// Lets the reader see what was put in.
    #[inline]
    pub fn publish(&self) {
        self.entries.tail().store(self.tail, Release);
    }
}

impl<E: Entries<W>, const W: usize> Consuming<E, W> {
    /// Of a ring that is empty.
    pub fn new(entries: E) -> Self {
        Consuming { entries, head: 0, released: 0, taken: 0, ready: 0 }
    }

    /// Looks how many entries there are, without taking note of it.
    ///
    /// # Errors
    /// [`OutOfStep`], by the writer's count.
    #[inline]
    pub fn waiting(&self) -> Result<u32, OutOfStep> {
        let waiting = self.entries.tail().load(Acquire).wrapping_sub(self.head);
        if waiting <= self.entries.size() { Ok(waiting) } else { Err(OutOfStep) }
    }

    /// Looks how many entries there are.
    ///
    /// # Errors
    /// [`OutOfStep`], by the writer's count.
    #[inline]
    pub fn available(&mut self) -> Result<u32, OutOfStep> {
        self.ready = self.waiting()?;
        Ok(self.ready)
    }

    /// Copies the next entry out, if there was one when it was last looked.
    #[inline]
    pub fn pop(&mut self) -> Option<[u64; W]> {
        let mut entry = None;
        self.pop_each(1, |words| entry = Some(words));
        entry
    }

    /// Copies so many entries out, or as many as there were when it was last looked.
    #[inline(always)]
    pub fn pop_each(&mut self, most: u32, mut each: impl FnMut([u64; W])) {
        let mask = self.entries.size() - 1;
        // As in `push_all`.
        let (mut head, mut ready) = (self.head, self.ready);
        for _ in 0..most.min(ready) {
            ready -= 1;
            if ready > AHEAD {
                self.entries.fetch(head.wrapping_add(AHEAD) & mask, false);
            }
            each(self.entries.words(head & mask).map(|word| word.load(Relaxed)));
            head = head.wrapping_add(1);
        }
        (self.head, self.ready) = (head, ready);
    }

    /// Gives the places of what was taken out back to the writer. Whether it is time to look for a writer
    /// that sleeps because there was no room: at least half of a ring was taken out since the last time, and
    /// less than that is left.
    ///
    /// None sleeps on: before a ring that was full is empty, more than that was taken out, so that it is time
    /// at least once after the writer said that it will sleep.
    #[inline]
    pub fn release(&mut self) -> bool {
        let half = self.entries.size() / 2;
        self.taken = self.taken.saturating_add(self.head.wrapping_sub(self.released));
        self.released = self.head;
        self.entries.head().store(self.head, Release);
        let is_time = self.taken >= half && self.ready < half;
        if is_time {
            self.taken = 0;
        }
        is_time
    }
}
