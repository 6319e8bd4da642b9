//! Which memory has pages when an instance has started, and how large the pages are that come later.

use crate::support::*;
use guest::Guest;
use guest_wasm::{Access, InstanceSettings, Program, ProgramFacts, WasmGuest, resident};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
/// Bytes that an instance may have without anything having been populated: its first pages, page by page.
const FEW: u64 = 64 << 10;

/// Grows by `at_start` wasm pages in `sf_init`, touching none of them. Its calls store a byte at the mark's
/// lower half after growing by the mark's upper half, in wasm pages.
fn grower(at_start: u64) -> Arc<Program> {
    let text = format!(
        r#"(module {IMPORTS}
            (memory (export "memory") 2)
            (func (export "sf_batch") (result i32) (i32.const {BATCH}))
            (func (export "sf_init") (result i32) (drop (memory.grow (i32.const {at_start}))) (i32.const 0))
            (func (export "sf_process") (param i32 i64) (local $mark i64)
                (local.set $mark (i64.load (i32.const {MARK})))
                (drop (memory.grow (i32.wrap_i64 (i64.shr_u (local.get $mark) (i64.const 32)))))
                (i32.store8 (i32.wrap_i64 (local.get $mark)) (i32.const 1))))"#
    );
    program_with(&text, ProgramFacts { memory_limit: 64 * MIB, ..facts(Access::Read) })
}

fn there(guest: &mut WasmGuest) -> u64 {
    let (place, bytes) = (guest.memory_place(), guest.memory());
    resident(place, bytes)
}

fn with(resident: Option<u64>) -> InstanceSettings {
    InstanceSettings { resident, ..patient() }
}

#[test]
fn what_sf_init_reserves_is_there_before_the_first_call() {
    let room = Room::new();
    // A table that was asked for as zeroed memory, and that nothing has written to.
    let mut guest = room.guest(&grower(128), with(None)).expect("an instance");
    assert_eq!(there(&mut guest), 130 * WASM_PAGE);
}

#[test]
fn a_small_function_has_the_pages_that_it_touched() {
    let room = Room::new();
    let mut guest = room.guest(&grower(8), with(None)).expect("an instance");
    let found = there(&mut guest);
    assert!(found <= FEW, "{found} bytes of {}", guest.memory());
}

#[test]
fn settings_say_how_much_is_there() {
    let mut room = Room::new();
    for (said, found) in [(0, 0), (4 * MIB, 4 * MIB), (64 * MIB, 130 * WASM_PAGE)] {
        let mut guest = room.guest(&grower(128), with(Some(said))).expect("an instance");
        let there = there(&mut guest);
        assert!(there >= found && there <= found + FEW, "{there} bytes with {said}");
        room.assert_goes_on();
    }
}

#[test]
fn memory_that_will_be_grown_to_is_there_and_out_of_reach_until_then() {
    let mut room = Room::new();
    let program = grower(0);
    let mut guest = room.guest(&program, with(Some(8 * MIB))).expect("an instance");
    assert_eq!(there(&mut guest), 2 * WASM_PAGE);
    // It grows to 8 MiB and has all of it at once.
    room.show(&mut guest, (126 << 32) | (7 * MIB)).expect("inside its memory");
    assert_eq!((guest.memory() as u64, there(&mut guest)), (8 * MIB, 8 * MIB));
    let mut other = room.guest(&program, with(Some(8 * MIB))).expect("an instance");
    assert_trap(room.show(&mut other, 2 * WASM_PAGE), "populated, and not its memory yet");
    room.assert_goes_on();
}

