//! When packets are due.

use super::config::Config;
use super::offered::Offered;
use super::schedule::{SECOND, Schedule};
use std::sync::Arc;
use telemetry::clock::Nanos;

/// Longest time that is caught up with. A worker that was away for longer gets no larger burst.
const LONGEST_CATCH_UP: u64 = SECOND / 100;

/// Fewest packets that are caught up with, if so many are due.
const LEAST_CATCH_UP: u64 = 64;

/// Packets that are due at certain times, or as many as are asked for.
#[derive(Debug)]
pub(super) struct Pacing {
    pace: Pace,
    /// When the port was first asked for packets.
    start: Option<Nanos>,
    now: Nanos,
    ended: bool,
    /// Packets that were not caught up with.
    pub skipped: u64,
    pub offered: Arc<Offered>,
}

#[derive(Debug)]
enum Pace {
    Unpaced,
    Constant(Constant),
    Scheduled {
        schedule: Schedule,
        /// Number of the next packet.
        next: u64,
    },
}

impl Pacing {
    pub fn new(config: &Config) -> Pacing {
        let pace = match config.rate {
            _ if !config.schedule.is_empty() => Pace::Scheduled {
                schedule: Schedule::new(&config.schedule, config.repeat, config.batch),
                next: 0,
            },
            Some(rate) => Pace::Constant(Constant::new(rate, config.batch)),
            None => Pace::Unpaced,
        };
        let offered = Arc::default();
        Pacing { pace, start: None, now: Nanos(0), ended: false, skipped: 0, offered }
    }

    /// Whether packets are due at certain times.
    pub fn is_paced(&self) -> bool {
        !matches!(self.pace, Pace::Unpaced)
    }

    /// Whether no more packets come.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// How many packets are due and not sent; without a pace, any number. The first second begins at the
    /// first call.
    pub fn due(&mut self, now: Nanos) -> u64 {
        let start = *self.start.get_or_insert(now);
        self.now = now;
        match &mut self.pace {
            Pace::Unpaced => u64::MAX,
            Pace::Constant(constant) => constant.due(now, &mut self.skipped),
            Pace::Scheduled { schedule, next } => {
                let elapsed = now.since(start).0;
                let mut behind = schedule.due(elapsed).saturating_sub(*next);
                if behind > 0 {
                    let before = elapsed.saturating_sub(LONGEST_CATCH_UP);
                    let rate = schedule.rate_at(elapsed).max(schedule.rate_at(before));
                    let most = caught_up_with(rate, schedule.batch());
                    let skipped = behind.saturating_sub(most);
                    self.skipped += skipped;
                    *next += skipped;
                    behind -= skipped;
                    schedule.seek(*next);
                }
                self.ended = behind == 0 && schedule.is_over(elapsed);
                behind
            }
        }
    }

    /// Counts packets as sent.
    pub fn sent(&mut self, mut packets: u64) {
        match &mut self.pace {
            Pace::Scheduled { schedule, next } => {
                while let Some((second, left)) = schedule.second_of(*next).filter(|_| packets > 0) {
                    let here = packets.min(left);
                    self.offered.add(second, here);
                    *next += here;
                    packets -= here;
                }
                let elapsed = self.now.since(self.start.unwrap_or(self.now)).0;
                self.ended = schedule.is_over(elapsed) && schedule.second_of(*next).is_none();
                return;
            }
            Pace::Constant(constant) => constant.sent += packets,
            Pace::Unpaced => {}
        }
        let start = self.start.unwrap_or(self.now);
        self.offered.add(self.now.since(start).0 / SECOND, packets);
    }

    /// Which load the next packet is of; `None` without a schedule.
    #[inline]
    pub fn next_load(&mut self) -> Option<usize> {
        match &mut self.pace {
            Pace::Scheduled { schedule, .. } => Some(schedule.next_load()),
            _ => None,
        }
    }

    /// When the next packet is due, or the schedule at its end; a time that has passed means now. `None`:
    /// never.
    pub fn next(&self) -> Option<Nanos> {
        let Some(start) = self.start else { return Some(Nanos(0)) };
        match &self.pace {
            Pace::Unpaced => Some(Nanos(0)),
            Pace::Constant(constant) => Some(constant.next()),
            Pace::Scheduled { schedule, next } => {
                let after = schedule.time_of(*next).or(schedule.end())?;
                (!self.ended).then(|| start.saturating_add(Nanos(after)))
            }
        }
    }
}

/// The most packets that a worker that was away makes up for.
fn caught_up_with(rate: u64, batch: u64) -> u64 {
    let most = u128::from(rate) * u128::from(LONGEST_CATCH_UP) / u128::from(SECOND);
    (most as u64).max(LEAST_CATCH_UP).next_multiple_of(batch)
}

/// Packets at a constant rate.
#[derive(Debug)]
struct Constant {
    rate: u64,
    batch: u64,
    /// When the first packet that is counted in `sent` was due.
    start: Option<Nanos>,
    sent: u64,
}

impl Constant {
    fn new(rate: u64, batch: u32) -> Constant {
        Constant { rate: rate.max(1), batch: u64::from(batch.max(1)), start: None, sent: 0 }
    }

    fn due(&mut self, now: Nanos, skipped: &mut u64) -> u64 {
        let start = *self.start.get_or_insert(now);
        let elapsed = u128::from(now.since(start).0);
        let due = elapsed * u128::from(self.rate) / u128::from(SECOND) + 1;
        let due = u64::try_from(due).unwrap_or(u64::MAX / 2).next_multiple_of(self.batch);
        let behind = due.saturating_sub(self.sent);
        let most = caught_up_with(self.rate, self.batch);
        if behind > most {
            *skipped += behind - most;
            let back = u128::from(most - self.batch) * u128::from(SECOND) / u128::from(self.rate);
            self.start = Some(Nanos(now.0.saturating_sub(u64::try_from(back).unwrap_or(u64::MAX))));
            self.sent = 0;
            return most;
        }
        behind
    }

    fn next(&self) -> Nanos {
        let Some(start) = self.start else { return Nanos(0) };
        let first = self.sent - self.sent % self.batch;
        let after = (u128::from(first) * u128::from(SECOND)).div_ceil(u128::from(self.rate));
        start.saturating_add(Nanos(u64::try_from(after).unwrap_or(u64::MAX)))
    }
}
