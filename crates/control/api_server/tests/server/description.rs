//! The description of the interface is complete, and what is answered is what it says.

use crate::Running;
use crate::client::Got;
use api_server::{Call, Found, Page};
use hyper::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Checks an answer against what the description says of its call and status.
fn check(document: &Value, method: &str, template: &str, got: &Got) {
    let at = format!("{method} {template} {}", got.status);
    let response =
        &document["paths"][template][method.to_ascii_lowercase()]["responses"][got.status.to_string()];
    assert!(response.is_object(), "{at} is not described: {got:?}");
    let content = response["content"].as_object().expect("content");
    let kind = got.header("content-type").unwrap_or_default();
    let described = content.get(kind).unwrap_or_else(|| panic!("{at}: {kind} is not described"));
    for header in response["headers"].as_object().into_iter().flat_map(|headers| headers.keys()) {
        let only_of_objects = header == "ETag" && got.json().get("created").is_some();
        assert!(got.header(&header.to_ascii_lowercase()).is_some() || only_of_objects, "{at}: {header}");
    }
    if kind.ends_with("json") {
        validate(document, &described["schema"], &got.json(), &at);
    }
}

fn validate(document: &Value, schema: &Value, instance: &Value, at: &str) {
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "allOf": [schema], "components": document["components"]});
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap_or_else(|error| panic!("{at}: {error}"));
    let errors: Vec<_> =
        validator.iter_errors(instance).map(|error| format!("{}: {error}", error.instance_path)).collect();
    assert!(errors.is_empty(), "{at}: {errors:?} in {instance}");
}

/// Nothing that common generators of clients leave out, with the call that it belongs to: constants in
/// headers, and choices between constants where there are enumerations.
fn what_generators_know(value: &Value, at: &str) {
    let is_text = |choice: &Value| choice["const"].is_string();
    for (key, value) in value.as_object().into_iter().flatten() {
        let at = format!("{at}/{key}");
        let choices = value.as_array().filter(|_| key == "oneOf");
        assert!(!choices.is_some_and(|choices| choices.iter().all(is_text)), "{at}: {value}");
        what_generators_know(value, &at);
    }
    for (n, value) in value.as_array().into_iter().flatten().enumerate() {
        assert!(value["in"] != "header" || value["schema"]["const"].is_null(), "{at}: {value}");
        what_generators_know(value, &format!("{at}/{n}"));
    }
}

