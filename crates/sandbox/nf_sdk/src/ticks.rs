//! Time in 32 bits, for tables with a time in each entry: ticks of 2^26 ns (67 ms), counted from the first
//! batch. They may wrap (after nine years); points are compared by their difference.

use crate::Nanos;

/// Nanoseconds of a tick, as a power of two.
const TICK_BITS: u32 = 26;

/// Counts ticks.
#[derive(Debug, Default)]
pub struct Ticks {
    epoch: Option<Nanos>,
}

impl Ticks {
    /// The tick that a point in time lies in.
    #[inline(always)]
    pub fn at(&mut self, now: Nanos) -> u32 {
        (now.since(*self.epoch.get_or_insert(now)).0 >> TICK_BITS) as u32
    }

    /// Whether the first batch has come.
    pub fn have_begun(&self) -> bool {
        self.epoch.is_some()
    }
}

/// A span in ticks, rounded up, and one more because a span begins anywhere in a tick.
pub fn span(span: Nanos) -> u32 {
    ((span.0 >> TICK_BITS) + 2).min(1 << 30) as u32
}
