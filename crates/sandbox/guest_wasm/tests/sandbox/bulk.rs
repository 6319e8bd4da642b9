//! Bulk memory instructions: unlowered they do not compile, lowered they are loops like any other.

use crate::support::*;
use guest::GuestFault;
use guest_wasm::{Access, InstanceSettings, Program, ProgramFacts};
use std::sync::Arc;
use telemetry::clock::Nanos;

fn lowered(body: &str, access: Access) -> Arc<Program> {
    let facts = ProgramFacts { memory_limit: 1 << 30, ..facts(access) };
    let wasm = image::rewrite(&wasm(&process(body))).expect("copies and fills can be lowered");
    sandbox().compile(&wasm, facts).expect("nothing of the proposal is left")
}

fn fill(target: u64, length: u64) -> String {
    format!(
        "(memory.fill (i32.const {}) (i32.const 255) (i32.const {}))",
        target as u32 as i32, length as u32 as i32
    )
}

fn copy(target: u64, source: u64, length: u64) -> String {
    let [target, source, length] = [target, source, length].map(|value| value as u32 as i32);
    format!("(memory.copy (i32.const {target}) (i32.const {source}) (i32.const {length}))")
}

#[test]
fn unlowered_instructions_do_not_compile() {
    let data = "(data $d \"x\")";
    let table = "(table 4 funcref) (elem $e func $f) (func $f)";
    for (fields, body) in [
        ("", "(memory.fill (i32.const 0) (i32.const 0) (i32.const 1))"),
        ("", "(memory.copy (i32.const 0) (i32.const 0) (i32.const 1))"),
        (data, "(memory.init $d (i32.const 0) (i32.const 0) (i32.const 1))"),
        (data, "(data.drop $d)"),
        (table, "(table.init $e (i32.const 0) (i32.const 0) (i32.const 1))"),
        (table, "(elem.drop $e)"),
        (table, "(table.copy (i32.const 0) (i32.const 0) (i32.const 1))"),
        (table, "(table.fill (i32.const 0) (ref.null func) (i32.const 1))"),
        (table, "(drop (table.grow (ref.null func) (i32.const 1000)))"),
        (table, "(drop (table.size))"),
        (table, "(table.set (i32.const 0) (table.get (i32.const 0)))"),
        (data, ""), // A passive segment alone.
        (table, ""),
    ] {
        let wasm = wasm(&module(&format!("(func (export \"sf_process\") (param i32 i64) {body}) {fields}")));
        let refused = sandbox().precompile(&wasm).err();
        assert!(refused.is_some(), "{body} {fields}");
    }
}

/// A fill and a copy with these operands, each written as constants and taken from the first packet's mark.
fn both_ways(target: u64, length: u64) -> Vec<(String, u64)> {
    let dynamic =
        format!("(memory.fill (local.get $a) (i32.const 255) (i32.const {}))", length as u32 as i32);
    let dynamic_length =
        format!("(memory.fill (i32.const {}) (i32.const 255) (local.get $a))", target as u32 as i32);
    vec![
        (fill(target, length), 0),
        (dynamic, target),
        (dynamic_length, length),
        (copy(target, 0, length), 0),
        (format!("(memory.copy (local.get $a) (i32.const 8) (i32.const {}))", length as u32 as i32), target),
    ]
}

#[test]
fn fills_and_copies_into_a_read_only_window_trap() {
    let mut room = Room::new();
    let window = room.window();
    for length in [1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 127, 4096, window, window + 1, 1 << 30, 0x7fff_ffff]
    {
        for target in [WINDOW, WINDOW + 1, WINDOW + 4095, WINDOW + window - 1] {
            for (body, mark) in both_ways(target, length) {
                assert_trap(room.run(&lowered(&body, Access::Read), mark), &body);
                room.assert_goes_on();
            }
        }
    }
}

#[test]
fn fills_and_copies_reach_exactly_what_stores_reach() {
    let mut room = Room::new();
    let window = room.window();
    let (private, end) = (2 * WASM_PAGE, WINDOW + window);
    for (target, length, allowed) in [
        (WINDOW, 64, true),
        (WINDOW + 1, 333, true),
        (WINDOW, window, true),
        (end - 1, 1, true),
        (end - 100, 100, true),
        (end - 1, 2, false),
        (end - 100, 101, false),
        (end, 1, false),
        (WINDOW - 1, 1, false),
        (WINDOW - 1, 100, false),
        (WINDOW, window + 1, false),
        (WINDOW, 1 << 30, false),
        (0xffff_ffff, 1, false),
        (0xffff_fff0, 64, false),
        (4096, private - 4096, true),
        (4096, private - 4095, false),
        (private, 1, false),
        (4096, 1 << 31, false),
        (0, 0xffff_ffff, false),
        (WINDOW, 0, true),
    ] {
        for (body, mark) in both_ways(target, length) {
            let result = room.run(&lowered(&body, Access::Write), mark);
            assert_eq!(result.is_ok(), allowed, "{body}: {result:?}");
            if let Err(fault) = result {
                assert!(matches!(fault, GuestFault::Trap(_)), "{body}: {fault}");
            }
            room.restore();
            room.assert_goes_on();
        }
    }
}

#[test]
fn copies_out_of_the_window_stop_at_its_end() {
    let mut room = Room::new();
    let end = WINDOW + room.window();
    for (source, length, allowed) in [
        (WINDOW, 1000, true),
        (end - 1000, 1000, true),
        (end - 1000, 1001, false),
        (end, 1, false),
        (WINDOW - 1, 1, false),
        (0xffff_ffff, 1, false),
    ] {
        let body = copy(4096, source, length);
        let result = room.run(&lowered(&body, Access::Read), 0);
        assert_eq!(result.is_ok(), allowed, "{body}: {result:?}");
        room.assert_goes_on();
    }
}

#[test]
fn a_huge_fill_of_private_memory_is_stopped_by_the_deadline() {
    in_time(|| {
        let mut room = Room::new();
        let settings = InstanceSettings { max_call: Nanos::from_millis(1), ..patient() };
        for body in [
            "(drop (memory.grow (i32.const 8000)))
             (loop (memory.fill (i32.const 4096) (i32.const 255) (i32.const 0x1f000000)) (br 0))",
            "(drop (memory.grow (i32.const 8000)))
             (loop (memory.copy (i32.const 4096) (i32.const 4097) (i32.const 0x1f000000)) (br 0))",
        ] {
            let mut guest = room.guest(&lowered(body, Access::Read), settings.clone()).expect("an instance");
            assert_timed_out(room.show(&mut guest, 0), body);
            drop(guest);
            room.assert_goes_on();
        }
    });
}
