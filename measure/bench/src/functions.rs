//! Functions sandboxed and native, on the same packets, in turns.

use crate::chain::last_rule_flow;
use crate::dpi_load::{self, Streams};
use crate::dpi_rules::{self, Passes, Traffic};
use crate::dpi_worst;
use crate::frames::{BATCH, DISTINCT, Flow, Frame, Numbers, fill};
use crate::guests::{configuration, configuration_with, instance_with, pool, program, stock};
use crate::native_guest::{NativeFunction, NativeGuest};
use crate::routes;
use crate::shape::Shape;
use crate::{BenchError, Measurement, RUNS};
use guest::Guest;
use guest_wasm::{Sandbox, WasmGuest, watchdog};
use image::Image;
use nf_abi::Verdict;
use nf_sdk::native::Runner;
use packet_memory::{Packet, Pool};
use std::sync::Arc;
use telemetry::clock::{Cycles, Moment};

/// A firewall without connection tracking of which packets match the last of `count` rules, and all are
/// tested.
pub(crate) fn ten_rules(count: u32) -> String {
    let mut text = String::from("stateful: false\ndefault_action: drop\nrules:\n");
    for n in 1..count {
        text += &format!(
            "  - {{action: drop, protocol: udp, source: 10.{n}.0.0/16, destination: 192.168.{n}.0/24, \
             source_ports: 1024-65535, destination_ports: \"{}\"}}\n",
            4000 + n
        );
    }
    text += "  - {action: accept, protocol: udp, source: 172.16.0.0/12, destination: 198.18.0.0/15, \
             source_ports: 1024-65535, destination_ports: 1024-65535}\n";
    text
}

/// Rules as ClassBench's firewall sets have them: nested prefixes, exact ports and ranges, a few protocols;
/// and flows that each match one of them, or an earlier one, at random.
fn classbench_rules(count: usize, numbers: &mut Numbers) -> (String, Vec<Flow>) {
    let mut text = String::from("stateful: false\ndefault_action: drop\nrules:\n");
    let mut corners = Vec::new();
    for _ in 0..count {
        let prefix = |numbers: &mut Numbers, lengths: &[u32]| {
            let length = lengths[numbers.below(lengths.len() as u64) as usize];
            // Few networks and many hosts in them, so that prefixes nest.
            let address = (10 + numbers.below(6) as u32) << 24
                | (numbers.below(8) as u32) << 16
                | (numbers.next() as u32 & 0xffff);
            (if length == 0 { 0 } else { address >> (32 - length) << (32 - length) }, length)
        };
        let (source, source_length) = prefix(numbers, &[0, 8, 16, 16, 24, 24, 32]);
        let (destination, destination_length) = prefix(numbers, &[16, 24, 24, 28, 32, 32]);
        let (low, high) = match numbers.below(4) {
            0 => (0, 65535),
            1 => (1024, 65535),
            2 => (5000, 5000 + numbers.below(200) as u16),
            _ => {
                let port = [22, 25, 53, 80, 443, 993, 3306, 8080][numbers.below(8) as usize];
                (port, port)
            }
        };
        let (protocol, number) = if numbers.below(4) == 0 { ("udp", 17) } else { ("tcp", 6) };
        let action = if numbers.below(2) == 0 { "accept" } else { "drop" };
        let dotted = |a: u32| a.to_be_bytes().map(|byte| byte.to_string()).join(".");
        text += &format!(
            "  - {{action: {action}, protocol: {protocol}, source: {}/{source_length}, destination: \
             {}/{destination_length}, destination_ports: {low}-{high}}}\n",
            dotted(source),
            dotted(destination)
        );
        corners.push((source, source_length, destination, destination_length, low, high, number));
    }
    let inside = |numbers: &mut Numbers, network: u32, length: u32| {
        let hosts = if length == 0 { u32::MAX } else { u32::MAX.checked_shr(length).unwrap_or(0) };
        network | (numbers.next() as u32 & hosts)
    };
    let flows = (0..DISTINCT)
        .map(|_| {
            let (source, source_length, destination, destination_length, low, high, protocol) =
                corners[numbers.below(count as u64) as usize];
            Flow {
                source: inside(numbers, source, source_length),
                destination: inside(numbers, destination, destination_length),
                source_port: 1024 + numbers.below(60_000) as u16,
                destination_port: low + numbers.below(u64::from(high - low) + 1) as u16,
                protocol,
            }
        })
        .collect();
    (text, flows)
}

