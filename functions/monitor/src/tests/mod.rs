//! The function against exact models, over arbitrary packets.

mod export;
mod tunnels;

use crate::Monitor;
use crate::flow_id::{End, FlowHash, FlowId};
use crate::flow_table::{Flow, FlowTable, NONE, PACKET_WEIGHT};
use crate::sighting::{look_at, look_closely};
use crate::totals::{SIZE_CLASSES, class_bounds, size_class};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use nf_sdk::native::{ConfigValue, Runner, TestPacket};
use nf_sdk::{Nanos, Verdict};
use packet::tunnel::{Tunnel, Tunnels};
use proptest::prelude::*;
use serde_json::Value;

fn config(flows: i64, top: i64, bidirectional: bool, interval: Option<i64>) -> Vec<u8> {
    let mut keys = vec![
        ("flows", ConfigValue::Integer(flows)),
        ("top", ConfigValue::Integer(top)),
        ("bidirectional", ConfigValue::Boolean(bidirectional)),
    ];
    keys.extend(interval.map(|interval| ("interval", ConfigValue::Integer(interval))));
    ConfigValue::map(keys).to_cbor()
}

fn monitor(flows: i64, top: i64, bidirectional: bool) -> Runner<Monitor> {
    Runner::new(&config(flows, top, bidirectional, None)).expect("a good configuration")
}

fn report(runner: &Runner<Monitor>) -> Value {
    let text = runner.report(Nanos(9)).expect("always");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A frame of a flow. Ports are left out where the protocol has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
    protocol: u8,
    length: usize,
}

impl Sent {
    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![0x02; 12];
        match (self.source.0, self.destination.0) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend([0x08, 0, 0x45, 0]);
                frame.extend((self.length as u16 - 14).to_be_bytes());
                frame.extend([0, 0, 0, 0, 64, self.protocol, 0, 0]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend((self.length as u16 - 54).to_be_bytes());
                frame.extend([self.protocol, 64]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
            }
            _ => unreachable!("one family"),
        }
        frame.extend(self.source.1.to_be_bytes());
        frame.extend(self.destination.1.to_be_bytes());
        frame.resize(self.length, 0);
        frame
    }

    /// What flows are told apart by.
    fn key(&self, merged: bool) -> [(IpAddr, u16); 2] {
        let mut ends = [self.source, self.destination];
        if merged {
            ends.sort();
        }
        ends
    }
}

/// Few addresses and ports, so that flows repeat and come in both directions.
fn sent() -> impl Strategy<Value = Sent> {
    let end = (0..4u8, prop_oneof![Just(80u16), 1000..1004u16]);
    (end.clone(), end, prop_oneof![Just(6u8), Just(17u8)], 80..400usize, any::<bool>()).prop_map(
        |((from, source), (to, destination), protocol, length, ipv6)| {
            let address = |n: u8| {
                if ipv6 {
                    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(n)))
                } else {
                    IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))
                }
            };
            Sent {
                source: (address(from), source),
                destination: (address(to), destination),
                protocol,
                length,
            }
        },
    )
}

fn packets(sent: &[Sent]) -> Vec<TestPacket> {
    sent.iter().map(|sent| TestPacket::new(sent.frame(), 0)).collect()
}

/// Packets and bytes by flow.
type Exact = BTreeMap<(u8, [(IpAddr, u16); 2]), (u64, u64)>;

fn exact(sent: &[Sent], merged: bool) -> Exact {
    let mut flows = Exact::new();
    for sent in sent {
        let sums = flows.entry((sent.protocol, sent.key(merged))).or_default();
        sums.0 += 1;
        sums.1 += sent.length as u64;
    }
    flows
}

fn end(flow: &Value, side: &str) -> (IpAddr, u16) {
    let address = flow[side].as_str().expect("text").parse().expect("an address");
    (address, flow[format!("{side}_port")].as_u64().expect("a number") as u16)
}

