//! Whatever comes: one counted verdict, sound checksums where they were sound, and bounds that hold.

use super::frames::*;
use nf_sdk::Verdict;
use nf_sdk::native::TestPacket;
use nf_sdk::native::frames::{damaged, tagged};
use proptest::prelude::*;

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let address = prop_oneof![Just(A), Just(B), Just(R), Just(EXT), Just("224.0.0.1"), Just("0.0.0.0")];
    (
        address.clone(),
        address,
        0u8..6,
        1u16..5,
        1u16..5,
        any::<u8>(),
        prop::collection::vec(any::<u8>(), 0..60),
    )
        .prop_map(|(from, to, kind, a, b, flags, body)| match kind {
            0 => udp((from, a), (to, b)),
            1 => tcp((from, a), (to, b), flags),
            2 => echo(from, to, flags & 8, a),
            3 => icmp(from, to, [3 + (flags & 8), 1], [0; 4], &carried(&udp((to, a), (from, b)), 8)),
            4 => tagged(&udp((from, a), (to, b)), &[u16::from(flags & 1)]),
            _ => packet(from, to, flags, &body),
        })
}

proptest! {
    #[test]
    fn every_packet_is_counted_once(
        frames in prop::collection::vec((frame(), 0u16..2, prop::collection::vec((0usize..80, any::<u8>()), 0..3), 0u32..200), 1..60),
        cut in prop::option::of(0usize..70),
    ) {
        let mut bench = Bench::new(&[]);
        let (mut seen, mut held) = (0u64, 0u64);
        for (frame, ingress, changes, later) in frames {
            let frame = damaged(frame, &changes, cut);
            bench.wait(f64::from(later) / 10.0);
            let length = frame.len();
            let out = bench.runner.run(&[TestPacket::new(frame, ingress)], at(bench.now));
            let verdict = out[0].verdict.expect("a verdict");
            prop_assert!(matches!(verdict, Verdict::Interface(0 | 1) | Verdict::Drop(0..=9) | Verdict::Hold(_)));
            prop_assert_eq!(out[0].bytes.as_ref().map(Vec::len), Some(length));
            seen += 1;
            held += u64::from(matches!(verdict, Verdict::Hold(_)));
        }
        // Those that were held are counted when their time is over or their first one has come.
        bench.wait(10.0);
        let _ = held;
        let counted: u64 = (0..14).map(|counter| bench.runner.host().counter(counter)).sum();
        prop_assert_eq!(counted, seen);
        prop_assert_eq!(bench.report()["fragments_held"].as_u64(), Some(0));
    }

    #[test]
    fn any_state_is_refused_or_taken(state in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut bench = Bench::new(&[]);
        let _ = bench.runner.import_state(&state);
        bench.mapped(udp((A, 4000), (R, 53)));
    }
}
