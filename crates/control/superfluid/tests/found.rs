//! What functions find, why they fail and what they report: kept by the daemon, and shown to those whose it
//! is. Needs no privileges.

#[path = "support/guests.rs"]
mod guests;
#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use guests::{Deed, guest};
use serde_json::{Value, json};
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use support::commands::Commands;
use support::daemon::{Daemon, Options};

fn options(folder: &Path) -> Options {
    Options::new(folder).shared_cache().limit(Duration::from_secs(60))
}

/// A function with a source that gives it some packets a second.
fn function(daemon: &Daemon, folder: &Path, name: &str, tenant: &str, deed: Deed) {
    let image = guest(folder, &format!("image-{name}"), deed);
    daemon.put(
        &format!("/v1/ports/{name}-in"),
        json!({"type": "generator", "rate": "50pps", "tenant": tenant}),
    );
    let spec = json!({
        "image": image.display().to_string(), "tenant": tenant, "attach": {"left": format!("{name}-in")},
        "restart": {"first_delay": "20ms", "longest_delay": "50ms"},
    });
    daemon.put(&format!("/v1/functions/{name}"), spec);
}

fn tenants(daemon: &Daemon) {
    for tenant in ["red", "blue"] {
        daemon.put(&format!("/v1/tenants/{tenant}"), json!({"pool": {"buffers": 256, "pages": "ordinary"}}));
    }
}

/// The events of a kind.
fn events(daemon: &Daemon, name: &str, what: &str) -> Vec<Value> {
    let text = daemon.text(&format!("/v1/functions/{name}/events?limit=10000"));
    // An empty stream has no line at all.
    let all = text
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    all.filter(|event| event["what"] == what).collect()
}

#[test]
fn alerts_and_faults_are_kept_without_a_follower_and_over_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = options(folder.path()).start();
    tenants(&daemon);
    function(&daemon, folder.path(), "ids", "red", Deed::Tells);
    function(&daemon, folder.path(), "sick", "red", Deed::Traps);
    daemon.wait("no alert is kept", || events(&daemon, "ids", "alert").len() > 2);
    daemon.wait("no fault is kept", || !events(&daemon, "sick", "fault").is_empty());
    let alert = &events(&daemon, "ids", "alert")[0];
    assert_eq!(alert["alert"], json!({"alert": "seen"}), "{alert}");
    let fault = &events(&daemon, "sick", "fault")[0];
    assert!(fault["text"].as_str().is_some_and(|text| text.contains("started again in")), "{fault}");
    // Commands.
    let shown = daemon.done("function events ids");
    assert!(shown.lines().any(|line| line.ends_with("alert: {\"alert\":\"seen\"}")), "{shown}");
    let described = daemon.done("describe function sick");
    assert!(described.contains("last faults:\n") && described.contains(" fault: "), "{described}");
    let described = daemon.done("describe function ids");
    assert!(described.contains("last alerts:\n"), "{described}");
    // It is started again each time, and named all the same.
    daemon.wait("health does not name it", || {
        daemon.get("/v1/health")["warnings"].to_string().contains("function `sick` ")
    });
    // Metrics.
    let metrics = daemon.text("/metrics");
    let counted =
        metrics.lines().find(|line| line.starts_with("superfluid_function_events_total{function=\"ids\""));
    let count: f64 = counted.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("a count");
    assert!(count > 2.0, "{counted:?}");
    // What is followed comes as it comes.
    let mut follower = daemon
        .command("function events ids --follow -o json")
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(follower.stdout.take().expect("piped")).lines();
    let numbers: Vec<u64> = (0..20)
        .map(|_| {
            let line = lines.next().expect("more comes").expect("text");
            serde_json::from_str::<Value>(&line).expect("JSON")["number"].as_u64().expect("a number")
        })
        .collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    follower.kill().and_then(|()| follower.wait().map(drop)).expect("ended");
    // A daemon that was killed: what is on disk is there again, and no number comes twice.
    let file = folder.path().join("state/events/red.jsonl");
    daemon.wait("nothing is written", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.contains("seen") && text.contains("\"fault\""))
    });
    let first = events(&daemon, "ids", "alert")[0].clone();
    let last = events(&daemon, "ids", "alert").last().expect("some")["number"].as_u64();
    daemon.post("/v1/functions/ids/pause", None);
    let daemon = daemon.again();
    let again = events(&daemon, "ids", "alert");
    assert_eq!(again[0], first);
    daemon.post("/v1/functions/ids/resume", None);
    daemon.wait("no new alert", || events(&daemon, "ids", "alert").len() > again.len());
    assert!(events(&daemon, "ids", "alert")[again.len()]["number"].as_u64() > last);
    assert!(!events(&daemon, "sick", "fault").is_empty());
    // Deleted, and made again: nothing is left.
    for name in ["ids", "sick"] {
        let (status, answer) = daemon.ask("DELETE", &format!("/v1/functions/{name}"), None);
        assert_eq!(status, 200, "{answer}");
    }
    daemon.put("/v1/functions/ids", json!({"image": "forwarder", "tenant": "red"}));
    assert_eq!(events(&daemon, "ids", "alert"), [Value::Null; 0]);
    daemon.end();
    let daemon = options(folder.path()).start();
    assert_eq!(events(&daemon, "ids", "alert"), [Value::Null; 0]);
    daemon.end();
}

