//! How long after its time is up a function that loops is stopped.

use crate::guests::{module, pool, program};
use crate::statistics::percentile;
use crate::{BenchError, Measurement, RUNS};
use guest::{Guest, GuestFault};
use guest_wasm::{InstanceSettings, Sandbox, WasmGuest, watchdog};
use std::time::{Duration, Instant};
use telemetry::clock::Nanos;

/// Functions stopped in one run.
const STOPS: usize = 200;

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let image = module("spin")?;
    let (program, pool) = (program(&sandbox, &image)?, pool(64, None)?);
    let limit = Nanos::from_millis(1);
    let (mut medians, mut tails) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let mut late = Vec::new();
        for stop in 0..STOPS {
            progress((run * STOPS + stop) as f64 / (RUNS * STOPS) as f64, "functions that loop");
            let settings = InstanceSettings { max_call: limit, ..InstanceSettings::default() };
            let mut guest = WasmGuest::new(&program, &pool, settings).map_err(BenchError::setup)?;
            let now = watchdog::clock().moment();
            let began = Instant::now();
            let stopped = guest.process(&mut [], now);
            let took = began.elapsed();
            if stopped != Err(GuestFault::TimedOut { limit }) {
                return Err(BenchError::Invalid(format!("a function that loops ended with {stopped:?}")));
            }
            late.push(took.saturating_sub(Duration::from(limit)).as_nanos() as f64 / 1e3);
        }
        medians.push(percentile(&late, 0.5));
        tails.push(percentile(&late, 0.99));
    }
    Ok(vec![Measurement::new("p50-us", "us", &medians), Measurement::new("p99-us", "us", &tails)])
}
