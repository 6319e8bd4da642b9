//! Memory at its limits: what is promised is there or refused, and everything else works on. Needs no
//! privileges.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use serde_json::{Value, json};
use support::daemon::{Daemon, Options};
use support::http::Socket;

const MIB: u64 = 1 << 20;

/// Functions until one is refused; how many there are then, and what the last one was told.
fn fill(socket: &mut Socket, tenant: &str) -> (usize, Value) {
    let spec = json!({"image": "forwarder", "tenant": tenant});
    for n in 0..100 {
        let (status, answer) = socket.put(&format!("functions/{tenant}{n}"), &spec);
        match status {
            201 => {}
            422 => return (n, answer),
            _ => panic!("{status}: {answer}"),
        }
    }
    panic!("there is no limit");
}

#[test]
fn at_the_limit_all_can_be_looked_at_and_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new(folder.path()).shared_cache();
    let daemon = options.clone().arguments(["--memory", "12MiB"]).start();
    let mut socket = daemon.connect();
    let pool = json!({"buffers": 512, "pages": "ordinary"});
    for (name, memory) in [("small", json!({"limit": "4MiB", "reserve": "3MiB"})), ("large", json!({}))] {
        let (status, answer) =
            socket.put(&format!("tenants/{name}"), &json!({"pool": pool, "memory": memory}));
        assert_eq!(status, 201, "{answer}");
    }
    // The tenant's, then the host's.
    let (small, answer) = fill(&mut socket, "small");
    assert_eq!(small, 2, "{answer}");
    assert_eq!(answer["faults"][0]["at"], format!("functions.small{small}.memory"));
    let says = answer["faults"][0]["message"].as_str().expect("words");
    assert!(says.contains("of the 4MiB of its tenant `small` are left; allowed: "), "{says}");
    let (large, answer) = fill(&mut socket, "large");
    let says = answer["faults"][0]["message"].as_str().expect("words");
    assert!(says.contains("of the 12MiB that may be promised on this host"), "{says}");
    assert!(large >= 6, "{large}");
    // Everything but asking for more.
    let memory = socket.get("/v1/memory");
    let promised = |memory: &Value| memory["promised"]["bytes"].as_u64().expect("a number");
    assert_eq!(memory["promised"]["limit_bytes"], 12 * MIB);
    assert_eq!(memory["promised"]["left_bytes"], 12 * MIB - promised(&memory));
    assert!(promised(&memory) > 10 * MIB && promised(&memory) <= 12 * MIB, "{memory}");
    let tenant = &memory["tenants"]["small"];
    assert_eq!((&tenant["functions"], &tenant["limit_bytes"]), (&json!(2), &json!(4 * MIB)));
    assert_eq!(tenant["pool_bytes"], MIB, "{tenant}");
    let function = &memory["functions"]["small0"];
    for key in ["private_bytes", "resident_bytes", "page_tables_bytes", "runtime_bytes", "promised_bytes"] {
        assert!(function[key].as_u64().expect("a number") > 0, "{key} in {function}");
    }
    assert!(function["resident_bytes"].as_u64() <= function["private_bytes"].as_u64(), "{function}");
    assert_eq!(function["limit_bytes"], MIB);
    assert!(memory["runtime"]["code_bytes"].as_u64() > Some(1000), "{memory}");
    assert!(memory["disk"]["store_bytes"].as_u64() > Some(1000), "{memory}");
    let status = &socket.get("/v1/functions/small0")["status"]["memory"];
    assert_eq!(status["promised"], function["promised_bytes"]);
    for (arguments, says) in [
        ("memory", "tenants"),
        ("memory -o wide", "page_tables"),
        ("memory -o yaml", "promised_bytes"),
        ("memory -o json", "\"small0\""),
        ("get functions", "large0"),
        ("describe function small0", "forwarder"),
        ("account", "balanced"),
        ("top", "small0"),
    ] {
        let printed = daemon.done(arguments).to_lowercase();
        assert!(printed.contains(says), "{arguments}: {printed}");
    }
    let metrics = String::from_utf8(socket.text("/metrics")).expect("text");
    for line in [
        "superfluid_memory_limit_bytes 12582912",
        "superfluid_tenant_memory_limit_bytes{tenant=\"small\"} 4194304",
        "superfluid_tenant_memory_reserved_bytes{tenant=\"large\"} 0",
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line} in {metrics}");
    }
    assert!(!metrics.contains("superfluid_tenant_memory_limit_bytes{tenant=\"large\"}"), "{metrics}");
    // A snapshot is on disk and counted there.
    let saved = daemon.done("snapshot save small0 one");
    assert!(saved.contains("snapshot/one"), "{saved}");
    assert!(socket.get("/v1/functions/small0")["status"]["memory"]["disk"].as_u64() > Some(1000));
    let before = promised(&socket.get("/v1/memory"));
    daemon.done("delete function large0");
    assert!(promised(&socket.get("/v1/memory")) < before - MIB);
    let (status, answer) = socket.put("functions/again", &json!({"image": "forwarder", "tenant": "large"}));
    assert_eq!(status, 201, "{answer}");
    assert!(daemon.end().contains("the account balances"));
    // With less to promise, what does not fit is left out and told; the rest runs.
    let daemon = options.arguments(["--memory", "8MiB"]).start();
    let mut socket = daemon.connect();
    let memory = socket.get("/v1/memory");
    assert!(promised(&memory) <= 8 * MIB, "{memory}");
    assert_eq!(memory["tenants"]["small"]["functions"], 2, "what is reserved is kept: {memory}");
    assert!(daemon.log().contains("may be promised on this host"), "{}", daemon.log());
    let functions = socket.get("/v1/functions");
    let functions = functions["items"].as_array().expect("a list");
    let left_out: Vec<&str> = functions
        .iter()
        .filter(|it| it["status"]["state"] == "down")
        .filter_map(|it| it["status"]["reason"].as_str())
        .collect();
    let is_told = |reason: &&str| reason.contains("may be promised on this host");
    assert!(!left_out.is_empty() && left_out.iter().all(is_told), "{left_out:?}");
    assert!(daemon.end().contains("the account balances"));
}

