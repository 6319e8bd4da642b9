//! `scripts/pairs`, over programs that print what a bench prints.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/pairs");

/// A program that prints one result a line of `figures`, one line for each time that it is started, and ends
/// with 1.
fn program(folder: &Path, name: &str, figures: &[f64]) -> PathBuf {
    let path = folder.join(name);
    let reports: Vec<String> = figures
        .iter()
        .map(|figure| {
            format!(
                r#"{{"bench":"b","machine":"m","results":[{{"name":"p50-us","value":{figure},"unit":"us","bound":{{"at_most":1}}}},{{"name":"rate","value":{figure},"unit":"/s","bound":{{"at_least":1}}}},{{"name":"free","value":{figure},"unit":"x"}}]}}"#
            )
        })
        .collect();
    fs::write(folder.join(format!("{name}.reports")), reports.join("\n") + "\n").expect("written");
    let text = format!(
        "#!/bin/sh\necho {name} >>{0}/order\nn=$(grep -c '^{name}$' {0}/order)\nsed -n \"${{n}}p\" {0}/{name}.reports\nexit 1\n",
        folder.display()
    );
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    path
}

fn pairs(folder: &Path, before: &[f64], after: &[f64]) -> (Output, String) {
    let (before, after) = (program(folder, "before", before), program(folder, "after", after));
    let output = Command::new(SCRIPT)
        .args(["--rounds", "3"])
        .args([before, after])
        .arg("b")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn sides_take_turns_and_what_is_worse_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (output, text) = pairs(folder.path(), &[10.0, 20.0, 40.0], &[12.0, 24.0, 48.0]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let order = fs::read_to_string(folder.path().join("order")).expect("read");
    assert_eq!(order, "before\nafter\nafter\nbefore\nbefore\nafter\n");
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).expect("a line").to_owned();
    assert!(line("b/p50-us").ends_with("1.20 (1.20 to 1.20)  worse"), "{text}");
    assert!(line("b/rate").ends_with("better"), "more is better of a rate: {text}");
    assert!(line("b/free").ends_with("1.20)"), "nothing is promised of it: {text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("b/p50-us"));
}

#[test]
fn rounds_that_disagree_say_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (output, text) = pairs(folder.path(), &[10.0, 10.0, 10.0], &[12.0, 8.0, 12.0]);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(!text.contains("worse") && !text.contains("better"), "{text}");
}

#[test]
fn a_bench_that_prints_nothing_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (output, _) = pairs(folder.path(), &[10.0, 10.0, 10.0], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("found no report"));
}
