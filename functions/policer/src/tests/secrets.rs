//! The table is keyed by what no sender knows.

use super::*;
use nf_sdk::RANDOM;

/// The hash of a bucket in a start with these random bytes, after a packet then.
fn hash(random: u8, begin: u64) -> u64 {
    let config = configure("policers: [{key: [source], rate: 1Mbps, burst: 3KiB}]").expect("allowed");
    let mut runner = Runner::<Policers>::with_random(&config, [random; RANDOM]).expect("memory");
    ask(&mut runner, udp("10.0.0.1", [1, 2], "10.0.0.2", 100), 0, at(begin));
    let table = &runner.function().policing.table;
    assert_eq!(table.len(), 1);
    let slot = table.iter().next().expect("a bucket");
    table.hash(&table.get(slot).0)
}

#[test]
fn places_are_the_starts_and_not_the_times() {
    assert_eq!(hash(1, 0), hash(1, 987_654_321), "the time decides nothing");
    assert_ne!(hash(1, 0), hash(2, 0));
}
