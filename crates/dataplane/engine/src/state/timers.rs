//! When instances are due.
//!
//! What holds: an instance's next deadline (`timer_at`) is in the heap; entries that are not the instance's
//! own time any more count for nothing, and there are at most twice as many of them as instances, and 64.

use crate::worker::Worker;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use telemetry::clock::Nanos;

/// Entries beside those of the instances' next deadlines that are kept at most.
const STALE_TIMERS: usize = 64;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Timers {
    pub(crate) heap: BinaryHeap<Reverse<(Nanos, u32)>>,
}

impl Timers {
    /// When the first instance is due.
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        self.heap.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at)
    }

    /// Takes out the first entry if it has passed: an instance, and the time.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, usize)> {
        let Reverse((at, index)) = self.heap.peek().copied().filter(|Reverse((at, _))| *at <= now)?;
        self.heap.pop();
        Some((at, index as usize))
    }
}

impl Worker {
    /// The instance is due at a time, unless it is due before.
    #[inline]
    pub(crate) fn schedule(&mut self, index: usize, at: Nanos) {
        let instance = &mut self.instances[index];
        if at < instance.timer_at {
            instance.timer_at = at;
            self.timers.heap.push(Reverse((at, index as u32)));
            if self.timers.heap.len() > STALE_TIMERS + 2 * self.instances.len() {
                self.tidy_timers();
            }
        }
    }

    /// Forgets entries that count for nothing any more: a function may bring its deadline forward at every
    /// call.
    #[cold]
    fn tidy_timers(&mut self) {
        let instances = &self.instances;
        self.timers.heap.retain(|Reverse((at, index))| {
            instances.get(*index as usize).is_some_and(|instance| instance.timer_at == *at)
        });
    }
}
