//! The daemon as its clients meet it, with real functions and packets. Needs no privileges.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use support::cache::compiled;
use support::commands::search_path;
use support::daemon::{Daemon, Options};

fn start(folder: &Path) -> Daemon {
    Options::new(folder).shared_cache().start()
}

/// Packets that a function was called with.
fn packets(daemon: &Daemon, function: &str) -> u64 {
    daemon.get(&format!("/v1/functions/{function}"))["status"]["packets"].as_u64().expect("a count")
}

fn moves(daemon: &Daemon, function: &str) {
    let before = packets(daemon, function);
    daemon.wait("packets pass", || packets(daemon, function) > before + 100);
}

/// A source, a firewall that accepts everything, and a sink.
fn chain(daemon: &Daemon) {
    daemon.put("/v1/ports/source", json!({"type": "generator", "rate": "20kpps", "flows": 500}));
    daemon.put("/v1/ports/out", json!({"type": "sink"}));
    let spec = json!({
        // A machine that stalls is none of its faults.
        "image": "firewall", "config": {"default_action": "accept"}, "max_call": "2s",
        "attach": {"inside": "source", "outside": "out"},
    });
    daemon.put("/v1/functions/fw", spec);
}

/// An operator installs another version, and restarts the daemon some time after.
#[test]
fn a_daemon_whose_program_was_replaced_compiles_with_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let copied = ["sh", "-c", r#"cp "$0" program && exec ./program "$@""#];
    let daemon = Options::new(folder.path()).launcher(copied).start();
    let program = daemon.path("program");
    std::fs::remove_file(&program).expect("is there");
    daemon.put("/v1/functions/first", json!({"image": "forwarder"}));
    std::fs::write(&program, "#!/bin/sh\necho another version\n").expect("written");
    daemon.put("/v1/functions/second", json!({"image": "monitor"}));
}

#[test]
fn functions_come_and_go_while_packets_pass_and_all_of_them_are_accounted_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start(folder.path());
    chain(&daemon);
    moves(&daemon, "fw");
    // Others come and go beside it.
    daemon.put("/v1/switches/hall", json!({}));
    for n in 0..50 {
        let spec = json!({"image": "forwarder", "attach": {"left": "hall"}});
        daemon.put(&format!("/v1/functions/f{n}"), spec);
    }
    for n in 0..50 {
        let (status, answer) = daemon.ask("DELETE", &format!("/v1/functions/f{n}"), None);
        assert!(matches!(status, 200 | 204), "{status} {answer}");
    }
    moves(&daemon, "fw");
    // Paused, packets wait or are lost with a reason; resumed, they pass.
    daemon.post("/v1/functions/fw/pause", None);
    let still = packets(&daemon, "fw");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(packets(&daemon, "fw"), still);
    let state = daemon.get("/v1/functions/fw")["status"]["state"].clone();
    assert!(state == "paused" || state == "frozen", "{state}");
    // A function that stands still for long gives up what running needs, and goes on with what it knew.
    let private =
        || daemon.get("/v1/functions/fw")["status"]["memory"]["private"].as_u64().expect("a number");
    daemon.wait("it is frozen", || daemon.get("/v1/functions/fw")["status"]["state"] == "frozen");
    let little = private();
    assert_eq!(packets(&daemon, "fw"), still);
    daemon.post("/v1/functions/fw/snapshots", Some(json!({"name": "asleep"})));
    daemon.post("/v1/functions/fw/resume", None);
    assert_eq!(daemon.get("/v1/functions/fw")["status"]["state"], "running");
    assert!(little * 2 < private(), "{little} bytes while it is frozen");
    moves(&daemon, "fw");
    let metrics = daemon.text("/metrics");
    assert!(
        metrics.contains("superfluid_function_packets_total{function=\"fw\",tenant=\"default\""),
        "{metrics}"
    );
    let account = daemon.get("/v1/account");
    assert_eq!(account["balanced"], true, "{account}");
    let printed = daemon.end();
    assert!(printed.contains("the account balances"), "{printed}");
}

