//! A disk that is full, a store and snapshots that are damaged or of a later version.

use crate::support::commands::Commands;
use crate::support::http::Socket;
use crate::{files, options};
use serde_json::{Value, json};
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// A source, a firewall and a sink.
fn chain(socket: &mut Socket) {
    let firewall = json!({
        "image": "firewall", "config": {"default_action": "accept"}, "max_call": "10s",
        "attach": {"inside": "source", "outside": "out"},
    });
    for (path, spec) in [
        ("tenants/default", json!({"pool": {"buffers": 1024, "pages": "ordinary"}})),
        ("ports/source", json!({"type": "generator", "rate": "20kpps", "flows": 50})),
        ("ports/out", json!({"type": "sink"})),
        ("functions/fw", firewall),
    ] {
        let (status, answer) = socket.put(path, &spec);
        assert_eq!(status, 201, "{answer}");
    }
    moves(socket);
}

/// Waits until packets pass.
fn moves(socket: &mut Socket) {
    let mut packets = || socket.get("/v1/functions/fw")["status"]["packets"].as_u64().expect("a count");
    let (before, began) = (packets(), Instant::now());
    while packets() <= before + 100 {
        assert!(began.elapsed() < Duration::from_secs(30), "no packet passes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn detail(answer: &Value) -> &str {
    answer["detail"].as_str().unwrap_or_default()
}

#[test]
fn a_full_disk_refuses_changes_and_the_rest_goes_on() {
    testbed::isolated("disk::a_full_disk_refuses_changes_and_the_rest_goes_on", || {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("state")).expect("a folder");
        // Seen by the daemon alone.
        let script = "mount -t tmpfs -o size=3m,mode=700 tmpfs state; exec \"$@\"";
        let launcher = ["unshare", "--mount", "sh", "-c", script, "sh"];
        let daemon = options(folder.path()).launcher(launcher).start();
        let mut socket = daemon.connect();
        chain(&mut socket);
        let inside = format!("/proc/{}/root{}/state", daemon.id(), folder.path().display());
        let inside = Path::new(&inside);
        let filler = inside.join("filler");
        fill(&filler);
        // A snapshot takes room.
        let body = json!({"name": "s"});
        let (status, answer) =
            socket.ask("POST", "/v1/functions/fw/snapshots", Some(&body)).expect("it answers");
        assert_eq!(status, 507, "{answer}");
        assert_eq!(files(&inside.join("snapshots")), [""; 0], "nothing half written is left");
        // So does a backup, which puts a copy of the store aside.
        let (status, answer) = socket.ask("POST", "/v1/backups", None).expect("it answers");
        assert_eq!(status, 507, "{answer}");
        assert!(detail(&answer).contains("free some space"), "{answer}");
        assert!(!inside.join("backup.part").exists(), "nothing half written is left");
        // So does a change, sooner or later: what is refused has not been done.
        let forwarder = json!({"image": "forwarder", "tenant": "default"});
        let mut made = Vec::new();
        let refused = (0..2000).find_map(|n| {
            let name = format!("f{n}");
            match socket.put(&format!("functions/{name}"), &forwarder) {
                (201, _) => made.push(name),
                refused => return Some((name, refused)),
            }
            None
        });
        let (name, (status, answer)) = refused.expect("the disk is full");
        assert_eq!(status, 507, "{answer}");
        assert!(detail(&answer).contains("disk is full"), "{answer}");
        let health = socket.get("/v1/health");
        let troubles = health["troubles"].to_string();
        assert!(health["healthy"] == false && troubles.contains("store: the disk is full"), "{health}");
        let (status, _) = socket.ask("GET", &format!("/v1/functions/{name}"), None).expect("it answers");
        assert_eq!(status, 404);
        moves(&mut socket);
        for path in ["/v1/memory", "/v1/account", "/v1/functions?limit=1000"] {
            socket.get(path);
        }
        // With room again, all goes on.
        fs::remove_file(&filler).expect("removed");
        let (status, answer) = socket.put(&format!("functions/{name}"), &forwarder);
        assert_eq!(status, 201, "{answer}");
        assert_eq!(socket.get("/v1/health")["healthy"], true);
        socket.done("POST", "/v1/functions/fw/snapshots", Some(&body));
        for name in made {
            socket.done("DELETE", &format!("/v1/functions/{name}"), None);
        }
        let account = socket.get("/v1/account");
        assert_eq!(account["balanced"], true, "{account}");
        assert!(daemon.end().contains("the account balances"));
    });
}

#[test]
fn a_full_disk_and_a_torn_line_of_the_audit_log_do_not_keep_it_from_starting() {
    testbed::isolated(
        "disk::a_full_disk_and_a_torn_line_of_the_audit_log_do_not_keep_it_from_starting",
        || {
            let folder = tempfile::tempdir().expect("a folder");
            let daemon = options(folder.path()).start();
            chain(&mut daemon.connect());
            daemon.kill();
            fs::rename(folder.path().join("state"), folder.path().join("before")).expect("moved");
            fs::create_dir(folder.path().join("state")).expect("a folder");
            let script = "mount -t tmpfs -o size=24m,mode=700 tmpfs state && cp -a --sparse=never before/. state \
                      && printf '{\"torn' >> state/audit.jsonl; dd if=/dev/zero of=state/filler bs=4096 2>/dev/null; exec \"$@\"";
            let daemon =
                options(folder.path()).launcher(["unshare", "--mount", "sh", "-c", script, "sh"]).start();
            let mut socket = daemon.connect();
            moves(&mut socket);
            // Changes are refused while they cannot be logged, and health says why.
            let health = socket.get("/v1/health");
            assert_eq!(health["healthy"], false, "{health}");
            assert!(
                health["troubles"][0].as_str().is_some_and(|text| text.contains("audit.jsonl")),
                "{health}"
            );
            let forwarder = json!({"image": "forwarder", "tenant": "default"});
            let (status, answer) = socket.put("functions/more", &forwarder);
            assert_eq!(status, 507, "{answer}");
            assert!(detail(&answer).contains("nothing is changed until it can be"), "{answer}");
            let (status, answer) = socket.ask("POST", "/v1/functions/fw/pause", None).expect("it answers");
            assert_eq!(status, 507, "{answer}");
            moves(&mut socket);
            // With room again, all goes on, and the torn line spoils no other.
            let inside = format!("/proc/{}/root{}/state", daemon.id(), folder.path().display());
            fs::remove_file(Path::new(&inside).join("filler")).expect("removed");
            let (status, answer) = socket.put("functions/more", &forwarder);
            assert_eq!(status, 201, "{answer}");
            assert_eq!(socket.get("/v1/health")["healthy"], true);
            let log = fs::read_to_string(Path::new(&inside).join("audit.jsonl")).expect("text");
            let unreadable = log.lines().filter(|line| serde_json::from_str::<Value>(line).is_err()).count();
            assert!(unreadable == 1 && log.ends_with('\n') && log.contains("function/more"), "{log}");
            assert!(daemon.end().contains("the account balances"));
        },
    );
}

#[test]
fn a_store_that_is_removed_under_it_is_told_and_can_be_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = options(folder.path()).start();
    let mut socket = daemon.connect();
    chain(&mut socket);
    assert_eq!(socket.get("/v1/health")["healthy"], true);
    fs::remove_dir_all(folder.path().join("state/store")).expect("removed");
    let health = socket.get("/v1/health");
    let trouble = health["troubles"][0].as_str().unwrap_or_default();
    assert!(
        health["healthy"] == false && trouble.contains("store/") && trouble.contains("was removed"),
        "{health}"
    );
    // What would be lost with the process is refused, and packets pass.
    let (status, answer) = socket.put("functions/more", &json!({"image": "forwarder", "tenant": "default"}));
    assert!(status == 500 && detail(&answer).contains("was removed"), "{status} {answer}");
    moves(&mut socket);
    // The way back.
    daemon.done("backup -o rescue.tar");
    daemon.kill();
    fs::rename(folder.path().join("state"), folder.path().join("broken")).expect("moved");
    let restored = Commands::new(folder.path()).done("restore rescue.tar --state state");
    assert!(restored.contains("objects of revision"), "{restored}");
    let daemon = options(folder.path()).start();
    let mut socket = daemon.connect();
    moves(&mut socket);
    assert_eq!(socket.get("/v1/health")["healthy"], true);
    daemon.end();
}

