//! Chains of up to fifty functions: throughput and delay (HyperNF, section 5.2 and figure 13).

use super::feed::Frames;
use super::rig::{Kit, Nf, Plan, Shape, Source};
use super::timing::{Pace, Timing};
use super::{Found, Progress, verdicts};
use crate::functions::ten_rules;
use crate::guests::stock;
use crate::statistics::{median, percentile};
use crate::{BenchError, Measurement, RUNS};
use plots::{Axis, Experiment, Figure, Model, Reading, Series, paper};
use std::time::Duration;

const LENGTHS: [usize; 8] = [1, 2, 5, 10, 20, 30, 40, 50];
const ROUNDS: usize = 5;
/// How long a chain under load is looked at.
const LOADED: Duration = Duration::from_millis(300);
/// Bytes of a packet.
const SIZE: usize = 256;

/// The bench `chain-length`.
pub(crate) fn length(progress: Progress<'_>) -> Result<Found, BenchError> {
    let kit = Kit::new(65_536)?;
    let ten = kit.prepare(stock("firewall")?, &ten_rules(10))?;
    let nf = Nf::new(&ten, Frames::Computed { size: SIZE });
    let mut rates = vec![vec![Vec::new(); LENGTHS.len()]; Model::ALL.len()];
    for round in 0..ROUNDS {
        for (n, length) in LENGTHS.into_iter().enumerate() {
            progress((round as f64 + n as f64 / 8.0) / ROUNDS as f64, "chains, four models");
            for (m, model) in Model::ALL.into_iter().enumerate() {
                let plan = Plan::cores(model, vec![nf.clone(); length], vec![0, 1], 1);
                let rig = Plan { shape: Shape::Chain, ..plan }.build(&kit)?;
                rig.start()?;
                let got = rig.measure(Duration::from_millis(50), Duration::from_millis(150))?;
                rig.end()?;
                rates[m][n].push(got.iter().sum::<f64>() / 1e6);
            }
        }
    }
    let medians: Vec<Vec<f64>> =
        rates.iter().map(|rates| rates.iter().map(|runs| median(runs)).collect()).collect();
    // What is left at fifty of what there was at one.
    let left: Vec<f64> = medians.iter().map(|rates| rates[LENGTHS.len() - 1] / rates[0]).collect();
    let least_decline = left[1..].iter().all(|others| left[0] >= *others);
    let highest = (0..LENGTHS.len()).all(|n| medians[1..].iter().all(|others| medians[0][n] >= others[n]));
    let truth = |is| if is { 1.0 } else { 0.0 };
    let results = vec![
        Measurement::new("least-decline", "true", &[truth(least_decline)]),
        Measurement::new("always-highest", "true", &[truth(highest)]),
    ];
    let curves = Model::ALL.into_iter().zip(&rates).map(|(model, rates)| {
        let mut curve = Series::new(model.name(), model.role());
        for (length, rates) in LENGTHS.into_iter().zip(rates) {
            curve.push(length as f64, Reading::median(rates));
        }
        curve
    });
    let experiment = Experiment::new(
        "fig-13a",
        "Fig. 13a: throughput of chains",
        "How does throughput decline as chains get longer?",
    )
    .setup("Firewalls of ten rules, 256 B, a switch between any two; two processors, one of which split sets aside for I/O.")
    .paper(paper::fig_13a())
    .figure(Figure::lines(
        "Throughput by length",
        Axis::linear("functions in the chain", "").ticks(LENGTHS.map(|length| length as f64)),
        Axis::log("throughput", "Mp/s"),
        curves,
    ));
    Ok(Found::new(verdicts("chain-length", experiment, &results), results))
}

