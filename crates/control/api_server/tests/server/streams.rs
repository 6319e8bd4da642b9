//! Events and logs, as they come.

use crate::Running;
use crate::client::Client;
use serde_json::{Value, json};
use std::time::Duration;

/// The next lines of a stream.
fn lines(client: &mut Client) -> Vec<Value> {
    let chunk = client.chunk().expect("a part");
    chunk
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect()
}

#[test]
fn a_follower_is_told_each_change_once_and_in_order() {
    let server = Running::new();
    let mut client = server.client();
    client.put("/v1/functions/a", &json!({"image": "x"}));
    let mut follower = server.client();
    follower.send("GET", "/v1/events?after=0&follow=true", &[], b"").expect("asks");
    assert_eq!(follower.head().expect("answers").header("content-type"), Some("application/jsonl"));
    for n in 0..500 {
        client.put("/v1/functions/a", &json!({"image": n.to_string()}));
    }
    client.delete("/v1/functions/a");
    let mut seen = Vec::new();
    while seen.len() < 502 {
        seen.extend(lines(&mut follower));
    }
    let revisions: Vec<_> = seen.iter().map(|event| event["revision"].as_u64().expect("a number")).collect();
    assert_eq!(revisions, (1..=502).collect::<Vec<_>>());
    assert_eq!(
        seen[501],
        json!({"event": "changed", "revision": 502, "kind": "function", "name": "a", "happened": "deleted"})
    );
    let some = client.get("/v1/events?after=500");
    assert_eq!(some.text().lines().count(), 2, "without follow, the stream ends");
    assert_eq!(client.get("/v1/events").text(), "");
    for after in ["503", "9007199254740991"] {
        assert_eq!(client.get(&format!("/v1/events?after={after}")).problem(), "gone");
    }
}

#[test]
fn a_follower_that_comes_too_late_is_told_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let few = store::Settings { changes_kept: 10, ..store::Settings::default() };
    let server = Running::within(folder, few, |_| {});
    let mut client = server.client();
    for n in 0..30 {
        client.put("/v1/functions/a", &json!({"image": n.to_string()}));
    }
    assert_eq!(client.get("/v1/events?after=5").problem(), "gone");
    let revision = client.get("/v1/functions").json()["revision"].as_u64().expect("a number");
    assert_eq!(client.get(&format!("/v1/events?after={}", revision - 5)).text().lines().count(), 5);
}

#[test]
fn quiet_streams_say_that_they_live_and_notices_come_as_they_happen() {
    let server = Running::with(|settings| settings.limits.alive = Duration::from_millis(100));
    let mut client = server.client();
    client.put("/v1/functions/a", &json!({"image": "x"}));
    let mut follower = server.client();
    follower.send("GET", "/v1/events?follow=true", &[], b"").expect("asks");
    follower.head().expect("answers");
    assert_eq!(lines(&mut follower), [json!({"event": "alive", "revision": 1})]);
    client.post("/v1/functions/a/pause", "");
    let mut events = Vec::new();
    while events.len() < 2 {
        events.extend(lines(&mut follower).into_iter().filter(|event| event["event"] != "alive"));
    }
    events.sort_by_key(|event| event["event"].to_string());
    assert_eq!((&events[0]["event"], &events[1]["what"]), (&json!("changed"), &json!("paused")));
}

#[test]
fn logs_are_read_in_parts_and_followed() {
    let server = Running::new();
    let mut client = server.client();
    assert_eq!(client.get("/v1/functions/fw/logs").problem(), "not-found");
    client.put("/v1/functions/fw", &json!({"image": "x"}));
    for n in 0..5 {
        server.fake.say(&format!("line {n}"));
    }
    let some = client.get("/v1/functions/fw/logs?after=1&limit=3");
    let numbers: Vec<_> = some
        .text()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["number"].clone())
        .collect();
    assert_eq!(numbers, [2, 3, 4]);
    let mut follower = server.client();
    follower.send("GET", "/v1/functions/fw/logs?after=5&follow=true", &[], b"").expect("asks");
    follower.head().expect("answers");
    server.fake.say("at last");
    assert_eq!(lines(&mut follower)[0]["text"], "at last");
}

