use super::*;
use crate::sink::{self, SinkPort};
use crate::taking::checked;
use crate::testing::{NOW, assert_conserved, pool, receive_all};
use packet::{FlowKey, dissect, protocol};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn config(text: &str) -> Result<Config, String> {
    Config::from_value(&checked(SCHEMA, text).unwrap())
}

fn open(text: &str) -> GeneratorPort {
    GeneratorPort::new(config(text).unwrap()).unwrap()
}

/// Sends everything through a sink that checks it; returns the flows in order and how often each length
/// occurred.
fn drain(port: &mut GeneratorPort, now: Nanos) -> (Vec<FlowKey>, BTreeMap<u32, u64>) {
    let pool = pool(64);
    let check = sink::Config { check: sink::Check::Checksums, report: None };
    let mut sink = SinkPort::new(check);
    let (mut keys, mut lengths) = (Vec::new(), BTreeMap::new());
    let mut batch = Vec::new();
    loop {
        port.receive(&pool, now, 32, &mut batch);
        if batch.is_empty() {
            break;
        }
        assert_conserved(port, &pool, 0, batch.len());
        for packet in &batch {
            let dissection = dissect(&pool.to_vec(packet)).unwrap();
            assert_eq!(dissection.network.unwrap().end, packet.length() as usize);
            keys.push(dissection.flow_key().unwrap());
            *lengths.entry(packet.length()).or_default() += 1;
            assert_eq!(packet.record().timestamp, now.0);
        }
        // What the sink delivers has left the generator's account.
        port.counters.ledger.delivered += batch.len() as u64;
        sink.transmit(&pool, now, &mut batch);
    }
    let details: BTreeMap<_, _> = sink.details().into_iter().collect();
    assert_eq!(details["checked"], keys.len() as u64);
    assert_eq!(details["malformed"] + details["wrong_checksum"] + details["not_ip"], 0, "{details:?}");
    assert_conserved(port, &pool, 0, 0);
    (keys, lengths)
}

#[test]
fn settings_come_from_the_schema() {
    assert_eq!(config("").unwrap(), Config::default());
    let all = "{flows: 4194304, protocol: tcp, tcp_flags: syn, source: 2001:db8::/64, destination: 2001:db8:1::/112,
        source_ports: 1024-65535, destination_ports: 80, sizes: [{size: 80, weight: 3}, {size: 1500}], rate: 1.5Mpps,
        count: 10, order: random, seed: 7, source_mac: 02:00:00:00:00:0a, destination_mac: 02:00:00:00:00:0b}";
    let expected = Config {
        flows: 1 << 22,
        protocol: Protocol::TcpSyn,
        source: ("2001:db8::".parse().unwrap(), 64),
        destination: ("2001:db8:1::".parse().unwrap(), 112),
        source_ports: (1024, 65_535),
        destination_ports: (80, 80),
        sizes: vec![Size { bytes: 80, weight: 3 }, Size { bytes: 1500, weight: 1 }],
        rate: Some(1_500_000),
        schedule: Vec::new(),
        repeat: false,
        batch: 1,
        count: Some(10),
        order: Order::Random,
        seed: 7,
        source_mac: [2, 0, 0, 0, 0, 10],
        destination_mac: [2, 0, 0, 0, 0, 11],
        check_order: false,
    };
    assert_eq!(config(all).unwrap(), expected);
    assert_eq!(config("{imix: true}").unwrap().sizes, IMIX);
}

