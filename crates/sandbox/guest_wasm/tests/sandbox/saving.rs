//! What was saved goes on where it was, without its help, and nothing else than what was saved.

use crate::support::*;
use guest::{Guest, Progress, SaveError};
use guest_wasm::{Access, InstanceSettings, Program, ProgramFacts, RestoreError, Sandbox, Slice, restore};
use nf_abi::Verdict;
use packet_memory::{Packet, Pool};
use snapshot::{PacketState, Saved, Value};
use std::sync::Arc;

/// Counts calls in memory, in globals of every type, and in a counter; sets a deadline; clears a byte of its
/// own data; holds the packet, logs, and writes an event when the mark says so.
pub fn busy() -> String {
    format!(
        r#"(module {IMPORTS}
            (memory (export "memory") 2)
            (global $a (export "sf_global_0") (mut i32) (i32.const 5))
            (global $b (export "sf_global_1") (mut i64) (i64.const 6))
            (global $c (export "sf_global_2") (mut f32) (f32.const 0.5))
            (global $d (export "other") (mut f64) (f64.const 0.25))
            (global $e (export "sf_global_4") (mut v128) (v128.const i64x2 1 2))
            (global (export "constant") i32 (i32.const 9))
            (data (i32.const 8192) "abcdefgh")
            (data (i32.const 70000) "ijklmnop")
            (func (export "sf_batch") (result i32) (i32.const {BATCH}))
            (func (export "sf_init") (result i32)
              (i64.store (i32.const 512) (i64.const 100))
              (i64.store (i32.const 70000) (i64.const 0))
              (i32.const 0))
            (func (export "sf_timer") (param i64) (unreachable))
            (func (export "sf_process") (param i32 i64) (local $mark i64)
              (local.set $mark (i64.load (i32.const {MARK})))
              (i64.store (i32.const 512) (i64.add (i64.load (i32.const 512)) (i64.const 1)))
              (global.set $a (i32.add (global.get $a) (i32.const 1)))
              (global.set $b (i64.add (global.get $b) (i64.const 1)))
              (global.set $c (f32.add (global.get $c) (f32.const 1)))
              (global.set $d (f64.add (global.get $d) (f64.const 1)))
              (global.set $e (i64x2.add (global.get $e) (v128.const i64x2 1 1)))
              (drop (call $counter_add (i32.const 1) (i64.const 3)))
              (drop (call $timer_set (i64.const 1234567)))
              (i32.store (i32.const 1024) (i32.const 0x102))
              (if (i64.eq (local.get $mark) (i64.const 1))
                (then (i32.store (i32.const 1024) (i32.const 0x304))))
              (if (i64.eq (local.get $mark) (i64.const 2))
                (then (drop (call $write (i32.const 9) (i32.const 8192) (i32.const 3)))
                      (drop (call $write (i32.const 3) (i32.const 8195) (i32.const 5)))))
              (if (i64.eq (local.get $mark) (i64.const 3))
                (then (drop (memory.grow (i32.const 3)))
                      (i64.store (i32.const 300000) (i64.const 77))))
              (if (i64.eq (local.get $mark) (i64.const 4))
                (then (drop (call $packet_emit (i32.const 3) (i32.const 5) (i32.const -1) (i32.const 0) (i64.const 0)))))
              ;; What it is, told by the record: the count in memory, the sum of the globals, the rest of memory.
              (i64.store (i32.const {MARK})
                (i64.add (i64.load (i32.const 512))
                (i64.add (i64.mul (i64.const 1000) (i64.extend_i32_u (global.get $a)))
                (i64.add (i64.mul (i64.const 100000) (global.get $b))
                (i64.add (i64.mul (i64.const 10000000) (i64.trunc_f32_u (global.get $c)))
                (i64.add (i64.mul (i64.const 1000000000) (i64.trunc_f64_u (global.get $d)))
                (i64.add (i64.mul (i64.const 100000000000) (i64x2.extract_lane 1 (global.get $e)))
                (i64.add (i64.load8_u (i32.const 8192))
                         (i64.load8_u (i32.const 70000)))))))))))
            )"#
    )
}

pub fn call(guest: &mut dyn Guest, packet: &mut Packet, mark: u64) -> u64 {
    packet.edit(|record| record.mark = mark);
    let done = guest.process(std::slice::from_mut(packet), now()).expect("it works");
    assert!(done.is_done());
    packet.record().mark
}

fn both() -> [InstanceSettings; 2] {
    let slice = Some(Slice(telemetry::clock::Nanos::from_millis(1_000)));
    [patient(), InstanceSettings { preemptible: slice, ..patient() }]
}

fn started(pool: &Arc<Pool>, settings: &InstanceSettings) -> (Arc<Program>, Box<dyn Guest>) {
    let program = program(&busy(), Access::Read);
    let guest = guest_wasm::start(&program, pool, settings.clone()).expect("an instance");
    (program, guest)
}

