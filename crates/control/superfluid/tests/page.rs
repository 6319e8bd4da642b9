//! The daemon's side of the page with functions that run: the link, the history, and packets' first bytes
//! along their way. Needs no privileges.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use support::daemon::{Daemon, Options, SOCKET};
use support::http;
use tempfile::TempDir;

/// A quarter of what comes is dropped by a rule; then a function of another tenant.
const CHAIN: &str = "superfluid: 1
tenants:
  red: {}
ports:
  source: {type: generator, rate: 4kpps, flows: 64, source: 10.1.0.0/24, destination: 10.2.0.1/32}
  out: {type: sink, tenant: red}
functions:
  fw:
    image: firewall
    max_call: 2s
    config: {default_action: accept, rules: [{action: drop, source: 10.1.0.0/28}]}
  mine: {image: forwarder, max_call: 2s, tenant: red}
chains:
  way: [source, fw, out]
";

fn start(file: &str, more: &[&str]) -> (TempDir, Daemon) {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Options::new(folder.path()).arguments(more.iter().copied()).shared_cache().start();
    daemon.write("file.yaml", file);
    daemon.done("apply -f file.yaml");
    (folder, daemon)
}

/// A request to the page's address, with these lines in its head; the whole answer.
fn ask(address: &str, first: &str, lines: &[String], body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("a time limit");
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let head =
        format!("{first} HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\nconnection: close\r\n");
    write!(stream, "{head}{lines}content-length: {}\r\n\r\n{body}", body.len()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    // The page itself comes compressed.
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_command_prints_a_link_that_a_browser_opens_once() {
    let (_folder, daemon) = start(CHAIN, &["--page", "127.0.0.1:0"]);
    let link = daemon.done("page");
    let (base, secret) = link.trim().split_once("/#link=").expect("a fragment");
    let address = base.strip_prefix("http://").expect("nothing is encrypted on loopback");
    let page = ask(address, "GET /", &[], "");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("content-security-policy"), "{page}");
    let json_type = "content-type: application/json".to_owned();
    let body = json!({"link": secret}).to_string();
    let opened = ask(address, "POST /session", std::slice::from_ref(&json_type), &body);
    assert!(opened.starts_with("HTTP/1.1 200 "), "{opened}");
    let again = ask(address, "POST /session", std::slice::from_ref(&json_type), &body);
    assert!(again.starts_with("HTTP/1.1 401 "), "{again}");
    let (head, told) = opened.split_once("\r\n\r\n").expect("a head");
    let told: Value = serde_json::from_str(told).expect("JSON");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    let shown = [
        format!("cookie: {}", cookie.split(';').next().expect("a value")),
        format!("superfluid-session: {}", told["secret"].as_str().expect("a secret")),
    ];
    let graph = ask(address, "GET /v1/graph", &shown, "");
    assert!(graph.starts_with("HTTP/1.1 200 ") && graph.contains("\"fw\""), "{graph}");
    assert!(ask(address, "GET /v1/graph", &shown[..1], "").starts_with("HTTP/1.1 401 "));
    // A tenant's link shows what is the tenant's.
    daemon.done("token create ci --tenant red --file red.token");
    let link: Value =
        serde_json::from_str(&daemon.done("page --token-file red.token -o json")).expect("JSON");
    let secret = link["url"].as_str().and_then(|url| url.split_once("#link=")).expect("a fragment").1;
    let opened = ask(address, "POST /session", &[json_type], &json!({"link": secret}).to_string());
    assert!(opened.contains("\"tenant\":\"red\"") && opened.contains("\"token\":\"ci\""), "{opened}");
    let (status, refused) = daemon.refused("page --token-file none.token");
    assert!(status == 2 && refused.contains("none.token"), "{status}: {refused}");
}

#[test]
fn a_page_off_loopback_needs_a_certificate_and_is_said_to_be_missing_where_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = Options::new(folder.path()).arguments(["--page", "0.0.0.0:0"]).spawn().fails();
    assert!(told.contains("allowed: a loopback address") && told.contains("--tls-cert"), "{told}");
    let told = Options::new(folder.path()).arguments(["--tls-cert", "a", "--tls-key", "b"]).spawn().fails();
    assert!(told.contains("--listen and --page"), "{told}");
    let daemon = Options::new(folder.path()).shared_cache().start();
    let (status, told) = daemon.refused("page");
    assert!(status == 1 && told.contains("superfluid daemon --page"), "{status}: {told}");
}

