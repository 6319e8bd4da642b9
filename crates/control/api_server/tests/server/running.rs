//! What is asked of what runs: pauses, upgrades, snapshots, and lists.

use crate::Running;
use serde_json::json;

#[test]
fn a_pause_is_kept_over_a_restart() {
    let mut server = Running::new();
    let mut client = server.client();
    assert_eq!(client.post("/v1/functions/fw/pause", "").problem(), "not-found");
    client.put("/v1/functions/fw", &json!({"image": "a"}));
    let paused = client.post("/v1/functions/fw/pause?durable=true", "").json();
    assert_eq!((&paused["status"]["state"], &paused["version"]), (&json!("paused"), &json!(2)));
    assert_eq!(client.post("/v1/functions/fw/pause", "").json()["version"], 2, "again is no change");
    let changed = client.put("/v1/functions/fw", &json!({"image": "b"})).json();
    assert_eq!(changed["status"]["state"], "paused", "a new spec does not resume it");
    server.join();
    let folder = std::mem::replace(&mut server.folder, tempfile::tempdir().expect("a folder"));
    drop(server);
    let server = Running::within(folder, store::Settings::default(), |_| {});
    let mut client = server.client();
    assert_eq!(client.get("/v1/functions/fw").json()["status"]["state"], "paused");
    assert_eq!(client.post("/v1/functions/fw/resume", "").json()["status"]["state"], "running");
    assert_eq!(client.post("/v1/functions/fw/restart", "").json()["status"]["restarts"], 1);
}

