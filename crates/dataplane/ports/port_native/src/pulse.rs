//! Whether a process still does its work, by what it shows of itself, and when that has lasted so long that a
//! process of the launcher's is to be ended.
//!
//! Being hung costs a process its packets as soon as `heartbeat` is over, and it gets them back with the next
//! sign of life: on a busy machine that is nothing but a pause. Being ended is for one that does not come
//! back, so that it waits for [`grace`] more.

use std::time::{Duration, Instant};

/// How long a process has that was attached and has shown no sign of life yet: it may still be starting.
pub(crate) const STARTING: Duration = Duration::from_secs(60);
/// The least and the most that a process has after its heartbeat is over.
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(10);

/// What a process did for which it is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It has shown no sign of life for so long.
    Silent(Duration),
    /// It was cut off, because of what it wrote to the memory of its rings, and lives on.
    CutOff,
}

/// A process of a guest that is to be ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The guest whose folder its socket lies in.
    pub guest: String,
    /// Its number, as this process sees it.
    pub pid: u32,
    /// Why.
    pub failure: Failure,
}

/// How long a process has to come back: its heartbeat once more, within bounds.
pub(crate) fn grace(heartbeat: Duration) -> Duration {
    heartbeat.clamp(SHORTEST, LONGEST)
}

/// The signs of life of one process.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// Their count, when it last was another one.
    beat: u32,
    since: Instant,
    told: Option<Instant>,
}

impl Pulse {
    /// Of a process that was attached just now.
    pub fn new(now: Instant) -> Pulse {
        Pulse { beat: 0, since: now, told: None }
    }

    /// Takes the count as it is now; how long it has been this one.
    pub fn silence(&mut self, beat: u32, now: Instant) -> Duration {
        if beat != self.beat {
            *self = Pulse { beat, ..Pulse::new(now) };
        }
        now.saturating_duration_since(self.since)
    }

    /// For how long there was no sign of life, if that is long enough for the process to be ended, and was
    /// not said within the last [`grace`]: what is asked for may get lost.
    pub fn is_lost(&mut self, heartbeat: Duration, now: Instant) -> Option<Duration> {
        let grace = grace(heartbeat);
        let patience = if self.beat == 0 { STARTING.max(heartbeat + grace) } else { heartbeat + grace };
        self.has_lasted(patience, grace, now)
    }

    /// The same of one that has been attached no more for all of this time, and had [`grace`] to end.
    pub fn is_over(&mut self, heartbeat: Duration, now: Instant) -> bool {
        let grace = grace(heartbeat);
        self.has_lasted(grace, grace, now).is_some()
    }

    fn has_lasted(&mut self, patience: Duration, again: Duration, now: Instant) -> Option<Duration> {
        let lasted = now.saturating_duration_since(self.since);
        let is_told = self.told.is_some_and(|told| now.saturating_duration_since(told) < again);
        if lasted < patience || is_told {
            return None;
        }
        self.told = Some(now);
        Some(lasted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARTBEAT: Duration = Duration::from_millis(100);

    fn at(begin: Instant, milliseconds: u64) -> Instant {
        begin + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_process_is_hung_after_its_heartbeat_and_lost_after_as_long_again_within_bounds() {
        let begin = Instant::now();
        let mut pulse = Pulse::new(begin);
        assert_eq!(pulse.silence(1, at(begin, 50)), Duration::ZERO);
        assert_eq!(pulse.silence(1, at(begin, 150)), HEARTBEAT);
        assert_eq!(pulse.is_lost(HEARTBEAT, at(begin, 150)), None);
        // Any other count is a sign, a smaller one too.
        assert_eq!(pulse.silence(0xffff_ffff, at(begin, 1_000)), Duration::ZERO);
        assert_eq!(pulse.silence(7, at(begin, 2_000)), Duration::ZERO);
        assert_eq!(pulse.is_lost(HEARTBEAT, at(begin, 4_099)), None);
        let lost = |pulse: &mut Pulse, milliseconds| {
            pulse.silence(7, at(begin, milliseconds));
            pulse.is_lost(HEARTBEAT, at(begin, milliseconds)).map(|silence| silence.as_millis())
        };
        assert_eq!(lost(&mut pulse, 4_100), Some(2_100));
        // It is said again while it lasts, and not all the time.
        assert_eq!((lost(&mut pulse, 4_101), lost(&mut pulse, 6_099)), (None, None));
        assert_eq!(lost(&mut pulse, 6_100), Some(4_100));
        // One that comes back is as one that never was away.
        assert_eq!(pulse.silence(8, at(begin, 6_200)), Duration::ZERO);
        assert_eq!(pulse.is_lost(HEARTBEAT, at(begin, 8_299)), None);
        assert_eq!(pulse.is_lost(HEARTBEAT, at(begin, 8_300)), Some(Duration::from_millis(2_100)));
    }

    #[test]
    fn the_grace_is_the_heartbeat_within_bounds_and_one_that_starts_has_longer() {
        let spans = [10, 2_000, 5_000, 60_000].map(|ms| grace(Duration::from_millis(ms)).as_millis());
        assert_eq!(spans, [2_000, 2_000, 5_000, 10_000]);
        let begin = Instant::now();
        let mut pulse = Pulse::new(begin);
        assert_eq!(pulse.silence(0, at(begin, 59_999)), Duration::from_millis(59_999));
        assert_eq!(pulse.is_lost(HEARTBEAT, at(begin, 59_999)), None);
        assert_eq!(pulse.is_lost(HEARTBEAT, at(begin, 60_000)), Some(STARTING));
        // One that was cut off has the grace alone.
        let mut over = Pulse::new(begin);
        let times = [1_999, 2_000, 3_999, 4_000].map(|ms| over.is_over(HEARTBEAT, at(begin, ms)));
        assert_eq!(times, [false, true, false, true]);
    }
}