proptest! {
    #[test]
    fn counts_are_exact_until_the_table_is_full(
        sent in prop::collection::vec(sent(), 1..200), merged: bool, top in 1..30i64,
    ) {
        let mut runner = monitor(1000, top, merged);
        for (outcome, sent) in runner.run(&packets(&sent), Nanos(5)).iter().zip(&sent) {
            prop_assert_eq!(outcome.verdict, Some(Verdict::Interface(1)));
            prop_assert_eq!(outcome.bytes.as_ref(), Some(&sent.frame()));
        }
        let report = report(&runner);
        let exact = exact(&sent, merged);
        prop_assert_eq!(report["packets"].as_u64(), Some(sent.len() as u64));
        prop_assert_eq!(report["bytes"].as_u64(), Some(sent.iter().map(|s| s.length as u64).sum()));
        prop_assert_eq!(report["flows"]["tracked"].as_u64(), Some(exact.len() as u64));
        prop_assert_eq!(report["flows"]["exact"].as_bool(), Some(true));
        for (list, measure) in [("top_by_packets", 0), ("top_by_bytes", 1)] {
            let mut wanted: Vec<u64> = exact.values().map(|sums| if measure == 0 { sums.0 } else { sums.1 }).collect();
            wanted.sort_unstable_by(|a, b| b.cmp(a));
            wanted.truncate(top as usize);
            let flows = report[list].as_array().expect("a list");
            let name = ["packets", "bytes"][measure];
            let got: Vec<u64> = flows.iter().map(|flow| flow[name].as_u64().expect("a number")).collect();
            prop_assert_eq!(got, wanted);
            for flow in flows {
                let (source, destination) = (end(flow, "source"), end(flow, "destination"));
                let protocol = flow["protocol"].as_u64().expect("a number") as u8;
                // The ends are those of the flow's first packet.
                let first = sent.iter().find(|s| {
                    s.protocol == protocol
                        && (s.key(merged) == [source, destination] || merged && s.key(true) == [destination, source])
                }).expect("it was sent");
                prop_assert_eq!((first.source, first.destination), (source, destination));
                let sums = exact[&(protocol, first.key(merged))];
                prop_assert_eq!((flow["packets"].as_u64(), flow["bytes"].as_u64()), (Some(sums.0), Some(sums.1)));
                prop_assert_eq!(&flow["missed_at_most"], &Value::Null);
            }
        }
    }

    #[test]
    fn sums_by_kind_are_exact(sent in prop::collection::vec(sent(), 0..100), others in prop::collection::vec(
        (prop_oneof![Just(0x0806u16), 0x0500..0x0700u16, 0x9000..0x9040u16], 14..200usize), 0..100,
    )) {
        let mut frames = packets(&sent);
        let mut ethertypes: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
        for (ethertype, length) in &others {
            let mut frame = vec![0; *length];
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
            frames.push(TestPacket::new(frame, 1));
            let sums = ethertypes.entry(if *ethertype < 0x600 { 0 } else { *ethertype }).or_default();
            *sums = (sums.0 + 1, sums.1 + *length as u64);
        }
        let mut runner = monitor(10, 1, true);
        runner.run(&frames, Nanos(5));
        let report = report(&runner);
        let sums = |value: &Value| (value["packets"].as_u64().expect("number"), value["bytes"].as_u64().expect("number"));

        let mut named = (0, 0);
        for entry in report["ethertypes"].as_array().expect("a list") {
            let number = entry["ethertype"].as_str().expect("text");
            let number = number.strip_prefix("0x").map_or(0, |hex| u16::from_str_radix(hex, 16).expect("hexadecimal"));
            if number != 0x0800 && number != 0x86dd {
                prop_assert_eq!(Some(&sums(entry)), ethertypes.get(&number));
            }
            named = (named.0 + sums(entry).0, named.1 + sums(entry).1);
        }
        let other = sums(&report["other_ethertypes"]);
        prop_assert_eq!((named.0 + other.0, named.1 + other.1), sums(&report));

        for protocol in [6, 17] {
            let wanted = sent.iter().filter(|s| s.protocol == protocol).fold((0, 0), |sum, s| (sum.0 + 1, sum.1 + s.length as u64));
            let list = report["protocols"].as_array().expect("a list");
            let got = list.iter().find(|entry| entry["protocol"] == protocol).map_or((0, 0), sums);
            prop_assert_eq!(got, wanted);
        }
        let by_size: u64 = report["sizes"].as_array().expect("a list").iter().map(|c| c["packets"].as_u64().expect("number")).sum();
        prop_assert_eq!(by_size, frames.len() as u64);
    }

    #[test]
    fn any_bytes_are_counted_and_told_in_json(
        frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..80), any::<u16>()), 0..150),
        flows in 1..20i64,
    ) {
        let packets: Vec<_> = frames.iter().map(|(frame, ingress)| TestPacket::new(frame.clone(), *ingress)).collect();
        let mut runner = monitor(flows, 5, true);
        let outcomes = runner.run(&packets, Nanos(1));
        prop_assert!(outcomes.iter().all(|outcome| matches!(outcome.verdict, Some(Verdict::Interface(0 | 1) | Verdict::Drop(0)))));
        prop_assert_eq!(report(&runner)["packets"].as_u64(), Some(frames.len() as u64));
    }

    #[test]
    fn the_quick_look_sees_what_the_close_one_does(
        sent in sent(), merged: bool, spoil in prop::collection::vec((0..60usize, any::<u8>()), 0..3), cut in 0..80usize,
    ) {
        let mut frame = sent.frame();
        for (place, byte) in spoil {
            frame[place] = byte;
        }
        let all = Tunnels::new(Tunnel::ALL);
        for frame in [&frame[..], &frame[..cut]] {
            let (quick, close) = (look_at(frame, merged, &all), look_closely(frame, merged, &all));
            prop_assert_eq!(format!("{quick:?}"), format!("{close:?}"));
        }
    }

    #[test]
    fn identities_survive_their_bytes_and_directions_merge(sent in sent(), seed: u64) {
        let (source, destination) = (End::new(sent.source.0, sent.source.1), End::new(sent.destination.0, sent.destination.1));
        let ipv6 = sent.source.0.is_ipv6();
        let there = FlowId::new(ipv6, source, destination, sent.protocol, true);
        let back = FlowId::new(ipv6, destination, source, sent.protocol, true);
        let hash = FlowHash::new(seed);
        prop_assert!(there.is(&back) && hash.of(&there) == hash.of(&back));
        prop_assert_eq!(there.ends(), [sent.source, sent.destination]);
        prop_assert_eq!(back.ends(), [sent.destination, sent.source]);
        let copy = FlowId::from_bytes(&there.to_bytes()).expect("its own bytes");
        prop_assert!(copy.is(&there));
        prop_assert_eq!(copy.ends(), there.ends());
        let one_way = FlowId::new(ipv6, source, destination, sent.protocol, false);
        let other_way = FlowId::new(ipv6, destination, source, sent.protocol, false);
        prop_assert_eq!(one_way.is(&other_way), sent.source == sent.destination);
        let other = FlowId::new(ipv6, source, destination, sent.protocol ^ 1, true);
        prop_assert!(!other.is(&there));
    }
}