#[test]
fn impossible_settings_are_refused_in_words() {
    for (text, words) in [
        ("{source: 10.0.0.0/8, destination: 2001:db8::/64}", "family"),
        ("{flows: 3, source: 10.0.0.1/32, destination: 10.0.0.2/32, source_ports: 7}", "offer 1;"),
        ("{size: 64, imix: true}", "one of them"),
        ("{size: 60, source: 2001:db8::/64, destination: 2001:db8::/64}", "62 to"),
        ("{size: 64, protocol: tcp, check_order: true}", "66 to"),
    ] {
        let error = config(text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn makes_as_many_distinct_flows_as_asked_for() {
    for text in [
        "{flows: 1000, count: 2000}",
        "{flows: 1000, count: 2000, protocol: tcp}",
        "{flows: 1000, count: 2000, source: 2001:db8::/64, destination: 2001:db8:1::/64}",
        "{flows: 1000, count: 2000, protocol: tcp, source: 2001:db8::/64, destination: 2001:db8:1::/64, size: 74}",
        "{flows: 1024, count: 2048, source: 10.0.0.0/24, destination: 10.1.0.0/31, source_ports: 5-6, seed: 99}",
    ] {
        let mut port = open(text);
        let flows = port.all.count as usize;
        let (keys, lengths) = drain(&mut port, NOW);
        assert_eq!(keys.len(), 2 * flows, "{text}");
        assert_eq!(keys[..flows].iter().collect::<HashSet<_>>().len(), flows, "{text}");
        assert_eq!(keys[..flows], keys[flows..], "{text}");
        assert_eq!(lengths.len(), 1);
        assert_eq!((port.status(), port.wake().at), (PortStatus::Finished, None));
    }
}

#[test]
fn addresses_and_ports_stay_in_their_ranges() {
    let text =
        "{flows: 4096, count: 4096, source: 10.1.2.0/24, destination: 10.9.0.0/30, source_ports: 1000-1099,
        destination_ports: 80-81, protocol: tcp}";
    let (keys, _) = drain(&mut open(text), NOW);
    let within = |address: IpAddr, first: [u8; 4], count: u32| {
        let IpAddr::V4(address) = address else { return false };
        address.to_bits().wrapping_sub(Ipv4Addr::from(first).to_bits()) < count
    };
    for key in &keys {
        assert!(
            within(key.source, [10, 1, 2, 0], 256) && within(key.destination, [10, 9, 0, 0], 4),
            "{key:?}"
        );
        assert!(
            (1000..1064).contains(&key.source_port) && (80..82).contains(&key.destination_port),
            "{key:?}"
        );
        assert_eq!(key.protocol, protocol::TCP);
    }
    // Every field varies, over all that it may be.
    let distinct = |of: fn(&FlowKey) -> u64| keys.iter().map(of).collect::<HashSet<_>>().len();
    assert_eq!(distinct(|k| u64::from(k.source_port)), 64);
    assert_eq!(distinct(|k| u64::from(k.destination_port)), 2);
}

#[test]
fn a_single_address_is_used_as_it_is() {
    let (keys, _) = drain(&mut open("{count: 1, source: 2001:db8::5/128, destination: 2001:db8::/64}"), NOW);
    assert_eq!(keys[0].source, "2001:db8::5".parse::<Ipv6Addr>().unwrap());
}

#[test]
fn all_of_four_million_flows_are_distinct() {
    let config = Config { flows: MAX_FLOWS, ..Config::default() };
    let space = FlowSpace::new(&config);
    let word = |n| {
        let flow = space.flow(n);
        u64::from(flow.source & 0xffff) << 32
            | u64::from(flow.destination & 0xffff) << 16
            | u64::from(flow.source_port)
    };
    let mut all: Vec<u64> = (0..MAX_FLOWS).map(word).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), MAX_FLOWS as usize);
}

#[test]
fn the_widest_space_is_still_one_to_one() {
    let config = Config {
        source: ("::".parse().unwrap(), 0),
        destination: ("::".parse().unwrap(), 0),
        source_ports: (0, 65_535),
        destination_ports: (0, 65_535),
        ..Config::default()
    };
    let space = FlowSpace::new(&config);
    assert_eq!(space.capacity(), u64::MAX);
    let flows: HashSet<_> = (0..100_000).map(|n| space.flow(n)).collect();
    assert_eq!(flows.len(), 100_000);
}

#[test]
fn lengths_follow_their_weights() {
    let (_, lengths) = drain(&mut open("{imix: true, count: 12000, flows: 100}"), NOW);
    let close = |bytes, expected: u64| lengths[&bytes].abs_diff(expected) < 400;
    assert!(close(60, 7000) && close(590, 4000) && close(1514, 1000), "{lengths:?}");
}

#[test]
fn a_seed_repeats_itself_and_differs_from_others() {
    let keys = |seed: u64, order: &str| {
        drain(
            &mut open(&format!("{{seed: {seed}, order: {order}, flows: 100, count: 300, imix: true}}")),
            NOW,
        )
    };
    for order in ["random", "round_robin"] {
        assert_eq!(keys(1, order), keys(1, order));
        assert_ne!(keys(1, order), keys(2, order));
    }
    let (random, _) = keys(1, "random");
    let seen = random.iter().collect::<HashSet<_>>().len();
    assert!((80..=100).contains(&seen), "{seen} of 100 flows in 300 packets");
}

