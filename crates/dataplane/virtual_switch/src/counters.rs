//! What a switch counts.

use crate::place::SwitchPort;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a switch counted since it was made.
///
/// Of the table: `learned` = entries there + `aged` + `evicted` + `flushed`, at any time at which it is not
/// being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Addresses that were not in the table and were learned.
    pub learned: u64,
    /// Stations that were heard at another port than before.
    pub moved: u64,
    /// Entries that ended by their age.
    pub aged: u64,
    /// Entries that had to give way to another address.
    pub evicted: u64,
    /// Entries that went with their port.
    pub flushed: u64,
    /// Frames whose source was not learned, or not learned anew, because another worker was just writing
    /// beside it. The next frame of that source makes up for it.
    pub deferred: u64,
    /// Frames for a group or for a station that is not known.
    pub flooded: u64,
    /// Frames for a station at the port from which they came; filtered.
    pub returned: u64,
    /// Frames for an address that no bridge forwards; filtered.
    pub reserved: u64,
    /// Frames whose source is no station's address (a group's, or zero), or that are too short to have one;
    /// filtered.
    pub no_source: u64,
}

impl SwitchCounters {
    /// Entries that the table has: the stations that are known, and those that have aged since the last
    /// [`sweep`](crate::Switch::sweep).
    pub fn entries(&self) -> u64 {
        self.learned.saturating_sub(self.aged + self.evicted + self.flushed)
    }

    /// Frames that were filtered, for whatever reason.
    pub fn filtered(&self) -> u64 {
        self.returned + self.reserved + self.no_source
    }
}

/// A counter's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Learned,
    Moved,
    Aged,
    Evicted,
    Flushed,
    Deferred,
    Flooded,
    Returned,
    Reserved,
    NoSource,
}

const COUNTS: usize = Count::NoSource as usize + 1;

/// Workers that count at once should not share a cache line: ports choose among so many.
const STRIPES: usize = 16;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; COUNTS]);

#[derive(Debug, Default)]
pub(crate) struct Counters([Stripe; STRIPES]);

impl Counters {
    #[inline]
    pub fn add(&self, port: SwitchPort, count: Count, more: u64) {
        self.0[usize::from(port.0) % STRIPES].0[count as usize].fetch_add(more, Ordering::Relaxed);
    }

    pub fn sum(&self) -> SwitchCounters {
        let of = |count: Count| {
            let parts = self.0.iter().map(|stripe| stripe.0[count as usize].load(Ordering::Relaxed));
            parts.fold(0, u64::wrapping_add)
        };
        SwitchCounters {
            learned: of(Count::Learned),
            moved: of(Count::Moved),
            aged: of(Count::Aged),
            evicted: of(Count::Evicted),
            flushed: of(Count::Flushed),
            deferred: of(Count::Deferred),
            flooded: of(Count::Flooded),
            returned: of(Count::Returned),
            reserved: of(Count::Reserved),
            no_source: of(Count::NoSource),
        }
    }
}