#[test]
fn what_else_is_removed_under_it_is_told_or_made_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = options(folder.path()).start();
    let mut socket = daemon.connect();
    chain(&mut socket);
    let state = folder.path().join("state");
    let all = ["snapshots", "images", "events", "container-images", "snapshot-keys.json"];
    for (n, removed) in all.into_iter().enumerate() {
        let left = n + 1;
        assert_eq!(socket.get("/v1/health")["troubles"].as_array().map(Vec::len), Some(left - 1));
        let path = state.join(removed);
        let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        gone.expect("removed");
        let health = socket.get("/v1/health");
        let troubles: Vec<_> = health["troubles"].as_array().into_iter().flatten().collect();
        let told = |trouble: &&Value| {
            trouble.as_str().is_some_and(|text| text.contains(&format!("state/{removed}: the ")))
        };
        assert!(health["healthy"] == false && troubles.iter().any(told), "{removed}: {health}");
        assert_eq!(troubles.len(), left, "{health}");
    }
    // A new key is in a file again.
    let (status, answer) = socket.ask("POST", "/v1/snapshot-keys", None).expect("an answer");
    assert_eq!(status, 200, "{answer}");
    let health = socket.get("/v1/health");
    assert!(health["troubles"].as_array().map(Vec::len) == Some(all.len() - 1), "{health}");
    assert!(!health["troubles"].to_string().contains("snapshot-keys.json"), "{health}");
    // The next lines are in a file again.
    fs::remove_file(state.join("audit.jsonl")).expect("removed");
    assert_eq!(socket.put("functions/more", &json!({"image": "forwarder", "tenant": "default"})).0, 201);
    let log = fs::read_to_string(state.join("audit.jsonl")).expect("there is one again");
    assert!(log.contains("function/more"), "{log}");
    moves(&mut socket);
    daemon.end();
    // The next start makes them, for this user alone.
    fs::create_dir(state.join("events")).expect("made");
    fs::set_permissions(state.join("events"), Permissions::from_mode(0o755)).expect("opened");
    let daemon = options(folder.path()).start();
    let mut socket = daemon.connect();
    assert_eq!(socket.get("/v1/health")["healthy"], true);
    for made in all {
        let mode = fs::metadata(state.join(made)).expect("made").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{made}: {mode:o}");
    }
    moves(&mut socket);
    daemon.end();
}

