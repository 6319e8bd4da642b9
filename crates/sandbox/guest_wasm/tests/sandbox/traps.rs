//! Instructions that end a guest, wherever they stand.

use crate::support::*;
use guest::{Guest, GuestFault};
use guest_wasm::{Access, InstanceError};

/// What traps, and a word of the reason.
fn trapping() -> Vec<(String, &'static str)> {
    let table = "(type $none (func)) (type $other (func (param i64) (result i64)))
        (table 4 funcref) (elem (i32.const 0) $nothing) (func $nothing)";
    let mut cases = vec![
        (String::new(), "(unreachable)".to_owned(), "unreachable"),
        (String::new(), "(drop (i32.div_s (i32.const 1) (local.get $r)))".to_owned(), "divide by zero"),
        (
            String::new(),
            "(drop (i64.rem_u (i64.const 1) (i64.extend_i32_u (local.get $r))))".to_owned(),
            "divide",
        ),
        (
            String::new(),
            "(drop (i32.div_s (i32.const 0x80000000) (i32.sub (local.get $r) (i32.const 1))))".to_owned(),
            "overflow",
        ),
        (String::new(), "(drop (i32.trunc_f32_s (f32.const nan)))".to_owned(), "integer"),
        (String::new(), "(drop (i64.trunc_f64_u (f64.const inf)))".to_owned(), "overflow"),
        (String::new(), "(drop (i32.trunc_f64_u (f64.const -1)))".to_owned(), "overflow"),
        ("(func $f (call $f))".to_owned(), "(call $f)".to_owned(), "stack"),
        (
            "(func $f (param i32) (result i32) (i32.add (i32.const 1) (call $f (local.get 0))))".to_owned(),
            "(drop (call $f (i32.const 1)))".to_owned(),
            "stack",
        ),
        (
            "(type $t (func)) (table 1 funcref) (elem (i32.const 0) $f)
             (func $f (call_indirect (type $t) (i32.const 0)))"
                .to_owned(),
            "(call $f)".to_owned(),
            "stack",
        ),
        (
            format!("(func $f {} (call $f) {})", "(local v128)".repeat(3_000), keep_all(3_000)),
            "(call $f)".to_owned(),
            "stack",
        ),
    ];
    for (index, kind, reason) in [
        ("(i32.const 1)", "$none", "uninitialized"),
        ("(i32.const 4)", "$none", "out of bounds"),
        ("(i32.const -1)", "$none", "out of bounds"),
        ("(i32.const 0x7fffffff)", "$none", "out of bounds"),
    ] {
        cases.push((table.to_owned(), format!("(call_indirect (type {kind}) {index})"), reason));
    }
    let wrong = "(drop (call_indirect (type $other) (i64.const 0) (i32.const 0)))";
    cases.push((table.to_owned(), wrong.to_owned(), "type mismatch"));
    cases.into_iter().map(|(fields, body, reason)| (format!("{}\u{0}{fields}", body), reason)).collect()
}

/// Keeps every local alive over the call, so that all of them need room in the frame.
fn keep_all(locals: usize) -> String {
    (0..locals).map(|n| format!("(v128.store (i32.const 0) (local.get {n}))")).collect()
}

/// A module that does this in the function of that name and type, and nothing anywhere else.
fn in_function(name: &str, case: &str) -> String {
    let (body, fields) = case.split_once('\0').expect("two parts");
    let functions = [
        ("sf_batch", "(result i32)", "(i32.const 1024)"),
        ("sf_init", "(result i32)", "(i32.const 0)"),
        ("sf_process", "(param i32 i64)", ""),
        ("sf_timer", "(param i64)", ""),
        ("sf_report", "(param i64)", ""),
        ("sf_export_state", "(result i32)", "(i32.const 0)"),
        ("sf_import_state", "(result i32)", "(i32.const 0)"),
    ];
    let functions: String = functions
        .iter()
        .map(|(function, kind, end)| {
            let body = if *function == name { body } else { "" };
            format!("(func (export \"{function}\") {kind} (local $r i32) {body} {end})")
        })
        .collect();
    format!("(module {IMPORTS} (memory (export \"memory\") 2) {functions} {fields})")
}

