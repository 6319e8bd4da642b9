//! Two tenants on one daemon with real functions: each sees and changes its own, with the program's own
//! commands and over the socket. Needs no privileges.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use support::commands::{Commands, text};
use support::daemon::{self, Options, SOCKET};
use support::http;

const TENANTS_SOCKET: &str = "tenants";

/// A daemon for administrators and tenants: a client that shows a token asks by the tenants' socket, one that
/// shows none by the administrators'.
struct Daemon {
    /// As administrators see it.
    admin: daemon::Daemon,
}

impl Daemon {
    fn start(folder: &Path) -> Daemon {
        let options = Options::new(folder).tenants_socket(TENANTS_SOCKET).limit(Duration::from_secs(60));
        Daemon { admin: options.start() }
    }

    fn socket(token: Option<&str>) -> &'static str {
        if token.is_some() { TENANTS_SOCKET } else { SOCKET }
    }

    /// Status and body.
    fn ask(&self, token: Option<&str>, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        http::exchange(&self.admin.path(Self::socket(token)), token, method, path, body.as_ref())
    }

    fn begin(&self, token: &str, method: &str, path: &str) -> UnixStream {
        http::begin(&self.admin.path(TENANTS_SOCKET), Some(token), method, path, None)
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

    /// Commands of a client that shows the token in a file.
    fn tenant(&self, file: &str) -> Commands {
        Commands::clone(&self.admin).asking(TENANTS_SOCKET).variable("SUPERFLUID_TOKEN_FILE", file)
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
    daemon.admin.done("apply -f host.json");
    let mut secrets = Vec::new();
    for tenant in ["red", "blue"] {
        let file = format!("{tenant}.token");
        let create = format!("token create {tenant} --tenant {tenant} --expires 1d --file {file}");
        let told = daemon.admin.done(&create);
        assert!(told.starts_with(&format!("token/{tenant} created for tenant/{tenant}, until ")), "{told}");
        let mode = std::fs::metadata(folder.path().join(&file)).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        secrets.push(std::fs::read_to_string(folder.path().join(&file)).expect("reads").trim().to_owned());
        // Each makes a function and connects it with its own ports.
        let create = format!(
            "function create {tenant}-fw --image firewall --tenant {tenant} --config default_action=accept \
             --attach inside={tenant}-in --attach outside={tenant}-out"
        );
        daemon.tenant(&file).done(&create);
    }
    let (red, blue) = (secrets[0].as_str(), secrets[1].as_str());
    let packets = |token: &str, name: &str| {
        let function = daemon.json(Some(token), "GET", &format!("/v1/functions/{name}"), None);
        function["status"]["packets"].as_u64().expect("a count")
    };
    daemon.admin.wait("packets pass", || packets(red, "red-fw") > 0 && packets(blue, "blue-fw") > 0);

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
    let shown = daemon.tenant("red.token").done("get all");
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
        (json!({"guest": "container", "image": "/srv/images/a", "memory": "8MiB"}), 403, "functions.x.guest"),
        (json!({"guest": "program", "command": ["/usr/bin/a"], "memory": "8MiB"}), 403, "functions.x.guest"),
        (json!({"guest": "vm", "kernel": "/boot/vmlinuz", "memory": "256MiB"}), 403, "functions.x.guest"),
        (json!({"attach": {"left": "blue-in"}}), 422, "functions.x.attach.left"),
        (json!({"attach": {"left": "hall"}}), 422, "functions.x.attach.left"),
    ] {
        assert_eq!(daemon.refused(red, "/v1/functions/x", of(more)), (status, vec![at.to_owned()]));
    }
    assert_eq!(daemon.refused(red, "/v1/functions/blue-fw", of(json!({}))).0, 409);
    assert_eq!(daemon.refused(red, "/v1/ports/mine", json!({"type": "null", "tenant": "red"})).0, 403);
    let over = |port: &str| json!({"mode": "direct", "tenant": "red", "over": [port]});
    assert_eq!(
        daemon.refused(red, "/v1/devices/x", over("blue-in")),
        (422, vec!["devices.x.over[0]".to_owned()])
    );
    assert_eq!(
        daemon.refused(red, "/v1/devices/blue-in", json!({"mode": "rootless", "tenant": "red"})).0,
        409
    );
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
    // Nor what its interface leads to.
    daemon.json(Some(red), "PUT", "/v1/functions/red-end?wait=true", Some(json!({"spec": of(json!({}))})));
    let wire = json!({"spec": ["red-end:0", "red-two:0"]});
    let (status, text) = daemon.ask(Some(red), "PUT", "/v1/wires/red-end:0~red-two:0", Some(wire));
    assert!(status == 422 && !text.contains("blue") && text.contains("in its way"), "{status} {text}");
    daemon.json(Some(red), "DELETE", "/v1/functions/red-end", None);
    daemon.json(None, "DELETE", "/v1/wires/blue-free~red-two:0", None);
    // Nor what else of the host or of another tenant needs it: it is told the same, whatever that is.
    let mut told = std::collections::BTreeSet::new();
    for (path, spec, name) in [
        ("/v1/chains/blue-way", json!(["blue-free", "red-two:0"]), "blue-way"),
        ("/v1/services/77", json!({"to": "red-two:0", "for": ["blue"]}), "77"),
        ("/v1/wires/hall~red-two:0", json!(["hall", "red-two:0"]), "wires"),
        (
            "/v1/functions/blue-two",
            json!({"image": "forwarder", "tenant": "blue", "attach": {"left": "red-two:0"}}),
            "blue-two",
        ),
    ] {
        daemon.json(None, "PUT", &format!("{path}?wait=true"), Some(json!({ "spec": spec })));
        let (status, text) = daemon.ask(Some(red), "DELETE", "/v1/functions/red-two", None);
        for hidden in ["blue", "hall", "77"] {
            assert!(status == 409 && !text.contains(hidden), "{path}: {status} {text}");
        }
        told.insert(text);
        let (status, text) = daemon.ask(None, "DELETE", "/v1/functions/red-two", None);
        assert!(
            status == 409 && text.contains(name),
            "an administrator is told all: {path}: {status} {text}"
        );
        daemon.json(None, "DELETE", path, None);
    }
    assert_eq!(told.len(), 1, "{told:?}");

    // A reader of the host reads what both have, and changes nothing.
    daemon.admin.done("token create watcher --host --file watcher.token");
    let watcher = std::fs::read_to_string(folder.path().join("watcher.token")).expect("reads");
    let watcher = watcher.trim();
    for path in ["/v1/functions", "/v1/account", "/v1/memory", "/v1/events?after=0", "/metrics"] {
        let (status, text) = daemon.ask(Some(watcher), "GET", path, None);
        assert!(status == 200 && text.contains("red") && text.contains("blue"), "{path}: {status}");
    }
    assert_eq!(
        daemon.tenant("watcher.token").done("get switches -o json"),
        daemon.admin.done("get switches -o json")
    );
    let (status, told) = daemon.tenant("watcher.token").refused("function pause red-fw");
    assert!(status == 1 && told.contains("`watcher` gives the right to nothing else"), "{told}");
    let (_, told) = daemon.tenant("watcher.token").refused("capture red-in --count 1");
    assert!(told.contains("`watcher` gives the right to nothing else"), "{told}");
    let (_, told) = daemon.tenant("watcher.token").refused("token ls");
    assert!(told.contains("`watcher` gives the right to nothing else"), "{told}");
    let listed = daemon.admin.done("token ls");
    assert!(listed.lines().any(|line| line.contains("watcher") && line.contains("(host)")), "{listed}");

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

    assert_eq!(names(&daemon.json(Some(watcher), "GET", "/v1/functions", None)), ["blue-fw", "red-new"]);

    // A token that is deleted is none at once, and its streams end.
    let mut stream = BufReader::new(daemon.begin(red, "GET", "/v1/events?follow=true"));
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).expect("a head");
    }
    assert_eq!(daemon.admin.done("token delete red"), "token/red deleted\n");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("it ends");
    assert_eq!(rest, "0\r\n\r\n");
    let (status, told) = daemon.tenant("red.token").refused("get functions");
    assert!(status == 1 && told.contains("unknown, deleted or expired"), "{told}");
    let (_, told) = daemon.admin.refused("delete tenant blue");
    assert!(told.contains("tokens are for it: blue"), "{told}");

    // Which client did what is written down, and no secret is, anywhere.
    let audit = std::fs::read_to_string(folder.path().join("state/audit.jsonl")).expect("reads");
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().any(|line| line["who"]["token"] == "red" && line["outcome"] == "done"));
    assert!(lines.iter().any(|line| line["who"]["token"] == "red" && line["status"] == 403));
    assert!(lines.iter().any(|line| line["status"] == 401 && line["who"]["uid"].is_u64()));
    let log = std::fs::read_to_string(folder.path().join("log")).expect("reads");
    assert!(!audit.contains(&red[4..]) && !log.contains(&red[4..]));
}

