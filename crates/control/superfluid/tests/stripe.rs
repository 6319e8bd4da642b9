//! Two striped bonds that are joined by two links, of which one is slower. Runs in namespaces of its own.

use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};
use testbed::{Background, Iperf, Line, Namespace, SERVER, isolated};

const LIMIT: Duration = Duration::from_secs(20);
/// Of the start, which compiles images where that was not done before.
const START: Duration = Duration::from_secs(60);

/// What comes by the second link is two milliseconds late, either way.
const FILE: &str = "\
superfluid: 1
tenants: {default: {pool: {buffers: 2048, buffer_size: 64KiB}}}
ports:
  lan: {type: af_packet, interface: sf-lan}
  wan: {type: af_packet, interface: sf-wan}
  near1: {type: af_packet, interface: near1}
  near2: {type: af_packet, interface: near2, fault: {receive: {delay: 2ms}}}
  far1: {type: af_packet, interface: far1}
  far2: {type: af_packet, interface: far2, fault: {receive: {delay: 2ms}}}
devices:
  near: {mode: bond, balance: stripe, over: [near1, near2]}
  far: {mode: bond, balance: stripe, over: [far1, far2]}
functions:
  a: {image: firewall, config: {default_action: accept}}
  b: {image: firewall, config: {default_action: accept}}
chains: {to: [lan, a, near], from: [far, b, wan]}
";

/// How many segments the kernel in a namespace has had to put in order.
fn out_of_order(host: &Namespace) -> u64 {
    let text =
        host.enter(|| fs::read_to_string("/proc/thread-self/net/netstat")).expect("the kernel's counters");
    let mut rows = text.lines().filter(|row| row.starts_with("TcpExt:")).map(str::split_whitespace);
    let (names, values) = (rows.next().expect("names"), rows.next().expect("values"));
    let found = names.zip(values).find(|(name, _)| *name == "TCPOFOQueue");
    found.and_then(|(_, value)| value.parse().ok()).expect("a number")
}

fn number(account: &Value, path: &[&str]) -> u64 {
    path.iter().fold(account, |value, key| &value[key]).as_u64().unwrap_or(0)
}

#[test]
fn one_flow_uses_both_links_and_keeps_its_order() {
    isolated("one_flow_uses_both_links_and_keeps_its_order", || {
        let line = Line::new().expect("a line");
        for link in ["1", "2"] {
            let (near, far) = (format!("near{link}"), format!("far{link}"));
            line.middle.join(&near, &line.middle, &far).expect("a link");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("stripe.yaml");
        fs::write(&file, FILE).expect("written");
        let mut command = line.middle.command(env!("CARGO_BIN_EXE_superfluid"));
        let mut program = Background::start(command.args(["run", "--json"]).arg(&file)).expect("it starts");
        let begin = Instant::now();
        while line.client.run(&format!("ping -c 1 -W 1 {SERVER}"), LIMIT).is_err() {
            if begin.elapsed() > START || !program.is_running() {
                let (out, err) = program.finish();
                panic!("no answer from the other end:\n{}\n{err}", out.lines().last().unwrap_or_default());
            }
        }
        // Links take 12 bytes less: the one is fragmented, of the other the sender is told.
        let ping = |options: &str| line.client.run(&format!("ping -c 1 -W 5 {options} {SERVER}"), LIMIT);
        ping("-s 1472 -M dont").expect("it is fragmented, and put together at the other end");
        let told = ping("-s 1472 -M do").expect_err("it is too long").to_string();
        assert!(told.contains("mtu = 1488") || told.contains("mtu=1488"), "{told}");
        line.client.run(&format!("ping -c 50 -i 0.01 -W 5 {SERVER}"), LIMIT).expect("all are answered");
        let mut server = Iperf::serve(&line.server).expect("iperf3");
        server.measure(&line.client, 2, "--bitrate 20M").expect("a stream");
        drop(server);
        assert_eq!(out_of_order(&line.server), 0, "TCP saw packets overtake each other");

        let shown = program.interrupt(LIMIT).unwrap_or_else(|error| panic!("{error}")).stdout;
        let mut events = shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let account = events.rfind(|event| event["event"] == "final").expect("an account");
        assert_eq!(account["balanced"], true, "{account}");
        for port in ["near1", "near2"] {
            let sent = number(&account, &["ports", port, "packets", "delivered"]);
            assert!(sent > 500, "{port} sent {sent}: {account}");
        }
        let waited = number(&account, &["ports", "far/outside", "details", "stripe_waited"]);
        assert!(waited > 500, "{waited} waited for the slower link: {account}");
        let dropped = account["packets"]["dropped"].as_object().expect("reasons");
        let of_order = |reason: &String| ["no-sequence", "out-of-sequence"].contains(&reason.as_str());
        assert!(!dropped.keys().any(of_order), "{account}");
    });
}
