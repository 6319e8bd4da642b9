//! Memory at its limits: what is promised is there or refused, and everything else works on. Needs no privileges.

#[path = "kill/program.rs"]
#[allow(dead_code)] // Others need more of it.
mod program;

use program::{Daemon, Socket};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

const MIB: u64 = 1 << 20;

fn put(socket: &mut Socket, path: &str, spec: &Value) -> (u16, Value) {
    let body = json!({ "spec": spec });
    socket.ask("PUT", &format!("/v1/{path}?wait=true"), Some(&body)).expect("it answers")
}

/// Functions until one is refused; how many there are then, and what the last one was told.
fn fill(socket: &mut Socket, tenant: &str) -> (usize, Value) {
    let spec = json!({"image": "forwarder", "tenant": tenant});
    for n in 0..100 {
        let (status, answer) = put(socket, &format!("functions/{tenant}{n}"), &spec);
        match status {
            201 => {}
            422 => return (n, answer),
            _ => panic!("{status}: {answer}"),
        }
    }
    panic!("there is no limit");
}

fn command(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_superfluid"))
        .args(arguments.split(' '))
        .env("SUPERFLUID_SOCKET", folder.join("s.sock"))
        .output()
        .expect("the program starts")
}

/// What a command that ends well prints.
fn done(folder: &Path, arguments: &str) -> String {
    let output = command(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn at_the_limit_all_can_be_looked_at_and_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = || Command::new(env!("CARGO_BIN_EXE_superfluid"));
    let daemon = Daemon::spawn_with(own(), folder.path(), &["--memory", "12MiB"]).listening();
    let mut socket = daemon.connect().expect("it listens");
    let pool = json!({"buffers": 512, "pages": "ordinary"});
    for (name, memory) in [("small", json!({"limit": "4MiB", "reserve": "3MiB"})), ("large", json!({}))] {
        let (status, answer) =
            put(&mut socket, &format!("tenants/{name}"), &json!({"pool": pool, "memory": memory}));
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
        let printed = done(folder.path(), arguments).to_lowercase();
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
    let saved = done(folder.path(), "snapshot save small0 one");
    assert!(saved.contains("snapshot/one"), "{saved}");
    assert!(socket.get("/v1/functions/small0")["status"]["memory"]["disk"].as_u64() > Some(1000));
    let before = promised(&socket.get("/v1/memory"));
    done(folder.path(), "delete function large0");
    assert!(promised(&socket.get("/v1/memory")) < before - MIB);
    let (status, answer) =
        put(&mut socket, "functions/again", &json!({"image": "forwarder", "tenant": "large"}));
    assert_eq!(status, 201, "{answer}");
    assert!(daemon.end().contains("the account balances"));
    // With less to promise, what does not fit is left out and told; the rest runs.
    let daemon = Daemon::spawn_with(own(), folder.path(), &["--memory", "8MiB"]).listening();
    let mut socket = daemon.connect().expect("it listens");
    let memory = socket.get("/v1/memory");
    assert!(promised(&memory) <= 8 * MIB, "{memory}");
    assert_eq!(memory["tenants"]["small"]["functions"], 2, "what is reserved is kept: {memory}");
    assert!(daemon.log().contains("may be promised on this host"), "{}", daemon.log());
    assert!(daemon.end().contains("the account balances"));
}