/// Packets to measure with, and by which interface each comes in.
#[derive(Clone)]
pub(crate) struct Load<B = Frame> {
    pub(crate) frames: Vec<B>,
    pub(crate) ingress: Vec<u16>,
    /// Bytes of each packet, if that is more than its frame has: what follows is whatever its buffer holds.
    pub(crate) size: Option<usize>,
}

/// What is shown packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Sandboxed,
    Native,
    /// None: what is left is what measuring costs.
    Neither,
}

/// Both sides of a comparison.
pub(crate) struct Pair<F> {
    pub(crate) sandboxed: WasmGuest,
    native: NativeGuest<F>,
    pool: Arc<Pool>,
    buffers: Vec<Packet>,
}

impl<F: NativeFunction> Pair<F> {
    pub(crate) fn new(
        sandbox: &Sandbox,
        image: &Image,
        config: &str,
        native: F,
    ) -> Result<Pair<F>, BenchError> {
        Pair::with(sandbox, image, configuration(image, config)?, native)
    }

    /// The same with a configuration as functions get it.
    pub(crate) fn with(
        sandbox: &Sandbox,
        image: &Image,
        config: Vec<u8>,
        native: F,
    ) -> Result<Pair<F>, BenchError> {
        let pool = pool(64, None)?;
        let sandboxed = instance_with(&program(sandbox, image)?, &pool, config)?;
        let mut buffers = Vec::new();
        pool.allocate_batch(BATCH, &mut buffers);
        Ok(Pair { sandboxed, native: NativeGuest::new(native, pool.clone()), pool, buffers })
    }

    /// Shows one side all packets; nanoseconds a packet inside the function, and a digest of what it decided.
    fn pass<B: AsRef<[u8]>>(&mut self, load: &Load<B>, side: Side) -> Result<(f64, u64), BenchError> {
        let clock = watchdog::clock();
        let (mut spent, mut digest) = (Cycles(0), 0u64);
        for (frames, ingress) in load.frames.chunks(BATCH).zip(load.ingress.chunks(BATCH)) {
            let batch = &mut self.buffers[..frames.len()];
            fill(&self.pool, batch, frames, |n| ingress[n]);
            for packet in batch.iter_mut().filter(|_| load.size.is_some()) {
                self.pool.set_length(packet, load.size.unwrap_or_default()).map_err(BenchError::setup)?;
            }
            let nanos = clock.now();
            let began = Cycles::now();
            let now = Moment { cycles: began, nanos };
            match side {
                Side::Sandboxed => {
                    self.sandboxed.process(batch, now).map_err(BenchError::setup)?;
                }
                Side::Native => self.native.call(batch, now),
                Side::Neither => {
                    std::hint::black_box((&mut *batch, now));
                }
            }
            spent += Cycles::now().since(began);
            for packet in batch.iter() {
                digest = digest.rotate_left(5) ^ u64::from(packet.record().verdict);
            }
        }
        Ok((clock.span(spent).0 as f64 / load.frames.len() as f64, digest))
    }

    /// Shows both sides packets that are not measured.
    pub(crate) fn prepare<B: AsRef<[u8]>>(&mut self, load: &Load<B>) -> Result<(), BenchError> {
        let (ours, theirs) = (self.pass(load, Side::Sandboxed)?.1, self.pass(load, Side::Native)?.1);
        if ours != theirs {
            return Err(BenchError::Invalid("sandboxed and native decided differently".into()));
        }
        Ok(())
    }

