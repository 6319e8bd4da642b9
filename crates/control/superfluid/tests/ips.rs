//! A connection between two hosts that carries what a rule finds is ended by resets, and others go on, where
//! prevention is inline (`examples/ips.yaml`) and where it is beside the packets' way
//! (`examples/bypass.yaml`). Runs in namespaces of its own.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use testbed::{Background, Line, SERVER, isolated};

const LIMIT: Duration = Duration::from_secs(15);
/// Of the start, which compiles images where that was not done before.
const START: Duration = Duration::from_secs(35);

/// Answers each request with a page, until the test ends.
fn serve(line: &Line) {
    let listener = line.server.enter(|| TcpListener::bind((SERVER, 8000)).expect("a free port"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let mut request = [0; 4096];
                // One that is reset ends here.
                let Ok(1..) = stream.read(&mut request) else { return };
                // Long enough for the reset to come first.
                thread::sleep(Duration::from_millis(200));
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfine");
            });
        }
    });
}

#[test]
fn a_connection_ends_when_it_carries_what_a_rule_finds() {
    isolated("a_connection_ends_when_it_carries_what_a_rule_finds", || {
        connections_end("ips.yaml");
    });
}

#[test]
fn a_connection_is_ended_from_beside_the_packets_way() {
    isolated("a_connection_is_ended_from_beside_the_packets_way", || {
        let account = connections_end("bypass.yaml");
        assert_eq!(account["functions"]["detection"]["missed"], 0, "{account}");
        // What both ends hear came by prevention's own device, and nothing else comes to that.
        let packets = &account["functions"]["prevention"]["report"]["packets"];
        assert_eq!((&packets["passed"], &packets["other"]), (&0.into(), &0.into()), "{account}");
    });
}

/// Runs an example between two hosts of which one asks for what a rule finds, and for what none does, and
/// returns the final account.
fn connections_end(example: &str) -> Value {
    let line = Line::new().expect("a line");
    serve(&line);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(example);
    let mut command = line.middle.command(env!("CARGO_BIN_EXE_superfluid"));
    let mut program = Background::start(command.args(["run", "--json"]).arg(example)).expect("it starts");
    let begin = Instant::now();
    while line.client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT).is_err() {
        if begin.elapsed() > START || !program.is_running() {
            let (out, err) = program.finish();
            panic!("no answer from the other end:\n{}\n{err}", out.lines().last().unwrap_or_default());
        }
    }
    let ask =
        |path: &str| line.client.run(&format!("curl -sS --max-time 10 http://{SERVER}:8000{path}"), LIMIT);
    for _ in 0..3 {
        assert_eq!(ask("/fine").expect("an answer").stdout, "fine");
        let told = ask("/forbidden").expect_err("it is ended").to_string();
        assert!(told.contains("reset"), "{told}");
    }
    let shown = program.interrupt(LIMIT).unwrap_or_else(|error| panic!("{error}")).stdout;
    let mut events = shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let account = events.rfind(|event| event["event"] == "final").expect("an account");
    assert_eq!(account["balanced"], true, "{account}");
    let number = |function: &str, counter: &str| {
        account["functions"][function]["counters"][counter].as_u64().unwrap_or(0)
    };
    assert!(number("detection", "copies") >= 3, "{account}");
    assert_eq!(number("prevention", "connections-added"), 3, "{account}");
    assert!(number("prevention", "resets-sent") >= 9, "{account}");
    account
}