#[test]
fn a_restored_instance_goes_on_where_the_saved_one_was() {
    for settings in both() {
        let pool = pool_of(8);
        let mut packet = pool.allocate().expect("a buffer");
        let (program, mut guest) = started(&pool, &settings);
        for _ in 0..4 {
            call(&mut *guest, &mut packet, 0);
        }
        call(&mut *guest, &mut packet, 3);
        let bytes = guest.save().expect("between two calls").encode().expect("within limits");
        let expected: Vec<u64> = (0..3).map(|_| call(&mut *guest, &mut packet, 0)).collect();
        let (counters, deadline) = (guest.kept().counters.clone(), guest.kept().due());

        // Into a used shell and into a fresh one, with the saved one still there and without it.
        for _ in 0..3 {
            let saved = Saved::decode(&bytes).expect("as it was written");
            let mut again = restore(&program, &pool, settings.clone(), &saved).expect("restored");
            let found: Vec<u64> = (0..3).map(|_| call(&mut *again, &mut packet, 0)).collect();
            assert_eq!(found, expected);
            assert_eq!((&again.kept().counters[..], again.kept().due()), (&counters[..], deadline));
            drop(again);
        }
        drop(guest);
        pool.free(packet);
        assert_eq!(pool.available(), 8);
    }
}

#[test]
fn a_snapshot_is_what_the_instance_was_and_no_more() {
    let pool = pool_of(8);
    let mut packet = pool.allocate().expect("a buffer");
    let (_, mut guest) = started(&pool, &patient());
    call(&mut *guest, &mut packet, 2);
    call(&mut *guest, &mut packet, 3);
    let saved = guest.save().expect("between two calls");
    assert_eq!((saved.identity.image, saved.identity.name.as_str()), ([7; 32], "guest"));
    assert_eq!(saved.identity.config, patient().config);
    assert_eq!((saved.memory.size(), saved.memory.limit()), (5 * WASM_PAGE, 1 << 20));
    let pages: Vec<u32> = saved.memory.pages().iter().map(|page| page.number).collect();
    // The records and the count; its data that it has not cleared; what it wrote behind the first size.
    assert_eq!(pages, [0, 2, 300_000 / 4096]);
    let lines: u32 = saved.memory.pages().iter().map(|page| page.lines.count_ones()).sum();
    assert_eq!(lines, 4, "the count, the record, the data, the last store: a line each");
    let globals: Vec<(&str, Value)> = saved.globals.iter().map(|g| (g.name.as_str(), g.value)).collect();
    assert_eq!(
        globals,
        [
            ("other", Value::F64(2.25f64.to_bits())),
            ("sf_global_0", Value::I32(7)),
            ("sf_global_1", Value::I64(8)),
            ("sf_global_2", Value::F32(2.5f32.to_bits())),
            ("sf_global_4", Value::V128((4 << 64) | 3)),
        ]
    );
    assert_eq!((saved.host.counters.as_slice(), saved.host.deadline), (&[0, 6][..], Some(1_234_567)));
    assert_eq!(saved.host.log.len(), 1);
    assert_eq!((saved.host.log[0].severity, saved.host.log[0].text.as_str()), (9, "abc"));
    assert_eq!(saved.host.events, ["defgh"]);
    // The saved instance keeps what was copied.
    assert_eq!((guest.kept_mut().take_log().len(), guest.kept_mut().take_events().lines.len()), (1, 1));
    pool.free(packet);
}

#[test]
fn held_packets_log_and_events_come_along() {
    for settings in both() {
        let pool = pool_of(8);
        let mut packet = pool.allocate().expect("a buffer");
        let (program, mut guest) = started(&pool, &settings);
        call(&mut *guest, &mut packet, 2);
        let mut held = pool.allocate().expect("a buffer");
        pool.write(&mut held, b"the held one").expect("it fits");
        held.edit(|record| (record.mark, record.ingress) = (1, 1));
        guest.process(std::slice::from_mut(&mut held), now()).expect("it works");
        assert_eq!(Verdict::decode(held.record().verdict), Some(Verdict::Hold(3)));
        guest.kept_mut().slots.keep(3, held, telemetry::clock::Nanos(50)).expect("an empty slot");
        let saved = guest.save().expect("between two calls");
        let due = 50 + settings.slots.longest_hold.0;
        assert_eq!(saved.packets.len(), 1);
        assert_eq!(saved.packets[0].state, PacketState::Held { slot: 3, due });
        drop(guest);
        assert_eq!(pool.available(), 7, "the saved instance's packet went with it");

        let mut again = restore(&program, &pool, settings.clone(), &saved).expect("restored");
        assert_eq!(pool.available(), 6);
        assert_eq!(again.kept().slots.next_expiry(), Some(telemetry::clock::Nanos(due)));
        assert_eq!(
            (again.kept_mut().take_log().len(), again.kept_mut().take_events().lines),
            (1, vec!["defgh".to_owned()])
        );
        call(&mut *again, &mut packet, 4);
        let emitted = std::mem::take(&mut again.kept_mut().emitted);
        assert_eq!(emitted.len(), 1);
        assert_eq!(pool.to_vec(&emitted[0]), b"the held one");
        assert_eq!(emitted[0].record().ingress, 1);
        // What it gave up must be carried out first.
        again.kept_mut().emitted.extend(emitted);
        assert_eq!(again.save().map(drop), Err(SaveError::Busy { packets: 1 }));
        drop(again);
        pool.free(packet);
        assert_eq!(pool.available(), 8);
    }
}