    /// Measures both sides in turns.
    pub(crate) fn measure(
        &mut self,
        load: &Load,
        expected: Option<fn(u16) -> u32>,
    ) -> Result<Times, BenchError> {
        if let Some(expected) = expected {
            let digest = load
                .ingress
                .iter()
                .fold(0u64, |digest, &ingress| digest.rotate_left(5) ^ u64::from(expected(ingress)));
            if self.pass(load, Side::Sandboxed)?.1 != digest {
                return Err(BenchError::Invalid("the function did not decide what its rules say".into()));
            }
        }
        let mut times = Times::default();
        for run in 0..=RUNS {
            self.turn(load, run > 0, &mut times)?;
        }
        Ok(times)
    }

    /// Measures both sides in turns with packets that are brought up to date before each turn.
    pub(crate) fn measure_each<B: AsRef<[u8]>>(
        &mut self,
        load: &mut Load<B>,
        mut update: impl FnMut(&mut Load<B>),
    ) -> Result<Times, BenchError> {
        let mut times = Times::default();
        for run in 0..=RUNS {
            update(load);
            self.turn(load, run > 0, &mut times)?;
        }
        Ok(times)
    }

    /// One turn of each side, less what the reading of clocks costs.
    fn turn<B: AsRef<[u8]>>(
        &mut self,
        load: &Load<B>,
        counts: bool,
        times: &mut Times,
    ) -> Result<(), BenchError> {
        let harness = self.pass(load, Side::Neither)?.0;
        let (ours, theirs) = (self.pass(load, Side::Sandboxed)?, self.pass(load, Side::Native)?);
        if ours.1 != theirs.1 {
            return Err(BenchError::Invalid("sandboxed and native decided differently".into()));
        }
        if counts {
            let (ours, theirs) = (ours.0 - harness, theirs.0 - harness);
            times.sandboxed.push(ours);
            times.native.push(theirs);
            times.ratio.push(ours / theirs);
            times.harness.push(harness);
        }
        Ok(())
    }

    pub(crate) fn end(mut self) {
        self.pool.free_batch(self.buffers.drain(..));
    }
}

/// What a packet takes, in each run.
#[derive(Default)]
pub(crate) struct Times {
    pub(crate) sandboxed: Vec<f64>,
    pub(crate) native: Vec<f64>,
    ratio: Vec<f64>,
    /// What measuring costs; it is in none of the others.
    harness: Vec<f64>,
}

impl Times {
    /// Adds the figures of one function.
    pub(crate) fn report(&self, name: &str, into: &mut Vec<Measurement>) {
        into.push(Measurement::new(&format!("{name}-ratio"), "x", &self.ratio));
        into.push(Measurement::new(&format!("{name}-ns"), "ns", &self.sandboxed));
        into.push(Measurement::new(&format!("{name}-native-ns"), "ns", &self.native));
    }
}

/// A firewall on both sides.
fn firewall_pair(
    sandbox: &Sandbox,
    image: &Image,
    config: &str,
) -> Result<Pair<Runner<firewall::Firewall>>, BenchError> {
    let native = Runner::new(&configuration(image, config)?)
        .map_err(|error| BenchError::Setup(format!("firewall: {error:?}")))?;
    Pair::new(sandbox, image, config, native)
}

/// A policer on both sides, with a bucket for each source; so much may pass that all does.
fn policer_pair(
    sandbox: &Sandbox,
    image: &Image,
    buckets: usize,
) -> Result<Pair<Runner<policer::Policers>>, BenchError> {
    let config = format!(
        "{{max_buckets: {buckets}, policers: [{{key: [source], rate: 1000Gbps, burst: 512MiB, packet_rate: 1Gpps, \
         packet_burst: 1000000000}}]}}"
    );
    let native = Runner::new(&configuration(image, &config)?)
        .map_err(|error| BenchError::Setup(format!("policer: {error:?}")))?;
    Pair::new(sandbox, image, &config, native)
}

/// Packets of each of `count` sources, in random order.
fn sources(count: u32, numbers: &mut Numbers) -> Load {
    let mut order: Vec<u32> = (0..count.max(DISTINCT as u32)).map(|n| n % count).collect();
    numbers.shuffle(&mut order);
    let flow = |n: u32| Flow {
        source: 0x0a00_0000 | n,
        destination: 0xc612_0000 | n & 0xffff,
        source_port: 1024 + (n % 60_000) as u16,
        destination_port: 443,
        protocol: 17,
    };
    one_way(order.into_iter().map(flow))
}

