//! Hostile packets and state, and the quick ways to read against the complete one.

use super::{at, function, packet, report, tagged, udp};
use crate::header::{common, read, read_closely};
use nf_sdk::native::TestPacket;
use nf_sdk::native::frames::damaged;
use nf_sdk::{PacketRecord, Verdict};
use proptest::prelude::*;
use std::vec::Vec;

fn nearly_right() -> impl Strategy<Value = Vec<u8>> {
    let whole = (any::<u8>(), any::<u16>(), any::<bool>(), 0usize..3).prop_map(|(kind, port, v6, form)| {
        let (a, b) = if v6 { ("2001:db8::1", "2001:db8::2") } else { ("10.0.0.1", "10.0.0.2") };
        match form {
            0 => udp(a, [port % 4, 53], b, 90),
            1 => tagged(&udp(a, [port % 4, 53], b, 90), &[u16::from(kind), 7]),
            _ => packet(a, b, kind, &[kind; 40]),
        }
    });
    (whole, prop::collection::vec((0usize..90, any::<u8>()), 0..4), prop::option::of(0usize..90))
        .prop_map(|(frame, changes, cut)| damaged(frame, &changes, cut))
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(any::<u8>(), 0..120), nearly_right()]
}

proptest! {
    #[test]
    fn the_quick_ways_read_what_the_complete_one_does(frame in any_frame(), ingress in 0..2u64) {
        let closely = read_closely(&frame, 0, ingress);
        prop_assert_eq!(read(&frame, 0, ingress), closely);
        if let Some(seen) = common(&frame, ingress) {
            prop_assert_eq!(seen, closely);
        }
    }

    #[test]
    fn every_packet_ends_with_one_counted_verdict(
        frames in prop::collection::vec((any_frame(), 0..3u16, any::<[u8; 3]>(), any::<u16>(), any::<u64>()), 1..150),
        step in 0..1u64 << 40,
    ) {
        let mut runner = function(
            "
max_buckets: 5
non_ip: police
policers:
  - {from: inside, protocol: udp, key: [source, source_port, mark], rate: 1kbps, burst: 200B}
  - {source: '::/0', key: [destination, vlan], rate: 1kbps, burst: 200B, excess_burst: 64B}
  - {from: outside, key: [protocol, ingress], packet_rate: 1pps, packet_burst: 2, exceed: mark}
",
        );
        let packets: Vec<_> = frames.iter().map(|(bytes, ingress, [gso, _, _], size, mark)| {
            let record = PacketRecord { ingress: *ingress, gso_type: *gso, gso_size: *size, mark: *mark, ..PacketRecord::default() };
            TestPacket { bytes: bytes.clone(), record }
        }).collect();
        let mut seen = 0u64;
        for (n, some) in packets.chunks(64).enumerate() {
            let now = at(n as u64 * step);
            for (outcome, packet) in runner.run(some, now).into_iter().zip(some) {
                let onward = Verdict::Interface(1 - (packet.record.ingress & 1));
                let verdict = outcome.verdict;
                prop_assert!(verdict == Some(onward) || matches!(verdict, Some(Verdict::Drop(0..=3))), "{:?}", verdict);
                prop_assert_eq!(outcome.bytes.as_ref(), Some(&packet.bytes));
                prop_assert_eq!(outcome.mark & !255, packet.record.mark & !255);
                seen += 1;
            }
            runner.timer(now);
            let counted: u64 = [0, 2, 3, 4, 5].iter().map(|counter| runner.host().counter(*counter)).sum();
            prop_assert_eq!(counted, seen);
            let report = report(&runner);
            let number = |name: &str| report["buckets"][name].as_u64().expect("a number");
            prop_assert!(number("live") <= 5);
            prop_assert_eq!(number("made"), number("live") + number("forgotten"));
            let by_policer: u64 = report["policers"].as_array().expect("a list").iter()
                .flat_map(|policer| ["conform", "exceed", "violate"].map(|colour| policer[colour]["packets"].as_u64().unwrap_or(0)))
                .sum();
            let others = |name: &str| report["packets"][name].as_u64().expect("a number");
            prop_assert_eq!(by_policer + others("unpoliced") + others("malformed") + others("non-ip"), seen);
        }
        let state = runner.export_state().expect("offered");
        prop_assert!(runner.import_state(&state), "its own");
    }

    #[test]
    fn any_state_is_taken_or_refused_whole(
        entries in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..60), prop::collection::vec(any::<u8>(), 30..34)), 0..20),
    ) {
        let mut state = Vec::new();
        for (key, value) in &entries {
            state.extend((key.len() as u32).to_le_bytes());
            state.extend((value.len() as u32).to_le_bytes());
            state.extend(key);
            state.extend(value);
        }
        let mut runner = function("policers: [{key: [source], rate: 1Mbps}]");
        runner.import_state(&state);
        prop_assert_eq!(&report(&runner)["buckets"]["live"], 0);
    }
}
