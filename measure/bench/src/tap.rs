//! TCP in segments of 64 KiB through a stateful firewall between two TAP devices, beside the kernel's bridge
//! between two veth pairs, which looks at no connection.
//!
//! 1. The program itself is started in a network namespace of its own, with a file that names two TAP devices
//!    and the stock firewall; the kernel's sides are given to a client and a server, each a namespace.
//! 2. Another client and server are joined by the bridge, with all offloads on.
//! 3. iperf3 runs through one and the other in turns.
//! 4. The program is asked to end, and its account is looked at: a figure without it would be worth nothing.

use crate::{BenchError, Bound, Measurement, RUNS};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testbed::{Background, Hosts, Iperf, Namespace, TestbedError};

/// How long iperf3 sends each time.
const SECONDS: u32 = 2;

/// Longest time until the program has compiled the firewall and opened its ports, and until it has ended.
const START: Duration = Duration::from_secs(120);
const END: Duration = Duration::from_secs(30);

/// Bytes that a packet must have on average for "segments of 64 KiB" to be true: acknowledgements count as
/// well.
const SEGMENTS: u64 = 8 << 10;

const CHAIN: &str = "\
superfluid: 1
tenants: {default: {pool: {buffers: 2048, buffer_size: 64KiB}}}
ports:
  lan: {type: tap, interface: tap-lan}
  wan: {type: tap, interface: tap-wan}
functions:
  edge_firewall:
    image: firewall
    config:
      default_action: drop
      rules: [{action: accept, from: inside, protocol: tcp, destination_ports: 5201}]
chains: {edge: [lan, edge_firewall, wan]}
";

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    progress(0.0, "hosts");
    let bridged = hosts()?;
    bridged.bridge().map_err(BenchError::setup)?;
    let chained = hosts()?;
    progress(0.0, "the program, with a firewall between two TAP devices");
    let program = start(&chained)?;
    let sides = [(&chained, "through the firewall"), (&bridged, "through the bridge")];
    let mut servers = Vec::new();
    for (hosts, _) in sides {
        servers.push(Iperf::serve(&hosts.server).map_err(BenchError::setup)?);
    }
    let mut rates = [Vec::new(), Vec::new()];
    // The first pair warms both up and is not counted.
    for pair in 0..=RUNS {
        for (side, (hosts, name)) in sides.into_iter().enumerate() {
            progress((2 * pair + side) as f64 / (2 * RUNS + 2) as f64, name);
            let bits = servers[side].measure(&hosts.client, SECONDS, "").map_err(BenchError::setup)?;
            rates[side].push(bits / 1e9);
        }
    }
    drop(servers);
    check(&program.interrupt(END).map_err(BenchError::setup)?.stdout)?;
    let [chain, bridge] = rates.map(|rates| rates[1..].to_vec());
    let ratios: Vec<f64> = chain.iter().zip(&bridge).map(|(chain, bridge)| chain / bridge).collect();
    Ok(vec![
        Measurement::new("tcp-ratio", "x", &ratios, Some(Bound::AtLeast(0.5))),
        Measurement::new("tcp-firewall", "Gbit/s", &chain, None),
        Measurement::new("tcp-bridge", "Gbit/s", &bridge, None),
    ])
}

/// Two hosts, and a namespace between them that is not this process's own.
fn hosts() -> Result<Hosts, BenchError> {
    let made = Namespace::new().and_then(Hosts::around);
    made.map_err(|error| match error {
        TestbedError::Kernel { what, source } => BenchError::Setup(format!(
            "{what}: {source}; run as root, or by `unshare --user --map-root-user --net superfluid bench tap`"
        )),
        other => BenchError::setup(other),
    })
}

/// The file that describes the chain; it goes with this value.
struct File(PathBuf);

impl File {
    fn new() -> Result<File, BenchError> {
        let path = std::env::temp_dir().join(format!("superfluid-bench-tap-{}.yaml", std::process::id()));
        let failed = |error| BenchError::Setup(format!("{}: {error}", path.display()));
        // Never another user's file, or where another user's link points.
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
        file.write_all(CHAIN.as_bytes()).map_err(failed)?;
        Ok(File(path))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // What cannot be removed is a small file in a temporary folder.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Starts the program and gives its devices to the hosts.
fn start(hosts: &Hosts) -> Result<Background, BenchError> {
    let file = File::new()?;
    let program = crate::product::superfluid()?;
    let mut command = hosts.middle.command(&program.to_string_lossy());
    command.arg("run").arg(&file.0).args(["--json", "--every", "1h"]);
    let mut program = Background::start(&mut command).map_err(BenchError::setup)?;
    let begin = Instant::now();
    // Switching a device on is the last that is done to it.
    let is_up = |name: &&str| {
        let shown = hosts.middle.run(&format!("ip link show {name} up"), END);
        shown.is_ok_and(|shown| !shown.stdout.is_empty())
    };
    while !["tap-lan", "tap-wan"].iter().all(is_up) {
        if !program.is_running() || begin.elapsed() > START {
            let (stdout, stderr) = program.finish();
            let words = if stderr.trim().is_empty() { stdout } else { stderr };
            return Err(BenchError::Setup(format!(
                "the program opened no TAP devices; it said: {}",
                words.trim()
            )));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    hosts.give("tap-lan", "tap-wan").map_err(BenchError::setup)?;
    Ok(program)
}

/// Looks at the account that the program printed at its end: everything passed by the firewall, in large
/// segments, and every packet is accounted for.
fn check(output: &str) -> Result<(), BenchError> {
    let last = output.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let account = last
        .into_iter()
        .find(|line| line["event"] == "final")
        .ok_or_else(|| BenchError::Invalid("the program printed no final account".into()))?;
    let bytes = account["ports"]["lan"]["received_bytes"].as_u64().unwrap_or(0);
    let packets = account["ports"]["lan"]["packets"]["received"].as_u64().unwrap_or(0);
    let judged = account["functions"]["edge_firewall"]["bytes"].as_u64().unwrap_or(0);
    if account["balanced"] != true {
        return Err(BenchError::Invalid(format!("the account does not balance: {account}")));
    }
    if packets == 0 || bytes / packets < SEGMENTS {
        return Err(BenchError::Invalid(format!(
            "{bytes} bytes came in {packets} packets: no large segments"
        )));
    }
    if judged < bytes {
        return Err(BenchError::Invalid(format!("the firewall saw {judged} of {bytes} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn output(balanced: bool, packets: u64, judged: u64) -> String {
        let account = json!({
            "event": "final", "balanced": balanced,
            "ports": {"lan": {"received_bytes": 1 << 30, "packets": {"received": packets}}},
            "functions": {"edge_firewall": {"bytes": judged}},
        });
        format!("{}\nnot json\n{account}\n", json!({"event": "account"}))
    }

    #[test]
    fn a_figure_is_only_taken_from_a_sound_run() {
        assert!(check(&output(true, 30_000, 1 << 30)).is_ok());
        for (unsound, why) in [
            (output(false, 30_000, 1 << 30), "balance"),
            (output(true, 700_000, 1 << 30), "no large segments"),
            (output(true, 0, 1 << 30), "no large segments"),
            (output(true, 30_000, 1 << 29), "the firewall saw"),
            (String::new(), "no final account"),
        ] {
            let error = check(&unsound).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
