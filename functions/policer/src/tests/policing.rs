//! The whole function against a model that has a bucket for every key.

use super::{EXCEEDED, PASS, ask, at, configure, function, packet, report, tagged, udp};
use crate::Policers;
use crate::meter::{GREEN, Level, Limits, Meter};
use nf_sdk::native::{Runner, TestPacket};
use nf_sdk::{PacketRecord, Verdict};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::format;
use std::vec;
use std::vec::Vec;

/// Packets of few sources: which one, how long, how much later in microseconds.
fn traffic(sources: u8) -> impl Strategy<Value = Vec<(u8, usize, u64)>> {
    prop::collection::vec((0..sources, 60..1500usize, 0..3_000u64), 1..300)
}

fn source(number: u8, ipv6: bool) -> std::string::String {
    if ipv6 { format!("2001:db8:0:{number:x}::7") } else { format!("10.0.{number}.9") }
}

fn frame(number: u8, length: usize, ipv6: bool) -> Vec<u8> {
    let to = if ipv6 { "2001:db8:ffff::1" } else { "10.1.0.1" };
    udp(&source(number, ipv6), [1000, 53], to, length)
}

proptest! {
    #[test]
    fn every_key_has_a_bucket_of_its_own(traffic in traffic(30), ipv6: bool, timer_every in 1..20usize) {
        let mut runner = function("policers: [{key: [source], source_prefix_ipv4: 24, rate: 1Mbps, burst: 3KiB}]");
        let limits = Limits::single(Some(Meter::bytes(1_000_000, 3 << 10)), None);
        let mut model: BTreeMap<u8, Level> = BTreeMap::new();
        let mut now = 0;
        for (n, (number, length, later)) in traffic.into_iter().enumerate() {
            now += later * 1_000;
            let verdict = ask(&mut runner, frame(number, length, ipv6), 0, at(now));
            // The function's clock begins with the first packet.
            let level = model.entry(number).or_insert(limits.full(0));
            let green = limits.take(level, now, length as u32, 1) == GREEN;
            prop_assert_eq!(verdict, if green { PASS } else { EXCEEDED });
            // Forgetting what is full changes nothing.
            if n % timer_every == 0 {
                runner.timer(at(now));
            }
        }
        prop_assert_eq!(&report(&runner)["buckets"]["shared"], 0);
    }

    /// With fewer buckets than keys, every bucket still keeps to its limits: own ones key by key, and all
    /// that have none together.
    #[test]
    fn a_full_table_lets_no_more_through(traffic in traffic(60), buckets in 1..8i64) {
        let config = format!("{{max_buckets: {buckets}, policers: [{{key: [source], rate: 400kbps, burst: 2KiB}}]}}");
        let mut runner = function(&config);
        let limits = Limits::single(Some(Meter::bytes(400_000, 2 << 10)), None);
        let (mut own, mut shared): (BTreeMap<u8, Level>, Level) = (BTreeMap::new(), limits.full(0));
        let (mut now, mut forgotten) = (0, 0);
        for (number, length, later) in traffic {
            now += later * 1_000;
            let before = report(&runner);
            let verdict = ask(&mut runner, frame(number, length, false), 0, at(now));
            let after = report(&runner);
            let grew = |name: &str| after["buckets"][name].as_u64() > before["buckets"][name].as_u64();
            prop_assert!(after["buckets"]["live"].as_i64() <= Some(buckets));
            if grew("forgotten") {
                forgotten += 1;
                prop_assert!(grew("made"));
            }
            let level = if grew("shared") {
                // No key's bucket was full: each would have had to make room.
                prop_assert!(own.values().filter(|level| !limits.is_full(level, now)).count() as i64 >= buckets);
                &mut shared
            } else {
                own.entry(number).or_insert(limits.full(0))
            };
            let green = limits.take(level, now, length as u32, 1) == GREEN;
            prop_assert_eq!(verdict, if green { PASS } else { EXCEEDED });
        }
        prop_assert_eq!(report(&runner)["buckets"]["forgotten"].as_u64(), Some(forgotten));
    }

    #[test]
    fn buckets_travel_with_what_is_in_them(traffic in traffic(20), rest in traffic(20), ipv6: bool, cut in 1..60usize) {
        let config = "policers: [{protocol: tcp, rate: 1Mbps}, {key: [source], rate: 1Mbps, burst: 3KiB}]";
        let elsewhere = "policers: [{key: [source], rate: 1Mbps, burst: 3KiB}]";
        let mut from = function(config);
        let mut now = 0;
        for (number, length, later) in traffic {
            now += later * 1_000;
            ask(&mut from, frame(number, length, ipv6), 0, at(now));
        }
        let state = from.export_state().expect("offered");
        // Another place in the configuration is no other policer, but other limits are.
        let mut to = function(elsewhere);
        prop_assert!(to.import_state(&state));
        let mut other = function("policers: [{key: [source], rate: 2Mbps, burst: 3KiB}]");
        prop_assert!(other.import_state(&state));
        prop_assert_eq!(&report(&other)["buckets"]["live"], 0);
        // From here on both decide the same, from the moment of handing over on.
        for (number, length, later) in rest {
            let verdict = ask(&mut from, frame(number, length, ipv6), 0, at(now));
            prop_assert_eq!(ask(&mut to, frame(number, length, ipv6), 0, at(now)), verdict);
            now += later * 1_000;
        }
        let cut = state.len().saturating_sub(cut);
        let mut fresh = function(elsewhere);
        if cut % 88 != 0 {
            prop_assert!(!fresh.import_state(&state[..cut]));
            prop_assert_eq!(&report(&fresh)["buckets"]["live"], 0);
        }
    }
}

