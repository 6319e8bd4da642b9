//! What the pass does to a module beside the two instructions, and what it refuses.

use image::{Lowered, Names, RewriteError, limits, rewrite, rewrite_counted};
use wasmparser::{ExternalKind, Parser, Payload, Validator};

fn wasm(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

fn refusal(text: &str) -> RewriteError {
    rewrite(&wasm(text)).unwrap_err()
}

fn exports(wasm: &[u8]) -> Vec<(String, ExternalKind, u32)> {
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(wasm) {
        if let Payload::ExportSection(section) = payload.unwrap() {
            for export in section {
                let export = export.unwrap();
                found.push((export.name.to_owned(), export.kind, export.index));
            }
        }
    }
    found
}

const RICH: &str = r#"(module
    (type (func (param i32) (result i32)))
    (import "superfluid_v1" "timer_set" (func $timer_set (param i64) (result i32)))
    (memory 1 100)
    (table 4 funcref)
    (global $stack (mut i32) (i32.const 65536))
    (global $fixed i32 (i32.const 1))
    (global $seen (mut i64) (i64.const 0))
    (global $shown (export "shown") (mut v128) (v128.const i64x2 1 2))
    (elem (table 0) (i32.const 1) funcref (ref.func $move) (ref.func $pick))
    (func $move (export "move") (param i32 i32 i32)
        (memory.copy (local.get 0) (local.get 1) (local.get 2))
        (memory.copy (local.get 1) (local.get 0) (local.get 2))
        (memory.fill (local.get 0) (i32.const 0) (i32.const 9))
        (global.set $seen (i64.const 1))
        (drop (call $timer_set (i64.const 5))))
    (func $pick (param i32) (result i32)
        (select (result i32) (local.get 0) (i32.const 5) (local.get 0)))
    (func (export "through") (param i32) (result i32)
        (call_indirect (type 0) (local.get 0) (i32.const 2)))
    (data (i32.const 8) "hello")
    (@custom "producers" "some compiler"))"#;

#[test]
fn a_rich_module_comes_out_within_the_allowed_features() {
    let rewritten = rewrite_counted(&wasm(RICH), Names::Dropped).unwrap();
    Validator::new_with_features(limits::FEATURES).validate_all(&rewritten.wasm).unwrap();
    assert_eq!(
        rewritten.lowered,
        Lowered {
            memory_copies: 2,
            memory_fills: 1,
            typed_selects: 1,
            exported_globals: 2,
            dropped_sections: 2
        }
    );
    let exported = exports(&rewritten.wasm);
    let expected = [
        ("shown", ExternalKind::Global, 3),
        ("move", ExternalKind::Func, 1),
        ("through", ExternalKind::Func, 3),
        ("memory", ExternalKind::Memory, 0),
        ("sf_global_0", ExternalKind::Global, 0),
        ("sf_global_2", ExternalKind::Global, 2),
    ];
    assert_eq!(exported, expected.map(|(name, kind, index)| (name.to_owned(), kind, index)));
    for payload in Parser::new(0).parse_all(&rewritten.wasm) {
        match payload.unwrap() {
            Payload::CustomSection(section) => panic!("kept custom section {}", section.name()),
            Payload::DataCountSection { .. } => panic!("kept the data count"),
            Payload::MemorySection(section) => {
                let memory = section.into_iter().next().unwrap().unwrap();
                assert_eq!((memory.initial, memory.maximum), (1, None));
            }
            _ => {}
        }
    }
}

#[test]
fn rewriting_again_changes_nothing() {
    let once = rewrite(&wasm(RICH)).unwrap();
    let twice = rewrite_counted(&once, Names::Dropped).unwrap();
    assert_eq!(twice.wasm, once);
    assert_eq!(twice.lowered, Lowered::default());
}

#[test]
fn names_are_kept_on_demand() {
    let rewritten = rewrite_counted(&wasm(RICH), Names::Kept).unwrap();
    let name = Parser::new(0).parse_all(&rewritten.wasm).find_map(|payload| match payload.unwrap() {
        Payload::CustomSection(section) => Some(section.name().to_owned()),
        _ => None,
    });
    assert_eq!(name.as_deref(), Some("name"));
    assert_eq!(rewritten.lowered.dropped_sections, 1);
}

#[test]
fn a_module_without_bulk_instructions_gets_no_functions() {
    let rewritten = rewrite(&wasm("(module (memory 1) (func))")).unwrap();
    let bodies = Parser::new(0)
        .parse_all(&rewritten)
        .filter(|p| matches!(p, Ok(Payload::CodeSectionEntry(_))))
        .count();
    assert_eq!(bodies, 1);
}

#[test]
fn fill_alone_is_lowered_too() {
    let rewritten = rewrite_counted(
        &wasm("(module (memory 1) (func (memory.fill (i32.const 1) (i32.const 2) (i32.const 3))))"),
        Names::Dropped,
    );
    assert_eq!(rewritten.unwrap().lowered.memory_fills, 1);
}

