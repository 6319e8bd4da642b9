//! The free buffers of a pool, most recently freed first: a cache for each thread over a depot that all
//! share.
//!
//! Every thread takes from a cache of its own and gives back to it, so that workers that share a pool do not
//! wait for each other. An empty cache is filled from the depot, or, when that is empty too, with half of
//! what another cache has. A cache that has grown too long gives half of it to the depot. So every free
//! buffer can be reached from every thread, and a buffer that is used again is mostly still in its
//! processor's cache.

use std::cell::Cell;
use std::iter::Rev;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Drain;

/// Caches of threads; threads beyond that many share them.
const PARTS: usize = 16;
/// Buffers that are taken from the depot beyond those that are wanted.
const AHEAD: usize = 64;
/// Longest cache.
const LONGEST: usize = 1024;

/// Some that are taken: those that were freed last come first.
pub(crate) type Buffers<'a> = Rev<Drain<'a, u32>>;

thread_local! {
    /// Number of the thread's cache.
    static PART: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A cache or the depot. Caches that threads use at the same time lie in different cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part(Mutex<Vec<u32>>);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct FreeList {
    common: Part,
    parts: [Part; PARTS],
}

impl FreeList {
    /// All free; the last one is taken first.
    pub(crate) fn new(buffers: Vec<u32>) -> FreeList {
        FreeList { common: Part(Mutex::new(buffers)), parts: Default::default() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().chain([&self.common]).map(|part| lock(part).len()).sum()
    }

    /// Takes up to `wanted`, handed to `each` some at a time; returns how many there were.
    #[inline]
    pub(crate) fn take(&self, wanted: usize, mut each: impl FnMut(Buffers<'_>)) -> usize {
        let mut own = lock(self.own());
        if own.len() < wanted {
            self.fill(&mut own, wanted);
        }
        let first = own.len() - wanted.min(own.len());
        let taken = own.len() - first;
        each(own.drain(first..).rev());
        drop(own);
        if taken < wanted { taken + self.take_from_others(wanted - taken, &mut each) } else { taken }
    }

    /// Takes buffers back.
    #[inline]
    pub(crate) fn put(&self, buffers: impl IntoIterator<Item = u32>) {
        let mut own = lock(self.own());
        own.extend(buffers);
        if own.len() > LONGEST {
            self.spill(&mut own);
        }
    }

    /// Moves buffers from the depot to one's own cache.
    #[cold]
    fn fill(&self, own: &mut Vec<u32>, wanted: usize) {
        let mut common = lock(&self.common);
        let first = common.len().saturating_sub((wanted - own.len()).saturating_add(AHEAD));
        // Those that were there before stay on top.
        let below = own.len();
        own.extend(common.drain(first..));
        own.rotate_left(below);
    }

    /// What was freed least recently goes to the depot.
    #[cold]
    fn spill(&self, own: &mut Vec<u32>) {
        lock(&self.common).extend(own.drain(..LONGEST / 2));
    }

    #[cold]
    fn take_from_others(&self, wanted: usize, each: &mut impl FnMut(Buffers<'_>)) -> usize {
        let (mut taken, mut ahead) = (0, Vec::new());
        for part in &self.parts {
            // One lock at a time, and never while holding one's own: no two threads wait for each other.
            let mut others = lock(part);
            let left = others.len().saturating_sub(wanted - taken);
            taken += others.len() - left;
            each(others.drain(left..).rev());
            if taken == wanted {
                // The thread of this cache may have ended long ago. Half of what is left is taken along, or
                // all caches would have to be searched for the next few buffers again.
                ahead.extend(others.drain(..left / 2));
                break;
            }
        }
        self.put(ahead);
        taken
    }

    #[inline]
    fn own(&self) -> &Part {
        &self.parts[PART.get().unwrap_or_else(register)]
    }
}

/// Gives the present thread a part.
#[cold]
fn register() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Relaxed) % PARTS;
    PART.set(Some(number));
    number
}

#[inline]
fn lock(part: &Part) -> MutexGuard<'_, Vec<u32>> {
    // The list is valid between any two of its operations, so a panic elsewhere does not spoil it.
    part.0.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_last_is_taken_first_and_fresh_lists_from_their_end() {
        let list = FreeList::new((0..1000).rev().collect());
        let take = |count| {
            let mut out = Vec::new();
            list.take(count, |buffers| out.extend(buffers));
            out
        };
        assert_eq!(take(3), [0, 1, 2]);
        list.put([7000, 7001]);
        assert_eq!(take(4), [7001, 7000, 3, 4]);
        assert_eq!(take(100), (5..105).collect::<Vec<_>>());
        assert_eq!(list.len(), 1000 - 105);
    }

    #[test]
    fn buffers_of_idle_caches_are_not_fetched_in_small_portions() {
        let list = FreeList::new(Vec::new());
        let own = std::ptr::from_ref(list.own());
        let other =
            list.parts.iter().find(|part| std::ptr::from_ref(*part) != own).expect("there are several");
        lock(other).extend(0..1000);
        assert_eq!(list.take(32, |_| ()), 32);
        assert_eq!((lock(list.own()).len(), lock(other).len()), (484, 484));
        assert_eq!(list.take(usize::MAX, |_| ()), 1000 - 32);
    }

    #[test]
    fn no_buffer_is_out_of_reach_and_none_is_given_twice() {
        let list = FreeList::new((0..10_000).collect());
        let owned = std::thread::scope(|scope| {
            let list = &list;
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        for round in 0..2000 {
                            list.take(1 + (round * 7 + thread) % 40, |buffers| mine.extend(buffers));
                            let keep = mine.len().saturating_sub(1 + round % 60);
                            list.put(mine.drain(keep..));
                        }
                        mine
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        let mut all = owned;
        // This thread reaches what lies in the others' parts.
        list.take(usize::MAX, |buffers| all.extend(buffers));
        assert_eq!(list.len(), 0);
        all.sort_unstable();
        assert_eq!(all, (0..10_000).collect::<Vec<_>>());
    }
}