/// Flows that a monitor's table has room for, and those among them that last.
const TABLE: usize = 65_536;
const LASTING: usize = 1000;

/// Packets of a monitor's table that is full: nine of ten open a flow that was never seen, the others are of
/// flows that last.
fn opening_flows(numbers: &mut Numbers) -> Load {
    let packet = |n: usize, numbers: &mut Numbers| {
        let number =
            if n.is_multiple_of(10) { numbers.below(LASTING as u64) } else { numbers.next() | 1 << 40 };
        Flow {
            source: 0x0a00_0000 | number as u32 & 0xff_ffff,
            destination: 0xc612_0000 | (number >> 40) as u32 & 0xffff,
            source_port: 1024 + (number >> 24) as u16 % 60_000,
            destination_port: 443,
            protocol: 6,
        }
    };
    one_way((0..DISTINCT).map(|n| packet(n, numbers)))
}

/// A monitor whose table is full.
fn full_table(
    sandbox: &Sandbox,
    numbers: &mut Numbers,
    into: &mut Vec<Measurement>,
) -> Result<(), BenchError> {
    let image = stock("monitor")?;
    let config = format!("flows: {TABLE}");
    let native = Runner::<monitor::Monitor>::new(&configuration(&image, &config)?)
        .map_err(|error| BenchError::Setup(format!("monitor: {error}")))?;
    let mut pair = Pair::new(sandbox, &image, &config, native)?;
    pair.prepare(&opening_flows(numbers))?;
    let mut load = opening_flows(numbers);
    let times = pair.measure_each(&mut load, |load| *load = opening_flows(numbers))?;
    let report = pair.sandboxed.report(watchdog::clock().moment()).map_err(BenchError::setup)?;
    let seen: serde_json::Value =
        serde_json::from_str(report.as_deref().unwrap_or_default()).map_err(BenchError::setup)?;
    let replaced = seen["flows"]["replaced"].as_u64().unwrap_or(0);
    // As many as were opened since the table was full, but for numbers that came twice.
    let opened = ((RUNS + 1) * DISTINCT * 9 / 10) as u64;
    if replaced < opened * 99 / 100 {
        return Err(BenchError::Invalid(format!("of {opened} flows only {replaced} took another's place")));
    }
    times.report("monitor-full-table", into);
    pair.end();
    Ok(())
}

/// Every packet must have been policed, by a bucket of its source's own.
fn check_buckets(
    pair: &mut Pair<Runner<policer::Policers>>,
    buckets: u64,
    least: u64,
) -> Result<(), BenchError> {
    let report = pair.sandboxed.report(watchdog::clock().moment()).map_err(BenchError::setup)?;
    let invalid = || BenchError::Invalid(format!("not every source had a bucket: {report:?}"));
    let report: serde_json::Value =
        serde_json::from_str(report.as_deref().unwrap_or_default()).map_err(|_| invalid())?;
    let conform = report["policers"][0]["conform"]["packets"].as_u64();
    let made = report["buckets"]["made"].as_u64();
    let alone = made >= Some(buckets) && report["buckets"]["shared"] == 0 && conform >= Some(least);
    if alone { Ok(()) } else { Err(invalid()) }
}

/// The verdict of a packet that passes.
fn passed(ingress: u16) -> u32 {
    Verdict::Interface(1 - ingress).encode()
}

fn one_way(flows: impl Iterator<Item = Flow>) -> Load {
    let frames: Vec<Frame> = flows.enumerate().map(|(n, flow)| flow.frame(0x10, n as u32)).collect();
    let ingress = vec![0; frames.len()];
    Load { frames, ingress, size: None }
}