#[test]
fn the_first_that_matches_polices() {
    let config = "
policers:
  - {name: dns, protocol: udp, destination_ports: 53, from: inside, packet_rate: 1pps, packet_burst: 1}
  - {name: net, source: 10.0.0.0/8, destination: 10.1.0.0/16, packet_rate: 1pps, packet_burst: 2}
  - {name: six, source: '2001:db8::/32', packet_rate: 1pps, packet_burst: 3}
  - {name: vlan, vlan: 9, packet_rate: 1pps, packet_burst: 4}
  - {name: marked, mark: 77, packet_rate: 1pps, packet_burst: 5}
";
    let mut runner = function(config);
    let mut passes = |frame: Vec<u8>, ingress: u16, mark: u64| {
        let record = PacketRecord { ingress, mark, ..PacketRecord::default() };
        let some = vec![TestPacket { bytes: frame, record }; 10];
        let onward = Verdict::Interface(1 - ingress);
        runner.run(&some, at(0)).iter().filter(|outcome| outcome.verdict == Some(onward)).count()
    };
    let dns = udp("10.2.0.1", [1, 53], "10.1.0.1", 80);
    assert_eq!(passes(dns.clone(), 0, 77), 1);
    assert_eq!(passes(dns.clone(), 1, 77), 2, "not from inside");
    assert_eq!(
        passes(udp("10.2.0.1", [53, 54], "10.1.0.1", 80), 0, 0),
        0,
        "the bucket is shared by all of `net`"
    );
    assert_eq!(passes(udp("2001:db8::1", [1, 2], "2001:db9::1", 80), 0, 0), 3);
    assert_eq!(passes(tagged(&udp("2001:db9::1", [1, 2], "::1", 80), &[0x2009, 5]), 0, 0), 4);
    assert_eq!(passes(udp("10.2.0.1", [1, 2], "10.2.0.1", 80), 1, 77), 5);
    assert_eq!(passes(udp("10.2.0.1", [1, 2], "10.2.0.1", 80), 1, 78), 10, "matched by none");
    // A later fragment has no ports: it is not `dns`, whatever its bytes are.
    let mut later = dns;
    later[21] = 3;
    assert_eq!(passes(later, 0, 0), 0);
    assert_eq!(report(&runner)["packets"]["unpoliced"], 10);
}

