//! Random modules: nothing panics, and nothing that the engine could not contain gets through.

use arbitrary::Unstructured;
use image::{Image, Names, assemble, limits, rewrite_counted};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use wasm_smith::{Config, Module};
use wasmparser::{Operator, Parser, Payload, Validator};

const MANIFEST: &str = "\
name: random
version: 0.0.1
abi: 1
summary: Anything.
language: c
access: write
interfaces: [wire]
memory_limit: 2GiB
";

/// What compilers emit by themselves, or nearly anything.
fn config(tame: bool) -> Config {
    Config {
        min_memories: 1,
        min_funcs: 1,
        max_memory32_bytes: 2 << 30,
        bulk_memory_enabled: true,
        reference_types_enabled: true,
        simd_enabled: true,
        allow_start_export: !tame,
        max_imports: if tame { 0 } else { 10 },
        max_memories: if tame { 1 } else { 3 },
        max_tables: if tame { 1 } else { 3 },
        memory64_enabled: !tame,
        threads_enabled: !tame,
        gc_enabled: !tame,
        exceptions_enabled: !tame,
        tail_call_enabled: !tame,
        relaxed_simd_enabled: !tame,
        extended_const_enabled: !tame,
        generate_custom_sections: !tame,
        ..Config::default()
    }
}

fn random_module(seed: &[u8], tame: bool) -> Option<Vec<u8>> {
    let mut unstructured = Unstructured::new(seed);
    Some(Module::new(config(tame), &mut unstructured).ok()?.to_bytes())
}

fn has_bulk_operations(wasm: &[u8]) -> bool {
    Parser::new(0).parse_all(wasm).any(|payload| match payload.unwrap() {
        Payload::CodeSectionEntry(body) => body.get_operators_reader().unwrap().into_iter().any(|operator| {
            matches!(
                operator.unwrap(),
                Operator::MemoryCopy { .. }
                    | Operator::MemoryFill { .. }
                    | Operator::MemoryInit { .. }
                    | Operator::DataDrop { .. }
                    | Operator::TableCopy { .. }
                    | Operator::TableInit { .. }
                    | Operator::ElemDrop { .. }
            )
        }),
        _ => false,
    })
}

fn examine(wasm: &[u8]) -> bool {
    let _ = Image::load(wasm);
    let _ = assemble(wasm, MANIFEST, Names::Kept);
    let Ok(rewritten) = rewrite_counted(wasm, Names::Kept) else { return false };
    Validator::new_with_features(limits::FEATURES).validate_all(&rewritten.wasm).unwrap();
    assert!(!has_bulk_operations(&rewritten.wasm));
    let again = rewrite_counted(&rewritten.wasm, Names::Kept).unwrap();
    assert!(again.wasm == rewritten.wasm, "rewriting twice differs");
    true
}

/// A random module becomes an image once the contract's functions are put into it.
const REQUIRED: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "sf_batch") (result i32) (i32.const 64))
    (func (export "sf_init") (result i32)
        (memory.fill (i32.const 1) (i32.const 2) (i32.const 3)) (i32.const 0))
    (func (export "sf_process") (param i32 i64)
        (memory.copy (local.get 0) (i32.const 1) (i32.const 90)))
    (global (mut i32) (i32.const 0)) (table 2 funcref) (elem (i32.const 0) func 0 1)
    (data (i32.const 8) "data"))"#;

#[test]
fn random_modules_are_rewritten_or_refused() {
    let (mut rewritten, mut seen) = (0, 0);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for case in 0..600 {
        let seed = proptest::collection::vec(any::<u8>(), 3_000).new_tree(&mut runner).unwrap().current();
        let Some(wasm) = random_module(&seed, case % 3 != 0) else { continue };
        seen += 1;
        rewritten += usize::from(examine(&wasm));
    }
    assert!(seen > 500 && rewritten > 20, "{rewritten} of {seen} were rewritten: too few to mean anything");
}

proptest! {
    #[test]
    fn damaged_images_are_refused_or_still_hold_no_bulk_operation(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let (image, _) = assemble(&wat::parse_str(REQUIRED).unwrap(), MANIFEST, Names::Kept).unwrap();
        let mut bytes = image.wasm().to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = rewrite_counted(&bytes, Names::Kept);
        if let Ok(loaded) = Image::load(&bytes) {
            prop_assert!(!has_bulk_operations(loaded.wasm()));
            let _ = image::inspect(&loaded);
        }
    }

    #[test]
    fn noise_is_refused(noise in proptest::collection::vec(any::<u8>(), 0..200), headed: bool) {
        let mut bytes = if headed { b"\0asm\x01\0\0\0".to_vec() } else { Vec::new() };
        bytes.extend(noise);
        prop_assert!(Image::load(&bytes).is_err());
        let _ = rewrite_counted(&bytes, Names::Kept);
    }
}
