//! `memory.grow` and `memory.size`: private memory alone, up to the manifest's limit, never to the window.

use crate::support::*;
use guest_wasm::{Access, InstanceError, ProgramFacts};

/// Grows by the first packet's mark; the mark becomes the answer in the lower and the size in the upper half.
const GROW: &str = "(local.set $r (memory.grow (local.get $a)))
    (i64.store (i32.const 1040) (i64.or
        (i64.extend_i32_u (local.get $r))
        (i64.shl (i64.extend_i32_u (memory.size)) (i64.const 32))))";

#[test]
fn growth_ends_at_the_limit_and_size_speaks_of_private_memory() {
    let mut room = Room::new();
    let facts = ProgramFacts { memory_limit: 5 * WASM_PAGE + 100, ..facts(Access::Read) };
    let program = program_with(&process(GROW), facts);
    let mut guest = room.guest(&program, patient()).expect("an instance");
    let minus_one = u64::from(u32::MAX);
    for (by, answer, size) in [
        (0, 2, 2),
        (4, minus_one, 2), // Six pages are more than five and a bit.
        (1, 2, 3),
        (0xffff, minus_one, 3),
        (0xffff_ffff, minus_one, 3),
        (0x7ffe, minus_one, 3), // To the window.
        (2, 3, 5),
        (1, minus_one, 5),
        (0, 5, 5),
    ] {
        room.show(&mut guest, by).expect("growing never traps");
        let mark = room.packets[0].record().mark;
        assert_eq!((mark & minus_one, mark >> 32), (answer, size), "grown by {by}");
        assert_eq!(guest.private_bytes() as u64, size * WASM_PAGE);
        room.assert_goes_on();
    }
}

#[test]
fn grown_memory_ends_where_it_says() {
    let mut room = Room::new();
    for pages in [2, 3, 16] {
        let body = format!(
            "(drop (memory.grow (i32.const {}))) (i32.store8 (local.get $a) (i32.const 1))",
            pages - 2
        );
        let program = program(&process(&body), Access::Read);
        room.run(&program, pages * WASM_PAGE - 1).expect("the last byte");
        for beyond in [pages * WASM_PAGE, pages * WASM_PAGE + 4096, 17 * WASM_PAGE, WINDOW - 1] {
            assert_trap(room.run(&program, beyond), "behind the last byte");
        }
        room.assert_goes_on();
    }
}

#[test]
fn the_largest_memory_ends_at_the_window() {
    let mut room = Room::new();
    for limit in [nf_abi::PRIVATE_MAX, 1 << 32, u64::MAX] {
        let facts = ProgramFacts { memory_limit: limit, ..facts(Access::Write) };
        let body = "(drop (memory.grow (i32.const 0x7ffe)))
            (if (i32.ne (memory.size) (i32.const 0x8000)) (then (unreachable)))
            (if (i32.ne (memory.grow (i32.const 1)) (i32.const -1)) (then (unreachable)))
            (i32.store8 (local.get $a) (i32.const 255))";
        let program = program_with(&process(body), facts);
        room.run(&program, WINDOW - 1).expect("private up to the window");
        room.assert_goes_on();
        room.run(&program, WINDOW).expect("and the window from there on");
        assert_eq!(room.changed(), [(0, 0xff)]);
        room.restore();
    }
}

#[test]
fn a_memory_that_begins_too_large_is_refused() {
    let mut room = Room::new();
    let refused = |room: &Room, pages: u64, limit: u64| {
        let text = process("").replace("\"memory\") 2", &format!("\"memory\") {pages}"));
        let facts = ProgramFacts { memory_limit: limit, ..facts(Access::Write) };
        let outcome = room.guest(&program_with(&text, facts), patient());
        matches!(outcome, Err(InstanceError::Memory { .. }))
    };
    assert!(!refused(&room, 3, 3 * WASM_PAGE));
    assert!(refused(&room, 3, 3 * WASM_PAGE - 1));
    assert!(!refused(&room, 0x8000, u64::MAX));
    assert!(refused(&room, 0x8001, u64::MAX), "into the window");
    assert!(refused(&room, 0x10000, u64::MAX), "over the window");
    room.assert_goes_on();
}

#[test]
fn growing_in_a_loop_ends() {
    let mut room = Room::new();
    let body = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
        (i64.store (i32.const 1040) (i64.extend_i32_u (memory.size)))";
    room.run(&program(&process(body), Access::Read), 0).expect("it ends");
    assert_eq!(room.packets[0].record().mark, 16, "1 MiB");
    room.assert_goes_on();
}