#[test]
fn a_function_is_saved_restored_and_cloned_with_what_it_knows() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start(folder.path());
    chain(&daemon);
    moves(&daemon, "fw");
    daemon.post("/v1/functions/fw/pause", None);
    let known = packets(&daemon, "fw");
    assert!(known > 100);
    let saved = daemon.post("/v1/functions/fw/snapshots", Some(json!({"name": "one"})));
    assert!(saved["bytes"].as_u64() > Some(1000), "{saved}");
    assert_eq!(daemon.get("/v1/snapshots")["items"][0]["name"], "one");
    daemon.post("/v1/functions/fw/resume", None);
    moves(&daemon, "fw");
    let image = daemon.get("/v1/functions/fw")["status"]["image"].clone();
    assert_eq!(saved["image"], image);
    // In its own place: what it counted since is gone with what it knew since.
    daemon.post("/v1/snapshots/one/restore?wait=true", Some(json!({"function": "fw"})));
    moves(&daemon, "fw");
    assert_eq!(daemon.get("/v1/functions/fw")["status"]["state"], "running");
    let (status, answer) = daemon.ask("POST", "/v1/snapshots/none/restore", Some(json!({"function": "fw"})));
    assert_eq!(status, 404, "{answer}");
    let account = daemon.get("/v1/account");
    assert_eq!(account["balanced"], true, "{account}");
    assert!(daemon.end().contains("the account balances"));
}

/// Mappings of memory that the daemon's functions share.
fn shared_mappings(daemon: &Daemon) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", daemon.id())).expect("its maps");
    maps.lines().filter(|line| line.contains("superfluid-clones:firewall")).count()
}

#[test]
fn functions_that_begin_as_a_snapshot_share_its_memory_until_they_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start(folder.path());
    chain(&daemon);
    moves(&daemon, "fw");
    daemon.post("/v1/functions/fw/snapshots", Some(json!({"name": "full"})));
    assert_eq!(shared_mappings(&daemon), 0);
    for n in 0..3 {
        daemon.put(&format!("/v1/ports/in{n}"), json!({"type": "generator", "rate": "1kpps"}));
        let create =
            format!("function create clone{n} --from full --attach inside=in{n} --attach outside=out{n}");
        daemon.put(&format!("/v1/ports/out{n}"), json!({"type": "sink"}));
        let told = daemon.done(&create);
        assert_eq!(told, format!("function/clone{n} created, running\n"));
    }
    assert_eq!(daemon.done("snapshot restore full --as again"), "function/again restored of snapshot/full\n");
    assert_eq!(shared_mappings(&daemon), 4, "each has it");
    let shared =
        || daemon.get("/v1/memory")["tenants"]["default"]["shared_bytes"].as_u64().expect("a number");
    let charged = shared();
    assert!(charged >= 4096, "{charged}");
    // Each has its own life: what it writes is no other's.
    for n in 0..3 {
        moves(&daemon, &format!("clone{n}"));
    }
    let spec = daemon.get("/v1/functions/clone0")["spec"].clone();
    assert_eq!(spec["config"], daemon.get("/v1/functions/fw")["spec"]["config"]);
    assert_eq!(spec["attach"], json!({"inside": "in0", "outside": "out0"}));
    // A clone is saved, paused, goes on and takes another configuration like any function.
    daemon.done("snapshot save clone1 later");
    daemon.done("function create late --from later");
    daemon.done("function pause clone2");
    daemon.done("function resume clone2");
    moves(&daemon, "clone2");
    let config = json!({"default_action": "accept", "max_flows": 8192});
    daemon
        .post("/v1/functions/clone0/upgrade?wait=true", Some(json!({"image": "firewall", "config": config})));
    moves(&daemon, "clone0");
    // What it was made of may go meanwhile. The memory goes with the last that has it.
    daemon.done("snapshot rm full");
    moves(&daemon, "clone1");
    let (status, told) = daemon.refused("function create more --from full");
    assert!(status == 1 && told.contains("there is no snapshot `full`"), "{told}");
    for name in ["clone0", "clone1", "clone2", "again", "late"] {
        daemon.done(&format!("delete function {name}"));
    }
    daemon.wait("the memory is given back", || shared() == 0);
    let account = daemon.get("/v1/account");
    assert_eq!(account["balanced"], true, "{account}");
    assert!(daemon.end().contains("the account balances"));
}

