//! Hostile packets and state.

use super::*;
use nf_sdk::native::frames::damaged;
use proptest::prelude::*;

fn nearly_right() -> impl Strategy<Value = Vec<u8>> {
    let whole = (0u16..0x200, 0u16..4, any::<[u32; 2]>(), any::<bool>()).prop_map(
        |(flags, port, [sequence, acknowledgment], is_v6)| {
            let (from, to) = if is_v6 { ("2001:db8::1", "2001:db8::2") } else { (CLIENT, SERVER) };
            segment((from, port), (to, 80), Flags(flags), sequence, acknowledgment, b"some data")
        },
    );
    (whole, prop::collection::vec((0usize..90, any::<u8>()), 0..4), prop::option::of(0usize..90))
        .prop_map(|(frame, changes, cut)| damaged(frame, &changes, cut))
}

proptest! {
    #[test]
    fn every_packet_has_a_verdict_and_no_reset_is_answered(
        frames in prop::collection::vec((nearly_right(), 0u16..4, 0u64..4), 1..150), refuses: bool,
    ) {
        let mut runner = ips("{udp: unreachable, resets: 16}");
        runner.refuse_packets(refuses);
        for (bytes, ingress, mark) in frames {
            let is_reset = dissect(&bytes).ok().and_then(|found| found.network).is_some_and(|network| {
                network.protocol == protocol::TCP
                    && bytes.get(network.l4_offset + 13).is_some_and(|flags| flags & 4 != 0)
            });
            let before = runner.host().emitted().len();
            let record = PacketRecord { ingress, mark, ..PacketRecord::default() };
            let out = runner.run(&[TestPacket { bytes, record }], at(0)).remove(0);
            let verdict = out.verdict.expect("a verdict");
            let is_known = match ingress {
                SUSPICIOUS => verdict == Verdict::Consume,
                3.. => verdict == Verdict::Drop(1),
                side => matches!(verdict, Verdict::Drop(0)) || verdict == Verdict::Interface(1 - side),
            };
            prop_assert!(is_known, "{:?}", verdict);
            prop_assert!(!is_reset || runner.host().emitted().len() == before);
        }
        prop_assert!(runner.host().emitted().is_empty() || !refuses);
    }

    #[test]
    fn any_state_is_refused_or_taken(state in prop::collection::vec(any::<u8>(), 0..200)) {
        ips("{}").import_state(&state);
    }
}
