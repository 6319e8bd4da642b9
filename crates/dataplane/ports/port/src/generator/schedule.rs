//! Which packets are due in which second, and of which flows they are: all of it computed from a packet's
//! number.
//!
//! Loads that overlap add up. Between two seconds at which one begins or ends the rate is constant, a
//! [`Segment`]. Each of its seconds has as many packets as its rate says, spread evenly from the second's
//! beginning on.

use super::config::Load;

pub(super) const SECOND: u64 = 1_000_000_000;

/// A time in which the rate is constant.
#[derive(Clone, Debug)]
struct Segment {
    /// Its first second.
    start: u64,
    /// Packets per second.
    rate: u64,
    /// Packets of all segments before it.
    before: u64,
    shares: Vec<Share>,
}

/// A load's part in a segment.
#[derive(Clone, Debug)]
struct Share {
    load: usize,
    rate: i64,
    /// What it is behind its due part, in packets times the segment's rate.
    credit: i64,
}

/// When packets are due.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    segments: Vec<Segment>,
    /// Seconds of the whole.
    length: u64,
    /// Packets of the whole.
    total: u64,
    repeat: bool,
    /// Packets that become due together.
    batch: u64,
    /// Segment of the next packet, and its packets from there on.
    segment: usize,
    left: u64,
}

impl Schedule {
    /// Of loads that were checked, at least one of them.
    pub fn new(loads: &[Load], repeat: bool, batch: u32) -> Schedule {
        let mut seconds: Vec<u32> = loads.iter().flat_map(|load| [load.from, load.to]).chain([0]).collect();
        seconds.sort_unstable();
        seconds.dedup();
        let (mut segments, mut total) = (Vec::with_capacity(seconds.len()), 0u64);
        for (from, to) in seconds.iter().zip(seconds.iter().skip(1)) {
            let active = loads.iter().enumerate().filter(|(_, load)| load.from <= *from && load.to >= *to);
            let shares: Vec<_> =
                active.map(|(n, load)| Share { load: n, rate: load.rate as i64, credit: 0 }).collect();
            let rate = shares.iter().map(|share| share.rate as u64).sum();
            segments.push(Segment { start: u64::from(*from), rate, before: total, shares });
            total += rate * u64::from(to - from);
        }
        let length = seconds.last().copied().unwrap_or(0).into();
        Schedule { segments, length, total, repeat, batch: u64::from(batch.max(1)), segment: 0, left: 0 }
    }

    /// Packets that become due together.
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// The highest number of loads at once, and the highest rate.
    pub fn peaks(&self) -> (usize, u64) {
        let loads = self.segments.iter().map(|segment| segment.shares.len()).max();
        (loads.unwrap_or(0), self.segments.iter().map(|segment| segment.rate).max().unwrap_or(0))
    }

    /// The segment of a second within the schedule.
    fn at_second(&self, second: u64) -> Option<&Segment> {
        let after = self.segments.partition_point(|segment| segment.start <= second);
        self.segments.get(after.checked_sub(1)?)
    }

    /// The segment of a packet within the schedule.
    fn of_packet(&self, number: u64) -> Option<(usize, &Segment)> {
        let at = self.segments.partition_point(|segment| segment.before <= number).checked_sub(1)?;
        Some((at, self.segments.get(at)?))
    }

    /// The number of the first packet after a segment.
    fn end_of(&self, segment: usize) -> u64 {
        self.segments.get(segment + 1).map_or(self.total, |next| next.before)
    }

    /// Packets per second at a time since the start.
    pub fn rate_at(&self, elapsed: u64) -> u64 {
        let second = elapsed / SECOND;
        if second >= self.length && !self.repeat {
            return 0;
        }
        self.at_second(second % self.length).map_or(0, |segment| segment.rate)
    }

    /// Whether the schedule is over at a time since the start.
    pub fn is_over(&self, elapsed: u64) -> bool {
        !self.repeat && elapsed / SECOND >= self.length
    }

    /// How many packets are due from the start up to a time since then, that time included.
    pub fn due(&self, elapsed: u64) -> u64 {
        let (second, part) = (elapsed / SECOND, elapsed % SECOND);
        if self.is_over(elapsed) {
            return self.total;
        }
        let (cycles, second) = (second / self.length, second % self.length);
        let Some(segment) = self.at_second(second) else { return 0 };
        let begun = u128::from(part) * u128::from(segment.rate) / u128::from(SECOND) + 1;
        let now = (begun as u64).next_multiple_of(self.batch).min(segment.rate);
        let whole = segment.before + (second - segment.start) * segment.rate;
        cycles.saturating_mul(self.total).saturating_add(whole + now)
    }

    /// The second of a packet, from the start, and how many of its packets come after this one, itself
    /// included.
    pub fn second_of(&self, number: u64) -> Option<(u64, u64)> {
        let (second, _, left) = self.place(number)?;
        Some((second, left))
    }

    /// When a packet is due, since the start; `None` when there is no such packet.
    pub fn time_of(&self, number: u64) -> Option<u64> {
        let (second, part, _) = self.place(number)?;
        Some(second.saturating_mul(SECOND).saturating_add(part))
    }

    /// Second, nanoseconds within it, and packets that it has left.
    fn place(&self, number: u64) -> Option<(u64, u64, u64)> {
        let cycle = number.checked_div(self.total).filter(|cycle| self.repeat || *cycle == 0)?;
        let number = number % self.total;
        let (_, segment) = self.of_packet(number)?;
        let into = number - segment.before;
        let (second, nth) = (into.checked_div(segment.rate)?, into % segment.rate);
        let first = nth - nth % self.batch;
        let part = (u128::from(first) * u128::from(SECOND)).div_ceil(segment.rate.into()) as u64;
        let second = cycle.saturating_mul(self.length).saturating_add(segment.start + second);
        Some((second, part, segment.rate - nth))
    }

    /// The end of the whole, since the start; `None` when it repeats.
    pub fn end(&self) -> Option<u64> {
        (!self.repeat).then(|| self.length * SECOND)
    }

    /// The next packet whose load is asked for is this one.
    pub fn seek(&mut self, number: u64) {
        let found = number.checked_rem(self.total).and_then(|number| {
            let (at, _) = self.of_packet(number)?;
            Some((at, self.end_of(at) - number))
        });
        (self.segment, self.left) = found.unwrap_or((0, 0));
    }

    /// The load that the next packet belongs to. In each whole second each has as many as its rate says.
    #[inline]
    pub fn next_load(&mut self) -> usize {
        while self.left == 0 {
            self.segment = if self.segment + 1 < self.segments.len() { self.segment + 1 } else { 0 };
            let Some(segment) = self.segments.get(self.segment).filter(|_| self.total > 0) else { return 0 };
            self.left = self.end_of(self.segment) - segment.before;
        }
        self.left -= 1;
        let Some(segment) = self.segments.get_mut(self.segment) else { return 0 };
        if let [only] = segment.shares.as_slice() {
            return only.load;
        }
        // Every load's credit grows by its rate, and the load with most credit pays for a packet: after as
        // many packets as there are in a second all credits are even again.
        let mut most: Option<&mut Share> = None;
        for share in &mut segment.shares {
            share.credit += share.rate;
            if most.as_ref().is_none_or(|most| share.credit > most.credit) {
                most = Some(share);
            }
        }
        let Some(chosen) = most else { return 0 };
        chosen.credit -= segment.rate as i64;
        chosen.load
    }
}
