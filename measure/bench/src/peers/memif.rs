//! `forwarder` between two memif ports, against Open vSwitch with DPDK between two of its own; testpmd is at
//! the other ends of both.
//!
//! testpmd moves each packet out of one shared memory and into another, as the forwarder does, and may be the
//! slower of the two. So what is compared is the processor time of rounds in which packets came, which both
//! sides count alike, and which part of the time that was is told beside it.

use super::device::Device;
use super::{Pairs, Stage, WARM_UP, WINDOW};
use crate::guests::{configuration, pool, stock};
use crate::{BenchError, Measurement, RUNS};
use ::peers::{Busy, Folder, OpenVswitchMemif, TestpmdLoop};
use port::Port;
use port_memif::{MemifPort, Role, Settings};
use std::path::Path;
use testbed::Namespace;

/// Buffers of our side: those that are in use all the time stay in the processor's caches.
const BUFFERS: u32 = 2048;

/// The results, and how both sides were configured.
pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    let mut stage = Stage::open(progress)?;
    let done = compare(&mut stage);
    stage.note_failure("ovs", done);
    Ok((stage.results, stage.notes))
}

fn compare(stage: &mut Stage<'_>) -> Result<(), BenchError> {
    (stage.progress)(0.0, "Open vSwitch");
    let namespace = Namespace::new().map_err(BenchError::setup)?;
    let peer = OpenVswitchMemif::start(stage.cores).map_err(BenchError::setup)?;
    let sockets = peer.sockets();
    let around = |name, sockets: [&Path; 2]| {
        TestpmdLoop::memif(&namespace, name, sockets, stage.cores).map_err(BenchError::setup)
    };
    let around_peer = around("loop-peer", [&sockets[0], &sockets[1]])?;
    around_peer.pause().map_err(BenchError::setup)?;
    peer.polling.pause().map_err(BenchError::setup)?;

    let folder = Folder::new().map_err(BenchError::setup)?;
    let sockets = ["left.sock", "right.sock"].map(|name| folder.file(name));
    let port = |socket: &Path| -> Result<Box<dyn Port>, BenchError> {
        let settings = Settings { queues: 2, ..Settings::new(Role::Master, &socket.display().to_string()) };
        Ok(Box::new(MemifPort::open(settings).map_err(BenchError::setup)?))
    };
    let image = stock("forwarder")?;
    let mut ours = Device::new(
        &stage.sandbox,
        &image,
        configuration(&image, "mode: swap")?,
        pool(BUFFERS, None)?,
        [port(&sockets[0])?, port(&sockets[1])?],
        stage.cores,
    )?;
    let around_ours = around("loop-ours", [&sockets[0], &sockets[1]])?;
    around_ours.pause().map_err(BenchError::setup)?;
    stage.notes.push(format!("ovs, peer: {}", peer.configuration.trim_end()));
    stage.notes.push(format!("ovs, at its other ends: {}", around_peer.configuration));
    stage.notes.push(format!(
        "ovs, superfluid: two ports of type memif, role master, queues 2, function forwarder {{mode: swap}}, pool of {BUFFERS} buffers"
    ));
    stage.notes.push(format!("ovs, at our other ends: {}", around_ours.configuration));

    (stage.progress)(0.3, "in turns");
    let (mut pairs, mut all) = (Pairs::default(), [Vec::new(), Vec::new()]);
    for run in 0..=RUNS {
        around_peer.resume().map_err(BenchError::setup)?;
        peer.polling.resume().map_err(BenchError::setup)?;
        let theirs = peer.measure(WINDOW).map_err(BenchError::setup)?;
        peer.polling.pause().map_err(BenchError::setup)?;
        around_peer.pause().map_err(BenchError::setup)?;
        around_ours.resume().map_err(BenchError::setup)?;
        ours.poll(WARM_UP)?;
        let own = ours.measure_polling(WINDOW)?;
        around_ours.pause().map_err(BenchError::setup)?;
        check(&own, 1000)?;
        // Its ports are asked one after the other while it works.
        check(&theirs, 5)?;
        // The first one warms up.
        if run > 0 {
            pairs.push(own.nanos_per_packet(), theirs.nanos_per_packet());
            all.iter_mut().zip([own, theirs]).for_each(|(all, one)| all.push(one));
        }
    }
    let lost = ours.end()?.ledger.dropped.total();
    if lost > 0 {
        return Err(BenchError::Invalid(format!("{lost} packets were dropped")));
    }
    pairs.report("ovs", &mut stage.results);
    for (name, side) in ["own", "peer"].into_iter().zip(all) {
        let of = |figure: fn(&Busy) -> f64| -> Vec<f64> { side.iter().map(figure).collect() };
        let percent = of(|busy| busy.share * 100.0);
        stage.results.push(Measurement::new(&format!("{name}-busy-percent"), "%", &percent));
        let rate = of(Busy::mega_packets_per_second);
        stage.results.push(Measurement::new(&format!("{name}-mpps"), "Mpps", &rate));
    }
    Ok(())
}

/// That packets went through, and but one part of so many is still there.
fn check(busy: &Busy, part: u64) -> Result<(), BenchError> {
    let window = &busy.window;
    if window.packets < 1000 || window.received.abs_diff(window.packets) > window.received / part {
        return Err(BenchError::Invalid(format!("packets did not go round: {window:?}")));
    }
    Ok(())
}
