//! Traces and captures of packets that really pass, through the daemon and its command line. Needs no
//! privileges.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use capture::{Block, Direction, Splitter};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::commands::{PROGRAM, text};
use support::daemon::{Daemon, Options, SOCKET};
use support::http;
use tempfile::TempDir;

/// A daemon to which a file was applied, and its folder.
fn start(file: &str) -> (TempDir, Daemon) {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = Options::new(folder.path()).shared_cache().start();
    daemon.write("file.yaml", file);
    daemon.done("apply -f file.yaml");
    (folder, daemon)
}

/// The packets of a trace.
fn traced(daemon: &Daemon, arguments: &str) -> Vec<Value> {
    let lines = daemon.done(&format!("trace {arguments} -o json"));
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// What stands at these keys of each hop.
fn hops(packet: &Value, keys: &[&str]) -> Vec<Vec<String>> {
    let hops = packet["hops"].as_array().expect("hops");
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    hops.iter().map(|hop| keys.iter().map(|key| word(&hop[*key])).collect()).collect()
}

/// UDP from 10.1.0.0/24 by two functions, of which the first drops what goes to port 53; then a tenant's own
/// pool.
const CHAIN: &str = "superfluid: 1
tenants:
  other: {}
ports:
  source: {type: generator, rate: 5kpps, flows: 64, source: 10.1.0.0/24, destination: 10.2.0.1/32}
  out: {type: sink, tenant: other}
functions:
  fw:
    image: firewall
    max_call: 2s
    config: {default_action: accept, rules: [{action: drop, source: 10.1.0.0/26}]}
  there: {image: forwarder, max_call: 2s, tenant: other}
chains:
  way: [source, fw, there, out]
";

#[test]
fn packets_are_followed_hop_by_hop_across_pools_and_to_where_they_end() {
    let (_folder, daemon) = start(CHAIN);
    let keys = ["at", "what", "in", "verdict", "out", "reason"];
    let passed = traced(&daemon, "-n 5 --at source passed");
    assert_eq!(passed.len(), 5, "{passed:?}");
    for packet in &passed {
        let seen = hops(packet, &keys);
        let wanted = [
            ["port/source", "received", "-", "-", "-", "-"],
            ["function/fw", "called", "inside", "interface", "outside", "-"],
            ["function/there", "called", "left", "interface", "right", "-"],
            ["port/out", "transmitted", "-", "-", "-", "-"],
        ];
        assert_eq!(seen, wanted, "{packet}");
        assert_eq!(packet["end"], "transmitted");
        for function in [1, 2] {
            let hop = &packet["hops"][function];
            assert!(hop["cycles"].as_u64() > Some(0) && hop["batch"].as_u64() > Some(0), "{hop}");
            assert!(
                hop["after_ns"].as_u64() >= packet["hops"][function - 1]["after_ns"].as_u64(),
                "{packet}"
            );
        }
        assert!(packet["what"].as_str().is_some_and(|what| what.starts_with("10.1.0.")), "{packet}");
    }
    let dropped = traced(&daemon, "-n 3 dropped and udp");
    for packet in &dropped {
        let last = hops(packet, &keys).pop().expect("a hop");
        assert_eq!((packet["end"].as_str(), last[0].as_str()), (Some("dropped"), "function/fw"), "{packet}");
        assert_eq!(last[3], "drop");
        assert!(last[5] != "-", "a reason: {packet}");
    }
    assert_eq!(dropped.len(), 3);
    // Where only one function is asked for, and for people.
    let table = daemon.done("trace --at there:left -n 1 -o wide");
    assert!(
        table.contains("function/there  called by left  to right") && table.contains("cycles"),
        "{table}"
    );
    assert!(table.contains("port/out") && table.contains("  transmitted, after "), "{table}");
    // Nothing is left behind, and every packet is accounted for.
    assert!(daemon.done("account").contains("balanced"));
    let told = daemon.refused("trace --for 300ms tcp").1;
    assert!(told.contains("no packet was seen at the 4 ports and functions"), "{told}");
}

#[test]
fn a_packet_is_injected_and_its_way_told() {
    let (_folder, daemon) = start(&CHAIN.replace("rate: 5kpps, ", "rate: 1pps, "));
    let [packet] = &traced(&daemon, "--at fw:inside --inject tcp:10.1.0.200:40000-10.2.0.1:80")[..] else {
        panic!("one packet")
    };
    let keys = ["at", "what", "verdict"];
    let wanted = [
        ["function/fw", "injected", "-"],
        ["function/fw", "called", "interface"],
        ["function/there", "called", "interface"],
        ["port/out", "transmitted", "-"],
    ];
    assert_eq!(hops(packet, &keys), wanted, "{packet}");
    assert_eq!(packet["what"], "10.1.0.200:40000 > 10.2.0.1:80 TCP SYN, 60 bytes");
    // The port leads to the same function; this one is dropped there.
    let dropped = &traced(&daemon, "--at source --inject udp:10.1.0.5:7-10.2.0.1:53")[0];
    assert_eq!((dropped["end"].as_str(), hops(dropped, &keys).len()), (Some("dropped"), 2), "{dropped}");
    for (arguments, told) in [
        ("--at fw --inject icmp:10.1.0.1-10.2.0.1", "such as `fw:0`"),
        ("--at absent", "there is no port, device or function `absent`"),
        ("--at fw:middle", "no interface `middle`"),
        ("--at source tcp prot 80", "filter: "),
        ("--at fw:inside --inject udp:10.1.0.5", "allowed: tcp:ADDRESS:PORT"),
    ] {
        let refused = daemon.refused(&format!("trace {arguments}")).1;
        assert!(refused.contains(told), "{arguments}: {refused}");
    }
    assert!(daemon.done("account").contains("balanced"));
}

/// Length, direction and comment.
type Packet = (u32, Direction, String);

/// The packets of a file, and what its last block says.
fn packets(bytes: &[u8]) -> (Vec<Packet>, Option<(u64, u64)>) {
    let mut splitter = Splitter::default();
    splitter.feed(bytes);
    let (mut packets, mut told) = (Vec::new(), None);
    while let Some(block) = splitter.next_block().expect("pcapng") {
        packets.extend(block.packet().map(|seen| (seen.length, seen.direction, seen.comment.to_owned())));
        told = block.statistics().map(|told| (told.written, told.lost)).or(told);
    }
    assert!(!splitter.is_within_block(), "the file ends with a whole block");
    (packets, told)
}

#[test]
fn packets_are_captured_where_it_is_said() {
    let (_folder, daemon) = start(CHAIN);
    let file = daemon.path("a.pcapng");
    let captured = |arguments: &str| {
        let output = daemon.run(&format!("capture {arguments} -w a.pcapng"));
        assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
        let (seen, told) = packets(&std::fs::read(&file).expect("a file"));
        assert_eq!(told, Some((seen.len() as u64, 0)), "{arguments}");
        assert_eq!(text(&output.stderr), format!("{} packets captured\n", seen.len()));
        seen
    };
    let of_function = captured("fw -n 50 dropped");
    assert!(of_function.len() == 50 && of_function.iter().all(|(_, _, said)| said.contains(": drop ")));
    let of_interface = captured("fw:outside -n 20");
    assert!(
        of_interface.iter().all(|(_, direction, _)| *direction == Direction::Outbound),
        "{of_interface:?}"
    );
    let of_wire = captured("source~fw:0 -n 20 --snaplen 42");
    assert!(
        of_wire
            .iter()
            .all(|(_, direction, said)| *direction == Direction::Inbound && said.contains("received"))
    );
    assert_eq!(captured("out --for 500ms udp port 65535 and tcp").len(), 0);
    let lines = daemon.done("capture out -n 2");
    assert!(lines.lines().count() == 2 && lines.contains("out  10.1.0."), "{lines}");
    for (arguments, told) in [
        ("fw~out", "such as `fw:0`"),
        ("source~out", "there is no wire between source and out"),
        ("lan", "there is no port, device or function `lan`"),
        ("fw udp pord 1", "filter: "),
    ] {
        let before = std::fs::read(&file).expect("a file");
        let refused = daemon.refused(&format!("capture {arguments} -w a.pcapng")).1;
        assert!(refused.contains(told), "{arguments}: {refused}");
        assert!(std::fs::read(&file).expect("a file") == before, "what was captured before is still there");
    }
}

#[test]
fn a_capture_is_read_while_it_goes_on_and_ends_with_its_reader() {
    let (_folder, daemon) = start(CHAIN);
    let mut child = daemon
        .command("capture source -w -")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut out = child.stdout.take().expect("piped");
    let (mut splitter, mut seen, mut bytes) = (Splitter::default(), 0, vec![0; 4096]);
    let began = Instant::now();
    while seen < 200 {
        assert!(began.elapsed() < Duration::from_secs(30), "{seen}");
        let count = out.read(&mut bytes).expect("bytes");
        assert!(count > 0, "it goes on");
        splitter.feed(&bytes[..count]);
        while let Some(block) = splitter.next_block().expect("pcapng") {
            seen += usize::from(Block::packet(&block).is_some());
        }
    }
    child.kill().and_then(|()| child.wait()).expect("it ended");
    // As many as there may be, one after the other: each that ended has left its place.
    for _ in 0..20 {
        assert_eq!(traced(&daemon, "-n 1").len(), 1);
    }
    let mut held: Vec<Child> = (0..8)
        .map(|_| daemon.command("capture out tcp -w -").stdout(Stdio::piped()).spawn().expect("starts"))
        .collect();
    // Kept open: a capture whose reader is gone ends.
    let mut readers = Vec::new();
    for child in &mut held {
        // The headers say that it has begun.
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        assert!(out.fill_buf().is_ok_and(|bytes| !bytes.is_empty()));
        readers.push(out);
    }
    let told = daemon.refused("trace -n 1").1;
    assert!(told.contains("8 traces and captures"), "{told}");
    drop(readers);
    for mut child in held {
        child.kill().and_then(|()| child.wait()).expect("it ended");
    }
    let began = Instant::now();
    while !daemon.run("trace -n 1").status.success() {
        assert!(began.elapsed() < Duration::from_secs(30), "places are given back");
    }
    // Which client looked is in the audit log.
    let audit = std::fs::read_to_string(daemon.path("state/audit.jsonl")).expect("a log");
    let looked = |path: &str| audit.lines().filter(|line| line.contains(&json!(path).to_string())).count();
    assert!(looked("/v1/captures") >= 9 && looked("/v1/traces") >= 21, "{audit}");
}

#[test]
fn a_creation_is_told_step_by_step_and_latencies_are_counted() {
    let (_folder, daemon) = start(CHAIN);
    // So that its image is compiled.
    daemon.done("function create first --image monitor");
    let output = daemon.done("function create probe --image monitor --trace --durable");
    for step in [
        "parse", "room", "turn", "compare", "check", "image", "shell", "commit", "workers", "finish",
        "audit", "durable",
    ] {
        assert!(output.contains(&format!("\n  {step} ")), "{step}: {output}");
    }
    assert!(output.contains("#") && output.contains(" us "), "{output}");
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let latency = &daemon.json("get function there")["status"]["latency"];
        if latency["p99_ns"].as_u64() > Some(0) {
            assert!(latency["p50_ns"].as_u64() <= latency["p99_ns"].as_u64(), "{latency}");
            break;
        }
        assert!(Instant::now() < until, "{latency}");
    }
    let metrics = daemon.text("/metrics");
    for name in
        ["function_latency_seconds_bucket{function=\"fw\"", "port_latency_seconds_count{port=\"out\"}"]
    {
        assert!(metrics.contains(&format!("superfluid_{name}")), "{name}: {metrics}");
    }
    assert!(daemon.done("describe function fw").contains("p99_ns"));
    assert!(daemon.done("top --every 10ms").contains("P99"));
}