#[test]
fn a_suspended_call_cannot_be_saved() {
    in_time(|| {
        let pool = pool_of(4);
        let text = process("(loop (br_if 0 (i32.eqz (i32.load (i32.const 600)))))");
        let settings =
            InstanceSettings { preemptible: Some(Slice(telemetry::clock::Nanos(1_000))), ..patient() };
        let program = program(&text, Access::Read);
        let mut guest = guest_wasm::start(&program, &pool, settings).expect("an instance");
        guest.save().expect("it has not been called yet");
        let mut packet = pool.allocate().expect("a buffer");
        let progress = guest.process(std::slice::from_mut(&mut packet), now()).expect("it runs");
        assert_eq!(progress, Progress::Suspended);
        assert_eq!(guest.save().map(drop), Err(SaveError::Suspended));
        let refused = guest.freeze().map(drop).expect_err("it is suspended");
        assert_eq!(refused.error, SaveError::Suspended);
        let mut guest = refused.guest;
        assert!(guest.suspended(), "it is as it was");
        let mut left = Vec::new();
        guest.surrender(&mut left);
        assert_eq!(guest.save().map(drop), Err(SaveError::Ended));
        pool.free(packet);
    });
}

#[test]
fn frozen_guests_have_no_shell_and_thaw_as_they_were() {
    for settings in both() {
        // A sandbox of its own, so that no other test takes its shells.
        let sandbox = Sandbox::new().expect("a sandbox");
        let program = sandbox.compile(&wasm(&busy()), facts(Access::Read)).expect("a program");
        let pool = pool_of(8);
        let mut packet = pool.allocate().expect("a buffer");
        let mut guest = guest_wasm::start(&program, &pool, settings.clone()).expect("an instance");
        let mut twin = guest_wasm::start(&program, &pool, settings.clone()).expect("an instance");
        guest
            .kept_mut()
            .slots
            .keep(3, pool.allocate().expect("a buffer"), telemetry::clock::Nanos(50))
            .expect("an empty slot");
        let address = guest.kept().slots.iter().next().map(|(_, packet, _)| packet.buffer());
        for mark in [0, 2, 3, 0] {
            assert_eq!(call(&mut *guest, &mut packet, mark), call(&mut *twin, &mut packet, mark));
        }
        let saved = guest.save().expect("between two calls");
        let mut frozen = guest.freeze().expect("between two calls");
        assert_eq!(
            (sandbox.shell_counts().spare, sandbox.fibres()),
            (1, usize::from(settings.preemptible.is_some()))
        );
        assert_eq!(frozen.save().expect("whole"), saved, "the same as before");
        assert!(frozen.footprint() < 4096, "{} bytes for four lines and a state", frozen.footprint());
        let kept = frozen.kept_mut();
        assert_eq!((&kept.counters[..], kept.deadline), (&twin.kept().counters[..], twin.kept().due()));
        assert_eq!(kept.slots.len(), 1);
        let mut guest = frozen.thaw().expect("a shell is there");
        assert_eq!(
            guest.kept().slots.iter().next().map(|(_, packet, _)| packet.buffer()),
            address,
            "its buffer"
        );
        assert_eq!(guest.kept_mut().take_log(), twin.kept_mut().take_log());
        assert_eq!(guest.kept_mut().take_events(), twin.kept_mut().take_events());
        for mark in [0, 3, 0] {
            assert_eq!(call(&mut *guest, &mut packet, mark), call(&mut *twin, &mut packet, mark));
        }
        drop((guest, twin));
        pool.free(packet);
        assert_eq!(pool.available(), 8, "no buffer was lost or freed twice");
    }
}

#[test]
fn a_frozen_guest_that_is_dropped_gives_its_packets_back() {
    let pool = pool_of(8);
    let (_, mut guest) = started(&pool, &patient());
    guest
        .kept_mut()
        .slots
        .keep(1, pool.allocate().expect("a buffer"), telemetry::clock::Nanos(0))
        .expect("empty");
    let frozen = guest.freeze().expect("between two calls");
    assert_eq!(pool.available(), 7);
    drop(frozen);
    assert_eq!(pool.available(), 8);
}