#[test]
fn another_configuration_takes_over_without_a_packet_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start(folder.path());
    chain(&daemon);
    moves(&daemon, "fw");
    for n in 0..20 {
        let config = json!({"default_action": "accept", "max_flows": 4096 + n});
        let body = json!({"image": "firewall", "config": config});
        daemon.post("/v1/functions/fw/upgrade?wait=true", Some(body));
    }
    moves(&daemon, "fw");
    let function = daemon.get("/v1/functions/fw");
    assert_eq!(function["spec"]["config"]["max_flows"], 4115);
    assert_eq!(function["status"]["drops"], json!({}), "{function}");
    assert_eq!(function["status"]["faults"], 0);
    let (status, answer) =
        daemon.ask("POST", "/v1/functions/fw/upgrade?wait=true", Some(json!({"image": "monitor"})));
    assert!(status >= 400, "{answer}");
    moves(&daemon, "fw");
    let account = daemon.get("/v1/account");
    assert_eq!(account["packets"]["dropped"], json!({}), "{account}");
    assert!(daemon.end().contains("the account balances"));
}

/// An operator moves the log away and says so, twice, as `logrotate` does.
#[test]
fn told_twice_by_sighup_it_opens_its_log_anew_and_all_else_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start(folder.path());
    chain(&daemon);
    moves(&daemon, "fw");
    let mut kept = daemon.connect();
    let audit = folder.path().join("state/audit.jsonl");
    let pid = Pid::from_raw(daemon.id() as i32).expect("a process");
    for n in 0..2 {
        let name = format!("f{n}");
        std::fs::rename(&audit, folder.path().join(format!("moved{n}"))).expect("renamed");
        kill_process(pid, Signal::HUP).expect("it runs");
        daemon.wait("the log is opened anew", || audit.exists());
        daemon.put(&format!("/v1/functions/{name}"), json!({"image": "forwarder"}));
        let written = std::fs::read_to_string(&audit).expect("the log");
        assert!(written.contains(&format!("function/{name}")), "{written}");
        // The connection from before is the same, and packets pass.
        assert_eq!(kept.get("/v1/health")["healthy"], true);
        moves(&daemon, "fw");
    }
    for n in 0..2 {
        let moved = std::fs::read_to_string(folder.path().join(format!("moved{n}"))).expect("the log before");
        assert!(!moved.is_empty() && !moved.contains(&format!("function/f{n}")), "{moved}");
    }
    assert!(daemon.end().contains("the account balances"));
}

/// Its deadline is always in the past, from its start on.
fn timer_storm(folder: &Path) -> PathBuf {
    let wasm = wat::parse_str(
        r#"(module
            (import "superfluid_v1" "timer_set" (func $timer_set (param i64) (result i32)))
            (memory (export "memory") 1)
            (func (export "sf_batch") (result i32) (i32.const 4096))
            (func (export "sf_init") (result i32) (call $timer_set (i64.const 1)))
            (func (export "sf_process") (param $count i32) (param $now i64))
            (func (export "sf_timer") (param $now i64) (drop (call $timer_set (i64.const 1)))))"#,
    )
    .expect("a module");
    let manifest = "name: storm\nversion: 1.0.0\nabi: 1\nsummary: Its timer is always due.\nlanguage: c\naccess: read\n\
                    interfaces: [left, right]\nmemory_limit: 64KiB\n";
    let (image, _) = image::assemble(&wasm, manifest, image::Names::Dropped).expect("an image");
    let path = folder.join("storm.wasm");
    std::fs::write(&path, image.wasm()).expect("written");
    path
}

