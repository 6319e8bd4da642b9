//! Address space is used again; what was in it is not seen again.

use crate::support::*;
use guest_wasm::{Access, Program, ProgramFacts, Sandbox, WasmGuest};
use packet_memory::{Packet, Pool};
use std::sync::Arc;

/// Grows to `pages`, and the first mark says what then: 1 fills all of it, else all of it is added up. The
/// records and what lies before them are left out.
fn prober(sandbox: &Sandbox, minimum: u64, pages: u64) -> Arc<Program> {
    let text = format!(
        "(module (memory (export \"memory\") {minimum})
          (func (export \"sf_batch\") (result i32) (i32.const 1024))
          (func (export \"sf_init\") (result i32) (i32.const 0))
          (func (export \"sf_process\") (param i32 i64) (local $at i32) (local $sum i64) (local $fill i64)
            (if (i32.lt_u (memory.size) (i32.const {pages}))
              (then (if (i32.eq (i32.const -1) (memory.grow (i32.sub (i32.const {pages}) (memory.size))))
                (then (unreachable)))))
            (local.set $fill (i64.load (i32.const 1040)))
            (local.set $at (i32.const 5120))
            (loop $next
              (if (i64.eqz (local.get $fill))
                (then (local.set $sum (i64.add (local.get $sum) (i64.popcnt (i64.load (local.get $at))))))
                (else (i64.store (local.get $at) (i64.const -1))))
              (br_if $next (i32.lt_u
                (local.tee $at (i32.add (local.get $at) (i32.const 8)))
                (i32.mul (i32.const {pages}) (i32.const 65536)))))
            (i64.store (i32.const 1040) (local.get $sum))))"
    );
    let facts = ProgramFacts { memory_limit: 64 << 20, ..facts(Access::Read) };
    sandbox.compile(&wasm(&text), facts).expect("a program")
}

fn run(program: &Arc<Program>, pool: &Arc<Pool>, packet: &mut Packet, fill: bool) -> u64 {
    let mut guest = WasmGuest::new(program, pool, patient()).expect("an instance");
    packet.edit(|record| record.mark = u64::from(fill));
    guest::Guest::process(&mut guest, std::slice::from_mut(packet), now()).expect("it works");
    packet.record().mark
}

#[test]
fn nothing_of_a_former_guest_is_seen() {
    // A sandbox of its own, so that no other test takes its shells.
    let sandbox = Sandbox::new().expect("a sandbox");
    let pool = pool_of(4);
    let mut packet = pool.allocate().expect("a buffer");
    // Around what is cleared in place (256 KiB), what asks for huge pages (4 MiB), and on both sides of each
    // minimum.
    let sizes =
        [(1, 1), (1, 4), (2, 5), (4, 4), (5, 5), (1, 17), (17, 17), (1, 64), (64, 66), (1, 200), (3, 3)];
    let programs: Vec<_> = sizes.iter().map(|(minimum, pages)| prober(&sandbox, *minimum, *pages)).collect();
    for former in &programs {
        for next in &programs {
            run(former, &pool, &mut packet, true);
            assert_eq!(sandbox.shell_counts().spare, 1, "the shell came back");
            assert_eq!(run(next, &pool, &mut packet, false), 0, "bits of the former guest");
            assert_eq!(sandbox.shell_counts().spare, 1, "and was the one used");
        }
    }
    pool.free(packet);
}

#[test]
fn a_smaller_guest_has_no_more_than_its_own_memory() {
    let sandbox = Sandbox::new().expect("a sandbox");
    let mut room = Room::new();
    let large = prober(&sandbox, 4, 8);
    run(&large, &room.pool.clone(), &mut room.packets[0], true);
    assert_eq!(sandbox.shell_counts().spare, 1);
    let text = process("(i32.store8 (local.get $a) (i32.const 1))").replace("\"memory\") 2", "\"memory\") 1");
    let facts = ProgramFacts { memory_limit: 3 * WASM_PAGE, ..facts(Access::Read) };
    let small = sandbox.compile(&wasm(&text), facts).expect("a program");
    room.run(&small, WASM_PAGE - 1).expect("its last byte");
    for beyond in
        [WASM_PAGE, WASM_PAGE + 4096, 2 * WASM_PAGE, 4 * WASM_PAGE - 1, 4 * WASM_PAGE, 8 * WASM_PAGE - 1]
    {
        run(&large, &room.pool.clone(), &mut room.packets[0], true);
        assert_trap(room.run(&small, beyond), "memory of the former guest");
        assert_eq!(sandbox.shell_counts().spare, 1, "it is the same shell every time");
    }
    room.assert_goes_on();
}

#[test]
fn a_shell_stays_with_its_pool_and_its_protection() {
    let sandbox = Sandbox::new().expect("a sandbox");
    let (first, second) = (pool_of(4), pool_of(4));
    let mut secret = first.allocate().expect("a buffer");
    first.write(&mut secret, &[0xa5; 1000]).expect("it fits");
    let read = sandbox
        .compile(
            &wasm(&process("(i64.store (i32.const 1040) (i64.load (i32.const 0x80000080)))")),
            facts(Access::Read),
        )
        .expect("a program");
    let store = sandbox
        .compile(&wasm(&process("(i64.store (i32.const 0x80000080) (i64.const 1))")), facts(Access::Read))
        .expect("a program");
    let writing = sandbox
        .compile(&wasm(&process("(i64.store (i32.const 0x80000080) (i64.const 1))")), facts(Access::Write))
        .expect("a program");
    for _ in 0..3 {
        let mut packet = second.allocate().expect("a buffer");
        let mut guest = WasmGuest::new(&read, &first, patient()).expect("an instance");
        let mut seen = first.allocate().expect("a buffer");
        guest::Guest::process(&mut guest, std::slice::from_mut(&mut seen), now()).expect("it reads");
        assert_eq!(seen.record().mark, 0xa5a5_a5a5_a5a5_a5a5);
        first.free(seen);
        drop(guest);
        let mut guest = WasmGuest::new(&read, &second, patient()).expect("an instance");
        guest::Guest::process(&mut guest, std::slice::from_mut(&mut packet), now()).expect("it reads");
        assert_ne!(packet.record().mark, 0xa5a5_a5a5_a5a5_a5a5, "another tenant's packet");
        drop(guest);
        // A writer's shell first, then a reader: the window must be read-only again.
        let mut guest = WasmGuest::new(&writing, &second, patient()).expect("an instance");
        guest::Guest::process(&mut guest, std::slice::from_mut(&mut packet), now()).expect("it writes");
        drop(guest);
        let mut guest = WasmGuest::new(&store, &second, patient()).expect("an instance");
        assert_trap(
            guest::Guest::process(&mut guest, std::slice::from_mut(&mut packet), now()),
            "a reader in what may have been a writer's shell",
        );
        drop(guest);
        second.free(packet);
    }
    assert_eq!(sandbox.shell_counts().spare, 3);
    sandbox.forget_pool(&first);
    sandbox.forget_pool(&second);
    assert_eq!(sandbox.shell_counts().spare, 0);
    assert_eq!(Arc::strong_count(&first), 1, "nothing keeps the pool's memory");
    first.free(secret);
}

#[test]
fn shells_are_reused_after_every_kind_of_end() {
    in_time(|| {
        let sandbox = Sandbox::new().expect("a sandbox");
        let mut room = Room::new();
        let clean = prober(&sandbox, 2, 6);
        for body in [
            "(i64.store (i32.const 6000) (i64.const -1)) (unreachable)",
            "(i64.store (i32.const 6000) (i64.const -1)) (loop (br 0))",
            "(drop (memory.grow (i32.const 3))) (i64.store (i32.const 300000) (i64.const -1)) (i32.store (i32.const -4) (i32.const 1))",
        ] {
            let program = sandbox.compile(&wasm(&process(body)), facts(Access::Read)).expect("a program");
            let mut guest = room.guest(&program, impatient()).expect("an instance");
            assert!(room.show(&mut guest, 0).is_err());
            drop(guest);
            assert_eq!(sandbox.shell_counts().spare, 1);
            assert_eq!(run(&clean, &room.pool.clone(), &mut room.packets[0], false), 0, "{body}");
        }
        room.assert_goes_on();
    });
}
