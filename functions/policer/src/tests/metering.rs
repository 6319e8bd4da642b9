//! Token buckets against the definition in exact rational arithmetic, with 128 bits.

use crate::meter::{GREEN, Level, Limits, MAX_BURST, Meter, RED, YELLOW};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

/// A bucket by its definition: the content in tokens of which `per` make a bit or a packet, so that a second
/// of 10^9 ns brings `rate * per`, and `per` = 10^9 makes it whole.
#[derive(Clone, Copy)]
struct Plain {
    rate: u128,
    cap: u128,
    content: u128,
}

impl Plain {
    fn new(rate: u64, cap: u128) -> Plain {
        Plain { rate: u128::from(rate), cap, content: cap }
    }

    /// What does not fit.
    fn add(&mut self, tokens: u128) -> u128 {
        let sum = self.content + tokens;
        self.content = sum.min(self.cap);
        sum - self.content
    }
}

const BIT: u128 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
enum Mode {
    Single,
    TwoRate,
    SingleRate,
}

/// The three ways by their definitions: RFC 2698 section 3, RFC 2697 section 3, and both limits at once.
struct Model {
    mode: Mode,
    buckets: [Plain; 2],
    last: u64,
}

impl Model {
    fn take(&mut self, now: u64, bytes: u128, packets: u128) -> usize {
        let elapsed = u128::from(now - self.last);
        self.last = now;
        let [first, second] = &mut self.buckets;
        let bits = bytes * 8 * BIT;
        let spilled = first.add(elapsed * first.rate);
        match self.mode {
            Mode::SingleRate => second.add(spilled),
            Mode::Single | Mode::TwoRate => second.add(elapsed * second.rate),
        };
        match self.mode {
            Mode::Single => {
                let costs = [bits, packets * BIT];
                if first.content < costs[0] || second.content < costs[1] {
                    return YELLOW;
                }
                first.content -= costs[0];
                second.content -= costs[1];
                GREEN
            }
            Mode::TwoRate => {
                if second.content < bits {
                    return RED;
                }
                second.content -= bits;
                if first.content < bits {
                    return YELLOW;
                }
                first.content -= bits;
                GREEN
            }
            Mode::SingleRate => {
                for (bucket, colour) in [(first, GREEN), (second, YELLOW)] {
                    if bucket.content >= bits {
                        bucket.content -= bits;
                        return colour;
                    }
                }
                RED
            }
        }
    }
}

fn both(mode: Mode, rates: [u64; 2], bursts: [u64; 2]) -> (Limits, Model) {
    let bytes = |n: usize| Plain::new(rates[n], u128::from(bursts[n]) * 8 * BIT);
    let (limits, second) = match mode {
        Mode::Single => (
            Limits::single(
                Some(Meter::bytes(rates[0], bursts[0])),
                Some(Meter::packets(rates[1].min(1_000_000_000), bursts[1])),
            ),
            Plain::new(rates[1].min(1_000_000_000), u128::from(bursts[1]) * BIT),
        ),
        Mode::TwoRate => {
            (Limits::two_rate(Meter::bytes(rates[0], bursts[0]), Meter::bytes(rates[1], bursts[1])), bytes(1))
        }
        Mode::SingleRate => (Limits::single_rate(Meter::bytes(rates[0], bursts[0]), bursts[1]), bytes(1)),
    };
    (limits, Model { mode, buckets: [bytes(0), second], last: 0 })
}

/// From the least to the most, by orders of magnitude.
fn spread(most: u64) -> impl Strategy<Value = u64> {
    (0..64u32, any::<u64>()).prop_map(move |(shift, number)| (number >> shift) % most + 1)
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Single), Just(Mode::TwoRate), Just(Mode::SingleRate)]
}

