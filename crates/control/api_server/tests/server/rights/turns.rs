//! What tenants ask for is done when their turn comes, and keeps no other client waiting until then.

use super::Shared;
use crate::client::Client;
use serde_json::json;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

const DOCUMENT: &str = r#"{"superfluid": 1, "functions": {"a": {"image": "firewall", "tenant": "crimson"}}}"#;

/// Sends a request of `crimson`, and does not wait for the answer.
fn sent(shared: &Shared, method: &str, path: &str, body: &str) -> Client {
    let (mut client, bearer) = (shared.tenants(), format!("Bearer {}", shared.crimson));
    client.send(method, path, &[("authorization", &bearer)], body.as_bytes()).expect("asks");
    client
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn connections(shared: &Shared) -> u64 {
    let text = shared.server.client().get("/metrics").text();
    let line = text.lines().find(|line| line.starts_with("superfluid_daemon_connections "));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a number")
}

#[test]
fn a_tenants_requests_wait_for_its_turn_and_others_do_not() {
    let shared = Shared::new();
    let function = json!({"spec": {"image": "firewall", "tenant": "crimson"}}).to_string();
    for (method, path, body, status) in [
        ("GET", "/v1/functions", "", 200),
        ("GET", "/v1/health", "", 200),
        ("GET", "/v1/operations", "", 200),
        ("GET", "/v1/snapshots", "", 200),
        ("GET", "/metrics", "", 200),
        ("POST", "/v1/check", DOCUMENT, 200),
        ("POST", "/v1/apply?dry_run=true", DOCUMENT, 200),
        ("PUT", "/v1/functions/crimson-new", &function, 201),
        ("POST", "/v1/functions/crimson-fw/pause", "", 200),
        ("POST", "/v1/functions/crimson-fw/snapshots", r#"{"name": "crimson-again"}"#, 201),
    ] {
        shared.server.fake.hold_requests_of("crimson");
        let mut waits = sent(&shared, method, path, body);
        until(path, || shared.server.fake.requests_held() == 1);
        assert_eq!(shared.server.client().get("/v1/functions").status, 200);
        assert_eq!(shared.ask(&shared.azure, "GET", "/v1/functions", "").status, 200);
        let azure = json!({"image": "firewall", "tenant": "azure"});
        assert!([200, 201].contains(&shared.put(&shared.azure, "/v1/functions/azure-new", azure).status));
        shared.server.fake.let_requests_go();
        assert_eq!(waits.read().expect("answers").status, status, "{method} {path}");
    }
}

#[test]
fn what_a_client_does_not_wait_for_any_more_is_not_done() {
    let shared = Shared::new();
    assert_eq!(shared.ask(&shared.crimson, "POST", "/v1/check", DOCUMENT).status, 200);
    until("the others have left", || connections(&shared) == 1);
    shared.server.fake.hold_requests_of("crimson");
    let leaves = sent(&shared, "POST", "/v1/check", DOCUMENT);
    until("it waits", || shared.server.fake.requests_held() == 1);
    drop(leaves);
    until("it has left", || connections(&shared) == 1);
    shared.server.fake.let_requests_go();
    assert_eq!(shared.ask(&shared.crimson, "POST", "/v1/check", DOCUMENT).status, 200);
    assert_eq!(shared.server.fake.checked.load(SeqCst), 2, "the one that left was not checked");
}
