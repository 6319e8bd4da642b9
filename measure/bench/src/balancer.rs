//! Load balancing: packets of a million connections, what a connection takes of memory, what the function
//! takes without any, and what becomes of connections when a server goes.

use crate::frames::{DISTINCT, Flow, Numbers};
use crate::functions::{Load, Pair, Times};
use crate::guests::{configuration_with, instance_with, pool, program, stock};
use crate::shape::Shape;
use crate::{BenchError, Measurement, dpi_load};
use guest::Guest;
use guest_wasm::{Sandbox, watchdog};
use load_balancer::LoadBalancer;
use nf_abi::Verdict;
use nf_sdk::native::{Runner, TestPacket};
use packet::ipv4;

/// The virtual address, and the port of its service.
const VIRTUAL: u32 = 0xc633_6407;
const PORT: u16 = 443;
/// Servers, 10.1.0.1 and on, all with this port.
const SERVERS: u32 = 100;
const FIRST_SERVER: u32 = 0x0a01_0001;
const SERVER_PORT: u16 = 8443;
/// Connections of which one server's are lost.
const CHANGED: u32 = 100_000;

/// The image's configuration for so many connections, without one of the servers.
fn configured(connections: u32, left_out: Option<u32>) -> Result<Vec<u8>, BenchError> {
    let config = format!(
        "services: [{{name: web, address: 198.51.100.7, protocol: tcp, ports: '{PORT}'}}]\nservers_file: servers\n\
         max_connections: {connections}\nmax_half_open: {connections}\n\
         tcp_timeout: 1h\n"
    );
    let servers: String = (0..SERVERS)
        .filter(|number| Some(*number) != left_out)
        .map(|number| format!("web 10.1.0.{}:{SERVER_PORT}\n", number + 1))
        .collect();
    configuration_with(&stock("load-balancer")?, &config, &dpi_load::OneFile(servers))
}

fn native(config: &[u8]) -> Result<Runner<LoadBalancer>, BenchError> {
    Runner::new(config).map_err(|error| BenchError::Setup(format!("load-balancer: {error}")))
}

/// A client's flow by its number.
fn flow(number: u32) -> Flow {
    Flow {
        source: 0xc612_0000 | number & 0x1_ffff,
        destination: VIRTUAL,
        source_port: 1024 + (number >> 17) as u16 * 7,
        destination_port: PORT,
        protocol: 6,
    }
}

/// The server that a frame went to.
fn server_of(frame: &[u8]) -> Option<u32> {
    let address: [u8; 4] = frame.get(14..)?.get(ipv4::field::DESTINATION)?.try_into().ok()?;
    Some(u32::from_be_bytes(address))
}

/// What the servers' answers are, as they send them.
fn answers(flow: Flow, server: u32) -> Flow {
    Flow { source: server, source_port: SERVER_PORT, ..flow.reverse() }
}

/// Where a function sends clients' packets: the servers.
fn chosen(runner: &mut Runner<LoadBalancer>, flows: &[Flow], flags: u8) -> Result<Vec<u32>, BenchError> {
    let now = nf_sdk::Nanos(watchdog::clock().now().0);
    let packets: Vec<TestPacket> =
        flows.iter().map(|flow| TestPacket::new(flow.frame(flags, 0).to_vec(), 0)).collect();
    let to_server = |outcome: &nf_sdk::native::Outcome| {
        let is_sent = outcome.verdict == Some(Verdict::Interface(1));
        server_of(outcome.bytes.as_deref().filter(|_| is_sent)?)
    };
    let servers = runner.run(&packets, now).iter().map(to_server).collect::<Option<Vec<u32>>>();
    servers.ok_or_else(|| BenchError::Invalid("a client's packet went to no server".into()))
}

