//! That a container, a program or a virtual machine is seen where functions in the sandbox are.

use super::daemon::Daemon;
use serde_json::Value;

/// Families of metrics that it has as any function.
const FAMILIES: [&str; 12] = [
    "info",
    "up",
    "packets_total",
    "bytes_total",
    "queue_packets",
    "memory_bytes",
    "cpu_seconds_total",
    "cpu_promised_ratio",
    "faults_total",
    "restarts_total",
    "events_total",
    "latency_seconds_count",
];

/// Asks for it by all that shows functions, while packets of ICMP pass its interface in both directions.
pub fn as_a_function(daemon: &Daemon, name: &str, interface: &str) {
    let port = format!("{name}:{interface}");
    for place in [name.to_owned(), format!("function/{name}"), port.clone(), format!("{name}:0")] {
        let told = daemon.done(&format!("capture {place} -n 8 --for 20s icmp"));
        let (sent, taken) = (format!("{port}: transmitted"), format!("{port}: received"));
        assert!(told.contains(&sent) && told.contains(&taken), "{place}: {told}");
        let told = daemon.done(&format!("trace --at {place} -n 1 --for 20s icmp"));
        assert!(told.contains(&format!("port/{name}:")) && told.contains(" ICMP "), "{place}: {told}");
    }
    let is_some = |value: &Value| value.as_f64() > Some(0.0);
    let row = |told: Value| {
        let rows = told.as_array().cloned().unwrap_or_default();
        rows.into_iter().find(|row| row["name"] == name).expect("its row")
    };
    let top = row(daemon.json("top"));
    for figure in
        ["packets_per_second", "bits_per_second", "cpu_share", "memory_bytes", "packets", "latency_p99_ns"]
    {
        assert!(is_some(&top[figure]), "{figure}: {top}");
    }
    // What the engine and the processes have used, each alone and both together. Where its neighbours are
    // functions in the sandbox, these pay for its packets.
    let account = daemon.get("/v1/account");
    let own = &account["containers"][name];
    for figure in ["packets", "bytes", "processes_cycles"] {
        assert!(is_some(&own[figure]), "{figure}: {own}");
    }
    let cycles = |figure: &str| own[figure].as_u64().unwrap_or_else(|| panic!("{figure}: {own}"));
    assert_eq!(cycles("cycles"), cycles("engine_cycles") + cycles("processes_cycles"), "{own}");
    assert_eq!(account["balanced"], true, "{account}");
    let status = daemon.get(&format!("/v1/functions/{name}"))["status"].clone();
    assert!(status["processor"]["engine_cycles"].is_u64(), "{status}");
    for figure in ["/processor/processes_cycles", "/memory/private", "/memory/promised"] {
        assert!(status.pointer(figure).is_some_and(is_some), "{figure}: {status}");
    }
    let memory = daemon.json("memory");
    assert!(is_some(&memory["containers"][name]["bytes"]), "{memory}");
    let metrics = daemon.text("/metrics");
    let label = format!("{{function=\"{name}\",");
    for family in FAMILIES {
        let begin = format!("superfluid_function_{family}{label}");
        assert!(metrics.lines().any(|line| line.starts_with(&begin)), "{family}: {metrics}");
    }
    let graph = daemon.get("/v1/graph");
    let is_it =
        |node: &Value| node["name"] == name && node["kind"] == "function" && is_some(&node["packets"]);
    assert!(graph["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(is_it)), "{graph}");
}
