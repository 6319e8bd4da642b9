//! Whatever an image holds: what is not allowed is refused, by its own name.

use image::{Image, ImageError, Names, assemble, inspect, limits};
use std::borrow::Cow;
use wasm_encoder::{CustomSection, Section};

const MANIFEST: &str = "\
name: echo
version: 1.2.3
abi: 1
summary: Does nothing.
language: c
access: read
interfaces: [wire]
memory_limit: 128KiB
";

const REQUIRED: &str = r#"
    (memory (export "memory") 1)
    (func (export "sf_batch") (result i32) (i32.const 64))
    (func (export "sf_init") (result i32) (i32.const 0))
    (func (export "sf_process") (param i32 i64))"#;

fn section(wasm: &mut Vec<u8>, name: &str, data: &[u8]) {
    CustomSection { name: name.into(), data: Cow::Borrowed(data) }.append_to(wasm);
}

fn signed(mut wasm: Vec<u8>) -> Vec<u8> {
    section(&mut wasm, nf_abi::MANIFEST_SECTION, MANIFEST.as_bytes());
    wasm
}

/// An image with these fields in its module, unseen by the rewriting pass.
fn image(fields: &str) -> Vec<u8> {
    signed(wat::parse_str(format!("(module {fields})")).unwrap())
}

/// The same with what is required in front of the fields.
fn complete(fields: &str) -> Vec<u8> {
    image(&format!("{REQUIRED} {fields}"))
}

fn refusal(bytes: &[u8]) -> ImageError {
    Image::load(bytes).unwrap_err()
}

#[test]
fn an_image_is_what_its_manifest_and_module_say() {
    let imports = r#"
        (import "superfluid_v1" "write" (func (param i32 i32 i32) (result i32)))
        (import "superfluid_v1" "packet_emit" (func (param i32 i32 i32 i32 i64) (result i32)))"#;
    let fields = r#"
        (table 3 funcref) (elem (i32.const 1) 2 3)
        (data (i32.const 65531) "hello")
        (global (export "sf_global_0") (mut i32) (i32.const 5))
        (func (export "sf_timer") (param i64))
        (func (export "mine"))"#;
    let bytes = image(&format!("{imports} {REQUIRED} {fields}"));
    let image = Image::load(&bytes).unwrap();
    assert_eq!((image.manifest().name.as_str(), image.manifest().version.as_str()), ("echo", "1.2.3"));
    assert_eq!(image.wasm(), bytes);
    let facts = image.facts();
    assert_eq!(facts.imports, ["write", "packet_emit"]);
    assert!(facts.exports("sf_timer") && facts.exports("mine") && !facts.exports("sf_report"));
    assert_eq!((facts.functions, facts.mutable_globals), (5, 1));
    assert_eq!((facts.data_bytes, facts.memory_bytes, facts.table_elements), (5, 65_536, 3));
    let text = inspect(&image);
    assert!(
        text.contains("write, packet_emit") && text.contains("65536 bytes at the start, at most 131072"),
        "{text}"
    );
}