/// A stream of packets: number of the flow, bytes.
fn stream(flows: u16) -> impl Strategy<Value = Vec<(u16, u64)>> {
    // Low numbers come more often.
    let flow = (0..flows, 0..flows).prop_map(|(a, b)| a.min(b));
    prop::collection::vec((flow, 40..1500u64), 0..600)
}

fn flow_id(flow: u16) -> FlowId {
    FlowId::new(false, End::v4(0x0a00_0001, flow), End::v4(0x0a00_0002, 80), 6, true)
}

fn table(capacity: usize, seed: u64) -> FlowTable {
    FlowTable::new(capacity, seed).expect("memory")
}

fn fill(table: &mut FlowTable, stream: &[(u16, u64)]) {
    for (flow, bytes) in stream {
        let id = flow_id(*flow);
        table.count(&id, table.hash(&id), NONE, *bytes);
    }
}

/// What the table promises, against exact sums.
///
/// `inherited` is the floor of a table that was merged in: what that one forgot, this one cannot know.
fn check(table: &FlowTable, stream: &[(u16, u64)], inherited: u64) -> Result<(), TestCaseError> {
    let mut exact: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for (flow, bytes) in stream {
        let sums = exact.entry(*flow).or_default();
        *sums = (sums.0 + 1, sums.1 + bytes);
    }
    prop_assert!(table.flows().len() == exact.len().min(table.capacity()));
    if exact.len() <= table.capacity() {
        prop_assert_eq!((table.floor(), table.replaced()), (inherited, 0));
    }
    let mut seen = Vec::new();
    for flow in table.flows() {
        let number = flow.id.ends().map(|(_, port)| port).into_iter().find(|port| *port != 80).unwrap_or(80);
        let (packets, bytes) = exact[&number];
        prop_assert!(flow.packets <= packets && flow.bytes <= bytes);
        prop_assert!(flow.weight() >= bytes + packets * PACKET_WEIGHT, "flow {} may weigh more", number);
        prop_assert!(flow.missed <= table.floor());
        seen.push(number);
    }
    seen.sort_unstable();
    let distinct = seen.windows(2).all(|pair| pair[0] != pair[1]);
    prop_assert!(distinct, "a flow is there twice");
    for (number, (packets, bytes)) in &exact {
        if seen.binary_search(number).is_err() {
            prop_assert!(bytes + packets * PACKET_WEIGHT <= table.floor(), "flow {} is missing", number);
        }
    }
    Ok(())
}

