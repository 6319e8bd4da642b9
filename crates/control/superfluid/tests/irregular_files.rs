//! Files that are named in objects and are none: a FIFO in the place of rules keeps neither a request waiting
//! nor the daemon's start, and is told at its place. Needs no privileges.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
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

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
}

const IRREGULAR: &str = "found a FIFO; allowed: a regular file";

#[test]
fn a_fifo_in_the_place_of_a_certificate_or_a_key_keeps_no_start_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(folder.path().join("cert.pem"), cert.pem()).expect("written");
    fs::write(folder.path().join("key.pem"), signing_key.serialize_pem()).expect("written");
    make_fifo(&folder.path().join("fifo"));
    let listen = ["--listen", "127.0.0.1:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let peers = [&listen[..], &["--tls-client-ca", "cert.pem"]].concat();
    // On loopback it has no need of them.
    let page = ["--page", "192.0.2.1:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    for (with, option) in [
        (&peers[..], "--tls-cert"),
        (&peers[..], "--tls-key"),
        (&peers[..], "--tls-client-ca"),
        (&page[..], "--tls-cert"),
        (&page[..], "--tls-key"),
    ] {
        let mut arguments: Vec<String> = with.iter().map(|text| (*text).to_owned()).collect();
        let at = with.iter().position(|text| *text == option).expect("it is given");
        arguments[at + 1] = "fifo".to_owned();
        let options = Options::new(folder.path()).shared_cache().arguments(arguments);
        let said = options.spawn().fails();
        assert!(said.contains(&format!("fifo: {IRREGULAR}")), "{with:?} {option}: {said}");
    }
}

/// What lies in the folders of the daemon is its own; a FIFO there is another's mistake.
#[test]
fn a_fifo_in_the_place_of_a_file_of_the_state_keeps_no_start_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("kept");
    let options = Options::new(folder.path()).state("kept").shared_cache();
    let daemon = options.start();
    daemon.put("/v1/ports/out", json!({"type": "sink"}));
    daemon.end();
    for (file, ends) in [
        ("kept/store/lock", true),
        ("kept/store/durable", true),
        ("kept/store/store.db", true),
        ("kept/images/lock", false),
        ("kept/images/index.json", false),
        ("kept/events/default.jsonl", false),
        ("kept/audit.jsonl", true),
        ("kept/snapshot-keys.json", true),
        ("s.sock.lock", true),
    ] {
        let (path, aside) = (folder.path().join(file), folder.path().join("aside"));
        let was_there = path.exists();
        if was_there {
            fs::rename(&path, &aside).expect("moved");
        }
        make_fifo(&path);
        let listens = Options::new(folder.path()).state("kept").shared_cache().spawn().listens();
        match listens {
            Ok(daemon) => {
                assert!(!ends, "{file}: it started");
                assert_eq!(daemon.ask("GET", "/v1/ports/out", None).0, 200, "{file}");
                daemon.end();
            }
            Err(said) => {
                assert!(ends && said.contains("allowed: a regular file"), "{file}: {said}");
            }
        }
        fs::remove_file(&path).expect("still there");
        if was_there {
            fs::rename(&aside, &path).expect("moved");
        }
    }
    let daemon = Options::new(folder.path()).state("kept").shared_cache().start();
    assert_eq!(daemon.ask("GET", "/v1/ports/out", None).0, 200, "{}", state.display());
}

