//! Tables are keyed, and checks made, by what no sender knows.

use super::*;
use nf_sdk::RANDOM;

/// A balancer of a start with these random bytes, and when its first packets come.
fn bench(random: u8, begin: f64) -> Bench {
    let config = configure(&web(3, ""), "").expect("allowed");
    let runner = Runner::with_random(&config, [random; RANDOM]).expect("a good configuration");
    Bench { runner, now: begin }
}

/// Shows it the beginnings of a hundred connections; how many it knows then.
fn open(bench: &mut Bench) -> usize {
    for port in 1000..1100 {
        bench.show(0, segment(&end("203.0.113.1", port), &end(VIP, 80), flags::SYN, 0));
    }
    bench.runner.function().balancer.connections.len()
}

#[test]
fn places_are_the_starts_and_not_the_times() {
    let hash = |random, begin| {
        let mut bench = bench(random, begin);
        assert_eq!(open(&mut bench), 100);
        bench.runner.function().balancer.connections.hash4(1, 2, 3)
    };
    assert_eq!(hash(1, 0.0), hash(1, 12_345.678_9), "the time decides nothing");
    assert_ne!(hash(1, 0.0), hash(2, 0.0));
}

#[test]
fn connections_go_on_under_another_secret() {
    let mut old = bench(1, 0.0);
    open(&mut old);
    let state = old.runner.export_state().expect("offered");
    let mut new = bench(2, 0.0);
    assert!(new.runner.import_state(&state));
    assert_eq!(open(&mut new), 100, "all of them are known");
}
