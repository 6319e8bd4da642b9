//! Streams of a tenant: its own, until its token goes.

use super::{Shared, ask};
use crate::client::Client;
use api::Kind;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

fn follow(shared: &Shared, token: &str, path: &str) -> Client {
    let mut client = shared.tenants();
    let shown = format!("Bearer {token}");
    client.send("GET", path, &[("authorization", &shown)], b"").expect("sends");
    assert_eq!(client.head().expect("a head").status, 200);
    client
}

/// Lines until one is about this.
fn until(client: &mut Client, name: &str) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    while !all.iter().any(|line| line["name"] == name) {
        let chunk = client.chunk().expect("a part");
        assert!(!chunk.is_empty(), "it ended before {name}: {all:?}");
        let lines = chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        all.extend(lines.map(|line| serde_json::from_slice::<Value>(line).expect("JSON")));
    }
    all
}

#[test]
fn a_tenant_is_told_what_happens_to_its_own_and_of_nothing_else() {
    let shared = Shared::new();
    let mut events = follow(&shared, &shared.crimson, "/v1/events?follow=true&after=0");
    let first = until(&mut events, "crimson-eye");
    assert!(first.iter().all(|line| line["name"].as_str().is_some_and(|name| name.starts_with("crimson"))));
    let mut admin = shared.server.client();
    assert_eq!(admin.put("/v1/functions/azure-new", &json!({"image": "a", "tenant": "azure"})).status, 201);
    assert_eq!(admin.put("/v1/switches/other", &json!({})).status, 201);
    let notices = shared.server.fake.notices.get().expect("begun").clone();
    notices.tell(Kind::Function, "azure-fw", "fault", "secret");
    notices.tell(Kind::Workers, "workers", "notice", "secret");
    notices.tell(Kind::Function, "crimson-fw", "fault", "its own");
    let told = until(&mut events, "crimson-fw");
    assert!(told.iter().any(|line| line["text"] == "its own"), "{told:?}");
    // What is deleted was its own, and what passes to another is gone for it.
    assert_eq!(admin.delete("/v1/chains/crimson-chain").status, 200);
    let told = [told, until(&mut events, "crimson-chain")].concat();
    assert_eq!(told.last().expect("a line")["happened"], "deleted");
    assert_eq!(admin.put("/v1/functions/crimson-fw", &json!({"image": "a", "tenant": "azure"})).status, 200);
    let told = [told, until(&mut events, "crimson-fw")].concat();
    assert_eq!(told.last().expect("a line")["happened"], "deleted");
    assert!(
        !told.iter().any(|line| line.to_string().contains("azure") || line.to_string().contains("secret")),
        "{told:?}"
    );
    let gone = shared.ask(&shared.crimson, "GET", "/v1/events?after=99999", "");
    assert_eq!(gone.problem(), "gone");
    // A client that comes later is told the same of the hour before.
    let past = |token: &str| shared.ask(token, "GET", "/v1/past-events?limit=8192", "").json();
    let of = |answer: &Value| -> Vec<[String; 2]> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = answer["items"].as_array().expect("a list").iter();
        items.map(|item| [text(&item["name"]), text(&item["what"])]).collect()
    };
    let crimson = past(&shared.crimson);
    let last = of(&crimson).split_off(of(&crimson).len() - 3);
    assert_eq!(
        last,
        [["crimson-fw", "fault"], ["crimson-chain", "deleted"], ["crimson-fw", "deleted"]]
            .map(|it| it.map(str::to_owned))
    );
    assert!(!crimson.to_string().contains("azure") && !crimson.to_string().contains("secret"), "{crimson}");
    let azure = past(&shared.azure);
    assert!(of(&azure).contains(&["crimson-fw".to_owned(), "put".to_owned()]), "it is azure's now: {azure}");
    assert!(!azure.to_string().contains("its own"), "{azure}");
    let all = past(&shared.watching);
    for text in ["secret", "its own", "azure-new", "other"] {
        assert!(all.to_string().contains(text), "{all}");
    }
    assert_eq!(of(&all).iter().filter(|[_, what]| what == "deleted").count(), 1, "{all}");
}