/// It hung the worker for ever once, the interface with it, a signal to end was not heard, and the next start
/// hung again.
#[test]
fn a_timer_that_is_always_due_hangs_neither_the_daemon_nor_its_end_nor_its_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start(folder.path());
    chain(&daemon);
    let image = timer_storm(folder.path()).display().to_string();
    daemon.put("/v1/functions/storm", json!({"image": image}));
    let calls =
        |daemon: &Daemon| daemon.get("/v1/functions/storm")["status"]["cycles"].as_u64().expect("a count");
    let answers = |daemon: &Daemon| {
        assert_eq!(daemon.get("/v1/health")["healthy"], true);
        assert_eq!(daemon.get("/v1/functions/storm")["status"]["state"], "running");
        let before = calls(daemon);
        daemon.wait("its timer is called", || calls(daemon) > before);
        moves(daemon, "fw");
        daemon.put("/v1/functions/beside", json!({"image": "forwarder"}));
    };
    answers(&daemon);
    let again = daemon.kill();
    let daemon = again.start();
    answers(&daemon);
    assert!(daemon.end().contains("the account balances"), "a signal ends it");
    let daemon = start(folder.path());
    answers(&daemon);
    assert!(daemon.end().contains("the account balances"));
}

#[test]
fn what_was_acknowledged_runs_again_after_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start(folder.path());
    chain(&daemon);
    daemon.put("/v1/functions/second", json!({"image": "forwarder"}));
    daemon.post("/v1/functions/second/pause", None);
    daemon.kill();
    let daemon = start(folder.path());
    moves(&daemon, "fw");
    assert_eq!(daemon.get("/v1/functions/second")["status"]["state"], "frozen", "it did not begin at all");
    daemon.post("/v1/functions/second/resume", None);
    assert_eq!(daemon.get("/v1/functions/second")["status"]["state"], "running");
    daemon.end();
    let daemon = start(folder.path());
    moves(&daemon, "fw");
    daemon.end();
}

#[test]
fn workers_that_are_changed_come_with_the_next_start() {
    const LATER: &str = "workers: they come when the daemon starts again; until then those of before run";
    let workers = |daemon: &Daemon| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.id())).expect("its threads");
        let names = tasks.map(|task| std::fs::read_to_string(task.expect("one").path().join("comm")));
        names.filter_map(Result::ok).filter(|name| name.starts_with("worker-")).count()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start(folder.path());
    chain(&daemon);
    let (status, report) = daemon.ask("POST", "/v1/check", Some(json!({"superfluid": 1, "workers": 2})));
    assert_eq!((status, &report["warnings"][0]["at"]), (200, &json!("workers")), "{report}");
    assert_eq!(daemon.get("/v1/health")["warnings"], json!([]));
    daemon.put("/v1/workers/workers", json!(2));
    assert_eq!(daemon.get("/v1/health")["warnings"], json!([LATER]));
    assert_eq!(workers(&daemon), 1);
    let second = json!({"image": "forwarder", "worker": 1});
    let (status, problem) = daemon.ask("PUT", "/v1/functions/second", Some(json!({"spec": second})));
    assert!((400..500).contains(&status), "{status} {problem}");
    assert!(
        problem.to_string().contains("worker 1 comes when the daemon starts again; 1 run now"),
        "{problem}"
    );
    moves(&daemon, "fw");
    assert!(daemon.end().contains("the account balances"));
    let daemon = start(folder.path());
    assert_eq!((workers(&daemon), &daemon.get("/v1/health")["warnings"]), (2, &json!([])));
    daemon.put("/v1/functions/second", second);
    assert_eq!(daemon.get("/v1/functions/second")["status"]["worker"], 1);
    moves(&daemon, "fw");
    assert!(daemon.end().contains("the account balances"));
}

