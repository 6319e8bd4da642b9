//! Hostile packets: any bytes, and packets that are nearly right.

use super::frames::{A, A6, B, B6, Bench, MAC, at, rule, to_port};
use nf_sdk::Verdict;
use nf_sdk::native::TestPacket;
use nf_sdk::native::frames::{icmp, packet, tcp, udp};
use proptest::prelude::*;

fn nearly_right() -> impl Strategy<Value = Vec<u8>> {
    let whole = (any::<u8>(), any::<u8>(), any::<bool>(), any::<bool>(), 0usize..6).prop_map(
        |(kind, flags, v6, back, form)| {
            let (near, far) = if v6 { (A6, B6) } else { (A, B) };
            let (a, b) = if back { (far, near) } else { (near, far) };
            match form {
                0 => udp(a, 60 + u16::from(kind % 16), b, 60 + u16::from(flags % 16)),
                1 => tcp([(a, 80), (b, 80)], flags, u32::from(kind), 1, 3),
                2 => icmp(a, b, [kind, 0], [0, 0, 0, 1], &udp(b, 53, a, 7)[14..]),
                3 => super::frames::discovery(
                    A6,
                    "ff02::1",
                    &[&[kind % 8 + 130, 0], [flags; 30].as_slice()].concat(),
                ),
                4 => [
                    &MAC[..],
                    &MAC,
                    &[8, 6, 0, 1, 8, 0, 6, 4, 0, kind % 4],
                    &MAC,
                    &[192, 0, 2, 9],
                    &[flags; 20],
                ]
                .concat(),
                _ => packet(a, b, kind, &[flags; 40]),
            }
        },
    );
    (whole, prop::collection::vec((0usize..90, any::<u8>()), 0..4), prop::option::of(0usize..90)).prop_map(
        |(mut frame, changes, cut)| {
            for (place, byte) in changes {
                if let Some(place) = frame.get_mut(place) {
                    *place = byte;
                }
            }
            frame.truncate(cut.unwrap_or(frame.len()));
            frame
        },
    )
}

proptest! {
    #[test]
    fn every_packet_ends_with_one_counted_verdict(
        frames in prop::collection::vec(
            (prop_oneof![prop::collection::vec(any::<u8>(), 0..120), nearly_right()], 0u16..3), 1..150),
        step in 0u64..40_000_000_000,
    ) {
        let mut bench = Bench::new(&[("administrator", vec![rule("in", &[]), to_port("out", "udp", 67)]), ("tenant", vec![rule("in", &[]), rule("out", &[])])]);
        let packets: Vec<_> = frames.iter().map(|(bytes, ingress)| TestPacket::new(bytes.clone(), *ingress)).collect();
        let mut seen = 0u64;
        for (n, some) in packets.chunks(64).enumerate() {
            let now = nf_sdk::Nanos(at(0.0).0 + n as u64 * step);
            for (outcome, packet) in bench.runner.run(some, now).into_iter().zip(some) {
                let onward = Verdict::Interface(1 - (packet.record.ingress & 1));
                let verdict = outcome.verdict;
                prop_assert!(verdict == Some(onward) || matches!(verdict, Some(Verdict::Drop(0..=9) | Verdict::Hold(_))), "{:?}", verdict);
                // Whatever the rules say, nothing leaves under an address that is not the device's.
                if verdict == Some(Verdict::Interface(1)) {
                    prop_assert_eq!(&packet.bytes[6..12], &MAC[..]);
                }
                // The image declares that it only reads.
                prop_assert_eq!(outcome.bytes.as_ref(), Some(&packet.bytes));
                seen += 1;
            }
            bench.runner.timer(now);
            bench.now = (n as u64 * step) as f64 / 1e9;
            let counted: u64 = (0..11).map(|counter| bench.runner.host().counter(counter)).sum();
            prop_assert_eq!(counted + bench.runner.host().held() as u64, seen);
        }
    }
}
