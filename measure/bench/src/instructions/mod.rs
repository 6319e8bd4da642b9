//! Instructions of a hop, counted by valgrind's cachegrind: a figure that a busy machine does not change.
//!
//! Valgrind runs this program again as a chain of functions that do nothing, and counts every instruction of
//! the process. The processes differ in three things, and differences between their counts cancel the rest:
//! 1. how many packets pass: start, compilation and teardown fall away;
//! 2. how many functions the chain has: ports, turns and classification fall away;
//! 3. how many packets a batch has: that splits a hop into its part for each packet and its part for each
//!    batch.
//!
//! The code that runs is that of x86-64-v3: the program is compiled for it, and valgrind's processor has no
//! later extension to offer to the functions' compiler or to the C library. Valgrind is tens of times slower
//! than the processor, so the worker's clock is slowed as much and more: what takes long must not depend on
//! how busy the machine is.

mod auxv;

use crate::chain::{EngineChain, Shape};
use crate::frames::Frame;
use crate::guests::{module, pool};
use crate::{BenchError, Measurement, chain};
use guest_wasm::Sandbox;
use std::process::Command;
use std::sync::Arc;
use telemetry::clock::Nanos;

/// Functions of the two chains.
const HOPS: [usize; 2] = [4, 24];
/// Packets of a batch.
const BATCHES: [usize; 2] = [8, 32];
/// Batches that pass.
const PASSES: [usize; 2] = [200, 8_200];
/// By how many times the worker's clock is slower than others: no time ends a turn, or a function's, while
/// packets pass.
const SLOWER: u64 = 1_000_000;
/// Distinct frames; that they differ costs no instructions.
const FRAMES: usize = 1024;

/// The results, for where there is no valgrind.
const RESULTS: [&str; 2] = ["hop-per-packet", "hop-per-batch"];

pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    let version = Command::new("valgrind").arg("--version").output();
    let Some(version) = version.ok().filter(|output| output.status.success()) else {
        let missing = |name| Measurement::missing(name, "instr", "not-measured");
        let why = "valgrind is not installed: nothing else here counts instructions".to_owned();
        return Ok((RESULTS.map(missing).to_vec(), vec![why]));
    };
    let runs = (HOPS.len() * BATCHES.len() * PASSES.len()) as f64;
    let mut done = 0.0;
    let mut count = |hops: usize, batch: usize, passes: usize| {
        progress(done / runs, "chains under valgrind");
        done += 1.0;
        instructions(hops, batch, passes)
    };
    let mut hop = |batch: usize| -> Result<f64, BenchError> {
        let mut chain = |hops| Ok(count(hops, batch, PASSES[1])? - count(hops, batch, PASSES[0])?);
        let more = chain(HOPS[1])? - chain(HOPS[0])?;
        Ok(more / ((HOPS[1] - HOPS[0]) * (PASSES[1] - PASSES[0])) as f64)
    };
    let (few, many) = (hop(BATCHES[0])?, hop(BATCHES[1])?);
    let packet = (many - few) / (BATCHES[1] - BATCHES[0]) as f64;
    let figures = [packet, few - BATCHES[0] as f64 * packet];
    let results = RESULTS.iter().zip(figures);
    let results = results.map(|(name, figure)| Measurement::new(name, "instr", &[figure]));
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let note = format!(
        "{version}: chains of {} and {} functions, batches of {} and {}: {few:.0} and {many:.0} instructions a hop",
        HOPS[0], HOPS[1], BATCHES[0], BATCHES[1]
    );
    Ok((results.collect(), vec![note]))
}

/// Instructions of a process that sends so many batches through a chain.
fn instructions(hops: usize, batch: usize, passes: usize) -> Result<f64, BenchError> {
    let program = std::env::current_exe().map_err(BenchError::setup)?;
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(program)
        .args(["instructions", crate::CHILD])
        .args([hops, batch, passes].map(|n| n.to_string()))
        .output()
        .map_err(BenchError::setup)?;
    let text = String::from_utf8_lossy(&output.stderr);
    total(&text)
        .filter(|_| output.status.success())
        .ok_or_else(|| BenchError::Setup(format!("valgrind counted nothing: {}", text.trim())))
}

/// What cachegrind says that a process has run.
fn total(text: &str) -> Option<f64> {
    let (_, count) = text.lines().find_map(|line| line.split_once("I   refs:"))?;
    count.trim().replace(',', "").parse().ok()
}

/// The process that is counted; how many packets have passed.
pub(crate) fn child(arguments: &[usize]) -> Result<u64, BenchError> {
    let &[hops, batch, passes] = arguments else {
        return Err(BenchError::Setup("not three numbers: functions, packets of a batch, batches".into()));
    };
    auxv::take_from_file().map_err(BenchError::setup)?;
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let frames: Arc<Vec<Frame>> = Arc::new((0..FRAMES).map(chain::numbered).collect());
    let pool = pool(256, None)?;
    let usual = Shape::of(hops);
    let max_call = Nanos(usual.max_call.0.saturating_mul(SLOWER));
    let clock = usual.clock.slowed(SLOWER);
    let shape = Shape { batch, packets: batch * passes, clock, max_call, ..usual };
    let mut chain = EngineChain::sandboxed(&sandbox, &module("empty")?, "", shape, frames, &pool)?;
    chain.run(batch * passes)?;
    let passed = chain.delivered();
    chain.check()?;
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn the_count_is_found_in_what_cachegrind_says() {
        let text = "==1== Command: x\n==1== \n==1== I   refs:      1,074,243,699\n";
        assert_eq!(total(text), Some(1_074_243_699.0));
        assert_eq!(total("==1== Process terminating with default action of signal 6"), None);
    }
}
