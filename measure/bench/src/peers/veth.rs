//! From one veth pair to another, at saturation, against testpmd with a driver for the same interfaces.

use super::device::Device;
use super::{Pairs, Side, Stage, WARM_UP, WINDOW};
use crate::guests::{configuration, pool, stock};
use crate::{BenchError, Measurement, RUNS};
use nf_abi::MAX_BATCH;
use packet_memory::Pool;
use peers::{Driver, Flood, IN, OUT, Testpmd, VethLine};
use port::Port;
use port_af_packet::AfPacketPort;
use port_af_xdp::AfXdpPort;
use std::sync::Arc;
use std::time::Duration;

/// Buffers of testpmd, and of the pool.
const BUFFERS: u32 = 16_384;

/// By how much the sender alone has to be faster than the result.
const HEADROOM: f64 = 1.3;

/// Opens a port on an interface, for packets of a pool.
type Open = fn(&str, &Arc<Pool>) -> Result<Box<dyn Port>, BenchError>;

/// What a row is made of.
struct Row {
    name: &'static str,
    driver: Driver,
    ours: &'static str,
    open: Open,
    done: f64,
}

const ROWS: [Row; 2] = [
    Row {
        name: "af-packet",
        driver: Driver::AfPacket,
        ours: "ports af_packet with their defaults",
        open: |interface, _| match AfPacketPort::open(port_af_packet::Settings::new(interface)) {
            Ok(port) => Ok(Box::new(port)),
            Err(error) => Err(BenchError::setup(error)),
        },
        done: 0.4,
    },
    Row {
        name: "af-xdp",
        driver: Driver::AfXdp,
        ours: "ports af_xdp with their defaults",
        open: |interface, pool| match AfXdpPort::open(port_af_xdp::Settings::new(interface), pool.clone()) {
            Ok(port) => Ok(Box::new(port)),
            Err(error) => Err(BenchError::setup(error)),
        },
        done: 0.6,
    },
];

pub(super) fn run(stage: &mut Stage<'_>) {
    for row in &ROWS {
        let done = compare(stage, row);
        stage.note_failure(row.name, done);
    }
}

fn compare(stage: &mut Stage<'_>, row: &Row) -> Result<(), BenchError> {
    let (name, cores) = (row.name, stage.cores);
    (stage.progress)(row.done, &format!("{name}: the sender alone"));
    let mut alone = 0f64;
    for _ in 0..3 {
        let line = VethLine::new().map_err(BenchError::setup)?;
        let trial = Flood::during(&line, cores, || std::thread::sleep(WINDOW));
        alone = alone.max(trial.map_err(BenchError::setup)?.0.rate());
    }
    let (mut pairs, mut kept_up) = (Pairs::default(), true);
    for run in 0..=RUNS {
        (stage.progress)(row.done + 0.2 * run as f64 / RUNS as f64, name);
        match (theirs(stage, row, run == 0)?, ours(stage, row)?) {
            (Some(theirs), ours) if run > 0 => pairs.push(ours, theirs),
            (Some(_), _) => {}
            (None, _) => kept_up = false,
        }
    }
    stage.notes.push(format!("{name}, superfluid: {}, function forwarder {{mode: swap}}", row.ours));
    stage.notes.push(format!("{name}, sender alone: {:.2} million packets a second", alone / 1e6));
    if !kept_up || alone < HEADROOM * pairs.fastest() {
        let ratio = format!("{name}-ratio");
        stage.results.push(Measurement::missing(&ratio, "x", "sender-limited"));
    } else {
        pairs.report(name, &mut stage.results);
    }
    Ok(())
}

// Each side gets a line of its own each time: a port, stopped or not, gets every packet of its interface, and
// testpmd leaves its XDP program behind when it is killed.

fn theirs(stage: &mut Stage<'_>, row: &Row, first: bool) -> Result<Option<f64>, BenchError> {
    let line = VethLine::new().map_err(BenchError::setup)?;
    let mut peer = Testpmd::start(&line.device, row.driver, MAX_BATCH, BUFFERS, stage.cores)
        .map_err(BenchError::setup)?;
    if first {
        stage.notes.push(format!("{}, peer: {}", row.name, peer.configuration));
    }
    let (nanos, saturated) = under_load(&line, stage, &mut peer.polling)?;
    // Of a side that polls, a window that was not full says how long it waited.
    Ok(saturated.then_some(nanos))
}

fn ours(stage: &Stage<'_>, row: &Row) -> Result<f64, BenchError> {
    let line = VethLine::new().map_err(BenchError::setup)?;
    let pool = pool(BUFFERS, None)?;
    let ports = line.device.enter(|| Ok([(row.open)(IN, &pool)?, (row.open)(OUT, &pool)?]))?;
    let image = stock("forwarder")?;
    let config = configuration(&image, "mode: swap")?;
    let mut ours = Device::new(&stage.sandbox, &image, config, pool, ports, stage.cores)?;
    let (nanos, _) = under_load(&line, stage, &mut ours)?;
    ours.end()?;
    Ok(nanos)
}

/// Nanoseconds of processor time for each packet that arrives at the far end, and whether more was offered
/// than taken.
fn under_load(line: &VethLine, stage: &Stage<'_>, side: &mut dyn Side) -> Result<(f64, bool), BenchError> {
    let mut body = || -> Result<(Duration, u64, u64), BenchError> {
        side.pass(WARM_UP)?;
        let counts = || -> Result<(u64, u64), BenchError> {
            Ok((line.delivered().map_err(BenchError::setup)?, line.offered().map_err(BenchError::setup)?))
        };
        let (began, before) = (side.time()?, counts()?);
        side.pass(WINDOW)?;
        let (ended, after) = (side.time()?, counts()?);
        Ok((ended - began, after.0 - before.0, after.1 - before.1))
    };
    let (_, measured) = Flood::during(line, stage.cores, &mut body).map_err(BenchError::setup)?;
    let (time, delivered, offered) = measured?;
    if delivered == 0 {
        return Err(BenchError::Invalid(format!("of {offered} packets none was delivered")));
    }
    Ok((time.as_nanos() as f64 / delivered as f64, offered > delivered))
}
