//! The daemon as its clients meet it, with real functions and packets. Needs no privileges.

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A daemon that runs, and ends with the test.
struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    fn start(folder: &Path) -> Daemon {
        let child = Command::new(env!("CARGO_BIN_EXE_superfluid"))
            .env(
                "XDG_CACHE_HOME",
                std::env::temp_dir().join(format!("superfluid-test-{}", std::process::id())),
            )
            .args(["daemon", "--socket"])
            .arg(folder.join("s.sock"))
            .arg("--state")
            .arg(folder.join("state"))
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.join("log")).expect("a file"))
            .spawn()
            .expect("the program starts");
        let daemon = Daemon { child, folder: folder.to_owned() };
        daemon.wait("it listens", || UnixStream::connect(daemon.folder.join("s.sock")).is_ok());
        daemon
    }

    /// Waits until a condition holds, for 30 s at most.
    fn wait(&self, what: &str, mut until: impl FnMut() -> bool) {
        let began = Instant::now();
        while !until() {
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_secs(30), "{what}: {log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let (status, answer) = self.exchange(method, path, body);
        (status, serde_json::from_str(&answer).unwrap_or(Value::Null))
    }

    fn text(&self, path: &str) -> String {
        let (status, answer) = self.exchange("GET", path, None);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    fn exchange(&self, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        let mut stream = UnixStream::connect(self.folder.join("s.sock")).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        // In one piece: the daemon may say no and hang up before it has seen the body.
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, body.to_owned())
    }

    fn put(&self, path: &str, spec: Value) -> Value {
        let (status, answer) = self.ask("PUT", &format!("{path}?wait=true"), Some(json!({"spec": spec})));
        assert!(matches!(status, 200 | 201), "{path}: {status} {answer}");
        answer
    }

    fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask("GET", path, None);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    fn post(&self, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.ask("POST", path, body);
        assert!(matches!(status, 200..=204), "{path}: {status} {answer}");
        answer
    }

    /// Packets that a function was called with.
    fn packets(&self, function: &str) -> u64 {
        self.get(&format!("/v1/functions/{function}"))["status"]["packets"].as_u64().expect("a count")
    }

    fn moves(&self, function: &str) {
        let before = self.packets(function);
        self.wait("packets pass", || self.packets(function) > before + 100);
    }

    /// Ends it as an operator does; what it printed.
    fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let status = self.child.wait().expect("it ends");
        let mut printed = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut printed).expect("text");
        assert!(status.success(), "{status}: {printed}");
        printed
    }

    /// Ends it as a fault does.
    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A source, a firewall that accepts everything, and a sink.
fn chain(daemon: &Daemon) {
    daemon.put("/v1/ports/source", json!({"type": "generator", "rate": "20kpps", "flows": 500}));
    daemon.put("/v1/ports/out", json!({"type": "sink"}));
    let spec = json!({
        // A machine that stalls is none of its faults.
        "image": "firewall", "config": {"default_action": "accept"}, "max_call": "2s",
        "attach": {"inside": "source", "outside": "out"},
    });
    daemon.put("/v1/functions/fw", spec);
}

#[test]
fn functions_come_and_go_while_packets_pass_and_all_of_them_are_accounted_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(folder.path());
    chain(&daemon);
    daemon.moves("fw");
    // Others come and go beside it.
    daemon.put("/v1/switches/hall", json!({}));
    for n in 0..50 {
        let spec = json!({"image": "forwarder", "attach": {"left": "hall"}});
        daemon.put(&format!("/v1/functions/f{n}"), spec);
    }
    for n in 0..50 {
        let (status, answer) = daemon.ask("DELETE", &format!("/v1/functions/f{n}"), None);
        assert!(matches!(status, 200 | 204), "{status} {answer}");
    }
    daemon.moves("fw");
    // Paused, packets wait or are lost with a reason; resumed, they pass.
    daemon.post("/v1/functions/fw/pause", None);
    let still = daemon.packets("fw");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(daemon.packets("fw"), still);
    let state = daemon.get("/v1/functions/fw")["status"]["state"].clone();
    assert!(state == "paused" || state == "frozen", "{state}");
    // Whoever stands still for long gives up what running needs, and goes on with what it knew.
    let private =
        || daemon.get("/v1/functions/fw")["status"]["memory"]["private"].as_u64().expect("a number");
    daemon.wait("it is frozen", || daemon.get("/v1/functions/fw")["status"]["state"] == "frozen");
    let little = private();
    assert_eq!(daemon.packets("fw"), still);
    daemon.post("/v1/functions/fw/snapshots", Some(json!({"name": "asleep"})));
    daemon.post("/v1/functions/fw/resume", None);
    assert_eq!(daemon.get("/v1/functions/fw")["status"]["state"], "running");
    assert!(little * 2 < private(), "{little} bytes while it is frozen");
    daemon.moves("fw");
    let metrics = daemon.text("/metrics");
    assert!(
        metrics.contains("superfluid_function_packets_total{function=\"fw\",tenant=\"default\""),
        "{metrics}"
    );
    let account = daemon.get("/v1/account");
    assert_eq!(account["balanced"], true, "{account}");
    let printed = daemon.end();
    assert!(printed.contains("the account balances"), "{printed}");
}

