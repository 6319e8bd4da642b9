//! How long things take, for clients and for a collector of spans.

use crate::Running;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

#[test]
fn steps_are_told_on_request() {
    let server = Running::new();
    let mut client = server.client();
    let body = json!({"spec": {"image": "slow-a"}}).to_string();
    let asked = [("content-type", "application/json"), ("prefer", "server-timing")];
    let created = client.ask("PUT", "/v1/functions/fw?durable=true&wait=true", &asked, &body);
    assert_eq!((created.status, created.header("preference-applied")), (201, Some("server-timing")));
    let told = created.header("server-timing").expect("the steps").to_owned();
    let steps: Vec<(&str, f64)> = told
        .split(", ")
        .map(|step| step.split_once(";dur=").expect("a step"))
        .map(|(name, milliseconds)| (name, milliseconds.parse().expect("a number")))
        .collect();
    let names: Vec<&str> = steps.iter().map(|(name, _)| *name).collect();
    let wanted = [
        "parse", "room", "turn", "compare", "compile", "turn", "compare", "prepare", "commit", "finish",
        "durable", "total",
    ];
    assert_eq!(names, wanted);
    // The fake takes 50 ms to compile.
    assert!(
        steps[4].1 >= 50.0 && steps[11].1 >= steps.iter().take(11).map(|(_, time)| time).sum::<f64>() * 0.99
    );
    let silent = client.put("/v1/functions/fw", &json!({"image": "b"}));
    assert_eq!((silent.header("server-timing"), silent.header("preference-applied")), (None, None));
}

/// A collector that takes everything; the spans of each request.
fn collector() -> (String, Receiver<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1/traces", listener.local_addr().expect("an address"));
    let (told, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let request: Value = serde_json::from_slice(&body(stream)).expect("JSON");
            let resource = &request["resourceSpans"][0];
            assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "superfluid");
            let spans = resource["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
            if told.send(spans).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

fn body(mut stream: TcpStream) -> Vec<u8> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let end = bytes.windows(4).position(|window: &[u8]| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
            let length: usize = length.expect("a length");
            if bytes.len() >= end + 4 + length {
                let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
                stream.write_all(answer).expect("answered");
                return bytes[end + 4..].to_vec();
            }
        }
        let count = stream.read(&mut part).expect("a request");
        assert!(count > 0, "all of it");
        bytes.extend(&part[..count]);
    }
}

fn settings(url: &str) -> trace_export::Settings {
    let found = trace_export::Settings::find(Some("http://x"), |_| None, "1").expect("sound").expect("there");
    trace_export::Settings { url: url.to_owned(), gather: Duration::from_millis(20), ..found }
}

#[test]
fn a_collector_is_told_of_calls_and_their_steps_in_the_clients_trace() {
    let (url, requests) = collector();
    let server = Running::with(|given| given.spans = Some(settings(&url)));
    let mut client = server.client();
    let below = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let asked = [("content-type", "application/json"), ("traceparent", below)];
    let body = json!({"spec": {"image": "a"}}).to_string();
    assert_eq!(client.ask("PUT", "/v1/functions/fw", &asked, &body).status, 201);
    let not_kept = below.replace("-01", "-00");
    client.ask("GET", "/v1/health", &[("traceparent", &not_kept)], "");
    client.get("/v1/functions/none");
    let mut all = Vec::new();
    let began = Instant::now();
    while all.iter().filter(|span: &&Value| span["kind"] == 2).count() < 2 {
        assert!(began.elapsed() < Duration::from_secs(20), "{all:?}");
        all.extend(requests.recv_timeout(Duration::from_secs(20)).expect("spans"));
    }
    let calls: BTreeMap<&str, &Value> = all
        .iter()
        .filter(|span| span["kind"] == 2)
        .map(|span| (span["name"].as_str().expect("a name"), span))
        .collect();
    assert_eq!(
        calls.keys().copied().collect::<Vec<_>>(),
        ["GET /v1/functions/{name}", "PUT /v1/functions/{name}"]
    );
    let put = calls["PUT /v1/functions/{name}"];
    assert_eq!(put["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(put["parentSpanId"], "b7ad6b7169203331");
    assert!(calls["GET /v1/functions/{name}"].get("parentSpanId").is_none(), "a trace of its own");
    let attribute = |span: &Value, name: &str| {
        let all = span["attributes"].as_array().expect("attributes").clone();
        all.into_iter().find(|attribute| attribute["key"] == name).map(|attribute| attribute["value"].clone())
    };
    assert_eq!(attribute(put, "http.response.status_code"), Some(json!({"intValue": "201"})));
    assert_eq!(attribute(put, "url.path"), Some(json!({"stringValue": "/v1/functions/fw"})));
    let time = |span: &Value, key: &str| {
        span[key].as_str().and_then(|text| text.parse::<u64>().ok()).expect("a time")
    };
    let steps: Vec<&Value> = all.iter().filter(|span| span["parentSpanId"] == put["spanId"]).collect();
    let names: Vec<&str> = steps.iter().filter_map(|span| span["name"].as_str()).collect();
    assert_eq!(names, ["parse", "room", "turn", "compare", "prepare", "commit", "finish", "audit"]);
    for step in steps {
        assert_eq!((&step["traceId"], &step["kind"]), (&put["traceId"], &json!(1)));
        assert!(time(step, "startTimeUnixNano") >= time(put, "startTimeUnixNano"), "{step} {put}");
        assert!(time(step, "endTimeUnixNano") <= time(put, "endTimeUnixNano"), "{step} {put}");
    }
    let metrics = client.get("/metrics").text();
    assert!(
        metrics.contains("superfluid_daemon_sent_spans_total ") && metrics.contains("lost_spans_total 0"),
        "{metrics}"
    );
}

#[test]
fn a_collector_that_is_not_there_delays_no_call() {
    // Takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1/traces", silent.local_addr().expect("an address"));
    let mut server = Running::with(|given| given.spans = Some(settings(&url)));
    let mut client = server.client();
    let began = Instant::now();
    for _ in 0..3000 {
        assert_eq!(client.get("/v1/health").status, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let began = Instant::now();
    server.begin_end();
    server.join();
    drop(server);
    assert!(began.elapsed() < Duration::from_secs(60), "the end is bounded");
}