#[test]
fn the_history_has_what_was_counted_and_why_packets_were_lost() {
    let (_folder, daemon) = start(CHAIN, &[]);
    let line = |of: &str| daemon.get(&format!("/v1/history?of={of}&seconds=60"));
    daemon.wait("a minute's counts", || {
        let (status, told) = daemon.ask("GET", "/v1/history?of=function/fw", None);
        status == 200
            && told["fine"]["values"]["packets"].as_array().is_some_and(|steps| steps.len() > 12)
            && told["minute"]["drops"].as_object().is_some_and(|drops| !drops.is_empty())
    });
    // Between two looks at the account, by its counters and by the history.
    let newest = || daemon.get("/v1/history");
    let moment = newest();
    let function = &moment["objects"]["function"];
    let at = function["names"].as_array().expect("names").iter().position(|name| name == "fw").expect("fw");
    let per_second = function["values"]["packets"][at].as_u64().expect("a number");
    assert!((2000..8000).contains(&per_second), "{per_second} of 4,000");
    assert_eq!((&function["values"]["state"][at], &function["tenants"][at]), (&json!(0), &json!("default")));
    let fw = line("function/fw");
    let sum = |name: &str, line: &Value| -> u64 {
        line["fine"]["values"][name].as_array().expect("steps").iter().filter_map(Value::as_u64).sum()
    };
    let status = daemon.get("/v1/functions/fw")["status"].clone();
    let (packets, dropped) = (sum("packets", &fw), sum("drops", &fw));
    let counted = status["packets"].as_u64().expect("a number");
    // What came before the first step and after the last is not in it.
    assert!(packets <= counted + counted / 50 && packets + 12_000 >= counted, "{packets} of {counted}");
    let part = dropped as f64 / packets as f64;
    assert!((0.045..0.09).contains(&part), "a sixteenth of the sources: {part}");
    let reasons = fw["minute"]["drops"].as_object().expect("reasons");
    assert!(reasons.values().all(|count| count.as_u64().is_some_and(|count| count > 0)), "{reasons:?}");
    let latency = &fw["minute"]["latency"];
    let (bounds, counts) =
        (latency["bounds_ns"].as_array().expect("bounds"), latency["counts"].as_array().expect("counts"));
    assert!(
        counts.len() == bounds.len() + 1 && counts.iter().any(|count| count.as_u64() > Some(0)),
        "{latency}"
    );
    // The wires, the ports, the tenants and the host agree.
    let of_edge = line("edge/wire/source~fw:inside");
    let there = sum("there", &of_edge);
    assert!(there > 0 && there.abs_diff(packets) <= packets / 20 + 8000, "{there} and {packets}");
    let of_graph = daemon.get("/v1/graph");
    let of_out = |edge: &&Value| edge["to"] == "out" || edge["from"] == "out";
    let wire = of_graph["edges"].as_array().expect("edges").iter().find(of_out).expect("a wire");
    let way = if wire["to"] == "out" { "there" } else { "back" };
    assert!(wire[way]["packets"].as_u64() > Some(0), "{wire}");
    assert!(sum("delivered", &line("port/out")) > 0 && sum("received", &line("host/host")) > 0);
    assert!(sum("cpu_ns", &line("tenant/default")) > 0 && sum("functions_ns", &line("worker/0")) > 0);
    // The names are left out for a client that knows them.
    let layout = moment["layout"].as_u64().expect("a number");
    let again = daemon.get(&format!("/v1/history?layout={layout}"));
    assert!(again["objects"]["function"]["names"].is_null() && again["layout"] == layout, "{again}");
    daemon.put("/v1/functions/late", json!({"image": "forwarder", "max_call": "2s"}));
    daemon.wait("another layout", || newest()["layout"].as_u64() > Some(layout));
    assert!(daemon.get(&format!("/v1/history?layout={layout}"))["objects"]["function"]["names"].is_array());
    let (first, last) = (moment["first"].as_u64().expect("first"), moment["last"].as_u64().expect("last"));
    assert_eq!(daemon.get(&format!("/v1/history?at={last}"))["at"], last);
    assert_eq!(first, 0);
    assert_eq!(daemon.ask("GET", &format!("/v1/history?at={}", last + 1000), None).0, 410);
    assert_eq!(daemon.ask("GET", "/v1/history?of=function/none", None).0, 404);
    assert!(daemon.get("/v1/memory")["history"]["bytes"].as_u64().is_some_and(|bytes| bytes < 1 << 20));
}

#[test]
fn the_commands_in_the_guide_print_what_it_says() {
    let (_folder, daemon) = start(CHAIN, &[]);
    daemon.wait("the first step", || daemon.ask("GET", "/v1/history?of=function/fw", None).0 == 200);
    let guide = include_str!("../../../../docs/page.md");
    let mut run = 0;
    for block in guide.split("\n```console\n$ ").skip(1) {
        let (command, rest) = block.split_once('\n').expect("a command");
        let shown = rest.split("```").next().expect("what it prints");
        let socket = daemon.path(SOCKET).display().to_string();
        let command = command.replace("/run/superfluid/superfluid.sock", &socket);
        let output = std::process::Command::new("bash")
            .args(["-euo", "pipefail", "-c", &command])
            .output()
            .expect("bash");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), shown.trim_end(), "{command}");
        run += 1;
    }
    assert!(run >= 1, "{run}");
}

