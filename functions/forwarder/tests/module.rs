//! The same source makes a WebAssembly module that keeps the contract: what it imports and exports, and that
//! it uses no instruction beyond what the sandbox offers.

use nf_abi::{IMPORT_MODULE, exports, imports};
use std::path::Path;
use std::process::Command;
use wasmparser::{Operator, Parser, Payload, TypeRef};

fn module() -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("forwarder.wasm");
    let done = Command::new("clang-19")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O3", "-msimd128", "--target=wasm32"])
        .args(["-nostdlib", "-ffreestanding", "-Wl,--no-entry", "-Wl,--strip-all", "-I"])
        .arg(folder.join("../../include"))
        .arg("-o")
        .args([&out, &folder.join("src/forwarder.c")])
        .output()
        .expect("clang-19 is needed: apt-get install clang-19 lld-19");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    std::fs::read(out).expect("the compiler wrote it")
}

#[test]
fn the_module_keeps_the_contract() {
    let wasm = module();
    wasmparser::validate(&wasm).expect("a valid module");
    let (mut imported, mut exported) = (vec![], vec![]);
    for payload in Parser::new(0).parse_all(&wasm) {
        match payload.expect("just validated") {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import.expect("just validated");
                    assert!(matches!(import.ty, TypeRef::Func(_)), "{import:?}");
                    imported.push((import.module.to_owned(), import.name.to_owned()));
                }
            }
            Payload::ExportSection(section) => {
                exported.extend(
                    section.into_iter().map(|export| export.expect("just validated").name.to_owned()),
                );
            }
            Payload::CodeSectionEntry(body) => {
                for operator in body.get_operators_reader().expect("just validated") {
                    let operator = operator.expect("just validated");
                    assert!(
                        !matches!(
                            operator,
                            Operator::MemoryCopy { .. }
                                | Operator::MemoryFill { .. }
                                | Operator::MemoryInit { .. }
                        ),
                        "a copy or fill that the image build has to lower"
                    );
                }
            }
            _ => {}
        }
    }
    for (module, name) in &imported {
        assert_eq!(module, IMPORT_MODULE);
        assert!([imports::READ, imports::WRITE].contains(&name.as_str()), "{name} is not needed");
    }
    for name in [exports::MEMORY, exports::BATCH, exports::INIT, exports::PROCESS] {
        assert!(exported.iter().any(|export| export == name), "{name} is missing from {exported:?}");
    }
    assert!(wasm.len() < 8 << 10, "{} bytes", wasm.len());
}
