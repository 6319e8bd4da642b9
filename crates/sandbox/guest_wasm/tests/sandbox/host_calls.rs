//! The six host calls, with any arguments, against a model of what each may answer.

use crate::support::calls::{CONFIG, Call, MEMORY, any_call, check, make, of_bytes};
use crate::support::*;
use arbitrary::Unstructured;
use guest::{Ask, Guest, GuestFault, Offer, SaveError};
use guest_wasm::{Access, InstanceSettings, WasmGuest};
use nf_abi::{Verdict, error, stream};
use packet_memory::{Packet, Pool};
use proptest::prelude::*;
use std::sync::Arc;
use telemetry::clock::Nanos;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_calls_are_answered_as_the_contract_says(
        bytes in proptest::collection::vec(any::<u8>(), 0..2_000),
        write in any::<bool>(),
        buffers in 1u32..9,
        collect_every in 1usize..20,
    ) {
        check(&of_bytes(&mut Unstructured::new(&bytes)).expect("calls"), write, buffers, collect_every);
    }
}

/// An instance of the guest that takes any call, its pool, and the packet that brings the calls.
fn caller(buffers: u32, quota: u32) -> (WasmGuest, Arc<Pool>, Packet) {
    let pool = pool_of(buffers);
    let packet = pool.allocate().expect("a buffer");
    let slots = guest::SlotConfig { quota, ..patient().slots };
    let settings = InstanceSettings { config: vec![9; CONFIG], slots, ..patient() };
    let guest = WasmGuest::new(any_call(Access::Write), &pool, settings).expect("an instance");
    (guest, pool, packet)
}

#[test]
fn ranges_end_where_private_memory_ends() {
    let (mut guest, pool, mut packet) = caller(4, 2);
    let end = MEMORY as u32;
    for (address, length, inside) in [
        (0, 0, true),
        (end, 0, true),
        (end + 1, 0, false),
        (end - 16, 16, true),
        (end - 15, 16, false),
        (end, 16, false),
        (0x8000_0000, 0, false),
        (0x8000_0000, 16, false),
        (0x7fff_fff8, 16, false),
        (0xffff_fff0, 32, false),
        (u32::MAX, 1, false),
        (16, u32::MAX, false),
        (0, end, true),
        (0, end + 1, false),
    ] {
        let read = make(&mut guest, &pool, &mut packet, &Call::Read(0, 0, address, length));
        assert_eq!(
            read,
            if inside { CONFIG as i64 } else { i64::from(error::RANGE) },
            "read {address:#x} {length:#x}"
        );
        if inside && length == end {
            break; // That was its whole memory, the records too.
        }
        let write = make(&mut guest, &pool, &mut packet, &Call::Write(stream::LOG_INFO, address, length));
        assert_eq!(write, if inside { 0 } else { i64::from(error::RANGE) }, "write {address:#x} {length:#x}");
    }
}

#[test]
fn quotas_slots_and_pools_have_ends() {
    let (mut guest, pool, mut packet) = caller(4, 2);
    let new = |slot| Call::PacketNew(slot, 0, 60);
    let emit = |slot| Call::PacketEmit(slot, Verdict::Interface(0).encode(), u32::MAX, 0, 5);
    let mut make = |guest: &mut WasmGuest, call: Call| make(guest, &pool, &mut packet, &call);
    assert_ne!(make(&mut guest, new(1)), 0);
    assert_eq!(make(&mut guest, new(1)), 0, "taken");
    assert_ne!(make(&mut guest, new(65_535)), 0);
    assert_eq!(make(&mut guest, new(65_536)), 0, "no such slot");
    assert_eq!(make(&mut guest, new(2)), 0, "quota");
    assert_eq!(make(&mut guest, emit(1)), 0);
    assert_eq!(make(&mut guest, emit(1)), i64::from(error::SLOT), "empty by now");
    assert_eq!(make(&mut guest, new(1)), 0, "given up, but not collected: counts");
    let emitted = std::mem::take(&mut guest.kept_mut().emitted);
    assert_eq!((emitted.len(), emitted[0].length(), emitted[0].record().mark), (1, 60, 5));
    pool.free_batch(emitted);
    assert_ne!(make(&mut guest, new(1)), 0);
    drop(guest);

    let (mut greedy, pool, mut packet) = caller(3, 100);
    for slot in 0..10 {
        let answer = crate::support::calls::make(&mut greedy, &pool, &mut packet, &new(slot));
        assert_eq!(answer != 0, slot < 2, "the pool has three buffers, one is the packet's");
    }
    drop(greedy);
    assert_eq!(pool.available(), 2);
}

