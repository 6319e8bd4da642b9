//! What functions take that begin as one snapshot: made by the daemon, over its interface.

use super::Daemon;
use crate::BenchError;
use api::Kind;
use client::{Answer, Change};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Flows that the saved firewall knows.
const FLOWS: u64 = 10_000;
/// Clones alive at once.
const CLONES: usize = 1_000;
/// Clones of one chain.
const PER_CHAIN: usize = 100;
/// Packets that each clone passes on.
const PACKETS: u64 = 256;
/// Longest time for packets to pass.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A firewall with these wires.
fn firewall(attach: &Value) -> Value {
    let rules = json!([{"action": "accept", "protocol": "udp"}]);
    json!({"image": "firewall", "config": {"max_flows": 65_536, "rules": rules}, "attach": attach})
}

/// Memory of a thousand clones over that of the pages that they have written.
pub(crate) fn ratio() -> Result<f64, BenchError> {
    // The control group of the bench is not what is measured.
    let daemon = Daemon::start_with(|_| Ok((vec!["--memory".into(), "1024GiB".into()], None)))?;
    let source = |count: u64| json!({"type": "generator", "flows": FLOWS, "count": count});
    daemon.put(Kind::Port, "end", &json!({"type": "sink"}))?;
    daemon.put(Kind::Port, "begin", &source(FLOWS))?;
    daemon.put(Kind::Function, "first", &firewall(&json!({"inside": "begin", "outside": "end"})))?;
    passed(&daemon, "first", FLOWS)?;
    daemon.client.save("first", "full").map_err(BenchError::setup)?;
    let clone = |n: usize| {
        let attach = match n % PER_CHAIN {
            0 => json!({}),
            _ => json!({"inside": format!("c{}:outside", n - 1)}),
        };
        let change = Change { from: Some("full".to_owned()), ..Change::default() };
        let made = daemon.client.put(Kind::Function, &format!("c{n}"), &firewall(&attach), &change);
        match made.map_err(BenchError::setup)? {
            Answer::Done(_) => Ok(()),
            Answer::Later(operation) => {
                daemon.client.wait_for(*operation, TIME_LIMIT, |_| {}).map(drop).map_err(BenchError::setup)
            }
        }
    };
    let own = || Ok::<f64, BenchError>(daemon.kib("RssAnon")? + daemon.kib("VmPTE")?);
    let before = own()?;
    for n in 0..CLONES {
        clone(n)?;
    }
    for chain in 0..CLONES / PER_CHAIN {
        daemon.put(Kind::Port, &format!("in{chain}"), &source(PACKETS))?;
        daemon.put(Kind::Port, &format!("out{chain}"), &json!({"type": "sink"}))?;
        let (first, last) = (chain * PER_CHAIN, (chain + 1) * PER_CHAIN - 1);
        for (a, b) in [
            (format!("c{last}:outside"), format!("out{chain}")),
            (format!("c{first}:inside"), format!("in{chain}")),
        ] {
            daemon.put(Kind::Wire, &api::wire_name(&a, &b).map_err(BenchError::setup)?, &json!([a, b]))?;
        }
    }
    for n in 0..CLONES {
        passed(&daemon, &format!("c{n}"), PACKETS)?;
    }
    let shared = daemon.client.memory().map_err(BenchError::setup)?["tenants"]["default"]["shared_bytes"]
        .as_f64()
        .ok_or_else(|| BenchError::Setup("the daemon does not tell what is shared".into()))?;
    let cost = own()? - before + shared / 1024.0;
    let written = daemon.written_by_clones_kib()?;
    if shared < 4096.0 || written < (4 * CLONES) as f64 {
        return Err(BenchError::Invalid(format!(
            "{CLONES} clones share {shared} bytes and wrote {written} KiB"
        )));
    }
    Ok(cost / written)
}

/// Waits until so many packets have passed a function, none of which may be dropped.
fn passed(daemon: &Daemon, function: &str, packets: u64) -> Result<(), BenchError> {
    let began = Instant::now();
    loop {
        let status = daemon.status(function)?;
        if !status.drops.values().all(|count| *count == 0) {
            return Err(BenchError::Invalid(format!("{function} dropped packets: {:?}", status.drops)));
        }
        if status.packets >= packets {
            return Ok(());
        }
        if began.elapsed() > TIME_LIMIT {
            return Err(BenchError::Setup(format!(
                "{} of {packets} packets passed {function}",
                status.packets
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
