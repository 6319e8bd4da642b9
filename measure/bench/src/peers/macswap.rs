//! Null port to null port through `forwarder`, against testpmd doing the same.

use super::device::Device;
use super::{Pairs, Stage, WARM_UP, WINDOW};
use crate::BenchError;
use crate::guests::{configuration, pool, stock};
use nf_abi::MAX_BATCH;
use peers::{Driver, Testpmd, Window};
use port::Port;
use port::null::{Config, NullPort};
use testbed::Namespace;

/// Buffers of each side: those that are in use all the time stay in the processor's caches.
const BUFFERS: u32 = 2048;

pub(super) fn run(stage: &mut Stage<'_>) {
    let done = compare(stage);
    stage.note_failure("macswap", done);
}

fn compare(stage: &mut Stage<'_>) -> Result<(), BenchError> {
    (stage.progress)(0.0, "macswap: testpmd");
    let namespace = Namespace::new().map_err(BenchError::setup)?;
    let peer = Testpmd::start(&namespace, Driver::Null, MAX_BATCH, BUFFERS, stage.cores)
        .map_err(BenchError::setup)?;
    let port = || -> Box<dyn Port> { Box::new(NullPort::new(Config { supply: true, size: 64 })) };
    let image = stock("forwarder")?;
    let mut ours = Device::new(
        &stage.sandbox,
        &image,
        configuration(&image, "mode: swap")?,
        pool(BUFFERS, None)?,
        [port(), port()],
        stage.cores,
    )?;
    stage.notes.push(format!("macswap, peer: {}", peer.configuration));
    stage.notes.push(format!(
        "macswap, superfluid: ports null {{supply: true, size: 64}} twice, function forwarder {{mode: swap}}, \
         batches of {MAX_BATCH}, pool of {BUFFERS} buffers"
    ));
    let check = |ours: &Window, theirs: &Window| {
        // What was taken in but not given out is a burst at most.
        let whole = |window: &Window| window.packets > 0 && window.received.abs_diff(window.packets) <= 1024;
        match whole(ours) && whole(theirs) {
            true => Ok(()),
            false => Err(BenchError::Invalid(format!("packets were lost: {ours:?}, peer {theirs:?}"))),
        }
    };
    let pairs = Pairs::measure(
        &peer.polling,
        || {
            ours.work(WARM_UP)?;
            ours.measure(WINDOW)
        },
        check,
    )?;
    let account = ours.end()?;
    if account.ledger.dropped.total() > 0 {
        return Err(BenchError::Invalid("the forwarder dropped packets".into()));
    }
    pairs.report("macswap", &mut stage.results);
    Ok(())
}