proptest! {
    #[test]
    fn every_colour_is_the_definitions(
        mode in mode(), rates in [spread(1_000_000_000_000), spread(1_000_000_000_000)],
        bursts in [spread(MAX_BURST), spread(MAX_BURST)],
        packets in prop::collection::vec((prop_oneof![0..3u64, spread(1 << 62)], spread(70_000), 1..60u32), 1..200),
    ) {
        let (limits, mut model) = both(mode, rates, bursts);
        let (mut level, mut now) = (limits.full(0), 0u64);
        for (later, bytes, count) in packets {
            now = now.saturating_add(later);
            let wanted = model.take(now, u128::from(bytes), u128::from(count));
            prop_assert_eq!(limits.take(&mut level, now, bytes as u32, count), wanted);
            prop_assert_eq!(level.map(u128::from), [u128::from(now), model.buckets[0].content, model.buckets[1].content]);
            let full = model.buckets.iter().all(|bucket| bucket.content == bucket.cap);
            prop_assert_eq!(limits.is_full(&level, now), full);
        }
    }

    /// What passes in any interval is at most what the rate brings in it and one burst.
    #[test]
    fn no_interval_has_more_than_rate_and_burst(
        rate in spread(10_000_000_000), burst in 1..200_000u64, packet_rate in spread(10_000_000), packet_burst in 1..100u64,
        packets in prop::collection::vec((spread(40_000_000), 40..65_536u32, 1..50u32), 1..120),
    ) {
        let limits = Limits::single(
            Some(Meter::bytes(rate, burst)), Some(Meter::packets(packet_rate, packet_burst)));
        let (mut level, mut now, mut passed) = (limits.full(0), 0u64, vec![]);
        for (later, bytes, count) in packets {
            now += later;
            if limits.take(&mut level, now, bytes, count) == GREEN {
                passed.push((now, u128::from(bytes), u128::from(count)));
            }
        }
        for first in 0..passed.len() {
            let (mut bytes, mut packets) = (0, 0);
            for (time, more, count) in &passed[first..] {
                (bytes, packets) = (bytes + more, packets + count);
                let span = u128::from(time - passed[first].0);
                prop_assert!(bytes * 8 * BIT <= u128::from(rate) * span + u128::from(burst) * 8 * BIT);
                prop_assert!(packets * BIT <= u128::from(packet_rate) * span + u128::from(packet_burst) * BIT);
            }
        }
    }

    #[test]
    fn the_rate_is_reached_without_drift(rate in 1_000_000..10_000_000_000u64, step in 1..2_000_000u64) {
        // Always more on offer than may pass: over a long time it is the rate to a packet, however uneven the
        // steps.
        let limits = Limits::single(Some(Meter::bytes(rate, 200_000)), None);
        let (mut level, mut now, mut bytes): (Level, u64, u128) = (limits.full(0), 0, 0);
        for n in 0..3_000u64 {
            now += 1 + (n * 7_919) % step;
            let mut most = 100_000;
            while most > 0 && limits.take(&mut level, now, 1_000, 1) == GREEN {
                bytes += 1_000;
                most -= 1;
            }
        }
        let brought = u128::from(rate) * u128::from(now) / (8 * BIT) + 200_000;
        prop_assert!(bytes <= brought);
        // Steps in which more came than the bucket holds lose some.
        if u128::from(rate) * u128::from(step) < 190_000 * 8 * BIT {
            prop_assert!(bytes + 1_001 > brought, "{} of {}", bytes, brought);
        }
    }

    #[test]
    fn handing_over_takes_out_what_was_missing(
        mode in mode(), rates in [spread(1 << 30), spread(1 << 30)], bursts in [spread(MAX_BURST), spread(MAX_BURST)],
        taken in prop::collection::vec(spread(100_000), 0..20), other in any::<[u64; 2]>(),
    ) {
        let (limits, _) = both(mode, rates, bursts);
        let mut level = limits.full(5);
        for bytes in taken {
            limits.take(&mut level, 5, bytes as u32, 1);
        }
        let full = limits.full(5);
        prop_assert_eq!(limits.merge(&full, [level[1], level[2]]), Some(level));
        prop_assert_eq!(limits.merge(&level, [full[1], full[2]]), Some(level));
        let possible = other[0] <= full[1] && other[1] <= full[2];
        prop_assert_eq!(limits.merge(&level, other).is_some(), possible);
    }
}

#[test]
fn extremes_neither_overflow_nor_stop() {
    let colours: Vec<usize> = [1, 1_000_000_000_000]
        .into_iter()
        .flat_map(|rate| {
            let limits = Limits::single_rate(Meter::bytes(rate, MAX_BURST), MAX_BURST);
            let mut level = limits.full(0);
            [(0, u32::MAX), (u64::MAX, MAX_BURST as u32), (u64::MAX, MAX_BURST as u32), (0, 1)]
                .map(|(now, bytes)| limits.take(&mut level, now, bytes, u32::MAX))
        })
        .collect();
    // Time does not run backwards for the last one: there is nothing left.
    assert_eq!(colours, [RED, GREEN, YELLOW, RED, RED, GREEN, YELLOW, RED]);
}