#[test]
fn a_tenant_sees_its_own_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = options(folder.path()).tenants_socket("tenants").start();
    tenants(&daemon);
    function(&daemon, folder.path(), "ids", "red", Deed::Tells);
    daemon.wait("no alert is kept", || !events(&daemon, "ids", "alert").is_empty());
    for tenant in ["red", "blue"] {
        daemon.done(&format!(
            "token create {tenant}-token --tenant {tenant} --expires 1d --file {tenant}.token"
        ));
    }
    let as_tenant = |tenant: &str| -> Commands {
        let commands = Commands::clone(&daemon).asking("tenants");
        commands.variable("SUPERFLUID_TOKEN_FILE", format!("{tenant}.token"))
    };
    assert!(as_tenant("red").done("function events ids").contains("seen"));
    assert!(as_tenant("red").done("function report ids").contains("mood"));
    for command in ["function events ids", "function report ids"] {
        let output = as_tenant("blue").run(command);
        assert!(!output.status.success() && output.stdout.is_empty(), "{command}");
    }
    // A function that changes its tenant takes nothing along.
    let (status, answer) = daemon.ask("DELETE", "/v1/functions/ids", None);
    assert_eq!(status, 200, "{answer}");
    daemon.put("/v1/functions/ids", json!({"image": "forwarder", "tenant": "blue"}));
    assert_eq!(as_tenant("blue").done("function events ids"), "");
    daemon.end();
}

#[test]
fn a_function_reports_is_bounded_in_it_and_the_last_report_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = options(folder.path()).start();
    tenants(&daemon);
    function(&daemon, folder.path(), "ids", "red", Deed::Tells);
    function(&daemon, folder.path(), "trapping", "red", Deed::TrapsInReport);
    function(&daemon, folder.path(), "hanging", "blue", Deed::HangsInReport);
    let report = daemon.get("/v1/functions/ids/report");
    assert_eq!((&report["current"], &report["report"]), (&json!(true), &json!({"mood": "well"})));
    assert!(daemon.done("function report ids").contains("mood: \"well\""));
    // One that cannot be asked any more gives what it reported last.
    daemon.post("/v1/functions/ids/pause", None);
    daemon.wait("it is not frozen", || daemon.get("/v1/functions/ids")["status"]["state"] == "frozen");
    let kept = daemon.get("/v1/functions/ids/report");
    assert_eq!(kept["report"], report["report"]);
    daemon.wait("it is asked in its sleep", || daemon.get("/v1/functions/ids/report")["current"] == false);
    // One that does not come back is ended like any other call, and the rest goes on.
    for name in ["trapping", "hanging"] {
        let (status, answer) = daemon.ask("GET", &format!("/v1/functions/{name}/report"), None);
        assert_eq!(status, 404, "{answer}");
        daemon.wait("its fault is not kept", || !events(&daemon, name, "fault").is_empty());
    }
    assert_eq!(daemon.get("/v1/health")["healthy"], true);
    let (status, _) = daemon.ask("GET", "/v1/functions/nothing/report", None);
    assert_eq!(status, 404);
    assert!(daemon.end().contains("the account balances"));
}

#[test]
fn events_that_cannot_be_written_stop_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("state")).expect("a folder");
    std::fs::set_permissions(folder.path().join("state"), Permissions::from_mode(0o700)).expect("set");
    // In the place of the folder there is a file.
    std::fs::write(folder.path().join("state/events"), "x").expect("written");
    let daemon = options(folder.path()).start();
    tenants(&daemon);
    function(&daemon, folder.path(), "ids", "red", Deed::Tells);
    daemon.wait("no alert is kept", || events(&daemon, "ids", "alert").len() > 2);
    daemon.wait("it is not told", || daemon.log().contains("events of functions are not on disk"));
    // It is told once.
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(daemon.log().matches("events of functions are not on disk").count(), 1);
    assert!(daemon.end().contains("the account balances"));
}

#[test]
fn a_reader_that_does_not_read_the_log_holds_up_no_request() {
    let folder = tempfile::tempdir().expect("a folder");
    // Standard error is a pipe without a reader, and is full at once.
    let script =
        "mkfifo err; exec 7<>err; dd if=/dev/zero of=err bs=4096 count=16 2>/dev/null; exec \"$@\" 2>err";
    let daemon = options(folder.path()).launcher(["sh", "-c", script, "sh"]).start();
    // That it listens was to be told first.
    assert_eq!(daemon.get("/v1/health")["healthy"], true);
    assert!(daemon.end().contains("the account balances"));
}
