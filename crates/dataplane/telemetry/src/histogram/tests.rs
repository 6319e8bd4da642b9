use super::buckets::{BUCKETS, LIMIT, index, upper};
use super::{Distribution, Recorder};
use proptest::prelude::*;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Of all sizes alike, bounds and their neighbours among them.
fn value() -> impl Strategy<Value = u64> {
    let near = (0u32..64, -2i64..=2).prop_map(|(bits, off)| (1u64 << bits).saturating_add_signed(off));
    let any = (0u32..64, any::<u64>()).prop_map(|(shift, value)| value >> shift);
    prop_oneof![near, any, 0u64..40, Just(u64::MAX)]
}

fn values() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(value(), 0..200)
}

fn distribution(values: &[u64]) -> Distribution {
    let mut all = Distribution::default();
    values.iter().for_each(|value| all.record(*value));
    all
}

#[test]
fn buckets_follow_each_other_without_gap() {
    let mut above = 0;
    for bucket in 0..BUCKETS {
        let up_to = upper(bucket);
        assert!(up_to > above, "{bucket}");
        assert_eq!((index(above + 1), index(up_to)), (bucket, bucket));
        if bucket + 1 < BUCKETS {
            assert!(up_to - above <= 1 || (up_to - above) * 8 <= above, "{above} to {up_to} is too wide");
        }
        above = up_to;
    }
    assert_eq!(above, u64::MAX);
    assert_eq!((index(0), index(LIMIT), index(LIMIT + 1)), (0, BUCKETS - 2, BUCKETS - 1));
}

proptest! {
    #[test]
    fn a_value_is_in_its_bucket(value in value()) {
        let bucket = index(value);
        prop_assert!(value <= upper(bucket));
        prop_assert!(bucket == 0 || value > upper(bucket - 1));
    }

    #[test]
    fn quantiles_are_at_most_an_eighth_above(mut values in prop::collection::vec(0..=LIMIT, 1..200), q in 0.0..=1.0) {
        let found = distribution(&values).quantile(q).expect("there are values");
        values.sort_unstable();
        let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
        let exact = values[rank - 1];
        prop_assert!(found >= exact && found - exact <= (exact / 8).max(1), "{found} for {exact}");
    }

    #[test]
    fn what_is_not_above_a_power_of_two_is_counted_exactly(values in values()) {
        let mut bounds: Vec<u64> = (0..=40).map(|bits| 1 << bits).collect();
        bounds.push(u64::MAX);
        let expected: Vec<u64> =
            bounds.iter().map(|bound| values.iter().filter(|value| *value <= bound).count() as u64).collect();
        prop_assert_eq!(distribution(&values).at_most(&bounds), expected);
    }

    #[test]
    fn merging_is_recording_all(one in values(), other in values()) {
        let mut merged = distribution(&one);
        merged.merge(&distribution(&other));
        prop_assert_eq!(merged, distribution(&[one, other].concat()));
    }

    #[test]
    fn recorders_count_what_distributions_do(values in prop::collection::vec((0..=LIMIT, 0u64..5), 0..100)) {
        let mut recorder = Recorder::new();
        let mut expected = Distribution::default();
        for (value, times) in values {
            recorder.record_many(value, times);
            (0..times).for_each(|_| expected.record(value));
        }
        prop_assert_eq!(recorder.histogram().read(), expected);
    }
}

#[test]
fn of_nothing_there_are_no_quantiles() {
    let none = Distribution::default();
    assert_eq!((none.quantile(0.5), none.count(), none.sum(), none.largest()), (None, 0, 0, 0));
    let mut one = none;
    one.record(u64::MAX);
    assert_eq!((one.quantile(0.0), one.quantile(1.0)), (Some(u64::MAX), Some(u64::MAX)));
}

#[test]
fn readers_see_counts_grow_while_several_workers_record() {
    const EACH: u64 = 200_000;
    const WORKERS: u64 = 2;
    let mut recorders: Vec<Recorder> = (0..WORKERS).map(|_| Recorder::new()).collect();
    let histograms: Vec<_> = recorders.iter().map(Recorder::histogram).collect();
    let merged = || {
        let mut all = Distribution::default();
        histograms.iter().for_each(|histogram| all.merge(&histogram.read()));
        all
    };
    let barrier = Barrier::new(recorders.len() + 1);
    thread::scope(|scope| {
        for recorder in &mut recorders {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                (1..=EACH).for_each(|value| recorder.record(value));
            });
        }
        barrier.wait();
        let mut before = 0;
        while before < WORKERS * EACH {
            let now = merged().count();
            assert!(now >= before, "{now} after {before}");
            before = now;
            thread::yield_now();
        }
        assert_eq!(before, WORKERS * EACH);
    });
    let all = merged();
    assert_eq!((all.sum(), all.largest()), (WORKERS * EACH * (EACH + 1) / 2, EACH));
}

/// `cargo test --release -p telemetry -- --ignored --nocapture cost`
#[test]
#[ignore = "a measurement"]
fn cost() {
    const VALUES: u64 = 10_000_000;
    let mut recorder = Recorder::new();
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            let begin = Instant::now();
            let mut value = 1u64;
            for _ in 0..VALUES {
                // 40 to 40,000, as calls take.
                value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                recorder.record(40 + (value >> 33) % 40_000);
            }
            begin.elapsed().as_nanos() as f64 / VALUES as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("record: {:.2} ns, from {:.2} to {:.2}", times[3], times[0], times[6]);
    assert_eq!(recorder.histogram().read().count(), 7 * VALUES);
}
