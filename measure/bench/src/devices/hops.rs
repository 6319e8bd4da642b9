//! Chains of fifty functions that do nothing, joined by rootless devices and by plain wires, in turns.

use super::line::ROUNDS;
use crate::chain::{EngineChain, Shape, frames};
use crate::frames::DISTINCT;
use crate::guests::{module, pool};
use crate::{BenchError, Measurement};
use guest_wasm::Sandbox;

/// Functions in a chain.
const HOPS: usize = 50;

/// Nanoseconds of each run for a packet and a hop over a rootless device.
pub(super) fn run(sandbox: &Sandbox, into: &mut Vec<Measurement>) -> Result<Vec<f64>, BenchError> {
    let (image, packets, frames) = (module("empty")?, pool(2048, None)?, frames());
    let chain = |rootless| {
        let shape = Shape { rootless, ..Shape::of(HOPS) };
        EngineChain::sandboxed(sandbox, &image, "", shape, frames.clone(), &packets)
    };
    let (mut wires, mut devices) = (chain(false)?, chain(true)?);
    let (mut ratio, mut hop) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (wire, device) = (wires.run(2 * DISTINCT)?, devices.run(2 * DISTINCT)?);
        if round > 0 {
            ratio.push(device / wire);
            hop.push(device / HOPS as f64);
        }
    }
    wires.check()?;
    devices.check()?;
    into.push(Measurement::new("hop-ratio", "x", &ratio));
    into.push(Measurement::new("hop-ns", "ns", &hop));
    Ok(hop)
}
