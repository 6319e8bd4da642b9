//! Virtual devices: what observers, hops over devices and changes of devices cost.

mod changes;
mod hops;
mod line;
mod memif;
mod observers;
mod slow;

use crate::{BenchError, Measurement};
use guest_wasm::Sandbox;

/// Runs all parts; the figures, and how peers were configured.
pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let (mut results, mut notes) = (Vec::new(), Vec::new());
    progress(0.0, "eight observers");
    observers::run(&sandbox, progress, &mut results)?;
    progress(0.4, "a slow observer");
    slow::run(&sandbox, &mut results)?;
    progress(0.5, "hops over devices");
    let hop = hops::run(&sandbox, &mut results)?;
    progress(0.7, "hops between processes, by memif");
    memif::run(&hop, &mut results, &mut notes);
    progress(0.8, "devices, policies and openers that come and go");
    changes::run(&mut results)?;
    Ok((results, notes))
}
