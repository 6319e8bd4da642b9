//! Modules that do not keep the contract: nothing of them is left behind.

use crate::support::*;
use guest::{Guest, GuestFault};
use guest_wasm::{Access, CompileError, InstanceError, InstanceSettings, Slice, start};
use telemetry::clock::Nanos;

const GOOD: [(&str, &str); 4] = [
    ("memory", "(memory (export \"memory\") 2)"),
    ("sf_batch", "(func (export \"sf_batch\") (result i32) (i32.const 1024))"),
    ("sf_init", "(func (export \"sf_init\") (result i32) (i32.const 0))"),
    ("sf_process", "(func (export \"sf_process\") (param i32 i64))"),
];

/// A good module with one field replaced.
fn with(name: &str, field: &str) -> String {
    let fields: Vec<&str> = GOOD.iter().map(|(n, good)| if *n == name { field } else { *good }).collect();
    format!("(module {IMPORTS} {})", fields.join(" "))
}

#[test]
fn missing_and_wrongly_typed_exports_are_refused_by_name() {
    let mut room = Room::new();
    room.guest(&program(&with("", ""), Access::Read), patient()).expect("nothing is missing");
    for (name, field) in [
        ("memory", "(memory 2)"),
        ("memory", "(global (export \"memory\") i32 (i32.const 0)) (memory 2)"),
        ("memory", ""),
        ("sf_batch", ""),
        ("sf_batch", "(func (export \"sf_batch\") (result i64) (i64.const 1024))"),
        ("sf_batch", "(global (export \"sf_batch\") i32 (i32.const 1024))"),
        ("sf_batch", "(func (export \"sf_batch\") (param i32) (result i32) (i32.const 1024))"),
        ("sf_init", ""),
        ("sf_init", "(func (export \"sf_init\"))"),
        ("sf_init", "(func (export \"sf_init\") (result i32 i32) (i32.const 0) (i32.const 0))"),
        ("sf_process", ""),
        ("sf_process", "(func (export \"sf_process\") (param i32 i32))"),
        ("sf_process", "(func (export \"sf_process\") (param i64 i32))"),
        ("sf_process", "(func (export \"sf_process\") (param i32 i64) (result i32) (i32.const 0))"),
        ("sf_process", "(export \"sf_process\" (func $counter_add))"),
    ] {
        let text = with(name, field);
        match room.guest(&program(&text, Access::Write), patient()) {
            Err(InstanceError::Contract { reason, .. }) => assert!(reason.contains(name), "{name}: {reason}"),
            other => panic!("{field}: {other:?}"),
        }
        room.assert_goes_on();
    }
}

