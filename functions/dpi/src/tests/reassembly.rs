//! What is delivered of a stream, against a receiver that decides for each byte by looking at all segments.

use super::frames::{Bench, CLIENT, SERVER, flags, tcp};
use super::receiver::Receiver;
use nf_sdk::native::ConfigValue;
use proptest::prelude::*;

/// Two contents: the window keeps what was delivered.
const RULES: &str =
    "alert tcp any any -> any any (content:\"first content\"; content:\"second content\"; sid:1;)";

/// What the function has delivered of the client's data.
fn delivered(bench: &Bench) -> Vec<u8> {
    let tracker = &bench.runner.function().tracker;
    let Some(flow) = tracker.table.iter().next() else { return vec![] };
    let mut out = vec![];
    if let Some(window) = tracker.windows.get(flow.sides[0].window) {
        window.copy_last(usize::MAX, &mut out);
    }
    assert_eq!(flow.sides[0].position, out.len() as u64);
    out
}

proptest! {
    /// Any order, any overlap, any split, and a few bytes that say something else each time.
    #[test]
    fn a_stream_is_what_its_receiver_delivers(
        name in prop::sample::select(vec!["first", "last", "linux", "windows"]),
        start in prop_oneof![Just(100u32), any::<u32>()],
        segments in prop::collection::vec((0u32..60, prop::collection::vec(any::<u8>(), 1..25)), 1..30),
    ) {
        let mut bench = Bench::new(RULES, &[("overlap", ConfigValue::text(name))]);
        let show = |bench: &mut Bench, ingress, frame| drop(bench.show(ingress, frame));
        show(&mut bench, 0, tcp(CLIENT, SERVER, flags::SYN, start.wrapping_sub(1), 0, &[]));
        show(&mut bench, 1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, start, &[]));
        show(&mut bench, 0, tcp(CLIENT, SERVER, flags::ACK, start, 500, &[]));
        let mut receiver = Receiver::new(name);
        for (at, data) in segments {
            show(&mut bench, 0, tcp(CLIENT, SERVER, flags::ACK, start.wrapping_add(at), 500, &data));
            receiver.take(u64::from(at), &data);
            prop_assert_eq!(&delivered(&bench), &receiver.delivered);
            let held = bench.report()["streams"]["held_bytes"].as_u64().expect("a number");
            prop_assert_eq!(held, receiver.waiting() as u64);
        }
    }

    /// Whatever is sent, the memory for segments that wait has its bound, and all of it comes back.
    #[test]
    fn held_segments_have_a_bound(
        frames in prop::collection::vec((0u16..40, 0u32..5000, 1usize..300), 1..300),
    ) {
        let limit = 64 << 10;
        let changes = [
            ("stream_memory", ConfigValue::Integer(limit)),
            ("stream_window", ConfigValue::Integer(64)),
            ("reorder_limit", ConfigValue::Integer(4000)),
        ];
        let mut bench = Bench::new(RULES, &changes);
        for (port, at, length) in frames {
            let client = ("10.0.0.1", port + 1);
            if at % 7 == 0 {
                bench.show(0, tcp(client, SERVER, flags::SYN, 99, 0, &[]));
                bench.show(1, tcp(SERVER, client, flags::SYN | flags::ACK, 499, 100, &[]));
            }
            bench.show(0, tcp(client, SERVER, flags::ACK, 101 + at, 500, &vec![b'x'; length]));
            let reorder = &bench.runner.function().tracker.reorder;
            prop_assert!(reorder.cost() <= limit as usize / 4 && reorder.bytes() <= reorder.cost());
        }
        bench.now += 100_000.0;
        for _ in 0..64 {
            bench.runner.timer(super::frames::at(bench.now));
        }
        prop_assert_eq!(bench.runner.function().tracker.reorder.cost(), 0);
    }
}
