//! Address translation: a million sessions of TCP that are established, and sessions that begin.

use crate::frames::{DISTINCT, Flow, Frame, Numbers};
use crate::functions::{Load, Pair, Times};
use crate::guests::{configuration, stock};
use crate::shape::Shape;
use crate::{BenchError, Measurement, RUNS};
use guest::Guest;
use guest_wasm::{Sandbox, watchdog};
use nat::Nat;
use nf_abi::Verdict;
use nf_sdk::native::Runner;

/// The outside address that established sessions share: hosts keep their ports, so that answers are known
/// before they are translated.
const OUTSIDE: u32 = 0xc633_6407;
/// Inside ends that share it; each talks to several remote ends.
const INSIDE_ENDS: u32 = 60_000;
/// Ports of a host.
const PORTS: u32 = 60;

/// A translator on both sides.
fn pair(sandbox: &Sandbox, config: &str) -> Result<Pair<Runner<Nat>>, BenchError> {
    let image = stock("nat")?;
    let native = Runner::new(&configuration(&image, config)?)
        .map_err(|error| BenchError::Setup(format!("nat: {error}")))?;
    Pair::new(sandbox, &image, config, native)
}

/// The inside end of a number, and the flow to the remote end of another.
fn flow(end: u32, remote: u32) -> Flow {
    Flow {
        source: 0x0a00_0000 + end / PORTS,
        destination: 0xc612_0000 | remote & 0x1_ffff,
        source_port: 1024 + (end % INSIDE_ENDS) as u16,
        destination_port: 443,
        protocol: 6,
    }
}

/// The flow of answers, as the outside sends them.
fn answers(flow: Flow) -> Flow {
    Flow { destination: OUTSIDE, ..flow.reverse() }
}

/// Sessions that are opened, and packets of both directions in random order.
fn established(count: u32, numbers: &mut Numbers) -> (Load, Load) {
    let flows: Vec<Flow> =
        (0..count).map(|n| flow(n % INSIDE_ENDS, n.wrapping_mul(0x9e37_79b1) >> 15)).collect();
    let mut opening = Load { frames: Vec::new(), ingress: Vec::new(), size: None };
    for flow in &flows {
        opening.frames.extend([flow.frame(0x02, 0), answers(*flow).frame(0x12, 0), flow.frame(0x10, 1)]);
        opening.ingress.extend([0, 1, 0]);
    }
    let mut order: Vec<(usize, bool)> = (0..count as usize).flat_map(|n| [(n, false), (n, true)]).collect();
    numbers.shuffle(&mut order);
    let mut load = Load { frames: Vec::new(), ingress: Vec::new(), size: None };
    for (n, back) in order.into_iter().take(DISTINCT.max(count as usize)) {
        let flow = if back { answers(flows[n]) } else { flows[n] };
        load.frames.push(flow.frame(0x10, 1));
        load.ingress.push(u16::from(back));
    }
    (opening, load)
}

/// What the report says of sessions and packets.
fn report(pair: &mut Pair<Runner<Nat>>) -> Result<serde_json::Value, BenchError> {
    let report = pair.sandboxed.report(watchdog::clock().moment()).map_err(BenchError::setup)?;
    serde_json::from_str(report.as_deref().unwrap_or_default()).map_err(BenchError::setup)
}

/// Packets of so many established sessions.
pub(crate) fn sessions(
    sandbox: &Sandbox,
    count: u32,
    shape: Shape,
    numbers: &mut Numbers,
) -> Result<Times, BenchError> {
    let config = format!("pool: [198.51.100.7/32]\nmax_sessions: {count}\nhost_ports: {PORTS}\n");
    let mut pair = pair(sandbox, &config)?;
    let (opening, load) = established(count, numbers);
    pair.prepare(&opening)?;
    let times = pair.measure(&shape.of(load), Some(|ingress| Verdict::Interface(1 - ingress).encode()))?;
    let seen = report(&mut pair)?;
    if seen["sessions"]["opened"] != count || seen["mappings"]["now"] != count.min(INSIDE_ENDS) {
        return Err(BenchError::Invalid(format!("there are not {count} sessions: {seen}")));
    }
    pair.end();
    Ok(times)
}

/// Packets that each begin a session, of an inside end of its own, in a table that has a million of them at
/// the end.
fn beginning(sandbox: &Sandbox) -> Result<Times, BenchError> {
    let config = "pool: [198.51.100.0/26]\nmax_sessions: 1200000\nmax_hosts: 70000\n";
    let mut pair = pair(sandbox, config)?;
    let mut next = 0u32;
    let frame = |n: u32| -> Frame {
        let flow = Flow {
            source: 0x0a00_0000 | n & 0xffff,
            destination: 0xc612_0000 | n.wrapping_mul(0x9e37_79b1) >> 15,
            source_port: 1024 + (n >> 16) as u16 * 7,
            destination_port: 53,
            protocol: 17,
        };
        flow.frame(0, n)
    };
    let mut load = Load { frames: vec![frame(0); DISTINCT], ingress: vec![0; DISTINCT], size: None };
    let times = pair.measure_each(&mut load, |load| {
        for place in &mut load.frames {
            *place = frame(next);
            next += 1;
        }
    })?;
    let seen = report(&mut pair)?;
    let begun = ((RUNS + 1) * DISTINCT) as u64;
    if seen["sessions"]["now"] != begun || seen["packets"]["outward"] != begun {
        return Err(BenchError::Invalid(format!("not every packet began a session: {seen}")));
    }
    pair.end();
    Ok(times)
}

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let mut results = Vec::new();
    progress(0.0, "1,000,000 established sessions");
    let times = sessions(&sandbox, 1_000_000, Shape::Many, &mut Numbers(4))?;
    times.report("flows-1000000", &mut results);
    progress(0.7, "sessions that begin");
    let times = beginning(&sandbox)?;
    let per_second: Vec<f64> = times.sandboxed.iter().map(|ns| 1e9 / ns).collect();
    results.push(Measurement::new("new-per-s", "sessions/s", &per_second));
    results.push(Measurement::new("new-native-ns", "ns", &times.native));
    Ok(results)
}