#[test]
fn the_next_tenant_of_a_name_begins_with_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(folder.path());
    daemon.admin.write("tenant.yaml", "superfluid: 1\ntenants: {red: {}}\n");
    let begin = || {
        daemon.admin.done("apply -f tenant.yaml");
        daemon.admin.done("token create red --tenant red --file red.token");
        let secret = std::fs::read_to_string(folder.path().join("red.token")).expect("reads");
        std::fs::remove_file(folder.path().join("red.token")).expect("removed");
        secret.trim().to_owned()
    };
    let first = begin();
    daemon.json(
        Some(&first),
        "PUT",
        "/v1/functions/secret?wait=true",
        Some(json!({"spec": {"image": "monitor", "tenant": "red"}})),
    );
    let told = |token: &str| {
        ["/v1/events?after=0", "/v1/past-events", "/v1/history?of=function/secret"].map(|path| {
            let (status, text) = daemon.ask(Some(token), "GET", path, None);
            (status, text.contains("secret"))
        })
    };
    daemon.admin.wait("the history has it", || told(&first) == [(200, true); 3]);
    daemon.json(Some(&first), "DELETE", "/v1/functions/secret?wait=true", None);
    daemon.admin.done("token delete red");
    daemon.admin.done("delete tenant red");
    let next = begin();
    assert_eq!(told(&next)[..2], [(200, false); 2]);
    assert_eq!(daemon.ask(Some(&next), "GET", "/v1/history?of=function/secret", None).0, 404);
    let known = daemon.admin.done("events --since 1h");
    assert!(known.contains("function/secret"), "{known}");
}

