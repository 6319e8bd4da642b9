//! Hostile input: any rules, any packets, any state; and payloads and rules that make matching dear.

use super::frames::{Bench, CLIENT, SERVER, at, config, icmp, tagged, tcp, udp};
use crate::Dpi;
use crate::budget::Budget;
use crate::conditions::Context;
use crate::detect::{Detector, Portion, Shown};
use crate::header::Frame;
use crate::rules::Rules;
use crate::rules::network::Variables;
use nf_sdk::Verdict;
use nf_sdk::native::frames::damaged;
use nf_sdk::native::{ConfigValue, Runner, TestPacket};
use proptest::prelude::*;

const RULES: &str = "alert tcp any any -> any any (content:\"ab\"; content:\"ba\"; distance:0; sid:1;)\n\
    drop udp any any -> any 1:3 (content:\"a\"; dsize:>3; sid:2;)\n\
    alert icmp any any -> any any (itype:8; sid:3;)\n\
    pass ip any any -> 10.0.0.2 any (pcre:\"/aab+/\"; sid:4;)\n\
    drop ip 10.9.0.0/16 any -> any any (sid:5;)\n";

fn nearly_right() -> impl Strategy<Value = Vec<u8>> {
    let data = prop::collection::vec(prop::sample::select(b"ab".to_vec()), 0..40);
    let whole = (any::<u8>(), 0u16..5, any::<u8>(), 0u32..60, any::<bool>(), 0usize..5, data).prop_map(
        |(kind, port, flags, seq, v6, form, data)| {
            let (a, b) = if v6 { ("2001:db8::1", "2001:db8::2") } else { ("10.0.0.1", "10.0.0.2") };
            match form {
                0 => udp((a, port), (b, 2), &data),
                1 | 2 => tcp((a, port), (b, 80), flags & 0x17, seq, 1, &data),
                3 => icmp(a, b, kind, 0, &data),
                _ => tagged(&udp((a, port), (b, 2), &data), &[u16::from(kind), 7]),
            }
        },
    );
    let changes = prop::collection::vec((0usize..90, any::<u8>()), 0..3);
    (whole, changes, prop::option::of(0usize..90))
        .prop_map(|(frame, changes, cut)| damaged(frame, &changes, cut))
}

