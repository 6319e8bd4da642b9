use super::*;
use crate::taking::checked;
use crate::testing::{NOW, assert_conserved, pool};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

fn config(text: &str) -> Result<Config, String> {
    Config::from_value(&checked(SCHEMA, text).unwrap())
}

fn open(text: &str) -> GeneratorPort {
    GeneratorPort::new(config(text).unwrap()).unwrap()
}

fn after(nanos: u64) -> Nanos {
    Nanos(NOW.0 + nanos)
}

/// Takes all that is due, in batches; returns the destination ports of the packets, which are the flows when
/// they vary.
fn take(port: &mut GeneratorPort, pool: &Pool, now: Nanos) -> Vec<u16> {
    let (mut batch, mut flows) = (Vec::new(), Vec::new());
    loop {
        port.receive(pool, now, 32, &mut batch);
        if batch.is_empty() {
            return flows;
        }
        for packet in &batch {
            let mut destination = [0; 2];
            pool.read(packet, 36, &mut destination);
            flows.push(u16::from_be_bytes(destination));
        }
        port.transmit(pool, now, &mut batch);
    }
}

#[test]
fn schedules_come_from_the_schema() {
    let text = "{flows: 20, repeat: true, batch: 32, schedule: [{to: 5s, rate: 2Mpps}, {from: 5s, to: 1m, rate: 0pps},
        {from: 2s, to: 3s, rate: 7pps, flow: 3}, {to: 1s, rate: 1kpps, flow: 10, flows: 10},
        {to: 1s, rate: 1pps, flows: 2}]}";
    let load = |from, to, rate, flows| Load { from, to, rate, flows };
    let config = config(text).unwrap();
    assert_eq!((config.repeat, config.batch), (true, 32));
    let expected = [
        load(0, 5, 2_000_000, None),
        load(5, 60, 0, None),
        load(2, 3, 7, Some((3, 1))),
        load(0, 1, 1000, Some((10, 10))),
        load(0, 1, 1, Some((0, 2))),
    ];
    assert_eq!(config.schedule, expected);
    assert_eq!(
        [0, 1, 2, 5, 60].map(|second| config.scheduled(second)),
        [2_001_001, 2_000_000, 2_000_007, 0, 2_001_001]
    );
}