#[test]
fn a_tokens_file_is_its_owners_and_holds_a_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let commands = Commands::new(folder.path());
    let ask = |secret: &str, mode: u32| {
        let file = commands.write("token", secret);
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).expect("sets");
        let output = commands.run("health --socket none --token-file token");
        (output.status.code(), text(&output.stderr))
    };
    let secret = format!("sft_{}", "0a".repeat(32));
    let (code, told) = ask(&secret, 0o644);
    assert!(code == Some(2) && told.contains("others may look into it (mode 644)"), "{code:?} {told}");
    let (code, told) = ask("sft_hush", 0o600);
    assert!(code == Some(2) && told.contains("no token in it") && !told.contains("hush"), "{told}");
    // With a good one it is asked for the daemon, which there is not.
    assert_eq!(ask(&secret, 0o600).0, Some(3));
}

/// What red is given: a port with a device over it that is its alone, and a device that blue opens too.
fn shared_document() -> Value {
    let mut document = document();
    document["devices"] = json!({
        "own": {"mode": "direct", "tenant": "red", "over": {"red-in": {"receive": "udp"}}, "share": "duplicate"},
        "common": {"mode": "rootless", "tenant": "red", "share": "duplicate", "open_to": [{"tenant": "blue"}]},
    });
    document["functions"] = json!({
        "red-fw": {"image": "forwarder", "tenant": "red", "max_call": "10s", "attach": {"left": "own", "right": "common"}},
        "red-last": {"image": "forwarder", "tenant": "red", "max_call": "10s", "attach": {"left": "common", "right": "red-out"}},
        "blue-fw": {"image": "forwarder", "tenant": "blue", "max_call": "10s", "attach": {"left": "blue-in", "right": "common"}},
    });
    document
}