#[test]
fn keys_are_made_of_what_was_chosen() {
    let frames: Vec<(Vec<u8>, u16, u64)> = vec![
        (udp("10.0.0.1", [1, 2], "10.9.0.1", 80), 0, 0),
        (udp("10.0.1.1", [1, 2], "10.9.0.1", 80), 0, 0),
        (udp("10.0.0.1", [1, 2], "10.9.1.1", 80), 0, 0),
        (udp("10.0.0.1", [3, 2], "10.9.0.1", 80), 0, 0),
        (udp("10.0.0.1", [1, 4], "10.9.0.1", 80), 0, 0),
        (udp("10.0.0.1", [1, 2], "10.9.0.1", 80), 1, 0),
        (udp("10.0.0.1", [1, 2], "10.9.0.1", 80), 0, 1 << 40),
        (tagged(&udp("10.0.0.1", [1, 2], "10.9.0.1", 80), &[6]), 0, 0),
        (packet("10.0.0.1", "10.9.0.1", 47, &[0; 40]), 0, 0),
        (udp("2001:db8::1", [1, 2], "2001:db8:9::1", 80), 0, 0),
        (udp("2001:db8::2", [1, 2], "2001:db8:9::1", 80), 0, 0),
        (udp("2001:db8:0:1::1", [1, 2], "2001:db8:9::1", 80), 0, 0),
        (udp("2001:db8::1", [1, 2], "2001:db8:9:1::1", 80), 0, 0),
    ];
    for (key, wanted) in [
        ("[source]", 4),
        ("[source], source_prefix_ipv4: 16", 3),
        ("[source], source_prefix_ipv6: 128", 5),
        ("[source, destination]", 6),
        ("[destination]", 4),
        ("[destination], destination_prefix_ipv4: 16", 3),
        ("[destination], destination_prefix_ipv6: 40", 3),
        ("[destination], destination_prefix_ipv4: 8, destination_prefix_ipv6: 40", 2),
        ("[source], source_prefix_ipv4: 1, source_prefix_ipv6: 1", 2),
        ("[protocol]", 2),
        ("[source_port]", 3),
        ("[destination_port]", 3),
        ("[ingress]", 2),
        ("[vlan]", 2),
        ("[mark]", 2),
        ("[source, mark]", 5),
        ("[source, destination, mark], source_prefix_ipv6: 128", 8),
        ("[source, destination, protocol, source_port, destination_port, vlan, ingress, mark]", 12),
    ] {
        let mut runner =
            function(&format!("policers: [{{packet_rate: 1pps, packet_burst: 100, key: {key}}}]"));
        let packets: Vec<TestPacket> = frames
            .iter()
            .map(|(bytes, ingress, mark)| {
                let record = PacketRecord { ingress: *ingress, mark: *mark, ..PacketRecord::default() };
                TestPacket { bytes: bytes.clone(), record }
            })
            .collect();
        runner.run(&packets, at(0));
        runner.run(&packets, at(0));
        assert_eq!(report(&runner)["buckets"]["live"], wanted, "{key}");
    }
}

#[test]
fn colours_mark_and_drop() {
    let mut runner = function(
        "policers: [{rate: 8bps, burst: 100B, peak_rate: 16bps, peak_burst: 200B, exceed_mark: 2, violate: mark, violate_mark: 1, mark_mask: 3}]",
    );
    let mut mark = |before: u64, now: u64| {
        let record = PacketRecord { mark: before, ..PacketRecord::default() };
        let frame = TestPacket { bytes: udp("10.0.0.1", [1, 2], "10.0.0.2", 100), record };
        let outcome = runner.run(&[frame], at(now)).remove(0);
        assert_eq!(outcome.verdict, Some(PASS));
        outcome.mark
    };
    assert_eq!([mark(0xff01, 0), mark(0xff01, 0), mark(0xff02, 0)], [0xff01, 0xff02, 0xff01]);
    // After 50 s there are 50 bytes and 100 bytes.
    assert_eq!([mark(0, 50_000_000_000), mark(0, 50_000_000_000)], [2, 1]);
    let report = report(&runner);
    assert_eq!(report["packets"]["marked"], 4);
    assert_eq!(report["packets"]["passed"], 5);
    for (colour, packets) in [("conform", 1), ("exceed", 2), ("violate", 2)] {
        assert_eq!(report["policers"][0][colour]["packets"], packets, "{colour}");
        assert_eq!(report["policers"][0][colour]["bytes"], packets * 100);
    }
}

#[test]
fn an_idle_bucket_is_forgotten_and_the_timer_rests() {
    let mut runner = function("policers: [{key: [source], rate: 8kbps, burst: 1KiB}]");
    assert_eq!(runner.host().deadline(), None);
    for n in 0..200 {
        ask(&mut runner, frame(n, 1000, false), 0, at(0));
    }
    assert_eq!(report(&runner)["buckets"]["live"], 200);
    let mut now = 0;
    while let Some(deadline) = runner.host().deadline() {
        // Empty at first, 1,000 bytes come in a second.
        let live = report(&runner)["buckets"]["live"].as_u64();
        assert!(now < 1_000_000_000 && live == Some(200) || now >= 1_000_000_000 && live < Some(201));
        now = deadline.0 - super::START;
        assert!(now < 10_000_000_000, "all are gone after 1 s and one round of 8 s");
        runner.timer(deadline);
    }
    let buckets = &report(&runner)["buckets"];
    assert_eq!((buckets["live"].as_u64(), buckets["forgotten"].as_u64()), (Some(0), Some(200)));
}

