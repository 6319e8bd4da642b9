//! Backups of a daemon that runs, and daemons that go on from them. Needs no privileges.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::commands::{Commands, text};
use support::daemon::{Daemon, Options, SOCKET};
use support::http;

/// A daemon with its state in a folder.
fn start(folder: &Path, state: &str) -> Daemon {
    Options::new(folder).state(state).shared_cache().start()
}

fn names(daemon: &Daemon, kind: &str) -> BTreeSet<String> {
    let all = daemon.json(&format!("get {kind}"));
    all.as_array().expect("a list").iter().map(|one| one["name"].to_string()).collect()
}

fn entries(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A chain with packets in it, a function of an image in a file, and a snapshot.
fn furnish(daemon: &Daemon) {
    let chain = "superfluid: 1
ports: {source: {type: generator, rate: 5kpps, flows: 50}, out: {type: sink}}
functions: {fw: {image: firewall, config: {default_action: accept}}, own: {image: ./own.wasm}}
chains: {edge: [source, fw, out]}
";
    daemon.write("chain.yaml", chain);
    std::fs::write(daemon.path("own.wasm"), stock_images::stock("forwarder").expect("an image"))
        .expect("written");
    daemon.done("apply -f chain.yaml");
    daemon.done("snapshot save fw monday");
    daemon.done("function pause own");
}

#[test]
fn a_backup_that_was_made_under_changes_is_of_one_moment_and_runs_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = Commands::new(folder.path()).asking(SOCKET);
    let daemon = start(folder.path(), "state");
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
                daemon.done("apply -f pair.yaml");
                if stop.load(Relaxed) {
                    break;
                }
            }
        });
        for n in 0..4 {
            let said = daemon.done(&format!("backup -o {n}.tar"));
            assert!(said.contains(".tar: ") && said.contains("revision "), "{said}");
        }
        stop.store(true, Relaxed);
    });
    let mode = std::fs::metadata(folder.path().join("0.tar")).expect("a file").mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(!entries(folder.path()).iter().any(|name| name.ends_with(".part")), "nothing is left behind");
    assert!(!entries(&folder.path().join("state")).contains("backup.part"));
    daemon.kill();
    // The file of the image is gone: what was kept is enough.
    std::fs::remove_file(folder.path().join("own.wasm")).expect("removed");
    for n in 0..4 {
        let state = format!("restored/{n}");
        std::fs::create_dir_all(folder.path().join("restored")).expect("made");
        let said = commands.run(&format!("restore {n}.tar --state {state}"));
        assert!(said.status.success(), "{}", text(&said.stderr));
        assert_eq!(entries(&folder.path().join("restored")).len(), n + 1, "nothing beside it");
        let daemon = start(folder.path(), &state);
        let ports = names(&daemon, "ports");
        assert!(ports.contains("\"source\"") && ports.contains("\"out\""), "{ports:?}");
        assert_eq!(names(&daemon, "functions"), ["\"fw\"", "\"own\""].map(str::to_owned).into());
        // A call that a busy machine lets take too long ends a function, which starts again.
        daemon.wait("it runs", || daemon.get("/v1/functions/fw")["status"]["state"] == "running");
        let states = daemon.json("get functions");
        let weight = |at: usize| states[at]["spec"]["cpu"]["weight"].clone();
        assert_eq!(weight(0), weight(1), "{states}");
        let of = |at: usize| states[at]["status"]["state"].as_str().unwrap_or("nothing").to_owned();
        assert_eq!(of(0), "running", "{states}");
        assert!(["paused", "frozen"].contains(&of(1).as_str()), "{states}");
        daemon.done("snapshot restore monday --as again");
        daemon.kill();
    }
}