fn assert_reason(fault: &GuestFault, reason: &str, what: &str) {
    assert!(
        matches!(fault, GuestFault::Trap(text) if text.contains(reason)),
        "{what}: {fault}, not {reason}"
    );
}

#[test]
fn traps_end_the_guest_and_nothing_else() {
    let mut room = Room::new();
    for (case, reason) in trapping() {
        for name in ["sf_process", "sf_timer", "sf_report", "sf_export_state", "sf_import_state"] {
            let program = program(&in_function(name, &case), Access::Write);
            let mut guest = room.guest(&program, patient()).expect("nothing traps yet");
            let fault = match name {
                "sf_process" => room.show(&mut guest, 0).expect_err(&case),
                "sf_timer" => guest.timer(now()).expect_err(&case),
                "sf_report" => guest.report(now()).expect_err(&case),
                "sf_export_state" => guest.export_state().expect_err(&case),
                _ => guest.import_state(b"state".to_vec()).expect_err(&case),
            };
            assert_reason(&fault, reason, name);
        }
        for name in ["sf_batch", "sf_init"] {
            match room.guest(&program(&in_function(name, &case), Access::Write), patient()) {
                Err(InstanceError::Fault { fault, .. }) => assert_reason(&fault, reason, name),
                other => panic!("{name}: {other:?}"),
            }
        }
        room.assert_goes_on();
    }
}

#[test]
fn a_guest_may_be_called_again_after_a_trap_and_the_host_goes_on() {
    let mut room = Room::new();
    let program = program(&process("(if (local.get $a) (then (unreachable)))"), Access::Read);
    let mut guest = room.guest(&program, patient()).expect("an instance");
    for n in 0..20 {
        assert_eq!(room.show(&mut guest, n & 1).is_err(), n & 1 == 1);
        room.assert_goes_on();
    }
}

#[test]
fn the_deepest_recursion_leaves_room_for_host_calls() {
    // A host call at every depth, down to the last: the host's own frames lie below the guest's limit.
    let body = "(func $f (param i32)
            (drop (call $counter_add (i32.const 0) (i64.const 1)))
            (drop (call $read (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 16)))
            (drop (call $write (i32.const 8) (i32.const 0) (i32.const 16)))
            (call $f (local.get 0)))
        (func (export \"sf_process\") (param i32 i64) (call $f (i32.const 0)))";
    let program = program(&module(body), Access::Read);
    std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(move || {
            let mut room = Room::new();
            let mut guest = room.guest(&program, patient()).expect("an instance");
            let fault = room.show(&mut guest, 0).expect_err("it never ends");
            assert_reason(&fault, "stack", "recursion");
            assert!(guest.kept().counters[0] > 1_000);
            room.assert_goes_on();
        })
        .expect("a thread")
        .join()
        .expect("the thread goes on");
}

#[test]
fn a_trap_names_the_functions_of_an_image_that_keeps_names() {
    let mut room = Room::new();
    let named = module(
        "(func $inner (unreachable))
         (func $outer (call $inner))
         (func $entry (export \"sf_process\") (param i32 i64) (call $outer))",
    );
    let outcome = room.run(&program(&named, Access::Read), 0);
    let Err(GuestFault::Trap(text)) = outcome else { panic!("{outcome:?}") };
    assert!(text.ends_with(" in inner, called by outer, called by entry"), "{text}");
    // An image without names says what happened and nothing else.
    let outcome = room.run(&program(&process("(unreachable)"), Access::Read), 0);
    let Err(GuestFault::Trap(text)) = outcome else { panic!("{outcome:?}") };
    assert!(!text.contains(" in "), "{text}");
    room.assert_goes_on();
}

#[test]
fn a_trace_of_endless_recursion_is_short() {
    let mut room = Room::new();
    let name = "n".repeat(3_000);
    let named = module(&format!(
        "(func ${name} (call ${name})) (func (export \"sf_process\") (param i32 i64) (call ${name}))"
    ));
    let outcome = room.run(&program(&named, Access::Read), 0);
    let Err(GuestFault::Trap(text)) = outcome else { panic!("{outcome:?}") };
    assert!(text.len() < 4096, "{} bytes", text.len());
    room.assert_goes_on();
}