#[test]
fn what_a_guest_may_write_is_bounded() {
    let fields = "(func (export \"sf_process\") (param i32 i64) (local $n i32)
            (local.set $n (i32.const 10000))
            (loop $l
                (drop (call $write (i32.const 11) (i32.const 0) (i32.const 131072)))
                (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
        (func (export \"sf_report\") (param i64) (local $n i32)
            (local.set $n (i32.const 100))
            (loop $l
                (drop (call $write (i32.const 2) (i32.const 2048) (i32.const 129024)))
                (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
        (func (export \"sf_export_state\") (result i32) (local $n i32)
            (local.set $n (i32.const 4000))
            (loop $l
                (drop (call $write (i32.const 1) (i32.const 2048) (i32.const 129024)))
                (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (i32.const 0))";
    let mut room = Room::new();
    let mut guest = room.guest(&program(&module(fields), Access::Read), patient()).expect("an instance");
    room.show(&mut guest, 0).expect("a flood of lines");
    let lines = guest.kept_mut().take_log();
    assert_eq!((lines.len(), guest.log_lines_lost()), (64, 10_000 - 64));
    assert!(lines.iter().all(|line| line.text.len() <= 3 * 1024));
    let report = guest.report(now()).expect("a report").expect("of zeroes");
    assert!((4 << 20) - 129_024 < report.len() && report.len() <= 4 << 20, "{}", report.len());
    let state = guest.export_state().expect("state").expect("of zeroes");
    assert!(state.len() <= 256 << 20 && state.len() > 200 << 20, "{}", state.len());
    room.assert_goes_on();
}

#[test]
fn streams_are_open_only_while_they_are_asked_for() {
    let fields = "(func (export \"sf_process\") (param i32 i64)
            (i64.store (i32.const 1040) (i64.extend_i32_s (i32.add
                (call $write (i32.const 1) (i32.const 0) (i32.const 4))
                (i32.add (call $write (i32.const 2) (i32.const 0) (i32.const 4))
                    (call $read (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 4)))))))
        (func (export \"sf_report\") (param i64) (unreachable))
        (func (export \"sf_export_state\") (result i32) (unreachable))
        (func (export \"sf_import_state\") (result i32)
            (if (i32.ne (call $read (i32.const 1) (i32.const 1) (i32.const 0) (i32.const 100)) (i32.const 5))
                (then (unreachable)))
            (if (i32.ne (i32.load8_u (i32.const 3)) (i32.const 5)) (then (unreachable)))
            (call $read (i32.const 1) (i32.const -1) (i32.const 0) (i32.const 100)))";
    let mut room = Room::new();
    let mut guest = room.guest(&program(&module(fields), Access::Read), patient()).expect("an instance");
    for round in 0..2 {
        room.show(&mut guest, 0).expect("refused, not trapped");
        assert_eq!(room.packets[0].record().mark as i64, 3 * i64::from(error::STREAM), "round {round}");
        // A trap inside leaves them closed.
        assert!(guest.report(now()).is_err());
        assert!(guest.export_state().is_err());
        assert_eq!(
            guest.import_state(vec![1, 2, 3, 4, 5]),
            Ok(false),
            "it answered the length, which is not 0"
        );
    }
    room.assert_goes_on();
}

#[test]
fn devices_change_between_calls_and_are_told_before_the_timer() {
    // Each call appends to the counters what it reads; `sf_devices` and `sf_timer` add to one of their own.
    let look = "(drop (call $read (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 8)))
        (drop (call $counter_add (i32.const 0) (i64.load (i32.const 0))))";
    let fields = format!(
        "(func (export \"sf_process\") (param i32 i64) {look})
         (func (export \"sf_devices\") (param i64) {look}
            (drop (call $counter_add (i32.const 1) (i64.const 1)))
            (drop (call $timer_set (i64.const 1))))
         (func (export \"sf_timer\") (param i64) (drop (call $counter_add (i32.const 1) (i64.const 100))))"
    );
    let mut room = Room::new();
    let program = program(&module(&fields), Access::Read);
    let mut guest = room.guest(&program, patient()).expect("an instance");
    room.show(&mut guest, 0).expect("a call");
    assert_eq!((&guest.kept().counters[..], guest.kept().due()), (&[0, 0][..], None));
    guest.set_devices(Arc::new([5, 0, 0, 0, 0, 0, 0, 0]));
    room.show(&mut guest, 0).expect("a call");
    assert_eq!(guest.kept().counters, [0, 0], "what it reads is as it was");
    assert_eq!(guest.kept().due(), Some(Nanos(0)), "due at once");
    guest.timer(now()).expect("devices, and the timer that they set");
    assert_eq!((&guest.kept().counters[..], guest.kept().due()), (&[5, 101][..], None));
    // A deadline that has not passed stays.
    let later =
        format!("{fields} ").replace("timer_set (i64.const 1)", "timer_set (i64.const 9000000000000000000)");
    let mut guest =
        room.guest(&self::program(&module(&later), Access::Read), patient()).expect("an instance");
    guest.set_devices(Arc::new([7, 0, 0, 0, 0, 0, 0, 0]));
    guest.timer(now()).expect("devices alone");
    assert_eq!(
        (&guest.kept().counters[..], guest.kept().due()),
        (&[7, 1][..], Some(Nanos(9_000_000_000_000_000_000)))
    );
    room.assert_goes_on();
}

#[test]
fn a_changed_file_is_taken_part_by_part_between_calls() {
    // `sf_change` counts the bytes that it may read, sets a timer that is due, and is done the third time.
    let look = "(drop (call $counter_add (i32.const 0) (i64.extend_i32_s
        (call $read (i32.const 6) (i32.const 0) (i32.const 0) (i32.const 0)))))";
    let without = format!(
        "(global $n (mut i32) (i32.const 0))
         (func (export \"sf_process\") (param i32 i64) {look})
         (func (export \"sf_timer\") (param i64) (drop (call $counter_add (i32.const 1) (i64.const 100))))"
    );
    let with = format!(
        "{without} (func (export \"sf_change\") (param i64) (result i32) {look}
            (drop (call $timer_set (i64.const 1)))
            (global.set $n (i32.add (global.get $n) (i32.const 1)))
            (i32.lt_u (global.get $n) (i32.const 3)))"
    );
    let offer = || Arc::new(Offer::new(b"k\n+x\n".to_vec(), vec![7]));
    let mut room = Room::new();
    let mut guest = room.guest(&program(&module(&with), Access::Read), patient()).expect("an instance");
    let (first, second) = (offer(), offer());
    assert!(guest.offer(&first) && !guest.offer(&second), "one at a time");
    for left in [2, 1, 0] {
        assert_eq!(guest.kept().due(), Some(Nanos(0)), "due at once");
        assert_eq!(guest.save().map(drop), Err(SaveError::Changing));
        guest.timer(now()).expect("a part, and the timer that it set");
        assert_eq!(first.answer(), (left == 0).then_some(true));
    }
    assert_eq!((&guest.kept().counters[..], guest.kept().due()), (&[15, 300][..], None));
    assert!(first.is_alone() && guest.save().is_ok());
    room.show(&mut guest, 0).expect("a call");
    assert_eq!(guest.kept().counters[0] as i64, 15 + i64::from(error::STREAM), "there is nothing to read");
    // One that takes none refuses.
    let mut guest = room.guest(&program(&module(&without), Access::Read), patient()).expect("an instance");
    assert!(guest.offer(&second));
    guest.timer(now()).expect("it is asked");
    assert_eq!((second.answer(), guest.kept().counters[1]), (Some(false), 0));
    room.assert_goes_on();
}

#[test]
fn asks_are_bounded_and_name_an_interface() {
    let entry = |interface| nf_abi::DeviceEntry::ask(interface, [192, 0, 2, 7].into()).encode();
    let text = |bytes: [u8; 32]| bytes.iter().map(|byte| format!("\\{byte:02x}")).collect::<String>();
    let fields = format!(
        "(data (i32.const 0) \"{}{}\")
         (func (export \"sf_process\") (param i32 i64) (local $n i32)
            (i64.store (i32.const {MARK}) (i64.extend_i32_s (i32.mul
                (call $write (i32.const 4) (i32.const 32) (i32.const 32))
                (i32.mul (call $write (i32.const 4) (i32.const 0) (i32.const 31))
                         (call $write (i32.const 4) (i32.const 64) (i32.const 32))))))
            (local.set $n (i32.const 1000))
            (loop $l
                (drop (call $counter_add (i32.const 0) (i64.extend_i32_s
                    (call $write (i32.const 4) (i32.const 0) (i32.const 32)))))
                (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))",
        text(entry(1)),
        text(entry(2))
    );
    let mut room = Room::new();
    let mut guest = room.guest(&program(&module(&fields), Access::Read), patient()).expect("an instance");
    let mut before = Nanos(0);
    for _ in 0..2 {
        room.show(&mut guest, 0).expect("a flood of questions");
        assert_eq!(room.packets[0].record().mark as i64, i64::from(error::RANGE).pow(3), "no questions");
        let due = guest.kept().due().expect("its asks are to be told");
        assert!(due >= before, "{due:?}: once in a millisecond");
        before = due.saturating_add(Nanos::from_millis(1));
        let asks = guest.kept_mut().take_asks();
        assert_eq!(guest.kept().due(), None);
        assert_eq!(asks, vec![Ask { interface: 1, address: [192, 0, 2, 7].into() }; nf_abi::MAX_ASKS]);
    }
    let refused = 2 * (1000 - nf_abi::MAX_ASKS) as i64 * i64::from(error::LIMIT);
    assert_eq!(guest.kept().counters[0] as i64, refused);
}

#[test]
fn slots_say_where_their_packets_are() {
    let body = format!(
        "(if (i32.ne (call $read (i32.const 5) (local.get $a) (i32.const 64) (i32.const 8)) (i32.const 8))
             (then (unreachable)))
         (i64.store (i32.const {MARK}) (i64.load (i32.const 64)))"
    );
    let mut room = Room::roomy();
    let mut guest = room.guest(&program(&process(&body), Access::Read), patient()).expect("an instance");
    let kept = room.spare_packet();
    let place = u64::from(kept.buffer() + kept.offset()) | u64::from(kept.length()) << 32;
    guest.kept_mut().slots.keep(7, kept, Nanos(0)).expect("room");
    for (slot, expected) in [(7, place), (8, 0), (65_536 + 7, 0), (u64::from(u32::MAX), 0)] {
        room.show(&mut guest, slot).expect("a call");
        assert_eq!(room.packets[0].record().mark, expected, "slot {slot}");
    }
    room.assert_goes_on();
}

#[test]
fn a_report_that_is_no_text_breaks_the_contract() {
    let fields = "(data (i32.const 0) \"\\ff\\fe\")
        (func (export \"sf_process\") (param i32 i64))
        (func (export \"sf_report\") (param i64) (drop (call $write (i32.const 2) (i32.const 0) (i32.const 2))))";
    let mut room = Room::new();
    let mut guest = room.guest(&program(&module(fields), Access::Read), patient()).expect("an instance");
    assert!(matches!(guest.report(now()), Err(GuestFault::Contract(_))));
    room.assert_goes_on();
}

#[test]
fn log_lines_carry_no_hidden_characters() {
    let fields = "(data (i32.const 0) \"a\\1b[2Jb\\0a\\00\\c2\\9b\\ff\\e2\\80\\ae\\e2\\80\\a8\\ef\\bb\\bf\")
        (func (export \"sf_process\") (param i32 i64) (drop (call $write (i32.const 9) (i32.const 0) (i32.const 20))))";
    let mut room = Room::new();
    let mut guest = room.guest(&program(&module(fields), Access::Read), patient()).expect("an instance");
    room.show(&mut guest, 0).expect("a line");
    let lines = guest.kept_mut().take_log();
    let replaced = "\u{fffd}";
    let expected = format!("a{replaced}[2Jb{}", replaced.repeat(7));
    assert_eq!(lines[0].text, expected);
    assert_eq!(lines[0].severity, stream::LOG_WARNING);
}

#[test]
fn events_are_bounded_in_length_number_and_bytes_and_each_is_a_line() {
    let flood = |count: u32, length: u32| {
        format!(
            "(data (i32.const 0) \"{{\\0a}}\")
            (func (export \"sf_process\") (param i32 i64) (local $n i32)
                (local.set $n (i32.const {count}))
                (loop $l
                    (drop (call $write (i32.const 3) (i32.const 0) (i32.const {length})))
                    (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))"
        )
    };
    let mut room = Room::new();
    for (count, length, taken) in [(2, 3, 2), (20_000, 3, 16 << 10), (1000, 8192, 512), (5, 8193, 0)] {
        let guest = room.guest(&program(&module(&flood(count, length)), Access::Read), patient());
        let mut guest = guest.expect("an instance");
        room.show(&mut guest, 0).expect("events");
        let events = guest.kept_mut().take_events();
        assert_eq!((events.lines.len(), events.lost), (taken, u64::from(count) - taken as u64), "{length}");
        assert!(events.lines.iter().all(|line| line.starts_with("{\u{fffd}}")));
        assert!(guest.kept_mut().take_events().is_empty());
        room.show(&mut guest, 0).expect("events");
        assert_eq!(guest.kept_mut().take_events().lines.len(), taken, "a collection makes room");
    }
    room.assert_goes_on();
}
