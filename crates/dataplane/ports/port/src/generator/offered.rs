//! How many packets a generator offered in each second.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK: usize = 256;
const CHUNKS: usize = 338;

/// Seconds that are counted apart, a day. What comes later counts with the last of them.
pub const MAX_SECONDS: usize = CHUNK * CHUNKS;

type Chunk = Box<[AtomicU64; CHUNK]>;

/// Packets by the second in which they were due, from the generator's first poll on; those without a time, by
/// that in which they were made. Dropped ones (`no-buffer`, `too-long`) count, those that a late worker did
/// not make up for do not.
///
/// The reporting thread reads it while the generator counts. Memory is taken as the seconds pass.
#[derive(Debug)]
pub struct Offered(Box<[OnceLock<Chunk>; CHUNKS]>);

impl Default for Offered {
    fn default() -> Offered {
        Offered(Box::new([const { OnceLock::new() }; CHUNKS]))
    }
}

impl Offered {
    /// Only the generator counts: no other thread writes.
    pub(super) fn add(&self, second: u64, packets: u64) {
        let second = usize::try_from(second).unwrap_or(usize::MAX).min(MAX_SECONDS - 1);
        let Some(chunk) = self.0.get(second / CHUNK) else { return };
        let chunk = chunk.get_or_init(|| Box::new([const { AtomicU64::new(0) }; CHUNK]));
        let count = &chunk[second % CHUNK];
        count.store(count.load(Ordering::Relaxed) + packets, Ordering::Relaxed);
    }

    /// Packets of a second, the first of which is 0.
    pub fn in_second(&self, second: usize) -> u64 {
        let chunk = self.0.get(second / CHUNK).and_then(OnceLock::get);
        chunk.map_or(0, |chunk| chunk[second % CHUNK].load(Ordering::Relaxed))
    }

    /// Packets of each of the first seconds.
    pub fn first_seconds(&self, seconds: usize) -> Vec<u64> {
        (0..seconds).map(|second| self.in_second(second)).collect()
    }
}
