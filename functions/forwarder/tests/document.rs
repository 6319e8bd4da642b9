//! `docs/nf-abi.md` says what `nf_abi` says, and its function in C compiles.

use nf_abi::{PacketRecord, Verdict, error, exports, imports, stream};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    std::fs::read_to_string(root().join("docs/nf-abi.md")).expect("the document")
}

/// The cells of the table whose first column has this heading, without quotes.
fn table(document: &str, headings: &[&str]) -> Vec<Vec<String>> {
    let rows = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().replace('`', "")).collect()
    };
    let lines: Vec<&str> = document.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with('|') && rows(line).iter().zip(headings).all(|(a, b)| a == b))
        .unwrap_or_else(|| panic!("a table with {headings:?}"));
    lines[at + 2..].iter().take_while(|line| line.starts_with('|')).map(|line| rows(line)).collect()
}

macro_rules! places {
    ($($field:ident)*) => {{
        let record = PacketRecord::default();
        [$((stringify!($field), offset_of!(PacketRecord, $field), 8 * size_of_val(&record.$field)),)*]
    }};
}

#[test]
fn the_table_of_the_record_is_its_layout() {
    let ours = places!(verdict offset length buffer mark timestamp flow_hash tunnel_key nsh_path service_id vlan
        ingress flow_class hop_budget tunnel_type offload_flags gso_type device_port gso_size csum_start csum_offset
        reserved2);
    let theirs = table(&document(), &["offset", "field", "type", "direction"]);
    assert_eq!(theirs.len(), ours.len());
    for ((name, offset, bits), row) in ours.into_iter().zip(theirs) {
        assert_eq!(row[..3], [offset.to_string(), name.to_owned(), format!("u{bits}")]);
        let written = ["verdict", "offset", "length", "mark"].contains(&name);
        assert_eq!(row[3].contains("out"), written, "{name}");
    }
}

#[test]
fn the_tables_of_numbers_are_the_crates() {
    let document = document();
    let numbers = |headings: &[&str], name: usize, number: usize| -> Vec<(String, i64)> {
        let rows = table(&document, headings);
        let mut pairs: Vec<_> =
            rows.iter().map(|row| (row[name].clone(), row[number].parse().expect("a number"))).collect();
        pairs.dedup();
        pairs
    };
    let owned = |pairs: &[(&str, i64)]| -> Vec<(String, i64)> {
        pairs.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
    };
    assert_eq!(
        numbers(&["name", "number", "meaning"], 0, 1),
        owned(&[
            ("RANGE", error::RANGE.into()),
            ("STREAM", error::STREAM.into()),
            ("COUNTER", error::COUNTER.into()),
            ("SLOT", error::SLOT.into()),
            ("VERDICT", error::VERDICT.into()),
            ("LIMIT", error::LIMIT.into()),
        ])
    );
    assert_eq!(
        numbers(&["stream", "number"], 0, 1),
        owned(&[
            ("CONFIG", stream::CONFIG.into()),
            ("STATE", stream::STATE.into()),
            ("REPORT", stream::REPORT.into()),
            ("EVENT", stream::EVENT.into()),
            ("DEVICES", stream::DEVICES.into()),
            ("SLOTS", stream::SLOTS.into()),
            ("CHANGE", stream::CHANGE.into()),
            ("RANDOM", stream::RANDOM.into()),
            ("LOG_ERROR", stream::LOG_ERROR.into()),
            ("LOG_WARNING", stream::LOG_WARNING.into()),
            ("LOG_INFO", stream::LOG_INFO.into()),
            ("LOG_DEBUG", stream::LOG_DEBUG.into()),
        ])
    );
    let kinds = [
        ("none", Verdict::None),
        ("drop", Verdict::Drop(0)),
        ("interface", Verdict::Interface(0)),
        ("service", Verdict::Service(0)),
        ("hold", Verdict::Hold(0)),
        ("consume", Verdict::Consume),
    ];
    assert_eq!(
        numbers(&["kind", "name", "argument"], 1, 0),
        owned(&kinds.map(|(name, verdict)| (name, verdict.encode().into())))
    );
}

