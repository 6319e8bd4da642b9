//! Files that are named in objects and are none: a FIFO in the place of rules keeps neither a request waiting
//! nor the daemon's start, and is told at its place. Needs no privileges.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use support::daemon::Options;

const RULE: &str = "alert tcp any any -> any any (msg:\"one\"; content:\"one\"; sid:1;)\n";

/// A function with rules, and one without.
fn document(rules: &Path) -> Value {
    json!({
        "superfluid": 1,
        "ports": {"source": {"type": "generator", "rate": "1kpps"}, "out": {"type": "sink"}},
        "functions": {
            "ids": {"image": "dpi", "config": {"rules": rules}},
            "fw": {"image": "firewall", "config": {"default_action": "accept"}},
        },
        "chains": {"one": ["source", "ids", "fw", "out"]},
    })
}

#[test]
fn a_fifo_in_the_place_of_a_file_keeps_nothing_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let (rules, fifo) = (folder.path().join("a.rules"), folder.path().join("fifo"));
    let make_fifo = |path: &Path| {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
    };
    make_fifo(&fifo);
    fs::write(&rules, RULE).expect("written");
    let daemon = Options::new(folder.path()).state("kept").shared_cache().start();
    let refused = |answer: &Value| {
        let fault = &answer["faults"][0];
        assert_eq!(fault["at"], "functions.ids.config.rules", "{answer}");
        assert!(fault["message"].to_string().contains("found a FIFO; allowed: a regular file"), "{answer}");
    };
    let report = daemon.post("/v1/check", Some(document(&fifo)));
    refused(&report);
    let (status, answer) = daemon.ask("POST", "/v1/apply", Some(document(&fifo)));
    assert_eq!(status, 422, "{answer}");
    refused(&answer);
    let capture = json!({"spec": {"type": "pcap", "read": fifo}});
    let (status, answer) = daemon.ask("PUT", "/v1/ports/capture", Some(capture));
    assert!(status == 422 && answer.to_string().contains("regular file"), "{status} {answer}");
    assert_eq!(daemon.ask("GET", "/v1/health", None).0, 200);

    // What was a file when it was applied: the daemon starts, and what does not need it runs.
    daemon.write("good.json", &document(&rules).to_string());
    daemon.done("apply -f good.json");
    let daemon = {
        let stopped = daemon.kill();
        fs::remove_file(&rules).expect("removed");
        make_fifo(&rules);
        stopped.start()
    };
    assert_eq!(daemon.ask("GET", "/v1/health", None).0, 200);
    let status = |name: &str| daemon.get(&format!("/v1/functions/{name}"))["status"].clone();
    assert_eq!(status("ids")["state"], "down", "{}", status("ids"));
    let reason = status("ids")["reason"].to_string();
    assert!(reason.contains("found a FIFO; allowed: a regular file"), "{reason}");
    assert_eq!(status("fw")["state"], "running", "{}", status("fw"));
}

#[test]
fn a_fifo_in_the_place_of_credentials_keeps_nothing_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("given");
    let make_fifo = || mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
    for option in ["--registry-ca-file", "--registry-auth-file"] {
        // No registry listens there, and none is asked.
        let arguments = [option, "given", "--registry-insecure", "127.0.0.1:1"].map(str::to_owned);
        let options = Options::new(folder.path()).shared_cache().arguments(arguments);
        make_fifo();
        let said = options.spawn().listens().err().unwrap_or_default();
        assert!(said.contains("given: found no regular file"), "{option}: {said}");
        fs::remove_file(&file).expect("removed");
        if option == "--registry-auth-file" {
            // It is read again.
            fs::write(&file, "{}").expect("written");
            let daemon = options.start();
            fs::remove_file(&file).expect("removed");
            make_fifo();
            let function = json!({"spec": {"image": "127.0.0.1:1/nf/echo:1"}});
            let (status, answer) = daemon.ask("PUT", "/v1/functions/fw?wait=true", Some(function));
            assert!(answer.to_string().contains("given: found no regular file"), "{status} {answer}");
            daemon.end();
        }
    }
}