#[test]
fn wrongly_typed_optional_exports_are_as_good_as_none() {
    let mut room = Room::new();
    let text = module(
        "(func (export \"sf_process\") (param i32 i64))
         (func (export \"sf_timer\") (param i32) (unreachable))
         (func (export \"sf_report\") (result i32) (unreachable))
         (memory $m 1)
         (export \"sf_export_state\" (memory 0))
         (func (export \"sf_import_state\") (unreachable))",
    )
    .replace("(memory $m 1)", "");
    let mut guest = room.guest(&program(&text, Access::Read), patient()).expect("an instance");
    guest.timer(now()).expect("nothing to call");
    assert_eq!(guest.report(now()), Ok(None));
    assert_eq!(guest.export_state(), Ok(None));
    assert_eq!(guest.import_state(vec![1, 2, 3]), Ok(false));
    room.assert_goes_on();
}

#[test]
fn other_imports_do_not_link() {
    for import in [
        "(import \"superfluid_v2\" \"read\" (func (param i32 i32 i32 i32) (result i32)))",
        "(import \"superfluid_v1\" \"exec\" (func))",
        "(import \"superfluid_v1\" \"read\" (func (param i32 i32 i32) (result i32)))",
        "(import \"superfluid_v1\" \"memory\" (memory 1))",
        "(import \"superfluid_v1\" \"table\" (table 1 funcref))",
        "(import \"superfluid_v1\" \"read\" (global i32))",
        "(import \"wasi_snapshot_preview1\" \"proc_exit\" (func (param i32)))",
    ] {
        let outcome = sandbox().compile(&wasm(&format!("(module {import})")), facts(Access::Read));
        assert!(matches!(outcome, Err(CompileError::Link(_))), "{import}: {outcome:?}");
    }
}

#[test]
fn records_lie_wholly_in_private_memory_or_the_guest_is_refused() {
    let mut room = Room::new();
    let last = 2 * WASM_PAGE - 64 * 64;
    for address in [0, 64, 1024, last] {
        let field = format!("(func (export \"sf_batch\") (result i32) (i32.const {address}))");
        let program = program(&with("sf_batch", &field), Access::Read);
        let mut guest = room.guest(&program, patient()).expect("a possible address");
        guest.process(&mut room.packets, now()).expect("records fit there");
    }
    let mut addresses =
        vec![1, 63, 1025, last + 1, last + 64, 2 * WASM_PAGE, WINDOW - 64, WINDOW, WINDOW + 64];
    addresses.extend([WINDOW + room.window(), 0xffff_ffc0, 0xffff_f000, 0xffff_ffff]);
    for address in addresses {
        let field =
            format!("(func (export \"sf_batch\") (result i32) (i32.const {}))", address as u32 as i32);
        let outcome = room.guest(&program(&with("sf_batch", &field), Access::Write), patient());
        assert!(matches!(outcome, Err(InstanceError::Contract { .. })), "{address:#x}: {outcome:?}");
        room.assert_goes_on();
    }
}

#[test]
fn what_init_answers_and_says_is_told() {
    let mut room = Room::new();
    let field = "(data (i32.const 0) \"no\\nway\")
        (func (export \"sf_init\") (result i32)
            (drop (call $write (i32.const 8) (i32.const 0) (i32.const 6))) (i32.const -7))";
    match room.guest(&program(&with("sf_init", field), Access::Read), patient()) {
        Err(InstanceError::Refused { code: -7, log, .. }) => assert_eq!(log[0].text, "no\u{fffd}way"),
        other => panic!("{other:?}"),
    }
    room.assert_goes_on();
}

#[test]
fn segments_lie_in_private_memory_or_the_guest_is_refused() {
    let mut room = Room::new();
    let window = WINDOW as u32 as i32;
    for segment in [
        "(data (i32.const 131072) \"x\")".to_owned(),
        "(data (i32.const 131071) \"xx\")".to_owned(),
        "(data (i32.const -1) \"x\")".to_owned(),
        format!("(data (i32.const {window}) \"\\ff\\ff\\ff\\ff\")"),
        format!("(data (i32.const {}) \"\\ff\\ff\\ff\\ff\")", window.wrapping_sub(2)),
        "(table 2 funcref) (func $f) (elem (i32.const 2) $f)".to_owned(),
        "(table 2 funcref) (func $f) (elem (i32.const -1) $f)".to_owned(),
    ] {
        for access in [Access::Read, Access::Write] {
            let outcome = room
                .guest(&program(&with("sf_process", &format!("{} {segment}", GOOD[3].1)), access), patient());
            let trapped = matches!(&outcome, Err(InstanceError::Fault { fault: GuestFault::Trap(_), .. }));
            assert!(trapped, "{segment}: {outcome:?}");
            room.assert_goes_on();
        }
    }
}

#[test]
fn a_start_function_is_bounded_like_any_call() {
    in_time(|| {
        let mut room = Room::new();
        let start = |body: &str| with("sf_process", &format!("{} (func $s {body}) (start $s)", GOOD[3].1));
        let settings = impatient();
        match room.guest(&program(&start("(loop (br 0))"), Access::Write), settings.clone()) {
            Err(InstanceError::Fault { fault: GuestFault::TimedOut { limit }, .. }) => {
                assert_eq!(limit, settings.max_control_call);
            }
            other => panic!("{other:?}"),
        }
        match room.guest(&program(&start("(unreachable)"), Access::Write), patient()) {
            Err(InstanceError::Fault { fault: GuestFault::Trap(_), .. }) => {}
            other => panic!("{other:?}"),
        }
        // Host calls do not know its memory yet, so that no range is in it.
        let calls = "(if (i32.ne (call $write (i32.const 8) (i32.const 0) (i32.const 1)) (i32.const -1)) (then (unreachable)))
            (if (i32.ne (call $read (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1)) (i32.const -1)) (then (unreachable)))
            (if (call $packet_new (i32.const 0) (i32.const 0) (i32.const 1)) (then (unreachable)))";
        room.guest(&program(&start(calls), Access::Write), patient()).expect("they are refused");
        room.assert_goes_on();
    });
}

#[test]
fn a_failed_start_leaves_nothing() {
    let pool = pool_of(4);
    let field = "(func (export \"sf_init\") (result i32)
        (drop (call $packet_new (i32.const 0) (i32.const 0) (i32.const 60)))
        (drop (call $packet_new (i32.const 1) (i32.const 0) (i32.const 60)))
        (drop (call $packet_emit (i32.const 1) (i32.const 2) (i32.const -1) (i32.const 0) (i64.const 0)))
        END)";
    for end in ["(i32.const 1)", "(unreachable)", "(loop (br 0)) (unreachable)"] {
        let program = program(&with("sf_init", &field.replace("END", end)), Access::Read);
        for preemptible in [None, Some(Slice(Nanos(100_000)))] {
            let outcome = start(&program, &pool, InstanceSettings { preemptible, ..impatient() });
            assert!(outcome.is_err());
            assert_eq!(pool.available(), 4, "{end}");
        }
    }
}
