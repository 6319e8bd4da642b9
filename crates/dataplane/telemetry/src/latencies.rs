//! How long packets took, as counts by powers of two: small enough for each of many functions, and counted a
//! batch at a time.

/// Powers of two of the bounds, in nanoseconds: 128 ns to 1.07 s.
const FIRST: u32 = 7;
const LAST: u32 = 30;
const BUCKETS: usize = (LAST - FIRST + 2) as usize;

/// Counts of packets by how long they took. Plain numbers of the worker that owns them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    counts: [u64; BUCKETS],
    /// Nanoseconds of all together.
    sum: u64,
}

impl Latencies {
    /// The upper bounds in nanoseconds, of which each belongs to the packets below it. There are longer
    /// times.
    pub fn bounds() -> impl Iterator<Item = u64> {
        (FIRST..=LAST).map(|bits| 1 << bits)
    }

    /// Counts so many packets that took so long.
    #[inline]
    pub fn record(&mut self, nanos: u64, packets: u64) {
        let bits = u64::BITS - (nanos.saturating_sub(1) | ((1 << FIRST) - 1)).leading_zeros();
        self.counts[(bits.min(LAST + 1) - FIRST) as usize] += packets;
        self.sum = self.sum.wrapping_add(nanos.wrapping_mul(packets));
    }

    /// Adds what others counted.
    pub fn merge(&mut self, other: &Latencies) {
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// How many packets.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Nanoseconds of all together.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// How many packets did not take longer than each bound, and then all of them.
    pub fn at_most(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
    }

    /// What at least the part `q` of all did not take longer than, in nanoseconds: a bound, hence up to twice
    /// too much. `None` when there is no packet; the longest time that is told apart is `u64::MAX`.
    ///
    /// # Panics
    /// When `q` is not between 0 and 1.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        assert!((0.0..=1.0).contains(&q), "a quantile of {q}");
        let count = self.count();
        let rank = ((q * count as f64).ceil() as u64).clamp(1, count.max(1));
        let bucket = self.at_most().position(|seen| seen >= rank)?;
        Some(Latencies::bounds().nth(bucket).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_belong_to_what_is_below_them() {
        let mut all = Latencies::default();
        assert_eq!((all.quantile(0.5), all.count()), (None, 0));
        for (nanos, packets) in
            [(0, 1), (128, 2), (129, 4), (256, 8), (1 << 30, 16), ((1 << 30) + 1, 32), (u64::MAX, 64)]
        {
            let mut one = Latencies::default();
            one.record(nanos, packets);
            all.merge(&one);
        }
        let at_most: Vec<u64> = all.at_most().collect();
        assert_eq!(at_most.len(), Latencies::bounds().count() + 1);
        assert_eq!((at_most[0], at_most[1], at_most[22], at_most[23], at_most[24]), (3, 15, 15, 31, 127));
        assert_eq!(all.count(), 127);
        assert_eq!(
            (all.quantile(0.0), all.quantile(0.1), all.quantile(1.0)),
            (Some(128), Some(256), Some(u64::MAX))
        );
        let mut one = Latencies::default();
        one.record(1000, 3);
        assert_eq!((one.sum(), one.quantile(0.99)), (3000, Some(1024)));
    }
}
