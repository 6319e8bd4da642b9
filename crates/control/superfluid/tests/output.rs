//! `superfluid run` and its surroundings: readers that go, disks that are full, signals, and functions that
//! do not do their work.

#[path = "support/guests.rs"]
mod guests;
#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use guests::{Deed, guest};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use support::cache::compiled;
use support::daemon::Options;

/// A source that does not end, and a sink.
const ENDLESS: &str = "
superfluid: 1
ports:
  source: {type: generator, flows: 10, rate: 10kpps}
  end: {type: sink}
functions:
  swap: {image: forwarder, config: {mode: swap}}
chains:
  main: [source, swap, end]
";

/// Longest time that is waited for an end; a test that needs it fails.
const LONGEST: Duration = Duration::from_secs(60);

fn superfluid(folder: &Path, yaml: &str) -> Command {
    fs::write(folder.join("test.yaml"), yaml).expect("written");
    // Signals that whatever runs the tests ignores are not ignored here.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,QUIT,TERM").arg(env!("CARGO_BIN_EXE_superfluid"));
    command.env("XDG_CACHE_HOME", compiled()).current_dir(folder).args(["run", "test.yaml"]);
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// How it ended, if it did.
fn ended(child: &mut Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        if began.elapsed() > LONGEST {
            child.kill().expect("killed");
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn errors(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut text).expect("text");
    text
}

fn signal(child: &Child, signal: Signal) {
    let process = Pid::from_child(child);
    kill_process(process, signal).expect("it is there");
}

#[test]
fn a_reader_that_goes_and_a_full_disk_do_not_end_the_traffic() {
    let folder = folder();
    for json in [false, true] {
        let full = || File::options().write(true).open("/dev/full").expect("there is one");
        for (stdout, says) in [(None, "Broken pipe"), (Some(full()), "No space left")] {
            let gone = stdout.is_none();
            let yaml = ENDLESS.replace("{type: sink}", "{type: pcap, write: seen.pcapng}");
            let mut command = superfluid(folder.path(), &yaml);
            command.args(["--every", "50ms"]);
            command.args(json.then_some("--json"));
            let mut child =
                command.stdout(stdout.map_or_else(Stdio::piped, Stdio::from)).spawn().expect("runs");
            if gone {
                // What it says first was read, and then there is no reader.
                let mut out = BufReader::new(child.stdout.take().expect("piped"));
                out.read_line(&mut String::new()).expect("a line");
            }
            // Packets pass although nothing can be shown.
            let written = || fs::metadata(folder.path().join("seen.pcapng")).map_or(0, |file| file.len());
            std::thread::sleep(Duration::from_millis(300));
            let (began, before) = (Instant::now(), written());
            while written() < before + (256 << 10) {
                assert!(began.elapsed() < LONGEST, "no packet passes");
                std::thread::sleep(Duration::from_millis(10));
            }
            signal(&child, Signal::TERM);
            let status = ended(&mut child);
            let errors = errors(&mut child);
            assert_eq!(status.code(), Some(0), "{says}: {status}: {errors}");
            assert_eq!(errors.matches(says).count(), 1, "it is told once: {errors}");
            assert!(errors.contains("lines were lost"), "{errors}");
            fs::remove_file(folder.path().join("seen.pcapng")).expect("removed");
        }
    }
}

#[test]
fn a_reader_that_does_not_read_does_not_hold_it_up() {
    let folder = folder();
    let mut command = superfluid(folder.path(), ENDLESS);
    let mut child = command
        .args(["--json", "--every", "10ms", "--for", "2s"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    // More than a pipe takes is said, and it is not read.
    let status = ended(&mut child);
    assert_eq!(status.code(), Some(0), "{}", errors(&mut child));
}

#[test]
fn each_signal_drains_and_a_second_one_ends_at_once() {
    let folder = folder();
    for first in [Signal::HUP, Signal::INT, Signal::TERM, Signal::QUIT] {
        let mut command = superfluid(folder.path(), ENDLESS);
        let mut child =
            command.args(["--json", "--every", "50ms"]).stdout(Stdio::piped()).spawn().expect("runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut line = || {
            let line = lines.next()?.expect("text");
            Some(serde_json::from_str::<Value>(&line).expect("JSON"))
        };
        assert_eq!(line().expect("a line")["event"], "running");
        signal(&child, first);
        let last = std::iter::from_fn(line).last().expect("an account");
        assert_eq!((&last["event"], &last["balanced"]), (&"final".into(), &true.into()), "{last}");
        assert_eq!(last["in_flight"], 0);
        let up = |port: &str| last["ports"][port]["status"] == "up";
        assert!(up("source") && up("end"), "as they were before they were closed: {last}");
        let status = ended(&mut child);
        assert_eq!(status.code(), Some(0), "{first:?}: {status}");
    }
    // What it still has to say is not read, so that the end takes a while.
    let mut command = superfluid(folder.path(), ENDLESS);
    let mut child = command.args(["--json", "--every", "1ms"]).stdout(Stdio::piped()).spawn().expect("runs");
    let mut out = BufReader::with_capacity(1, child.stdout.take().expect("piped"));
    out.read_line(&mut String::new()).expect("a line");
    std::thread::sleep(Duration::from_secs(2));
    signal(&child, Signal::TERM);
    std::thread::sleep(Duration::from_millis(100));
    signal(&child, Signal::INT);
    let status = ended(&mut child);
    assert_eq!((status.code(), status.signal()), (Some(130), None));
}

#[test]
fn a_function_that_lost_everything_makes_the_end_a_failure() {
    let folder = folder();
    guest(folder.path(), "broken", Deed::Traps);
    guest(folder.path(), "healthy", Deed::Tells);
    let yaml = |image: &str| {
        format!(
            "
superfluid: 1
ports:
  source: {{type: generator, flows: 10, rate: 10kpps, count: 2000}}
functions:
  probe: {{image: ./{image}.wasm}}
chains:
  main: [source, probe]
"
        )
    };
    for (image, code) in [("healthy", 0), ("broken", 1)] {
        let mut child = superfluid(folder.path(), &yaml(image)).stdout(Stdio::null()).spawn().expect("runs");
        let status = ended(&mut child);
        let errors = errors(&mut child);
        assert_eq!(status.code(), Some(code), "{image}: {errors}");
        assert_eq!(errors.contains("function probe: it "), code == 1, "{errors}");
    }
}

/// A signal that comes after "listening" and before the server hears signals ended the daemon at once. A
/// service manager that does not read holds it there.
#[test]
fn a_daemon_drains_at_a_signal_that_comes_while_it_starts() {
    let folder = folder();
    let manager = UnixDatagram::bind(folder.path().join("manager")).expect("a socket");
    manager.set_nonblocking(true).expect("set");
    let sender = UnixDatagram::unbound().expect("a socket");
    sender.set_nonblocking(true).expect("set");
    for signal in [Signal::TERM, Signal::INT] {
        while sender.send_to(b"full", folder.path().join("manager")).is_ok() {}
        let program = ["env", "--default-signal=HUP,INT,TERM", "NOTIFY_SOCKET=manager"];
        let daemon = Options::new(folder.path()).shared_cache().launcher(program).spawn();
        daemon.wait("it listens", || daemon.log().contains("listening"));
        kill_process(Pid::from_raw(daemon.id() as i32).expect("a process"), signal).expect("it runs");
        while manager.recv(&mut [0; 64]).is_ok() {}
        let printed = daemon.ended();
        assert!(printed.contains("the account balances"), "{signal:?}: {printed}");
    }
}
