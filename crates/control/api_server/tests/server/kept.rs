//! What takes its time keeps no other request waiting. Nothing here is measured: what is kept goes on when
//! the test says so, after the others have been answered.

use crate::Running;
use crate::rights::Shared;
use serde_json::json;
use std::thread::JoinHandle;

/// Wants a function of an image that is kept, on a connection and a thread of its own; the status of the
/// answer.
fn wanted(server: &Running, name: &str, image: &str, query: &str) -> JoinHandle<u16> {
    let (mut client, path) = (server.client(), format!("/v1/functions/{name}{query}"));
    let spec = json!({"image": image});
    std::thread::spawn(move || client.put(&path, &spec).status)
}

/// All that has to be answered whatever is under way.
fn others_are_served(server: &Running, number: usize) {
    let mut client = server.client();
    assert_eq!(client.get("/v1/health").status, 200);
    assert_eq!(
        client.put(&format!("/v1/functions/other{number}"), &json!({"image": "firewall"})).status,
        201
    );
    assert_eq!(client.get(&format!("/v1/functions/other{number}")).status, 200);
    assert_eq!(client.get("/v1/functions").status, 200);
    assert_eq!(client.post(&format!("/v1/functions/other{number}/pause"), "").status, 200);
    assert_eq!(client.get("/metrics").status, 200);
}

#[test]
fn nothing_waits_for_what_another_request_starts_tries_compiles_or_fetches() {
    let server = Running::new();
    let kept = [
        ("a", "kept-starting-1", ""),
        ("b", "kept-starting-2", "?dry_run=true"),
        ("c", "kept-compiling-1", "?wait=true"),
        ("d", "kept-fetching-1", "?wait=true"),
    ];
    let mut waiting = Vec::new();
    for (number, (name, image, query)) in kept.into_iter().enumerate() {
        waiting.push(wanted(&server, name, image, query));
        server.fake.has_begun(image);
        others_are_served(&server, number);
    }
    // An image that takes over is started beside what runs, too.
    assert_eq!(server.client().put("/v1/functions/e", &json!({"image": "firewall"})).status, 201);
    let mut client = server.client();
    let upgrade = json!({"image": "kept-starting-3"}).to_string();
    waiting.push(std::thread::spawn(move || client.post("/v1/functions/e/upgrade", &upgrade).status));
    server.fake.has_begun("kept-starting-3");
    others_are_served(&server, 8);
    // So is what a function has to hand over.
    assert_eq!(server.client().put("/v1/functions/f", &json!({"image": "firewall"})).status, 201);
    let mut client = server.client();
    let upgrade = json!({"image": "kept-handing-1"}).to_string();
    waiting.push(std::thread::spawn(move || client.post("/v1/functions/f/upgrade", &upgrade).status));
    server.fake.has_begun("kept-handing-1");
    others_are_served(&server, 9);
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "all are still kept");
    let last = ["kept-starting-3", "kept-handing-1"];
    kept.iter().map(|(_, image, _)| *image).chain(last).for_each(|image| server.fake.let_go(image));
    let told: Vec<u16> = waiting.into_iter().map(|waiting| waiting.join().expect("no panic")).collect();
    assert_eq!(told, [201, 200, 201, 201, 200, 200]);
}

#[test]
fn changes_of_one_object_come_one_after_the_other() {
    let server = Running::new();
    let first = wanted(&server, "a", "kept-starting-1", "");
    server.fake.has_begun("kept-starting-1");
    // This one is of the same object, and waits until the first has ended.
    let mut client = server.client();
    let second = std::thread::spawn(move || {
        let got = client.ask(
            "PUT",
            "/v1/functions/a",
            &[("if-none-match", "*")],
            r#"{"spec": {"image": "firewall"}}"#,
        );
        (got.status, got.problem())
    });
    others_are_served(&server, 0);
    assert!(!second.is_finished());
    server.fake.let_go("kept-starting-1");
    assert_eq!(first.join().expect("no panic"), 201);
    assert_eq!(second.join().expect("no panic"), (412, "precondition-failed".to_owned()));
}

#[test]
fn what_was_made_ready_for_another_state_is_made_ready_anew() {
    let server = Running::new();
    let mut client = server.client();
    assert_eq!(client.put("/v1/functions/x", &json!({"image": "firewall"})).status, 201);
    // All that is not named goes: `x`, and what comes while the one that is named starts.
    let document = json!({"superfluid": 1, "functions": {"a": {"image": "kept-starting-1"}}}).to_string();
    let mut theirs = server.client();
    let whole = std::thread::spawn(move || theirs.ask("POST", "/v1/apply?prune=true", &[], &document).json());
    server.fake.has_begun("kept-starting-1");
    assert_eq!(client.put("/v1/functions/y", &json!({"image": "firewall"})).status, 201);
    server.fake.let_go("kept-starting-1");
    let deleted = whole.join().expect("no panic")["deleted"].clone();
    let names = json!([{"kind": "function", "name": "x"}, {"kind": "function", "name": "y"}]);
    assert_eq!(deleted, names);
    assert_eq!(client.get("/v1/functions").json()["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.fake.world().objects.len(), 1, "the host has what the store has");
}

#[test]
fn what_a_tenant_keeps_busy_is_its_own() {
    let shared = Shared::new();
    let spec = |image: &str| json!({"image": image, "tenant": "crimson"});
    let mut waiting = Vec::new();
    let kept =
        ["starting-1", "starting-2", "compiling-1", "compiling-2", "fetching-1", "starting-3", "starting-4"];
    for (number, kept) in kept.into_iter().enumerate() {
        let (token, spec) = (shared.crimson.clone(), spec(&format!("kept-{kept}")));
        let (door, path) = (shared.door(), format!("/v1/functions/crimson-{kept}?wait=true"));
        waiting.push(std::thread::spawn(move || {
            let mut client = crate::client::Client::connect(&door);
            let body = json!({"spec": spec}).to_string();
            let bearer = format!("Bearer {token}");
            client.ask("PUT", &path, &[("authorization", &bearer)], &body).status
        }));
        // As many as a tenant has threads for begin; the others wait for them.
        if number < 2 {
            shared.server.fake.has_begun(&format!("kept-{kept}"));
        }
    }
    let got =
        shared.put(&shared.azure, "/v1/functions/azure-new", json!({"image": "slow-x", "tenant": "azure"}));
    assert!(matches!(got.status, 201 | 202), "{got:?}");
    let got = shared.put(
        &shared.azure,
        "/v1/functions/azure-more",
        json!({"image": "firewall", "tenant": "azure"}),
    );
    assert_eq!(got.status, 201, "{got:?}");
    assert_eq!(shared.ask(&shared.azure, "GET", "/v1/functions", "").status, 200);
    others_are_served(&shared.server, 0);
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "all are still kept");
    for kept in kept {
        shared.server.fake.let_go(&format!("kept-{kept}"));
    }
    for waiting in waiting {
        assert_eq!(waiting.join().expect("no panic"), 201);
    }
}
