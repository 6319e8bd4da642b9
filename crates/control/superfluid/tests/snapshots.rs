//! What a snapshot of a stock function knows of connections is known wherever it is restored: in a function
//! that has seen others since, and in the daemon's next life, whose functions draw other secrets for their
//! tables. Runs in namespaces of its own.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use support::daemon::{Daemon, Options};
use testbed::{Line, SERVER, isolated};

const LIMIT: Duration = Duration::from_secs(20);
const PORT: u16 = 7000;
/// The client's address as the server sees it.
const OUTSIDE: &str = "10.83.0.7";
const FUNCTIONS: [&str; 2] = ["gate", "out"];

/// Packets of known connections that the first function did not know.
fn unknown(daemon: &Daemon) -> u64 {
    daemon.get("/v1/account")["functions"]["gate"]["drops"]["no-flow"].as_u64().unwrap_or(0)
}

/// Pauses the functions, or has them resume.
fn each(daemon: &Daemon, what: &str) {
    for name in FUNCTIONS {
        daemon.post(&format!("/v1/functions/{name}/{what}"), None);
    }
}

fn save(daemon: &Daemon, label: &str) {
    for name in FUNCTIONS {
        let snapshot = json!({"name": format!("{name}-{label}")});
        daemon.post(&format!("/v1/functions/{name}/snapshots"), Some(snapshot));
    }
}

fn restore(daemon: &Daemon, from: &str) {
    for name in FUNCTIONS {
        let into = json!({"function": name});
        daemon.post(&format!("/v1/snapshots/{name}-{from}/restore?wait=true"), Some(into));
    }
}

#[test]
fn connections_go_on_through_what_is_restored() {
    isolated("connections_go_on_through_what_is_restored", || {
        let line = Line::new().expect("a line");
        let neighbour = format!("neigh replace {OUTSIDE} lladdr 02:00:00:00:00:01 dev eth0");
        line.server.ip(&neighbour).expect("a neighbour");
        testbed::serve_echo(&line.server, PORT);
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new(folder.path()).state("kept").shared_cache();
        let daemon = line.middle.enter(|| options.start());
        let rule: Value = json!({"action": "accept", "protocol": "tcp", "destination_ports": PORT});
        daemon.post(
            "/v1/apply?wait=true",
            Some(json!({
                "superfluid": 1,
                "ports": {
                    "lan": {"type": "af_packet", "interface": "sf-lan"},
                    "wan": {"type": "af_packet", "interface": "sf-wan"},
                },
                "functions": {
                    "gate": {"image": "firewall", "config": {"default_action": "drop", "rules": [rule]}},
                    "out": {"image": "nat", "config": {"pool": [format!("{OUTSIDE}/32")]}},
                },
                "chains": {"edge": ["lan", "gate", "out", "wan"]},
            })),
        );
        save(&daemon, "empty");
        let server = SocketAddr::new(SERVER.parse().expect("an address"), PORT);
        let mut stream =
            line.client.enter(|| TcpStream::connect_timeout(&server, LIMIT)).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let mut answer = [0; 4];
        stream.write_all(b"once").and_then(|()| stream.read_exact(&mut answer)).expect("an answer");
        save(&daemon, "full");

        restore(&daemon, "empty");
        let before = unknown(&daemon);
        stream.write_all(b"ping").expect("it is buffered");
        daemon.wait("the connection is not known", || unknown(&daemon) > before);
        restore(&daemon, "full");
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"ping");
        // As the guide has it for another version of the program: what passed after a function was saved, it
        // would not know. Its functions are made anew, with other secrets.
        each(&daemon, "pause");
        save(&daemon, "last");
        stream.write_all(b"more").expect("it is buffered");
        assert!(daemon.end().contains("the account balances"));
        let daemon = line.middle.enter(|| options.start());
        restore(&daemon, "last");
        each(&daemon, "resume");
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"more");
        assert!(daemon.end().contains("the account balances"));
    });
}
