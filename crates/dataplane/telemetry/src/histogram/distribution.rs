//! What a histogram counted, at one time.

use super::buckets::{BUCKETS, index, upper};

/// Counts by bucket, a copy that only its owner changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    counts: Box<[u64]>,
    sum: u64,
    largest: u64,
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution { counts: vec![0; BUCKETS].into_boxed_slice(), sum: 0, largest: 0 }
    }
}

impl Distribution {
    pub(super) fn of(counts: Box<[u64]>, sum: u64, largest: u64) -> Distribution {
        Distribution { counts, sum, largest }
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.counts[index(value)] += 1;
        self.sum = self.sum.wrapping_add(value);
        self.largest = self.largest.max(value);
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Distribution) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.wrapping_add(*theirs);
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.largest = self.largest.max(other.largest);
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// All values together.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest value; 0 when there is none.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// A value that at least the part `q` of all are not above: 0.5 is the median, 0.99 the 99th percentile.
    /// It is at most an eighth above the least such value, and below the limit never below it. `None` when
    /// nothing was counted.
    ///
    /// # Panics
    /// When `q` is not between 0 and 1.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        assert!((0.0..=1.0).contains(&q), "a quantile of {q}");
        let count = self.count();
        let rank = ((q * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0u64;
        let bucket = self.counts.iter().position(|count| {
            seen = seen.wrapping_add(*count);
            seen >= rank
        })?;
        Some(upper(bucket).min(self.largest))
    }

    /// For each of `bounds`, which ascend, how many values are not above it. Exact for powers of two up to
    /// [`LIMIT`](super::LIMIT) and for `u64::MAX`; for others it may be too few, by those in the bucket that
    /// the bound is in.
    pub fn at_most(&self, bounds: &[u64]) -> Vec<u64> {
        let (mut next, mut seen) = (0, 0u64);
        let up_to = |&bound: &u64| {
            while next < BUCKETS && upper(next) <= bound {
                seen = seen.wrapping_add(self.counts[next]);
                next += 1;
            }
            seen
        };
        bounds.iter().map(up_to).collect()
    }
}
