//! What goes over the wire, and what comes of the answers.

use crate::stub::{Act, Stub, answer, chunk, json, stream};
use api::{Event, Kind, Upgrade};
use client::{Answer, Change, ClientError, Only, Page, Written};
use serde_json::json as value;
use std::time::Duration;

const OBJECT: &str = r#"{"kind":"function","name":"fw","version":7,"spec":{"image":"firewall"}}"#;
const DIFFERENCE: &str = r#"{"dry_run":false,"revision":8,"created":[],"changed":[],"unchanged":[],"deleted":[{"kind":"function","name":"fw"}],"restarted":[]}"#;

/// The first line of a request, and its headers and body.
fn parts(request: &str) -> (&str, String, &str) {
    let (head, body) = request.split_once("\r\n\r\n").expect("a head");
    let (line, headers) = head.split_once("\r\n").expect("headers");
    (line, headers.to_lowercase(), body)
}

#[test]
fn questions_are_put_as_the_interface_has_them() {
    let created = String::from_utf8(answer("201 Created", "application/json", OBJECT)).expect("text");
    let created =
        created.replacen("content-type", "server-timing: check;dur=0.5, commit;dur=2\r\ncontent-type", 1);
    let stub = Stub::new([
        Act::Send(created.into_bytes()),
        json(DIFFERENCE),
        json(DIFFERENCE),
        json(OBJECT),
        json(OBJECT),
        json(r#"{"items":[]}"#),
    ]);
    let client = &stub.client;
    let change = Change { durable: true, only: Only::IfAbsent, ..Change::default() };
    let Answer::Done(Written { object, created, steps }) =
        client.put(Kind::Function, "fw", &value!({"image": "firewall"}), &change).expect("answered")
    else {
        panic!("it is done");
    };
    assert!(created && object.version == 7 && object.spec["image"] == "firewall");
    let steps: Vec<_> = steps.iter().map(|step| (step.name.as_str(), step.time.as_micros())).collect();
    assert_eq!(steps, [("check", 500), ("commit", 2000)]);
    let change = Change { only: Only::IfVersion(7), at_once: true, ..Change::default() };
    let Answer::Done(deleted) = client.delete(Kind::Wire, "a:1~b", &change).expect("answered") else {
        panic!("it is done");
    };
    assert_eq!(deleted.deleted[0].to_string(), "function/fw");
    let document = value!({"superfluid": 1});
    client.difference(&document, true, false).expect("answered");
    client.pause("f w", true).expect("answered");
    let upgrade = Upgrade { image: "monitor".into(), config: None };
    client.upgrade("fw", &upgrade, &Change::default()).expect("answered");
    assert!(client.snapshots().expect("answered").is_empty());

    let asked = stub.asked();
    let lines: Vec<_> = asked.iter().map(|request| parts(request).0).collect();
    assert_eq!(
        lines,
        [
            "PUT /v1/functions/fw?durable=true HTTP/1.1",
            "DELETE /v1/wires/a:1~b?wait=false HTTP/1.1",
            "POST /v1/apply?dry_run=true&prune=true HTTP/1.1",
            "POST /v1/functions/f%20w/pause?durable=true HTTP/1.1",
            "POST /v1/functions/fw/upgrade HTTP/1.1",
            "GET /v1/snapshots HTTP/1.1",
        ]
    );
    let (_, headers, body) = parts(&asked[0]);
    assert!(headers.contains("if-none-match: *") && headers.contains("content-type: application/json"));
    assert!(headers.contains("accept: application/json, application/problem+json"), "{headers}");
    assert_eq!(body, r#"{"spec":{"image":"firewall"}}"#);
    let (_, headers, body) = parts(&asked[1]);
    assert!(headers.contains("if-match: \"7\"") && body.is_empty(), "{headers}");
    // A POST without a body says so, or a server waits for one.
    assert!(parts(&asked[3]).1.contains("content-length: 0"), "{}", asked[3]);
    assert_eq!(parts(&asked[4]).2, r#"{"image":"monitor"}"#);
}

#[test]
fn lists_are_followed_to_their_end() {
    let page = |name: &str, next: &str| {
        json(&format!(
            r#"{{"items":[{{"kind":"port","name":"{name}","version":1,"spec":{{}}}}],"revision":3{next}}}"#
        ))
    };
    let stub = Stub::new([page("a", r#","next":"a""#), page("b", "")]);
    let names = |objects: Vec<api::Object>| objects.into_iter().map(|object| object.name).collect::<Vec<_>>();
    let all = stub.client.all(Kind::Port, Some("red & blue")).expect("answered");
    assert_eq!(names(all), ["a", "b"]);
    let asked = stub.asked();
    assert!(asked[0].starts_with("GET /v1/ports?limit=1000&tenant=red%20%26%20blue HTTP"), "{}", asked[0]);
    assert!(asked[1].starts_with("GET /v1/ports?after=a&limit=1000&tenant="), "{}", asked[1]);

    let stub = Stub::new([page("a", r#","next":"a""#), page("a", r#","next":"a""#)]);
    let error = stub.client.all(Kind::Port, None).expect_err("in circles").to_string();
    assert!(error.contains("does not come to its end"), "{error}");
    let stub = Stub::new([page("a", r#","next":"a""#)]);
    let list = stub.client.list(Kind::Port, &Page { limit: Some(1), ..Page::default() }).expect("answered");
    assert_eq!((list.next.as_deref(), list.revision), (Some("a"), 3));
}

#[test]
fn refusals_are_told_with_a_line_for_each_fault_and_more_below_it() {
    let problem = |faults: &str| {
        let body = format!(
            r#"{{"type":"/problems/invalid","title":"Something in what was sent is wrong","status":422,"detail":"2 \u001b[31mfaults"{faults}}}"#
        );
        Act::Send(answer("422 Unprocessable Content", "application/problem+json", &body))
    };
    let faults = r#","faults":[{"at":"functions.fw.image","message":"found `x`"},{"at":"","message":"a\n  b\nwires: c\u001b"}]"#;
    let stub = Stub::new([problem(faults), problem("")]);
    let error = stub.client.object(Kind::Function, "fw").expect_err("refused");
    assert_eq!(error.to_string(), "functions.fw.image: found `x`\na\n  b\n  wires: c\\u{1b}");
    assert_eq!(error.problem().and_then(api::Problem::problem_type), Some(api::ProblemType::Invalid));
    let error = stub.client.object(Kind::Function, "fw").expect_err("refused");
    assert_eq!(error.to_string(), "Something in what was sent is wrong: 2 \\u{1b}[31mfaults");
    assert!(!error.is_unreachable());
}

#[test]
fn operations_are_waited_for() {
    let operation = |state: &str, more: &str| {
        format!(
            r#"{{"id":"1-1","what":"compiling x","state":"{state}","asked":"2026-01-01T00:00:00Z"{more}}}"#
        )
    };
    let done = operation("done", &format!(r#","difference":{DIFFERENCE}"#));
    let later = Act::Send(answer("202 Accepted", "application/json", &operation("waiting", "")));
    let stub = Stub::new([later.clone(), json(&operation("running", "")), json(&done)]);
    let change = Change::default();
    let put = stub.client.put(Kind::Function, "fw", &value!({}), &change).expect("answered");
    let Answer::Later(waiting) = put else { panic!("it takes long") };
    let waiting = *waiting;
    let mut states = Vec::new();
    let limit = Duration::from_secs(5);
    let look = |operation: &api::Operation| states.push(format!("{:?}", operation.state));
    assert_eq!(stub.client.wait_for(waiting.clone(), limit, look).expect("done").revision, 8);
    assert_eq!(states, ["Waiting", "Running", "Done"]);
    assert!(stub.asked()[1].starts_with("GET /v1/operations/1-1 "));

    let problem = r#"{"type":"/problems/no-room","title":"No room","status":507,"detail":"full"}"#;
    let stub = Stub::new([json(&operation("failed", &format!(r#","problem":{problem}"#)))]);
    let error = stub.client.wait_for(waiting.clone(), limit, |_| ()).expect_err("failed").to_string();
    assert_eq!(error, "No room: full");
    let running = operation("running", "");
    let stub = Stub::new(std::iter::repeat_n(json(&running), 100));
    let error = stub.client.wait_for(waiting, Duration::from_millis(30), |_| ()).expect_err("not done");
    assert!(matches!(&error, ClientError::Unfinished { id, .. } if id == "1-1"), "{error}");
}

#[test]
fn streams_are_read_line_by_line_and_what_is_not_known_is_passed_over() {
    let lines = "{\"event\":\"changed\",\"revision\":2,\"kind\":\"port\",\"name\":\"lan\",\"happened\":\"put\"}\n\n{\"event\":\"ecl";
    let rest = "ipse\",\"of\":\"sun\"}\n{\"event\":\"alive\",\"revision\":2}\n";
    let stub = Stub::new([Act::Send([stream(lines), chunk(rest), chunk("")].concat())]);
    let events: Vec<Event> =
        stub.client.events(Some(1), true).expect("begun").collect::<Result<_, _>>().expect("whole");
    assert!(matches!(&events[0], Event::Changed { revision: 2, name, .. } if name == "lan"), "{events:?}");
    assert_eq!(events[1..], [Event::Alive { revision: 2 }]);
    let asked = stub.asked();
    assert!(asked[0].starts_with("GET /v1/events?follow=true&after=1 "), "{}", asked[0]);
    assert!(asked[0].to_lowercase().contains("accept: application/jsonl"), "{}", asked[0]);

    let line = r#"{"number":4,"time":"2026-01-01T00:00:00Z","severity":"notice","text":"up"}"#;
    let stub = Stub::new([Act::Send([stream(&format!("{line}\n")), chunk("")].concat())]);
    let said: Vec<_> =
        stub.client.logs("fw", 3, Some(10), false).expect("begun").collect::<Result<_, _>>().expect("whole");
    assert_eq!((said[0].number, said[0].text.as_str()), (4, "up"));
    assert!(stub.asked()[0].starts_with("GET /v1/functions/fw/logs?after=3&limit=10 "));
}

#[test]
fn a_connection_is_kept_and_one_that_has_ended_is_made_anew() {
    let stub =
        Stub::new([json(OBJECT), Act::End(answer("200 OK", "application/json", OBJECT)), json(OBJECT)]);
    for _ in 0..2 {
        stub.client.object(Kind::Function, "fw").expect("answered");
    }
    // The end of the first connection is there before the third request.
    stub.has_ended(1);
    stub.client.object(Kind::Function, "fw").expect("answered");
    assert_eq!(stub.asked().len(), 3);
}
