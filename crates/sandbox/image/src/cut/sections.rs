//! What a compiler's output has in custom sections.

use wasmparser::{Parser, Payload};

/// Bytes of custom sections, with their headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sections {
    /// Names of functions.
    pub(crate) names: usize,
    /// DWARF.
    pub(crate) debug: usize,
    /// Producers, features, and whatever else.
    pub(crate) others: usize,
}

/// Of a module that the rewriting pass has read.
pub(crate) fn sections(wasm: &[u8]) -> Sections {
    let mut sections = Sections::default();
    for payload in Parser::new(0).parse_all(wasm) {
        let Ok(Payload::CustomSection(section)) = payload else { continue };
        let contents = section.range().len();
        // Its kind and its length stand before it.
        let bytes = 1 + super::data::unsigned(contents as u64) + contents;
        match section.name() {
            "name" => sections.names += bytes,
            name if name.starts_with(".debug_") => sections.debug += bytes,
            _ => sections.others += bytes,
        }
    }
    sections
}
