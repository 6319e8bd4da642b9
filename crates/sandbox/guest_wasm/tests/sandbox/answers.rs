//! What the host reads back: four fields of each record, whatever is in them.

use crate::support::*;
use guest::{Answers, BAD_VERDICT, Guest, Progress};
use guest_wasm::{Access, Program, WasmGuest};
use nf_abi::{MAX_BATCH, PacketRecord, Verdict};
use packet_memory::Packet;
use proptest::prelude::*;
use std::sync::{Arc, OnceLock};

/// Overwrites the records with the configuration, byte for byte.
fn echo(access: Access) -> &'static Arc<Program> {
    static PROGRAMS: OnceLock<[Arc<Program>; 2]> = OnceLock::new();
    let programs = PROGRAMS.get_or_init(|| {
        let body = "(drop (call $read (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 4096)))";
        [Access::Read, Access::Write].map(|access| program(&process(body), access))
    });
    &programs[usize::from(access == Access::Write)]
}

fn field() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0u32),
        1u32..5000,
        any::<u32>(),
        Just(u32::MAX),
        (0u32..64).prop_map(|n| u32::MAX - n),
        Just(1 << 31),
        (0u32..8, 0u32..70_000).prop_map(|(kind, argument)| kind | (argument << 8)),
    ]
}

/// Answers as bytes of records: the four fields by choice, the rest any.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    let answer = (field(), field(), field(), any::<u64>(), any::<[u8; 40]>(), any::<bool>());
    proptest::collection::vec(answer, MAX_BATCH).prop_map(|answers| {
        let mut bytes = Vec::new();
        for (verdict, offset, length, mark, rest, gentle) in answers {
            // As often as not an extent that is possible, so that both sides of every check are seen.
            let (offset, length) = if gentle { (offset % 2049, length % 2049) } else { (offset, length) };
            bytes.extend([verdict, offset, length, 0xdead_beef].map(u32::to_le_bytes).concat());
            bytes.extend(mark.to_le_bytes());
            bytes.extend(rest);
        }
        bytes
    })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// What may come of an answer: the verdict, and the extent.
