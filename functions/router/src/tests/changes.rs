//! Files of routes that change while packets pass, against routers that read the changed file.

use super::*;
use crate::hops::Hop;
use crate::table::FLAT_FROM;
use nf_sdk::Change;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const WAYS: [&str; 6] =
    ["via 198.51.100.2", "via 198.51.100.3", "via 198.51.100.4", "dev a", "blackhole", "reject"];

/// What went and what came from one file to the other, as the host tells it.
fn difference(before: &[String], after: &[String]) -> String {
    let mut counts: BTreeMap<&str, i32> = BTreeMap::new();
    before.iter().for_each(|line| *counts.entry(line).or_default() -= 1);
    after.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    let line = |(line, count): (&str, i32)| {
        let sign = if count < 0 { '-' } else { '+' };
        format!("{sign}{line}\n").repeat(count.unsigned_abs() as usize)
    };
    counts.into_iter().map(line).collect()
}

fn text(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Has a router take a difference; what it answers in the end, and in how many calls.
fn take(runner: &mut Runner<Router>, lines: &str) -> (Change, usize) {
    runner.offer("routes_file", lines);
    for calls in 1.. {
        match runner.change(at(0)) {
            Change::More => {}
            done => return (done, calls),
        }
    }
    unreachable!()
}

/// Where packets of some flows to an address are led.
fn ways(runner: &Runner<Router>, address: IpAddr) -> Vec<Option<Hop>> {
    let main = &runner.function().main;
    let set = main.table.lookup(address);
    (0..64).map(|hash| main.hops.hop(main.hops.choose(set, || hash))).collect()
}

/// The first and last address of the destinations of lines, and those beside them.
fn around(lines: &[String]) -> Vec<IpAddr> {
    let mut all = vec![];
    for line in lines {
        let prefix = line.split(' ').next().expect("a prefix");
        let (address, length) = prefix.split_once('/').expect("an address and a length");
        match address.parse().expect("an address") {
            IpAddr::V4(four) => {
                let (first, bits) = (four.to_bits(), length.parse::<u32>().expect("bits"));
                let last = first | u32::MAX.checked_shr(bits).unwrap_or(0);
                let four = [first, last, first.wrapping_sub(1), last.wrapping_add(1)];
                all.extend(four.map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))));
            }
            IpAddr::V6(six) => {
                let (first, bits) = (six.to_bits(), length.parse::<u32>().expect("bits"));
                let last = first | u128::MAX.checked_shr(bits).unwrap_or(0);
                let six = [first, last, first.wrapping_sub(1), last.wrapping_add(1)];
                all.extend(six.map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))));
            }
        }
    }
    all
}

fn same(changed: &Runner<Router>, anew: &Runner<Router>, lines: &[String]) {
    for address in around(lines) {
        assert_eq!(ways(changed, address), ways(anew, address), "{address}");
    }
    let counts = |runner: &Runner<Router>| {
        let report = runner.report(at(0)).expect("a report");
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        [report["routes"]["ipv4"].clone(), report["routes"]["ipv6"].clone()]
    };
    assert_eq!(counts(changed), counts(anew));
}

/// A line: few prefixes, that nest and lie beside each other, with several ways each.
fn line() -> impl Strategy<Value = String> {
    let byte = prop_oneof![4 => 0u8..3, 1 => 250u8..=255];
    let four = (16u8..19, byte.clone(), byte.clone(), byte, 0u8..=32).prop_map(|(a, b, c, d, length)| {
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        format!("{}/{length}", Ipv4Addr::from_bits(u32::from_be_bytes([a, b, c, d]) & mask))
    });
    let word = prop_oneof![4 => 0u16..3, 1 => 0xfffeu16..=0xffff];
    let six = (prop::sample::select(&[0x2001_0db8u128, 0x2600_0000]), word.clone(), word, 0u8..=128)
        .prop_map(|(first, second, last, length)| {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            let address = (first << 96 | u128::from(second) << 72 | u128::from(last)) & mask;
            format!("{}/{length}", Ipv6Addr::from_bits(address))
        });
    let prefix = prop_oneof![3 => four, 2 => six];
    (prefix, prop::sample::select(&WAYS)).prop_map(|(prefix, way)| {
        let is_six = prefix.contains(':');
        format!("{prefix} {}", if is_six && way.starts_with("via") { "via 2001:db8:b::2" } else { way })
    })
}

/// As many routes as make the table flat.
fn many() -> Vec<String> {
    (0..FLAT_FROM as u32 + 500)
        .map(|n| format!("{}/24 via 198.51.100.2", Ipv4Addr::from_bits((20 << 24) + (n << 8))))
        .collect()
}

