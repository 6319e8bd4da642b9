//! `docs/metrics.md` lists all families, as they are.

use metrics::{Family, Type, families};

pub const DOCUMENT: &str = include_str!("../../../../../docs/metrics.md");

fn row(family: &Family) -> String {
    let kind = match family.kind {
        Type::Counter => "counter",
        Type::Gauge => "gauge",
        Type::Info => "info",
        Type::Histogram => "histogram",
    };
    let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
    let [labels, unit] = [labels.join(", "), family.unit.to_owned()]
        .map(|text| if text.is_empty() { "–".to_owned() } else { text });
    let sparse = if family.sparse { "*" } else { "" };
    format!(
        "| `{}{}`{sparse} | {kind} | {labels} | {unit} | {} |",
        family.name,
        family.kind.suffix(),
        family.help
    )
}

#[test]
fn the_document_lists_all_families_as_they_are() {
    let written: Vec<&str> = DOCUMENT.lines().filter(|line| line.starts_with("| `superfluid_")).collect();
    let expected: Vec<String> = families().map(row).collect();
    let wrong = written.iter().zip(&expected).find(|(written, expected)| *written != expected);
    assert!(
        wrong.is_none() && written.len() == expected.len(),
        "docs/metrics.md differs, first here: {wrong:?}; it should have these rows:\n{}",
        expected.join("\n")
    );
}