/// What could not be started shows in health until it is there or gone, and is begun when it is wanted again,
/// of whatever kind it is.
#[test]
fn what_was_left_out_is_in_health_and_begun_when_it_is_wanted_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new(folder.path()).shared_cache();
    let of = |name: &str| {
        let [from, to] = ["in", "out"].map(|end| format!("{name}-{end}"));
        json!({
            "superfluid": 1,
            "tenants": {"default": {"pool": {"buffers": 512, "pages": "ordinary"}}},
            "ports": {&from: {"type": "generator", "rate": "1kpps"}, &to: {"type": "sink"}},
            "functions": {name: {"image": "forwarder"}},
            "chains": {format!("{name}-chain"): [from, name, to]},
        })
    };
    let warnings = |daemon: &Daemon| -> Vec<String> {
        let health = daemon.get("/v1/health");
        assert_eq!(health["healthy"], true, "{health}");
        serde_json::from_value(health["warnings"].clone()).expect("texts")
    };
    let daemon = options.clone().arguments(["--memory", "12MiB"]).start();
    for name in ["one", "other"] {
        daemon.post("/v1/apply?wait=true", Some(of(name)));
    }
    assert_eq!(warnings(&daemon), [""; 0]);
    daemon.end();
    // Room for the pool and one function.
    let daemon = options.arguments(["--memory", "3MiB"]).start();
    let told = warnings(&daemon);
    let is_told = |object: &str| {
        let begins = format!("{object} could not be started with the daemon: ");
        told.iter().any(|told| told.starts_with(&begins))
    };
    let lost = if is_told("function/one") { "one" } else { "other" };
    let kept = if lost == "one" { "other" } else { "one" };
    assert!(is_told(&format!("function/{lost}")) && is_told(&format!("chain/{lost}-chain")), "{told:?}");
    assert!(!told.iter().any(|told| told.contains(&format!("{kept}-chain"))), "{told:?}");
    for gone in [format!("/v1/chains/{kept}-chain"), format!("/v1/functions/{kept}")] {
        let (status, answer) = daemon.ask("DELETE", &gone, None);
        assert!(status < 300, "{answer}");
    }
    daemon.post("/v1/apply?wait=true", Some(of(lost)));
    assert_eq!(warnings(&daemon), [""; 0]);
    daemon.wait("its chain has packets for it", || {
        daemon.get(&format!("/v1/functions/{lost}"))["status"]["packets"].as_u64() > Some(0)
    });
    assert!(daemon.end().contains("the account balances"));
}
