//! Hostile packets and state.

use super::*;
use crate::metrics::{DROPPED, EXTRA};
use nf_sdk::PacketRecord;
use nf_sdk::native::frames::damaged;
use proptest::prelude::*;

fn nearly_right() -> impl Strategy<Value = (Vec<u8>, u16)> {
    let whole = (any::<bool>(), any::<bool>(), 0u32..6, 0u32..6, 6u32..10).prop_map(
        |(is_tunnelled, is_tagged, from, to, vni)| {
            let to = if to == 0 { ALL } else { host(to) };
            let plain = if is_tagged { tagged(to, host(from), 60) } else { frame(to, host(from), 60) };
            if is_tunnelled { (in_vxlan(vni, "192.0.2.2", &plain), VXLAN) } else { (plain, VLAN) }
        },
    );
    let changes = prop::collection::vec((0usize..140, any::<u8>()), 0..4);
    (whole, changes, prop::option::of(0usize..140), any::<bool>()).prop_map(
        |((frame, interface), changes, cut, is_sealed)| {
            let mut frame = damaged(frame, &changes, None);
            if is_sealed {
                nf_sdk::native::frames::seal(&mut frame);
            }
            frame.truncate(cut.unwrap_or(frame.len()));
            (frame, interface)
        },
    )
}

fn any_frame() -> impl Strategy<Value = (Vec<u8>, u16)> {
    prop_oneof![1 => (prop::collection::vec(any::<u8>(), 0..120), 0..3u16), 5 => nearly_right()]
}

proptest! {
    #[test]
    fn every_packet_ends_with_one_counted_verdict(
        frames in prop::collection::vec((any_frame(), any::<[u8; 2]>(), any::<[u16; 3]>()), 1..150), refuses: bool,
    ) {
        let mut runner = gateway(FIRST);
        runner.refuse_packets(refuses);
        let packets: Vec<TestPacket> = frames
            .into_iter()
            .map(|((bytes, ingress), [flags, gso_type], [gso_size, start, offset])| TestPacket {
                bytes,
                record: PacketRecord {
                    ingress,
                    offload_flags: if flags < 128 { 0 } else { flags & 3 },
                    gso_type: if gso_type < 200 { 0 } else { gso_type & 5 },
                    gso_size,
                    csum_start: start % 200,
                    csum_offset: offset % 30,
                    ..PacketRecord::default()
                },
            })
            .collect();
        let out = runner.run(&packets, at(0));
        let mut dropped = 0;
        for out in &out {
            match out.verdict.expect("a verdict") {
                Verdict::Drop(reason) => {
                    prop_assert!(reason <= Reason::NoRoom as u16);
                    dropped += 1;
                }
                Verdict::Interface(interface) => prop_assert!(interface < 2),
                verdict => prop_assert_eq!(verdict, Verdict::Consume),
            }
        }
        let counters: Vec<u64> = (0..NAMES.len() as u32).map(|place| runner.host().counter(place)).collect();
        prop_assert_eq!(counters[..EXTRA].iter().sum::<u64>(), packets.len() as u64);
        prop_assert_eq!(counters[DROPPED..EXTRA].iter().sum::<u64>(), dropped);
        prop_assert!(runner.host().emitted().is_empty() || !refuses);
    }

    #[test]
    fn any_state_is_refused_or_taken(state in prop::collection::vec(any::<u8>(), 0..90)) {
        let mut runner = gateway(FIRST);
        runner.import_state(&state);
        prop_assert!(runner.function().endpoints.len() <= 32);
    }
}