/// All packets so far must have counted for this one of so many rules.
fn check_rule(
    pair: &mut Pair<Runner<firewall::Firewall>>,
    rule: usize,
    rules: usize,
) -> Result<(), BenchError> {
    let report = pair.sandboxed.report(watchdog::clock().moment()).map_err(BenchError::setup)?;
    let invalid =
        || BenchError::Invalid(format!("the report shows no hits of rule {rule} alone: {report:?}"));
    let report: serde_json::Value =
        serde_json::from_str(report.as_deref().unwrap_or_default()).map_err(|_| invalid())?;
    let hits: Vec<u64> = report["rules"]
        .as_array()
        .ok_or_else(invalid)?
        .iter()
        .filter_map(|rule| rule["hits"].as_u64())
        .collect();
    let alone = hits.len() == rules
        && hits
            .iter()
            .enumerate()
            .all(|(n, hits)| if n == rule { *hits >= DISTINCT as u64 } else { *hits == 0 });
    if alone { Ok(()) } else { Err(invalid()) }
}

/// Flows that a stateful firewall knows: their opening, and packets of both directions in random order.
fn established(count: usize, numbers: &mut Numbers) -> (Load, Load) {
    let flows: Vec<Flow> = (0..count as u32)
        .map(|n| Flow {
            source: 0xac10_0000 | (n & 0xf_ffff),
            destination: 0xc612_0000 | (numbers.next() as u32 & 0x1_ffff),
            source_port: 1024 + (numbers.next() as u16 % 60_000),
            destination_port: 443,
            protocol: 6,
        })
        .collect();
    let mut opening = Load { frames: Vec::new(), ingress: Vec::new(), size: None };
    for flow in &flows {
        opening.frames.extend([flow.frame(0x02, 0), flow.reverse().frame(0x12, 0), flow.frame(0x10, 1)]);
        opening.ingress.extend([0, 1, 0]);
    }
    let mut order: Vec<(usize, bool)> = (0..count).flat_map(|n| [(n, false), (n, true)]).collect();
    numbers.shuffle(&mut order);
    let mut load = Load { frames: Vec::new(), ingress: Vec::new(), size: None };
    for (n, back) in order.into_iter().take(count.max(DISTINCT)) {
        let flow = if back { flows[n].reverse() } else { flows[n] };
        load.frames.push(flow.frame(0x10, 1));
        load.ingress.push(u16::from(back));
    }
    (opening, load)
}

/// Detection on streams of segments as long as packets are, whose payload seldom meets a rule.
fn detection(
    sandbox: &Sandbox,
    count: usize,
    numbers: &mut Numbers,
    into: &mut Vec<Measurement>,
) -> Result<(), BenchError> {
    let image = stock("dpi")?;
    let rules = dpi_load::rules(count, numbers);
    let config = configuration_with(&image, "rules: generated.rules", &dpi_load::OneFile(rules))?;
    let native =
        Runner::<dpi::Dpi>::new(&config).map_err(|error| BenchError::Setup(format!("dpi: {error}")))?;
    let mut pair = Pair::with(sandbox, &image, config, native)?;
    let mut streams = Streams::new(numbers);
    let (frames, ingress) = streams.opening();
    pair.prepare(&Load { frames, ingress, size: None })?;
    let (frames, ingress) = streams.segments(numbers);
    let mut load = Load { frames, ingress, size: None };
    let times = pair.measure_each(&mut load, |load| streams.advance(&mut load.frames))?;
    let report = pair.sandboxed.report(watchdog::clock().moment()).map_err(BenchError::setup)?;
    // All of it was matched, as parts of streams, and most of it met no rule.
    let seen: serde_json::Value =
        serde_json::from_str(report.as_deref().unwrap_or_default()).map_err(BenchError::setup)?;
    let counter = |name: &str| seen["counters"][name].as_u64().unwrap_or(u64::MAX);
    let shown = ((RUNS + 1) * load.frames.len() * dpi_load::PAYLOAD) as u64;
    let few = counter("alerts").saturating_add(counter("alerts-lost")) * 1000 < shown / 1000;
    if counter("bytes") != shown
        || counter("repeated") + counter("segments-held") + counter("overloads") != 0
        || !few
    {
        return Err(BenchError::Invalid(format!("the streams were not matched as meant: {report:?}")));
    }
    let name = format!("dpi-{count}");
    into.push(Measurement::new(&format!("{name}-ratio"), "x", &times.ratio));
    let per_byte =
        |packets: &[f64]| packets.iter().map(|ns| ns / dpi_load::PACKET as f64).collect::<Vec<_>>();
    into.push(Measurement::new(&format!("{name}-ns-per-byte"), "ns", &per_byte(&times.sandboxed)));
    into.push(Measurement::new(&format!("{name}-native-ns-per-byte"), "ns", &per_byte(&times.native)));
    pair.end();
    Ok(())
}

