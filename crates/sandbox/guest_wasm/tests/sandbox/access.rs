//! Loads and stores, at every edge that a guest's memory has.

use crate::support::*;
use guest_wasm::Access;

/// Stores of ones: text before and after the address, and the width.
const STORES: [(&str, &str, u64); 14] = [
    ("i32.store", "(i32.const -1)", 4),
    ("i32.store8", "(i32.const -1)", 1),
    ("i32.store16", "(i32.const -1)", 2),
    ("i64.store", "(i64.const -1)", 8),
    ("i64.store8", "(i64.const -1)", 1),
    ("i64.store16", "(i64.const -1)", 2),
    ("i64.store32", "(i64.const -1)", 4),
    ("f32.store", "(f32.reinterpret_i32 (i32.const -1))", 4),
    ("f64.store", "(f64.reinterpret_i64 (i64.const -1))", 8),
    ("v128.store", ONES, 16),
    ("v128.store8_lane LANE 3", ONES, 1),
    ("v128.store16_lane LANE 3", ONES, 2),
    ("v128.store32_lane LANE 3", ONES, 4),
    ("v128.store64_lane LANE 1", ONES, 8),
];
const ONES: &str = "(v128.const i64x2 -1 -1)";

const LOADS: [(&str, u64); 26] = [
    ("i32.load", 4),
    ("i32.load8_u", 1),
    ("i32.load8_s", 1),
    ("i32.load16_u", 2),
    ("i32.load16_s", 2),
    ("i64.load", 8),
    ("i64.load8_u", 1),
    ("i64.load8_s", 1),
    ("i64.load16_u", 2),
    ("i64.load16_s", 2),
    ("i64.load32_u", 4),
    ("i64.load32_s", 4),
    ("f32.load", 4),
    ("f64.load", 8),
    ("v128.load", 16),
    ("v128.load8x8_s", 8),
    ("v128.load16x4_u", 8),
    ("v128.load32x2_s", 8),
    ("v128.load8_splat", 1),
    ("v128.load16_splat", 2),
    ("v128.load32_splat", 4),
    ("v128.load64_splat", 8),
    ("v128.load32_zero", 4),
    ("v128.load64_zero", 8),
    ("v128.load8_lane LANE 3", 1),
    ("v128.load64_lane LANE 1", 8),
];

/// Text of an access: `(i32.store offset=O (address) (value))`.
fn instruction(name: &str, offset: u64, address: &str, value: &str) -> String {
    let (name, lane) = name.split_once(" LANE ").unwrap_or((name, ""));
    format!("({name} offset={offset} {lane} {address} {value})")
}

fn load(name: &str, offset: u64, address: &str) -> String {
    let vector = if name.contains("LANE") { ONES } else { "" };
    format!("(drop {})", instruction(name, offset, address, vector))
}

/// Where accesses of this width meet an edge: of private memory, of the window, of its pages, of everything.
fn edges(width: u64, window: u64) -> Vec<u64> {
    let private = 2 * WASM_PAGE;
    let mut starts = vec![4, 5, private / 2, WINDOW / 2, WINDOW + 4096 * 3 + 1, 0xc000_0000, 0xe000_0001];
    let ends = [private, private + 4096, WINDOW, WINDOW + 4096, WINDOW + window, WINDOW + window + 4096];
    for edge in ends.into_iter().chain([0xc000_0000, 1 << 32]) {
        starts.extend([edge - width - 1, edge - width, edge - width + 1, edge - 1, edge, edge + 1]);
    }
    starts.retain(|start| *start <= u64::from(u32::MAX));
    starts.sort_unstable();
    starts.dedup();
    starts
}

fn inside(start: u64, width: u64, from: u64, length: u64) -> bool {
    start >= from && start + width <= from + length
}

