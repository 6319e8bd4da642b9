//! Whether the account and the kernel agree on what the workers did: cycles charged to functions and to the
//! worker itself, over the processor time of its thread.

use super::Progress;
use super::feed::Frames;
use super::load::worker_time;
use super::rig::{Kit, Nf, Plan, Rig, bridge, generator};
use crate::functions::ten_rules;
use crate::guests::stock;
use crate::{BenchError, Measurement, RUNS};
use plots::Model;
use std::time::Duration;
use telemetry::clock::Cycles;

const WARM_UP: Duration = Duration::from_millis(200);
const WINDOW: Duration = Duration::from_millis(1000);
/// Packets a second of each function at partial load.
const PARTIAL: u64 = 100_000;

/// How often the two are read until they are of one moment.
const TRIES: usize = 200;
/// Most processor time that may pass while they are read.
const APART: Duration = Duration::from_millis(2);

/// Nanoseconds that are accounted for as worked, and those that the kernel counts, at one moment.
fn both(kit: &Kit, rig: &Rig) -> Result<(u64, u64), BenchError> {
    for _ in 0..TRIES {
        let before = worker_time()?;
        let account = rig.account()?;
        let after = worker_time()?;
        // A worker that has no processor is not met, and what is read then is of some time before.
        if !account.at_one_moment || after - before > APART {
            continue;
        }
        let functions: u64 = account.instances.iter().map(|instance| instance.cycles.0).sum();
        let own: u64 = account.workers.iter().map(|time| time.overhead.0).sum();
        let kernel = (before + after) / 2;
        return Ok((kit.clock.span(Cycles(functions + own)).0, kernel.as_nanos() as u64));
    }
    Err(BenchError::Invalid("the account was never whole: the machine is too busy".into()))
}

/// By how much they differ, in percent of what the kernel says, window by window.
fn errors(kit: &Kit, rig: &Rig, tell: &mut dyn FnMut(usize)) -> Result<Vec<f64>, BenchError> {
    std::thread::sleep(WARM_UP);
    let mut errors = Vec::new();
    for run in 0..RUNS {
        tell(run);
        let before = both(kit, rig)?;
        std::thread::sleep(WINDOW);
        let after = both(kit, rig)?;
        let (ours, theirs) = (after.0 - before.0, after.1 - before.1);
        errors.push((ours as f64 / theirs as f64 - 1.0).abs() * 100.0);
    }
    Ok(errors)
}

/// The bench `account`.
pub(crate) fn run(progress: Progress<'_>) -> Result<Vec<Measurement>, BenchError> {
    let kit = Kit::new(8192)?;
    let firewall = stock("firewall")?;
    let functions = [
        bridge(&kit)?,
        kit.prepare(firewall.clone(), &ten_rules(10))?,
        kit.prepare(firewall, &ten_rules(50))?,
    ];
    let mut measure = |begin: f64, what: &str, of: &dyn Fn(&super::rig::Prepared) -> Nf| {
        let rig = Plan::one_core(Model::Hyper, functions.iter().map(of).collect()).build(&kit)?;
        rig.start()?;
        rig.open(true)?;
        let errors = errors(&kit, &rig, &mut |run| progress(begin + 0.5 * run as f64 / RUNS as f64, what))?;
        rig.end()?;
        Ok::<_, BenchError>(errors)
    };
    let saturated =
        measure(0.0, "saturated functions", &|what| Nf::new(what, Frames::Computed { size: 64 }))?;
    let partial = measure(0.5, "functions at partial load", &|what| {
        let config = port::generator::Config { rate: Some(PARTIAL), ..generator(64, 3) };
        Nf { source: super::rig::Source::Generated(config), ..Nf::new(what, Frames::Computed { size: 64 }) }
    })?;
    Ok(vec![
        Measurement::new("outside-error-percent", "%", &saturated),
        Measurement::new("partial-load-error-percent", "%", &partial),
    ])
}
