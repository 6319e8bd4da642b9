//! Token buckets, in whole numbers: nothing is ever rounded, so nothing drifts.
//!
//! A bit is [`BIT`] tokens and a packet [`PACKET`], so that every nanosecond brings a whole number of them:
//! as many as the rate has bits or packets in a second.
//!
//! Nothing overflows either. With a burst of at most [`MAX_BURST`] a bucket holds below 2^62 tokens, of a
//! single-rate marker both together below 2^63; time is cut to what fills them, so that a refill brings at
//! most that and one nanosecond's worth, and the sum with what is there stays below 2^64.

/// Tokens of a bit.
pub const BIT: u64 = 1_000_000_000;
/// Tokens of a byte.
pub const BYTE: u64 = 8 * BIT;
/// Tokens of a packet.
pub const PACKET: u64 = 1_000_000_000;
/// Largest burst, in bytes.
pub const MAX_BURST: u64 = 512 << 20;
/// Largest burst, in packets.
pub const MAX_PACKET_BURST: u64 = 1_000_000_000;
/// Highest rate, in bits a second.
pub const MAX_RATE: u64 = 1_000_000_000_000;
/// Highest rate, in packets a second.
pub const MAX_PACKET_RATE: u64 = 1_000_000_000;

/// Conforms: within all limits.
pub const GREEN: usize = 0;
/// Exceeds: beyond the limit, or with three colours beyond the first.
pub const YELLOW: usize = 1;
/// Violates: with three colours, beyond both.
pub const RED: usize = 2;

/// What a bucket is filled with, and what a packet takes out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Tokens a nanosecond.
    rate: u64,
    /// Tokens of a full bucket.
    cap: u64,
    /// Nanoseconds after which it is full whatever was in it.
    fill: u64,
    byte: u64,
    packet: u64,
}

impl Meter {
    /// Bytes, at a rate in bits a second.
    pub fn bytes(rate: u64, burst: u64) -> Meter {
        let (rate, cap) = (rate.clamp(1, MAX_RATE), burst.clamp(1, MAX_BURST) * BYTE);
        Meter { rate, cap, fill: cap.div_ceil(rate), byte: BYTE, packet: 0 }
    }

    /// Packets, at a rate in packets a second.
    pub fn packets(rate: u64, burst: u64) -> Meter {
        let (rate, cap) = (rate.clamp(1, MAX_PACKET_RATE), burst.clamp(1, MAX_PACKET_BURST) * PACKET);
        Meter { rate, cap, fill: cap.div_ceil(rate), byte: 0, packet: PACKET }
    }
}

/// A bucket's pair of meters at a time: nanoseconds, then tokens in the first and in the second.
pub type Level = [u64; 3];

/// What happens, by whether the first and the second meter have enough: a colour, and out of which meters the
/// packet is taken, as masks.
type Outcome = (usize, [u64; 2]);

const NO: u64 = 0;
const YES: u64 = u64::MAX;

/// Two meters and how they make a colour. One that is not used holds nothing and is asked for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    meters: [Meter; 2],
    /// Whether what the first has too much goes to the second: all bits or none.
    spill: u64,
    /// Whether yellow and red are told apart.
    three_colours: bool,
    /// By `first | second << 1`.
    outcomes: [Outcome; 4],
}

impl Limits {
    /// Bytes and packets, either or both; a packet has to keep to both.
    pub fn single(bytes: Option<Meter>, packets: Option<Meter>) -> Limits {
        let meters = [bytes.unwrap_or_default(), packets.unwrap_or_default()];
        let beyond = (YELLOW, [NO, NO]);
        let outcomes = [beyond, beyond, beyond, (GREEN, [YES, YES])];
        Limits { meters, spill: NO, three_colours: false, outcomes }
    }

    /// The two-rate three-colour marker, colour-blind (RFC 2698 section 3): red beyond the peak, else yellow
    /// beyond the committed rate.
    pub fn two_rate(committed: Meter, peak: Meter) -> Limits {
        let red = (RED, [NO, NO]);
        let outcomes = [red, red, (YELLOW, [NO, YES]), (GREEN, [YES, YES])];
        Limits { meters: [committed, peak], spill: NO, three_colours: true, outcomes }
    }