#[test]
fn a_tenant_sees_the_history_of_its_own() {
    let (_folder, daemon) = start(CHAIN, &[]);
    let secret = daemon.post("/v1/tokens", Some(json!({"name": "ci", "tenant": "red"})))["secret"].clone();
    let secret = secret.as_str().expect("a secret");
    let ask = |path: &str| http::exchange(&daemon.path(SOCKET), Some(secret), "GET", path, None);
    daemon.wait("the first step", || {
        ask("/v1/history").0 == 200 && ask("/v1/history?of=function/mine").0 == 200
    });
    let told: Value = serde_json::from_str(&ask("/v1/history").1).expect("JSON");
    let names = |kind: &str| told["objects"][kind]["names"].clone();
    assert_eq!(
        (names("function"), names("port"), names("tenant")),
        (json!(["mine"]), json!(["out"]), json!(["red"]))
    );
    for kind in ["worker", "pool", "host"] {
        assert!(told["objects"][kind].is_null(), "{told}");
    }
    assert_eq!(names("edge"), json!([]), "the wire to its port is from another's function");
    for hidden in ["function/fw", "port/source", "worker/0", "host/host", "tenant/default", "pool/default"] {
        let (status, answer) = ask(&format!("/v1/history?of={hidden}"));
        assert_eq!(status, 404, "{hidden}: {answer}");
    }
    assert!(!told.to_string().contains("fw") && !told.to_string().contains("source"), "{told}");
    // What happened to its objects is told to it, and of others' nothing.
    let past: Value = serde_json::from_str(&ask("/v1/past-events").1).expect("JSON");
    let names: Vec<&Value> = past["items"].as_array().expect("events").iter().map(|it| &it["name"]).collect();
    assert!(names.contains(&&json!("mine")) && names.contains(&&json!("out")), "{past}");
    assert!(!past.to_string().contains("fw") && !past.to_string().contains("source"), "{past}");
    let all = daemon.get("/v1/past-events");
    let changed = |name: &str| {
        let is_it = |it: &&Value| it["name"] == name && it["what"] == "put";
        all["items"].as_array().expect("events").iter().find(is_it).cloned()
    };
    let fw = changed("fw").expect("its change");
    assert!(fw["revision"].as_u64() > Some(0) && fw["age_ms"].is_u64() && fw["text"].is_null(), "{fw}");
}

/// Two functions with a device between them, and one that observes.
const PAIR: &str = "superfluid: 1
ports:
  in: {type: generator, rate: 2kpps}
  out: {type: sink}
devices:
  pair: {mode: rootless}
functions:
  a: {image: forwarder, max_call: 2s, attach: {left: in, right: pair}}
  b: {image: forwarder, max_call: 2s, attach: {left: pair, right: out}}
  eye: {image: monitor, max_call: 2s}
observers:
  eye: {at: [a]}
";

#[test]
fn what_nothing_counts_has_no_number_in_the_graph_and_no_history() {
    let (_folder, daemon) = start(PAIR, &[]);
    daemon.wait("packets pass", || daemon.get("/v1/functions/b")["status"]["packets"].as_u64() > Some(0));
    let graph = daemon.get("/v1/graph");
    let node = |name: &str| {
        let nodes = graph["nodes"].as_array().expect("nodes");
        nodes.iter().find(|node| node["name"] == name).expect("a node").clone()
    };
    assert!(
        node("pair")["packets"].as_u64() > Some(0) && node("pair")["bytes"].as_u64() > Some(0),
        "{graph}"
    );
    assert!(node("b")["packets"].as_u64() > Some(0), "{graph}");
    let edges = graph["edges"].as_array().expect("edges");
    let observes = edges.iter().find(|edge| edge["kind"] == "observes").expect("the observer's");
    assert!(observes.get("there").is_none() && observes.get("back").is_none(), "{observes}");
    daemon.wait("the first step", || daemon.ask("GET", "/v1/history?of=function/b", None).0 == 200);
    let told = daemon.get("/v1/history");
    let known = told["objects"]["edge"]["names"].as_array().expect("names");
    assert!(known.contains(&json!("wire/in~a:left")), "{known:?}");
    assert!(
        !known.iter().any(|name| name.as_str().is_some_and(|name| name.starts_with("observes/"))),
        "{known:?}"
    );
    assert_eq!(daemon.ask("GET", "/v1/history?of=edge/observes/a~eye", None).0, 404);
}
