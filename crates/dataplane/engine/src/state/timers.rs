//! When instances are due, by their deadlines, those of packets that they hold, or their restarts.
//!
//! What holds: an instance's next deadline (`timer_at`) is in the set, and nothing else is of that instance;
//! [`Nanos::MAX`] is not in it.

use crate::worker::Worker;
use std::collections::BTreeSet;
use telemetry::clock::Nanos;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Timers {
    pub(crate) due: BTreeSet<(Nanos, usize)>,
}

impl Timers {
    /// When the first instance is due.
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        self.due.first().map_or(Nanos::MAX, |(at, _)| *at)
    }

    /// Takes out the first instance if its time has come.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<usize> {
        let first = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.due.remove(&first);
        Some(first.1)
    }
}

impl Worker {
    /// The instance is due at a time, unless it is due before.
    #[inline]
    pub(crate) fn schedule(&mut self, index: usize, at: Nanos) {
        let instance = &mut self.instances[index];
        if at < instance.timer_at {
            self.timers.due.remove(&(instance.timer_at, index));
            instance.timer_at = at;
            self.timers.due.insert((at, index));
        }
    }
}
