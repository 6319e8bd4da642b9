//! How often something may be done. Telling functions of their devices stops workers for a moment: what
//! changes within a short time is told together, but the answer to a function's question is not to wait for
//! that.

use telemetry::clock::Nanos;

/// A token bucket, kept as the moment at which it is full again.
#[derive(Debug)]
pub(super) struct Pace {
    apart: Nanos,
    at_once: u64,
    full: Nanos,
}

impl Pace {
    /// Once in `apart` in the long run, and so often at once.
    pub(super) const fn new(apart: Nanos, at_once: u64) -> Pace {
        Pace { apart, at_once, full: Nanos(0) }
    }

    /// When it may be done.
    pub(super) fn ready(&self) -> Nanos {
        Nanos(self.full.0.saturating_sub(self.apart.0 * (self.at_once - 1)))
    }

    /// It was done so many times. What was too much is made up for before it may be done again.
    pub(super) fn spend(&mut self, times: u64, now: Nanos) {
        self.full = self.full.max(now).saturating_add(Nanos(self.apart.0.saturating_mul(times)));
    }

    /// Whether it may be done now; if so, it is done.
    pub(super) fn take(&mut self, now: Nanos) -> bool {
        let may = self.ready() <= now;
        if may {
            self.spend(1, now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_and_then_one_every_ten_milliseconds() {
        let (mut pace, mut told) = (Pace::new(Nanos::from_millis(10), 8), Vec::new());
        for ms in 5_000..5_100 {
            while pace.take(Nanos::from_millis(ms)) {
                told.push(ms - 5_000);
            }
        }
        assert_eq!(told, [0, 0, 0, 0, 0, 0, 0, 0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
        pace.spend(20, Nanos::from_millis(6_000));
        assert_eq!(pace.ready(), Nanos::from_millis(6_130));
    }
}
