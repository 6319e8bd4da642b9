//! A token bucket that enforces a cap, kept as a point in time instead of as a number of tokens: the time at
//! which all that was used has been allowed for. It needs no refilling, and tells by itself when a throttled
//! entity or tenant may run again.

use crate::claim::Cap;
use crate::share::PARTS;
use telemetry::clock::Cycles;

/// The cap of one entity or tenant at work.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    cap: Cap,
    /// How long the cap takes to allow for one cycle, in parts of a cycle.
    pace: u64,
    /// When all that was used before the last look has been allowed for, in parts of a cycle. Before now: the
    /// bucket holds something; after: it is overdrawn.
    even_at: i128,
    /// All that was ever used, as of the last look.
    seen: Cycles,
}

impl Bucket {
    /// A bucket that is `overdrawn` by so many parts of a cycle (or holds them, if below zero) at `now`, of
    /// what has `used` so much by then.
    pub(crate) fn new(cap: Cap, overdrawn: i128, used: Cycles, now: Cycles) -> Bucket {
        let pace = (u64::from(Cap::WHOLE) << PARTS) / u64::from(cap.get());
        Bucket { cap, pace, even_at: at(now) + to_time(overdrawn, cap), seen: used }
    }

    /// Whether all that was `used` has been allowed for. What is saved up is cut to what the cap gives in a
    /// `period`, as of when the use since the last look began if it went on until now: a turn longer than the
    /// period is still allowed for while it goes on, and what is charged after a long sleep is not lost with
    /// what the bucket could not hold.
    #[inline]
    pub(crate) fn allows(&mut self, used: Cycles, now: Cycles, period: Cycles) -> bool {
        let floor = at(now) - at(period) - at(used.since(self.seen));
        self.even_at = self.even_at.max(floor) + self.outstanding(used);
        self.seen = used;
        self.even_at <= at(now)
    }

    /// When all that was `used` will have been allowed for.
    pub(crate) fn release(&self, used: Cycles) -> Cycles {
        let even_at = self.even_at + self.outstanding(used);
        let whole = (even_at + ((1 << PARTS) - 1)) >> PARTS;
        Cycles(u64::try_from(whole.max(0)).unwrap_or(u64::MAX))
    }

    /// By how many parts of a cycle it is overdrawn; below zero when it holds something.
    pub(crate) fn overdrawn(&self, used: Cycles, now: Cycles) -> i128 {
        let time = self.even_at + self.outstanding(used) - at(now);
        time / i128::from(Cap::WHOLE) * i128::from(self.cap.get())
            + time % i128::from(Cap::WHOLE) * i128::from(self.cap.get()) / i128::from(Cap::WHOLE)
    }

    fn outstanding(&self, used: Cycles) -> i128 {
        i128::from(used.since(self.seen).0) * i128::from(self.pace)
    }
}

/// A point in time, or a span, in parts of a cycle.
#[inline]
fn at(now: Cycles) -> i128 {
    i128::from(now.0) << PARTS
}

/// How long a cap takes to allow for so many parts of a cycle.
fn to_time(parts: i128, cap: Cap) -> i128 {
    let cap = i128::from(cap.get());
    parts / cap * i128::from(Cap::WHOLE) + parts % cap * i128::from(Cap::WHOLE) / cap
}