/// Connections that are opened, and packets of both directions in random order.
fn established(count: u32, numbers: &mut Numbers) -> Result<(Load, Load), BenchError> {
    let flows: Vec<Flow> = (0..count).map(flow).collect();
    // Maglev has no secret: every instance chooses alike.
    let servers = chosen(&mut native(&configured(1, None)?)?, &flows, 0x02)?;
    let mut opening = Load { frames: Vec::new(), ingress: Vec::new(), size: None };
    for (flow, server) in flows.iter().zip(&servers) {
        // What a frame made here acknowledges is 1: the answer's sequence number is 0.
        opening.frames.extend([
            flow.frame(0x02, 0),
            answers(*flow, *server).frame(0x12, 0),
            flow.frame(0x10, 1),
        ]);
        opening.ingress.extend([0, 1, 0]);
    }
    let mut order: Vec<(usize, bool)> = (0..count as usize).flat_map(|n| [(n, false), (n, true)]).collect();
    numbers.shuffle(&mut order);
    let mut load = Load { frames: Vec::new(), ingress: Vec::new(), size: None };
    for (n, back) in order.into_iter().take(DISTINCT.max(count as usize)) {
        let flow = if back { answers(flows[n], servers[n]) } else { flows[n] };
        load.frames.push(flow.frame(0x10, 1));
        load.ingress.push(u16::from(back));
    }
    Ok((opening, load))
}

/// Packets of so many established connections.
pub(crate) fn connections(
    sandbox: &Sandbox,
    count: u32,
    shape: Shape,
    numbers: &mut Numbers,
) -> Result<Times, BenchError> {
    let config = configured(count, None)?;
    let mut pair = Pair::with(sandbox, &stock("load-balancer")?, config.clone(), native(&config)?)?;
    let (opening, load) = established(count, numbers)?;
    pair.prepare(&opening)?;
    let times = pair.measure(&shape.of(load), Some(|ingress| Verdict::Interface(1 - ingress).encode()))?;
    let report = pair.sandboxed.report(watchdog::clock().moment()).map_err(BenchError::setup)?;
    let seen: serde_json::Value =
        serde_json::from_str(report.as_deref().unwrap_or_default()).map_err(BenchError::setup)?;
    let now = &seen["connections"];
    if now["now"] != count || now["half_open"] != 0 || seen["events"]["stateless"] != 0 {
        return Err(BenchError::Invalid(format!("there are not {count} connections: {seen}")));
    }
    pair.end();
    Ok(times)
}

/// Bytes of memory that an instance has for itself, with room for so many connections: it is taken at the
/// start.
fn memory(sandbox: &Sandbox, connections: u32) -> Result<f64, BenchError> {
    let pool = pool(64, None)?;
    let image = stock("load-balancer")?;
    let mut guest = instance_with(&program(sandbox, &image)?, &pool, configured(connections, None)?)?;
    Ok(guest.memory() as f64)
}

/// Connections of other servers that are broken when a server goes: by a file without it, as it is applied.
fn broken() -> Result<f64, BenchError> {
    let flows: Vec<Flow> = (0..CHANGED).map(flow).collect();
    let mut before = native(&configured(CHANGED, None)?)?;
    let servers = chosen(&mut before, &flows, 0x02)?;
    let now = nf_sdk::Nanos(watchdog::clock().now().0);
    let agreed: Vec<TestPacket> = flows
        .iter()
        .zip(&servers)
        .flat_map(|(flow, server)| {
            let answer = answers(*flow, *server).frame(0x12, 0);
            [TestPacket::new(answer.to_vec(), 1), TestPacket::new(flow.frame(0x10, 1).to_vec(), 0)]
        })
        .collect();
    before.run(&agreed, now);
    let state = before.export_state().ok_or_else(|| BenchError::Invalid("no state was offered".into()))?;
    let gone = 41;
    let mut after = native(&configured(CHANGED, Some(gone))?)?;
    if !after.import_state(&state) {
        return Err(BenchError::Invalid("the state was refused".into()));
    }
    let later = chosen(&mut after, &flows, 0x10)?;
    let pairs = || servers.iter().zip(&later).filter(|(before, _)| **before != FIRST_SERVER + gone);
    if pairs().count() == servers.len() {
        return Err(BenchError::Invalid("the server that went had no connections".into()));
    }
    Ok(pairs().filter(|(before, after)| before != after).count() as f64)
}

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let mut results = Vec::new();
    progress(0.0, "1,000,000 connections");
    let times = connections(&sandbox, 1_000_000, Shape::Many, &mut Numbers(4))?;
    times.report("flows-1000000", &mut results);
    progress(0.8, "memory");
    let base = memory(&sandbox, 1)?;
    let each = (memory(&sandbox, 1_000_000)? - base) / 1e6;
    results.push(Measurement::new("base-kib", "KiB", &[base / 1024.0]));
    results.push(Measurement::new("connection-bytes", "B", &[each]));
    progress(0.9, "a server goes");
    results.push(Measurement::new("broken", "connections", &[broken()?]));
    Ok(results)
}
