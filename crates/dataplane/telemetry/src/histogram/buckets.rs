//! Which bucket a value is in, and where a bucket ends.

/// Buckets of each doubling, as a power of two.
const PRECISION: u32 = 3;
const STEPS: u64 = 1 << PRECISION;
const LIMIT_BITS: u32 = 40;

/// Largest value that has a bucket of bounded width.
pub const LIMIT: u64 = 1 << LIMIT_BITS;

/// How many buckets there are, the one beyond [`LIMIT`] included.
pub(super) const BUCKETS: usize = ((LIMIT_BITS - PRECISION + 1) << PRECISION) as usize + 1;

/// The bucket of a value. As bounds belong to the bucket below them, 0 and 1 are in the same.
#[inline]
pub(super) fn index(value: u64) -> usize {
    let below = value.saturating_sub(1);
    if below < STEPS {
        return below as usize;
    }
    let exponent = below.ilog2();
    let step = (below >> (exponent - PRECISION)) & (STEPS - 1);
    let index = (u64::from(exponent - PRECISION + 1) << PRECISION) + step;
    (index as usize).min(BUCKETS - 1)
}

/// The largest value of a bucket.
pub(super) fn upper(index: usize) -> u64 {
    let (index, steps) = (index as u64, STEPS);
    if index < steps {
        index + 1
    } else if index + 1 >= BUCKETS as u64 {
        u64::MAX
    } else {
        (steps + index % steps + 1) << (index / steps - 1)
    }
}
