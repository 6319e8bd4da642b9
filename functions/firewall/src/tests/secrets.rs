//! Tables are keyed by what no sender knows.

use super::frames::*;
use nf_sdk::RANDOM;
use nf_sdk::native::frames::packet;
use nf_sdk::native::{ConfigValue, Runner};

/// UDP between two ends of one family.
fn udp(number: u16, from: &str, to: &str) -> Vec<u8> {
    let mut payload = vec![];
    payload.extend((1000 + number).to_be_bytes());
    payload.extend([0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
    packet(from, to, 17, &payload)
}

const ENDS: [(&str, &str); 2] = [("10.0.0.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::2")];

/// A firewall of a start with these random bytes that has seen forty flows of each family, the first then.
fn bench(random: u8, begin: f64) -> Bench {
    let config = config(vec![rule("accept", &[])], &[]);
    let runner = Runner::with_random(&config, [random; RANDOM]).expect("a good configuration");
    let mut bench = Bench { runner, now: begin };
    for (from, to) in ENDS {
        assert!((0..40).all(|number| bench.inside(udp(number, from, to)) == OUT));
    }
    bench
}

/// The flows of a family in the order of their places, which is that of the state.
fn order(random: u8, begin: f64, family: u8) -> Vec<Vec<u8>> {
    let state = bench(random, begin).runner.export_state().expect("offered");
    let mut keys = vec![];
    let mut rest = &state[..];
    while let Some((lengths, behind)) = rest.split_first_chunk::<8>() {
        let [key, value] = [0, 4].map(|at| u32::from_le_bytes(lengths[at..at + 4].try_into().expect("four")));
        keys.push(behind[..key as usize].to_vec());
        rest = &behind[(key + value) as usize..];
    }
    keys.into_iter().filter(|key| key[0] == family).collect()
}

#[test]
fn places_are_the_starts_and_not_the_times() {
    for family in [4, 6] {
        let one = order(1, 0.0, family);
        assert_eq!(one.len(), 40);
        assert_eq!(one, order(1, 12_345.678_9, family), "the time decides nothing");
        assert_ne!(one, order(2, 0.0, family), "another start has other places");
    }
}

#[test]
fn flows_go_on_under_another_secret() {
    let state = bench(1, 0.0).runner.export_state().expect("offered");
    let config = config(vec![], &[("established", ConfigValue::text("keep"))]);
    let runner = Runner::with_random(&config, [2; RANDOM]).expect("a good configuration");
    let mut bench = Bench { runner, now: 1.0 };
    assert!(bench.runner.import_state(&state));
    for (from, to) in ENDS {
        // No rule accepts them: they are of known flows.
        assert!((0..40).all(|number| bench.inside(udp(number, from, to)) == OUT));
        assert_eq!(bench.inside(udp(40, from, to)), drop::DENIED);
    }
}