/// Writes until there is no room.
fn fill(path: &Path) {
    let mut file = OpenOptions::new().create_new(true).write(true).open(path).expect("a file");
    for size in [64 << 10, 4 << 10, 1] {
        while file.write_all(&vec![0xa5; size]).is_ok() {}
    }
}

/// Bytes of a page of the store.
const PAGE: usize = 2048;

#[test]
fn a_store_with_any_page_damaged_is_told_and_left_alone_or_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path());
    let daemon = options.start();
    let mut socket = daemon.connect();
    chain(&mut socket);
    // Enough for tables of several pages.
    for n in 0..200 {
        let spec = json!({"entries": 64, "age": format!("{}s", 300 + n)});
        assert_eq!(socket.put(&format!("switches/a-switch-of-some-length-{n}"), &spec).0, 201);
    }
    daemon.end();
    // A start carries the log over into the file; what is written then begins the log anew.
    let store = folder.path().join("state/store");
    let daemon = options.start();
    let length = || fs::metadata(store.join("store.db")).expect("the store").len() as usize;
    daemon.wait("the log is carried over", || length() >= 8 * PAGE);
    let mut socket = daemon.connect();
    assert_eq!(socket.put("switches/the-last", &json!({})).0, 201);
    let wanted = all(&mut socket);
    daemon.end();
    let whole: Vec<(String, Vec<u8>)> = files(&store)
        .into_iter()
        .map(|name| (name.clone(), fs::read(store.join(name)).expect("a file")))
        .collect();
    let (_, table) = whole.iter().find(|(name, _)| name == "store.db").expect("the store");
    let mut refused = 0;
    for at in (0..table.len()).step_by(PAGE) {
        // All of its beginning, and a single bit elsewhere.
        for (from, count, bits) in [(at, 512, 0x55), (at + 512 + at / PAGE * 577 % (PAGE - 512), 1, 0x10)] {
            let mut damaged = table.clone();
            damaged[from..from + count].iter_mut().for_each(|byte| *byte ^= bits);
            for (name, bytes) in &whole {
                fs::write(store.join(name), bytes).expect("written");
            }
            fs::write(store.join("store.db"), &damaged).expect("written");
            match options.spawn().listens() {
                Err(said) => {
                    assert!(said.contains("store.db") && said.lines().count() == 1, "{from}: {said}");
                    let left = fs::read(store.join("store.db")).expect("the store");
                    assert!(left == damaged, "{from}: it is left for an inspection");
                    refused += 1;
                }
                // What is not in use does no harm.
                Ok(daemon) => {
                    assert_eq!(all(&mut daemon.connect()), wanted, "{from}");
                    daemon.end();
                }
            }
        }
    }
    // The last commit's pages are in the log as well.
    let damages = table.len() / PAGE * 2;
    println!("{refused} of {damages} damages were refused, the others do no harm");
    assert!(refused > damages / 3, "{refused} of {damages}");
    for (name, bytes) in &whole {
        fs::write(store.join(name), bytes).expect("written");
    }
    let daemon = options.start();
    let mut socket = daemon.connect();
    assert_eq!(all(&mut socket), wanted);
    moves(&mut socket);
    daemon.end();
}

