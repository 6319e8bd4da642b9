//! Tables are keyed by what no sender knows.

use super::frames::*;
use nf_sdk::RANDOM;
use nf_sdk::native::Runner;

/// A function of a start with these random bytes, after a packet then.
fn bench(random: u8, begin: f64) -> Bench {
    let rules = "alert udp any any -> any 53 (msg:\"x\"; content:\"secret\"; sid:1;)";
    let runner = Runner::with_random(&config(rules, &[]), [random; RANDOM]).expect("a good configuration");
    let mut bench = Bench::new(rules, &[]);
    (bench.runner, bench.now) = (runner, begin);
    bench.show(0, udp(("10.0.0.1", 1000), ("10.0.0.2", 53), b"nothing"));
    bench
}

#[test]
fn places_are_the_starts_and_not_the_times() {
    let hash =
        |random, begin| bench(random, begin).runner.function().tracker().table.hash(&[1, 2, 3, 4, 5, 6]);
    assert_eq!(hash(1, 0.0), hash(1, 12_345.678_9), "the time decides nothing");
    assert_ne!(hash(1, 0.0), hash(2, 0.0));
}

#[test]
fn flows_go_on_under_another_secret() {
    let state = bench(1, 0.0).runner.export_state().expect("offered");
    let runner = Runner::with_random(&config("", &[]), [2; RANDOM]).expect("a good configuration");
    let mut bench = Bench::new("", &[]);
    (bench.runner, bench.now) = (runner, 1.0);
    assert!(bench.runner.import_state(&state));
    bench.show(0, udp(("10.0.0.1", 1000), ("10.0.0.2", 53), b"nothing"));
    assert_eq!(bench.runner.function().tracker().table.len(), 1, "it is the flow that came along");
    bench.show(0, udp(("10.0.0.1", 1001), ("10.0.0.2", 53), b"nothing"));
    assert_eq!(bench.runner.function().tracker().table.len(), 2);
}
