//! Tokens as objects, the doors, and what is written down of clients that are refused.

use super::{Shared, ask, places};
use crate::Running;
use api_server::{BindError, Server, Settings, Socket};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use store::Store;

#[test]
fn a_token_is_shown_once_and_its_secret_is_kept_nowhere() {
    let shared = Shared::new();
    let mut admin = shared.server.client();
    let all = admin.get("/v1/tokens").text();
    let one = admin.get("/v1/tokens/crimson-token").json();
    assert_eq!((one["tenant"].as_str(), one["read_only"].as_bool()), (Some("crimson"), Some(false)));
    assert!(one.get("secret").is_none() && !all.contains(&shared.crimson) && !all.contains("sft_"));
    let folder = shared.server.folder.path().to_owned();
    let revision = shared.server.store.revision();
    shared.server.store.when_durable(revision, |_| {});
    let mut files = vec![folder.join("audit.jsonl")];
    files.extend(
        std::fs::read_dir(folder.join("state")).expect("reads").map(|entry| entry.expect("entry").path()),
    );
    let digits = &shared.crimson["sft_".len()..];
    for file in files.iter().filter(|file| file.is_file()) {
        let bytes = std::fs::read(file).expect("reads");
        assert!(!bytes.windows(digits.len()).any(|window| window == digits.as_bytes()), "{}", file.display());
    }
    // Which client made which is written down; tokens are no objects, and no events.
    let audit = shared.server.audit();
    let line = audit.iter().find(|line| line["path"] == "/v1/tokens").expect("a line");
    assert_eq!(
        (line["outcome"].as_str(), line["token"]["name"].as_str()),
        (Some("done"), Some("crimson-token"))
    );
    assert!(!admin.get("/v1/events?after=0").text().contains("token"));
    let pruned = admin.ask(
        "POST",
        "/v1/apply?prune=true&dry_run=true",
        &[("content-type", "application/json")],
        r#"{"superfluid": 1}"#,
    );
    assert_eq!(pruned.problem(), "conflict", "tenants have tokens");
}

#[test]
fn the_first_tenant_gets_nothing_of_what_was_there() {
    let server = Running::new();
    let mut admin = server.client();
    for (path, spec) in [
        ("/v1/ports/lan", json!({"type": "null"})),
        ("/v1/functions/gate", json!({"image": "firewall"})),
        ("/v1/wires/gate:0~lan", json!(["gate:0", "lan"])),
    ] {
        assert_eq!(admin.put(path, &spec).status, 201, "{path}");
    }
    let objects = admin.get("/v1/health").json()["objects"].as_u64().expect("a number");
    assert_eq!(admin.put("/v1/tenants/red", &json!({})).status, 201);
    assert_eq!(admin.get("/v1/health").json()["objects"], objects + 1, "what else is written is no object");
    assert!(!admin.get("/v1/events?after=0").text().contains("reading"), "and no event");
    let made = admin.post("/v1/tokens", &json!({"name": "t", "tenant": "red"}).to_string());
    let token = made.json()["secret"].as_str().expect("a secret").to_owned();
    let mut red = server.client();
    let mut ask = |method: &str, path: &str, body: Value| {
        ask(
            &mut red,
            &token,
            method,
            path,
            &[],
            &if body.is_null() { String::new() } else { body.to_string() },
        )
    };
    // The administrator's firewall, for a token of the first tenant.
    for path in ["/v1/functions/gate", "/v1/ports/lan", "/v1/wires/gate:0~lan"] {
        assert_eq!(ask("GET", path, Value::Null).status, 404, "{path}");
    }
    assert_eq!(ask("GET", "/v1/functions", Value::Null).json()["items"], json!([]));
    let forwarder = json!({"spec": {"image": "forwarder", "tenant": "red"}});
    assert_eq!(ask("PUT", "/v1/functions/gate", forwarder).problem(), "conflict");
    assert_eq!(ask("DELETE", "/v1/functions/gate", Value::Null).status, 404);
    // Nor does its own belong to it without its name.
    let unnamed = ask("PUT", "/v1/functions/mine", json!({"spec": {"image": "forwarder"}}));
    assert_eq!(places(&unnamed), ["functions.mine.tenant"]);
    assert_eq!(admin.get("/v1/functions/gate").json()["spec"], json!({"image": "firewall"}));
}

