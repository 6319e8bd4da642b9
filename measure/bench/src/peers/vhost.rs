//! `forwarder` between two vhost-user ports, against testpmd between two of its own (`net_vhost`); testpmd
//! with two devices of virtio_user is at the other ends of both.

use super::device::Device;
use super::{Pairs, Stage, WARM_UP, WINDOW};
use crate::guests::{configuration, pool, stock};
use crate::{BenchError, Measurement, RUNS};
use ::peers::{Folder, TestpmdLoop, TestpmdVhost, Window};
use port::Port;
use port_vhost_user::{Role, Settings, VhostUserPort};
use std::path::Path;
use testbed::Namespace;

/// Buffers of our side: those that are in use all the time stay in the processor's caches.
const BUFFERS: u32 = 2048;
/// Packets that the peer takes at once.
const BURST: usize = 64;

/// The results, and how both sides were configured.
pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    ::peers::missing_of(&[("dpdk-testpmd", "dpdk-dev")]).map_err(BenchError::setup)?;
    let mut stage = Stage::prepared(progress)?;
    let done = compare(&mut stage);
    stage.note_failure("testpmd", done);
    Ok((stage.results, stage.notes))
}

fn compare(stage: &mut Stage<'_>) -> Result<(), BenchError> {
    (stage.progress)(0.0, "testpmd");
    let namespace = Namespace::new().map_err(BenchError::setup)?;
    let peer = TestpmdVhost::start(&namespace, BURST, stage.cores).map_err(BenchError::setup)?;
    let sockets = peer.sockets();
    let around = |name, sockets: [&Path; 2]| {
        TestpmdLoop::virtio_user(&namespace, name, sockets, stage.cores).map_err(BenchError::setup)
    };
    let around_peer = around("loop-peer", [&sockets[0], &sockets[1]])?;
    around_peer.pause().map_err(BenchError::setup)?;
    peer.polling.pause().map_err(BenchError::setup)?;

    let folder = Folder::new().map_err(BenchError::setup)?;
    let sockets = ["left.sock", "right.sock"].map(|name| folder.file(name));
    let port = |socket: &Path| -> Result<Box<dyn Port>, BenchError> {
        let settings = Settings::new(Role::Server, &socket.display().to_string());
        Ok(Box::new(VhostUserPort::open(settings).map_err(BenchError::setup)?))
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
    stage.notes.push(format!("testpmd, peer: {}", peer.configuration));
    stage.notes.push(format!("testpmd, at its other ends: {}", around_peer.configuration));
    stage.notes.push(format!(
        "testpmd, superfluid: two ports of type vhost-user, role server, function forwarder {{mode: swap}}, pool of {BUFFERS} buffers"
    ));
    stage.notes.push(format!("testpmd, at our other ends: {}", around_ours.configuration));

    (stage.progress)(0.3, "in turns");
    let (mut pairs, mut busy, mut rates) = (Pairs::default(), Vec::new(), [Vec::new(), Vec::new()]);
    for run in 0..=RUNS {
        around_peer.resume().map_err(BenchError::setup)?;
        peer.polling.resume().map_err(BenchError::setup)?;
        let theirs = peer.polling.measure(WINDOW).map_err(BenchError::setup)?;
        peer.polling.pause().map_err(BenchError::setup)?;
        around_peer.pause().map_err(BenchError::setup)?;
        around_ours.resume().map_err(BenchError::setup)?;
        ours.poll(WARM_UP)?;
        let own = ours.measure_polling(WINDOW)?;
        around_ours.pause().map_err(BenchError::setup)?;
        check(&own.window, 1000)?;
        // Its ports are asked one after the other while it works.
        check(&theirs, 5)?;
        // The first one warms up.
        if run > 0 {
            pairs.push(own.window.nanos_per_packet(), theirs.nanos_per_packet());
            busy.push(own.share * 100.0);
            for (rates, window) in rates.iter_mut().zip([own.window, theirs]) {
                rates.push(1e3 / window.nanos_per_packet());
            }
        }
    }
    let lost = ours.end()?.ledger.dropped.total();
    if lost > 0 {
        return Err(BenchError::Invalid(format!("{lost} packets were dropped")));
    }
    pairs.report("testpmd", &mut stage.results);
    stage.results.push(Measurement::new("own-busy-percent", "%", &busy));
    for (name, rates) in ["own-mpps", "peer-mpps"].into_iter().zip(rates) {
        stage.results.push(Measurement::new(name, "Mpps", &rates));
    }
    Ok(())
}

/// That packets went through, and but one part of so many is still there.
fn check(window: &Window, part: u64) -> Result<(), BenchError> {
    if window.packets < 1000 || window.received.abs_diff(window.packets) > window.received / part {
        return Err(BenchError::Invalid(format!("packets did not go round: {window:?}")));
    }
    Ok(())
}