#[test]
fn overlong_table_indices_become_plain() {
    let mut module = wasm(
        r#"(module (type (func)) (memory 1) (table 1 funcref) (func (call_indirect (type 0) (i32.const 0))))"#,
    );
    // call_indirect, type 0, table 0: the last byte becomes the five-byte zero that linkers leave for
    // relocations.
    let at = module.windows(3).position(|bytes| bytes == [0x11, 0, 0]).unwrap();
    module.splice(at + 2..at + 3, [0x80, 0x80, 0x80, 0x80, 0]);
    let body_length = module[..at].iter().rposition(|byte| *byte == 7).unwrap();
    module[body_length] += 4;
    module[body_length - 2] += 4;
    assert!(Validator::new_with_features(limits::FEATURES).validate_all(&module).is_err());
    let rewritten = rewrite(&module).unwrap();
    Validator::new_with_features(limits::FEATURES).validate_all(&rewritten).unwrap();
}

#[test]
fn refusals_name_the_function() {
    let found = refusal(
        r#"(module (memory 1) (data "x")
            (func (export "setup") (memory.init 0 (i32.const 0) (i32.const 0) (i32.const 1))))"#,
    );
    assert_eq!(found, RewriteError::Instruction { function: "setup".to_owned(), instruction: "memory.init" });
    let found = refusal(
        "(module (memory 1) (table 2 funcref) (func $grow (table.copy (i32.const 0) (i32.const 1) (i32.const 1))))",
    );
    assert_eq!(found, RewriteError::Instruction { function: "grow".to_owned(), instruction: "table.copy" });
    assert_eq!(
        refusal("(module (memory 1) (start $run) (func $run))"),
        RewriteError::Start { function: "run".to_owned() }
    );
    let found = refusal("(module (memory 1) (table 1 funcref) (func (drop (ref.null func))))");
    assert!(matches!(found, RewriteError::Instruction { instruction: "ref.null", .. }), "{found}");
    let found = refusal("(module (memory 1) (func $later) (func $hurry return_call $later))");
    assert!(
        matches!(&found, RewriteError::InvalidFunction { function, .. } if function == "hurry"),
        "{found}"
    );
}

#[test]
fn refusals_tell_what_is_wrong_with_the_module() {
    assert_eq!(refusal("(module)"), RewriteError::Memories { found: 0 });
    let found = refusal(r#"(module (import "env" "memory" (memory 1)))"#);
    assert!(matches!(found, RewriteError::Import { kind: "memory", .. }), "{found}");
    let found = refusal(r#"(module (import "env" "base" (global i32)) (memory 1))"#);
    assert!(matches!(found, RewriteError::Import { kind: "global", .. }), "{found}");
    assert_eq!(
        refusal(r#"(module (memory 1) (data "x"))"#),
        RewriteError::Segment { kind: "data", index: 0 }
    );
    let found = refusal("(module (memory 1) (table 1 funcref) (func $f) (elem declare func $f))");
    assert_eq!(found, RewriteError::Segment { kind: "element", index: 0 });
    let found = refusal(
        "(module (memory 1) (table 1 funcref) (table 1 funcref) (func $f) (elem (table 1) (i32.const 0) func $f))",
    );
    assert!(matches!(found, RewriteError::Elements { index: 0, .. }), "{found}");
    let found = refusal("(module (memory 1) (table 1 funcref) (elem (i32.const 0) funcref (ref.null func)))");
    assert!(matches!(found, RewriteError::Elements { index: 0, .. }), "{found}");
    let found = refusal(r#"(module (memory 1) (func (export "memory")))"#);
    assert!(matches!(found, RewriteError::Reserved { .. }), "{found}");
    let found =
        refusal(r#"(module (memory 1) (global (mut i32) (i32.const 0)) (func (export "sf_global_0")))"#);
    assert!(matches!(found, RewriteError::Reserved { .. }), "{found}");
    let found = refusal("(module (memory 1) (func (param externref)))");
    assert!(matches!(found, RewriteError::Invalid { .. }), "{found}");
    let found = refusal("(module (memory 1) (table 1 funcref) (func (param funcref)))");
    assert!(matches!(found, RewriteError::Unsupported { .. }), "{found}");
    assert!(matches!(refusal("(module (memory i64 1))"), RewriteError::Invalid { .. }));
    assert!(matches!(rewrite(b"\0asm junk"), Err(RewriteError::Invalid { .. })));
    assert!(matches!(rewrite(b""), Err(RewriteError::Invalid { .. })));
    assert!(matches!(rewrite(&vec![0; limits::IMAGE_BYTES + 1]), Err(RewriteError::TooLarge { .. })));
}