#[test]
fn every_call_and_constant_is_there() {
    let document = document();
    let names = |headings: &[&str]| -> Vec<String> {
        table(&document, headings).into_iter().map(|mut row| row.swap_remove(0)).collect()
    };
    assert_eq!(
        names(&["name", "type", "required"]),
        [
            exports::MEMORY,
            exports::BATCH,
            exports::INIT,
            exports::PROCESS,
            exports::TIMER,
            exports::FINISH,
            exports::DEVICES,
            exports::CHANGE,
            exports::REPORT,
            exports::EXPORT_STATE,
            exports::IMPORT_STATE
        ]
    );
    assert_eq!(
        names(&["name", "type", "meaning"]),
        [
            imports::READ,
            imports::WRITE,
            imports::COUNTER_ADD,
            imports::PACKET_NEW,
            imports::PACKET_EMIT,
            imports::TIMER_SET
        ]
    );
    for fact in [
        format!("version {}\n", nf_abi::ABI_VERSION),
        format!("`{}`", nf_abi::IMPORT_MODULE),
        format!("`{}`", nf_abi::MANIFEST_SECTION),
        format!("`{}N`", nf_abi::GLOBAL_EXPORT_PREFIX),
        format!("1 to {},", nf_abi::MAX_BATCH),
        format!("{} at first", nf_abi::HOP_BUDGET),
        "`0x8000_0000`".to_owned(),
        "at most 1 GiB".to_owned(),
        "0 to 65,535".to_owned(),
    ] {
        assert!(document.contains(&fact), "{fact}");
    }
    assert_eq!((nf_abi::WINDOW_BASE, nf_abi::WINDOW_MAX, nf_abi::MAX_SLOTS), (0x8000_0000, 1 << 30, 65_536));
}

#[test]
fn the_types_of_calls_are_those_of_the_compiled_function() {
    let document = document();
    let start = document.find("```c\n").expect("a function in C") + 5;
    let source = &document[start..start + document[start..].find("```").expect("its end")];
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, module) = (folder.join("gate.c"), folder.join("gate.wasm"));
    std::fs::write(&file, source).expect("a file");
    let done = Command::new("clang-19")
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O3",
            "--target=wasm32",
            "-nostdlib",
            "-ffreestanding",
        ])
        .args(["-Wl,--no-entry", "-I"])
        .arg(root().join("include"))
        .arg("-o")
        .args([&module, &file])
        .output()
        .expect("clang-19 is needed: apt-get install clang-19 lld-19");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

    let wasm = std::fs::read(module).expect("the compiler wrote it");
    let types: BTreeMap<String, String> = exported_functions(&wasm);
    for row in table(&document, &["name", "type", "required"]) {
        if let Some(found) = types.get(&row[0]) {
            assert_eq!(&row[1], found, "{}", row[0]);
        }
    }
    assert!([exports::BATCH, exports::INIT, exports::PROCESS].iter().all(|name| types.contains_key(*name)));
}

/// Exported functions with their types, as the document writes them.
fn exported_functions(wasm: &[u8]) -> BTreeMap<String, String> {
    let mut validator = wasmparser::Validator::new();
    let types = validator.validate_all(wasm).expect("a valid module");
    let mut found = BTreeMap::new();
    for payload in wasmparser::Parser::new(0).parse_all(wasm) {
        let wasmparser::Payload::ExportSection(section) = payload.expect("just validated") else { continue };
        for export in section {
            let export = export.expect("just validated");
            if export.kind != wasmparser::ExternalKind::Func {
                continue;
            }
            let function = types[types.as_ref().core_function_at(export.index)].unwrap_func();
            let list = |values: &[wasmparser::ValType]| {
                values.iter().map(|value| value.to_string()).collect::<Vec<_>>().join(", ")
            };
            let results = match function.results() {
                [] => String::new(),
                results => format!(" -> {}", list(results)),
            };
            found.insert(export.name.to_owned(), format!("({}){results}", list(function.params())));
        }
    }
    found
}
