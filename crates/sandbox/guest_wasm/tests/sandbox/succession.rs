//! An instance that goes on in another one's place has all that it had, and the other one nothing.

use crate::saving::{busy, call};
use crate::support::*;
use guest::Guest;
use guest_wasm::{Access, InstanceSettings, ProgramFacts, Sandbox, Slice, restore};
use packet_memory::Pool;
use snapshot::Saved;
use std::sync::Arc;

fn started(pool: &Arc<Pool>, layout: [u8; 32], settings: &InstanceSettings) -> Box<dyn Guest> {
    let facts = ProgramFacts { layout, image: layout, ..facts(Access::Read) };
    let sandbox = Sandbox::new().expect("a sandbox");
    let artifact = sandbox.precompile(&wat::parse_str(busy()).expect("sound")).expect("it compiles");
    let program = sandbox.load(&artifact, facts).expect("it loads");
    guest_wasm::start(&program, pool, settings.clone()).expect("an instance")
}

#[test]
fn it_goes_on_where_the_other_one_was_and_back_again() {
    let pool = pool_of(8);
    let mut packet = pool.allocate().expect("a buffer");
    let program = program(&busy(), Access::Read);
    let mut before = guest_wasm::start(&program, &pool, patient()).expect("an instance");
    for mark in [0, 0, 2, 3, 0] {
        call(&mut *before, &mut packet, mark);
    }
    let bytes = before.save().expect("between two calls").encode().expect("within limits");
    let saved = Saved::decode(&bytes).expect("as it was written");
    let mut twin = restore(&program, &pool, patient(), &saved).expect("restored");
    let expected: Vec<u64> = (0..6).map(|_| call(&mut *twin, &mut packet, 0)).collect();
    let mut expected = expected.into_iter();

    let mut next = guest_wasm::start(&program, &pool, patient()).expect("an instance");
    for _ in 0..3 {
        assert!(next.take_place_of(&mut *before).expect("they are alike"));
        assert_eq!(Some(call(&mut *next, &mut packet, 0)), expected.next());
        assert_eq!(next.memory(), 5 * WASM_PAGE as usize);
        assert!(before.take_place_of(&mut *next).expect("they are alike"));
        assert_eq!(Some(call(&mut *before, &mut packet, 0)), expected.next());
    }
    assert_eq!(
        (&before.kept().counters[..], before.kept().due()),
        (&twin.kept().counters[..], twin.kept().due())
    );
    assert_eq!((before.kept_mut().take_log().len(), next.kept_mut().take_log().len()), (1, 0));
    // What is left of the other one is empty, and clean for the next guest.
    drop(next);
    let mut fresh = guest_wasm::start(&program, &pool, patient()).expect("in a used shell");
    let first = call(&mut *fresh, &mut packet, 0);
    drop(fresh);
    let again =
        call(&mut *guest_wasm::start(&program, &pool, patient()).expect("an instance"), &mut packet, 0);
    assert_eq!(first, again);
    drop((before, twin));
    pool.free(packet);
    assert_eq!(pool.available(), 8);
}

#[test]
fn those_that_are_not_alike_stay_as_they_are() {
    let (pool, elsewhere) = (pool_of(8), pool_of(8));
    let mut packet = pool.allocate().expect("a buffer");
    let mut before = started(&pool, [1; 32], &patient());
    call(&mut *before, &mut packet, 0);
    let slice = Some(Slice(telemetry::clock::Nanos::from_millis(1_000)));
    let others = [
        started(&pool, [2; 32], &patient()),
        started(&elsewhere, [1; 32], &patient()),
        started(&pool, [1; 32], &InstanceSettings { preemptible: slice, ..patient() }),
        started(&pool, [1; 32], &InstanceSettings { config: vec![0xa1, 0x61, 0x61, 0x01], ..patient() }),
    ];
    for mut other in others {
        assert!(!other.take_place_of(&mut *before).expect("nothing breaks"));
    }
    let next = call(&mut *before, &mut packet, 0);
    let mut alike = started(&pool, [1; 32], &patient());
    assert!(alike.take_place_of(&mut *before).expect("they are alike"));
    assert!(call(&mut *alike, &mut packet, 0) > next);
    pool.free(packet);
}

/// What becomes of the memory, the globals and the deadline of a function whose state is asked for, and why
/// nothing is handed out.
fn handed_out(export: &str, slice: Option<Slice>) -> (bool, Result<Option<Vec<u8>>, guest::HandOutFault>) {
    let pool = pool_of(8);
    let program = program(
        &module(&format!(
            r#"(global $calls (export "sf_global_0") (mut i32) (i32.const 3))
               (data (i32.const 70000) "what it knows")
               (func (export "sf_process") (param i32 i64))
               (func (export "sf_export_state") (result i32)
                 (drop (call $timer_set (i64.const 99)))
                 (global.set $calls (i32.const 4))
                 (i64.store (i32.const 70000) (i64.const 0))
                 (i64.store (i32.const 5000) (i64.const -1))
                 (drop (memory.grow (i32.const 1)))
                 (i64.store (i32.const 131072) (i64.const -1))
                 {export})"#
        )),
        Access::Read,
    );
    let settings = InstanceSettings { preemptible: slice, ..patient() };
    let mut guest = guest_wasm::start(&program, &pool, settings).expect("an instance");
    let before = guest.save().expect("between two calls");
    let handed = guest.hand_out(telemetry::clock::Nanos::from_millis(200));
    let after = guest.save().expect("between two calls");
    let same = before.globals == after.globals && before.host.deadline == after.host.deadline;
    // It has grown, and what it grew by is zero.
    let pages = |saved: &Saved<'_>| {
        let mut bytes = vec![0; saved.memory.size() as usize];
        saved.memory.write_to(&mut bytes);
        bytes
    };
    let (before, after) = (pages(&before), pages(&after));
    let same = same && before == after[..before.len()] && after[before.len()..].iter().all(|byte| *byte == 0);
    (same, handed)
}

#[test]
fn what_fails_to_hand_its_state_out_is_as_it_was() {
    for slice in [None, Some(Slice(telemetry::clock::Nanos::from_millis(1_000)))] {
        for (export, says) in [("unreachable", "trapped"), ("(loop $on (br $on)) (i32.const 0)", "stopped")] {
            let (same, handed) = handed_out(export, slice);
            let fault = handed.expect_err(says);
            assert!(same && !fault.finished && fault.to_string().starts_with(says), "{fault}");
        }
        let (same, handed) = handed_out("(i32.const 0)", slice);
        assert_eq!(handed, Ok(Some(vec![])));
        assert!(!same, "what succeeds may change what it likes");
    }
}
