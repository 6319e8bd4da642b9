//! What a module itself calls its functions, for messages.

use wasmparser::{ExternalKind, KnownCustom, Name, Parser, Payload};
use yaml_document::spelling;

/// A function's name, else an export of it, else its number.
pub(crate) fn function_name(wasm: &[u8], index: u32) -> String {
    let mut found = None;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload {
            Ok(Payload::ExportSection(section)) => {
                for export in section.into_iter().flatten() {
                    if export.kind == ExternalKind::Func && export.index == index {
                        found = Some(spelling::shown(export.name));
                    }
                }
            }
            Ok(Payload::CustomSection(section)) => {
                let KnownCustom::Name(names) = section.as_known() else { continue };
                for name in names.into_iter().flatten() {
                    let Name::Function(functions) = name else { continue };
                    for naming in functions.into_iter().flatten() {
                        if naming.index == index {
                            found = Some(spelling::shown(naming.name));
                        }
                    }
                }
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    found.unwrap_or_else(|| format!("number {index}"))
}
