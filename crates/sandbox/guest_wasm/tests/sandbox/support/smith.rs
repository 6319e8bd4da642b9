//! Whole modules out of random bytes: valid, with the host's imports, and with the exports of the contract.

use arbitrary::Unstructured;
use wasm_smith::{Config, Module};

/// What random modules may import.
const IMPORTED: &str = r#"(module
    (import "superfluid_v1" "read" (func (param i32 i32 i32 i32) (result i32)))
    (import "superfluid_v1" "write" (func (param i32 i32 i32) (result i32)))
    (import "superfluid_v1" "counter_add" (func (param i32 i64) (result i32)))
    (import "superfluid_v1" "packet_new" (func (param i32 i32 i32) (result i32)))
    (import "superfluid_v1" "packet_emit" (func (param i32 i32 i32 i32 i64) (result i32)))
    (import "superfluid_v1" "timer_set" (func (param i64) (result i32))))"#;

/// What they export. What must not be random for anything to run is added afterwards.
const EXPORTED: &str = r#"(module
    (memory (export "memory") 2)
    (func (export "sf_process") (param i32 i64))
    (func (export "sf_timer") (param i64))
    (func (export "sf_report") (param i64))
    (func (export "sf_export_state") (result i32) (i32.const 0))
    (func (export "sf_import_state") (result i32) (i32.const 0)))"#;

/// A module as a compiler might emit it, hostile but valid: `None` when the bytes make none. With `bulk`, it
/// may have instructions that only the rewriting pass can deal with.
pub fn module(bytes: &mut Unstructured<'_>, bulk: bool) -> Option<Vec<u8>> {
    let config = Config {
        available_imports: Some(wat::parse_str(IMPORTED).ok()?),
        exports: Some(wat::parse_str(EXPORTED).ok()?),
        bulk_memory_enabled: bulk,
        min_data_segments: 0,
        max_data_segments: if bulk { 0 } else { 4 },
        max_element_segments: if bulk { 0 } else { 4 },
        max_funcs: 12,
        max_imports: 6,
        max_instructions: 300,
        max_memories: 0, // Beside the one that is exported.
        max_memory32_bytes: 4 << 30,
        max_table_elements: 10_000,
        allow_start_export: true,
        exceptions_enabled: false,
        extended_const_enabled: false,
        gc_enabled: false,
        memory64_enabled: false,
        reference_types_enabled: false,
        relaxed_simd_enabled: true,
        tail_call_enabled: false,
        threads_enabled: false,
        ..Config::default()
    };
    let module = Module::new(config, bytes).ok()?;
    complete(&module.to_bytes())
}

/// Appends `sf_batch`, which answers 1,024, and `sf_init`, which answers 0.
fn complete(module: &[u8]) -> Option<Vec<u8>> {
    let mut sections = Vec::new();
    let mut at = 8;
    while at < module.len() {
        let id = module[at];
        at += 1;
        let length = number(module, &mut at)? as usize;
        sections.push((id, module.get(at..at + length)?));
        at += length;
    }
    let count = |id: u8| {
        let section = sections.iter().find(|(found, _)| *found == id);
        section.map_or(Some(0), |(_, bytes)| number(bytes, &mut 0))
    };
    let (types, functions) = (count(1)?, count(2)? + count(3)?);
    let mut out = module[..8].to_vec();
    for (id, bytes) in &sections {
        let added: Vec<Vec<u8>> = match id {
            1 => vec![vec![0x60, 0, 1, 0x7f]],
            3 => vec![leb(types), leb(types)],
            7 => ["sf_batch", "sf_init"]
                .iter()
                .zip(functions..)
                .map(|(name, index)| [&[name.len() as u8], name.as_bytes(), &[0], &leb(index)[..]].concat())
                .collect(),
            // No locals; i32.const 1024 or 0; end.
            10 => vec![vec![5, 0, 0x41, 0x80, 0x08, 0x0b], vec![4, 0, 0x41, 0, 0x0b]],
            _ => Vec::new(),
        };
        let bytes = if added.is_empty() {
            bytes.to_vec()
        } else {
            let mut rest = 0;
            let count = number(bytes, &mut rest)?;
            [&leb(count + added.len() as u32)[..], &bytes[rest..], &added.concat()].concat()
        };
        out.push(*id);
        out.extend(leb(bytes.len() as u32));
        out.extend(bytes);
    }
    Some(out)
}

fn number(bytes: &[u8], at: &mut usize) -> Option<u32> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
}

fn leb(mut value: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