#[test]
fn what_was_populated_is_gone_with_its_instance() {
    let mut room = Room::new();
    let reads = format!(
        "(drop (memory.grow (i32.const 62))) (i64.store (i32.const {MARK}) (i64.load (local.get $a)))"
    );
    let facts = ProgramFacts { memory_limit: 64 * MIB, ..facts(Access::Read) };
    let reader = program_with(&process(&reads), facts);
    for said in [None, Some(MIB), Some(16 * MIB)] {
        let mut guest = room.guest(&grower(62), with(said)).expect("an instance");
        for at in [100_000, 2 * MIB + 5, 4 * MIB - 1] {
            room.show(&mut guest, at).expect("inside its memory");
        }
        drop(guest);
        // The same shell: it is the only one of its key that is spare.
        for at in [100_000, 2 * MIB, 4 * MIB - 8] {
            let mut next = room.guest(&reader, with(None)).expect("an instance");
            let found = there(&mut next);
            assert!(found <= FEW, "{found} bytes left over");
            room.show(&mut next, at).expect("inside its memory");
            assert_eq!(room.packets[0].record().mark, 0, "at {at}");
        }
    }
    room.assert_goes_on();
}

#[test]
fn pages_that_calls_touch_are_small() {
    let mut room = Room::new();
    for (at_start, growth, said) in [(0, 512, None), (510, 512, None), (510, 0, Some(0))] {
        let mut guest = room.guest(&grower(at_start), with(said)).expect("an instance");
        room.show(&mut guest, growth << 32).expect("it grows");
        let before = there(&mut guest);
        let first = if growth == 0 { 0 } else { at_start * WASM_PAGE / (2 * MIB) };
        for n in first + 1..first + 15 {
            room.show(&mut guest, 2 * MIB * n + 77).expect("inside its memory");
        }
        let touched = there(&mut guest) - before;
        assert!(touched <= 14 * 4096, "{touched} bytes for 14 stores after {at_start} and {growth} pages");
    }
    room.assert_goes_on();
}

#[test]
fn memory_that_moves_takes_its_pages_along() {
    let mut room = Room::new();
    let program = grower(62);
    let started = |said| guest_wasm::start(&program, &room.pool, with(said)).expect("an instance");
    for (before, after) in [(None, None), (Some(0), Some(16 * MIB)), (Some(16 * MIB), Some(0))] {
        let (mut old, mut new) = (started(before), started(after));
        room.packets[0].edit(|record| record.mark = (64 << 32) | (6 * MIB));
        old.process(&mut room.packets[..1], now()).expect("inside its memory");
        assert!(new.take_place_of(&mut *old).expect("no fault"), "{before:?} {after:?}");
        drop(old);
        // It grows on where the other one stopped, and can be replaced in turn.
        room.packets[0].edit(|record| record.mark = (64 << 32) | (10 * MIB));
        new.process(&mut room.packets[..1], now()).expect("inside its memory");
        let mut third = started(None);
        assert!(third.take_place_of(&mut *new).expect("no fault"), "{before:?} {after:?}");
        drop(new);
        room.packets[0].edit(|record| record.mark = 11 * MIB);
        third.process(&mut room.packets[..1], now()).expect("inside its memory");
    }
    room.assert_goes_on();
}

#[test]
fn ten_kilobytes_of_stores_far_apart_cost_a_page_each() {
    const STORES: u64 = 900;
    let mut room = Room::new();
    let stores: String =
        (1..=STORES).map(|n| format!("(i32.store8 (i32.const {}) (i32.const 1))", 2 * MIB * n)).collect();
    let body = format!("(if (local.get $a) (then {stores}) (else (drop (memory.grow (i32.const 0x7f00)))))");
    let facts = ProgramFacts { memory_limit: 2048 * MIB, ..facts(Access::Read) };
    let mut guest = room.guest(&program_with(&process(&body), facts), with(None)).expect("an instance");
    room.show(&mut guest, 0).expect("it grows");
    let before = there(&mut guest);
    // Straight code looks at no deadline: what it costs has to be little.
    room.show(&mut guest, 1).expect("inside its memory");
    assert_eq!(there(&mut guest) - before, STORES * 4096);
    room.assert_goes_on();
}