/// The key that seals snapshots is in the backup: whose they are is believed where it is restored.
#[test]
fn a_tenants_snapshot_is_still_the_tenants_after_a_restore() {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = Commands::new(folder.path()).asking(SOCKET);
    let options =
        |state: &str| Options::new(folder.path()).state(state).shared_cache().tenants_socket("tenants");
    let daemon = options("state").start();
    daemon.put("/v1/tenants/red", json!({}));
    daemon.put("/v1/functions/fw", json!({"image": "forwarder", "tenant": "red"}));
    daemon.post("/v1/functions/fw/snapshots", Some(json!({"name": "monday"})));
    let made = daemon.post("/v1/tokens", Some(json!({"name": "t", "tenant": "red"})));
    let token = made["secret"].as_str().expect("a secret").to_owned();
    daemon.done("backup -o b.tar");
    daemon.kill();
    let restored = |state: &str| {
        let said = commands.run(&format!("restore b.tar --state {state}"));
        assert!(said.status.success(), "{}", text(&said.stderr));
    };
    restored("fresh");
    let daemon = options("fresh").start();
    let shown = daemon.get("/v1/snapshots/monday");
    // What is not imported says nothing of it.
    assert_eq!((&shown["tenant"], &shown["imported"]), (&json!("red"), &Value::Null), "{shown}");
    let ask = |daemon: &Daemon, method: &str, path: &str, body: Option<&Value>| {
        http::exchange(&daemon.path("tenants"), Some(&token), method, path, body).0
    };
    assert_eq!(ask(&daemon, "GET", "/v1/snapshots/monday", None), 200);
    let into = json!({"function": "fw"});
    assert_eq!(ask(&daemon, "POST", "/v1/snapshots/monday/restore?wait=true", Some(&into)), 200);
    daemon.kill();
    // Without the key it is the administrators' alone.
    restored("without");
    let keys: Vec<String> =
        entries(&folder.path().join("without")).into_iter().filter(|name| name.contains("key")).collect();
    assert_eq!(keys.len(), 1, "{keys:?}");
    std::fs::remove_file(folder.path().join("without").join(&keys[0])).expect("removed");
    let daemon = options("without").start();
    assert_eq!(daemon.get("/v1/snapshots/monday")["imported"], true);
    assert_eq!(ask(&daemon, "GET", "/v1/snapshots/monday", None), 404);
    daemon.end();
}

#[test]
fn what_is_no_whole_backup_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = Commands::new(folder.path()).asking(SOCKET);
    let daemon = start(folder.path(), "state");
    furnish(&daemon);
    daemon.done("backup -o b.tar");
    let audit = std::fs::read_to_string(folder.path().join("state/audit.jsonl")).expect("a log");
    assert!(audit.contains("\"/v1/backups\""), "{audit}");
    // Where it cannot be written there is nothing afterwards; a file that was there is as it was.
    let nowhere = commands.run("backup -o no/such/b.tar");
    let told = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(told.starts_with("no/such: there is no such folder") && !told.contains(".part"), "{told}");
    // What is no file is not replaced, and of a link that is which it leads to.
    let (status, told) = daemon.refused(&format!("backup -o {SOCKET}"));
    assert_eq!(
        (status, told.as_str()),
        (2, &*format!("{SOCKET}: found what is no file; allowed: a file's name"))
    );
    std::os::unix::fs::symlink("b.tar", folder.path().join("link.tar")).expect("a link");
    std::fs::write(folder.path().join("b.tar"), "old").expect("written");
    daemon.done("backup -o link.tar");
    assert!(std::fs::symlink_metadata(folder.path().join("link.tar")).expect("there").is_symlink());
    let whole = std::fs::read(folder.path().join("b.tar")).expect("a file");
    daemon.kill();
    assert_eq!(commands.run("backup -o b.tar").status.code(), Some(3));
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
        let said = commands.run(&format!("restore {file} --state {state}"));
        let errors = text(&said.stderr);
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
    assert!(commands.run("restore b.tar --state fresh").status.success());
    refused("b.tar", "fresh", "found \"images\" in it");
}

#[test]
fn a_client_that_is_slow_holds_up_backups_and_nothing_else_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = Commands::new(folder.path()).asking(SOCKET);
    let daemon = start(folder.path(), "state");
    furnish(&daemon);
    // More than what lies between the daemon and a client that takes nothing.
    let large = std::fs::File::create(folder.path().join("state/snapshots/large.snapshot")).expect("made");
    large.set_len(64 << 20).expect("room");
    let slow = || {
        let mut slow = UnixStream::connect(folder.path().join(SOCKET)).expect("it listens");
        let question = b"POST /v1/backups HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
        slow.write_all(question).expect("sent");
        let mut first = [0; 12];
        slow.read_exact(&mut first).expect("an answer");
        assert_eq!(&first, b"HTTP/1.1 200");
        slow
    };
    let held = slow();
    let second = commands.run("backup -o b.tar");
    let errors = text(&second.stderr);
    assert!(second.status.code() == Some(1) && errors.contains("one is at a time"), "{errors}");
    daemon.done("function create meanwhile --image forwarder");
    drop(held);
    let began = Instant::now();
    while !commands.run("backup -o b.tar").status.success() {
        assert!(began.elapsed() < Duration::from_secs(20), "a client that left is waited for");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!folder.path().join("state/backup.part").exists());
    // A daemon that is ended in the middle removes the rest when it starts.
    let held = slow();
    daemon.kill();
    drop(held);
    assert!(folder.path().join("state/backup.part").exists());
    let daemon = start(folder.path(), "state");
    assert!(!folder.path().join("state/backup.part").exists());
    assert!(names(&daemon, "functions").contains("\"meanwhile\""));
}