/// Detection with rules as a public set has them, on the traffic that goes with them.
fn detection_by_public_rules(sandbox: &Sandbox, into: &mut Vec<Measurement>) -> Result<(), BenchError> {
    let image = stock("dpi")?;
    let rules = peers::public_rules::rules(dpi_rules::RULES);
    let config = dpi_rules::configuration(&image, &rules)?;
    let native = dpi_rules::native(&config)?;
    let mut pair = Pair::with(sandbox, &image, config, native)?;
    let Traffic { frames, ingress, carriers } = Traffic::new(&rules)?;
    let bytes: usize = frames.iter().map(Vec::len).sum();
    let mut load = Load { frames, ingress, size: None };
    let mut passes = Passes::new();
    let times = pair.measure_each(&mut load, |load| passes.advance(&mut load.frames))?;
    let report = pair.sandboxed.report(watchdog::clock().moment()).map_err(BenchError::setup)?;
    let seen: serde_json::Value =
        serde_json::from_str(report.as_deref().unwrap_or_default()).map_err(BenchError::setup)?;
    let counter = |name: &str| seen["counters"][name].as_u64().unwrap_or(u64::MAX);
    // Nearly every carrier makes an alert, and no stream was cut short or looked at twice.
    let alerts = counter("alerts").saturating_add(counter("alerts-lost"));
    let expected = u64::from(carriers) * (RUNS as u64 + 1);
    let astray = ["checksum-errors", "ignored-seen", "overloads", "segments-held", "messages-lost"];
    if alerts * 10 < expected * 9 || astray.iter().any(|name| counter(name) != 0) {
        return Err(BenchError::Invalid(format!("the traffic was not matched as meant: {report:?}")));
    }
    let per_byte = |packets: &[f64]| {
        packets.iter().map(|ns| ns * load.frames.len() as f64 / bytes as f64).collect::<Vec<_>>()
    };
    let name = format!("dpi-rules-{}", dpi_rules::RULES);
    into.push(Measurement::new(&format!("{name}-ns-per-byte"), "ns", &per_byte(&times.sandboxed)));
    into.push(Measurement::new(&format!("{name}-native-ns-per-byte"), "ns", &per_byte(&times.native)));
    pair.end();
    Ok(())
}

/// A flow that the first rule of [`ten_rules`] and its like matches.
fn first_rule_flow(numbers: &mut Numbers) -> Flow {
    let flow = last_rule_flow(numbers);
    let (source, destination) = (0x0a01_0000 | flow.source & 0xffff, 0xc0a8_0100 | flow.destination & 0xff);
    Flow { source, destination, destination_port: 4001, ..flow }
}

/// One-way UDP past rules without content to look for in it: a packet that is parsed and found to be of no
/// stream.
fn detection_of_udp(
    sandbox: &Sandbox,
    flows: &[(&str, &Load)],
    numbers: &mut Numbers,
    into: &mut Vec<Measurement>,
) -> Result<(), BenchError> {
    let image = stock("dpi")?;
    let rules = dpi_load::OneFile(dpi_load::rules(100, numbers));
    for (name, load) in flows {
        let config = configuration_with(&image, "rules: generated.rules", &rules)?;
        let native =
            Runner::<dpi::Dpi>::new(&config).map_err(|error| BenchError::Setup(format!("dpi: {error}")))?;
        let mut pair = Pair::with(sandbox, &image, config, native)?;
        pair.measure(load, Some(passed))?.report(&format!("dpi-{name}"), into);
        pair.end();
    }
    Ok(())
}