#[test]
fn a_tenant_traces_and_captures_where_every_packet_is_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(folder.path());
    daemon.json(None, "POST", "/v1/apply?wait=true", Some(shared_document()));
    let token = |name: &str, tenant: &str, read_only: bool| -> String {
        let wanted = json!({"name": name, "tenant": tenant, "read_only": read_only});
        let issued = daemon.json(None, "POST", "/v1/tokens", Some(wanted));
        issued["secret"].as_str().expect("a secret").to_owned()
    };
    let (red, reader) = (token("red", "red", false), token("reader", "red", true));
    // What is captured is no text.
    let captured = |at: &str| {
        let (socket, wanted) =
            (daemon.admin.path(TENANTS_SOCKET), json!({"at": at, "count": 3, "for": "20s"}));
        let mut answer = Vec::new();
        let mut stream = http::begin(&socket, Some(&red), "POST", "/v1/captures", Some(&wanted));
        stream.read_to_end(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status: u16 = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        (status, answer)
    };
    let begin = |at: &str| {
        let (socket, wanted) = (daemon.admin.path(TENANTS_SOCKET), json!({"at": at, "for": "50s"}));
        let mut stream = http::begin(&socket, Some(&red), "POST", "/v1/captures", Some(&wanted));
        // It is answered when it has begun.
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("an answer");
        assert_eq!(&status, b"HTTP/1.1 200", "{at}");
        stream
    };

    // Hops of others are none, in a trace from anywhere.
    let wanted = json!({"count": 20, "for": "20s"});
    let (status, traced) = daemon.ask(Some(&red), "POST", "/v1/traces", Some(wanted));
    assert!(
        status == 200 && traced.contains("\"device/own\"") && traced.contains("\"function/red-fw\""),
        "{traced}"
    );
    assert!(!traced.contains("blue") && !traced.contains("device/common"), "{traced}");

    // What is shared, and what is another's.
    for (at, told) in [
        ("common", "packets of others may pass `common`"),
        ("red-fw:1~blue-fw:1", "there is no port, device or function `blue-fw`"),
        ("blue-fw", "there is no port, device or function `blue-fw`"),
        ("blue-in", "there is no port, device or function `blue-in`"),
        ("nothing", "there is no port, device or function `nothing`"),
    ] {
        let (status, answer) = captured(at);
        assert!(status == 422 && answer.contains(told), "{at}: {status} {answer}");
    }
    let (status, _) = daemon.ask(Some(&reader), "POST", "/v1/traces", Some(json!({"count": 1})));
    assert_eq!(status, 403, "a token for reading alone");

    // The graph is the tenant's, and so is what it is told of a device.
    let graph = daemon.json(Some(&red), "GET", "/v1/graph", None).to_string();
    assert!(graph.contains("red-fw") && graph.contains("\"own\"") && !graph.contains("blue"), "{graph}");
    let common = daemon.json(Some(&red), "GET", "/v1/devices/common", None);
    assert_eq!(common["status"]["other_openers"], 1, "{common}");
    assert!(!common["status"].to_string().contains("blue"), "{common}");

    // Two at a time; and when another's function comes to open the device, those there end before.
    let (first, second) = (begin("own"), begin("red-fw"));
    assert_eq!(captured("own").0, 503, "a third one");
    let mut own = shared_document()["devices"]["own"].clone();
    own["open_to"] = json!([{"tenant": "blue"}]);
    daemon.json(None, "PUT", "/v1/devices/own", Some(json!({"spec": own})));
    let spy = json!({"image": "forwarder", "tenant": "blue", "max_call": "10s", "attach": {"left": "own"}});
    daemon.json(None, "PUT", "/v1/functions/blue-spy?wait=true", Some(json!({"spec": spy})));
    let mut all = Vec::new();
    { first }.read_to_end(&mut all).expect("it ends with the change");
    assert_eq!(captured("own").0, 422, "packets of blue's may pass there now");
    assert!(!all.is_empty());
    drop(second);
}