fn expected(
    access: Access,
    before: &PacketRecord,
    verdict: u32,
    offset: u32,
    length: u32,
) -> (u32, u32, u32) {
    let known = match Verdict::decode(verdict) {
        Some(Verdict::Interface(k)) => k < 2,
        Some(Verdict::Drop(reason)) => reason < 2,
        other => other.is_some(),
    };
    let verdict = if known { verdict } else { BAD_VERDICT };
    if (offset, length) == (before.offset, before.length) {
        return (verdict, offset, length);
    }
    let inside = u64::from(offset) + u64::from(length) <= 2048;
    match access {
        Access::Write if inside && length > 0 => (verdict, offset, length),
        _ => (BAD_VERDICT, before.offset, before.length),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn answers_are_clamped_and_the_rest_is_the_hosts_word(
        bytes in answers(),
        write in any::<bool>(),
        count in 0usize..=16,
        observed in any::<bool>(),
    ) {
        let access = if write { Access::Write } else { Access::Read };
        let mut room = Room::new();
        let settings = guest_wasm::InstanceSettings { config: bytes.clone(), ..patient() };
        let mut guest = room.guest(echo(access), settings).expect("an instance");
        for (n, packet) in room.packets.iter_mut().enumerate() {
            prop_assert!(packet.set_extent(128, 60 + n as u32, 2048));
            packet.edit(|record| {
                *record = PacketRecord { flow_hash: 0x1111, timestamp: 7, hop_budget: 9, vlan: 3, ..PacketRecord::default() };
                record.offload_flags = nf_abi::offload::CHECKSUM_VALID;
            });
        }
        let before: Vec<PacketRecord> = room.packets.iter().map(|packet| *packet.record()).collect();
        if observed {
            guest.observe(&room.packets[..count], now()).expect("it answers");
            let after: Vec<PacketRecord> = room.packets.iter().map(|packet| *packet.record()).collect();
            prop_assert_eq!(before, after);
        } else {
            let progress = guest.process(&mut room.packets[..count], now()).expect("it answers");
            let Progress::Done(answers) = progress else { panic!("a call that ends") };
            if count > 0 {
                let has_left_over = answers.has_left_over;
                prop_assert_eq!(answers, Answers { has_left_over, ..Answers::of(&room.packets[..count]) });
            }
            for (n, (packet, before)) in room.packets.iter().zip(&before).enumerate() {
                let wanted = if n < count {
                    let at = n * 64;
                    let (verdict, offset, length) =
                        expected(access, before, word(&bytes, at), word(&bytes, at + 4), word(&bytes, at + 8));
                    let mark = u64::from(word(&bytes, at + 16)) | (u64::from(word(&bytes, at + 20)) << 32);
                    // What was verified is not of a packet that begins elsewhere.
                    let offload_flags = if offset == before.offset { before.offload_flags } else { 0 };
                    PacketRecord { verdict, offset, length, mark, offload_flags, ..*before }
                } else {
                    *before
                };
                prop_assert_eq!(packet.record(), &wanted);
                // Whatever was answered, the host finds the packet inside its buffer.
                prop_assert_eq!(room.pool.to_vec(packet).len(), wanted.length as usize);
            }
        }
        room.restore();
        room.assert_goes_on();
    }
}

/// Answers are compared in one pass first: nothing that differs in one field of one record may get by it.
#[test]
fn one_answer_that_differs_is_found_wherever_it_is() {
    let pool = pool_of(MAX_BATCH as u32);
    let mut packets: Vec<Packet> = Vec::new();
    pool.allocate_batch(MAX_BATCH, &mut packets);
    let through = Verdict::Interface(1).encode();
    // Of each: the field's place in the record, what is answered there, and what comes of it.
    let (drop, bad) = (Verdict::Drop(1).encode(), BAD_VERDICT);
    let cases = [(0, drop, drop), (0, 0x77, bad), (4, 129, bad), (4, 127, bad), (8, 61, bad), (8, 59, bad)];
    for (n, (at, answered, verdict)) in (0..MAX_BATCH).flat_map(|n| cases.map(|case| (n, case))) {
        for packet in &mut packets {
            assert!(packet.set_extent(128, 60, 2048));
        }
        let mut config: Vec<u8> = packets
            .iter()
            .flat_map(|packet| [through, 128, 60, packet.buffer()].map(u32::to_le_bytes).concat())
            .collect::<Vec<u8>>()
            .chunks(16)
            .flat_map(|head| [head, &[0; 48]].concat())
            .collect();
        config[n * 64 + at..][..4].copy_from_slice(&answered.to_le_bytes());
        let settings = guest_wasm::InstanceSettings { config, ..patient() };
        let mut guest = WasmGuest::new(echo(Access::Read), &pool, settings).expect("an instance");
        let progress = guest.process(&mut packets, now()).expect("it answers");
        let answers = Answers { interface: None, bytes: 60 * MAX_BATCH as u64, has_left_over: true };
        assert_eq!(progress, Progress::Done(answers), "field {at} of record {n}");
        for (k, packet) in packets.iter().enumerate() {
            let wanted = if k == n { verdict } else { through };
            assert_eq!(packet.record().verdict, wanted, "field {at} of record {n}: packet {k}");
            assert_eq!((packet.offset(), packet.length()), (128, 60));
        }
        // What lies behind the batch is no part of it.
        let progress = guest.process(&mut packets[..n], now()).expect("it answers");
        let Progress::Done(Answers { interface, bytes, .. }) = progress else { panic!("a call that ends") };
        assert_eq!(bytes, 60 * n as u64);
        assert!(n == 0 || interface == Some(1), "{interface:?} of {n}");
    }
    pool.free_batch(packets);
}

#[test]
fn empty_and_full_batches_are_shown_whole() {
    let pool = pool_of(MAX_BATCH as u32);
    let body = "(i64.store (i32.const 1040) (i64.extend_i32_u (local.get 0)))";
    let mut guest =
        WasmGuest::new(&program(&process(body), Access::Read), &pool, patient()).expect("an instance");
    let mut packets: Vec<Packet> = Vec::new();
    pool.allocate_batch(MAX_BATCH, &mut packets);
    guest.process(&mut [], now()).expect("an empty batch");
    guest.process(&mut packets, now()).expect("a full batch");
    assert_eq!(packets[0].record().mark, 64);
    pool.free_batch(packets);
}

#[test]
fn a_record_that_was_bad_once_is_good_again() {
    let mut room = Room::new();
    let body = "(i32.store (i32.const 1024) (select (i32.const 0x77) (i32.const 0x102) (local.get $a)))";
    let mut guest = room.guest(&program(&process(body), Access::Read), patient()).expect("an instance");
    for bad in [1, 0, 1, 1, 0] {
        room.show(&mut guest, bad).expect("it answers");
        let verdict = room.packets[0].record().verdict;
        assert_eq!(verdict, if bad == 1 { BAD_VERDICT } else { Verdict::Interface(1).encode() });
    }
    room.assert_goes_on();
}

/// By a bit of the verdict, which says that a packet of IPv4 has become one of IPv6, or the other way round.
#[test]
fn a_writer_says_that_segments_are_of_the_other_version() {
    let mut room = Room::new();
    let through = Verdict::Interface(1).encode();
    let body = format!("(i32.store (i32.const 1024) (i32.const {}))", through | nf_abi::OTHER_VERSION);
    let (tcp4, tcp6) = (nf_abi::offload::GSO_TCPV4, nf_abi::offload::GSO_TCPV6);
    for (access, gso_type, wanted) in [
        (Access::Write, tcp4, (through, tcp6, 1428)),
        (Access::Write, tcp6, (through, tcp4, 1448)),
        (Access::Write, 0, (BAD_VERDICT, 0, 1448)),
        (Access::Read, tcp4, (BAD_VERDICT, tcp4, 1448)),
    ] {
        let mut guest = room.guest(&program(&process(&body), access), patient()).expect("an instance");
        room.packets[0].edit(|record| (record.gso_type, record.gso_size) = (gso_type, 1448));
        let progress = guest.process(&mut room.packets[..1], now()).expect("it answers");
        let Progress::Done(answers) = progress else { panic!("a call that ends") };
        let record = room.packets[0].record();
        assert_eq!((record.verdict, record.gso_type, record.gso_size), wanted);
        assert_eq!(answers.interface, (wanted.0 == through).then_some(1));
    }
    room.restore();
    room.assert_goes_on();
}
