//! Entries of one size in memory that is taken once. Entry 0 is never given out, so that 0 can mean "none".

use crate::{HalfLine, Line, TableEntry, zeroed_table};
use alloc::boxed::Box;

/// An entry that has a word for the list of free ones.
pub trait Entry: TableEntry {
    /// All words are 0.
    const ZERO: Self;
    /// The word.
    fn link(&mut self) -> &mut u32;
}

impl Entry for Line {
    const ZERO: Line = Line([0; 16]);

    fn link(&mut self) -> &mut u32 {
        &mut self.0[0]
    }
}

impl Entry for HalfLine {
    const ZERO: HalfLine = HalfLine([0; 8]);

    fn link(&mut self) -> &mut u32 {
        &mut self.0[0]
    }
}

/// At most as many entries as were asked for.
pub struct Slab<E> {
    entries: Box<[E]>,
    count: usize,
    /// The first free entry of those that were used before.
    free: u32,
    /// Entries from here on were never used.
    unused: u32,
}

impl<E: Entry> Slab<E> {
    /// Room for `limit` entries; `None` when there is no memory for them.
    pub fn new(limit: usize) -> Option<Slab<E>> {
        Some(Slab { entries: zeroed_table(limit + 1)?, count: 0, free: 0, unused: 1 })
    }

    /// Entries in use.
    pub fn len(&self) -> usize {
        self.count
    }

    /// None is in use.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Most entries.
    pub fn limit(&self) -> usize {
        self.entries.len() - 1
    }

    /// All are in use.
    pub fn is_full(&self) -> bool {
        self.count == self.limit()
    }

    /// One more than the largest number that was ever in use.
    pub fn bound(&self) -> u32 {
        self.unused
    }

    /// An entry by its number; entry 0 is all zeros, and stands for numbers that are too large as well.
    #[inline(always)]
    pub fn get(&self, number: u32) -> &E {
        self.entries.get(number as usize).unwrap_or(&self.entries[0])
    }

    /// An entry for writing.
    ///
    /// # Panics
    /// With a number that was never given out.
    #[inline(always)]
    pub fn get_mut(&mut self, number: u32) -> &mut E {
        &mut self.entries[number as usize]
    }

    /// Keeps an entry; its number, or `None` when all are in use.
    pub fn take(&mut self, entry: E) -> Option<u32> {
        let number = if self.free != 0 {
            let number = self.free;
            self.free = *self.entries[number as usize].link();
            number
        } else if (self.unused as usize) < self.entries.len() {
            self.unused += 1;
            self.unused - 1
        } else {
            return None;
        };
        self.entries[number as usize] = entry;
        self.count += 1;
        Some(number)
    }

    /// Gives an entry back; all of its words but the link are 0 afterwards.
    pub fn give_back(&mut self, number: u32) {
        let free = self.free;
        let entry = self.get_mut(number);
        *entry = E::ZERO;
        *entry.link() = free;
        self.free = number;
        self.count -= 1;
    }
}
