//! Hostile packets: any bytes, and packets that are nearly right.

use super::frames::{Bench, at, icmp, rule, tagged, tcp, udp};
use nf_sdk::Verdict;
use nf_sdk::native::frames::damaged;
use nf_sdk::native::{ConfigValue, TestPacket};
use proptest::prelude::*;

fn nearly_right() -> impl Strategy<Value = Vec<u8>> {
    let whole = (any::<u8>(), any::<u16>(), any::<u8>(), any::<bool>(), 0usize..6).prop_map(
        |(kind, port, flags, v6, form)| {
            let (a, b) = if v6 { ("2001:db8::1", "2001:db8::2") } else { ("10.0.0.1", "10.0.0.2") };
            let port = port % 4;
            match form {
                0 => udp(a, port, b, 53),
                1 => tcp([(a, port), (b, 80)], flags, u32::from(kind), 1, 3),
                2 => icmp(a, b, [kind, 0], [0, 0, 0, 1], &udp(b, 53, a, port)[14..]),
                3 => tagged(&udp(a, port, b, 53), &[u16::from(kind), 7]),
                4 => super::fragments::one_of_few(v6, kind, flags),
                _ => super::frames::packet(a, b, kind, &[flags; 40]),
            }
        },
    );
    (whole, prop::collection::vec((0usize..90, any::<u8>()), 0..4), prop::option::of(0usize..90))
        .prop_map(|(frame, changes, cut)| damaged(frame, &changes, cut))
}

proptest! {
    #[test]
    fn every_packet_ends_with_one_counted_verdict(
        frames in prop::collection::vec(
            (prop_oneof![prop::collection::vec(any::<u8>(), 0..120), nearly_right()], 0u16..3), 1..150),
        stateful in any::<bool>(), pick_up in any::<bool>(), step in 0u64..40_000_000_000,
    ) {
        let rules = vec![
            rule("accept", &[("from", ConfigValue::text("inside"))]),
            rule("drop", &[("protocol", ConfigValue::text("tcp"))]),
        ];
        let changes = [
            ("stateful", ConfigValue::Boolean(stateful)),
            ("pick_up", ConfigValue::Boolean(pick_up)),
            ("max_flows", ConfigValue::Integer(20)),
            ("default_action", ConfigValue::text("accept")),
        ];
        let mut bench = Bench::new(rules, &changes);
        let packets: Vec<_> = frames.iter().map(|(bytes, ingress)| TestPacket::new(bytes.clone(), *ingress)).collect();
        let mut seen = 0u64;
        for (n, some) in packets.chunks(64).enumerate() {
            let now = nf_sdk::Nanos(at(0.0).0 + n as u64 * step);
            for (outcome, packet) in bench.runner.run(some, now).into_iter().zip(some) {
                let onward = Verdict::Interface(1 - (packet.record.ingress & 1));
                let verdict = outcome.verdict;
                prop_assert!(verdict == Some(onward) || matches!(verdict, Some(Verdict::Drop(0..=7) | Verdict::Hold(_))), "{:?}", verdict);
                // The image declares that it only reads.
                prop_assert_eq!(outcome.bytes.as_ref(), Some(&packet.bytes));
                seen += 1;
            }
            bench.runner.timer(now);
            bench.now = (n as u64 * step) as f64 / 1e9;
            prop_assert_eq!(bench.counted() + bench.runner.host().held() as u64, seen);
            let report = bench.report();
            if stateful {
                let flows = &report["flows"];
                let number = |name: &str| flows[name].as_u64().expect("a number");
                prop_assert!(number("ipv4") <= 20);
                prop_assert_eq!(number("opened"), number("ipv4") + number("ipv6") + number("expired") + number("evicted"));
            }
        }
    }

    #[test]
    fn any_state_is_taken_or_refused_whole(
        entries in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..50), prop::collection::vec(any::<u8>(), 14..18)), 0..20),
    ) {
        let mut state = vec![];
        for (key, value) in &entries {
            state.extend((key.len() as u32).to_le_bytes());
            state.extend((value.len() as u32).to_le_bytes());
            state.extend(key);
            state.extend(value);
        }
        let mut bench = Bench::new(vec![], &[]);
        let taken = bench.runner.import_state(&state);
        prop_assert_eq!(taken, entries.is_empty());
        prop_assert_eq!(&bench.report()["flows"]["ipv4"], &serde_json::Value::from(0));
    }
}