/// Routers with ten routes and with a million, and packets to random destinations, each of which has one.
fn routing(sandbox: &Sandbox, numbers: &mut Numbers, into: &mut Vec<Measurement>) -> Result<(), BenchError> {
    let image = stock("router")?;
    let load = one_way((0..DISTINCT).map(|_| routes::random_flow(numbers)));
    let tables = [("router-10", 9, Shape::Many), ("router", 999_999, Shape::Many)];
    let shapes = [("router-one-flow", 999_999, Shape::OneFlow), ("router-1500", 999_999, Shape::FullSize)];
    for (name, count, shape) in tables.into_iter().chain(shapes) {
        let load = shape.of(load.clone());
        let prefixes = routes::table(count, numbers);
        let mut text =
            routes::file(&prefixes, |n| format!("via 192.0.2.{}", 2 + n as u64 % routes::NEXT_HOPS));
        text += "0.0.0.0/0 via 192.0.2.2\n";
        let config = routes::configuration("routes_file: full.routes");
        let config = configuration_with(&image, &config, &dpi_load::OneFile(text))?;
        let native = Runner::<::router::Router>::new(&config)
            .map_err(|error| BenchError::Setup(format!("router: {error}")))?;
        let mut pair = Pair::with(sandbox, &image, config, native)?;
        let times = pair.measure(&load, Some(passed))?;
        let report = pair.sandboxed.report(watchdog::clock().moment()).map_err(BenchError::setup)?;
        let seen: serde_json::Value =
            serde_json::from_str(report.as_deref().unwrap_or_default()).map_err(BenchError::setup)?;
        if seen["packets"]["forwarded"].as_u64() < Some(DISTINCT as u64) {
            return Err(BenchError::Invalid(format!("not every packet was forwarded: {report:?}")));
        }
        times.report(name, into);
        pair.end();
    }
    Ok(())
}

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let (forwarder_image, firewall_image) = (stock("forwarder")?, stock("firewall")?);
    let mut results = Vec::new();
    let mut numbers = Numbers(2);
    let many = one_way((0..DISTINCT).map(|_| last_rule_flow(&mut numbers)));
    let (one, long) = (Shape::OneFlow.of(many.clone()), Shape::FullSize.of(many.clone()));
    let first = one_way((0..DISTINCT).map(|_| first_rule_flow(&mut numbers)));
    // One-way UDP of one size, in as many flows: each table has them.
    let loads = [("", &many), ("-one-flow", &one), ("-1500", &long)];

    progress(0.0, "forwarder");
    let config = "mode: swap";
    for (name, load) in loads {
        let native = forwarder::Forwarder::new(&configuration(&forwarder_image, config)?)
            .map_err(|error| BenchError::Setup(format!("forwarder: {error}")))?;
        let mut pair = Pair::new(&sandbox, &forwarder_image, config, native)?;
        let times = pair.measure(load, Some(passed))?;
        if name.is_empty() {
            results.push(Measurement::new("harness-ns", "ns", &times.harness));
        }
        times.report(&format!("forwarder{name}"), &mut results);
        pair.end();
    }

    for (rules, fraction) in [(10, 0.1), (50, 0.2)] {
        progress(fraction, &format!("firewall, {rules} rules"));
        for (name, load) in loads {
            let mut pair = firewall_pair(&sandbox, &firewall_image, &ten_rules(rules))?;
            let times = pair.measure(load, Some(passed))?;
            check_rule(&mut pair, rules as usize - 1, rules as usize)?;
            times.report(&format!("firewall-{rules}{name}"), &mut results);
            pair.end();
        }
        let mut pair = firewall_pair(&sandbox, &firewall_image, &ten_rules(rules))?;
        let times = pair.measure(&first, None)?;
        check_rule(&mut pair, 0, rules as usize)?;
        times.report(&format!("firewall-{rules}-first"), &mut results);
        pair.end();
    }

    progress(0.35, "firewall, 1,000 rules");
    let (config, flows) = classbench_rules(1000, &mut numbers);
    let mut pair = firewall_pair(&sandbox, &firewall_image, &config)?;
    let load = one_way(flows.into_iter());
    pair.measure(&load, None)?.report("firewall-rules-1000", &mut results);
    pair.end();

    progress(0.45, "firewall, one-way UDP");
    for (name, load) in loads {
        let config = format!(
            "stateful: true\nmax_flows: {}\ndefault_action: drop\nrules:\n  - {{action: accept, protocol: udp, \
             from: inside}}\n",
            2 * DISTINCT
        );
        let mut pair = firewall_pair(&sandbox, &firewall_image, &config)?;
        pair.prepare(load)?;
        let times = pair.measure(load, Some(passed))?;
        times.report(&format!("firewall-state-udp{name}"), &mut results);
        pair.end();
    }

    // As many flows as an established TCP connection is measured with, in random order.
    let mut order: Vec<Frame> = many.frames.iter().take(TABLE).copied().collect();
    order.extend_from_within(..);
    numbers.shuffle(&mut order);
    let load = Load { ingress: vec![0; order.len()], frames: order, size: None };
    let config = "stateful: true\nmax_flows: 65536\nrules:\n  - {action: accept, from: inside}\n";
    let mut pair = firewall_pair(&sandbox, &firewall_image, config)?;
    pair.prepare(&load)?;
    let times = pair.measure(&load, Some(passed))?;
    times.report("firewall-udp-one-way", &mut results);
    pair.end();

    for (flows, fraction) in [(65_536, 0.55), (1_000_000, 0.65)] {
        progress(fraction, &format!("firewall, {flows} established flows"));
        let config = format!(
            "stateful: true\nmax_flows: {flows}\ndefault_action: drop\nrules:\n  - {{action: accept, protocol: tcp, \
             from: inside, destination_ports: \"443\"}}\n"
        );
        let mut pair = firewall_pair(&sandbox, &firewall_image, &config)?;
        let (opening, load) = established(flows, &mut numbers);
        pair.prepare(&opening)?;
        let times = pair.measure(&load, Some(passed))?;
        times.report(&format!("firewall-state-{flows}"), &mut results);
        pair.end();
    }

    progress(0.75, "policer, 100,000 buckets");
    let buckets = 100_000;
    let policed = sources(buckets as u32, &mut numbers);
    for (name, shape) in Shape::ALL {
        let load = &shape.of(policed.clone());
        let mut pair = policer_pair(&sandbox, &stock("policer")?, buckets)?;
        pair.prepare(load)?;
        let times = pair.measure(load, Some(passed))?;
        let made = if shape == Shape::OneFlow { 1 } else { buckets as u64 };
        check_buckets(&mut pair, made, load.frames.len() as u64)?;
        times.report(&format!("policer{name}"), &mut results);
        pair.end();
    }

    progress(0.77, "router, 1,000,000 routes");
    routing(&sandbox, &mut numbers, &mut results)?;
    for (name, shape) in Shape::ALL {
        progress(0.78, "nat, 65,536 established sessions");
        let times = crate::nat::sessions(&sandbox, 65_536, shape, &mut numbers)?;
        times.report(&format!("nat{name}"), &mut results);
        progress(0.79, "load-balancer, 65,536 established connections");
        let times = crate::balancer::connections(&sandbox, 65_536, shape, &mut numbers)?;
        times.report(&format!("balancer{name}"), &mut results);
        progress(0.79, "security groups, 65,536 connections");
        let times = crate::groups::connections(&sandbox, shape, &mut numbers)?;
        times.report(&format!("groups{name}"), &mut results);
    }

    progress(0.8, "monitor, a full table");
    full_table(&sandbox, &mut numbers, &mut results)?;

    progress(0.85, "dpi, one-way UDP");
    let udp = [("udp", &many), ("udp-one-flow", &one), ("udp-1500", &long)];
    detection_of_udp(&sandbox, &udp, &mut numbers, &mut results)?;
    for (rules, fraction) in [(100, 0.9), (1000, 0.95)] {
        progress(fraction, &format!("dpi, {rules} rules"));
        detection(&sandbox, rules, &mut numbers, &mut results)?;
    }
    progress(0.97, "dpi, rules as a public set has them");
    detection_by_public_rules(&sandbox, &mut results)?;
    progress(0.98, "dpi, the most that a sender makes it spend");
    dpi_worst::run(&sandbox, &mut results)?;
    Ok(results)
}
