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

/// What a tenant names is not kept from its owner while the tenant waits for its own turn.
#[test]
fn what_a_tenant_may_not_change_it_keeps_from_none() {
    let shared = Shared::new();
    let (pause, one, two) =
        ("/v1/functions/azure-fw/pause", "/v1/snapshots/azure-one", "/v1/snapshots/azure-two");
    let named = |snapshot: &str| json!({"name": snapshot.rsplit('/').next()}).to_string();
    for ((method, path), (theirs, of)) in [
        (("POST", pause), ("POST", pause)),
        (("POST", "/v1/functions/azure-fw/resume"), ("POST", pause)),
        (("POST", "/v1/functions/azure-fw/restart"), ("POST", pause)),
        (("POST", "/v1/functions/azure-fw/snapshots"), ("POST", pause)),
        (("DELETE", "/v1/functions/azure-fw"), ("POST", pause)),
        (("POST", "/v1/functions/crimson-fw/snapshots"), ("DELETE", one)),
        (("DELETE", two), ("DELETE", two)),
    ] {
        if theirs == "DELETE" {
            let saved = shared.ask(&shared.azure, "POST", "/v1/functions/azure-fw/snapshots", &named(of));
            assert_eq!(saved.status, 201, "{saved:?}");
        }
        shared.server.fake.hold_requests_of("crimson");
        let body = if path.ends_with("snapshots") { named(one) } else { String::new() };
        let mut client = sent(&shared, method, path, &body);
        let waits = std::thread::spawn(move || client.read().expect("answers").status);
        // Some are answered at once, others in the tenant's turn.
        until(path, || shared.server.fake.requests_held() == 1 || waits.is_finished());
        let got = shared.ask(&shared.azure, theirs, of, "");
        assert_eq!(got.status, 200, "{method} {path}: {got:?}");
        shared.server.fake.let_requests_go();
        let refused = waits.join().expect("no panic");
        assert!([201, 403, 404].contains(&refused), "{method} {path}: {refused}");
    }
}

/// Nor is what is the tenant's own kept from an administrator, who may want to stop it.
#[test]
fn what_a_tenant_waits_to_change_an_administrator_changes() {
    let shared = Shared::new();
    let function = json!({"spec": {"image": "firewall", "tenant": "crimson", "max_call": "3ms"}}).to_string();
    let (pause, save) = ("/v1/functions/crimson-fw/pause", "/v1/functions/crimson-fw/snapshots");
    for (method, path, body, status) in [
        ("POST", pause, "", 200),
        ("POST", "/v1/functions/crimson-fw/restart", "", 200),
        ("POST", save, r#"{"name": "crimson-again"}"#, 201),
        ("PUT", "/v1/functions/crimson-fw", &function, 200),
    ] {
        shared.server.fake.hold_requests_of("crimson");
        let mut waits = sent(&shared, method, path, body);
        until(path, || shared.server.fake.requests_held() == 1);
        // What is looked at before, is: the next job is the one that changes something.
        if path == save {
            shared.server.fake.let_one_go();
            until(path, || shared.server.fake.requests_held() == 1);
        }
        let mut administrator = shared.server.client();
        let paused = administrator.post(pause, "");
        assert_eq!(paused.status, 200, "{method} {path}: {paused:?}");
        shared.server.fake.let_requests_go();
        assert_eq!(waits.read().expect("answers").status, status, "{method} {path}");
    }
}

/// The same where it has waited for another change before.
#[test]
fn what_a_tenant_waits_to_change_once_more_an_administrator_changes() {
    let shared = Shared::new();
    let (path, fake) = ("/v1/functions/crimson-fw", &shared.server.fake);
    let spec = |image: &str| json!({"spec": {"image": image, "tenant": "crimson"}}).to_string();
    let mut first = shared.server.client();
    first.send("PUT", path, &[], spec("kept-starting-first").as_bytes()).expect("asks");
    fake.has_begun("kept-starting-first");
    fake.hold_requests_of("crimson");
    let mut waits = sent(&shared, "PUT", path, &spec("firewall"));
    for what in ["it is read", "it begins"] {
        until(what, || fake.requests_held() == 1);
        fake.let_one_go();
    }
    fake.let_go("kept-starting-first");
    assert_eq!(first.read().expect("answers").status, 200);
    until("it comes to its turn again", || fake.requests_held() == 1);
    let pause = format!("{path}/pause");
    assert_eq!(shared.server.client().post(&pause, "").status, 200);
    fake.let_requests_go();
    assert_eq!(waits.read().expect("answers").status, 200);
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