#[test]
fn all_other_threads_keep_off_the_processors_of_workers() {
    let given = sched_getaffinity(None).expect("its processors");
    let first = (0..CpuSet::MAX_CPU).find(|processor| given.is_set(*processor)).expect("one");
    let (mut own, mut rest) = (CpuSet::new(), given);
    own.set(first);
    rest.unset(first);
    // Where there is no other, they share it.
    let rest = if rest.count() == 0 { given } else { rest };
    let folder = tempfile::tempdir().expect("a folder");
    let workers = json!({"processors": [first]});
    let daemon = start(folder.path());
    daemon.put("/v1/workers/workers", workers.clone());
    daemon.end();
    let daemon = start(folder.path());
    // Threads of all kinds: a compiler's, those of requests and of starts.
    chain(&daemon);
    moves(&daemon, "fw");
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.id())).expect("its threads");
    let mut seen = (0, 0);
    for task in tasks {
        let path = task.expect("one").path();
        let id = path.file_name().and_then(|id| id.to_str()?.parse().ok()).and_then(Pid::from_raw);
        // One that has ended meanwhile has nothing.
        let Ok(name) = std::fs::read_to_string(path.join("comm")) else { continue };
        let Ok(found) = sched_getaffinity(id) else { continue };
        if name.starts_with("worker-") {
            assert_eq!(found, own, "{name}");
            seen.0 += 1;
        } else {
            assert_eq!(found, rest, "{name}");
            seen.1 += 1;
        }
    }
    assert!(seen.0 == 1 && seen.1 > 3, "{seen:?}");
    // What it was given is what it may give, whatever its own threads have left.
    daemon.put("/v1/workers/workers", workers);
    assert!(daemon.end().contains("the account balances"));
}

#[test]
fn health_is_of_the_ports_that_there_are_now() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start(folder.path());
    let socket = folder.path().join("a.sock");
    let warnings = || daemon.get("/v1/health")["warnings"].as_array().expect("a list").clone();
    let down = |name: &str| {
        let begin = format!("port `{name}` is down: ");
        warnings().iter().any(|warning| warning.as_str().is_some_and(|text| text.starts_with(&begin)))
    };
    // Several times, so that it is not by chance that the history had just looked.
    let delete = |name: &str| daemon.ask("DELETE", &format!("/v1/ports/{name}"), None);
    for _ in 0..3 {
        daemon.put("/v1/ports/master", json!({"type": "memif", "role": "master", "socket": socket}));
        assert!(down("master"), "nothing is at its other end: {:?}", warnings());
        daemon.put("/v1/ports/slave", json!({"type": "memif", "role": "slave", "socket": socket}));
        daemon.wait("they find each other", || warnings().is_empty());
        assert_eq!(delete("slave").0 / 100, 2);
        daemon.wait("it notices", || down("master"));
        assert_eq!(delete("master").0 / 100, 2);
        assert_eq!(warnings(), [json!(null); 0], "it is no more");
    }
    assert!(daemon.end().contains("the account balances"));
}

/// A guard is named by its device and its opener, `groups@red~fw:0`, and has interfaces of its own behind
/// that.
#[test]
fn interfaces_of_guards_are_named_as_those_of_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start(folder.path());
    let socket = folder.path().join("a.sock");
    daemon.put("/v1/ports/lan", json!({"type": "memif", "role": "master", "socket": socket}));
    daemon.put("/v1/groups/all", json!({"rules": [{"direction": "in"}, {"direction": "out"}]}));
    let device = json!({"mode": "direct", "over": ["lan"], "addresses": ["192.0.2.9/24"], "groups": ["all"], "zone": 7});
    daemon.put("/v1/devices/red", device);
    let spec = json!({"image": "forwarder", "attach": {"left": "red"}});
    daemon.put("/v1/functions/fw", spec);
    let guard = "groups@red~fw:0";
    let graph = daemon.get("/v1/graph");
    let edges = graph["edges"].as_array().expect("edges").iter();
    let ends = edges.flat_map(|edge| [(&edge["from"], &edge["from_part"]), (&edge["to"], &edge["to_part"])]);
    let mut parts: Vec<_> = ends.filter(|(name, _)| *name == guard).map(|(_, part)| part.clone()).collect();
    parts.sort_by_key(Value::to_string);
    assert_eq!(parts, [json!("inside"), json!("outside")], "{graph}");
    for place in [guard.to_owned(), format!("{guard}:inside"), format!("{guard}:1")] {
        let ended = daemon.run(&format!("capture {place} --for 50ms"));
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(told.contains("packets captured"), "{place}: {told}");
    }
    let (_, told) = daemon.refused(&format!("capture {guard}:left --for 50ms"));
    assert!(told.contains("allowed: inside, outside"), "{told}");
    assert!(daemon.end().contains("the account balances"));
}

