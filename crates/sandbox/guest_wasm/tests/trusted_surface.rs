//! What is trusted stays small and is written down: the host calls and the lines that run per packet, as
//! `docs/threat-model.md` lists them.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The rows of the table under a heading of the threat model, cell by cell, without backticks.
fn table(heading: &str) -> Vec<Vec<String>> {
    let document = read("docs/threat-model.md");
    let section = document.split("\n## ").find(|section| section.starts_with(heading)).expect(heading);
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect())
        .collect()
}

fn is_code(line: &&str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

/// Lines of code of a file, or of every function of that name in it.
fn lines(path: &str, function: &str) -> usize {
    let text = read(path);
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    if function == "all" {
        return text.lines().filter(is_code).count();
    }
    let mut count = 0;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((before, after)) = line.split_once("fn ") else { continue };
        let word = ["pub ", "pub(crate) ", "pub(super) ", "const ", "unsafe ", "extern \"C\" "];
        let before = word.iter().fold(before.to_owned(), |text, word| text.replace(word, ""));
        if !before.trim().is_empty() || !after.starts_with(function) {
            continue;
        }
        if !after[function.len()..].starts_with(['(', '<']) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        count += 1;
        if !line.ends_with('}') {
            let end = format!("{indent}}}");
            count += lines.by_ref().take_while(|line| *line != end).filter(is_code).count() + 1;
        }
    }
    assert!(count > 0, "{path} has no function `{function}`");
    count
}

#[test]
fn the_threat_model_names_every_host_call() {
    let named: Vec<String> = table("The host calls").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(named.len(), 6, "six calls are promised");

    // What the contract has, and what the sandbox offers, are those six.
    let contract = read("crates/formats/nf_abi/src/lib.rs");
    let imports = contract.split("pub mod imports {").nth(1).and_then(|rest| rest.split("\n}").next());
    let constants: Vec<(&str, &str)> = imports
        .expect("the module of imports")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub const ")?.split_once(": &str = \""))
        .map(|(name, value)| (name, value.trim_end_matches("\";")))
        .collect();
    assert_eq!(constants.iter().map(|(_, value)| *value).collect::<Vec<_>>(), named);
    let offered = read("crates/sandbox/guest_wasm/src/host_calls.rs");
    assert_eq!(offered.matches("func_wrap").count(), 6);
    for (constant, _) in constants {
        assert!(offered.contains(&format!("imports::{constant}")), "{constant} is not offered");
    }
    let elsewhere: usize = fs::read_dir(root().join("crates/sandbox/guest_wasm/src"))
        .expect("the crate's files")
        .map(|entry| fs::read_to_string(entry.expect("a file").path()).expect("text"))
        .map(|text| text.matches("func_wrap").count() + text.matches("func_new").count())
        .sum();
    assert_eq!(elsewhere, 6, "host functions are defined in one file");
}

#[test]
fn the_threat_model_counts_the_lines_that_run_per_packet() {
    let mut rows = table("What runs per packet");
    let total = rows.pop().expect("a last row");
    assert_eq!(total[0], "together");
    let (mut corrected, mut sum, mut wrong) = (String::new(), 0, false);
    for row in &rows {
        let [path, functions, stated] = row.as_slice() else { panic!("three cells: {row:?}") };
        let found: usize = functions.split(", ").map(|function| lines(path, function)).sum();
        let stated: usize = stated.parse().unwrap_or_default();
        // A line or two more in a short function are no news.
        wrong |= found.abs_diff(stated) * 10 > stated.max(30);
        sum += found;
        let functions = functions.split(", ").map(|f| format!("`{f}`")).collect::<Vec<_>>().join(", ");
        corrected.push_str(&format!("| `{path}` | {} | {found} |\n", functions.replace("`all`", "all")));
    }
    let stated: usize = total[2].parse().unwrap_or_default();
    wrong |= sum.abs_diff(stated) * 10 > stated;
    corrected.push_str(&format!("| together | | {sum} |\n"));
    assert!(!wrong, "docs/threat-model.md is out of date; the table is now\n{corrected}");
}
