//! Backups of a daemon that runs, and daemons that go on from them. Needs no privileges.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_superfluid");

/// A daemon with its state in a folder; it ends with the test.
struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    fn start(folder: &Path, state: &str) -> Daemon {
        let child = Command::new(PROGRAM)
            .env("XDG_CACHE_HOME", std::env::temp_dir().join("superfluid-test-backup"))
            .args(["daemon", "--socket", "s.sock", "--state", state])
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("log")).expect("a file"))
            .spawn()
            .expect("the program starts");
        let daemon = Daemon { child, folder: folder.to_owned() };
        let began = Instant::now();
        while UnixStream::connect(folder.join("s.sock")).is_err() {
            let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_secs(30), "it does not listen: {log}");
            std::thread::sleep(Duration::from_millis(5));
        }
        daemon
    }

    fn does(&self, arguments: &[&str]) -> String {
        let said = asked(&self.folder, arguments);
        assert!(said.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).into_owned()
    }

    fn names(&self, kind: &str) -> BTreeSet<String> {
        let printed = self.does(&["get", kind, "-o", "json"]);
        let all: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
        all.as_array().expect("a list").iter().map(|one| one["name"].to_string()).collect()
    }

    fn end(mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("it ran");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn asked(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(PROGRAM)
        .args(arguments)
        .current_dir(folder)
        .env("SUPERFLUID_SOCKET", folder.join("s.sock"))
        .output()
        .expect("the program starts")
}

fn entries(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A chain with packets in it, a function of an image in a file, and a snapshot.
fn furnish(daemon: &Daemon) {
    let text = "superfluid: 1
ports: {source: {type: generator, rate: 5kpps, flows: 50}, out: {type: sink}}
functions: {fw: {image: firewall, config: {default_action: accept}}, own: {image: ./own.wasm}}
chains: {edge: [source, fw, out]}
";
    std::fs::write(daemon.folder.join("chain.yaml"), text).expect("written");
    std::fs::write(daemon.folder.join("own.wasm"), stock_images::stock("forwarder").expect("an image"))
        .expect("written");
    daemon.does(&["apply", "-f", "chain.yaml"]);
    daemon.does(&["snapshot", "save", "fw", "monday"]);
    daemon.does(&["function", "pause", "own"]);
}

#[test]
fn a_backup_that_was_made_under_changes_is_of_one_moment_and_runs_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(folder.path(), "state");
    furnish(&daemon);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Two that are changed together.
            let of = |weight: u32| {
                format!(
                    "superfluid: 1\nfunctions:\n  fw: {{image: firewall, config: {{default_action: accept}}, cpu: {{weight: {weight}}}}}\n  \
                     own: {{image: ./own.wasm, cpu: {{weight: {weight}}}}}\n"
                )
            };
            for weight in (1..1000).cycle() {
                std::fs::write(folder.path().join("pair.yaml"), of(weight)).expect("written");
                daemon.does(&["apply", "-f", "pair.yaml"]);
                if stop.load(Relaxed) {
                    break;
                }
            }
        });
        for n in 0..4 {
            let said = daemon.does(&["backup", "-o", &format!("{n}.tar")]);
            assert!(said.contains(".tar: ") && said.contains("revision "), "{said}");
        }
        stop.store(true, Relaxed);
    });
    let mode = std::fs::metadata(folder.path().join("0.tar")).expect("a file").mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(!entries(folder.path()).iter().any(|name| name.ends_with(".part")), "nothing is left behind");
    assert!(!entries(&folder.path().join("state")).contains("backup.part"));
    daemon.end();
    // The file of the image is gone: what was kept is enough.
    std::fs::remove_file(folder.path().join("own.wasm")).expect("removed");
    for n in 0..4 {
        let state = format!("restored/{n}");
        std::fs::create_dir_all(folder.path().join("restored")).expect("made");
        let said = asked(folder.path(), &["restore", &format!("{n}.tar"), "--state", &state]);
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        assert_eq!(entries(&folder.path().join("restored")).len(), n + 1, "nothing beside it");
        let daemon = Daemon::start(folder.path(), &state);
        let ports = daemon.names("ports");
        assert!(ports.contains("\"source\"") && ports.contains("\"out\""), "{ports:?}");
        assert_eq!(daemon.names("functions"), ["\"fw\"", "\"own\""].map(str::to_owned).into());
        let states = daemon.does(&["get", "functions", "-o", "json"]);
        let states: serde_json::Value = serde_json::from_str(&states).expect("JSON");
        let weight = |at: usize| states[at]["spec"]["cpu"]["weight"].clone();
        assert_eq!(weight(0), weight(1), "{states}");
        let of = |at: usize| states[at]["status"]["state"].as_str().unwrap_or("nothing").to_owned();
        assert_eq!(of(0), "running", "{states}");
        assert!(["paused", "frozen"].contains(&of(1).as_str()), "{states}");
        daemon.does(&["snapshot", "restore", "monday", "--as", "again"]);
        daemon.end();
    }
}