/// What commands are given: a FIFO keeps none waiting, and the output of another command is read.
#[test]
fn a_fifo_in_the_place_of_a_document_keeps_no_command_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    make_fifo(&folder.path().join("fifo"));
    fs::create_dir(folder.path().join("function")).expect("made");
    make_fifo(&folder.path().join("function/function.yaml"));
    let program = env!("CARGO_BIN_EXE_superfluid");
    let bash = |command: &str| {
        // Only a hang meets the bound.
        let mut bash = Command::new("timeout");
        bash.args(["60", "bash", "-c", command]).current_dir(folder.path());
        bash.env("SUPERFLUID_SOCKET", folder.path().join("s.sock"));
        bash.output().expect("bash")
    };
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    for command in [
        "check fifo",
        "run fifo",
        "apply -f fifo",
        "diff -f fifo",
        "function create f --image dpi --config @fifo",
        "function create f --image dpi --config rules=@fifo",
        "registry login localhost:1 --username u --password-file fifo",
        "get functions --token-file fifo",
        "restore fifo --state fresh",
        "image build function",
        "image inspect ./fifo",
        "vm build ./fifo -o out --kernel ./fifo",
        "vm build /bin/true -o out --kernel ./fifo",
    ] {
        let output = bash(&format!("{program} {command}"));
        assert!(!output.status.success() && said(&output).contains(IRREGULAR), "{command}: {output:?}");
    }
    fs::write(folder.path().join("sink.yaml"), "superfluid: 1\nports: {out: {type: sink}}\n")
        .expect("written");
    let output = bash(&format!("{program} run sink.yaml --for 1s --capture out=fifo"));
    assert!(said(&output).contains("found a FIFO that no process reads"), "{output:?}");
    let document = "superfluid: 1\nports: {out: {type: sink}}\n";
    let output = bash(&format!("{program} check <(printf '{document}')"));
    assert!(output.status.success(), "{}", said(&output));
    let output = bash(&format!("printf '{document}' | {program} check /dev/stdin"));
    assert!(output.status.success(), "{}", said(&output));
}

/// What is there stays as it is, until a port that writes it runs.
#[test]
fn a_change_that_is_only_tried_leaves_captures_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("there.pcapng"), "kept").expect("written");
    fs::write(at("none"), "no capture").expect("written");
    let daemon = Options::new(folder.path()).shared_cache().start();
    let with = |ports: Value| json!({"superfluid": 1, "ports": ports});
    let writing = |name: &str| json!({"type": "pcap", "write": at(name)});
    let good = with(json!({"a": writing("there.pcapng"), "b": writing("new.pcapng")}));
    let bad = with(json!({"a": writing("there.pcapng"), "z": {"type": "pcap", "read": at("none")}}));
    for path in ["/v1/check", "/v1/apply?dry_run=true"] {
        assert_eq!(daemon.ask("POST", path, Some(good.clone())).0, 200);
    }
    assert_eq!(daemon.ask("POST", "/v1/apply", Some(bad)).0, 422);
    assert_eq!(fs::read(at("there.pcapng")).expect("there"), b"kept");
    assert!(!at("new.pcapng").exists(), "it was made and is left");
    daemon.post("/v1/apply?wait=true", Some(good));
    let written = |name: &str| fs::metadata(at(name)).is_ok_and(|found| found.len() > 28);
    daemon.wait("both are begun", || written("there.pcapng") && written("new.pcapng"));
    assert_ne!(fs::read(at("there.pcapng")).expect("there"), b"kept");
}

