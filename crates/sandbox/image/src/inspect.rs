//! An image in words.

use crate::Image;
use std::fmt::Write as _;

/// What an image is and needs, as lines for a terminal: an image may come from anywhere, so that nothing in
/// it can control the terminal.
pub fn inspect(image: &Image) -> String {
    let (manifest, facts) = (image.manifest(), image.facts());
    let mut out = String::new();
    let mut line = |label: &str, text: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{label:<13} {}", harmless(text));
    };
    line("name", manifest.name.as_str());
    line("version", &manifest.version);
    line("summary", &manifest.summary);
    line("digest", &image.digest().to_string());
    line("size", &format!("{} bytes", image.wasm().len()));
    line("contract", &format!("version {}", manifest.abi));
    line("language", &manifest.language.to_string());
    line("access", &manifest.access.to_string());
    line("interfaces", &numbered(&manifest.interfaces));
    line("memory", &format!("{} bytes at the start, at most {}", facts.memory_bytes, manifest.memory_limit));
    line("drop reasons", &numbered(&manifest.drop_reasons));
    line("counters", &numbered(&manifest.counters));
    line("host calls", &listed(facts.imports.iter().copied()));
    line("exports", &listed(facts.exports.iter().map(String::as_str)));
    line("functions", &format!("{} with {} bytes of code", facts.functions, facts.code_bytes));
    line("data", &format!("{} bytes, {} mutable globals", facts.data_bytes, facts.mutable_globals));
    let keys = manifest.schema.documentation();
    line("configuration", if keys.is_empty() { "none" } else { "" });
    for key in keys {
        line("", &key.to_string());
    }
    out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn numbered(names: &[String]) -> String {
    listed(names.iter().enumerate().map(|(number, name)| format!("{number} {name}")))
}

fn listed(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

/// Text of an image in one line of any length.
fn harmless(text: &str) -> String {
    printable::harmless(text, usize::MAX)
}
