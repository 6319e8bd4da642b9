//! What a worker does for something that has no turns on it: counted, and held to a rate.
//!
//! 1. A port that belongs to a container has its container's meter, whichever worker polls it.
//! 2. The worker [charges](Meter::charge) it with what it did between two ports on the container's behalf.
//! 3. A control loop reads what was [used](Meter::used) and sets a [rate](Meter::set_rate). While the meter
//!    is overdrawn ([`Meter::allows`]) the worker fetches no packets on its account.
//!
//! It is the generic cell rate algorithm: what was charged is paid for at the rate, and the meter is
//! overdrawn until the moment at which all of it is paid. What was not used is kept for [`BURST`] of time, no
//! longer. One thread writes at a time as long as all ports of a container are on one worker; with several,
//! charges made at the same moment may be paid for by one of them only, while what was used is exact.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use telemetry::clock::{Cycles, Nanos};

/// Over how long a rate holds.
pub const BURST: Nanos = Nanos::from_millis(10);

/// Stands for no rate.
const UNLIMITED: u64 = u64::MAX;

/// The whole of a processor, as a rate.
pub const WHOLE: u32 = 1_000_000;

/// See the module's documentation.
#[derive(Debug)]
pub struct Meter {
    used: AtomicU64,
    /// Millionths of a processor.
    rate: AtomicU64,
    /// When what was charged is paid for.
    paid: AtomicU64,
    burst: Cycles,
}

impl Meter {
    /// One that counts, without a rate. `burst`: [`BURST`] in cycles.
    pub fn new(burst: Cycles) -> Meter {
        let (used, paid) = (AtomicU64::new(0), AtomicU64::new(0));
        Meter { used, rate: AtomicU64::new(UNLIMITED), paid, burst }
    }

    /// Holds it to so many millionths of a processor, 1 at least; `None`: to nothing.
    pub fn set_rate(&self, rate: Option<u32>) {
        self.rate.store(rate.map_or(UNLIMITED, |rate| u64::from(rate.max(1))), Relaxed);
    }

    /// All that was ever charged.
    pub fn used(&self) -> Cycles {
        Cycles(self.used.load(Relaxed))
    }

    /// Adds what was used.
    #[inline]
    pub fn charge(&self, cycles: Cycles, now: Cycles) {
        self.used.fetch_add(cycles.0, Relaxed);
        let rate = self.rate.load(Relaxed);
        if rate != UNLIMITED {
            let begin = self.paid.load(Relaxed).max(now.0.saturating_sub(self.burst.0));
            let takes = u128::from(cycles.0) * u128::from(WHOLE) / u128::from(rate);
            self.paid.store(begin.saturating_add(u64::try_from(takes).unwrap_or(u64::MAX)), Relaxed);
        }
    }

    /// Whether more may be done on its account.
    #[inline]
    pub fn allows(&self, now: Cycles) -> bool {
        self.paid.load(Relaxed) <= now.0 || self.rate.load(Relaxed) == UNLIMITED
    }

    /// When more may be done on its account.
    pub fn release(&self) -> Cycles {
        Cycles(self.paid.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one that always wants more gets of a million cycles, in turns of so many.
    fn got(meter: &Meter, from: u64, turn: u64) -> u64 {
        let (before, mut now) = (meter.used().0, from);
        while now < from + 1_000_000 {
            if meter.allows(Cycles(now)) {
                meter.charge(Cycles(turn), Cycles(now));
                now += turn;
            } else {
                now = now.max(meter.release().0);
            }
        }
        meter.used().0 - before
    }

    #[test]
    fn a_rate_holds_over_any_long_span_and_none_holds_nothing() {
        let meter = Meter::new(Cycles(10_000));
        assert_eq!(got(&meter, 0, 500), 1_000_000);
        for (from, rate) in [(10_000_000, 700_000), (20_000_000, 300_000), (30_000_000, 10_000)] {
            meter.set_rate(Some(rate));
            let got = got(&meter, from, 500);
            assert!(got.abs_diff(rate.into()) <= 10_500, "{got} at {rate}");
        }
        meter.set_rate(None);
        assert!(meter.allows(Cycles(0)));
    }

    #[test]
    fn what_was_not_used_is_kept_for_a_burst_and_no_longer() {
        let meter = Meter::new(Cycles(10_000));
        meter.set_rate(Some(500_000));
        let mut sum = 0;
        while meter.allows(Cycles(1_000_000)) {
            meter.charge(Cycles(100), Cycles(1_000_000));
            sum += 100;
        }
        assert_eq!(sum, 5_100, "half of the burst, and one turn");
        assert!(!meter.allows(Cycles(1_000_000)));
        assert_eq!(meter.release(), Cycles(1_000_200));
    }

    #[test]
    fn a_rate_of_nothing_and_charges_without_end_do_not_wrap() {
        let meter = Meter::new(Cycles(10));
        meter.set_rate(Some(0));
        (0..4).for_each(|_| meter.charge(Cycles(u64::MAX / 4), Cycles(u64::MAX / 2)));
        assert_eq!(meter.release(), Cycles(u64::MAX));
        assert!(!meter.allows(Cycles(u64::MAX - 1)));
    }
}
