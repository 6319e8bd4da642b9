//! The share of a core that a tenant's work may use, as a token bucket kept as a point in time: the time at
//! which all that was used has been allowed for.

use telemetry::clock::Nanos;

/// A bound on processor time: a part of a core in the long run, and what may be used at once on top of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Thousandths of one core; 0 counts as 1.
    pub permille: u32,
    /// Processor time that a tenant that was idle may use at once.
    pub burst: Nanos,
}

impl Default for Share {
    /// A quarter of a core, and 2 s at once.
    fn default() -> Share {
        Share { permille: 250, burst: Nanos::from_millis(2_000) }
    }
}

impl Share {
    /// How long the share takes to allow for so much processor time.
    fn time_for(self, used: Nanos) -> i128 {
        i128::from(used.0) * 1000 / i128::from(self.permille.max(1))
    }
}

/// A tenant's share at work.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    share: Share,
    /// When all that was used has been allowed for.
    even_at: i128,
}

impl Bucket {
    /// A bucket that holds the whole burst.
    pub(crate) fn new(share: Share, now: Nanos) -> Bucket {
        Bucket { share, even_at: i128::from(now.0) - share.time_for(share.burst) }
    }

    /// Another share from here on; what was overdrawn stays overdrawn, in processor time.
    pub(crate) fn set(&mut self, share: Share, now: Nanos) {
        let overdrawn = (self.even_at - i128::from(now.0)).max(0) * i128::from(self.share.permille.max(1));
        let even_at = i128::from(now.0) + overdrawn / i128::from(share.permille.max(1));
        *self = Bucket { share, even_at };
    }

    pub(crate) fn charge(&mut self, used: Nanos, now: Nanos) {
        let floor = i128::from(now.0) - self.share.time_for(self.share.burst);
        self.even_at = self.even_at.max(floor) + self.share.time_for(used);
    }

    /// When more may be used; not later than `now` means at once.
    pub(crate) fn release(&self) -> Nanos {
        Nanos(u64::try_from(self.even_at.max(0)).unwrap_or(u64::MAX))
    }

    pub(crate) fn allows(&self, now: Nanos) -> bool {
        self.even_at <= i128::from(now.0)
    }

    /// It holds the whole burst again: it is as good as a new one.
    pub(crate) fn is_full(&self, now: Nanos) -> bool {
        self.even_at <= i128::from(now.0) - self.share.time_for(self.share.burst)
    }
}