/// Times through a chain, sorted, in microseconds.
fn times(kit: &Kit, plan: &Plan, window: Duration) -> Result<Vec<f64>, BenchError> {
    let Some(timing) = &plan.timing else { return Ok(Vec::new()) };
    let rig = plan.build(kit)?;
    rig.start()?;
    std::thread::sleep(Duration::from_millis(100));
    timing.take();
    std::thread::sleep(window);
    let times: Vec<f64> = timing.take().into_iter().map(|nanos| nanos as f64 / 1e3).collect();
    rig.end()?;
    if times.len() < 1000 {
        return Err(BenchError::Invalid(format!("only {} packets came through", times.len())));
    }
    Ok(times)
}

/// The bench `chain-latency`.
pub(crate) fn latency(progress: Progress<'_>) -> Result<Found, BenchError> {
    const LENGTHS: [usize; 5] = [1, 10, 20, 30, 50];
    let kit = Kit::new(16_384)?;
    let ten = kit.prepare(stock("firewall")?, &ten_rules(10))?;
    let frames = Frames::Computed { size: SIZE };
    let nf = Nf::new(&ten, frames.clone());
    let chain = |source: Source, length: usize, timing| {
        let functions = vec![Nf { source, ..nf.clone() }; length];
        Plan { shape: Shape::WiredChain, timing, ..Plan::one_core(Model::Hyper, functions) }
    };
    let (mut p50, mut p99, mut loaded) = (vec![], vec![], vec![]);
    let mut by_length = vec![(vec![], vec![]); LENGTHS.len()];
    for run in 0..RUNS {
        for (n, length) in LENGTHS.into_iter().enumerate() {
            progress((run as f64 + n as f64 / 6.0) / RUNS as f64, "one packet at a time");
            let timing = Timing::new(kit.clock);
            let plan = chain(Source::Pinged(timing.clone()), length, Some(timing));
            let times = times(&kit, &plan, Duration::from_millis(100))?;
            by_length[n].0.push(percentile(&times, 0.5));
            by_length[n].1.push(percentile(&times, 0.99));
            if length == 50 {
                p50.push(percentile(&times, 0.5));
                p99.push(percentile(&times, 0.99));
            }
        }
        progress((run as f64 + 5.0 / 6.0) / RUNS as f64, "under load");
        // At a rate that nothing reaches, and at 80% of what that gave.
        let at = |rate: f64| {
            let pace = Pace { frames: frames.clone(), rate, clock: kit.clock };
            times(&kit, &chain(Source::Paced(pace), 50, Some(Timing::new(kit.clock))), LOADED)
        };
        let saturating = at(1e9)?.len() as f64 / LOADED.as_secs_f64();
        loaded.push(percentile(&at(saturating * 0.8)?, 0.99));
    }
    let results = vec![
        Measurement::new("p50-us", "us", &p50),
        Measurement::new("p99-us", "us", &p99),
        Measurement::new("loaded-p99-us", "us", &loaded),
    ];
    let (mut middle, mut tail) = (
        Series::new("median", Model::Hyper.role()),
        Series::new("99th percentile", plots::Role::Second(Model::Hyper)),
    );
    for (length, (p50, p99)) in LENGTHS.into_iter().zip(&by_length) {
        middle.push(length as f64, Reading::median(p50));
        tail.push(length as f64, Reading::median(p99));
    }
    let experiment = Experiment::new(
        "fig-13b",
        "Fig. 13b: delay of chains",
        "How long is a packet on its way through fifty firewalls on one processor?",
    )
    .setup("One packet at a time, 256 B: the next enters when the one before has come out. Functions are wired to each other, as a chain's are.")
    .setup("Under load: at 80% of what the chain forwards at most, from when each packet was due.")
    .paper(paper::fig_13b())
    .figure(Figure::lines(
        "Delay by length, one packet at a time",
        Axis::linear("functions in the chain", "").ticks(LENGTHS.map(|length| length as f64)),
        Axis::log("delay", "us"),
        [middle, tail],
    ));
    Ok(Found::new(verdicts("chain-latency", experiment, &results), results))
}