#[test]
fn the_digest_is_sha_256_of_the_file() {
    assert_eq!(
        image::Digest::of(b"abc").to_string(),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    let bytes = complete("");
    assert_eq!(Image::load(&bytes).unwrap().digest(), image::Digest::of(&bytes));
}

#[test]
fn the_contract_is_kept_to_the_letter() {
    let import = |fields: &str| refusal(&image(&format!("{fields} {REQUIRED}")));
    assert!(matches!(import(r#"(import "env" "memcpy" (func))"#), ImageError::Import { .. }));
    assert!(matches!(import(r#"(import "superfluid_v2" "write" (func))"#), ImageError::Import { .. }));
    assert!(matches!(import(r#"(import "superfluid_v1" "launch" (func))"#), ImageError::Import { .. }));
    assert!(matches!(import(r#"(import "superfluid_v1" "memory" (global i32))"#), ImageError::Import { .. }));
    let found = import(r#"(import "superfluid_v1" "timer_set" (func (param i32) (result i32)))"#);
    assert_eq!(
        found.to_string(),
        "it imports `timer_set` as a function (i32) -> i32; it is a function (i64) -> i32"
    );
    let found = import(r#"(import "superfluid_v1" "timer_set" (global i64))"#);
    assert!(matches!(found, ImageError::ImportType { .. }), "{found}");
    let twice = r#"(import "superfluid_v1" "timer_set" (func (param i64) (result i32)))"#.repeat(2);
    assert_eq!(import(&twice), ImageError::ImportTwice { name: "timer_set" });

    let without = |export: &str| refusal(&image(&REQUIRED.replace(&format!("(export \"{export}\")"), "")));
    for name in ["memory", "sf_batch", "sf_init", "sf_process"] {
        assert!(matches!(without(name), ImageError::MissingExport { name: found, .. } if found == name));
    }
    let found = refusal(&image(&REQUIRED.replace("(param i32 i64)", "(param i64 i32)")));
    assert_eq!(
        found.to_string(),
        "it exports `sf_process` as a function (i64, i32); it must be a function (i32, i64)"
    );
    let found = refusal(&complete(r#"(global (export "sf_timer") i32 (i32.const 0))"#));
    assert!(matches!(found, ImageError::ExportType { .. }), "{found}");
    let found = refusal(&complete(r#"(func (export "sf_reprot"))"#));
    assert!(found.to_string().ends_with("did you mean `sf_report`?"), "{found}");
    let found =
        refusal(&complete(r#"(global i32 (i32.const 1)) (global (export "sf_global_0") i32 (i32.const 1))"#));
    assert!(matches!(found, ImageError::ExportType { .. }), "{found}");
    let found = refusal(&image(&REQUIRED.replace("\"memory\"", "\"storage\"").replace("sf_batch", "memory")));
    assert!(matches!(found, ImageError::ExportType { .. }), "{found}");
}

#[test]
fn no_instruction_of_a_missing_proposal_gets_in() {
    for body in [
        "(memory.copy (i32.const 0) (i32.const 0) (i32.const 0))",
        "(memory.fill (i32.const 0) (i32.const 0) (i32.const 0))",
        "(memory.init 0 (i32.const 0) (i32.const 0) (i32.const 0))",
        "(data.drop 0)",
        "(table.copy (i32.const 0) (i32.const 0) (i32.const 0))",
        "(table.init 0 (i32.const 0) (i32.const 0) (i32.const 0))",
        "(elem.drop 0)",
        "(drop (table.grow (ref.null func) (i32.const 1)))",
        "(drop (table.size))",
        "(drop (ref.null func))",
        "(drop (select (result i32) (i32.const 0) (i32.const 0) (i32.const 0)))",
        "(drop (i32.atomic.load (i32.const 0)))",
        "(atomic.fence)",
        "(return_call 0)",
        "(throw 0)",
        "(drop (struct.new 1))",
        "(drop (i64.add128 (i64.const 0) (i64.const 0) (i64.const 0) (i64.const 0)) drop)",
    ] {
        let fields = format!(
            r#"(type (func)) (type (struct)) (tag) (func (type 0)) {REQUIRED} (table 1 funcref) (func {body})
               (data "x") (elem func)"#
        );
        let found = Image::load(&image(&fields));
        assert!(matches!(found, Err(ImageError::Invalid { .. })), "{body}: {found:?}");
        // And without the declarations that are refused before any code is read.
        let Ok(wasm) = wat::parse_str(format!("(module (func) {REQUIRED} (table 1 funcref) (func {body}))"))
        else {
            continue;
        };
        let found = Image::load(&signed(wasm));
        assert!(
            matches!(found, Err(ImageError::InvalidFunction { .. } | ImageError::Invalid { .. })),
            "{body}: {found:?}"
        );
    }
    for fields in [
        "(table 0 externref)",
        "(func (param externref))",
        "(global funcref (ref.null func))",
        "(global i32 (i32.add (i32.const 1) (i32.const 2)))",
        r#"(data "passive")"#,
        "(elem declare func 0)",
        "(rec (type (func)))",
        "(tag)",
    ] {
        let found = refusal(&complete(fields));
        assert!(
            matches!(found, ImageError::Invalid { .. } | ImageError::TooMany { .. }),
            "{fields}: {found}"
        );
    }
    for memory in ["i64 1", "1 1 shared", "1 (pagesize 1)"] {
        let fields = REQUIRED.replace("(export \"memory\") 1", &format!("(export \"memory\") {memory}"));
        assert!(matches!(refusal(&image(&fields)), ImageError::Invalid { .. }), "{memory}");
    }
}

#[test]
fn overlong_table_indices_are_refused() {
    let mut wasm = wat::parse_str(format!(
        "(module (type (func)) {REQUIRED} (table 1 funcref) (func (call_indirect (type 0) (i32.const 0))))"
    ))
    .unwrap();
    Image::load(&signed(wasm.clone())).unwrap();
    let at = wasm.windows(3).rposition(|bytes| bytes == [0x11, 0, 0]).unwrap();
    wasm.splice(at + 2..at + 3, [0x80, 0]);
    let body = wasm[..at].iter().rposition(|byte| *byte == 7).unwrap();
    wasm[body] += 1;
    let code = wasm[..body].iter().rposition(|byte| *byte == 10).unwrap();
    wasm[code + 1] += 1;
    let found = refusal(&signed(wasm));
    assert!(matches!(found, ImageError::InvalidFunction { .. }), "{found}");
}

#[test]
fn everything_is_bounded() {
    assert!(matches!(refusal(&vec![0; limits::IMAGE_BYTES + 1]), ImageError::TooLarge { .. }));
    let too_many = |fields: &str, expected: &str| match refusal(&complete(fields)) {
        ImageError::TooMany { what, found, allowed } if what == expected => assert!(found > allowed),
        other => panic!("{expected}: {other}"),
    };
    let times = |n: u32, field: &str| field.repeat(n as usize);
    too_many(&times(limits::TYPES + 1, "(type (func))"), "types");
    too_many(&times(limits::FUNCTIONS + 1, "(func)"), "functions");
    too_many(&times(limits::GLOBALS + 1, "(global i32 (i32.const 0))"), "globals");
    too_many(&times(2, "(table 0 funcref)"), "tables");
    too_many(&format!("(table {} funcref)", limits::TABLE_ELEMENTS + 1), "table elements");
    too_many(&format!("(table 0 {} funcref)", limits::TABLE_ELEMENTS + 1), "table elements");
    too_many(&times(limits::DATA_SEGMENTS + 1, "(data (i32.const 0))"), "data segments");
    too_many(
        &format!("(table 1 funcref) {}", times(limits::ELEMENT_SEGMENTS + 1, "(elem (i32.const 0))")),
        "element segments",
    );
    too_many(&format!("(func (param {}))", times(65, "i32 ")), "parameters of one type");
    too_many(&format!("(type (func (result {})))", times(65, "i32 ")), "results of one type");
    let exports: String = (0..=limits::EXPORTS).map(|n| format!("(export \"e{n}\" (func 0))")).collect();
    too_many(&exports, "exports");

    let too_much = |fields: &str, expected: &str| match refusal(&complete(fields)) {
        ImageError::TooMuch { function, what, .. } if what == expected => assert_eq!(function, "big"),
        other => panic!("{expected}: {other}"),
    };
    too_much(&format!("(func $big (local {}))", times(limits::LOCALS + 1, "i32 ")), "locals");
    too_much(&format!("(func $big {})", times(1 << 20, "nop ")), "bytes");
    let depth = limits::NESTING;
    too_much(&format!("(func $big {} {})", times(depth, "block "), times(depth, "end ")), "nested blocks");
}

#[test]
fn memory_begins_within_the_manifest_and_has_no_maximum() {
    let memory = |memory: &str| {
        image(&REQUIRED.replace("(export \"memory\") 1", &format!("(export \"memory\") {memory}")))
    };
    assert_eq!(Image::load(&memory("2")).unwrap().facts().memory_bytes, 128 << 10);
    assert_eq!(refusal(&memory("3")), ImageError::MemoryMinimum { found: 192 << 10, allowed: 128 << 10 });
    assert_eq!(refusal(&memory("65536")), ImageError::MemoryMinimum { found: 4 << 30, allowed: 128 << 10 });
    assert_eq!(refusal(&memory("1 2")), ImageError::MemoryMaximum { pages: 2 });
    let none = "(func (export \"sf_batch\") (result i32) (i32.const 64))";
    assert_eq!(refusal(&image(none)), ImageError::Memories { found: 0 });
}

#[test]
fn segments_fit_or_no_instance_could_start() {
    let found = refusal(&complete(r#"(data (i32.const 65532) "hello")"#));
    assert_eq!(
        found,
        ImageError::Segment { kind: "data", index: 0, end: 65_537, place: "memory", size: 65_536 }
    );
    let found = refusal(&complete(r#"(data (i32.const -1) "hello")"#));
    assert!(matches!(found, ImageError::Segment { end: 0x1_0000_0004, .. }), "{found}");
    let found = refusal(&complete(r#"(data (i32.const 0x80000000) "into the window")"#));
    assert!(matches!(found, ImageError::Segment { kind: "data", .. }), "{found}");
    let found = refusal(&complete("(table 2 funcref) (elem (i32.const 1) func 0 0)"));
    assert!(matches!(found, ImageError::Segment { kind: "element", end: 3, .. }), "{found}");
}

#[test]
fn state_is_visible_and_nothing_runs_before_its_time() {
    let found = refusal(&complete("(global i32 (i32.const 0)) (global (mut i32) (i32.const 0))"));
    assert_eq!(found, ImageError::HiddenGlobal { index: 1 });
    let found = refusal(&complete("(func $early) (start $early)"));
    assert_eq!(found, ImageError::Start { function: "early".to_owned() });
}

#[test]
fn there_is_one_manifest_and_it_is_right() {
    let module = wat::parse_str(format!("(module {REQUIRED})")).unwrap();
    assert_eq!(refusal(&module), ImageError::NoManifest);
    let twice = signed(signed(module.clone()));
    assert!(matches!(refusal(&twice), ImageError::CustomSection { .. }));
    let mut other = signed(module.clone());
    section(&mut other, "\u{202e}producers\n", b"");
    let found = refusal(&other);
    assert!(!found.to_string().contains(['\n', '\u{202e}']), "{found:?}");

    let with = |text: &[u8]| {
        let mut wasm = module.clone();
        section(&mut wasm, nf_abi::MANIFEST_SECTION, text);
        refusal(&wasm)
    };
    let found = with(MANIFEST.replace("access: read", "access: all").as_bytes()).to_string();
    assert!(found.starts_with("manifest:6:9: access: found `all`"), "{found}");
    let found = with(b"name: echo\n\xff").to_string();
    assert!(found.starts_with("manifest:2:1"), "{found}");
    assert!(matches!(with(&vec![b'#'; manifest::MAX_TEXT + 1]), ImageError::TooMany { .. }));
}

#[test]
fn what_is_no_module_is_said_to_be_none() {
    let told = refusal(b"name: hello\n").to_string();
    let wanted = "not a valid image: it begins with `name: he`, and WebAssembly with `\\x00asm` (at byte 0); was it made by `superfluid image build`?";
    assert_eq!(told, wanted);
    for bytes in [&b""[..], b"\x7fELF", b"\0asm\x02\0\0\0", b"\0asm\x0d\0\x01\0", &complete("")[..40]] {
        assert!(matches!(refusal(bytes), ImageError::Invalid { .. }), "{bytes:?}");
        let told = refusal(bytes).to_string();
        assert!(!told.contains('\n'), "{told}");
    }
    let mut trailing = complete("");
    trailing.push(7);
    assert!(Image::load(&trailing).is_err());
}

#[test]
fn what_is_assembled_loads_again() {
    let module = wat::parse_str(format!(
        "(module {REQUIRED} (global (mut i64) (i64.const 1))
         (func (export \"move\") (memory.copy (i32.const 0) (i32.const 1) (i32.const 2))))"
    ))
    .unwrap();
    for names in [Names::Dropped, Names::Kept] {
        let (image, lowered) = assemble(&module, MANIFEST, names).unwrap();
        assert_eq!((lowered.memory_copies, lowered.exported_globals), (1, 1));
        assert_eq!(Image::load(image.wasm()).unwrap(), image);
        assert_eq!(image.manifest().source, MANIFEST);
    }
}
