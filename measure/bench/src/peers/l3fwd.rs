//! A router of a million routes and packets to random destinations, against DPDK's l3fwd, each less what
//! plain forwarding takes on the same ports.

use super::device::Device;
use super::{Stage, WARM_UP, WINDOW};
use crate::dpi_load::OneFile;
use crate::feed::{Counter, Feed, Stamped};
use crate::frames::Numbers;
use crate::guests::{configuration, configuration_with, pool, stock};
use crate::{BenchError, Measurement, RUNS, routes};
use peers::frames::Frame;
use peers::l3fwd::{self, L3fwd};
use peers::{Polling, Window};
use port::Port;
use std::sync::Arc;
use testbed::Namespace;

/// Routes, with the default route.
const ROUTES: usize = 1_000_000;
/// Buffers on our side; few, so that they stay in the processor's caches.
const BUFFERS: u32 = 2048;

/// Both sides' traffic and table.
struct Work {
    frames: Vec<Frame>,
    prefixes: Vec<(u32, u8)>,
}

impl Work {
    fn new() -> Work {
        let mut numbers = Numbers(31);
        let frames = (0..l3fwd::FRAMES).map(|_| routes::random_flow(&mut numbers).frame(0, 1)).collect();
        let mut prefixes = vec![(0, 0)];
        prefixes.extend(routes::table(ROUTES - 1, &mut numbers));
        Work { frames, prefixes }
    }

    /// One of our functions between the same ports.
    fn device(&self, stage: &Stage<'_>, name: &str, config: Vec<u8>) -> Result<Device, BenchError> {
        let ports: [Box<dyn Port>; 2] =
            [Box::new(Feed::open(Stamped(self.frames.clone()))), Box::new(Counter::new(Arc::default()))];
        Device::new(&stage.sandbox, &stock(name)?, config, pool(BUFFERS, None)?, ports, stage.cores)
    }

    fn router(&self, stage: &Stage<'_>) -> Result<Device, BenchError> {
        let text =
            routes::file(&self.prefixes, |n| format!("via 192.0.2.{}", 2 + n as u64 % routes::NEXT_HOPS));
        let config = routes::configuration("routes_file: full.routes");
        self.device(stage, "router", configuration_with(&stock("router")?, &config, &OneFile(text))?)
    }

    fn forwarder(&self, stage: &Stage<'_>) -> Result<Device, BenchError> {
        self.device(stage, "forwarder", configuration(&stock("forwarder")?, "mode: swap")?)
    }
}

/// `l3fwd-ratio`, by a stage of its own; what cannot be measured costs this result alone.
pub(crate) fn router(
    progress: &mut dyn FnMut(f64, &str),
    into: &mut Vec<Measurement>,
) -> Result<Vec<String>, BenchError> {
    peers::missing_l3fwd().map_err(BenchError::setup)?;
    let mut stage = Stage::prepared(progress)?;
    let done = compare(&mut stage);
    stage.note_failure("l3fwd", done);
    into.append(&mut stage.results);
    Ok(stage.notes)
}

fn compare(stage: &mut Stage<'_>) -> Result<(), BenchError> {
    (stage.progress)(0.6, "l3fwd: a million routes");
    let work = Work::new();
    let namespace = Namespace::new().map_err(BenchError::setup)?;
    let routed =
        L3fwd::start(&namespace, &work.frames, &work.prefixes, stage.cores).map_err(BenchError::setup)?;
    routed.polling.pause().map_err(BenchError::setup)?;
    let plain = L3fwd::plain(&namespace, &work.frames, stage.cores).map_err(BenchError::setup)?;
    plain.polling.pause().map_err(BenchError::setup)?;
    let (mut router, mut forwarder) = (work.router(stage)?, work.forwarder(stage)?);
    stage.notes.push(format!("l3fwd, peer: {}", routed.configuration));
    stage.notes.push(format!("l3fwd, peer, plain: {}", plain.configuration));
    stage.notes.push(format!(
        "l3fwd, superfluid: the same {} frames from memory, function router with the same {ROUTES} routes by {} next hops; \
         plain: function forwarder {{mode: swap}}",
        work.frames.len(),
        routes::NEXT_HOPS
    ));
    (stage.progress)(0.7, "l3fwd: in turns");
    let (mut ratio, mut net, mut gross) = (Vec::new(), [Vec::new(), Vec::new()], [const { Vec::new() }; 4]);
    for run in 0..=RUNS {
        let [theirs, their_plain] = [peer(&routed.polling)?, peer(&plain.polling)?];
        let [ours, our_plain] = [own(&mut router)?, own(&mut forwarder)?];
        // The first one warms up.
        if run == 0 {
            continue;
        }
        for (all, one) in gross.iter_mut().zip([ours, our_plain, theirs, their_plain]) {
            all.push(one);
        }
        let (ours, theirs) = (ours - our_plain, theirs - their_plain);
        if ours <= 0.0 || theirs <= 0.0 {
            return Err(BenchError::Invalid(format!(
                "routing takes no more than plain forwarding: {ours:.1} ns, peer {theirs:.1} ns"
            )));
        }
        ratio.push(theirs / ours);
        net[0].push(ours);
        net[1].push(theirs);
    }
    for device in [router, forwarder] {
        let lost = device.end()?.ledger.dropped.total();
        if lost > 0 {
            return Err(BenchError::Invalid(format!("{lost} packets were dropped")));
        }
    }
    stage.results.push(Measurement::new("l3fwd-ratio", "x", &ratio));
    let names = ["router-net-ns", "l3fwd-net-ns", "router-ns", "forwarder-ns", "l3fwd-ns", "testpmd-ns"];
    for (name, values) in names.iter().zip(net.iter().chain(&gross)) {
        stage.results.push(Measurement::new(name, "ns", values));
    }
    Ok(())
}

/// Nanoseconds for each packet of a peer, which works only meanwhile.
fn peer(polling: &Polling) -> Result<f64, BenchError> {
    polling.resume().map_err(BenchError::setup)?;
    let window = polling.measure(WINDOW).map_err(BenchError::setup)?;
    polling.pause().map_err(BenchError::setup)?;
    // Its ports are asked one after the other while it works.
    whole(&window, 5)
}

/// The same of a device of ours.
fn own(device: &mut Device) -> Result<f64, BenchError> {
    device.work(WARM_UP)?;
    whole(&device.measure(WINDOW)?, 1000)
}

/// The figure, if the packets that were taken in but not given out are at most one part of so many.
fn whole(window: &Window, part: u64) -> Result<f64, BenchError> {
    if window.packets == 0 || window.received.abs_diff(window.packets) > window.received / part {
        return Err(BenchError::Invalid(format!("packets were lost: {window:?}")));
    }
    Ok(window.nanos_per_packet())
}