#[test]
fn the_report_names_keys_beyond_the_limits() {
    let mut runner = function(
        "{top: 2, policers: [{name: hosts, key: [source, destination_port, ingress], rate: 8kbps, burst: 1KiB, packet_rate: 10pps}]}",
    );
    for (number, times) in [(1, 3), (2, 9), (3, 1), (4, 5)] {
        for _ in 0..times {
            ask(&mut runner, frame(number, 1000, false), 1, at(0));
        }
    }
    let report = report(&runner);
    assert_eq!(
        report["top"],
        serde_json::json!([
            {"policer": 0, "name": "hosts", "source": "10.0.2.9/32", "destination_port": 53, "ingress": "outside",
             "beyond": {"packets": 8, "bytes": 8000}, "room": {"bytes": 24, "packets": 63}},
            {"policer": 0, "name": "hosts", "source": "10.0.4.9/32", "destination_port": 53, "ingress": "outside",
             "beyond": {"packets": 4, "bytes": 4000}, "room": {"bytes": 24, "packets": 63}},
        ])
    );
    assert_eq!(
        report["policers"][0],
        serde_json::json!({"number": 0, "name": "hosts",
            "conform": {"action": "pass", "packets": 4, "bytes": 4000},
            "exceed": {"action": "drop", "packets": 14, "bytes": 14000}, "shared": 0})
    );
    // IPv6, and a mark that is in the place of the lower half.
    let mut runner = function("policers: [{key: [source, mark], packet_rate: 1pps, packet_burst: 1}]");
    let record = PacketRecord { mark: 5, ..PacketRecord::default() };
    runner.run(&vec![TestPacket { bytes: frame(3, 100, true), record }; 2], at(0));
    let top = &super::report(&runner)["top"][0];
    assert_eq!((top["source"].as_str(), top["mark"].as_u64()), (Some("2001:db8:0:3::/64"), Some(5)));
}

#[test]
fn frames_that_are_not_ip_go_as_configured() {
    let arp = {
        let mut frame = vec![2; 60];
        frame[12..14].copy_from_slice(&[0x08, 0x06]);
        frame
    };
    for (non_ip, wanted, counter) in [
        ("pass", [PASS, PASS], 0),
        ("drop", [Verdict::Drop(3), Verdict::Drop(3)], 5),
        ("police", [PASS, EXCEEDED], 0),
    ] {
        let config = format!(
            "{{non_ip: {non_ip}, policers: [{{protocol: 0, packet_rate: 1pps, packet_burst: 9}}, {{key: [source], packet_rate: 1pps, packet_burst: 1}}]}}"
        );
        let mut runner = function(&config);
        assert_eq!([0, 1].map(|_| ask(&mut runner, arp.clone(), 0, at(0))), wanted, "{non_ip}");
        assert!(runner.host().counter(counter) > 0);
    }
    let mut runner = function("policers: [{packet_rate: 1pps}]");
    assert_eq!(ask(&mut runner, vec![0; 9], 0, at(0)), Verdict::Drop(2));
    let mut cut = frame(1, 100, false);
    cut.truncate(30);
    assert_eq!(ask(&mut runner, cut, 0, at(0)), Verdict::Drop(2));
}

#[test]
fn impossible_state_is_refused_whole() {
    let config = "policers: [{key: [source], rate: 1Mbps, burst: 3KiB}]";
    let mut from = function(config);
    ask(&mut from, frame(1, 1000, false), 0, at(0));
    let state = from.export_state().expect("offered");
    assert_eq!(state.len(), 8 + 48 + 32);
    for (place, byte) in [
        (8 + 8, 1),         // a protocol, which is no part of the key
        (8 + 8 + 3, 1),     // a policer's number
        (8 + 8 + 8 + 7, 1), // a destination
        (8 + 8 + 1, 0x0e),  // both families
        (8 + 48 + 7, 0x7f), // more tokens than there is room for
    ] {
        let mut spoiled = state.clone();
        spoiled[place] = byte;
        let mut to: Runner<Policers> = Runner::new(&configure(config).expect("good")).expect("good");
        assert!(!to.import_state(&[&state[..], &spoiled].concat()), "{place}");
        assert_eq!(report(&to)["buckets"]["live"], 0);
        // What is missing twice is missing twice.
        assert!(to.import_state(&state) && to.import_state(&state));
        assert_eq!(report(&to)["buckets"]["live"], 1);
        let length = 3072 - 2000;
        assert_eq!(ask(&mut to, frame(1, length + 1, false), 0, at(0)), EXCEEDED);
        assert_eq!(ask(&mut to, frame(1, length, false), 0, at(0)), PASS);
    }
}

#[test]
fn buckets_fill_by_the_time_that_packets_say() {
    let config = "policers: [{packet_rate: 1pps, packet_burst: 1}]";
    let recorded = |step: u64| {
        let mut runner = function(config);
        let packet = |n: u64| TestPacket {
            bytes: udp("10.0.0.1", [1, 2], "10.0.0.2", 100),
            record: PacketRecord {
                timestamp: 1_000_000_000 * (1_000_000_000 + n * step),
                ..PacketRecord::default()
            },
        };
        // All of it is read at once.
        (0..10).filter(|n| runner.run(&[packet(*n)], at(0))[0].verdict == Some(PASS)).count()
    };
    assert_eq!((recorded(1), recorded(0)), (10, 1));
}
