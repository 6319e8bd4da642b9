//! Token buckets: how many frames may be sent, or looked at.

use crate::settings::Rate;
use telemetry::clock::Nanos;

/// A token bucket, kept as the moment at which it is full again (the generic cell rate algorithm of ITU-T
/// I.371).
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// Time for one token.
    interval: u64,
    /// Time for all tokens but one.
    tolerance: u64,
    full: Nanos,
}

impl Bucket {
    pub(crate) fn new(rate: Rate) -> Bucket {
        let interval = 1_000_000_000 / u64::from(rate.per_second.max(1));
        Bucket { interval, tolerance: interval * u64::from(rate.burst.saturating_sub(1)), full: Nanos(0) }
    }

    /// When a token is there.
    pub(crate) fn ready(&self) -> Nanos {
        Nanos(self.full.0.saturating_sub(self.tolerance))
    }

    /// When there are more tokens than so many.
    pub(crate) fn ready_beyond(&self, kept: u32) -> Nanos {
        self.ready().saturating_add(Nanos(self.interval * u64::from(kept)))
    }

    /// Takes a token if there is one.
    pub(crate) fn take(&mut self, now: Nanos) -> bool {
        let ready = self.ready() <= now;
        if ready {
            self.full = self.full.max(now).saturating_add(Nanos(self.interval));
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut bucket = Bucket::new(Rate { per_second: 100, burst: 5 });
        let start = Nanos(7_000_000_000);
        assert_eq!((0..10).filter(|_| bucket.take(start)).count(), 5);
        assert_eq!(bucket.ready(), start.saturating_add(Nanos::from_millis(10)));
        let in_a_second = (1..=1000).filter(|ms| bucket.take(start.saturating_add(Nanos::from_millis(*ms))));
        assert_eq!(in_a_second.count(), 100);
    }
}
