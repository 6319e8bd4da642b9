//! Security groups: connections of one device, and what the rules of both layers cost beside them.

use crate::frames::{Flow, Numbers};
use crate::functions::{Load, Pair, Times};
use crate::guests::{configuration, stock};
use crate::peers::conntrack;
use crate::shape::Shape;
use crate::{BenchError, Measurement};
use guest::Guest;
use guest_wasm::{Sandbox, watchdog};
use nf_abi::Verdict;
use nf_sdk::native::Runner;
use security_groups::SecurityGroups;

/// Connections to the device.
const CONNECTIONS: u32 = 65_536;
/// The device's address.
const DEVICE: u32 = 0xc000_0209;

/// The administrator allows the web to all, the tenant to those of two prefixes, by the last of ten rules.
const CONFIG: &str = "
max_flows: 65536
mac: 02:00:00:00:00:02
addresses: [192.0.2.9/24]
administrator: [{direction: in, protocol: tcp}]
tenant:
  - {direction: in, protocol: tcp, ports: \"8001\"}
  - {direction: in, protocol: tcp, ports: \"8002\"}
  - {direction: in, protocol: tcp, ports: \"8003\"}
  - {direction: in, protocol: tcp, ports: \"8004\"}
  - {direction: in, protocol: tcp, ports: \"8005\"}
  - {direction: in, protocol: tcp, ports: \"8006\"}
  - {direction: in, protocol: tcp, ports: \"8007\"}
  - {direction: in, protocol: tcp, ports: \"8008\"}
  - {direction: out}
  - {direction: in, protocol: tcp, ports: \"443\", remote: 198.18.0.0/15}
";

/// A client's flow to the device.
fn flow(n: u32) -> Flow {
    Flow {
        source: 0xc612_0000 | n.wrapping_mul(0x9e37_79b1) >> 15,
        destination: DEVICE,
        source_port: 1024 + (n % 60_000) as u16,
        destination_port: 443,
        protocol: 6,
    }
}

/// Connections that are opened from outside, and packets of both directions in random order.
fn established(numbers: &mut Numbers) -> (Load, Load) {
    let mut opening = Load { frames: Vec::new(), ingress: Vec::new(), size: None };
    for n in 0..CONNECTIONS {
        let flow = flow(n);
        opening.frames.extend([flow.frame(0x02, 0), flow.reverse().frame(0x12, 0), flow.frame(0x10, 1)]);
        opening.ingress.extend([1, 0, 1]);
    }
    let mut order: Vec<(u32, bool)> = (0..CONNECTIONS).flat_map(|n| [(n, false), (n, true)]).collect();
    numbers.shuffle(&mut order);
    let mut load = Load { frames: Vec::new(), ingress: Vec::new(), size: None };
    for (n, back) in order {
        load.frames.push(if back { flow(n).reverse() } else { flow(n) }.frame(0x10, 1));
        load.ingress.push(u16::from(!back));
    }
    (opening, load)
}

/// Packets of established connections.
pub(crate) fn connections(
    sandbox: &Sandbox,
    shape: Shape,
    numbers: &mut Numbers,
) -> Result<Times, BenchError> {
    let image = stock("security-groups")?;
    let native: Runner<SecurityGroups> = Runner::new(&configuration(&image, CONFIG)?)
        .map_err(|error| BenchError::Setup(format!("security-groups: {error}")))?;
    let mut pair = Pair::new(sandbox, &image, CONFIG, native)?;
    let (opening, load) = established(numbers);
    pair.prepare(&opening)?;
    let times = pair.measure(&shape.of(load), Some(|ingress| Verdict::Interface(1 - ingress).encode()))?;
    let report = pair.sandboxed.report(watchdog::clock().moment()).map_err(BenchError::setup)?;
    let seen: serde_json::Value =
        serde_json::from_str(report.as_deref().unwrap_or_default()).map_err(BenchError::setup)?;
    if seen["flows"]["opened"] != CONNECTIONS {
        return Err(BenchError::Invalid(format!("there are not {CONNECTIONS} connections: {seen}")));
    }
    pair.end();
    Ok(times)
}

/// The results, and how both sides were configured.
pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let mut results = Vec::new();
    progress(0.0, "65,536 connections");
    connections(&sandbox, Shape::Many, &mut Numbers(5))?.report("flows-65536", &mut results);
    let notes = conntrack::groups(progress, &mut results).unwrap_or_else(|error| {
        results.push(Measurement::missing("ovs-ratio", "x", "not-measured"));
        vec![format!("ovs: {error}")]
    });
    Ok((results, notes))
}
