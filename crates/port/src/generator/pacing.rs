//! When packets are due.

use clock::Nanos;

const SECOND: u128 = 1_000_000_000;

/// Longest time that is caught up with. A worker that was away for longer gets no larger burst.
const LONGEST_CATCH_UP: u128 = SECOND / 100;

/// Packets at a constant rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    rate: u64,
    /// When the first packet that is counted in `sent` was due.
    start: Option<Nanos>,
    sent: u64,
    /// Packets that were not caught up with.
    pub skipped: u64,
}

impl Pacing {
    /// `rate` in packets per second, at least 1.
    pub fn new(rate: u64) -> Pacing {
        Pacing { rate: rate.max(1), start: None, sent: 0, skipped: 0 }
    }

    /// How many packets are due and not sent. The first one is due at the first call.
    pub fn due(&mut self, now: Nanos) -> u64 {
        let start = *self.start.get_or_insert(now);
        let elapsed = u128::from(now.since(start).0);
        let due = elapsed * u128::from(self.rate) / SECOND + 1;
        let behind = u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.sent);
        let most = (u128::from(self.rate) * LONGEST_CATCH_UP / SECOND).max(64) as u64;
        if behind > most {
            self.skipped += behind - most;
            let back = u128::from(most - 1) * SECOND / u128::from(self.rate);
            self.start = Some(Nanos(now.0.saturating_sub(u64::try_from(back).unwrap_or(u64::MAX))));
            self.sent = 0;
            return most;
        }
        behind
    }

    /// Counts packets as sent.
    pub fn sent(&mut self, packets: u64) {
        self.sent += packets;
    }

    /// When the next packet is due; a time that has passed means now.
    pub fn next(&self) -> Nanos {
        let Some(start) = self.start else { return Nanos(0) };
        let after = (u128::from(self.sent) * SECOND).div_ceil(u128::from(self.rate));
        start.saturating_add(Nanos(u64::try_from(after).unwrap_or(u64::MAX)))
    }
}