/// A device that would stay is not made, and one that is there keeps its settings, until a port uses it.
#[test]
fn a_change_that_is_only_tried_leaves_devices_as_they_are() {
    testbed::isolated("a_change_that_is_only_tried_leaves_devices_as_they_are", || {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("none"), "no capture").expect("written");
        let ip = |command: &str| {
            let output = Command::new("ip").args(command.split(' ')).output().expect("ip");
            (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        assert!(ip("tuntap add dev kept mode tap vnet_hdr").0);
        let daemon = Options::new(folder.path()).shared_cache().start();
        let with = |more: Value| {
            let mut ports = json!({
                "made": {"type": "tap", "interface": "made", "persist": true},
                "kept": {"type": "tap", "interface": "kept", "mtu": 1400, "persist": true},
            });
            ports.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
            json!({"superfluid": 1, "ports": ports})
        };
        let capture = json!({"z": {"type": "pcap", "read": folder.path().join("none")}});
        for path in ["/v1/check", "/v1/apply?dry_run=true"] {
            assert_eq!(daemon.ask("POST", path, Some(with(json!({})))).0, 200);
        }
        let (shown, text) = ip("link show kept");
        assert!(shown && text.contains("mtu 1500") && text.contains("state DOWN"), "{text}");
        assert!(!ip("link show made").0, "it was made");
        assert_eq!(daemon.ask("POST", "/v1/apply?wait=true", Some(with(capture))).0, 422);
        assert!(!ip("link show made").0, "a change that failed has left it");
        daemon.post("/v1/apply?wait=true", Some(with(json!({}))));
        daemon.wait("both are used", || {
            let (made, kept) = (ip("-d link show made").1, ip("link show kept").1);
            made.contains("persist on") && kept.contains("mtu 1400")
        });
        daemon.end();
        assert!(ip("link show made").0, "it stays");
    });
}

/// A check says what an apply would be refused for.
#[test]
fn a_check_by_the_daemon_looks_at_captures() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("text"), "no capture").expect("written");
    make_fifo(&at("fifo"));
    let daemon = Options::new(folder.path()).shared_cache().start();
    for (port, told) in [
        (json!({"type": "pcap", "read": at("absent")}), "No such file"),
        (json!({"type": "pcap", "read": at("text")}), "no capture"),
        (json!({"type": "pcap", "read": at("fifo")}), "not a regular file"),
        (json!({"type": "pcap", "write": at("fifo")}), "not a regular file"),
        (json!({"type": "pcap", "write": at("absent/out")}), "No such file"),
    ] {
        let document = json!({"superfluid": 1, "ports": {"fine": {"type": "sink"}, "p": port}});
        for path in ["/v1/check", "/v1/apply?dry_run=true", "/v1/apply"] {
            let (_, answer) = daemon.ask("POST", path, Some(document.clone()));
            let fault = &answer["faults"][0];
            let is_it = fault["at"] == "ports.p" && fault["message"].to_string().contains(told);
            assert!(is_it, "{path} {document}: {answer}");
        }
    }
    // What one port writes is no other's to write or read.
    std::os::unix::fs::symlink(folder.path(), at("link")).expect("linked");
    for (other, told) in [
        (json!({"type": "pcap", "write": at("link/shared")}), "write: the port `one` has this file"),
        (json!({"type": "pcap", "read": at("shared")}), "read: the port `one` has this file"),
    ] {
        let ports = json!({"one": {"type": "pcap", "write": at("shared")}, "two": other});
        let document = json!({"superfluid": 1, "ports": ports});
        // Of no packets.
        fs::write(
            at("shared"),
            [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0],
        )
        .expect("written");
        daemon.write("shared.yaml", &document.to_string());
        let by_file = daemon.refused("check shared.yaml");
        assert!(by_file.1.contains(told), "{by_file:?}");
        for path in ["/v1/check", "/v1/apply?dry_run=true", "/v1/apply"] {
            let (_, answer) = daemon.ask("POST", path, Some(document.clone()));
            let fault = &answer["faults"][0];
            let is_it = fault["at"] == "ports.two" && fault["message"].to_string().contains(told);
            assert!(is_it, "{path} {document}: {answer}");
        }
    }
    // A port that is as it was is not looked at: its file may be in use, or gone by now.
    let document = json!({"superfluid": 1, "ports": {"p": {"type": "pcap", "write": at("out")}}});
    daemon.post("/v1/apply?wait=true", Some(document.clone()));
    fs::remove_file(at("out")).expect("written");
    make_fifo(&at("out"));
    let report = daemon.post("/v1/check", Some(document));
    assert_eq!(report["faults"], json!([]), "{report}");
}

#[test]
fn a_fifo_in_the_place_of_credentials_keeps_nothing_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("given");
    for option in ["--registry-ca-file", "--registry-auth-file"] {
        // No registry listens there, and none is asked.
        let arguments = [option, "given", "--registry-insecure", "127.0.0.1:1"].map(str::to_owned);
        let options = Options::new(folder.path()).shared_cache().arguments(arguments);
        make_fifo(&file);
        let said = options.spawn().listens().err().unwrap_or_default();
        assert!(said.contains("given: found a FIFO; allowed: a regular file"), "{option}: {said}");
        fs::remove_file(&file).expect("removed");
        if option == "--registry-auth-file" {
            // It is read again.
            fs::write(&file, "{}").expect("written");
            let daemon = options.start();
            fs::remove_file(&file).expect("removed");
            make_fifo(&file);
            let function = json!({"spec": {"image": "127.0.0.1:1/nf/echo:1"}});
            let (status, answer) = daemon.ask("PUT", "/v1/functions/fw?wait=true", Some(function));
            assert!(
                answer.to_string().contains("given: found a FIFO; allowed: a regular file"),
                "{status} {answer}"
            );
            daemon.end();
        }
    }
}
