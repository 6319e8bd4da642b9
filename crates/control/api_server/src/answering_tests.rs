//! What a tenant asks for is read beside the thread that answers, however large its objects are.

#[allow(dead_code, reason = "not all users of the client need all of it")]
#[path = "../tests/support/client.rs"]
mod client;
#[allow(dead_code, reason = "not all users of the fake need all of it")]
#[path = "../tests/support/fake.rs"]
mod fake;

use crate::stored::LARGE_HERE;
use crate::{Server, Settings, Socket};
use client::{Client, Got};
use fake::Fake;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use store::Store;
use tokio::sync::oneshot;

/// Followers of a tenant's function.
const FOLLOWERS: usize = 8;

fn asked(client: &mut Client, token: &str, method: &str, path: &str, body: &Value) -> Got {
    let bearer = format!("Bearer {token}");
    let text = if body.is_null() { String::new() } else { body.to_string() };
    client.ask(method, path, &[("authorization", &bearer)], &text)
}

fn follower(socket: &Path, token: &str, path: &str) -> Client {
    let (mut client, bearer) = (Client::connect(socket), format!("Bearer {token}"));
    client.send("GET", path, &[("authorization", &bearer)], b"").expect("asks");
    assert_eq!(client.head().expect("answers").status, 200);
    client
}

#[test]
fn no_large_object_is_taken_apart_on_the_thread_that_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut settings = Settings::new(path("socket"), path("audit.jsonl"));
    settings.tenants = Some(Socket { path: path("tenants"), mode: 0o600, owner: None, group: None });
    let store = Arc::new(Store::open(&path("state")).expect("a store"));
    let fake = Arc::new(Fake::default());
    let server = Server::bind(&settings, store, fake.clone()).expect("binds");
    let (end, ended) = oneshot::channel::<()>();
    let answers = std::thread::spawn(move || {
        let until = async {
            let _ = ended.await;
        };
        server.serve_until(until).expect("serves");
        LARGE_HERE.get()
    });
    let mut admin = Client::connect(&path("socket"));
    assert_eq!(admin.put("/v1/tenants/red", &json!({})).status, 201);
    let made = admin.post("/v1/tokens", r#"{"name": "t", "tenant": "red"}"#).json();
    let token = made["secret"].as_str().expect("a secret");
    let mut client = Client::connect(&path("tenants"));
    let mut ask = |method: &str, path: &str, body: Value, status: u16| {
        let got = asked(&mut client, token, method, path, &body);
        assert_eq!(
            got.status,
            status,
            "{method} {path}: {}",
            got.text().chars().take(300).collect::<String>()
        );
    };
    let rules: Vec<String> = (0..10_000).map(|n| format!("rule {n}")).collect();
    let spec = json!({"image": "firewall", "tenant": "red", "config": {"rules": rules}});
    ask("PUT", "/v1/functions/fw", json!({"spec": spec}), 201);
    ask("POST", "/v1/functions/fw/snapshots", json!({"name": "saved"}), 201);
    let tenants = path("tenants");
    let mut followers: Vec<Client> = (0..FOLLOWERS)
        .map(|n| format!("/v1/functions/fw/{}?follow=true", if n % 2 == 0 { "logs" } else { "events" }))
        .map(|path| follower(&tenants, token, &path))
        .collect();
    let mut events = follower(&tenants, token, "/v1/events?follow=true");
    for n in 0..20 {
        fake.say(&format!("line {n}"));
        ask("GET", "/v1/health", Value::Null, 200);
    }
    for follower in &mut followers {
        assert!(!follower.chunk().expect("lines").is_empty());
    }
    ask("GET", "/v1/functions/fw", Value::Null, 200);
    ask("GET", "/v1/functions", Value::Null, 200);
    ask("GET", "/v1/functions/fw/logs", Value::Null, 200);
    ask("GET", "/v1/functions/fw/events", Value::Null, 200);
    ask("GET", "/v1/functions/fw/report", Value::Null, 200);
    ask("POST", "/v1/functions/fw/pause", Value::Null, 200);
    ask("POST", "/v1/functions/fw/resume", Value::Null, 200);
    ask("POST", "/v1/functions/fw/restart", Value::Null, 200);
    ask("POST", "/v1/functions/fw/upgrade", json!({"image": "firewall2"}), 200);
    ask("POST", "/v1/snapshots/saved/restore", json!({"function": "fw"}), 200);
    ask("PUT", "/v1/functions/fw2?from=saved", json!({"spec": spec}), 201);
    ask("POST", "/v1/apply?dry_run=true", json!({"superfluid": 1, "functions": {"fw": spec}}), 200);
    ask("POST", "/v1/check", json!({"superfluid": 1, "functions": {"fw": spec}}), 200);
    ask("GET", "/v1/operations", Value::Null, 200);
    ask("DELETE", "/v1/functions/fw2", Value::Null, 200);
    assert!(!events.chunk().expect("lines").is_empty());
    drop((followers, events));
    drop(end);
    assert_eq!(answers.join().expect("ends well"), 0, "large objects were taken apart there");
}