#[test]
fn tokens_are_checked_when_they_are_made() {
    let server = Running::new();
    let mut admin = server.client();
    let mut make = |wanted: Value| admin.post("/v1/tokens", &wanted.to_string());
    // The tenant that there is without any.
    assert_eq!(make(json!({"name": "a", "tenant": "default"})).status, 201);
    assert_eq!(make(json!({"name": "a", "tenant": "default"})).problem(), "conflict");
    for (wanted, at) in [
        (json!({"name": "b", "tenant": "red"}), "tenant"),
        (json!({"name": "b"}), "tenant"),
        (json!({"name": "b", "read_only": true}), "tenant"),
        (json!({"name": "b", "host": false}), "tenant"),
        (json!({"name": "b", "tenant": "default", "host": true}), "host"),
        (json!({"name": "a b", "tenant": "default"}), "name"),
        (json!({"name": "b", "tenant": "default", "expires": "tomorrow"}), "expires"),
        (json!({"name": "b", "tenant": "default", "expires": "2020-01-01T00:00:00Z"}), "expires"),
        (json!({"name": "b", "tenant": "default", "secret": "sft_"}), "secret"),
    ] {
        let got = make(wanted.clone());
        assert_eq!(
            (got.status, got.json()["faults"][0]["at"].as_str()),
            (422, Some(at)),
            "{wanted}: {got:?}"
        );
    }
    // A tenant goes when its tokens have.
    assert_eq!(admin.put("/v1/tenants/red", &json!({})).status, 201);
    let made = admin.post("/v1/tokens", r#"{"name": "r", "tenant": "red"}"#);
    assert_eq!(made.status, 201);
    let refused = admin.delete("/v1/tenants/red");
    assert_eq!(refused.problem(), "conflict");
    assert!(refused.text().contains("tokens are for it: r; delete them first"), "{refused:?}");
    assert_eq!(admin.delete("/v1/tokens/r").status, 200);
    assert_eq!(admin.delete("/v1/tenants/red").status, 200);
}

#[test]
fn there_are_only_so_many_tokens() {
    let server = Running::new();
    let mut admin = server.client();
    for n in 0..1024 {
        let made =
            admin.post("/v1/tokens", &json!({"name": format!("t{n}"), "tenant": "default"}).to_string());
        assert_eq!(made.status, 201, "{n}: {made:?}");
    }
    assert_eq!(admin.post("/v1/tokens", r#"{"name": "more", "tenant": "default"}"#).problem(), "no-room");
    assert_eq!(admin.delete("/v1/tokens/t7").status, 200);
    assert_eq!(admin.post("/v1/tokens", r#"{"name": "more", "tenant": "default"}"#).status, 201);
    assert_eq!(admin.get("/v1/health").json()["objects"], 0, "they are no objects");
}

#[test]
fn a_token_gives_its_tenants_rights_at_the_administrators_door_too() {
    let shared = Shared::new();
    let mut client = shared.server.client();
    assert_eq!(ask(&mut client, &shared.crimson, "GET", "/v1/functions/azure-fw", &[], "").status, 404);
    assert_eq!(ask(&mut client, &shared.crimson, "GET", "/v1/tokens", &[], "").status, 403);
    assert_eq!(client.get("/v1/functions/azure-fw").status, 200);
    let mode = std::fs::symlink_metadata(shared.door()).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    // Two tokens are one too many, and an unknown scheme of authorization is no way in.
    let shown = format!("Bearer {}", shared.crimson);
    let twice = [("authorization", shown.as_str()), ("authorization", shown.as_str())];
    assert_eq!(shared.tenants().ask("GET", "/v1/health", &twice, "").problem(), "malformed");
    let basic = [("authorization", "Basic cm9vdDpyb290")];
    assert_eq!(shared.tenants().ask("GET", "/v1/health", &basic, "").problem(), "unauthorized");
    assert_eq!(
        shared.tenants().get("/v1/no/such/path").status,
        401,
        "a stranger does not learn what there is"
    );
    assert_eq!(shared.ask(&shared.crimson, "GET", "/v1/no/such/path", "").status, 404);
}

#[test]
fn refused_clients_fill_no_log_and_keep_no_other_out() {
    let shared = Shared::with(|settings| settings.limits.tenants_connections = 4);
    let mut stranger = shared.tenants();
    for _ in 0..300 {
        assert_eq!(stranger.get("/v1/functions").status, 401);
    }
    let audit = shared.server.audit();
    let refused = audit.iter().filter(|line| line["status"] == 401).count();
    assert!((1..200).contains(&refused), "{refused}");
    // All places of those without rights are taken: the one that has rested for longest leaves for the next.
    let _taken: Vec<_> = (0..3).map(|_| shared.tenants()).collect();
    assert_eq!(shared.ask(&shared.crimson, "GET", "/v1/health", "").status, 200);
    assert!(stranger.try_ask("GET", "/v1/health", &[], "").is_err(), "it has left");
    assert_eq!(shared.server.client().get("/v1/health").status, 200);
}

#[test]
fn two_sockets_have_two_paths() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = Settings::new(folder.path().join("socket"), folder.path().join("audit"));
    let path = folder.path().join("socket");
    settings.tenants = Some(Socket { path, mode: 0o666, owner: None, group: None });
    let store = Arc::new(Store::open(&folder.path().join("state")).expect("opens"));
    let told = Server::bind(&settings, store, Arc::new(crate::fake::Fake::default())).err();
    assert!(matches!(told, Some(BindError::OneSocket(_))), "{told:?}");
}