/// What is wanted, by kind and name.
fn all(socket: &mut Socket) -> Vec<Value> {
    let mut all = Vec::new();
    for plural in ["tenants", "ports", "switches", "functions"] {
        let listing = socket.get(&format!("/v1/{plural}?limit=1000"));
        let items = listing["items"].as_array().expect("a list").iter();
        all.extend(items.map(|item| json!([item["kind"], item["name"], item["version"], item["spec"]])));
    }
    all
}

#[test]
fn snapshots_that_cannot_be_read_are_told_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(folder.path());
    let daemon = options.start();
    let mut socket = daemon.connect();
    chain(&mut socket);
    for name in ["good", "damaged", "newer", "cut", "odd"] {
        socket.done("POST", "/v1/functions/fw/snapshots", Some(&json!({ "name": name })));
    }
    let file = |name: &str| folder.path().join(format!("state/snapshots/{name}.snapshot"));
    let bytes = fs::read(file("newer")).expect("it was saved");
    // Behind the line that says what it is, and its seal.
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let begin = ends.map(|(at, _)| at + 1).nth(1).expect("two lines");
    let write = |name: &str, at: usize, with: &[u8]| {
        let opened = OpenOptions::new().write(true).open(file(name)).expect("it was saved");
        opened.write_all_at(with, at as u64).expect("written");
        opened
    };
    let damaged = fs::metadata(file("damaged")).expect("it was saved").len() as usize;
    write("damaged", damaged - 100, &[0x5a; 16]);
    // The major version follows eight bytes.
    write("newer", begin + 8, &7u16.to_le_bytes());
    write("cut", 0, &[]).set_len(bytes.len() as u64 / 2).expect("cut");
    write("odd", 0, b"[]");
    // What was changed after it was sealed is damaged, whatever was changed.
    for name in ["damaged", "newer", "cut"] {
        let body = json!({"function": "fw"});
        let path = format!("/v1/snapshots/{name}/restore?wait=true");
        let (status, answer) = socket.ask("POST", &path, Some(&body)).expect("it answers");
        assert_eq!(status, 409, "{name}: {answer}");
        assert!(detail(&answer).contains("it is damaged"), "{name}: {answer}");
        assert_eq!(answer["faults"][0]["at"], format!("snapshots.{name}"), "{answer}");
    }
    moves(&mut socket);
    socket.done("POST", "/v1/snapshots/good/restore?wait=true", Some(&json!({"function": "fw"})));
    moves(&mut socket);
    assert!(daemon.end().contains("the account balances"));
    // What does not even say what it is, is told at the start, and kept.
    let daemon = options.start();
    let said = daemon.log();
    assert!(said.contains("odd.snapshot"), "{said}");
    moves(&mut daemon.connect());
    daemon.end();
    assert!(file("odd").exists());
}