#[test]
fn every_call_is_described_and_every_answer_is_as_described() {
    let page = Page::new(SocketAddr::from(([127, 0, 0, 1], 0)), None, &[]);
    let server = Running::with(|settings| settings.page = Some(page));
    let mut client = server.client();
    let document = client.get("/v1/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut operations = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            assert!(operations.insert(text(&operation["operationId"])), "{path} {method}");
            let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).expect("a method");
            assert!(
                matches!(Call::find(&method, &path.replace("{name}", "x")), Found::Call(..)),
                "{method} {path}"
            );
        }
    }
    assert_eq!(operations.len(), Call::all().count());
    references(&document, &document);
    what_generators_know(&document, "");

    // Each call, with a good answer and with bad ones.
    let specs = [
        ("workers", "workers", json!(2)),
        ("tenants", "gold", json!({"cpu": {"weight": 300}})),
        ("ports", "lan", json!({"type": "null"})),
        ("switches", "hall", json!({})),
        ("groups", "web", json!({"rules": [{"direction": "in", "from": {"group": "web"}}]})),
        ("devices", "pair", json!({"mode": "rootless"})),
        ("functions", "fw", json!({"image": "firewall"})),
        ("chains", "main", json!(["lan", "fw", "hall"])),
        ("wires", "a~b:1", json!(["a", "b:1"])),
        ("observers", "flows", json!({"at": ["fw"]})),
        ("services", "10", json!("fw:0")),
    ];
    let mut seen = BTreeSet::new();
    let mut ask = |method: &str, template: &str, name: &str, query: &str, body: &str, status: u16| {
        let path = format!("{}{query}", template.replace("{name}", name));
        let headers =
            if template.ends_with("apply") { vec![("content-type", "application/json")] } else { vec![] };
        let got = client.ask(method, &path, &headers, body);
        assert_eq!(got.status, status, "{method} {path}: {got:?}");
        check(&document, method, template, &got);
        seen.insert((method.to_owned(), template.to_owned()));
        got
    };
    for (plural, name, spec) in &specs {
        let (list, one) = (format!("/v1/{plural}"), format!("/v1/{plural}/{{name}}"));
        let body = json!({"spec": spec}).to_string();
        ask("GET", &one, name, "", "", 404);
        ask("PUT", &one, name, "?dry_run=true", &body, 200);
        ask("PUT", &one, name, "", &body, 201);
        ask("PUT", &one, name, "?durable=true", &body, 200);
        ask("PUT", &one, name, "", "{", 400);
        ask("PUT", &one, name, "", r#"{"spec": false}"#, 422);
        ask("GET", &one, name, "", "", 200);
        ask("GET", &one, name, "?x=1", "", 400);
        ask("GET", &list, "", "?limit=1", "", 200);
        ask("GET", &list, "", "?limit=0", "", 400);
    }
    let functions = "/v1/functions/{name}";
    for part in ["pause", "resume", "restart"] {
        ask("POST", &format!("{functions}/{part}"), "fw", "", "", 200);
        ask("POST", &format!("{functions}/{part}"), "none", "", "", 404);
    }
    ask("POST", &format!("{functions}/upgrade"), "fw", "", r#"{"image": "b"}"#, 200);
    ask("POST", &format!("{functions}/upgrade"), "fw", "", r#"{"image": 1}"#, 422);
    ask("POST", &format!("{functions}/upgrade"), "fw", "?wait=false", r#"{"image": "slow-c"}"#, 202);
    ask("GET", &format!("{functions}/logs"), "fw", "", "", 200);
    ask("GET", &format!("{functions}/events"), "fw", "?after=3&limit=7", "", 200);
    ask("GET", &format!("{functions}/report"), "fw", "", "", 200);
    ask("POST", &format!("{functions}/snapshots"), "fw", "", r#"{"name": "s"}"#, 201);
    ask("POST", &format!("{functions}/snapshots"), "fw", "", r#"{"name": "s"}"#, 409);
    ask("GET", "/v1/devices/{name}/neighbours", "pair", "?after=10.0.0.9&limit=7", "", 200);
    ask("GET", "/v1/devices/{name}/neighbours", "none", "", "", 404);
    ask("GET", "/v1/devices/{name}/neighbours", "pair", "?after=lan", "", 400);
    let snapshot = "/v1/snapshots/{name}";
    ask("GET", snapshot, "s", "", "", 200);
    ask("GET", "/v1/snapshots", "", "", "", 200);
    ask("POST", &format!("{snapshot}/restore"), "s", "", r#"{"function": "copy"}"#, 201);
    ask("POST", &format!("{snapshot}/restore"), "s", "", r#"{"function": "copy"}"#, 200);
    ask("POST", &format!("{snapshot}/adopt"), "s", "", r#"{"tenant": "other"}"#, 409);
    ask("POST", "/v1/snapshot-keys", "", "", "", 200);
    ask("DELETE", snapshot, "s", "", "", 200);
    ask("DELETE", snapshot, "s", "", "", 404);
    let operations = ask("GET", "/v1/operations", "", "", "", 200).json();
    ask("GET", "/v1/operations/{name}", &text(&operations["items"][0]["id"]), "", "", 200);
    ask("GET", "/v1/operations/{name}", "none", "", "", 404);
    for path in ["images", "account", "memory", "graph", "health", "openapi.json"] {
        ask("GET", &format!("/v1/{path}"), "", "", "", 200);
    }
    ask("GET", "/v1/history", "", "", "", 200);
    ask("GET", "/v1/history", "", "?layout=7", "", 200);
    ask("GET", "/v1/history", "", "?of=function%2Ffw&seconds=60", "", 200);
    ask("GET", "/v1/history", "", "?of=function%2Fnone", "", 404);
    ask("GET", "/v1/history", "", "?at=9", "", 410);
    for wrong in [
        "?of=fw",
        "?of=function/",
        "?seconds=60",
        "?of=function/fw&at=1",
        "?at=-1",
        "?of=function/fw&seconds=3601",
    ] {
        ask("GET", "/v1/history", "", wrong, "", 400);
    }
    ask("GET", "/v1/past-events", "", "", "", 200);
    ask("GET", "/v1/past-events", "", "?seconds=60&limit=8192", "", 200);
    for wrong in ["?seconds=0", "?seconds=3601", "?limit=0", "?limit=8193", "?after=1"] {
        ask("GET", "/v1/past-events", "", wrong, "", 400);
    }
    ask("GET", "/metrics", "", "", "", 200);
    ask("GET", "/v1/events", "", "?after=0", "", 200);
    ask("GET", "/v1/events", "", "?after=999999", "", 410);
    ask("POST", "/v1/apply", "", "", r#"{"superfluid": 1, "functions": {"fw": {"image": "z"}}}"#, 200);
    ask("POST", "/v1/check", "", "", r#"{"superfluid": 1, "functions": {"fw": {"image": "z"}}}"#, 200);
    ask("POST", "/v1/check", "", "", r#"{"superfluid": 1, "functions": {"fw": {"image": "missing"}}}"#, 200);
    ask("POST", "/v1/apply", "", "", r#"{"superfluid": 1, "functions": {"fw": {"image": "missing"}}}"#, 422);
    ask("POST", "/v1/traces", "", "", r#"{"at": "lan", "count": 2, "for": "1s"}"#, 200);
    ask("POST", "/v1/traces", "", "", r#"{"count": 0}"#, 422);
    ask("POST", "/v1/captures", "", "", r#"{"at": "lan", "filter": "tcp", "snap": 64}"#, 200);
    ask("POST", "/v1/captures", "", "", "{}", 422);
    ask("POST", "/v1/backups", "", "", "", 200);
    let token = r#"{"name": "ci", "tenant": "gold", "expires": "2999-01-02T03:04:05Z"}"#;
    ask("POST", "/v1/tokens", "", "", token, 201);
    ask("POST", "/v1/tokens", "", "", token, 409);
    ask("POST", "/v1/tokens", "", "", r#"{"name": "x", "tenant": "none"}"#, 422);
    ask("GET", "/v1/tokens", "", "", "", 200);
    ask("POST", "/v1/page-links", "", "", "", 201);
    ask("POST", "/v1/page-links", "", "", "{}", 400);
    let login = r#"{"tenant": "gold", "registry": "r.example:5000", "username": "ci", "password": "hush"}"#;
    ask("POST", "/v1/registry-logins", "", "", login, 201);
    for wrong in [
        r#"{"registry": "r.example", "username": "ci", "password": "hush"}"#,
        r#"{"tenant": "none", "registry": "r.example", "username": "ci", "password": "hush"}"#,
        r#"{"tenant": "gold", "registry": "r.example/x", "username": "ci", "password": "hush"}"#,
        r#"{"tenant": "gold", "registry": "r.example", "username": "c:i", "password": "hush"}"#,
        r#"{"tenant": "gold", "registry": "r.example", "username": "ci", "password": ""}"#,
    ] {
        ask("POST", "/v1/registry-logins", "", "", wrong, 422);
    }
    ask("GET", "/v1/registry-logins", "", "", "", 200);
    ask("DELETE", "/v1/registry-logins", "", "?tenant=gold", "", 422);
    ask("DELETE", "/v1/registry-logins", "", "?tenant=gold&registry=r.example:5000", "", 200);
    ask("DELETE", "/v1/registry-logins", "", "?tenant=gold&registry=r.example:5000", "", 404);
    ask("GET", "/v1/tokens/{name}", "ci", "", "", 200);
    ask("GET", "/v1/tokens/{name}", "none", "", "", 404);
    ask("DELETE", "/v1/tokens/{name}", "ci", "", "", 200);
    ask("DELETE", "/v1/tokens/{name}", "ci", "", "", 404);
    for (plural, name, _) in specs.iter().rev() {
        ask("DELETE", &format!("/v1/{plural}/{{name}}"), name, "", "", 200);
        ask("DELETE", &format!("/v1/{plural}/{{name}}"), name, "", "", 404);
    }
    let all: BTreeSet<_> = Call::all().map(|call| (call.method().to_string(), call.path())).collect();
    assert_eq!(seen, all, "each call was made");

    let events = client.get("/v1/events?after=0").text();
    let line_schema = json!({"$ref": "#/components/schemas/Event"});
    assert!(events.lines().count() > 20);
    for line in events.lines() {
        validate(&document, &line_schema, &serde_json::from_str(line).expect("JSON"), "event");
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Every reference leads somewhere.
fn references(document: &Value, value: &Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                let there = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
                assert!(there.is_some(), "{reference}");
            }
            map.values().for_each(|value| references(document, value));
        }
        Value::Array(items) => items.iter().for_each(|value| references(document, value)),
        _ => {}
    }
}

#[test]
fn what_every_call_is_refused_with_is_described() {
    let server = Running::new();
    let mut client = server.client();
    let document = client.get("/v1/openapi.json").json();
    for call in Call::all() {
        let (method, template) = (call.method().to_string(), call.path());
        let name = match call {
            Call::Get(kind) | Call::Put(kind) | Call::Delete(kind) => match kind {
                api::Kind::Workers => "workers",
                api::Kind::Service => "7",
                api::Kind::Wire => "a~b",
                _ => "x",
            },
            _ => "x",
        };
        let path = template.replace("{name}", name);
        let mut refused = |status: u16, query: &str, header: (&str, &str), body: &str| {
            let got = client.ask(&method, &format!("{path}{query}"), &[header], body);
            assert_eq!(got.status, status, "{method} {path}: {got:?}");
            check(&document, &method, &template, &got);
        };
        refused(400, "?no-such-parameter=1", ("x", "y"), "");
        refused(406, "", ("accept", "image/png"), "");
        match call.takes() {
            api_server::Takes::Nothing => refused(400, "", ("x", "y"), "a body"),
            _ => {
                refused(415, "", ("content-type", "text/plain"), "{}");
                // A check tells it as what is wrong with the document.
                if call != Call::Check {
                    refused(422, "", ("content-type", "application/json"), "[]");
                }
            }
        }
        if matches!(call, Call::Delete(_)) {
            refused(412, "", ("if-match", "\"5\""), "");
        }
    }
    let got = client.ask("PUT", "/v1/ports/x", &[("if-match", "*")], r#"{"spec": {"type": "null"}}"#);
    assert_eq!(got.problem(), "precondition-failed");
    check(&document, "PUT", "/v1/ports/{name}", &got);
}

#[test]
fn metrics_come_in_the_notation_that_is_asked_for() {
    let server = Running::new();
    let mut client = server.client();
    let plain = client.get("/metrics");
    assert!(plain.header("content-type").is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4")));
    assert!(
        plain.text().contains("# TYPE superfluid_daemon_requests_total counter\n")
            && !plain.text().contains("# EOF")
    );
    let accept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let open = client.ask("GET", "/metrics", &[("accept", accept)], "");
    assert!(open.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text")));
    assert!(
        open.text().contains("# TYPE superfluid_daemon_requests counter\n")
            && open.text().ends_with("# EOF\n")
    );
    assert!(open.text().contains("superfluid_daemon_requests_total{status=\"200\"} 1\n"));
}

/// A document with a line for each path and each type, so that a difference shows what has changed.
fn in_lines(document: &Value) -> String {
    let entries = |value: &Value| -> String {
        let entries = value.as_object().expect("a map").iter();
        let lines: Vec<String> = entries.map(|(name, value)| format!("{}: {value}", json!(name))).collect();
        format!("{{\n{}\n}}", lines.join(",\n"))
    };
    let top = document.as_object().expect("a map").iter().map(|(name, value)| {
        let text = match name.as_str() {
            "paths" => entries(value),
            "components" => {
                let parts = value.as_object().expect("a map").iter();
                let parts: Vec<String> =
                    parts.map(|(name, value)| format!("{}: {}", json!(name), entries(value))).collect();
                format!("{{{}}}", parts.join(", "))
            }
            _ => value.to_string(),
        };
        format!("{}: {text}", json!(name))
    });
    let text = format!("{{\n{}\n}}\n", top.collect::<Vec<_>>().join(",\n"));
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), *document);
    text
}

/// The page's types are generated from the file.
#[test]
fn the_description_in_the_tree_is_that_of_the_server() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/openapi.json");
    let document = in_lines(&api_server::openapi());
    let there = std::fs::read_to_string(path).unwrap_or_default();
    if there != document {
        std::fs::write(path, document).expect("writes");
        panic!("docs/openapi.json was another one; it has been written anew, and belongs into the commit");
    }
}
