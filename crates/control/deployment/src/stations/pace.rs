//! How often functions are told what changed of their devices. Telling stops a worker for a moment: what changes
//! within a short time is told together, but the answer to a function's question is not to wait for that.

use telemetry::clock::Nanos;

/// From one time to the next, in the long run.
const APART: Nanos = Nanos::from_millis(10);
/// Times that may follow one another at once.
const AT_ONCE: u64 = 8;

/// A token bucket, kept as the moment at which it is full again.
#[derive(Debug, Default)]
pub(super) struct Pace {
    full: Nanos,
}

impl Pace {
    /// When something may be told.
    pub(super) fn ready(&self) -> Nanos {
        Nanos(self.full.0.saturating_sub(APART.0 * (AT_ONCE - 1)))
    }

    /// Something was told.
    pub(super) fn told(&mut self, now: Nanos) {
        self.full = self.full.max(now).saturating_add(APART);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_told_at_once_and_then_one_every_ten_milliseconds() {
        let (mut pace, mut told) = (Pace::default(), Vec::new());
        for ms in 5_000..5_100 {
            let now = Nanos::from_millis(ms);
            while pace.ready() <= now {
                pace.told(now);
                told.push(ms - 5_000);
            }
        }
        assert_eq!(told, [0, 0, 0, 0, 0, 0, 0, 0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    }
}