/// All followers have looked when they have the line; none of them looked for what the other function said.
#[test]
fn what_one_function_says_wakes_no_follower_of_another() {
    const FOLLOWERS: usize = 64;
    let server = Running::with(|settings| settings.limits.alive = Duration::from_secs(3600));
    let mut client = server.client();
    for name in ["quiet", "loud"] {
        client.put(&format!("/v1/functions/{name}"), &json!({"image": "x"}));
    }
    let mut followers: Vec<Client> = (0..FOLLOWERS).map(|_| server.client()).collect();
    for follower in &mut followers {
        follower.send("GET", "/v1/functions/quiet/logs?follow=true", &[], b"").expect("asks");
        follower.head().expect("answers");
    }
    for _ in 0..100 {
        server.fake.wake("loud");
        assert_eq!(client.get("/v1/health").status, 200);
    }
    server.fake.say("at last");
    for follower in &mut followers {
        assert_eq!(lines(follower)[0]["text"], "at last");
    }
    let looks = server.fake.world().looks["quiet"];
    assert!(looks <= 2 * FOLLOWERS as u64, "{looks} looks by {FOLLOWERS} followers");
}

#[test]
fn events_of_a_function_are_read_in_parts_and_followed_and_it_reports() {
    let server = Running::new();
    let mut client = server.client();
    for path in ["/v1/functions/fw/events", "/v1/functions/fw/report"] {
        assert_eq!(client.get(path).problem(), "not-found");
    }
    client.put("/v1/functions/fw", &json!({"image": "x"}));
    for n in 0..5 {
        server.fake.say(&format!("alert {n}"));
    }
    let some = client.get("/v1/functions/fw/events?after=3&limit=1");
    assert_eq!(some.header("content-type"), Some("application/jsonl"));
    let event: Value = serde_json::from_str(&some.text()).expect("one line");
    assert_eq!(
        (&event["number"], &event["what"], &event["alert"]),
        (&json!(4), &json!("alert"), &json!("alert 3"))
    );
    let mut follower = server.client();
    follower.send("GET", "/v1/functions/fw/events?after=5&follow=true", &[], b"").expect("asks");
    follower.head().expect("answers");
    server.fake.say("at last");
    assert_eq!(lines(&mut follower)[0]["alert"], "at last");
    let report = client.get("/v1/functions/fw/report").json();
    assert_eq!((&report["current"], &report["report"]), (&json!(true), &json!({"of": "fw"})));
}

#[test]
fn streams_end_when_the_server_does() {
    let mut server = Running::new();
    let mut follower = server.client();
    follower.send("GET", "/v1/events?follow=true", &[], b"").expect("asks");
    follower.head().expect("answers");
    server.begin_end();
    assert!(follower.chunk().expect("ends well").is_empty());
    server.join();
}

#[test]
fn traces_and_captures_are_streams_that_end_with_their_reader() {
    let server = Running::new();
    let mut client = server.client();
    let json = [("content-type", "application/json")];
    client.put("/v1/ports/lan", &json!({"type": "sink"}));
    let traced = client.ask("POST", "/v1/traces", &json, r#"{"at": "lan", "count": 3}"#);
    assert_eq!((traced.status, traced.header("content-type")), (200, Some("application/jsonl")));
    let lines: Vec<Value> =
        traced.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((lines.len(), &lines[0]["trace"], &lines[3]["trace"]), (4, &json!("alive"), &json!("ended")));
    for (path, wrong, place) in [
        ("/v1/traces", r#"{"at": "wan"}"#, "at"),
        ("/v1/traces", r#"{"count": 0}"#, "count"),
        ("/v1/captures", r#"{"at": "wan"}"#, "at"),
    ] {
        let refused = client.ask("POST", path, &json, wrong);
        assert_eq!(
            (refused.problem(), &refused.json()["faults"][0]["at"]),
            ("invalid".into(), &json!(place))
        );
    }
    for wrong in [r#"{"filtre": "x"}"#, "[]", r#"{"at": 1}"#] {
        assert_eq!(client.ask("POST", "/v1/traces", &json, wrong).problem(), "invalid", "{wrong}");
    }
    // All of a capture, and one whose client stops reading.
    let captured = client.ask("POST", "/v1/captures", &json, r#"{"at": "lan"}"#);
    assert_eq!((captured.header("content-type"), captured.body.len()), (Some("application/pcapng"), 10_000));
    let mut leaves = server.client();
    leaves.send("POST", "/v1/captures", &json, br#"{"at": "lan"}"#).expect("asks");
    leaves.head().expect("answers");
    drop(leaves);
    let began = std::time::Instant::now();
    while server.fake.open.load(std::sync::atomic::Ordering::SeqCst) > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "it goes on without a reader");
        std::thread::sleep(Duration::from_millis(5));
    }
}