/// On a full disk, as which a limit of files' size stands here.
#[test]
fn a_capture_that_finds_no_room_says_what_it_has_and_leaves_whole_packets() {
    let (_folder, daemon) = start(CHAIN);
    let file = daemon.path("full.pcapng");
    let capture = |blocks: u32, to: &str| {
        let limits = format!("trap '' XFSZ; ulimit -f {blocks}; timeout 60 {PROGRAM} capture source -w {to}");
        let mut bash = Command::new("bash");
        bash.args(["-c", &limits]).env("SUPERFLUID_SOCKET", daemon.path(SOCKET));
        let output = bash.output().expect("bash");
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let said = capture(0, file.to_str().expect("a path"));
    assert!(said.contains("full.pcapng: File too large") && said.contains("; 0 packets captured"), "{said}");
    assert!(!file.exists(), "nothing is in it");
    let said = capture(64, file.to_str().expect("a path"));
    assert!(said.contains("full.pcapng: File too large"), "{said}");
    let (seen, told) = packets(&std::fs::read(&file).expect("a file"));
    assert_eq!(told, None);
    assert!(!seen.is_empty() && said.contains(&format!("; {} packets captured", seen.len())), "{said}");
    let said = capture(64, "/dev/full");
    assert!(said.contains("/dev/full: No space left") && Path::new("/dev/full").exists(), "{said}");
}

#[test]
fn tcpdump_reads_what_is_captured() {
    let (_folder, daemon) = start(CHAIN);
    let there = Command::new("tcpdump").arg("--version").output().is_ok();
    if !there {
        eprintln!("tcpdump is not installed");
        return;
    }
    let script = format!("{PROGRAM} capture source -n 10 -w - | tcpdump -n -r - 2>/dev/null");
    let output = Command::new("bash")
        .args(["-c", &script])
        .env("SUPERFLUID_SOCKET", daemon.path(SOCKET))
        .output()
        .expect("bash");
    let lines = text(&output.stdout);
    assert!(lines.lines().count() == 10 && lines.contains("IP 10.1.0."), "{lines}");
}

#[test]
fn a_trace_tells_what_functions_change_in_a_packet() {
    let nat = "  fw: {image: nat, max_call: 2s, config: {pool: [192.0.2.1/32]}}\n";
    let (before, after) = (CHAIN.find("  fw:").expect("one"), CHAIN.find("  there:").expect("one"));
    let (_folder, daemon) = start(&format!("{}{nat}{}", &CHAIN[..before], &CHAIN[after..]));
    let ask = |body: Value| http::exchange(&daemon.path(SOCKET), None, "POST", "/v1/traces", Some(&body));
    let (status, lines) = ask(json!({"at": "source", "count": 1, "for": "10s", "heads": 64}));
    assert_eq!(status, 200, "{lines}");
    let packet = lines.lines().find_map(|line| {
        let start = line.find('{')?;
        let line: Value = serde_json::from_str(line.get(start..)?).ok()?;
        (line["trace"] == "packet").then_some(line)
    });
    let packet = packet.unwrap_or_else(|| panic!("{lines}"));
    let first = packet["head"].as_str().expect("its first bytes");
    assert!(first.len() <= 128 && first.contains("0a01"), "from 10.1.0.0/16: {first}");
    let hops = packet["hops"].as_array().expect("hops");
    let nat = hops.iter().find(|hop| hop["at"] == "function/fw").expect("it came there");
    let head = nat["head"].as_str().unwrap_or_else(|| panic!("{packet}"));
    assert!(head.contains("c0000201") && head.len() == first.len(), "as 192.0.2.1: {head}");
    let received = hops.iter().find(|hop| hop["at"] == "port/source").expect("it began there");
    assert!(received["head"].is_null(), "nothing has changed it there");
    let last = hops.last().expect("one");
    assert!(last["at"] == "port/out" && last["head"].is_null(), "{packet}");
    let (status, answer) = ask(json!({"at": "source", "heads": 5}));
    assert!(status == 422 && answer.contains("allowed: 14 to 256"), "{answer}");
}