proptest! {
    #[test]
    fn every_packet_ends_with_one_counted_verdict(
        frames in prop::collection::vec(
            (prop_oneof![prop::collection::vec(any::<u8>(), 0..120), nearly_right()], 0u16..3), 1..150),
        pick_up in any::<bool>(), drops in any::<bool>(), step in 0u64..40_000_000_000,
    ) {
        let action = ConfigValue::text(if drops { "drop" } else { "accept" });
        let changes = [
            ("pick_up", ConfigValue::Boolean(pick_up)),
            ("max_flows", ConfigValue::Integer(20)),
            ("malformed", action.clone()),
            ("fragments", action.clone()),
            ("ignored", action.clone()),
            ("overload", action),
        ];
        let mut bench = Bench::new(RULES, &changes);
        let packets: Vec<_> = frames.iter().map(|(bytes, ingress)| TestPacket::new(bytes.clone(), *ingress)).collect();
        let mut seen = 0u64;
        for (n, some) in packets.chunks(64).enumerate() {
            let now = nf_sdk::Nanos(at(0.0).0 + n as u64 * step);
            for (outcome, packet) in bench.runner.run(some, now).into_iter().zip(some) {
                let onward = Verdict::Interface(1 - (packet.record.ingress & 1));
                let verdict = outcome.verdict;
                prop_assert!(verdict == Some(onward) || matches!(verdict, Some(Verdict::Drop(0..=6))), "{:?}", verdict);
                // The image declares that it only reads.
                prop_assert_eq!(outcome.bytes.as_ref(), Some(&packet.bytes));
                seen += 1;
            }
            bench.runner.timer(now);
            let counted: u64 = (0..8).map(|counter| bench.runner.host().counter(counter)).sum();
            prop_assert_eq!(counted, seen);
            prop_assert_eq!(bench.count("alerts"), bench.runner.host().events().len() as u64);
            let now = bench.report()["flows"]["now"].as_u64().expect("a number");
            prop_assert!(now <= 20);
            let gone = bench.count("flows-expired") + bench.count("flows-evicted");
            prop_assert_eq!(bench.count("flows-opened"), now + gone);
        }
        let state = bench.runner.export_state().expect("offered");
        prop_assert!(Bench::new(RULES, &changes).runner.import_state(&state));
    }

    #[test]
    fn any_text_is_read_or_refused_with_places(
        text in "(alert|drop|x)? ?(tcp|ip)? [a$!\\[\\],:0-9. >-]{0,20} ?(any any -> any any )?\\((content:\"[a|\\\\0-9]{0,9}\";|pcre:\"/[a-c(*+?\\[]{0,6}/[iR]\";|sid:[0-9];|[a-z]{1,9}:[a-z0-9,]{0,5};|depth:1;){0,6}\\)?[\\\\\n]{0,2}",
    ) {
        if let Err(error) = Runner::<Dpi>::new(&config(&text, &[])) {
            for line in error.message().lines() {
                prop_assert!(line.starts_with("test.rules:") && line.contains("; allowed: "), "{}", line);
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Rules::parse(&bytes, &Variables::new());
    }

    #[test]
    fn any_state_is_taken_or_refused_whole(
        entries in prop::collection::vec((prop::collection::vec(any::<u8>(), 46..50), prop::collection::vec(any::<u8>(), 94..98)), 0..20),
    ) {
        let mut state = vec![];
        for (key, value) in &entries {
            state.extend((key.len() as u32).to_le_bytes());
            state.extend((value.len() as u32).to_le_bytes());
            state.extend(key);
            state.extend(value);
        }
        let mut bench = Bench::new(RULES, &[]);
        prop_assert_eq!(bench.runner.import_state(&state), entries.is_empty());
        prop_assert_eq!(&bench.report()["flows"]["now"], &serde_json::Value::from(0));
    }
}

/// What matching a datagram's payload cost, in units, and whether it would have cost more than is allowed.
fn cost(rules: &str, data: &[u8]) -> (u32, bool) {
    let rules = Rules::parse(rules.as_bytes(), &Variables::new()).expect("well-formed");
    let mut detector = Detector::new(rules, 2048, 1024);
    let frame = udp(CLIENT, SERVER, data);
    let level = crate::header::outermost(&frame).expect("a datagram");
    let Frame::Ip(view) = crate::header::read(&frame, &level) else { panic!("a datagram") };
    let context =
        Context { view: &view, direction: None, is_established: false, judges_addresses: true, app: None };
    let mut budget = Budget::new(data.len());
    let before = budget.left();
    detector.begin();
    let shown = Shown { payload: view.payload, portion: Portion::Alone };
    detector.detect(&context, shown, None, &mut budget);
    (before - budget.left(), budget.is_spent())
}

/// Rules that are as alike as can be, and payloads made to meet them as often as can be. Every comparison is
/// paid for, so that what is spent is what it takes.
#[test]
fn hostile_rules_and_payloads_cost_no_more_than_allowed() {
    let rules = |count: usize, contents: &dyn Fn(usize) -> String| -> String {
        let rule = |n: usize| format!("alert udp any any -> any any ({} sid:{};)\n", contents(n), n + 1);
        (0..count).map(rule).collect()
    };
    let alike = rules(2000, &|n| format!("content:\"{}{n:04}\";", "a".repeat(60)));
    let nested = rules(248, &|n| format!("content:\"{}\";", "a".repeat(n + 7)));
    let short =
        rules(400, &|n| format!("content:\"|{:02x} {:02x}|\"; content:!\"a\";", n % 256, n / 2 % 256));
    let deep = rules(50, &|n| {
        format!("{}content:\"|00|z{n}\"; distance:0;", "content:\"aa\"; distance:0; ".repeat(30))
    });
    let length = 60_000;
    let same = vec![b'a'; length];
    let nearly: Vec<u8> = (0..length).map(|n| if n % 61 == 0 { b'0' } else { b'a' }).collect();
    let noise: Vec<u8> = (0..length as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();

    // What tells the rules apart is looked for, not what they have in common.
    assert!(cost(&alike, &same).0 < 100);
    // Each literal is looked for once, although it is everywhere.
    let (units, too_much) = cost(&nested, &same);
    assert!(units < 100_000 && !too_much, "{units}");
    for data in [&same, &nearly, &noise] {
        for rules in [&alike, &nested, &short, &deep] {
            let (units, too_much) = cost(rules, data);
            let allowed = Budget::new(length).left();
            assert!(units <= allowed && (!too_much || units == allowed), "{units}");
        }
    }
    // What has no match behind thirty others is not tried to the end.
    let behind = deep.replace("|00|z", "aa|00|");
    let met = [b"aa\x000aa\x001".as_slice(), &same].concat();
    assert!(cost(&behind, &met).1);
}

/// Literals of which each sample is one of many others too, and a payload of such samples.
#[test]
fn literals_that_look_alike_are_compared_as_often_as_allowed_and_hide_no_others() {
    let alike = |n: u32| {
        let bytes: String = (0..12).map(|bit| if n >> bit & 1 == 0 { "00 " } else { "01 " }).collect();
        format!("alert udp any any -> any any (content:\"|{}|\"; sid:{n};)\n", bytes.trim_end())
    };
    let rules: String = (1..4000).map(alike).collect();
    let rules = format!("{rules}alert udp any any -> any any (content:\"another\"; sid:9999;)\n");
    let mut bench = Bench::new(&rules, &[]);
    let mut payload = vec![0; 1200];
    payload.extend(b"another");
    assert_eq!(bench.sids(udp(CLIENT, SERVER, &payload)), [9999]);
    assert_eq!(bench.count("overloads"), 1);
    // Few of them are compared with all that look alike.
    let found = bench.sids(udp(CLIENT, SERVER, &[[1; 4].as_slice(), &[9; 40], b"another"].concat()));
    assert_eq!((found, bench.count("overloads")), (vec![9999], 1));
    // Whether the packet passes is the operator's decision.
    let mut bench = Bench::new(&rules, &[("overload", ConfigValue::text("drop"))]);
    assert_eq!(bench.show(0, udp(CLIENT, SERVER, &payload)).0, Verdict::Drop(4));
}