#[test]
fn an_upgrade_changes_the_image_and_what_it_is_told_to() {
    let server = Running::new();
    let mut client = server.client();
    client.put("/v1/functions/fw", &json!({"image": "a", "config": {"x": 1}, "fail": "open"}));
    let upgraded = client.post("/v1/functions/fw/upgrade", r#"{"image": "slow-b"}"#);
    assert_eq!(
        (upgraded.status, &upgraded.json()["spec"]),
        (200, &json!({"image": "slow-b", "config": {"x": 1}, "fail": "open"}))
    );
    let upgraded = client.post("/v1/functions/fw/upgrade", r#"{"image": "c", "config": {"y": 2}}"#);
    assert_eq!(upgraded.json()["spec"], json!({"image": "c", "config": {"y": 2}, "fail": "open"}));
    let old = client.ask("POST", "/v1/functions/fw/upgrade", &[("if-match", "\"1\"")], r#"{"image": "d"}"#);
    assert_eq!(old.problem(), "precondition-failed");
    assert_eq!(client.post("/v1/functions/fw/upgrade", r#"{"image": "missing"}"#).problem(), "invalid");
    assert_eq!(client.post("/v1/functions/other/upgrade", r#"{"image": "c"}"#).problem(), "not-found");
    assert_eq!(client.get("/v1/functions/fw").json()["version"], 3);
}

#[test]
fn what_is_done_to_a_function_heeds_its_version() {
    let server = Running::new();
    let mut client = server.client();
    client.put("/v1/functions/fw", &json!({"image": "a"}));
    client.put("/v1/functions/fw", &json!({"image": "b"}));
    let calls =
        [("restart", ""), ("pause", ""), ("resume", ""), ("snapshots", r#"{"name": "monday"}"#)].into_iter();
    for (call, body) in calls.clone() {
        let path = format!("/v1/functions/fw/{call}");
        for (header, value) in [("if-match", "\"1\""), ("if-none-match", "*")] {
            let old = client.ask("POST", &path, &[(header, value)], body);
            assert_eq!(old.problem(), "precondition-failed", "{call}: {old:?}");
        }
        let wrong = client.ask("POST", &path, &[("if-match", "2")], body);
        assert_eq!(wrong.problem(), "malformed", "{call}: {wrong:?}");
    }
    let as_it_was = client.get("/v1/functions/fw").json();
    assert_eq!((&as_it_was["status"]["state"], &as_it_was["version"]), (&json!("running"), &json!(2)));
    assert_eq!(as_it_was["status"]["restarts"], 0, "nothing of it was done");
    assert_eq!(client.get("/v1/snapshots").json()["items"], json!([]));
    let mut version = as_it_was["version"].clone();
    for (call, body) in calls {
        let tag = format!("\"{version}\"");
        let done = client.ask("POST", &format!("/v1/functions/fw/{call}"), &[("if-match", &tag)], body);
        assert!(matches!(done.status, 200 | 201), "{call}: {done:?}");
        version = client.get("/v1/functions/fw").json()["version"].clone();
    }
    assert_eq!(version, 4, "a pause and its end are changes");
}

/// A client that relies on it must not take what was done for what was done under its condition.
#[test]
fn a_precondition_that_nothing_looks_at_is_refused() {
    let server = Running::new();
    let mut client = server.client();
    let port = r#"{"superfluid": 1, "ports": {"lan": {"type": "null"}}}"#;
    let changes = [("POST", "/v1/apply", port), ("DELETE", "/v1/tokens/ci", "")];
    for (method, path, body) in changes {
        for (header, value) in [("If-Match", "\"1\""), ("If-None-Match", "*")] {
            let refused = client.ask(method, path, &[(header, value)], body);
            assert_eq!(refused.problem(), "malformed", "{path}: {refused:?}");
            assert_eq!(refused.json()["faults"][0]["at"], header);
        }
    }
    assert_eq!(client.get("/v1/ports").json()["items"], json!([]));
    let read = client.ask("GET", "/v1/ports", &[("if-none-match", "\"1\"")], "");
    assert_eq!(read.status, 200, "caches ask so");
}

#[test]
fn snapshots_are_saved_restored_and_deleted() {
    let server = Running::new();
    let mut client = server.client();
    client.put("/v1/functions/fw", &json!({"image": "a"}));
    assert_eq!(client.post("/v1/functions/fw/snapshots", r#"{"name": "a b"}"#).problem(), "invalid");
    let saved = client.post("/v1/functions/fw/snapshots", r#"{"name": "monday"}"#);
    assert_eq!((saved.status, saved.header("location")), (201, Some("/v1/snapshots/monday")));
    assert_eq!(client.post("/v1/functions/fw/snapshots", r#"{"name": "monday"}"#).problem(), "conflict");
    assert_eq!(client.get("/v1/snapshots").json()["items"][0]["name"], "monday");
    let clone = client.post("/v1/snapshots/monday/restore", r#"{"function": "copy"}"#);
    assert_eq!((clone.status, &clone.json()["spec"]["image"]), (201, &json!("a")));
    assert_eq!(client.post("/v1/snapshots/monday/restore", r#"{"function": "copy"}"#).status, 200);
    assert_eq!(
        client.post("/v1/snapshots/tuesday/restore", r#"{"function": "copy"}"#).problem(),
        "not-found"
    );
    assert_eq!(client.delete("/v1/snapshots/monday").json(), json!({"deleted": "monday"}));
    assert_eq!(client.delete("/v1/snapshots/monday").problem(), "not-found");
}

/// Chains are not restored with a function that they name, and neither is what else says where it stands.
#[test]
fn a_function_that_is_restored_stays_where_it_stands() {
    let server = Running::new();
    let mut client = server.client();
    for port in ["lan", "wan"] {
        client.put(&format!("/v1/ports/{port}"), &json!({"type": "null"}));
    }
    client.put("/v1/functions/fw", &json!({"image": "a", "attach": {"left": "lan"}}));
    client.put("/v1/functions/bare", &json!({"image": "a"}));
    for function in ["fw", "bare"] {
        let saved = client
            .post(&format!("/v1/functions/{function}/snapshots"), &json!({"name": function}).to_string());
        assert_eq!(saved.status, 201, "{saved:?}");
    }
    client.put("/v1/functions/fw", &json!({"image": "b", "attach": {"left": "wan"}}));
    client.put("/v1/functions/bare", &json!({"image": "a", "attach": {"left": "lan"}}));
    let mut restored = |snapshot: &str, function: &str| {
        let body = json!({"function": function}).to_string();
        client.post(&format!("/v1/snapshots/{snapshot}/restore"), &body).json()["spec"].clone()
    };
    assert_eq!(restored("fw", "fw"), json!({"image": "a", "attach": {"left": "wan"}}));
    assert_eq!(restored("bare", "bare"), json!({"image": "a", "attach": {"left": "lan"}}));
    assert_eq!(restored("fw", "bare"), json!({"image": "a", "attach": {"left": "lan"}}));
    assert_eq!(restored("fw", "copy"), json!({"image": "a"}), "of another name, and nowhere yet");
    // One that is gone comes back where it stood.
    assert_eq!(client.delete("/v1/functions/fw").status, 200);
    let body = json!({"function": "fw"}).to_string();
    let back = client.post("/v1/snapshots/fw/restore", &body).json();
    assert_eq!(back["spec"], json!({"image": "a", "attach": {"left": "lan"}}));
}

#[test]
fn lists_come_in_parts_and_by_tenant() {
    let server = Running::new();
    let mut client = server.client();
    for n in 0..25 {
        let tenant = if n % 5 == 0 { "gold" } else { "default" };
        client.put(&format!("/v1/functions/f{n:02}"), &json!({"image": "x", "tenant": tenant}));
    }
    let mut read = |query: &str| {
        let (mut names, mut after) = (Vec::new(), String::new());
        loop {
            let part = client.get(&format!("/v1/functions?{query}{after}")).json();
            names.extend(
                part["items"]
                    .as_array()
                    .expect("items")
                    .iter()
                    .map(|item| item["name"].as_str().unwrap_or("").to_owned()),
            );
            match part["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return names,
            }
        }
    };
    let all: Vec<_> = (0..25).map(|n| format!("f{n:02}")).collect();
    assert_eq!(read("limit=7"), all);
    assert_eq!(read("limit=5"), all);
    assert_eq!(read("limit=25"), all);
    assert_eq!(read("limit=2&tenant=gold"), ["f00", "f05", "f10", "f15", "f20"]);
    assert_eq!(client.get("/v1/chains?tenant=gold").problem(), "malformed", "chains have no tenant");
}

#[test]
fn requests_under_way_get_their_answer_when_the_server_ends() {
    let mut server = Running::new();
    let mut client = server.client();
    client
        .send("PUT", "/v1/functions/fw", &[], br#"{"spec": {"image": "kept-starting-end"}}"#)
        .expect("asks");
    server.fake.has_begun("kept-starting-end");
    server.begin_end();
    server.fake.let_go("kept-starting-end");
    assert_eq!(client.read().expect("answers").status, 201);
    server.join();
    assert!(!server.socket().exists());
    assert!(server.store.read("function", "fw").is_some());
}

#[test]
fn neighbours_come_in_parts() {
    let server = Running::new();
    let mut client = server.client();
    assert_eq!(client.get("/v1/devices/edge/neighbours").problem(), "not-found");
    client.put("/v1/devices/edge", &json!({"mode": "rootless"}));
    let first = client.get("/v1/devices/edge/neighbours?limit=250").json();
    assert_eq!((first["items"].as_array().map(Vec::len), &first["next"]), (Some(250), &json!("10.0.0.249")));
    let rest = client.get("/v1/devices/edge/neighbours?after=10.0.0.249").json();
    assert_eq!((rest["items"].as_array().map(Vec::len), &rest["next"]), (Some(50), &json!(null)));
    assert_eq!(client.get("/v1/devices/edge/neighbours").json()["items"].as_array().map(Vec::len), Some(100));
    for wrong in ["after=10.0.0", "after=lan", "limit=0", "limit=1001", "before=10.0.0.1"] {
        assert_eq!(
            client.get(&format!("/v1/devices/edge/neighbours?{wrong}")).problem(),
            "malformed",
            "{wrong}"
        );
    }
    let wrong = client.get("/v1/devices/edge/neighbours?after=lan").text();
    assert!(wrong.contains("found `lan`; allowed: an IPv4 or IPv6 address"), "{wrong}");
}