#[test]
fn what_is_no_whole_backup_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(folder.path(), "state");
    furnish(&daemon);
    daemon.does(&["backup", "-o", "b.tar"]);
    let audit = std::fs::read_to_string(folder.path().join("state/audit.jsonl")).expect("a log");
    assert!(audit.contains("\"/v1/backups\""), "{audit}");
    // Where it cannot be written there is nothing afterwards; a file that was there is as it was.
    assert_eq!(asked(folder.path(), &["backup", "-o", "no/such/b.tar"]).status.code(), Some(1));
    let whole = std::fs::read(folder.path().join("b.tar")).expect("a file");
    daemon.end();
    assert_eq!(asked(folder.path(), &["backup", "-o", "b.tar"]).status.code(), Some(3));
    assert_eq!(std::fs::read(folder.path().join("b.tar")).expect("a file"), whole);

    let mut damaged = whole.clone();
    let at = whole.windows(15).position(|bytes| bytes == b"SQLite format 3").expect("the store is in it");
    damaged[at + 5000] ^= 0x10;
    let cases: [(&str, &[u8], &str); 4] = [
        ("damaged", &damaged, "store/store.db does not have the checksum"),
        ("cut", &whole[..whole.len() / 2], "was cut off or damaged"),
        ("empty", b"", "this is no backup"),
        ("other", b"PK\x03\x04 something else altogether", "this is no backup"),
    ];
    let refused = |file: &str, state: &str, says: &str| {
        let before = entries(folder.path());
        let said = asked(folder.path(), &["restore", file, "--state", state]);
        let errors = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(2), "{errors}");
        assert!(errors.contains(says) && errors.contains("nothing was restored"), "{errors}");
        assert_eq!(entries(folder.path()), before);
    };
    for (name, bytes, says) in cases {
        std::fs::write(folder.path().join(name), bytes).expect("written");
        refused(name, "fresh", says);
    }
    refused("b.tar", "state", "allowed: an empty folder, or one that does not exist");
    // Into an empty one, which keeps its owner.
    std::fs::create_dir(folder.path().join("fresh")).expect("made");
    assert!(asked(folder.path(), &["restore", "b.tar", "--state", "fresh"]).status.success());
    refused("b.tar", "fresh", "found \"images\" in it");
}

#[test]
fn a_client_that_is_slow_holds_up_backups_and_nothing_else_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(folder.path(), "state");
    furnish(&daemon);
    // More than what lies between the daemon and a client that takes nothing.
    let large = std::fs::File::create(folder.path().join("state/snapshots/large.snapshot")).expect("made");
    large.set_len(64 << 20).expect("room");
    let slow = || {
        let mut slow = UnixStream::connect(folder.path().join("s.sock")).expect("it listens");
        let question = b"POST /v1/backups HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
        slow.write_all(question).expect("sent");
        let mut first = [0; 12];
        slow.read_exact(&mut first).expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200");
        slow
    };
    let held = slow();
    let second = asked(folder.path(), &["backup", "-o", "b.tar"]);
    let errors = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.code() == Some(1) && errors.contains("one is at a time"), "{errors}");
    daemon.does(&["function", "create", "meanwhile", "--image", "forwarder"]);
    drop(held);
    let began = Instant::now();
    while !asked(folder.path(), &["backup", "-o", "b.tar"]).status.success() {
        assert!(began.elapsed() < Duration::from_secs(20), "who left is waited for");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!folder.path().join("state/backup.part").exists());
    // A daemon that is ended in the middle removes the rest when it starts.
    let held = slow();
    daemon.end();
    drop(held);
    assert!(folder.path().join("state/backup.part").exists());
    let daemon = Daemon::start(folder.path(), "state");
    assert!(!folder.path().join("state/backup.part").exists());
    assert!(daemon.names("functions").contains("\"meanwhile\""));
}
