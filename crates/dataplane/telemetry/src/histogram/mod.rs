//! How long things took, as counts by length: written by one worker without waiting, read by any thread
//! meanwhile.
//!
//! 1. A worker has a [`Recorder`] and calls [`Recorder::record`] for each value: two loads and two stores, no
//!    locked instruction.
//! 2. A reader has a [`Histogram`] of it and takes a [`Distribution`] with [`Histogram::read`].
//! 3. Distributions of several workers [`merge`](Distribution::merge) into the one that a single recorder
//!    would have made.
//!
//! Up to 8 every value has a bucket; from there on each doubling has eight of equal width. So a
//! [quantile](Distribution::quantile) is at most an eighth above the true one and never below it. A bucket
//! contains its upper bound and not its lower one, as `le` means it in Prometheus, and all powers of two up
//! to [`LIMIT`] are bounds.
//!
//! Limits: values above [`LIMIT`] (18 minutes, in nanoseconds) are together in one bucket, of which only the
//! largest value is known. 2.4 KiB for each recorder. The unit is the caller's.

mod buckets;
mod distribution;
#[cfg(test)]
mod tests;

pub use buckets::LIMIT;
pub use distribution::Distribution;

use buckets::{BUCKETS, index};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

#[derive(Debug)]
struct Shared {
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    largest: AtomicU64,
}

/// The end that counts. There is one, so that counting needs no lock.
#[derive(Debug)]
pub struct Recorder(Arc<Shared>);

impl Default for Recorder {
    fn default() -> Recorder {
        let counts = [const { AtomicU64::new(0) }; BUCKETS];
        Recorder(Arc::new(Shared { counts, sum: AtomicU64::new(0), largest: AtomicU64::new(0) }))
    }
}

impl Recorder {
    /// Of nothing yet.
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// Counts a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value so many times: what all packets of a batch have in common.
    #[inline]
    pub fn record_many(&mut self, value: u64, times: u64) {
        let Shared { counts, sum, largest } = &*self.0;
        // Only this thread writes, so that nothing comes between a load and its store.
        add(&counts[index(value)], times);
        add(sum, value.saturating_mul(times));
        if value > largest.load(Relaxed) && times > 0 {
            largest.store(value, Relaxed);
        }
    }

    /// The end to look at.
    pub fn histogram(&self) -> Histogram {
        Histogram(self.0.clone())
    }
}

#[inline]
fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Relaxed).wrapping_add(more), Relaxed);
}

/// The end that looks.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Shared>);

impl Histogram {
    /// What has been counted. Values that are recorded meanwhile may be in the counts and not in the sum, or
    /// the other way round.
    pub fn read(&self) -> Distribution {
        let Shared { counts, sum, largest } = &*self.0;
        let counts = counts.iter().map(|count| count.load(Relaxed)).collect();
        Distribution::of(counts, sum.load(Relaxed), largest.load(Relaxed))
    }
}