/// More routes of IPv6 than one call takes.
fn many6() -> Vec<String> {
    (0..6000u32).map(|n| format!("2600:{:x}:{:x}::/48 via 2001:db8:b::2", n / 250, n % 250)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_changed_file_leads_where_it_would_if_it_were_read(
        is_flat: bool,
        has_many6: bool,
        stays in prop::collection::vec(line(), 0..60),
        goes in prop::collection::vec(line(), 0..60),
        comes in prop::collection::vec(line(), 0..60),
    ) {
        let mut many = if is_flat { many() } else { vec![] };
        many.extend(has_many6.then(many6).into_iter().flatten());
        let before = [many.clone(), stays.clone(), goes].concat();
        let after = [many, stays, comes].concat();
        let mut runner = with_file("routes_file: x", &text(&before));
        let taken = take(&mut runner, &difference(&before, &after));
        prop_assert_eq!(taken.0, Change::Taken);
        let lines = [before.clone(), after.clone()].concat();
        same(&runner, &with_file("routes_file: x", &text(&after)), &lines);
        // And back, as often as one likes.
        prop_assert_eq!(take(&mut runner, &difference(&after, &before)).0, Change::Taken);
        same(&runner, &with_file("routes_file: x", &text(&before)), &lines);
    }
}

#[test]
fn packets_go_on_while_a_file_is_taken() {
    let before = many();
    let after: Vec<String> = before.iter().map(|line| line.replace("100.2", "100.3")).collect();
    let mut runner = with_file("routes_file: x", &text(&before));
    let (frame, next) = (udp("192.0.2.9", "20.0.7.1", 8), |frame: &[u8]| frame[5]);
    let sent = |runner: &mut Runner<Router>| next(&ask(runner, &frame, at(0)).bytes.expect("sent"));
    assert_eq!(sent(&mut runner), 0xb2);
    runner.offer("routes_file", &difference(&before, &after));
    let mut seen = vec![];
    while runner.change(at(0)) == Change::More {
        seen.push(sent(&mut runner));
    }
    seen.push(sent(&mut runner));
    seen.dedup();
    assert_eq!(seen, [0xb2, 0xb3], "one after the other, and never anything else");
    same(&runner, &with_file("routes_file: x", &text(&after)), &after);
}

#[test]
fn many_routes_of_ipv6_are_taken_in_parts_while_packets_go_on() {
    // Each of a node for each of its last bytes, from none to as many and back.
    let many: Vec<String> = (0..20_000u32)
        .map(|n| format!("2600:{:x}:{:x}::{n:x}/128 via 2001:db8:b::2", n / 250, n % 250))
        .collect();
    let few = vec!["2600::/16 dev b".to_owned()];
    let mut runner = with_file("routes_file: x", &text(&few));
    let frame = udp("2001:db8:a::9", "2600:7:9::6df", 8);
    let is_sent =
        |runner: &mut Runner<Router>| ask(runner, &frame, at(0)).bytes.is_some_and(|bytes| bytes[5] == 0xb6);
    for (before, after) in [(&few, &many), (&many, &few)] {
        runner.offer("routes_file", &difference(before, after));
        let (mut seen, mut calls) = (vec![is_sent(&mut runner)], 0);
        while runner.change(at(0)) == Change::More {
            seen.push(is_sent(&mut runner));
            calls += 1;
        }
        seen.push(is_sent(&mut runner));
        seen.dedup();
        assert_eq!(seen, [before.len() > 1, after.len() > 1], "one after the other");
        // 512 lines, 16,384 routes, and 4,096 routes and nodes are what one does.
        assert!(calls > many.len() / 512, "{calls} calls");
        same(&runner, &with_file("routes_file: x", &text(after)), after);
    }
}

#[test]
fn what_cannot_be_taken_changes_nothing() {
    let before = many();
    let mut runner = with_file("routes_file: x", &text(&before));
    let few = vec!["10.0.0.0/8 via 198.51.100.2".to_owned()];
    let mut small = with_file("routes_file: x", &text(&few));
    for wrong in [
        "+10.0.0.0/8 via\n",
        "-10.0.0.0/8 via 198.51.100.2\n",
        "10.0.0.0/8 dev a\n",
        "+x",
        "+127.0.0.0/8 reject\n",
        "+10.0.0.1/8 reject\n",
    ] {
        let lines = format!("+30.0.0.0/8 via 198.51.100.3\n{wrong}");
        assert_eq!(take(&mut runner, &lines).0, Change::Refused, "{wrong}");
        same(&runner, &with_file("routes_file: x", &text(&before)), &before);
    }
    // More paths than one prefix may have.
    let paths: String = (2..80).map(|n| format!("+10.0.0.0/8 via 198.51.100.{n}\n")).collect();
    assert_eq!(take(&mut runner, &paths).0, Change::Refused);
    same(&runner, &with_file("routes_file: x", &text(&before)), &before);
    // A table that would become a flat one is made by another instance.
    assert_eq!(take(&mut small, &difference(&[], &before)).0, Change::Refused);
    same(&small, &with_file("routes_file: x", &text(&few)), &few);
    small.offer("routes", "+10.0.0.0/8 reject\n");
    assert_eq!(small.change(at(0)), Change::Refused, "another key");
}

#[test]
fn comments_and_empty_lines_are_no_routes_and_the_configurations_stay() {
    let config = "routes: [{to: 10.0.0.0/8, via: 198.51.100.2}]\nroutes_file: x";
    let mut runner = with_file(config, "10.0.0.0/8 via 198.51.100.2\n# one\n");
    let lines = "-10.0.0.0/8 via 198.51.100.2\n-# one\n+\n+  # two\n+192.0.2.0/24 via 198.51.100.3 # three\n";
    assert_eq!(take(&mut runner, lines).0, Change::Taken);
    let anew = with_file(config, "192.0.2.0/24 via 198.51.100.3\n");
    same(&runner, &anew, &["10.0.0.0/8".to_owned(), "192.0.2.0/24".to_owned(), "192.0.2.1/32".to_owned()]);
}
