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

/// The addresses of two pairs, which came out the same while a pair was told by a known multiplication.
#[test]
fn pairs_are_told_apart_by_the_starts_secret() {
    const KNOWN: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let folded = |low: u128, high: u128| low.wrapping_mul(KNOWN) ^ high.rotate_left(57);
    let first = (0x2001_0db8_u128 << 96 | 1, 0x2001_0db8_u128 << 96 | 2);
    let alike = |other: u128| {
        let low = first.0 + 2 * other;
        (low, (folded(first.0, first.1) ^ low.wrapping_mul(KNOWN)).rotate_right(57))
    };
    let second = (1..).map(alike).find(|(low, high)| low < high).expect("half of them are in order");
    assert_eq!(folded(first.0, first.1), folded(second.0, second.1));

    let rule = "alert udp any any -> any any (content:\"a\"; threshold:type limit, track by_both, count 1, seconds 60; sid:1;)";
    let mut bench = Bench::new(rule, &[]);
    let mut sids = |(from, to): (u128, u128)| {
        let [from, to] = [from, to].map(|address| std::net::Ipv6Addr::from_bits(address).to_string());
        bench.sids(udp((&from, 1000), (&to, 53), b"a"))
    };
    assert_eq!((sids(first), sids(second)), (vec![1], vec![1]), "each pair has a count of its own");
    assert_eq!(
        (sids(first), sids((second.1, second.0))),
        (NONE.to_vec(), NONE.to_vec()),
        "in both directions"
    );
}

/// What alerts tell of flows is no part of the table's hash.
#[test]
fn numbers_of_flows_tell_nothing_of_their_places() {
    let rule = "alert udp any any -> any any (content:\"a\"; sid:1;)";
    let mut bench = Bench::new(rule, &[]);
    let told: Vec<(u64, u64)> = (1000..1100)
        .map(|port| {
            bench.show(0, udp(("10.0.0.1", port), ("10.0.0.2", 53), b"x"));
            let table = &bench.runner.function().tracker().table;
            let has_port = |flow: &&crate::flow::Flow| {
                [flow.key[4] & 0xffff, flow.key[4] >> 16 & 0xffff].contains(&u64::from(port))
            };
            let hash = table.hash(&table.iter().find(has_port).expect("a flow").key);
            let frame = udp(("10.0.0.1", port), ("10.0.0.2", 53), b"a");
            let id = |bench: &mut Bench| {
                bench.show(0, frame.clone());
                bench.runner.host().events().last().map(|line| {
                    let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
                    event["flow_id"].as_u64().expect("a number")
                })
            };
            let first = id(&mut bench).expect("an alert");
            assert_eq!(id(&mut bench), Some(first), "all alerts of a flow tell the same");
            assert!(first < 1 << 53);
            (hash, first)
        })
        .collect();
    // Of any two flows that began at the same time, numbers differ in other bits than hashes do.
    let (hash, id) = told[0];
    for (other_hash, other_id) in &told[1..] {
        assert_ne!((hash ^ other_hash) >> 13, (id ^ other_id) >> 1);
        assert_ne!(id, *other_id);
    }
}

#[test]
fn a_flow_keeps_its_number_on_its_way() {
    let rule = "alert udp any any -> any any (content:\"a\"; sid:1;)";
    let frame = udp(("10.0.0.1", 1000), ("10.0.0.2", 53), b"a");
    let flow = |bench: &mut Bench| {
        bench.show(0, frame.clone());
        let event: serde_json::Value = serde_json::from_str(&bench.runner.host().events()[0]).expect("JSON");
        event["flow_id"].as_u64().expect("a number")
    };
    for is_told_before in [false, true] {
        let mut old = Bench::new(rule, &[]);
        let told = is_told_before.then(|| flow(&mut old));
        old.show(0, udp(("10.0.0.1", 1000), ("10.0.0.2", 53), b"x"));
        let state = old.runner.export_state().expect("offered");
        let mut new = Bench::new(rule, &[]);
        new.runner = Runner::with_random(&config(rule, &[]), [2; RANDOM]).expect("a good configuration");
        new.now = 1.0;
        assert!(new.runner.import_state(&state));
        let numbers = [told.unwrap_or_else(|| flow(&mut old)), flow(&mut new)];
        assert_eq!(numbers[0], numbers[1]);
    }
}
