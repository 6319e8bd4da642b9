//! The whole process ends at once, hundreds of times, and what was acknowledged is there afterwards.

use crate::client::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn program() -> PathBuf {
    let this = std::env::current_exe().expect("this test");
    // target/debug/deps/server-… and target/debug/examples/fake_daemon.
    this.ancestors().nth(2).expect("a folder").join("examples/fake_daemon")
}

pub struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn start(folder: &Path) -> (Process, Client) {
    let child = Command::new(program()).arg(folder).stderr(Stdio::null()).spawn().expect("starts");
    let child = Process(child);
    let begun = Instant::now();
    loop {
        match Client::try_connect(&folder.join("socket")) {
            Ok(client) => return (child, client),
            Err(_) if begun.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(Duration::from_millis(1))
            }
            Err(error) => panic!("does not answer: {error}"),
        }
    }
}

#[test]
fn what_was_acknowledged_survives_being_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let kills = 200;
    let mut acknowledged = 0;
    for round in 0..kills {
        let (process, mut client) = start(folder.path());
        let list = client.get("/v1/functions?limit=1000").json();
        let there: BTreeMap<String, String> = list["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|item| (text(&item["name"]), text(&item["spec"]["image"])))
            .collect();
        assert_eq!(there, known, "round {round}");
        assert!(
            list["items"].as_array().expect("items").iter().all(|item| item["status"]["state"] == "running"),
            "all were started again"
        );
        let mut process = Some(process);
        // After a few answers, at any moment of the next one.
        let (go, goes) = std::sync::mpsc::channel();
        let killer = std::thread::spawn({
            let after = Duration::from_micros((round * 997) % 1500);
            let process = process.take();
            move || {
                goes.recv().expect("it is told");
                std::thread::sleep(after);
                drop(process);
            }
        });
        for n in 0.. {
            if n == round % 9 {
                go.send(()).expect("it waits");
            }
            let name = format!("f{}", n % 7);
            let path = format!("/v1/functions/{name}");
            let image = format!("{round}-{n}");
            let outcome = if n % 5 == 4 {
                client.try_ask("DELETE", &path, &[], "").map(|got| (got.status, None))
            } else {
                let body = json!({"spec": {"image": image}}).to_string();
                client.try_ask("PUT", &path, &[], &body).map(|got| (got.status, Some(image.clone())))
            };
            match outcome {
                Ok((200 | 201, Some(image))) => drop(known.insert(name, image)),
                Ok((200 | 404, None)) => drop(known.remove(&name)),
                Ok(other) => panic!("{other:?}"),
                Err(_) => {
                    // The last one may have been made or not; the next round must show one of both.
                    killer.join().expect("ends");
                    let (process, mut client) = start(folder.path());
                    let got = client.get(&path);
                    let found = (got.status == 200).then(|| text(&got.json()["spec"]["image"]));
                    let wanted = (n % 5 != 4).then_some(image);
                    assert!(found == wanted || found.as_ref() == known.get(&name), "{found:?} {wanted:?}");
                    match found {
                        Some(found) => drop(known.insert(name, found)),
                        None => drop(known.remove(&name)),
                    }
                    drop(process);
                    break;
                }
            }
            acknowledged += 1;
        }
    }
    assert!(acknowledged >= (0..kills).map(|round| round % 9).sum(), "it answered until it was killed");
    let audit = std::fs::read_to_string(folder.path().join("audit.jsonl")).expect("reads");
    let whole = audit.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
    assert!(
        whole as u64 >= acknowledged,
        "what is acknowledged is in the audit log: {whole} of {acknowledged}"
    );
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn sigterm_ends_it_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child =
        Command::new(program()).arg(folder.path()).stderr(Stdio::piped()).spawn().expect("starts");
    let socket = folder.path().join("socket");
    let begun = Instant::now();
    while Client::try_connect(&socket).is_err() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut client = Client::connect(&socket);
    client.send("PUT", "/v1/functions/fw", &[], br#"{"spec": {"image": "slow-end"}}"#).expect("asks");
    let begun = Instant::now();
    while !Client::connect(&socket).get("/v1/operations").text().contains("slow-end") {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not begun");
    }
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("signals");
    assert_eq!(client.read().expect("answers").status, 201);
    let ended = child.wait().expect("ends");
    assert!(ended.success() && !socket.exists(), "{ended}");
    let mut told = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("piped"), &mut told).expect("reads");
    let lines: Vec<Value> =
        told.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    assert_eq!(lines[0]["text"], "listening");
    assert_eq!((&lines[1]["text"], &lines[1]["why"]), (&json!("ending"), &json!("SIGTERM")));
}
