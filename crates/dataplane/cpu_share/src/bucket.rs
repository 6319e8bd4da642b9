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
    /// Cycles used since the last look.
    recent: u64,
}

impl Bucket {
    /// A bucket that is `overdrawn` by so many parts of a cycle (or holds them, if below zero) at `now`.
    pub(crate) fn new(cap: Cap, overdrawn: i128, now: Cycles) -> Bucket {
        let pace = (u64::from(Cap::WHOLE) << PARTS) / u64::from(cap.get());
        Bucket { cap, pace, even_at: at(now) + to_time(overdrawn, cap), recent: 0 }
    }

    #[inline]
    pub(crate) fn charge(&mut self, cycles: Cycles) {
        self.recent = self.recent.saturating_add(cycles.0);
    }

    /// Whether what was used has been allowed for. What is saved up is cut to what the cap gives in a
    /// `period`, as of when the use since the last look began if it went on until now: a turn longer than the
    /// period is still allowed for while it goes on, and what is charged after a long sleep is not lost with
    /// what the bucket could not hold.
    #[inline]
    pub(crate) fn allows(&mut self, now: Cycles, period: Cycles) -> bool {
        let floor = at(now) - at(period) - (i128::from(self.recent) << PARTS);
        self.even_at = self.even_at.max(floor) + self.outstanding();
        self.recent = 0;
        self.even_at <= at(now)
    }

    /// When what was used will have been allowed for.
    pub(crate) fn release(&self) -> Cycles {
        let even_at = self.even_at + self.outstanding();
        let whole = (even_at + ((1 << PARTS) - 1)) >> PARTS;
        Cycles(u64::try_from(whole.max(0)).unwrap_or(u64::MAX))
    }

    /// By how many parts of a cycle it is overdrawn; below zero when it holds something.
    pub(crate) fn overdrawn(&self, now: Cycles) -> i128 {
        let time = self.even_at + self.outstanding() - at(now);
        time / i128::from(Cap::WHOLE) * i128::from(self.cap.get())
            + time % i128::from(Cap::WHOLE) * i128::from(self.cap.get()) / i128::from(Cap::WHOLE)
    }

    fn outstanding(&self) -> i128 {
        i128::from(self.recent) * i128::from(self.pace)
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
