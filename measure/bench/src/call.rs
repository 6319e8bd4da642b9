//! What a call costs, with nothing in it.

use crate::guests::{instance, module, pool, preemptible, program};
use crate::{BenchError, Measurement, RUNS};
use engine::WorkerSettings;
use guest::{Guest, Progress};
use guest_wasm::{Sandbox, watchdog};
use std::hint::black_box;
use std::time::Instant;

/// Calls in one run.
const CALLS: u32 = 1_000_000;
/// Calls that are told the same moment as their beginning: they take less than `max_call` together.
const AT_ONCE: u32 = 100;
/// Calls out of the guest in one into it, as the module has them.
const OUT_AT_ONCE: u32 = 10_000;

/// What the empty function is natively.
extern "C" fn nothing(count: u32, now: u64) {
    black_box((count, now));
}

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let image = module("call")?;
    let (program, pool) = (program(&sandbox, &image)?, pool(64, None)?);
    let mut guest = instance(&program, &image, &pool, "")?;
    let mut fibre = preemptible(&program, &image, &pool, WorkerSettings::default().slice)?;
    let (mut into, mut onto, mut out, mut bare) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in 0..=RUNS {
        progress(run as f64 / (RUNS + 1) as f64, "empty calls");
        let began = Instant::now();
        for _ in 0..CALLS / AT_ONCE {
            let now = watchdog::clock().moment();
            for _ in 0..AT_ONCE {
                guest.process(&mut [], now).map_err(BenchError::setup)?;
            }
        }
        let calls_in = began.elapsed().as_nanos() as f64 / f64::from(CALLS);

        let native: extern "C" fn(u32, u64) = black_box(nothing);
        let began = Instant::now();
        for n in 0..CALLS {
            black_box(native)(black_box(0), u64::from(n));
        }
        let calls_bare = began.elapsed().as_nanos() as f64 / f64::from(CALLS);

        let mut now = watchdog::clock().moment();
        let began = Instant::now();
        for n in 0..CALLS {
            if n % AT_ONCE == 0 {
                now = watchdog::clock().moment();
            }
            let mut progress = fibre.process(&mut [], now).map_err(BenchError::setup)?;
            // The kernel took the processor away for longer than a slice.
            while progress == Progress::Suspended {
                progress = fibre.process(&mut [], watchdog::clock().moment()).map_err(BenchError::setup)?;
            }
        }
        let calls_onto = began.elapsed().as_nanos() as f64 / f64::from(CALLS);

        let before = guest.kept().counters.first().copied().unwrap_or(0);
        let began = Instant::now();
        for _ in 0..CALLS / OUT_AT_ONCE {
            guest.timer(watchdog::clock().moment()).map_err(BenchError::setup)?;
        }
        let calls_out = began.elapsed().as_nanos() as f64 / f64::from(CALLS);
        let made = guest.kept().counters.first().copied().unwrap_or(0) - before;
        if made != u64::from(CALLS) {
            return Err(BenchError::Invalid(format!("{made} host calls were made, not {CALLS}")));
        }
        if run > 0 {
            into.push(calls_in);
            onto.push(calls_onto);
            out.push(calls_out);
            bare.push(calls_in / calls_bare);
        }
    }
    Ok(vec![
        Measurement::new("host-to-guest-ns", "ns", &into),
        Measurement::new("host-over-bare-ratio", "x", &bare),
        Measurement::new("preemptible-ns", "ns", &onto),
        Measurement::new("guest-to-host-ns", "ns", &out),
    ])
}