#[test]
fn a_rate_is_kept_and_says_when_to_wake() {
    let pool = pool(256);
    let mut port = open("{rate: 1Mpps}");
    let mut sent = 0;
    let mut batch = Vec::new();
    for n in 0..1000u64 {
        let now = Nanos(NOW.0 + n * 10_000);
        port.receive(&pool, now, 64, &mut batch);
        sent += batch.len() as u64;
        assert_eq!(sent, n * 10 + 1);
        assert_eq!(port.wake().at, Some(Nanos(NOW.0 + sent * 1000)));
        port.transmit(&pool, now, &mut batch);
    }
    assert_conserved(&port, &pool, 0, 0);
}

#[test]
fn packets_with_a_rate_are_stamped_with_the_time_at_which_they_were_due() {
    let pool = pool(64);
    for paced in ["{rate: 1Mpps}", "{schedule: [{to: 5s, rate: 1Mpps}]}"] {
        let mut port = open(paced);
        let mut batch = receive_all(&mut port, &pool, NOW);
        assert_eq!(batch.len(), 1);
        port.transmit(&pool, NOW, &mut batch);
        // The worker comes back late: the second packet was due after a microsecond.
        let late = Nanos(NOW.0 + 10_500);
        port.receive(&pool, late, 64, &mut batch);
        assert_eq!((batch.len(), batch[0].record().timestamp), (10, NOW.0 + 1000));
        port.transmit(&pool, late, &mut batch);
    }
}

#[test]
fn the_time_to_wake_is_never_too_early_nor_late() {
    let pool = pool(64);
    for rate in ["3pps", "7kpps", "999999999pps"] {
        let mut port = open(&format!("{{rate: {rate}}}"));
        let mut batch = receive_all(&mut port, &pool, NOW);
        port.transmit(&pool, NOW, &mut batch);
        for _ in 0..100 {
            let at = port.wake().at.unwrap();
            port.receive(&pool, Nanos(at.0 - 1), 64, &mut batch);
            assert!(batch.is_empty());
            port.receive(&pool, at, 64, &mut batch);
            assert!(!batch.is_empty());
            port.transmit(&pool, at, &mut batch);
        }
    }
}

#[test]
fn after_a_long_absence_there_is_no_huge_burst() {
    let pool = pool(64);
    let mut port = open("{rate: 10kpps}");
    let mut batch = receive_all(&mut port, &pool, NOW);
    let later = Nanos(NOW.0 + 1_000_000_000);
    let mut all = 0;
    loop {
        port.transmit(&pool, later, &mut batch);
        port.receive(&pool, later, 32, &mut batch);
        all += batch.len();
        if batch.is_empty() {
            break;
        }
    }
    assert_eq!(all, 100);
    assert_eq!(port.details(), [("skipped", 9900)]);
}

#[test]
fn without_buffers_a_rate_loses_packets_and_no_rate_waits() {
    let pool = pool(4);
    let mut paced = open("{rate: 1Mpps, count: 100}");
    let mut held = Vec::new();
    paced.receive(&pool, NOW, 64, &mut held);
    paced.receive(&pool, Nanos(NOW.0 + 9_000), 64, &mut held);
    assert_eq!(held.len(), 4);
    assert_eq!(paced.counters().ledger.generated, 10);
    assert_eq!(paced.counters().ledger.dropped[DropReason::NoBuffer], 6);
    assert_conserved(&paced, &pool, 0, 4);
    let mut unpaced = open("{count: 100}");
    let mut none = Vec::new();
    unpaced.receive(&pool, NOW, 64, &mut none);
    assert!(none.is_empty());
    assert_eq!((unpaced.counters().ledger.generated, unpaced.wake().at), (0, Some(Nanos(0))));
    paced.transmit(&pool, NOW, &mut held);
}

