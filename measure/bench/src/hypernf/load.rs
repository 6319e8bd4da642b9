//! No work, no processor time: a thousand idle functions, and partial load (HyperNF, section 2).

use super::feed::Frames;
use super::rig::{Kit, Nf, Plan, Rig, Source, generator};
use super::{Found, Progress, verdicts};
use crate::functions::ten_rules;
use crate::guests::stock;
use crate::{BenchError, Measurement, RUNS};
use plots::{Axis, Experiment, Figure, Mark, Model, Place, Reading, Role, Series, paper};
use std::time::{Duration, Instant};

/// Functions that have nothing to do.
const IDLE: usize = 1000;
/// Loads in percent of saturating.
const LOADS: [u32; 7] = [5, 10, 25, 50, 75, 90, 100];

/// Processor time that the threads of function workers have had so far.
pub(super) fn worker_time() -> Result<Duration, BenchError> {
    let mut total = 0u64;
    for entry in std::fs::read_dir("/proc/self/task").map_err(BenchError::setup)? {
        let path = entry.map_err(BenchError::setup)?.path();
        // A thread may end while we look.
        let Ok(name) = std::fs::read_to_string(path.join("comm")) else { continue };
        if !name.starts_with("function-") {
            continue;
        }
        let stat = std::fs::read_to_string(path.join("schedstat")).map_err(BenchError::setup)?;
        let had = stat.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        total += had.ok_or_else(|| BenchError::Setup("schedstat cannot be read".into()))?;
    }
    Ok(Duration::from_nanos(total))
}

/// Part of a processor that the workers use over a time, in percent, and packets a second that come out.
fn utilisation(rig: &Rig, time: Duration) -> Result<(f64, f64), BenchError> {
    let (before, count, began) = (worker_time()?, rig.counts().iter().sum::<u64>(), Instant::now());
    std::thread::sleep(time);
    let (after, took) = (worker_time()?, began.elapsed().as_secs_f64());
    let used = (after - before).as_secs_f64() / took * 100.0;
    Ok((used, (rig.counts().iter().sum::<u64>() - count) as f64 / took))
}

/// The bench `idle`.
pub(crate) fn idle(progress: Progress<'_>) -> Result<Found, BenchError> {
    let kit = Kit::new(8192)?;
    let ten = kit.prepare(stock("firewall")?, &ten_rules(10))?;
    let frames = Frames::Computed { size: 64 };
    progress(0.0, "a thousand functions");
    let plan = Plan::one_core(Model::Hyper, vec![Nf::new(&ten, frames); IDLE]);
    let rig = plan.build(&kit)?;
    rig.start()?;
    // They work once, and then have nothing to do.
    rig.measure(Duration::from_millis(1000), Duration::from_millis(1000))?;
    let all_worked = rig.counts().iter().all(|count| *count > 0);
    if !all_worked {
        return Err(BenchError::Invalid("not all of the functions work".into()));
    }
    std::thread::sleep(Duration::from_millis(500));
    let mut used = Vec::new();
    for run in 0..RUNS {
        progress(0.2 + 0.8 * run as f64 / RUNS as f64, "idle");
        used.push(utilisation(&rig, Duration::from_millis(1000))?.0);
    }
    rig.end()?;
    let results = vec![Measurement::new("thousand-percent", "%", &used)];
    let experiment = Experiment::new(
        "idle",
        "A thousand idle functions",
        "What do functions cost that have nothing to do?",
    )
    .setup("1,000 firewalls on one worker, each with its two switches and two ports, after all of them have worked.")
    .setup("Processor time of the worker's thread, as the kernel counts it.");
    Ok(Found::new(verdicts("idle", experiment, &results), results))
}

/// The bench `load`.
pub(crate) fn load(progress: Progress<'_>) -> Result<Found, BenchError> {
    let kit = Kit::new(8192)?;
    let ten = kit.prepare(stock("firewall")?, &ten_rules(10))?;
    let at = |rate: Option<u64>| {
        let config = port::generator::Config { rate, ..generator(64, 7) };
        let nf = Nf { source: Source::Generated(config), ..Nf::new(&ten, Frames::Computed { size: 64 }) };
        Plan::one_core(Model::Hyper, vec![nf]).build(&kit)
    };
    let time = Duration::from_millis(500);
    let mut ratios = vec![Vec::new(); LOADS.len()];
    let mut used = vec![Vec::new(); LOADS.len()];
    for run in 0..RUNS {
        for (n, percent) in LOADS.into_iter().enumerate() {
            progress((run as f64 + n as f64 / LOADS.len() as f64) / RUNS as f64, "partial load");
            // What the machine was away for is not made up for by the generator: such a run says nothing.
            let mut tries = 0;
            let cpu = loop {
                // Each load is a part of what saturates just before.
                let rig = at(None)?;
                rig.start()?;
                std::thread::sleep(Duration::from_millis(100));
                let (_, saturating) = utilisation(&rig, time)?;
                rig.end()?;
                let rate = saturating * f64::from(percent) / 100.0;
                let rig = at(Some(rate as u64))?;
                rig.start()?;
                std::thread::sleep(Duration::from_millis(100));
                let (cpu, delivered) = utilisation(&rig, time)?;
                let account = rig.end()?;
                if percent > 75 || delivered >= rate * 0.98 {
                    break cpu;
                }
                tries += 1;
                if tries == 5 {
                    return Err(BenchError::Invalid(format!(
                        "{delivered:.0} packets a second came out of {rate:.0}; {} were dropped",
                        account.ledger.dropped.total()
                    )));
                }
            };
            used[n].push(cpu);
            ratios[n].push(cpu / f64::from(percent));
        }
    }
    let ratio = |percent: u32| {
        LOADS.iter().position(|load| *load == percent).map(|n| ratios[n].clone()).unwrap_or_default()
    };
    let results = vec![
        Measurement::new("10-percent", "x", &ratio(10)),
        Measurement::new("50-percent", "x", &ratio(50)),
    ];
    let mut curve = Series::new("worker's thread", Model::Hyper.role());
    let mut line = Series::new("proportional", Role::Offered);
    for (n, percent) in LOADS.into_iter().enumerate() {
        curve.push(f64::from(percent), Reading::median(&used[n]));
        line.push(f64::from(percent), f64::from(percent));
    }
    let experiment = Experiment::new(
        "load",
        "Processor time follows load",
        "How much processor time does a firewall use that gets a part of the packets that it could forward?",
    )
    .setup("A firewall of ten rules, 64 B packets from a generator at a rate; 100% is what it forwards when the generator has no rate.")
    .setup("Processor time of the worker's thread, as the kernel counts it, the generator's work and waking included.")
    .paper(paper::utilisation())
    .figure(
        Figure::lines(
            "Processor time at partial load",
            Axis::linear("load, of saturating", "%"),
            Axis::linear("processor time", "%"),
            [curve, line],
        )
        .mark(Mark::promise("promised at 10%", Place::Point(10.0, 15.0)))
        .mark(Mark::promise("promised at 50%", Place::Point(50.0, 65.0))),
    );
    Ok(Found::new(verdicts("load", experiment, &results), results))
}
