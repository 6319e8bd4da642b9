//! Two tenants on one daemon with real functions: each sees and changes its own, with the program's own commands and over the socket. Needs
//! no privileges.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A daemon that ends with the test.
struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    fn start(folder: &Path) -> Daemon {
        let child = Command::new(env!("CARGO_BIN_EXE_superfluid"))
            .args(["daemon", "--socket", "admin", "--tenants-socket", "tenants", "--state", "state"])
            .current_dir(folder)
            .env("XDG_CACHE_HOME", folder.join("cache"))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("log")).expect("a file"))
            .spawn()
            .expect("the program starts");
        let daemon = Daemon { child, folder: folder.to_owned() };
        let began = Instant::now();
        while UnixStream::connect(folder.join("tenants")).is_err() {
            let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_secs(60), "it does not listen: {log}");
            std::thread::sleep(Duration::from_millis(10));
        }
        daemon
    }

    /// Status and body; with a token by the tenants' socket, without one by the administrators'.
    fn ask(&self, token: Option<&str>, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        let mut stream = self.begin(token, method, path, body);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, body.to_owned())
    }

    fn begin(&self, token: Option<&str>, method: &str, path: &str, body: Option<Value>) -> UnixStream {
        let socket = if token.is_some() { "tenants" } else { "admin" };
        let mut stream = UnixStream::connect(self.folder.join(socket)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let shown = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        // In one piece: to some, the daemon says no and hangs up before it has seen the body.
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{shown}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    }

    #[track_caller]
    fn json(&self, token: Option<&str>, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.ask(token, method, path, body);
        assert!(matches!(status, 200 | 201), "{method} {path}: {status} {answer}");
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Status and places of the faults.
    fn refused(&self, token: &str, path: &str, spec: Value) -> (u16, Vec<String>) {
        let (status, answer) = self.ask(Some(token), "PUT", path, Some(json!({"spec": spec})));
        let problem: Value = serde_json::from_str(&answer).expect("JSON");
        let faults = problem["faults"].as_array().cloned().unwrap_or_default();
        (status, faults.iter().map(|fault| fault["at"].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// The program asks, as an administrator or with the file of a token.
    fn program(&self, token: Option<&str>, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_superfluid"));
        command.args(arguments).current_dir(&self.folder);
        command.env("SUPERFLUID_SOCKET", if token.is_some() { "tenants" } else { "admin" });
        match token {
            Some(file) => command.env("SUPERFLUID_TOKEN_FILE", file),
            None => command.env_remove("SUPERFLUID_TOKEN_FILE"),
        };
        command.output().expect("runs")
    }

    #[track_caller]
    fn done(&self, token: Option<&str>, arguments: &[&str]) -> String {
        let output = self.program(token, arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the administrator gives: two tenants with a port at each end.
fn document() -> Value {
    let mut ports = json!({});
    for tenant in ["red", "blue"] {
        ports[format!("{tenant}-in")] = json!({"type": "generator", "rate": "2kpps", "tenant": tenant});
        ports[format!("{tenant}-out")] = json!({"type": "sink", "tenant": tenant});
    }
    let pool = json!({"pool": {"buffers": 512}});
    json!({"superfluid": 1, "tenants": {"red": pool, "blue": pool}, "ports": ports, "switches": {"hall": {}}})
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("a list").iter();
    items.map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn two_tenants_share_a_daemon_and_know_nothing_of_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(folder.path());
    std::fs::write(folder.path().join("host.json"), document().to_string()).expect("writes");
    daemon.done(None, &["apply", "-f", "host.json"]);
    let mut secrets = Vec::new();
    for tenant in ["red", "blue"] {
        let file = format!("{tenant}.token");
        let told = daemon
            .done(None, &["token", "create", tenant, "--tenant", tenant, "--expires", "1d", "--file", &file]);
        assert!(told.starts_with(&format!("token/{tenant} created for tenant/{tenant}, until ")), "{told}");
        let mode = std::fs::metadata(folder.path().join(&file)).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        secrets.push(std::fs::read_to_string(folder.path().join(&file)).expect("reads").trim().to_owned());
        // Each makes a function and connects it with its own ports.
        let [inside, outside] = [format!("inside={tenant}-in"), format!("outside={tenant}-out")];
        let name = format!("{tenant}-fw");
        let create = [
            "function",
            "create",
            &name,
            "--image",
            "firewall",
            "--tenant",
            tenant,
            "--config",
            "default_action=accept",
            "--attach",
            &inside,
            "--attach",
            &outside,
        ];
        daemon.done(Some(&file), &create);
    }
    let (red, blue) = (secrets[0].as_str(), secrets[1].as_str());
    let began = Instant::now();
    let packets = |token: &str, name: &str| {
        let function = daemon.json(Some(token), "GET", &format!("/v1/functions/{name}"), None);
        function["status"]["packets"].as_u64().expect("a count")
    };
    while packets(red, "red-fw") == 0 || packets(blue, "blue-fw") == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "packets pass");
        std::thread::sleep(Duration::from_millis(20));
    }

    // Whatever red reads has its own in it, and nothing of blue.
    for path in [
        "/v1/functions",
        "/v1/ports",
        "/v1/tenants",
        "/v1/account",
        "/v1/memory",
        "/v1/events?after=0",
        "/metrics",
    ] {
        let (status, text) = daemon.ask(Some(red), "GET", path, None);
        assert_eq!(status, 200, "{path}: {text}");
        assert!(text.contains("red") && !text.contains("blue") && !text.contains("hall"), "{path}: {text}");
    }
    assert_eq!(names(&daemon.json(Some(blue), "GET", "/v1/ports", None)), ["blue-in", "blue-out"]);
    for path in
        ["/v1/functions/blue-fw", "/v1/functions/blue-fw/logs", "/v1/ports/blue-in", "/v1/switches/hall"]
    {
        assert_eq!(daemon.ask(Some(red), "GET", path, None).0, 404, "{path}");
    }
    let shown = daemon.done(Some("red.token"), &["get", "all"]);
    assert!(shown.contains("red-fw") && !shown.contains("blue"), "{shown}");
    // And changes nothing of it.
    assert_eq!(daemon.ask(Some(red), "DELETE", "/v1/functions/blue-fw", None).0, 404);
    assert_eq!(daemon.ask(Some(red), "POST", "/v1/functions/blue-fw/pause", None).0, 404);
    let of = |more: Value| {
        let mut spec = json!({"image": "forwarder", "tenant": "red"});
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        spec
    };
    for (more, status, at) in [
        (json!({"tenant": "blue"}), 403, "functions.x.tenant"),
        (json!({"image": "/etc/passwd"}), 403, "functions.x.image"),
        (json!({"image": "registry.example.org/nf/x:1"}), 403, "functions.x.image"),
        (json!({"image": "dpi", "config": {"rules": "/etc/passwd"}}), 403, "functions.x.config.rules"),
        (json!({"max_call": "10s"}), 403, "functions.x.max_call"),
        (json!({"worker": 0}), 403, "functions.x.worker"),
        (json!({"cpu": {"reserve": "50%"}}), 403, "functions.x.cpu.reserve"),
        (json!({"attach": {"left": "blue-in"}}), 422, "functions.x.attach.left"),
        (json!({"attach": {"left": "hall"}}), 422, "functions.x.attach.left"),
    ] {
        assert_eq!(daemon.refused(red, "/v1/functions/x", of(more)), (status, vec![at.to_owned()]));
    }
    assert_eq!(daemon.refused(red, "/v1/functions/blue-fw", of(json!({}))).0, 409);
    assert_eq!(daemon.refused(red, "/v1/ports/mine", json!({"type": "null", "tenant": "red"})).0, 403);
    // What an administrator joins with its function is in the way of a deletion, and not told.
    let joined = json!({"spec": ["blue-free", "red-two:0"]});
    daemon.json(
        None,
        "PUT",
        "/v1/ports/blue-free",
        Some(json!({"spec": {"type": "null", "tenant": "blue"}})),
    );
    daemon.json(Some(red), "PUT", "/v1/functions/red-two?wait=true", Some(json!({"spec": of(json!({}))})));
    daemon.json(None, "PUT", "/v1/wires/blue-free~red-two:0", Some(joined));
    let (status, text) = daemon.ask(Some(red), "DELETE", "/v1/functions/red-two", None);
    assert!(status == 409 && !text.contains("blue"), "{status} {text}");
    // Nor whom its interface leads to.
    let wire = json!({"spec": ["red-two:0", "red-two:1"]});
    let (status, text) = daemon.ask(Some(red), "PUT", "/v1/wires/red-two:0~red-two:1", Some(wire));
    assert!(status == 422 && !text.contains("blue") && text.contains("in its way"), "{status} {text}");
    daemon.json(None, "DELETE", "/v1/wires/blue-free~red-two:0", None);

    // A whole document prunes what is red's own.
    let apply = json!({"superfluid": 1, "functions": {"red-new": {"image": "forwarder", "tenant": "red"}},
        "wires": [["red-new:left", "red-new:up"]]});
    let (status, text) = daemon.ask(Some(red), "POST", "/v1/apply", Some(apply));
    assert!(status == 422 && text.contains("wires") && text.contains("`up`"), "{text}");
    let apply = json!({"superfluid": 1, "functions": {"red-new": {"image": "forwarder", "tenant": "red"}},
        "chains": {"red-chain": ["red-in", "red-new", "red-out"]}});
    let done = daemon.json(Some(red), "POST", "/v1/apply?prune=true&wait=true", Some(apply));
    let mut deleted: Vec<_> =
        done["deleted"].as_array().expect("a list").iter().map(|id| id["name"].clone()).collect();
    deleted.sort_by_key(ToString::to_string);
    assert_eq!(deleted, ["red-fw", "red-two"]);
    assert_eq!(names(&daemon.json(None, "GET", "/v1/functions", None)), ["blue-fw", "red-new"]);
    assert_eq!(names(&daemon.json(None, "GET", "/v1/ports", None)).len(), 5);

    // All of it is there again after a daemon that was killed.
    drop(daemon);
    let daemon = Daemon::start(folder.path());
    assert_eq!(names(&daemon.json(Some(red), "GET", "/v1/functions", None)), ["red-new"]);
    assert_eq!(names(&daemon.json(Some(red), "GET", "/v1/chains", None)), ["red-chain"]);
    let wrong = format!("sft_{}", "0".repeat(64));
    assert_eq!(daemon.ask(Some(&wrong), "GET", "/v1/functions", None).0, 401);

    // A token that is deleted is none at once, and its streams end.
    let mut stream = BufReader::new(daemon.begin(Some(red), "GET", "/v1/events?follow=true", None));
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).expect("a head");
    }
    assert_eq!(daemon.done(None, &["token", "delete", "red"]), "token/red deleted\n");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("it ends");
    assert_eq!(rest, "0\r\n\r\n");
    let refused = daemon.program(Some("red.token"), &["get", "functions"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && told.contains("unknown, deleted or expired"), "{told}");
    let gone = daemon.program(None, &["delete", "tenant", "blue"]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("tokens are for it: blue"), "{gone:?}");

    // Who did what is written down, and no secret is, anywhere.
    let audit = std::fs::read_to_string(folder.path().join("state/audit.jsonl")).expect("reads");
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().any(|line| line["who"]["token"] == "red" && line["outcome"] == "done"));
    assert!(lines.iter().any(|line| line["who"]["token"] == "red" && line["status"] == 403));
    assert!(lines.iter().any(|line| line["status"] == 401 && line["who"]["uid"].is_u64()));
    let log = std::fs::read_to_string(folder.path().join("log")).expect("reads");
    assert!(!audit.contains(&red[4..]) && !log.contains(&red[4..]));
}

#[test]
fn a_tokens_file_is_its_owners_and_holds_a_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    let ask = |text: &str, mode: u32| {
        std::fs::write(&file, text).expect("writes");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("sets");
        let mut command = Command::new(env!("CARGO_BIN_EXE_superfluid"));
        let output =
            command.args(["health", "--socket", "none", "--token-file"]).arg(&file).output().expect("runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let secret = format!("sft_{}", "0a".repeat(32));
    let (code, told) = ask(&secret, 0o644);
    assert!(code == Some(2) && told.contains("others may look into it (mode 644)"), "{code:?} {told}");
    let (code, told) = ask("sft_hush", 0o600);
    assert!(code == Some(2) && told.contains("no token in it") && !told.contains("hush"), "{told}");
    // With a good one it is asked for the daemon, which there is not.
    assert_eq!(ask(&secret, 0o600).0, Some(3));
}
