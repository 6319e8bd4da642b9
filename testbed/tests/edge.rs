//! `edge.sh` with the relay in superfluid's place: what it drives passes, and nothing is left behind, however
//! it ends.

use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A variable in the environment of the script and of everything it starts.
const MARK: &str = "SUPERFLUID_EDGE_TEST";
/// Only a script that hangs takes as long.
const LIMIT: Duration = Duration::from_secs(60);

fn edge(mark: &str) -> Child {
    let own = std::env::current_exe().expect("the test's own path");
    // Cargo builds examples along with tests, beside the folder of the tests.
    let relay: PathBuf =
        own.parent().and_then(|deps| deps.parent()).expect("a folder").join("examples/relay");
    // A shell that runs the tests in the background may have SIGINT ignored, and a child shell cannot take
    // that back.
    Command::new("env")
        .args(["--default-signal=INT", "bash"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/edge.sh"))
        .arg(relay)
        .arg("no-file")
        .env("EDGE_SECONDS", "1")
        .env(MARK, mark)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash")
}

/// Command lines of processes that carry the mark.
fn left_behind(mark: &str) -> Vec<String> {
    let mark = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter(|process| {
            let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
        })
        .map(|process| std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default())
        .collect()
}

#[test]
fn everything_passes_and_nothing_is_left() {
    let script = edge("whole");
    let output = script.wait_with_output().expect("its end");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    for expected in [
        "10 of 10 answered",
        "3 files, 50 MB, checksums equal",
        "client to server  ",
        "server to client  ",
        "sf-lan: received ",
    ] {
        assert!(stdout.contains(expected), "`{expected}` is missing in:\n{stdout}");
    }
    assert_eq!(stdout.matches("Gbit/s").count(), 2, "{stdout}");
    assert_eq!(left_behind("whole"), [""; 0]);
}

#[test]
fn an_interrupted_run_shows_the_account_and_leaves_nothing() {
    let mut script = edge("interrupted");
    // In the midst of a step, whose command ends by itself.
    let begin = Instant::now();
    while !left_behind("interrupted").iter().any(|command| command.contains("iperf3\0--client")) {
        assert!(script.try_wait().expect("its state").is_none(), "the script ended early");
        assert!(begin.elapsed() < LIMIT, "iperf3 does not run");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&script), Signal::INT).expect("it runs");
    let output = script.wait_with_output().expect("its end");
    let rest = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{rest}\n{errors}");
    assert!(rest.contains("sf-lan: received "), "{rest}");
    assert!(!rest.contains("server to client"), "{rest}");
    assert_eq!(left_behind("interrupted"), [""; 0]);
}

#[test]
fn a_superfluid_that_ends_at_once_is_told_of() {
    let output = Command::new("bash")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/edge.sh"))
        .args(["false", "no-file"])
        .env(MARK, "false")
        .output()
        .expect("bash");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("ended before any packet passed"), "{stderr}");
    assert_eq!(left_behind("false"), [""; 0]);
}