/// One that the launcher starts is no instance of the engine.
#[test]
fn health_is_of_what_the_launcher_starts_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Options::new(folder.path()).shared_cache().arguments(["--launcher", "nothing.sock"]).start();
    let spec = json!({
        "guest": "program", "command": ["/bin/true"], "interfaces": {"in": {}}, "memory": "64MiB",
    });
    daemon.put("/v1/functions/beside", spec);
    let of_it = |health: &Value| {
        let warnings = health["warnings"].as_array().expect("a list").clone();
        warnings
            .iter()
            .filter_map(Value::as_str)
            .find_map(|warning| warning.strip_prefix("function `beside` is down: ").map(str::to_owned))
    };
    daemon.wait("it is told", || of_it(&daemon.get("/v1/health")).is_some());
    let why = of_it(&daemon.get("/v1/health")).expect("is down");
    assert!(why.contains("nothing.sock"), "{why}");
    daemon.done("token create own --tenant default --file own.token");
    let told = of_it(&daemon.json("health --token-file own.token")).expect("is down");
    assert!(!told.contains("nothing.sock"), "the host is not the tenant's to know: {told}");
    assert!(daemon.end().contains("the account balances"));
}

#[test]
fn bad_input_is_told_with_its_place_and_nothing_is_half_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start(folder.path());
    chain(&daemon);
    let refused = |method: &str, path: &str, body: Value, status: u16, says: &str| {
        let (found, answer) = daemon.ask(method, path, Some(body));
        assert_eq!(found, status, "{path}: {answer}");
        assert!(answer["detail"].as_str().is_some_and(|detail| detail.contains(says)), "{answer}");
    };
    let spec = |spec: Value| json!({ "spec": spec });
    refused(
        "PUT",
        "/v1/functions/x?wait=true",
        spec(json!({"image": "firewal"})),
        422,
        "did you mean `firewall`",
    );
    refused(
        "PUT",
        "/v1/functions/x?wait=true",
        spec(json!({"image": "forwarder", "attach": {"left": "source"}})),
        422,
        "has a wire already",
    );
    refused(
        "PUT",
        "/v1/functions/x?wait=true",
        spec(json!({"image": "forwarder", "pauses": []})),
        422,
        "for `superfluid run`",
    );
    refused(
        "PUT",
        "/v1/functions/x?wait=true",
        spec(json!({"image": "dpi", "config": {"rules": "/no/such"}})),
        422,
        "rules",
    );
    refused(
        "PUT",
        "/v1/functions/x?wait=true",
        spec(json!({"image": "monitor", "memory": "4MiB"})),
        422,
        "bytes failed; allowed: a larger `memory`, or less that it is to keep",
    );
    refused("PUT", "/v1/workers/workers", spec(json!({"processors": [70000]})), 422, "workers");
    let (status, answer) = daemon.ask("DELETE", "/v1/ports/source", None);
    assert_eq!(status, 409, "{answer}");
    let still = "port/source is named here; allowed: to delete this first, or to change it";
    assert_eq!(answer["faults"][0]["message"], still, "{answer}");
    let (status, _) = daemon.ask("GET", "/v1/functions/x", None);
    assert_eq!(status, 404);
    moves(&daemon, "fw");
    assert!(daemon.end().contains("the account balances"));
}