    /// The single-rate three-colour marker, colour-blind (RFC 2697 section 3): what the committed bucket has
    /// too much goes to the excess bucket.
    pub fn single_rate(committed: Meter, excess_burst: u64) -> Limits {
        let cap = excess_burst.clamp(1, MAX_BURST) * BYTE;
        let committed = Meter { fill: (committed.cap + cap).div_ceil(committed.rate), ..committed };
        let excess = Meter { rate: 0, fill: 0, cap, ..committed };
        let first = (GREEN, [YES, NO]);
        let outcomes = [(RED, [NO, NO]), first, (YELLOW, [NO, YES]), first];
        Limits { meters: [committed, excess], spill: YES, three_colours: true, outcomes }
    }

    /// Whether yellow and red are told apart.
    pub fn has_three_colours(&self) -> bool {
        self.three_colours
    }

    /// Full buckets, at a time.
    #[inline(always)]
    pub fn full(&self, now: u64) -> Level {
        [now, self.meters[0].cap, self.meters[1].cap]
    }

    /// Adds what came since. Time that runs backwards brings nothing.
    #[inline(always)]
    fn refill(&self, level: &Level, now: u64) -> [u64; 2] {
        let elapsed = now.saturating_sub(level[0]);
        let [first, second] = &self.meters;
        let sum = level[1] + elapsed.min(first.fill) * first.rate;
        let kept = sum.min(first.cap);
        let sum = level[2] + elapsed.min(second.fill) * second.rate + ((sum - kept) & self.spill);
        [kept, sum.min(second.cap)]
    }

    /// Colours a packet, or several at once that pass or not together, and takes them out.
    #[inline(always)]
    pub fn take(&self, level: &mut Level, now: u64, bytes: u32, packets: u32) -> usize {
        let [first, second] = self.refill(level, now);
        // More than a bucket can hold is as much as too much.
        let bytes = u64::from(bytes).min(MAX_BURST + 1);
        let packets = u64::from(packets).min(MAX_PACKET_BURST + 1);
        let cost = |meter: &Meter| bytes * meter.byte + packets * meter.packet;
        let costs = [cost(&self.meters[0]), cost(&self.meters[1])];
        let enough = usize::from(first >= costs[0]) | usize::from(second >= costs[1]) << 1;
        let (colour, take) = &self.outcomes[enough];
        *level = [now.max(level[0]), first - (costs[0] & take[0]), second - (costs[1] & take[1])];
        *colour
    }

    /// What is in the buckets at a time.
    pub fn at(&self, level: &Level, now: u64) -> Level {
        let [first, second] = self.refill(level, now);
        [now.max(level[0]), first, second]
    }

    /// Whether they are full: then they are as if they had never been used.
    #[inline]
    pub fn is_full(&self, level: &Level, now: u64) -> bool {
        self.refill(level, now) == [self.meters[0].cap, self.meters[1].cap]
    }

    /// Takes out what is missing in another pair as well, down to empty; `None` when those hold more than
    /// they can.
    pub fn merge(&self, level: &Level, other: [u64; 2]) -> Option<Level> {
        let mut merged = *level;
        for ((level, other), meter) in merged[1..].iter_mut().zip(other).zip(&self.meters) {
            *level = level.saturating_sub(meter.cap.checked_sub(other)?);
        }
        Some(merged)
    }

    /// All that makes them differ from others.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        let meters = self.meters.map(|meter| [meter.rate, meter.cap, meter.fill, meter.byte, meter.packet]);
        meters.into_iter().flatten().chain([self.spill, u64::from(self.three_colours)])
    }

    /// Bytes and packets that would pass now, of what is metered.
    pub fn room(&self, level: &Level, now: u64) -> (Option<u64>, Option<u64>) {
        let levels = self.refill(level, now);
        let mut room = (None, None);
        for (meter, tokens) in self.meters.iter().zip(levels).rev() {
            if meter.byte != 0 {
                room.0 = Some(tokens / BYTE);
            }
            if meter.packet != 0 {
                room.1 = Some(tokens / PACKET);
            }
        }
        room
    }
}
