//! Waiting entities or tenants, in order: the standard library's heap, whose entries are taken out by a note
//! beside it. An entry counts as long as it is the last one that was made for its number; those that do not
//! are dropped when they come first, or when they are too many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Entries of a queue that count for nothing which are kept at most, beside as many as count.
const STALE: usize = 64;

/// The entry of each number in whatever queue it is in, 0 in none; a number is in one queue at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    of: Vec<u64>,
    /// Entries are numbered as they are made: among equal keys first come, first served, so that one whose
    /// turns cost nothing keeps no other waiting.
    made: u64,
}

impl Entries {
    /// Makes room for one number more.
    pub(crate) fn grow(&mut self) {
        self.of.push(0);
    }

    #[inline]
    fn make(&mut self, id: u32) -> u64 {
        self.made += 1;
        self.of[id as usize] = self.made;
        self.made
    }
}

/// Numbers in the order of their keys, smallest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(i128, u64, u32)>>,
    waiting: usize,
}

impl Queue {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// The smallest key, and whose it is.
    #[inline]
    pub(crate) fn first(&mut self, entries: &Entries) -> Option<(i128, usize)> {
        while let Some(Reverse((key, entry, id))) = self.heap.peek().copied() {
            if entries.of[id as usize] == entry {
                return Some((key, id as usize));
            }
            self.heap.pop();
        }
        None
    }

    /// Takes in a number that is in no queue.
    #[inline]
    pub(crate) fn push(&mut self, entries: &mut Entries, id: usize, key: i128) {
        self.waiting += 1;
        self.heap.push(Reverse((key, entries.make(id as u32), id as u32)));
        if self.heap.len() > STALE + 2 * self.waiting {
            self.heap.retain(|Reverse((_, entry, id))| entries.of[*id as usize] == *entry);
        }
    }

    /// Takes out a number that is in this queue.
    #[inline]
    pub(crate) fn remove(&mut self, entries: &mut Entries, id: usize) {
        self.waiting -= 1;
        entries.of[id] = 0;
    }

    /// Puts the number that [`Queue::first`] has just told where another key belongs, behind its equals.
    #[inline]
    pub(crate) fn rekey_first(&mut self, entries: &mut Entries, key: i128) {
        if let Some(mut first) = self.heap.peek_mut() {
            let Reverse((_, _, id)) = *first;
            *first = Reverse((key, entries.make(id), id));
        }
    }
}
