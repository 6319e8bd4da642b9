//! The program as its user meets it: files in, tables and JSON out, exit status. Needs no privileges.

mod authors;
#[path = "../support/cache.rs"]
mod cache;
mod captures;
mod messages;
mod wiring;

use cache::compiled;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn superfluid() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_superfluid"));
    command.env("XDG_CACHE_HOME", compiled());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(arguments: &[&str]) -> Output {
    superfluid().args(arguments).stdin(Stdio::null()).output().expect("the program starts")
}

/// Writes a file and runs it; the JSON lines.
fn run_file(yaml: &str, more: &[&str]) -> (Vec<Value>, Output) {
    let folder = tempfile::tempdir().expect("a folder");
    run_in(folder.path(), yaml, more)
}

fn run_in(folder: &Path, yaml: &str, more: &[&str]) -> (Vec<Value>, Output) {
    let file = folder.join("test.yaml");
    fs::write(&file, yaml).expect("written");
    let output = superfluid()
        .args(["run", &file.display().to_string(), "--json"])
        .args(more)
        .output()
        .expect("the program starts");
    let lines = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    (lines, output)
}

fn last(lines: &[Value]) -> &Value {
    let last = lines.last().expect("a final account");
    assert_eq!(last["event"], "final");
    assert_eq!(last["balanced"], true, "{last}");
    assert_eq!(last["in_flight"], 0, "{last}");
    for (name, pool) in last["pools"].as_object().expect("pools") {
        assert_eq!(pool["buffers"], pool["free"], "buffers of {name} are missing");
    }
    last
}

const CHAIN: &str = "
superfluid: 1
ports:
  source: {type: generator, flows: 500, count: 20000, rate: 50kpps}
  end: {type: sink, check: checksums}
functions:
  gate:
    image: firewall
    config:
      stateful: false
      rules:
        - {name: first-half, action: drop, protocol: udp, source: 198.18.0.0/17}
        - {name: the-rest, action: accept, protocol: udp}
  swap: {image: forwarder, config: {mode: swap}}
  flows: {image: monitor}
chains:
  main: [source, gate, swap, end]
observers:
  flows: {at: [gate]}
";
