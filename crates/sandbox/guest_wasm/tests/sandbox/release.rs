//! A guest that is gone has no buffer: not in a slot, not given up and uncollected, however it went.

use crate::support::*;
use guest::Guest;
use guest_wasm::{Access, WasmGuest};
use nf_abi::Verdict;

/// Makes three packets, gives one up, and ends as the mark says.
const ENDS: &str = "
    (drop (call $packet_new (i32.const 1) (i32.const 0) (i32.const 60)))
    (drop (call $packet_new (i32.const 2) (i32.const 0) (i32.const 60)))
    (drop (call $packet_new (i32.const 3) (i32.const 0) (i32.const 60)))
    (drop (call $packet_emit (i32.const 2) (i32.const 2) (i32.const -1) (i32.const 0) (i64.const 0)))
    (if (i32.eq (local.get $a) (i32.const 1)) (then (unreachable)))
    (if (i32.eq (local.get $a) (i32.const 2)) (then (loop (br 0))))
    (if (i32.eq (local.get $a) (i32.const 3)) (then (i32.store (i32.const 0x7fffffff) (i32.const 0))))";

#[test]
fn dropping_a_guest_returns_its_buffers() {
    in_time(|| {
        let pool = pool_of(8);
        let program = program(&process(ENDS), Access::Write);
        for (mark, surrendered) in (0..4).flat_map(|mark| [(mark, false), (mark, true)]) {
            let mut guest = WasmGuest::new(&program, &pool, impatient()).expect("an instance");
            let mut packet = pool.allocate().expect("eight buffers");
            packet.edit(|record| record.mark = mark);
            let outcome = guest.process(std::slice::from_mut(&mut packet), now());
            assert_eq!(outcome.is_ok(), mark == 0, "{outcome:?}");
            assert_eq!((guest.kept().slots.len(), guest.kept().emitted.len(), pool.available()), (2, 1, 4));
            assert_eq!(std::mem::take(&mut guest.kept_mut().generated), 3);
            if surrendered {
                let mut out = Vec::new();
                guest.surrender(&mut out);
                assert_eq!(out.len(), 3);
                pool.free_batch(out);
            }
            drop(guest);
            assert_eq!(pool.available(), 7, "at once");
            pool.free(packet);
        }
        assert_eq!(pool.available(), 8);
    });
}

#[test]
fn a_held_packet_is_the_guests_until_it_goes() {
    let pool = pool_of(2);
    let body = "(i32.store (i32.const 1024) (i32.const 0x904))";
    let mut guest =
        WasmGuest::new(&program(&process(body), Access::Read), &pool, patient()).expect("an instance");
    let mut packet = pool.allocate().expect("two buffers");
    guest.process(std::slice::from_mut(&mut packet), now()).expect("it answers");
    assert_eq!(Verdict::decode(packet.record().verdict), Some(Verdict::Hold(9)));
    guest.kept_mut().slots.keep(9, packet, now().nanos).expect("within the quota");
    assert_eq!(pool.available(), 1);
    drop(guest);
    assert_eq!(pool.available(), 2);
}