#[test]
fn packets_pass_devices_that_a_tenant_has_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(folder.path());
    daemon.json(None, "POST", "/v1/apply?wait=true", Some(document()));
    let token = |tenant: &str| {
        daemon.admin.done(&format!("token create {tenant} --tenant {tenant} --file {tenant}.token"));
        std::fs::read_to_string(folder.path().join(format!("{tenant}.token")))
            .expect("reads")
            .trim()
            .to_owned()
    };
    let (red, blue) = (token("red"), token("blue"));
    let put = |path: &str, spec: Value| {
        daemon.json(Some(&red), "PUT", &format!("{path}?wait=true"), Some(json!({"spec": spec})))
    };
    let forwarder = |left: &str, right: &str| json!({"image": "forwarder", "tenant": "red", "attach": {"left": left, "right": right}});
    let pair = |more: &str| json!({"mode": "rootless", "tenant": "red", "share": more});
    let packets = |name: &str| {
        let function = daemon.json(Some(&red), "GET", &format!("/v1/functions/{name}"), None);
        function["status"]["packets"].as_u64().unwrap_or(0)
    };
    // One over a port of its own, and one by which its functions hand over to each other.
    put(
        "/v1/devices/front",
        json!({"mode": "direct", "tenant": "red", "over": {"red-in": {"receive": "udp"}}}),
    );
    put("/v1/devices/pair", pair("single"));
    put("/v1/functions/first", forwarder("front", "pair"));
    put("/v1/functions/last", forwarder("pair", "red-out"));
    daemon.admin.wait("packets pass the rootless device", || packets("last") > 0);
    // It is changed while packets pass, and a third function gets copies.
    put("/v1/devices/pair", pair("duplicate"));
    put("/v1/functions/third", json!({"image": "forwarder", "tenant": "red", "attach": {"left": "pair"}}));
    daemon.admin.wait("copies come to the third", || packets("third") > 0);
    let status = daemon.json(Some(&red), "GET", "/v1/devices/pair", None)["status"].clone();
    assert_eq!(
        (status["state"].as_str(), status["openers"].as_array().map(Vec::len)),
        (Some("up"), Some(3)),
        "{status}"
    );
    assert!(status["copied"].as_u64() > Some(0), "{status}");
    let described = daemon.tenant("red.token").done("describe device front");
    assert!(described.contains("red-in") && described.contains("first"), "{described}");

    // For another tenant there is none of it: it is told the same of what is not there.
    assert_eq!(daemon.ask(Some(&blue), "GET", "/v1/devices/pair", None).0, 404);
    assert_eq!(daemon.ask(Some(&blue), "DELETE", "/v1/devices/pair", None).0, 404);
    let told = |device: &str| {
        let spec = json!({"image": "forwarder", "tenant": "blue", "attach": {"left": device}});
        let (status, text) =
            daemon.ask(Some(&blue), "PUT", "/v1/functions/blue-x", Some(json!({"spec": spec})));
        (status, text.replace(device, "NAME"))
    };
    assert_eq!(told("pair"), told("nothing-there"));
    assert_eq!(told("pair").0, 422);

    // Its own faults are told with their place, and nothing of others.
    let (status, text) = daemon.ask(Some(&red), "DELETE", "/v1/devices/pair", None);
    assert!(status == 409 && text.contains("functions.first.attach.right"), "{status} {text}");
    let wrong = json!({"mode": "direct", "tenant": "red", "over": {"red-in": {"receive": "udp prot 53"}}});
    let (status, text) = daemon.ask(Some(&red), "PUT", "/v1/devices/front", Some(json!({"spec": wrong})));
    assert!(status == 422 && text.contains("devices.front.over.red-in.receive"), "{status} {text}");
    // Whether a tenant is there it does not learn by a device.
    for tenant in ["blue", "none-such"] {
        let spec = json!({"mode": "rootless", "tenant": "red", "open_to": [{"tenant": tenant}]});
        assert_eq!(
            daemon.refused(&red, "/v1/devices/pair", spec),
            (403, vec!["devices.pair.open_to".to_owned()])
        );
    }
    // Where the administrator puts another tenant's device over the port, this one takes nothing from it.
    let given = json!({"mode": "direct", "tenant": "blue", "over": {"red-in": {"receive": "tcp"}}});
    daemon.json(None, "PUT", "/v1/devices/given", Some(json!({"spec": given})));
    let greedy = json!({"mode": "direct", "tenant": "red", "over": {"red-in": {"priority": 0}}});
    assert_eq!(
        daemon.refused(&red, "/v1/devices/front", greedy.clone()),
        (403, vec!["devices.front.over.red-in".to_owned()])
    );
    daemon.json(None, "DELETE", "/v1/devices/given", None);
    put("/v1/devices/front", greedy);

    // All goes, in one document and one by one.
    let nothing = json!({"superfluid": 1, "devices": {"pair": pair("single")}});
    let done = daemon.json(Some(&red), "POST", "/v1/apply?prune=true&wait=true", Some(nothing));
    assert_eq!(done["deleted"].as_array().map(Vec::len), Some(4), "{done}");
    daemon.json(Some(&red), "DELETE", "/v1/devices/pair", None);
    assert_eq!(names(&daemon.json(None, "GET", "/v1/devices", None)), [""; 0]);
}