#[test]
fn packets_longer_than_a_buffer_are_dropped_and_told() {
    let pool = pool(4);
    let mut port = open("{size: 9000, count: 3}");
    assert!(receive_all(&mut port, &pool, NOW).is_empty());
    assert_eq!(port.counters().ledger.dropped[DropReason::TooLong], 3);
    assert_eq!((port.maintain(NOW).len(), port.status()), (1, PortStatus::Finished));
    assert_conserved(&port, &pool, 0, 0);
}

#[test]
fn order_is_checked_when_packets_come_back() {
    let pool = pool(64);
    for kind in
        ["", "protocol: tcp, size: 66,", "source: 2001:db8::/64, destination: 2001:db8::/64, size: 200,"]
    {
        let mut port = open(&format!("{{{kind} flows: 4, count: 16, check_order: true}}"));
        let mut all = receive_all(&mut port, &pool, NOW);
        let check = sink::Config { check: sink::Check::Checksums, report: None };
        let mut sink = SinkPort::new(check);
        // Flows may overtake each other; packets of a flow may not.
        all.swap(0, 1);
        // Packets 4 and 8 are of one flow.
        all.swap(4, 8);
        pool.patch(&mut all[15], port.shape.payload_offset(), &[0]).unwrap();
        port.transmit(&pool, NOW, &mut all);
        let details = port.details();
        assert_eq!(details, [("in_order", 14), ("out_of_order", 1), ("unnumbered", 1)], "{kind}");
        assert_eq!((port.maintain(NOW).len(), port.maintain(NOW).len()), (1, 0));
        assert_conserved(&port, &pool, 0, 0);
        let mut again =
            receive_all(&mut open(&format!("{{{kind} count: 9, check_order: true}}")), &pool, NOW);
        sink.transmit(&pool, NOW, &mut again);
        assert_eq!(sink.details()[3], ("wrong_checksum", 0));
    }
}

#[test]
fn no_udp_checksum_says_that_there_is_none() {
    let pool = pool(64);
    // One checksum in 65,536 is computed as zero, which must not go out.
    let mut port = open("{flows: 1000000, count: 500000}");
    let mut batch = Vec::new();
    let mut ones = 0;
    while port.status() == PortStatus::Up {
        port.receive(&pool, NOW, 64, &mut batch);
        for packet in &batch {
            let mut checksum = [0; 2];
            pool.read(packet, 40, &mut checksum);
            assert_ne!(checksum, [0, 0]);
            ones += u32::from(checksum == [0xff, 0xff]);
        }
        port.transmit(&pool, NOW, &mut batch);
    }
    assert!(ones > 0);
}

proptest! {
    #[test]
    fn every_size_has_right_lengths_and_checksums(size in 86u32..1728, tcp: bool, v6: bool, numbered: bool, seed: u32) {
        let family = if v6 { "source: 2001:db8::/64, destination: 2001:db8:1::/64, " } else { "" };
        let protocol = if tcp { "tcp" } else { "udp" };
        let text = format!(
            "{{{family}protocol: {protocol}, size: {size}, check_order: {numbered}, seed: {seed}, flows: 1000, count: 40}}"
        );
        let (keys, lengths) = drain(&mut open(&text), NOW);
        prop_assert_eq!((keys.len(), lengths.into_keys().collect::<Vec<_>>()), (40, vec![size]));
    }
}

/// Prints what a packet costs, buffer included: `cargo test --release -p port -- --ignored --nocapture cost`.
#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_a_packet() {
    let pool = pool(4096);
    for text in [
        "{flows: 1}",
        "{flows: 131072}",
        "{flows: 4194304, order: random}",
        "{flows: 131072, protocol: tcp}",
        "{flows: 131072, source: 2001:db8::/64, destination: 2001:db8:1::/64}",
        "{flows: 131072, imix: true}",
        "{flows: 131072, size: 1514}",
    ] {
        let mut port = open(text);
        let mut batch = Vec::with_capacity(32);
        let mut costs: Vec<f64> = (0..21)
            .map(|_| {
                let begin = std::time::Instant::now();
                for _ in 0..4096 {
                    port.receive(&pool, NOW, 32, &mut batch);
                    port.transmit(&pool, NOW, &mut batch);
                }
                begin.elapsed().as_nanos() as f64 / (4096.0 * 32.0)
            })
            .collect();
        costs.sort_by(f64::total_cmp);
        println!("{:6.2} ns ({:.2} to {:.2}) {text}", costs[10], costs[0], costs[20]);
    }
}