#[test]
fn heavy_flows_stay_in_a_table_that_is_full_of_light_ones() {
    let mut table = table(1000, 9);
    let heavy = |n: u16| (n % 100, 1000);
    for n in 0..60_000u16 {
        fill(&mut table, &[heavy(n), (200 + n % 59_000, 60)]);
    }
    let kept = table.flows().iter().filter(|flow| flow.packets == 600).count();
    assert_eq!(kept, 100);
    // What a light flow can have weighed is near the mean of what they weigh together.
    let light = 60_000 * (60 + PACKET_WEIGHT) / 900;
    assert!(table.floor() < 2 * light, "{} against {light}", table.floor());
}

proptest! {
    #[test]
    fn a_full_table_keeps_its_bounds(stream in stream(60), capacity in 1..40usize, seed: u64) {
        let mut table = table(capacity, seed);
        for part in stream.chunks(50) {
            fill(&mut table, part);
        }
        check(&table, &stream, 0)?;
        // SpaceSaving's own bound, in each group by itself.
        let all: u64 = stream.iter().map(|(_, bytes)| bytes + PACKET_WEIGHT).sum();
        prop_assert!(table.floor() <= all / table.share() as u64);
    }

    #[test]
    fn merged_tables_keep_their_bounds(
        one in stream(60), other in stream(60), capacities in (1..40usize, 1..40usize), seeds: (u64, u64),
    ) {
        let (mut table, mut theirs) = (table(capacities.0, seeds.0), table(capacities.1, seeds.1));
        fill(&mut table, &one);
        fill(&mut theirs, &other);
        let flows: Vec<(Flow, u64)> = theirs.flows().iter().map(|flow| (*flow, 0)).collect();
        table.merge(&flows, theirs.floor());
        let both = [one, other].concat();
        let exact: alloc::collections::BTreeSet<u16> = both.iter().map(|(flow, _)| *flow).collect();
        // A small table of theirs may have forgotten flows; ours then holds fewer than it could.
        if theirs.replaced() == 0 || table.flows().len() == exact.len().min(table.capacity()) {
            check(&table, &both, theirs.floor())?;
        }
        // And it goes on from there.
        fill(&mut table, &both);
        prop_assert!(table.flows().iter().all(|flow| flow.missed <= table.floor()));
    }

    #[test]
    fn state_travels(sent in prop::collection::vec(sent(), 0..150), flows in 1..50i64, cut in 1..200usize) {
        let mut from = monitor(flows, 20, true);
        from.run(&packets(&sent), Nanos(7));
        let state = from.export_state().expect("offered");
        let mut to = monitor(flows, 20, true);
        prop_assert!(to.import_state(&state));
        let comparable = |runner: &Runner<Monitor>| {
            let mut report = report(runner);
            // How often it happened is told by the one to which it happened.
            report["flows"]["replaced"] = Value::Null;
            report
        };
        prop_assert_eq!(comparable(&to), comparable(&from));

        // Cut short or longer it is refused, and nothing of it is taken.
        let mut fresh = monitor(flows, 20, true);
        let before = fresh.report(Nanos(9));
        prop_assert!(!fresh.import_state(&state[..state.len().saturating_sub(cut)]));
        prop_assert!(!fresh.import_state(&[&state[..], &state[..]].concat()));
        prop_assert_eq!(fresh.report(Nanos(9)), before);

        // Counts of one half and the other make the counts of all.
        let (first, second) = sent.split_at(sent.len() / 2);
        let (mut one, mut other, mut all) = (monitor(1000, 1, true), monitor(1000, 1, true), monitor(1000, 1, true));
        one.run(&packets(first), Nanos(7));
        other.run(&packets(second), Nanos(7));
        all.run(&packets(&sent), Nanos(7));
        prop_assert!(one.import_state(&other.export_state().expect("offered")));
        let key = |flow: &Flow| (flow.id.protocol(), {
            let mut ends = flow.id.ends();
            ends.sort();
            ends
        });
        let sums = |runner: &Runner<Monitor>| -> Exact {
            runner.function().table().flows().iter().map(|flow| (key(flow), (flow.packets, flow.bytes))).collect()
        };
        prop_assert_eq!(sums(&one), sums(&all));
    }

    #[test]
    fn any_bytes_are_a_state_or_refused(state in prop::collection::vec(any::<u8>(), 0..200), place: prop::sample::Index, byte: u8) {
        let mut runner = monitor(4, 1, true);
        runner.import_state(&state);
        let mut from = monitor(4, 1, true);
        from.run(&[TestPacket::new(vec![8; 60], 0)], Nanos(1));
        let mut spoiled = from.export_state().expect("offered");
        let place = place.index(spoiled.len());
        spoiled[place] = byte;
        runner.import_state(&spoiled);
        runner.run(&[TestPacket::new(vec![8; 60], 0)], Nanos(1));
        report(&runner);
    }
}

