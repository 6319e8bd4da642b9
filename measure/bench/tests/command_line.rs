//! The command line of `superfluid-bench`.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_superfluid-bench")).args(arguments).output().expect("it runs")
}

#[test]
fn an_unknown_bench_is_refused_with_those_that_there_are() {
    let refused = bench(&["no-such"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{words}");
    assert!(words.contains("`no-such`") && bench::NAMES.iter().all(|name| words.contains(name)), "{words}");
    assert_eq!(bench(&[]).status.code(), Some(2));
}

#[test]
fn help_is_that_of_the_command_by_which_it_is_started() {
    let help = bench(&["--help"]);
    assert!(help.status.success());
    let words = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(words.contains("Usage: superfluid bench") && words.contains("Example"), "{words}");
    let missing: Vec<&&str> = bench::NAMES.iter().filter(|name| !words.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?} are not named: {words}");
}

/// A module that no cache has is compiled by this program itself, in another process.
#[test]
fn it_is_the_compiler_of_its_own_processes() {
    let refused = Command::new(env!("CARGO_BIN_EXE_superfluid-bench"))
        .arg("compile-module")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("it runs");
    assert_eq!(refused.status.code(), Some(1), "an empty module is none");
    assert!(!refused.stderr.is_empty());
}
