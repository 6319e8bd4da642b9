//! Recorded time laid onto the present.

use telemetry::clock::Nanos;

/// When the packets of a capture are due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    percent: u32,
    start: Option<Nanos>,
    /// Recorded nanoseconds from the first packet to the next one, over all passes.
    elapsed: u64,
    last: Option<u64>,
}

impl Timeline {
    /// Recorded time that runs so many times as fast, in percent.
    pub fn new(percent: u32) -> Timeline {
        Timeline { percent, start: None, elapsed: 0, last: None }
    }

    /// The first packet is due now, if nothing was due before.
    pub fn begin(&mut self, now: Nanos) {
        self.start.get_or_insert(now);
    }

    /// The next packet has this timestamp. Time that goes backwards stands still.
    pub fn advance(&mut self, timestamp: Option<u64>) {
        let Some(timestamp) = timestamp else { return };
        let gap = timestamp.saturating_sub(self.last.unwrap_or(timestamp));
        self.elapsed = self.elapsed.saturating_add(gap);
        self.last = Some(timestamp);
    }

    /// The next packet is a pass's first: it is due with the last one before.
    pub fn next_pass(&mut self) {
        self.last = None;
    }

    /// When the next packet is due.
    pub fn due(&self) -> Nanos {
        let Some(start) = self.start else { return Nanos(0) };
        let after = u128::from(self.elapsed) * 100 / u128::from(self.percent.max(1));
        start.saturating_add(Nanos(u64::try_from(after).unwrap_or(u64::MAX)))
    }
}