#[test]
fn impossible_schedules_are_refused_in_words() {
    let many = |load: &str, n: usize| format!("{{schedule: [{}]}}", vec![load; n].join(", "));
    for (text, words) in [
        ("{rate: 1pps, schedule: [{to: 1s, rate: 1pps}]}".to_owned(), "found both"),
        ("{repeat: true}".to_owned(), "found no schedule"),
        ("{batch: 2}".to_owned(), "neither rate nor schedule"),
        (
            "{schedule: [{to: 1s, rate: 1pps}, {from: 2s, to: 2s, rate: 1pps}]}".to_owned(),
            "[1]: found from 2s to 2s",
        ),
        (
            "{schedule: [{to: 1500ms, rate: 1pps}]}".to_owned(),
            "[0].to: found 1500000000ns; allowed: whole seconds",
        ),
        ("{flows: 4, schedule: [{to: 1s, rate: 1pps, flow: 4}]}".to_owned(), "of flows 0 to 3"),
        ("{flows: 4, schedule: [{to: 1s, rate: 1pps, flow: 2, flows: 3}]}".to_owned(), "3 flows from 2 on"),
        (many("{to: 1s, rate: 1Mpps}", 65), "found up to 65 loads"),
        (many("{to: 1s, rate: 600Mpps}", 2), "1200000000pps at a time"),
    ] {
        let error = config(&text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
    let refused = |config: Config| GeneratorPort::new(config).unwrap_err();
    let load = Load { from: 0, to: 1, rate: 1, flows: None };
    assert!(refused(Config { schedule: vec![load; 4097], ..Config::default() }).contains("at most 4096"));
    let empty = Load { flows: Some((0, 0)), ..load };
    assert!(refused(Config { schedule: vec![empty], ..Config::default() }).contains("found 0 flows"));
    let fast = Load { rate: 1 << 31, ..load };
    assert!(refused(Config { schedule: vec![fast], ..Config::default() }).contains("at most 1Gpps"));
    assert!(refused(Config { rate: Some(1), batch: 1025, ..Config::default() }).contains("1 to 1024"));
}

/// A source whose flows are told apart by their destination ports, 1000 to 1015.
fn by_port(schedule: Vec<Load>, repeat: bool, batch: u32, seed: u64) -> Config {
    let host = "10.0.0.1".parse().unwrap();
    Config {
        flows: 16,
        source: (host, 32),
        destination: (host, 32),
        source_ports: (1, 1),
        destination_ports: (1000, 1015),
        schedule,
        repeat,
        batch,
        seed,
        ..Config::default()
    }
}

prop_compose! {
    fn load()(from in 0u32..5, length in 1u32..4, rate in prop_oneof![Just(0u64), 1..50u64, 1..900u64], flow in 0u32..16,
        count in prop_oneof![Just(1u32), 1..16u32]) -> Load {
        Load { from, to: from + length, rate, flows: Some((flow, count.min(16 - flow))) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whenever a worker that wakes in time asks, each second and each load has exactly what the schedule
    /// says, at the times that the port said before.
    #[test]
    fn every_second_has_what_the_schedule_says(
        loads in prop::collection::vec(load(), 1..6),
        repeat: bool,
        batch in prop_oneof![Just(1u32), 2..64u32],
        seed: u64,
    ) {
        let config = by_port(loads, repeat, batch, seed);
        let pool = pool(64);
        let mut port = GeneratorPort::new(config.clone()).unwrap();
        let offered = port.offered();
        let length = u64::from(config.schedule.iter().map(|load| load.to).max().unwrap());
        let whole = config.schedule.iter().any(|load| load.rate > 0);
        let end = if repeat { 2 * length + 1 } else { length };
        let mut seconds = vec![BTreeMap::<u16, u64>::new(); end as usize];
        let mut now = NOW;
        while now < after(end * SECOND) {
            let second = now.since(NOW).0 / SECOND;
            for flow in take(&mut port, &pool, now) {
                *seconds[second as usize].entry(flow).or_default() += 1;
            }
            let wake = port.wake().at;
            match wake {
                None => {
                    prop_assert!(!whole && repeat, "only what has no packets sleeps for ever");
                    break;
                }
                Some(at) => {
                    prop_assert!(at > now);
                    prop_assert!(take(&mut port, &pool, Nanos(at.0 - 1)).is_empty());
                    now = at;
                }
            }
        }
        take(&mut port, &pool, now);
        let finished = port.status() == PortStatus::Finished;
        prop_assert_eq!(finished, !repeat);
        let space = FlowSpace::new(&config);
        for (second, flows) in seconds.iter().enumerate() {
            let scheduled = config.scheduled(second as u64);
            prop_assert_eq!(flows.values().sum::<u64>(), scheduled);
            prop_assert_eq!(offered.in_second(second), scheduled);
            // What a flow may have: the loads that it has alone in full, and its part of the others.
            let within = second as u32 % length as u32;
            let (mut least, mut most) = (BTreeMap::<u16, u64>::new(), BTreeMap::<u16, u64>::new());
            for load in config.schedule.iter().filter(|load| (load.from..load.to).contains(&within)) {
                let (first, count) = load.flows.unwrap();
                for flow in first..first + count {
                    let port = space.flow(flow).destination_port;
                    *least.entry(port).or_default() += load.rate / u64::from(count);
                    *most.entry(port).or_default() += load.rate.div_ceil(count.into());
                }
            }
            for flow in 1000..1016 {
                let of = |map: &BTreeMap<u16, u64>| map.get(&flow).copied().unwrap_or(0);
                prop_assert!((of(&least)..=of(&most)).contains(&of(flows)), "{flow}: {flows:?}");
            }
        }
        prop_assert_eq!(port.details()[0], ("skipped", 0));
        assert_conserved(&port, &pool, 0, 0);
    }

    /// Whatever the batch, a constant rate is kept to a batch, and its port says when the next one is due.
    #[test]
    fn a_batch_leaves_the_rate_as_it_is(rate in 100u64..2_000_000, batch in 1u32..=64) {
        let pool = pool(64);
        let mut port = GeneratorPort::new(Config { rate: Some(rate), batch, ..Config::default() }).unwrap();
        let (mut now, mut sent) = (NOW, 0);
        for _ in 0..50 {
            let packets = take(&mut port, &pool, now).len() as u64;
            prop_assert_eq!(packets, u64::from(batch));
            sent += packets;
            let at = port.wake().at.unwrap();
            prop_assert_eq!(u128::from(at.since(NOW).0), (u128::from(sent) * 1_000_000_000).div_ceil(rate.into()));
            prop_assert!(take(&mut port, &pool, Nanos(at.0 - 1)).is_empty());
            now = at;
        }
    }
}

#[test]
fn two_million_in_batches_of_32_wake_every_16_microseconds() {
    let pool = pool(64);
    for text in ["{rate: 2Mpps, batch: 32}", "{schedule: [{to: 1s, rate: 2Mpps}], batch: 32}"] {
        let mut port = open(text);
        for n in 0..1000 {
            assert_eq!(take(&mut port, &pool, after(n * 16_000)).len(), 32);
            assert_eq!(port.wake().at, Some(after((n + 1) * 16_000)));
        }
    }
}

#[test]
fn a_schedule_is_replayed_by_its_seed() {
    let run = |seed: u64| {
        let load = |from, to, rate, flows| Load { from, to, rate, flows };
        let loads = vec![load(0, 2, 500, Some((0, 7))), load(1, 3, 300, Some((5, 11)))];
        let config = Config { order: Order::Random, ..by_port(loads, false, 1, seed) };
        let (pool, mut port) = (pool(64), GeneratorPort::new(config).unwrap());
        (0..3000).flat_map(|ms| take(&mut port, &pool, after(ms * 1_000_000))).collect::<Vec<_>>()
    };
    assert_eq!(run(1).len(), 1600);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn silence_lasts_until_the_next_load() {
    let pool = pool(64);
    let mut port = open(
        "{schedule: [{from: 1s, to: 2s, rate: 2pps}, {from: 4s, to: 5s, rate: 1pps}, {from: 6s, to: 7s, rate: 0pps}]}",
    );
    let mut seen = Vec::new();
    let mut now = NOW;
    while port.status() == PortStatus::Up {
        seen.push((now.since(NOW).0, take(&mut port, &pool, now).len()));
        now = port.wake().at.unwrap_or(now);
    }
    let expected = [(0, 0), (1000, 1), (1500, 1), (4000, 1), (7000, 0)];
    assert_eq!(seen, expected.map(|(ms, packets)| (ms * 1_000_000, packets)));
    assert_eq!(port.wake().at, None);
    assert_eq!(port.offered().first_seconds(8), [0, 2, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn a_worker_that_was_away_makes_up_for_ten_milliseconds() {
    let pool = pool(64);
    let mut port = open("{schedule: [{to: 2s, rate: 100kpps}, {from: 2s, to: 4s, rate: 10pps}]}");
    assert_eq!(take(&mut port, &pool, NOW).len(), 1);
    assert_eq!(take(&mut port, &pool, after(SECOND)).len(), 1000);
    // Across a second at which the rate changes: the higher one of the last ten milliseconds counts.
    assert_eq!(take(&mut port, &pool, after(2 * SECOND + 5_000_000)).len(), 1000);
    assert_eq!(port.details(), [("skipped", 200_001 - 2001)]);
    // Seldom packets are made up for, up to 64.
    assert_eq!(take(&mut port, &pool, after(3 * SECOND)).len(), 10);
    // What was offered is what was made, in the seconds in which it was due.
    assert_eq!(port.offered().first_seconds(4), [1000, 1000, 10, 1]);
    assert_eq!(take(&mut port, &pool, after(3600 * SECOND)).len(), 9);
    assert_eq!(port.status(), PortStatus::Finished);
    assert_conserved(&port, &pool, 0, 0);
}

#[test]
fn a_repeated_schedule_goes_on_after_any_absence() {
    let pool = pool(64);
    let mut port = open("{repeat: true, schedule: [{to: 1s, rate: 1kpps}, {from: 1s, to: 3s, rate: 0pps}]}");
    take(&mut port, &pool, NOW);
    let year = 365 * 86_400 * SECOND;
    let begin = year - year % (3 * SECOND);
    assert_eq!(take(&mut port, &pool, after(begin)).len(), 64);
    assert_eq!(port.wake().at, Some(after(begin + 1_000_000)));
    take(&mut port, &pool, after(begin + SECOND - 1));
    assert_eq!(port.wake().at, Some(after(begin + 3 * SECOND)));
    // Never has a packet to give, and does not end.
    let mut silent = open("{repeat: true, schedule: [{to: 1s, rate: 0pps}]}");
    assert!(take(&mut silent, &pool, NOW).is_empty() && take(&mut silent, &pool, after(year)).is_empty());
    assert_eq!((silent.wake().at, silent.status()), (None, PortStatus::Up));
}

#[test]
fn a_schedule_loses_what_finds_no_buffer_and_ends_after_its_count() {
    let pool = pool(4);
    let mut port = open("{schedule: [{to: 1s, rate: 1kpps}], count: 30}");
    let mut held = Vec::new();
    port.receive(&pool, NOW, 64, &mut held);
    port.receive(&pool, after(9_000_000), 64, &mut held);
    assert_eq!((held.len(), port.counters().ledger.dropped[DropReason::NoBuffer]), (4, 6));
    assert_eq!(port.offered().in_second(0), 10);
    assert_conserved(&port, &pool, 0, 4);
    port.transmit(&pool, NOW, &mut held);
    let left: usize = (10..40).map(|ms| take(&mut port, &pool, after(ms * 1_000_000)).len()).sum();
    assert_eq!((left, port.status(), port.wake().at), (20, PortStatus::Finished, None));
}

#[test]
fn what_is_offered_without_a_schedule_is_counted_too() {
    let pool = pool(64);
    for (text, expected) in [("{rate: 100pps}", [100, 100, 1]), ("{count: 210}", [210, 0, 0])] {
        let mut port = open(text);
        for ms in 0..=2000 {
            take(&mut port, &pool, after(ms * 1_000_000));
        }
        assert_eq!(port.offered().first_seconds(3), expected, "{text}");
    }
    let offered = Offered::default();
    offered.add(u64::MAX, 2);
    offered.add(MAX_SECONDS as u64 - 1, 1);
    assert_eq!((offered.in_second(MAX_SECONDS - 1), offered.in_second(MAX_SECONDS)), (3, 0));
}
