//! Hostile packets: any bytes, and packets that are nearly right.

use super::frames::{A, A6, B, B6, Bench, LINK_LOCAL, MAC, at, rule};
use nf_sdk::Verdict;
use nf_sdk::native::TestPacket;
use nf_sdk::native::frames::{damaged, icmp, packet, tagged, tcp, udp};
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
    let changes = prop::collection::vec((0usize..90, any::<u8>()), 0..4);
    (whole, changes, prop::option::of(0usize..90), prop::option::weighted(0.1, any::<u16>())).prop_map(
        |(frame, changes, cut, vlan)| {
            let mut frame = damaged(frame, &changes, None);
            if let Some(vlan) = vlan {
                frame = tagged(&frame, &[vlan]);
            }
            frame.truncate(cut.unwrap_or(frame.len()));
            frame
        },
    )
}

/// Whether a frame claims nothing that is not the device's: its addresses, none of them, or the link-local
/// one; no VLAN; not to be a DHCP server. Of neighbour advertisements, the target.
fn is_own(frame: &[u8]) -> bool {
    let is_v4 = |at: usize, may_be_none: bool| {
        frame[at..at + 4] == [192, 0, 2, 9] || may_be_none && frame[at..at + 4] == [0; 4]
    };
    let is_v6 = |at: usize, may_be_none: bool| {
        let octets: [u8; 16] = frame[at..at + 16].try_into().expect("16 bytes");
        let address = std::net::Ipv6Addr::from(octets);
        let own = [A6, LINK_LOCAL].map(|own| own.parse::<std::net::Ipv6Addr>().expect("an address"));
        own.contains(&address) || may_be_none && address.is_unspecified()
    };
    let is_from_server = |protocol: usize, ports: usize, wanted: [u8; 4]| {
        frame[protocol] == 17 && frame.get(ports..ports + 4) == Some(&wanted)
    };
    frame[6..12] == MAC
        && match [frame[12], frame[13]] {
            [8, 6] => frame[22..28] == MAC && is_v4(28, true),
            [8, 0] => {
                let transport = 14 + usize::from(frame[14] & 15) * 4;
                let is_first = frame[20] & 0x1f == 0 && frame[21] == 0;
                is_v4(26, true) && !(is_first && is_from_server(23, transport, [0, 67, 0, 68]))
            }
            [0x86, 0xdd] => {
                let is_advertisement = frame[20] == 58 && frame[21] == 255 && frame[54..56] == [136, 0];
                is_v6(22, true)
                    && !is_from_server(20, 54, [2, 35, 2, 34])
                    && (!is_advertisement || is_v6(62, false))
            }
            _ => false,
        }
}

proptest! {
    #[test]
    fn every_packet_ends_with_one_counted_verdict(
        frames in prop::collection::vec(
            (prop_oneof![prop::collection::vec(any::<u8>(), 0..120), nearly_right()], 0u16..3), 1..150),
        step in 0u64..40_000_000_000,
    ) {
        let mut bench = Bench::new(&[("administrator", vec![rule("in", &[]), rule("out", &[])]), ("tenant", vec![rule("in", &[]), rule("out", &[])])]);
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
                    prop_assert!(is_own(&packet.bytes), "{:x?}", packet.bytes);
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