#[test]
fn groups_of_a_full_table_come_to_have_the_same_share() {
    let mut table = table(4000, 3);
    fill(&mut table, &(0..4000u16).map(|n| (n, 100)).collect::<Vec<_>>());
    assert!(table.poorest() + 3 < table.share(), "as chance has it: {}", table.poorest());
    fill(&mut table, &(4000..20_000u16).map(|n| (n, 100)).collect::<Vec<_>>());
    assert!(table.poorest() + 1 >= table.share(), "{} of {}", table.poorest(), table.share());
    assert_eq!(table.flows().len(), 4000);
}

#[test]
fn heavy_flows_are_found_among_many_light_ones() {
    let mut table = table(64, 1);
    let mut stream = Vec::new();
    for n in 0..20_000u32 {
        // One packet in four is of one of ten heavy flows, each more than a 64th of all; the others hardly
        // repeat.
        let flow = if n.is_multiple_of(4) { (n / 4 % 10) as u16 } else { (1000 + n * 7919 % 50_000) as u16 };
        stream.push((flow, 100));
    }
    fill(&mut table, &stream);
    let mut found: Vec<u16> = crate::report::top(table.flows(), 64, |flow| flow.packets)
        .filter(|(_, flow)| flow.packets >= 400)
        .flat_map(|(_, flow)| flow.id.ends().map(|(_, port)| port))
        .filter(|port| *port < 10)
        .collect();
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn sums_end_where_state_can_still_carry_them() {
    let mut from = monitor(1, 1, true);
    let frame = |port| Sent {
        source: (Ipv4Addr::new(10, 0, 0, 1).into(), port),
        destination: (Ipv4Addr::new(10, 0, 0, 2).into(), 80),
        protocol: 17,
        length: 100,
    };
    from.run(&packets(&[frame(1)]), Nanos(1));
    // Packets of all and of the one flow: as many as can be.
    let mut state = from.export_state().expect("offered");
    let largest = crate::totals::LARGEST.to_le_bytes();
    let all = 8 + 6 + 6 * 8;
    state[all..all + 8].copy_from_slice(&largest);
    let flow = state.len() - 24;
    state[flow..flow + 8].copy_from_slice(&largest);
    let mut to = monitor(1, 1, true);
    for _ in 0..3 {
        assert!(to.import_state(&state));
    }
    to.run(&packets(&[frame(1), frame(2), frame(3), frame(3)]), Nanos(2));
    let state = to.export_state().expect("offered");
    let mut again = monitor(1, 1, true);
    assert!(again.import_state(&state));
    assert_eq!(report(&again)["packets"].as_u64(), Some(crate::totals::LARGEST));
}

#[test]
fn classes_of_size_are_without_gaps() {
    let mut next = 0;
    for class in 0..SIZE_CLASSES {
        let (from, to) = class_bounds(class);
        assert_eq!(from, next);
        assert_eq!(size_class(from), class);
        if let Some(to) = to {
            assert_eq!((size_class(to), size_class(to + 1)), (class, class + 1));
            next = to + 1;
        }
    }
    assert_eq!(size_class(1 << 20), SIZE_CLASSES - 1);
}

#[test]
fn fragments_count_for_the_flow_without_ports() {
    let whole = Sent {
        source: (Ipv4Addr::new(10, 0, 0, 1).into(), 5000),
        destination: (Ipv4Addr::new(10, 0, 0, 2).into(), 80),
        protocol: 17,
        length: 100,
    };
    let (mut first, mut later) = (whole.frame(), whole.frame());
    first[20] = 0x20;
    later[21] = 0x10;
    let mut runner = monitor(10, 10, true);
    runner.run(&[TestPacket::new(first, 0), TestPacket::new(later, 0)], Nanos(1));
    let report = report(&runner);
    assert_eq!(report["fragments"]["packets"], 2);
    assert_eq!(report["flows"]["tracked"], 1);
    assert_eq!(end(&report["top_by_bytes"][0], "source"), (whole.source.0, 0));
}

#[test]
fn what_a_capture_left_out_and_segments_that_were_not_cut_yet_count_and_are_said() {
    let whole = Sent {
        source: (Ipv4Addr::new(10, 0, 0, 1).into(), 5000),
        destination: (Ipv4Addr::new(10, 0, 0, 2).into(), 80),
        protocol: 6,
        length: 100,
    };
    let mut part = TestPacket::new(whole.frame(), 0);
    part.record.gso_size = 1400;
    let mut unsegmented = whole.frame();
    unsegmented[16..18].fill(0);
    // Of a packet that is still to be cut into segments nothing is missing.
    let mut segments = TestPacket::new(whole.frame(), 0);
    (segments.record.gso_type, segments.record.gso_size) = (nf_sdk::offload::GSO_TCPV4, 1400);
    let length = whole.frame().len() as u64;
    let mut runner = monitor(10, 10, true);
    runner.run(&[part, TestPacket::new(unsegmented, 0), segments], Nanos(1));
    let seen = report(&runner);
    assert_eq!(
        (&seen["snapped"]["packets"], &seen["snapped"]["bytes"]),
        (&1.into(), &(length + 1400).into())
    );
    assert_eq!((&seen["unsegmented"]["packets"], &seen["unsegmented"]["bytes"]), (&1.into(), &length.into()));
    assert_eq!(seen["top_by_bytes"][0]["bytes"], 3 * length + 1400);
    // They travel with the state.
    let mut other = monitor(10, 10, true);
    assert!(other.import_state(&runner.export_state().expect("a state")));
    assert_eq!(report(&other)["snapped"], seen["snapped"]);
}

#[test]
fn totals_are_logged_at_the_interval() {
    let mut runner = Runner::<Monitor>::new(&config(10, 1, true, Some(1_000_000_000))).expect("good");
    assert_eq!(runner.host().deadline(), None, "no packet, no timer");
    runner.run(&[TestPacket::new(vec![0; 60], 0)], Nanos(5));
    assert_eq!(runner.host().deadline(), Some(Nanos(1_000_000_005)));
    runner.timer(Nanos(1_000_000_009));
    assert_eq!(runner.host().deadline(), Some(Nanos(2_000_000_009)));
    let lines: Vec<String> = runner.host().log().iter().map(|(_, line)| line.to_string()).collect();
    assert_eq!(lines, ["1 packets, 60 bytes, 0 flows, 0 malformed"]);
}

#[test]
fn configurations_out_of_range_are_refused() {
    for wrong in [
        config(0, 1, true, None),
        config(1_000_001, 1, true, None),
        config(-1, 1, true, None),
        config(1, 0, true, None),
        config(1, 1001, true, None),
        config(1, 1, true, Some(0)),
        vec![0xa0],
        vec![],
        vec![0xff],
    ] {
        assert!(Runner::<Monitor>::new(&wrong).is_err(), "{wrong:x?}");
    }
}

#[test]
fn the_manifest_is_in_order_and_its_defaults_work() {
    let manifest =
        manifest::Manifest::parse("function.yaml", include_str!("../../function.yaml")).expect("in order");
    let mut faults = Vec::new();
    let value = manifest.schema.check("edge.yaml", "", None, &mut faults).expect("only defaults");
    let runner = Runner::<Monitor>::new(&value.to_cbor()).expect("the defaults");
    let settings = runner.function().settings();
    assert_eq!((settings.flows, settings.top, settings.bidirectional), (65_536, 10, true));
    assert_eq!(settings.interval, None);
}

#[test]
fn the_examples_of_the_readme_are_some() {
    let manifest =
        manifest::Manifest::parse("function.yaml", include_str!("../../function.yaml")).expect("in order");
    let blocks = include_str!("../../README.md").split("```yaml\n").skip(1);
    let examples: Vec<&str> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let document = yaml_document::Document::parse("README.md", example).expect("YAML");
        let config = ["functions", "flows", "config"]
            .iter()
            .fold(document.root(), |node, key| node.get(key).expect("a key"));
        let mut faults = Vec::new();
        let value = manifest.schema.check("README.md", "", Some(config), &mut faults);
        assert_eq!(faults, []);
        assert!(Runner::<Monitor>::new(&value.expect("without faults").to_cbor()).is_ok());
    }
}

#[test]
fn flows_that_weigh_more_than_is_noted_beside_them_keep_the_bounds() {
    let mut table = table(40, 9);
    // Up to 4 GiB is noted, and the lightest of flows beyond is looked for among the flows.
    let stream: Vec<(u16, u64)> = (0..2000u64).map(|n| ((n * 7 % 90) as u16, 1 << (28 + n % 7))).collect();
    fill(&mut table, &stream);
    check(&table, &stream, 0).expect("bounds");
    assert!(table.replaced() > 100 && table.floor() > u64::from(u32::MAX), "{}", table.floor());
}

#[test]
fn the_table_is_keyed_by_the_start_and_not_by_the_time() {
    let seed = |random: u8, begin: u64| {
        let config = config(100, 10, true, None);
        let mut runner =
            Runner::<Monitor>::with_random(&config, [random; nf_sdk::RANDOM]).expect("a good configuration");
        runner.run(&[TestPacket::new(vec![0; 60], 0)], Nanos(begin));
        runner.function().table().seed()
    };
    assert_eq!(seed(1, 1_000_000_000), seed(1, 2_123_456_789), "the time decides nothing");
    assert_ne!(seed(1, 1_000_000_000), seed(2, 1_000_000_000));
}
