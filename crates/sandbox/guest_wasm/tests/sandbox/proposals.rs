//! Every proposal that is not needed is off: a module that uses it is refused before anything runs.

use crate::support::*;

#[test]
fn modules_with_other_proposals_do_not_compile() {
    for (proposal, fields) in [
        ("multi-memory", "(memory 1)"),
        ("memory64", "(memory i64 1)"),
        ("threads: shared memory", "(memory 1 1 shared)"),
        ("threads: atomics", "(memory 1) (func (drop (i32.atomic.load (i32.const 0))))"),
        ("threads: fence", "(func (atomic.fence))"),
        ("custom page sizes", "(memory 1 (pagesize 1))"),
        ("tail calls", "(func $f (return_call $f))"),
        (
            "indirect tail calls",
            "(type $t (func)) (table 1 funcref) (func (return_call_indirect (type $t) (i32.const 0)))",
        ),
        ("reference types: externref", "(func (param externref))"),
        ("reference types: two tables", "(table 1 funcref) (table 1 funcref)"),
        ("reference types: ref.null", "(func (drop (ref.null func)))"),
        ("reference types: ref.func", "(func $f (export \"f\") (drop (ref.func $f)))"),
        ("function references", "(type $t (func)) (func (param (ref $t)) (call_ref $t (local.get 0)))"),
        ("gc: struct", "(type (struct (field i32)))"),
        ("gc: array", "(type (array i8))"),
        ("gc: i31", "(func (drop (ref.i31 (i32.const 0))))"),
        ("gc: recursion group", "(rec (type (func)) (type (func)))"),
        ("exceptions: tag", "(tag)"),
        ("exceptions: try_table", "(func (try_table))"),
        ("extended constants", "(global i32 (i32.add (i32.const 1) (i32.const 1)))"),
        (
            "wide arithmetic",
            "(func (i64.add128 (i64.const 0) (i64.const 0) (i64.const 0) (i64.const 0)) (drop) (drop))",
        ),
        ("stack switching", "(type $f (func)) (type (cont $f))"),
        ("components", "COMPONENT"),
    ] {
        let text = match fields {
            "COMPONENT" => "(component)".to_owned(),
            fields => format!("(module {fields})"),
        };
        // Multi-memory and memory64 must fall by themselves, beside the memory that every guest has.
        let text = match proposal {
            "multi-memory" => text.replace("(memory 1)", "(memory 1) (memory 1)"),
            _ => text,
        };
        assert!(sandbox().precompile(&wasm(&text)).is_err(), "{proposal} compiles");
    }
}

#[test]
fn what_compilers_need_does_compile() {
    for (proposal, fields) in [
        (
            "the first version",
            "(memory 1) (table 1 funcref) (func $f (drop (f64.sqrt (f64.const 2)))) (elem (i32.const 0) $f)",
        ),
        ("mutable globals", "(global (export \"g\") (mut i32) (i32.const 0))"),
        ("saturating conversions", "(func (drop (i32.trunc_sat_f32_s (f32.const nan))))"),
        ("sign extension", "(func (drop (i32.extend8_s (i32.const 255))))"),
        ("several results", "(func (result i32 i32) (i32.const 1) (i32.const 2))"),
        ("simd", "(func (result v128) (v128.const i64x2 1 2))"),
        ("relaxed simd", "(func (param v128) (drop (i8x16.relaxed_swizzle (local.get 0) (local.get 0))))"),
    ] {
        let wasm = wasm(&format!("(module {fields})"));
        sandbox().precompile(&wasm).map(|_| ()).unwrap_or_else(|error| panic!("{proposal}: {error}"));
    }
}

#[test]
fn text_and_machine_code_are_no_modules() {
    let artifact = sandbox().precompile(&wasm("(module)")).expect("a module");
    for bytes in [b"(module)".as_slice(), artifact.as_bytes(), b"\x7fELF", b"", b"\0asm"] {
        assert!(sandbox().precompile(bytes).is_err());
    }
}
