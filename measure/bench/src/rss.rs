//! What a process with a chain of fifty needs beside the packets.

use crate::chain::{EngineChain, Shape, frames};
use crate::frames::DISTINCT;
use crate::functions::ten_rules;
use crate::guests::{pool, stock};
use crate::{BenchError, CHILD, Measurement, RUNS};
use guest_wasm::Sandbox;
use std::process::Command;

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let program = std::env::current_exe().map_err(BenchError::setup)?;
    let mut sizes = Vec::new();
    for run in 0..RUNS {
        progress(run as f64 / RUNS as f64, "processes");
        let output = Command::new(&program).args(["rss", CHILD]).output().map_err(BenchError::setup)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let kib: u64 = text.trim().parse().map_err(|_| {
            let errors = String::from_utf8_lossy(&output.stderr);
            BenchError::Setup(format!("the measured process said `{}` {}", text.trim(), errors.trim()))
        })?;
        sizes.push(kib as f64 / 1024.0);
    }
    Ok(vec![Measurement::new("chain-50-mib", "MiB", &sizes)])
}

pub(crate) fn child() -> Result<u64, BenchError> {
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let pool = pool(2048, None)?;
    // The frames are the measurement's own and not the product's.
    let frames = frames();
    let own = (frames.len() * size_of::<crate::frames::Frame>()) as u64 / 1024;
    let mut chain =
        EngineChain::sandboxed(&sandbox, &stock("firewall")?, &ten_rules(10), Shape::of(50), frames, &pool)?;
    chain.run(DISTINCT)?;
    let status = std::fs::read_to_string("/proc/self/status").map_err(BenchError::setup)?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
    };
    // Shared memory is the pool, mapped many times; everything else counts, page tables too.
    let parts = ["RssAnon", "RssFile", "VmPTE"].map(field);
    match parts {
        [Some(anonymous), Some(file), Some(tables)] => Ok((anonymous + file + tables).saturating_sub(own)),
        _ => Err(BenchError::Setup("/proc/self/status lacks RssAnon, RssFile or VmPTE".into())),
    }
}
