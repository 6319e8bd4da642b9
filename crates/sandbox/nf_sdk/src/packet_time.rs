//! The time that packets say it is.
//!
//! 1. [`PacketTime::see`] takes what packets are stamped with, [`PacketTime::seen`] ends a batch.
//! 2. [`PacketTime::latest`] is the time within a batch; [`PacketTime::at`] what it is when a timer fires,
//!    and [`PacketTime::host_time`] when a timer has to fire.

use crate::Nanos;

/// The time that packets say it is: at ports that receive, the host's; of a capture that is read as fast as
/// it goes, the recorded one. It never runs backwards, and between batches as fast as the host's.
///
/// A packet without a timestamp says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketTime {
    latest: Nanos,
    /// From there to the host's time, which has to wrap around where that is behind.
    lag: u64,
}

impl PacketTime {
    /// A packet came.
    #[inline(always)]
    pub fn see(&mut self, timestamp: Nanos) {
        self.latest = self.latest.max(timestamp);
    }

    /// The packets of this call have been seen; `now`: the host's time.
    #[inline(always)]
    pub fn seen(&mut self, now: Nanos) {
        self.lag = now.0.wrapping_sub(self.latest.0);
    }

    /// The latest time that a packet said.
    #[inline(always)]
    pub fn latest(&self) -> Nanos {
        self.latest
    }

    /// What time it is when the host's clock says `now`.
    #[inline]
    pub fn at(&self, now: Nanos) -> Nanos {
        self.latest.max(Nanos(now.0.wrapping_sub(self.lag)))
    }

    /// When it is that time by the host's clock.
    pub fn host_time(&self, time: Nanos) -> Nanos {
        Nanos(time.0.wrapping_add(self.lag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_time_goes_on_with_the_host_between_batches() {
        let mut time = PacketTime::default();
        time.see(Nanos(1000));
        time.see(Nanos(900));
        time.seen(Nanos(50_000));
        assert_eq!(
            (time.latest(), time.at(Nanos(50_000)), time.at(Nanos(50_070))),
            (Nanos(1000), Nanos(1000), Nanos(1070))
        );
        assert_eq!(time.host_time(Nanos(1070)), Nanos(50_070));
        // What is stamped later than the host's clock says, too.
        time.see(Nanos(90_000));
        time.seen(Nanos(50_100));
        assert_eq!((time.at(Nanos(50_101)), time.host_time(Nanos(90_001))), (Nanos(90_001), Nanos(50_101)));
        // A clock that is set back, and a packet without a timestamp, turn nothing back.
        time.see(Nanos(0));
        assert_eq!(time.at(Nanos(0)), Nanos(90_000));
    }
}