/// What a section of the README prints whose commands begin with a daemon, as they are pasted: nothing waits
/// for the socket but what they say themselves.
fn pasted(section: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let (_, section) = readme.split_once(section).expect("the section");
    let (_, block) = section.split_once("```sh\n").expect("commands");
    let (block, _) = block.split_once("```").expect("their end");
    // A port of the page's that is free.
    let block = block.replace("127.0.0.1:8800", "127.0.0.1:0");
    let lines: Vec<&str> = block.lines().collect();
    assert!(lines.len() <= 4 && lines[0].ends_with('&'), "{block}");
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(root.join("examples"), folder.path().join("examples")).expect("a link");
    let script = format!(
        "set -e\n{} \npid=$!\ntrap 'kill $pid; wait $pid' EXIT\n{}\n",
        lines[0],
        lines[1..].join("\n")
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", search_path())
        .env("XDG_CACHE_HOME", compiled())
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    format!("{said}{errors}")
}

#[test]
fn the_readmes_commands_lead_to_a_running_chain() {
    let said = pasted("## Change it while it runs");
    assert!(said.contains(r#""created""#) && said.contains(r#""state":"running""#), "{said}");
    assert!(said.contains("the account balances"), "{said}");
}

#[test]
fn the_readmes_commands_lead_to_a_link_to_the_page() {
    let said = pasted("## See it in a browser");
    assert!(said.contains("http://127.0.0.1:") && said.contains("/#link="), "{said}");
    assert!(said.contains("the account balances"), "{said}");
}

#[test]
fn a_daemon_of_root_needs_no_options() {
    // Folders of its own in the places of the host's.
    let script = "set -e
mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /var/lib
superfluid daemon & pid=$!
trap 'kill $pid; wait $pid' EXIT
superfluid health --wait 60s
stat -c '%a %n' /run/superfluid /run/superfluid/superfluid.sock /var/lib/superfluid";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .env("PATH", search_path())
        .env("XDG_CACHE_HOME", compiled())
        .output()
        .expect("unshare");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    let modes = "750 /run/superfluid\n600 /run/superfluid/superfluid.sock\n700 /var/lib/superfluid\n";
    assert!(said.contains(modes) && said.contains("the account balances"), "{said}{errors}");

    let folder = tempfile::tempdir().expect("a folder");
    let refused = Command::new(env!("CARGO_BIN_EXE_superfluid"))
        .args(["daemon", "--socket", "/no/such/folder/s.sock", "--state"])
        .arg(folder.path().join("state"))
        .output()
        .expect("it ends");
    let errors = String::from_utf8_lossy(&refused.stderr);
    let told = "/no/such/folder: the folder of the socket cannot be made: No such file or directory (os error 2); --socket names";
    assert!(!refused.status.success() && errors.contains(told), "{errors}");
}

/// A file that a configuration names and that has changed is a change, though the configuration has not.
#[test]
fn files_that_have_changed_are_taken_by_applying_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = start(folder.path());
    daemon.write(
        "router.yaml",
        "superfluid: 1\nports: {lan: {type: 'null'}, wan: {type: 'null'}}\nfunctions:\n  core:\n    image: router\n    \
         config:\n      interfaces: [{name: a, mac: '02:00:00:00:00:0a', addresses: [192.0.2.1/24]}]\n      \
         routes_file: routes\nchains: {c: [lan, core, wan]}\n",
    );
    let routes = || daemon.get("/v1/functions/core/report")["report"]["routes"]["ipv4"].as_u64();
    daemon.write("routes", "");
    daemon.done("apply -f router.yaml");
    let before = routes().expect("a report");
    for (number, lines) in [
        (1, "10.1.0.0/16 via 192.0.2.7\n"),
        (2, "10.1.0.0/16 via 192.0.2.7\n10.2.0.0/16 via 192.0.2.8\n"),
        (0, ""),
    ] {
        daemon.write("routes", lines);
        let (status, told) = daemon.refused("diff -f router.yaml");
        assert_eq!((status, told.as_str()), (1, ""));
        assert!(daemon.done("apply -f router.yaml").contains("function/core changed"));
        daemon.wait("the routes are other ones", || routes() == Some(before + number));
        // The same again is none.
        assert_eq!(daemon.done("diff -f router.yaml"), "nothing differs\n");
        assert!(daemon.done("apply -f router.yaml").starts_with("4 unchanged"));
    }
    // What is wrong with it is told, and all stays as it was; so it does when it is gone.
    daemon.write("routes", "10.1.0.0/16 through 192.0.2.7\n");
    let (status, told) = daemon.refused("apply -f router.yaml");
    assert!(status == 2 && told.contains("line 1"), "{told}");
    std::fs::remove_file(daemon.path("routes")).expect("it is there");
    assert!(daemon.done("apply -f router.yaml").starts_with("4 unchanged"));
    assert_eq!(routes(), Some(before));
}