#[test]
fn what_is_not_of_this_image_is_refused() {
    let pool = pool_of(4);
    let settings = patient();
    let (program, mut guest) = started(&pool, &settings);
    let good = guest.save().expect("between two calls");
    drop(guest);
    assert_eq!(pool.available(), 4);
    let attempt = |change: &dyn Fn(&mut Saved<'static>), settings: InstanceSettings| {
        let mut saved = good.clone();
        change(&mut saved);
        let error = restore(&program, &pool, settings, &saved).map(drop).expect_err("it is refused");
        assert_eq!(pool.available(), 4, "{error}");
        error
    };
    let text = |error: RestoreError| error.to_string();
    let with = |change: &dyn Fn(&mut Saved<'static>)| text(attempt(change, settings.clone()));

    assert!(with(&|saved| saved.identity.image[0] = 8).contains("the snapshot is of image 0807"));
    assert!(with(&|saved| saved.identity.abi = 2).contains("version 2 of the contract; allowed: 1"));
    assert!(with(&|saved| saved.host.batch = 33).contains("records at 0x21"));
    assert!(with(&|saved| saved.host.counters.push(1)).contains("3 counters were saved"));
    assert!(with(&|saved| drop(saved.globals.pop())).contains("4 mutable globals were saved"));
    assert!(with(&|saved| saved.globals[0].value = Value::I32(1)).contains("`other` was saved as i32"));
    let memory = |pages: u64| snapshot::Memory::new(pages * WASM_PAGE, 1 << 30);
    assert!(with(&|saved| saved.memory = memory(1)).contains("the image begins with 131072"));
    assert!(with(&|saved| saved.memory = memory(17)).contains("the manifest allows 1048576"));
    let packet = |slot, ingress, length| {
        let record = nf_abi::PacketRecord { ingress, ..Default::default() };
        snapshot::SavedPacket::new(PacketState::Held { slot, due: 0 }, &record, vec![1; length])
    };
    assert!(
        with(&|saved| saved.packets.push(packet(1, 2, 5))).contains("slot 1: it came in by interface 2 of 2")
    );
    assert!(with(&|saved| saved.packets.push(packet(1, 0, 5000))).contains("a packet of 5000 bytes"));
    let many = |saved: &mut Saved<'static>| (0..5).for_each(|slot| saved.packets.push(packet(slot, 0, 5)));
    assert!(with(&many).contains("slot 4: no free buffer"), "{}", with(&many));
    let small =
        InstanceSettings { slots: guest::SlotConfig { quota: 1, ..settings.slots }, ..settings.clone() };
    assert!(text(attempt(&many, small)).contains("quota is used up: 1 of 1 are kept"));
    let other = InstanceSettings { config: vec![0xa1, 0x61, 0x61, 1], ..settings.clone() };
    assert!(matches!(attempt(&|_| (), other), RestoreError::Config { found: 1, needed: 4, .. }));
    restore(&program, &pool, settings.clone(), &good).expect("the good one is as good as before");
}

#[test]
fn an_instance_beyond_huge_pages_is_restored_whole() {
    let text = module(
        r#"(func (export "sf_process") (param i32 i64) (local $at i32) (local $sum i64) (local $n i32)
             (if (i32.lt_u (memory.size) (i32.const 200))
               (then (drop (memory.grow (i32.sub (i32.const 200) (memory.size))))))
             (local.set $at (i32.const 8192))
             (loop $next
               (if (i64.eq (i64.load (i32.const 1040)) (i64.const 1))
                 (then (i64.store (local.get $at) (i64.extend_i32_u (local.get $at)))))
               (local.set $sum (i64.add (i64.mul (local.get $sum) (i64.const 31)) (i64.load (local.get $at))))
               (local.set $at (i32.add (local.get $at) (i32.const 35000)))
               (br_if $next (i32.lt_u (local.get $at) (i32.const 13000000))))
             (i64.store (i32.const 1040) (local.get $sum)))"#,
    );
    let facts = ProgramFacts { memory_limit: 64 << 20, ..facts(Access::Read) };
    let program = program_with(&text, facts);
    let pool = pool_of(4);
    let mut packet = pool.allocate().expect("a buffer");
    let mut guest = guest_wasm::start(&program, &pool, patient()).expect("an instance");
    let sum = call(&mut *guest, &mut packet, 1);
    let saved = guest.save().expect("between two calls");
    assert!(saved.memory.bytes().len() < 380 * 64, "a line for each of 372 stores, and the record's");
    let mut again = restore(&program, &pool, patient(), &saved).expect("restored");
    assert_eq!(call(&mut *again, &mut packet, 0), sum);
    pool.free(packet);
}