#[test]
fn stores_work_in_private_memory_and_in_a_writable_window_and_trap_elsewhere() {
    let mut room = Room::new();
    for access in [Access::Read, Access::Write] {
        for (name, value, width) in STORES {
            let program = program(&process(&instruction(name, 0, "(local.get $a)", value)), access);
            for start in edges(width, room.window()) {
                let what = format!("{name} at {start:#x} with {access:?}");
                let result = room.run(&program, start);
                let packet = inside(start, width, WINDOW, room.window());
                if packet && access == Access::Write {
                    result.expect(&what);
                    let first = (start - WINDOW) as usize;
                    let expected: Vec<_> = (first..first + width as usize).map(|at| (at, 0xff)).collect();
                    assert_eq!(room.changed(), expected, "{what}");
                    room.restore();
                } else if inside(start, width, 0, 2 * WASM_PAGE) {
                    result.expect(&what);
                } else {
                    assert_trap(result, &what);
                }
                room.assert_goes_on();
            }
        }
    }
}

#[test]
fn loads_work_in_private_memory_and_in_the_window_and_trap_elsewhere() {
    let mut room = Room::new();
    for (name, width) in LOADS {
        // What is loaded and not used is loaded all the same: a trap is an effect.
        let program = program(&process(&load(name, 0, "(local.get $a)")), Access::Read);
        for start in edges(width, room.window()) {
            let what = format!("{name} at {start:#x}");
            let result = room.run(&program, start);
            if inside(start, width, WINDOW, room.window()) || inside(start, width, 0, 2 * WASM_PAGE) {
                result.expect(&what);
            } else {
                assert_trap(result, &what);
            }
        }
        room.assert_goes_on();
    }
}

#[test]
fn constant_offsets_reach_no_further_than_addresses() {
    const GUARD: u64 = 32 << 20;
    let mut room = Room::new();
    let offsets = [
        1,
        GUARD - 17,
        GUARD - 1,
        GUARD,
        GUARD + 1,
        WINDOW - 1,
        WINDOW,
        WINDOW + 1,
        0xffff_fff0,
        0xffff_ffff,
    ];
    for offset in offsets {
        for (name, value, width) in STORES {
            let dynamic =
                program(&process(&instruction(name, offset, "(local.get $a)", value)), Access::Write);
            for address in [0, 8, GUARD, WINDOW - offset.min(WINDOW), WINDOW, 0xffff_0000, 0xffff_ffff_u64] {
                let what = format!("{name} offset={offset:#x} at {address:#x}");
                let start = address + offset;
                let allowed =
                    inside(start, width, WINDOW, room.window()) || inside(start, width, 0, 2 * WASM_PAGE);
                let result = room.run(&dynamic, address);
                assert_eq!(result.is_ok(), allowed, "{what}: {result:?}");
                room.restore();
            }
        }
        room.assert_goes_on();
    }
}

#[test]
fn constant_addresses_are_no_exception() {
    let mut room = Room::new();
    let window = room.window();
    let addresses =
        [2 * WASM_PAGE - 1, 2 * WASM_PAGE, WINDOW - 1, WINDOW, WINDOW + window - 4, WINDOW + window - 1];
    for address in addresses.into_iter().chain([WINDOW + window, 0xffff_fffc, 0xffff_ffff]) {
        for (declared, offset) in
            [("2", 0), ("2 2", 0), ("2 65536", 0), ("2", 0xffff_ffff), ("2 16", 0x10_0001)]
        {
            let constant = format!("(i32.const {})", address as u32 as i32);
            let text = process(&instruction("i32.store", offset, &constant, "(i32.const -1)")).replace(
                "(memory (export \"memory\") 2)",
                &format!("(memory (export \"memory\") {declared})"),
            );
            let result = room.run(&program(&text, Access::Read), 0);
            let allowed = inside(address + offset, 4, 0, 2 * WASM_PAGE);
            assert_eq!(
                result.is_ok(),
                allowed,
                "{address:#x} offset={offset:#x} memory {declared}: {result:?}"
            );
            room.assert_goes_on();
        }
    }
}

#[test]
fn two_tenants_see_their_own_packets_alone() {
    let (mut here, mut there) = (Room::new(), Room::new());
    let spoil = program(
        &process(
            "(i32.store (local.get $a) (i32.const -1)) (i64.store (i32.const 1040) (i64.load (local.get $a)))",
        ),
        Access::Write,
    );
    here.run(&spoil, WINDOW).expect("its own packets");
    assert_eq!(here.changed().len(), 4);
    there.assert_goes_on();
    here.restore();
    here.assert_goes_on();
}
