//! What others must not foresee.

use super::frames::flags::{ACK, SYN};
use super::frames::*;
use nf_sdk::RANDOM;
use nf_sdk::native::{ConfigValue, Runner};

const CHOSEN: (&str, ConfigValue) = ("preserve_ports", ConfigValue::Boolean(false));

/// A translator of a start with these random bytes, whose first packet comes then.
fn bench(random: u8, begin: f64) -> Bench {
    let runner = Runner::with_random(&config(&[CHOSEN]), [random; RANDOM]).expect("a good configuration");
    Bench { runner, now: begin }
}

/// The outside ports of sixteen inside ends.
fn ports(random: u8, begin: f64) -> Vec<u16> {
    let mut bench = bench(random, begin);
    (0..16).map(|n| bench.mapped(udp((A, 4000 + n), (R, 80))).1).collect()
}

#[test]
fn outside_ports_are_the_starts_and_not_the_times() {
    assert_eq!(ports(1, 0.0), ports(1, 12_345.678_9), "the time decides nothing");
    let (one, other) = (ports(1, 0.0), ports(2, 0.0));
    let same = one.iter().zip(&other).filter(|(one, other)| one == other).count();
    assert!(same < 4, "{same} of 16 are those of another start");
}

#[test]
fn sessions_go_on_under_another_secret() {
    let mut old = bench(1, 0.0);
    let mapped: Vec<_> = (0..200).map(|n| old.mapped(tcp((A, 4000 + n), (R, 80), SYN))).collect();
    let state = old.runner.export_state().expect("offered");
    let mut new = bench(2, 0.0);
    assert!(new.runner.import_state(&state));
    for (n, mapped) in (0..).zip(&mapped) {
        assert_eq!(new.inward(tcp((R, 80), (EXT, mapped.1), SYN | ACK)), end(A, 4000 + n));
        assert_eq!(new.mapped(tcp((A, 4000 + n), (R, 80), ACK)), *mapped);
    }
}
