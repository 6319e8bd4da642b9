//! How much of a guest's output is read. What is beyond waits in the guest's pipe, and the guest with it.

use std::time::Duration;

/// Bytes of a guest that are read in a second, in the long run; and at once.
const PER_SECOND: u64 = 256 << 10;
const AT_ONCE: u64 = 64 << 10;
/// Less is not read: it would be read byte by byte, as it comes.
const LEAST: u64 = 16 << 10;

/// A token bucket of bytes, on a clock that is given in.
#[derive(Debug)]
pub(crate) struct OutputRate {
    left: u64,
    at: Duration,
}

impl OutputRate {
    pub(crate) fn new(now: Duration) -> OutputRate {
        OutputRate { left: AT_ONCE, at: now }
    }

    /// How many bytes may be read now.
    pub(crate) fn allows(&mut self, now: Duration) -> usize {
        let more = now.saturating_sub(self.at).as_micros() * u128::from(PER_SECOND) / 1_000_000;
        if more > 0 {
            self.left = AT_ONCE.min(self.left.saturating_add(u64::try_from(more).unwrap_or(AT_ONCE)));
            self.at = now;
        }
        let enough = if self.left < LEAST { 0 } else { self.left };
        usize::try_from(enough).unwrap_or(usize::MAX)
    }

    /// So many have been read.
    pub(crate) fn took(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
    }

    /// How long to wait when none may be read, so that it pays to read again.
    pub(crate) const PAUSE: Duration = Duration::from_millis(50);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_rate_waits() {
        let mut rate = OutputRate::new(Duration::ZERO);
        let (mut read, mut times) = (0, 0);
        for ms in 0..10_000 {
            let allowed = rate.allows(Duration::from_millis(ms));
            rate.took(allowed);
            read += allowed as u64;
            times += u64::from(allowed > 0);
        }
        assert!(times <= read / LEAST, "{times} times");
        let most = AT_ONCE + 10 * PER_SECOND;
        assert!(read <= most && read > most - most / 50, "{read} of {most}");
        // After a pause there is no more than at first.
        assert_eq!(rate.allows(Duration::from_secs(1000)) as u64, AT_ONCE);
    }
}