#[test]
fn a_function_is_saved_restored_and_cloned_with_what_it_knows() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(folder.path());
    chain(&daemon);
    daemon.moves("fw");
    daemon.post("/v1/functions/fw/pause", None);
    let known = daemon.packets("fw");
    assert!(known > 100);
    let saved = daemon.post("/v1/functions/fw/snapshots", Some(json!({"name": "one"})));
    assert!(saved["bytes"].as_u64() > Some(1000), "{saved}");
    assert_eq!(daemon.get("/v1/snapshots")["items"][0]["name"], "one");
    daemon.post("/v1/functions/fw/resume", None);
    daemon.moves("fw");
    let image = daemon.get("/v1/functions/fw")["status"]["image"].clone();
    assert_eq!(saved["image"], image);
    // In its own place: what it counted since is gone with what it knew since.
    daemon.post("/v1/snapshots/one/restore?wait=true", Some(json!({"function": "fw"})));
    daemon.moves("fw");
    assert_eq!(daemon.get("/v1/functions/fw")["status"]["state"], "running");
    let (status, answer) = daemon.ask("POST", "/v1/snapshots/none/restore", Some(json!({"function": "fw"})));
    assert_eq!(status, 404, "{answer}");
    let account = daemon.get("/v1/account");
    assert_eq!(account["balanced"], true, "{account}");
    assert!(daemon.end().contains("the account balances"));
}

#[test]
fn another_configuration_takes_over_without_a_packet_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(folder.path());
    chain(&daemon);
    daemon.moves("fw");
    for n in 0..20 {
        let config = json!({"default_action": "accept", "max_flows": 4096 + n});
        let body = json!({"image": "firewall", "config": config});
        daemon.post("/v1/functions/fw/upgrade?wait=true", Some(body));
    }
    daemon.moves("fw");
    let function = daemon.get("/v1/functions/fw");
    assert_eq!(function["spec"]["config"]["max_flows"], 4115);
    assert_eq!(function["status"]["drops"], json!({}), "{function}");
    assert_eq!(function["status"]["faults"], 0);
    let (status, answer) =
        daemon.ask("POST", "/v1/functions/fw/upgrade?wait=true", Some(json!({"image": "monitor"})));
    assert!(status >= 400, "{answer}");
    daemon.moves("fw");
    let account = daemon.get("/v1/account");
    assert_eq!(account["packets"]["dropped"], json!({}), "{account}");
    assert!(daemon.end().contains("the account balances"));
}

#[test]
fn what_was_acknowledged_runs_again_after_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(folder.path());
    chain(&daemon);
    daemon.put("/v1/functions/second", json!({"image": "forwarder"}));
    daemon.post("/v1/functions/second/pause", None);
    daemon.kill();
    let daemon = Daemon::start(folder.path());
    daemon.moves("fw");
    assert_eq!(daemon.get("/v1/functions/second")["status"]["state"], "frozen", "it did not begin at all");
    daemon.post("/v1/functions/second/resume", None);
    assert_eq!(daemon.get("/v1/functions/second")["status"]["state"], "running");
    daemon.end();
    let daemon = Daemon::start(folder.path());
    daemon.moves("fw");
    daemon.end();
}

#[test]
fn bad_input_is_told_with_its_place_and_nothing_is_half_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(folder.path());
    chain(&daemon);
    let refused = |method: &str, path: &str, body: Value, status: u16, says: &str| {
        let (found, answer) = daemon.ask(method, path, Some(body));
        assert_eq!(found, status, "{path}: {answer}");
        assert!(answer["detail"].as_str().is_some_and(|detail| detail.contains(says)), "{answer}");
    };
    let spec = |spec: Value| json!({ "spec": spec });
    refused(
        "PUT",
        "/v1/functions/x?wait=true",
        spec(json!({"image": "firewal"})),
        422,
        "did you mean `firewall`",
    );
    refused(
        "PUT",
        "/v1/functions/x?wait=true",
        spec(json!({"image": "forwarder", "attach": {"left": "source"}})),
        422,
        "has a wire already",
    );
    refused(
        "PUT",
        "/v1/functions/x?wait=true",
        spec(json!({"image": "forwarder", "pauses": []})),
        422,
        "for `superfluid run`",
    );
    refused(
        "PUT",
        "/v1/functions/x?wait=true",
        spec(json!({"image": "dpi", "config": {"rules": "/no/such"}})),
        422,
        "rules",
    );
    refused("PUT", "/v1/workers/workers", spec(json!({"count": 2})), 409, "a restart");
    let (status, answer) = daemon.ask("DELETE", "/v1/ports/source", None);
    assert_eq!(status, 409, "{answer}");
    let (status, _) = daemon.ask("GET", "/v1/functions/x", None);
    assert_eq!(status, 404);
    daemon.moves("fw");
    assert!(daemon.end().contains("the account balances"));
}

#[test]
fn the_readmes_commands_lead_to_a_running_chain() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let (_, section) = readme.split_once("## Change it while it runs").expect("the section");
    let (_, block) = section.split_once("```sh\n").expect("commands");
    let (block, _) = block.split_once("```").expect("their end");
    let lines: Vec<&str> = block.lines().collect();
    assert!(lines.len() <= 3 && lines[0].ends_with('&'), "{block}");
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(root.join("examples"), folder.path().join("examples")).expect("a link");
    let script = format!(
        "set -e\n{} \npid=$!\ntrap 'kill $pid; wait $pid' EXIT\n\
         for n in $(seq 500); do [ -S superfluid.sock ] && break; sleep 0.02; done\n{}\n",
        lines[0],
        lines[1..].join("\n")
    );
    let program = Path::new(env!("CARGO_BIN_EXE_superfluid")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let cache = std::env::temp_dir().join(format!("superfluid-test-{}", std::process::id()));
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("XDG_CACHE_HOME", cache)
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains(r#""created""#) && said.contains(r#""state":"running""#), "{said}{errors}");
    assert!(said.contains("the account balances"), "{said}{errors}");
}