#[test]
fn a_token_that_is_deleted_ends_its_streams_and_no_others() {
    let shared = Shared::new();
    shared.server.fake.say("something");
    let mut events = follow(&shared, &shared.crimson, "/v1/events?follow=true");
    let mut logs = follow(&shared, &shared.crimson, "/v1/functions/crimson-fw/logs?follow=true");
    let mut other = follow(&shared, &shared.reading, "/v1/events?follow=true");
    assert!(!logs.chunk().expect("a line").is_empty());
    // A connection that is open is no right either.
    let mut open = shared.tenants();
    assert_eq!(ask(&mut open, &shared.crimson, "GET", "/v1/functions", &[], "").status, 200);
    let mut admin = shared.server.client();
    assert_eq!(admin.delete("/v1/tokens/crimson-token").status, 200);
    assert!(events.chunk().expect("the end").is_empty() && logs.chunk().expect("the end").is_empty());
    assert_eq!(ask(&mut open, &shared.crimson, "GET", "/v1/functions", &[], "").status, 401);
    assert_eq!(
        admin.put("/v1/functions/crimson-fw", &json!({"image": "b", "tenant": "crimson"})).status,
        200
    );
    assert_eq!(until(&mut other, "crimson-fw")[0]["happened"], "put");
}

#[test]
fn a_log_ends_when_the_function_becomes_anothers() {
    let shared = Shared::new();
    shared.server.fake.say("something");
    let mut logs = follow(&shared, &shared.crimson, "/v1/functions/crimson-fw/logs?follow=true");
    assert!(!logs.chunk().expect("a line").is_empty());
    let mut admin = shared.server.client();
    assert_eq!(admin.put("/v1/functions/crimson-fw", &json!({"image": "a", "tenant": "azure"})).status, 200);
    shared.server.fake.say("secret");
    assert!(logs.chunk().expect("the end").is_empty());
}

#[test]
fn a_token_whose_time_is_over_ends_its_streams() {
    let shared = Shared::new();
    let expires = SystemTime::now() + Duration::from_millis(1500);
    let expires = humantime::format_rfc3339_millis(expires).to_string();
    let wanted = json!({"name": "short", "tenant": "crimson", "expires": expires}).to_string();
    let made = shared.server.client().post("/v1/tokens", &wanted);
    assert_eq!(made.status, 201, "{made:?}");
    let secret = made.json()["secret"].as_str().expect("a secret").to_owned();
    let mut events = follow(&shared, &secret, "/v1/events?follow=true");
    assert!(events.chunk().expect("the end").is_empty());
    assert_eq!(shared.ask(&secret, "GET", "/v1/health", "").status, 401);
}

#[test]
fn a_reader_of_the_host_follows_everything_until_its_token_is_deleted() {
    let shared = Shared::new();
    shared.server.fake.say("something");
    let mut events = follow(&shared, &shared.watching, "/v1/events?follow=true");
    let mut logs = follow(&shared, &shared.watching, "/v1/functions/azure-fw/logs?follow=true");
    assert!(!logs.chunk().expect("a line").is_empty());
    let mut admin = shared.server.client();
    for tenant in ["crimson", "azure"] {
        let spec = json!({"image": "b", "tenant": tenant});
        assert_eq!(admin.put(&format!("/v1/functions/{tenant}-fw"), &spec).status, 200);
        assert_eq!(until(&mut events, &format!("{tenant}-fw")).last().expect("a line")["happened"], "put");
    }
    assert_eq!(admin.delete("/v1/tokens/watcher").status, 200);
    assert!(events.chunk().expect("the end").is_empty() && logs.chunk().expect("the end").is_empty());
    assert_eq!(shared.ask(&shared.watching, "GET", "/v1/health", "").status, 401);
}

#[test]
fn readers_of_the_host_have_a_room_of_their_own() {
    let shared = Shared::with(|settings| {
        settings.limits.tenant_connections = 2;
        settings.limits.unknown_connections = 2;
    });
    let follow = |token: &str| follow(&shared, token, "/v1/events?follow=true");
    // Tenants fill theirs, and readers theirs: neither takes a place from the other.
    let _crimson = [follow(&shared.crimson), follow(&shared.crimson)];
    assert_eq!(shared.ask(&shared.watching, "GET", "/v1/health", "").status, 200);
    let _watching = [follow(&shared.watching), follow(&shared.watching)];
    let full = shared.ask(&shared.watching, "GET", "/v1/health", "");
    assert_eq!(full.problem(), "busy", "{full:?}");
    assert!(full.text().contains("2 connections of readers of the host"), "{full:?}");
    assert_eq!(shared.ask(&shared.azure, "GET", "/v1/health", "").status, 200);
    assert_eq!(shared.server.client().get("/v1/health").status, 200);
}
