//! How soon a function stands still, and what is lost by it.

use super::{Daemon, timed};
use crate::statistics::median;
use crate::{BenchError, Measurement, RUNS};
use ::deployment::{Catalog, Host};
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;
use wiring::{Plan, Wiring};

/// Pauses of one run.
const PAUSES: usize = 100;
/// Packets in a second, while functions are paused and resumed.
const RATE: &str = "100kpps";

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let daemon = Daemon::start()?;
    daemon.apply(&json!({
        "superfluid": 1,
        "ports": {
            "source": {"type": "generator", "flows": 1000, "rate": RATE},
            "sink": {"type": "sink"},
        },
        "functions": {"f": {"image": "forwarder"}},
        "chains": {"one": ["source", "f", "sink"]},
    }))?;
    let document = format!(
        "superfluid: 1\n\
         ports:\n  source: {{type: generator, flows: 1000, rate: {RATE}}}\n  sink: {{type: sink}}\n\
         functions:\n  f: {{image: forwarder}}\n\
         chains:\n  one: [source, f, sink]\n"
    );
    let (host, _) = host(&document)?;
    let (mut ends, mut workers) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        progress(run as f64 / RUNS as f64, "functions that stand still");
        let (mut end, mut worker) = (vec![], vec![]);
        for _ in 0..PAUSES {
            let paused = || daemon.client.pause("f", false).map_err(BenchError::setup);
            end.push(timed(paused)?);
            daemon.client.resume("f", false).map_err(BenchError::setup)?;
        }
        for _ in 0..PAUSES {
            worker.push(inside(&host)?);
        }
        ends.push(median(&end));
        workers.push(median(&worker));
    }
    host.stop().map_err(BenchError::setup)?.balance().map_err(BenchError::setup)?;
    let status = daemon.status("f")?;
    let lost: u64 = status.drops.values().sum();
    if status.packets < 1000 {
        return Err(BenchError::Invalid(format!("{} packets passed", status.packets)));
    }
    Ok(vec![
        Measurement::new("worker-us", "us", &workers),
        Measurement::new("end-to-end-us", "us", &ends),
        Measurement::new("lost", "packets", &[lost as f64]),
    ])
}

/// From when the worker has been reached until the function stands still, in microseconds. It goes on then.
fn inside(host: &Host) -> Result<f64, BenchError> {
    let id = host.function("f").ok_or_else(|| BenchError::Setup("there is no `f`".to_owned()))?;
    let began = host.fleet().change(|change| {
        // A worker that is asked for something is in hand.
        let _ = change.account_of(id);
        let began = Instant::now();
        change.set_paused(id, true).map(|()| began)
    });
    let began = began.map_err(BenchError::setup)?.map_err(BenchError::setup)?;
    // The worker goes on without it by now.
    let took = began.elapsed();
    host.fleet().resume(id).map_err(BenchError::setup)?;
    Ok(took.as_nanos() as f64 / 1e3)
}

/// A host in this process that runs what an operator's file says.
pub(crate) fn host(document: &str) -> Result<(Host, Catalog), BenchError> {
    let catalog = Catalog::new(Path::new("."));
    let read = config::check("bench", document, &catalog).map_err(|faults| {
        BenchError::Setup(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })?;
    let host = Host::new(&read.wiring.workers, false, |_| {}).map_err(BenchError::setup)?;
    let plan = Plan::between(&Wiring::default(), &read.wiring);
    let prepared = host.prepare(plan, HashMap::new(), &catalog).map_err(BenchError::setup)?;
    host.carry_out(prepared).map_err(BenchError::setup)?;
    host.start().map_err(BenchError::setup)?;
    Ok((host, catalog))
}
