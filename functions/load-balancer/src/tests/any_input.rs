//! Whatever comes: one counted verdict, sound checksums where they were sound, and bounds that hold.

use super::*;
use nf_sdk::devices::NeighbourState;
use nf_sdk::native::frames::{damaged, tagged};
use proptest::prelude::*;

const CONFIGS: [&str; 2] = [
    "
services:
  - {name: web, address: 198.51.100.7, protocol: tcp, ports: '80', choose: least-loaded, servers: [{address: 10.0.0.1, port: 2}, {address: 10.0.0.2, weight: 3}]}
  - {name: dns, address: 198.51.100.7, protocol: udp, ports: 2-3, affinity: 5s, servers: [{address: 10.0.0.1}]}
  - {name: six, address: '2001:db8:f::7', protocol: udp, ports: '2', servers: [{address: '2001:db8:a::1', port: 3}]}
max_connections: 9
max_half_open: 4
max_clients: 2
",
    "
services:
  - {name: near, address: 198.51.100.7, protocol: tcp, ports: 1-4, forward: direct, on_down: move, servers: [{address: 10.0.0.1}, {address: 10.0.0.2, mac: '02:00:00:00:00:52'}], check: {port: 2, interval: 300ms, timeout: 100ms, fall: 1}}
  - {name: dns, address: 198.51.100.7, protocol: udp, ports: '2', servers: [{address: 10.0.0.1}], check: {by: icmp, interval: 1s}}
unmatched: drop
",
];

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let address =
        || prop::sample::select(vec![VIP, "10.0.0.1", "10.0.0.2", "192.0.2.1", "10.0.0.254", "224.0.0.1"]);
    let six = || prop::sample::select(vec![VIP6, "2001:db8:a::1", "2001:db8:c::9"]);
    let ports = || (1u16..5, 1u16..5);
    let four =
        (address(), address(), 0u8..7, ports(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..60))
            .prop_map(|(from, to, kind, (a, b), flags, body)| {
                let (from, to) = (end(from, a), end(to, b));
                match kind {
                    0 => udp(&from, &to),
                    1 => tcp(&from, &to, flags),
                    2 => tagged(&udp(&from, &to), &[u16::from(flags & 1)]),
                    3 => {
                        let mut message = vec![3 + (flags & 8), 1, 0, 0, 0, 0, 0, 0];
                        message.extend(&tcp(&to, &from, flags)[14..54]);
                        packet(&from.0, &to.0, 1, &message)
                    }
                    4 => {
                        let mut frame = udp(&from, &to);
                        frame[20] = flags & 0x3f;
                        frame[21] = flags >> 6;
                        nf_sdk::native::frames::seal(&mut frame);
                        frame
                    }
                    5 => segment(&from, &to, flags, 49_000),
                    _ => packet(&from.0, &to.0, flags, &body),
                }
            });
    let six =
        (six(), six(), any::<bool>(), ports(), any::<u8>()).prop_map(|(from, to, is_udp, (a, b), flags)| {
            let (from, to) = (end(from, a), end(to, b));
            if is_udp { udp(&from, &to) } else { tcp(&from, &to, flags) }
        });
    prop_oneof![4 => four, 1 => six]
}

proptest! {
    #[test]
    fn every_packet_is_counted_once(
        frames in prop::collection::vec((frame(), 0u16..2, prop::collection::vec((0usize..80, any::<u8>()), 0..3), 0u32..20), 1..60),
        cut in prop::option::weighted(0.2, 0usize..70),
        config in 0usize..2,
        devices in any::<bool>(),
    ) {
        let mut bench = Bench::new(CONFIGS[config]);
        if devices {
            let known = [super::devices::neighbour(1, "10.0.0.1", NeighbourState::Reachable, 0x51)];
            bench.runner.set_devices(&super::devices::entries(&known), at(0.0));
        }
        let mut seen = 0u64;
        for (frame, ingress, changes, later) in frames {
            let is_changed = !changes.is_empty();
            let frame = damaged(frame, &changes, cut);
            bench.wait(f64::from(later) / 10.0);
            let length = frame.len();
            let out = bench.runner.run(&[TestPacket::new(frame, ingress)], at(bench.now)).remove(0);
            let verdict = out.verdict.expect("a verdict");
            prop_assert!(matches!(
                verdict,
                Verdict::Interface(0 | 1) | Verdict::Drop(0..=7) | Verdict::Hold(_) | Verdict::Consume
            ));
            let bytes = out.bytes.expect("an extent");
            prop_assert_eq!(bytes.len(), length);
            if matches!(verdict, Verdict::Interface(_)) && !is_changed && cut.is_none() {
                assert_sound(&bytes);
            }
            seen += 1;
            let connections = &bench.report()["connections"];
            prop_assert!(connections["now"].as_u64() <= connections["max"].as_u64());
        }
        // Fragments that were held are counted when their time is over.
        bench.wait(10.0);
        prop_assert_eq!(bench.counted(), seen);
    }

    /// A batch does what the same packets do one by one.
    #[test]
    fn a_batch_is_its_packets(frames in prop::collection::vec((frame(), 0u16..2), 1..150)) {
        let (mut one, mut many) = (Bench::new(CONFIGS[0]), Bench::new(CONFIGS[0]));
        let frames: Vec<TestPacket> =
            frames.into_iter().map(|(frame, ingress)| TestPacket::new(frame, ingress)).collect();
        let together = many.runner.run(&frames, at(0.0));
        for (frame, outcome) in frames.into_iter().zip(together) {
            let alone = one.runner.run(&[frame], at(0.0)).remove(0);
            match alone.verdict {
                // Its first fragment may be in the batch.
                Some(Verdict::Hold(_)) => prop_assert!(matches!(
                    outcome.verdict,
                    Some(Verdict::Hold(_) | Verdict::Consume | Verdict::Drop(6))
                )),
                _ => prop_assert_eq!(alone, outcome),
            }
        }
        prop_assert_eq!(one.report(), many.report());
    }
}
