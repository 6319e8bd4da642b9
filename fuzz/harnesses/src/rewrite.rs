//! Any module through the rewriting pass: refused, or rewritten once and for all.

use arbitrary::Unstructured;
use image::{Names, rewrite_counted};
use wasm_smith::{Config, Module};

fn examine(wasm: &[u8]) {
    let Ok(once) = rewrite_counted(wasm, Names::Kept) else { return };
    let twice = rewrite_counted(&once.wasm, Names::Kept).expect("what was rewritten is a fit module");
    assert!(once.wasm == twice.wasm);
    assert_eq!((twice.lowered.memory_copies, twice.lowered.memory_fills), (0, 0));
}

pub fn run(data: &[u8]) {
    examine(data);
    // What compilers could emit; nearly all of it can be rewritten.
    let config = Config {
        min_memories: 1,
        max_memories: 1,
        max_tables: 1,
        max_imports: 0,
        allow_start_export: false,
        memory64_enabled: false,
        threads_enabled: false,
        gc_enabled: false,
        exceptions_enabled: false,
        tail_call_enabled: false,
        relaxed_simd_enabled: false,
        extended_const_enabled: false,
        ..Config::default()
    };
    if let Ok(module) = Module::new(config, &mut Unstructured::new(data)) {
        examine(&module.to_bytes());
    }
}
