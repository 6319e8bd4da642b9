//! Two workers beside one, and what a move costs.

use super::feed::Frames;
use super::rig::{Kit, Nf, Plan, Source, bridge, generator};
use super::{Found, Progress, verdicts};
use crate::functions::ten_rules;
use crate::guests::stock;
use crate::{BenchError, Measurement, RUNS};
use engine::End;
use plots::{Axis, Experiment, Figure, Model, Reading, Series};
use std::time::Duration;

/// Moves of an instance there and back.
const MOVES: usize = 200;
/// Numbers of workers beyond two, each measured where there are so many processors.
const MORE_WORKERS: [usize; 4] = [4, 8, 12, 16];

/// The processors that this program may use.
fn processors() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None);
    let is_set = |processor: &usize| allowed.as_ref().is_ok_and(|set| set.is_set(*processor));
    (0..rustix::thread::CpuSet::MAX_CPU).filter(is_set).collect()
}

pub(crate) fn run(progress: Progress<'_>) -> Result<Found, BenchError> {
    let kit = Kit::new(16_384)?;
    let ten = kit.prepare(stock("firewall")?, &ten_rules(10))?;
    let nf = Nf::new(&ten, Frames::Computed { size: 64 });
    let functions = vec![nf; 2];
    let (warm_up, window) = (Duration::from_millis(50), Duration::from_millis(250));
    let mut ratios = Vec::new();
    let mut rates = vec![Vec::new(); 2];
    for run in 0..=2 * RUNS {
        progress(0.7 * run as f64 / (2 * RUNS + 1) as f64, "one worker, two workers");
        let mut both = [0.0; 2];
        for (n, cores) in [vec![1], vec![0, 1]].into_iter().enumerate() {
            let rig = Plan::cores(Model::Hyper, functions.clone(), cores, 0).build(&kit)?;
            rig.start()?;
            both[n] = rig.measure(warm_up, window)?.iter().sum();
            rig.end()?;
        }
        // The first run warms everything up.
        if run > 0 {
            ratios.push(both[1] / both[0]);
            rates[0].push(both[0] / 1e6);
            rates[1].push(both[1] / 1e6);
        }
    }

    // As many firewalls as workers, over one on one, in turn.
    let (processors, mut more) = (processors(), Vec::new());
    for workers in MORE_WORKERS.into_iter().filter(|workers| *workers <= processors.len()) {
        let wide = Kit::new(16_384 * workers as u32 / 2)?;
        let ten = wide.prepare(stock("firewall")?, &ten_rules(10))?;
        let nf = Nf::new(&ten, Frames::Computed { size: 64 });
        let mut ratios = Vec::new();
        for run in 0..=RUNS {
            progress(0.7, &format!("{workers} workers"));
            let mut both = [0.0; 2];
            for (n, count) in [1, workers].into_iter().enumerate() {
                let cores = processors[..count].to_vec();
                let rig = Plan::cores(Model::Hyper, vec![nf.clone(); count], cores, 0).build(&wide)?;
                rig.start()?;
                both[n] = rig.measure(warm_up, window)?.iter().sum();
                rig.end()?;
            }
            if run > 0 {
                ratios.push(both[1] / both[0]);
                rates.resize(rates.len().max(more.len() + 3), Vec::new());
                rates[more.len() + 2].push(both[1] / 1e6);
            }
        }
        more.push((workers, ratios));
    }

    // The function sends everything back: the generator sees whether it comes in the order in which it went.
    progress(0.7, "moves");
    let mirror = kit.prepare(stock("forwarder")?, "{mode: swap, reflect: true}")?;
    let config =
        port::generator::Config { rate: Some(1_000_000), check_order: true, flows: 1000, ..generator(64, 3) };
    let moved =
        Nf { source: Source::Generated(config), ..Nf::new(&bridge(&kit)?, Frames::Computed { size: 64 }) };
    let moved = Nf { what: mirror, ..moved };
    let rig = Plan::cores(Model::Hyper, vec![moved], vec![0, 1], 0).build(&kit)?;
    rig.start()?;
    std::thread::sleep(Duration::from_millis(50));
    let mut still = Vec::new();
    for n in 0..MOVES {
        progress(0.7 + 0.3 * n as f64 / MOVES as f64, "moves");
        let to = (n + 1) % 2;
        // Now the function alone moves, away from its port, and now the port follows.
        let instance = End::Instance(rig.instances[0], 0);
        let outcome = rig.fleet.move_to(&[instance], to).map_err(BenchError::setup)?;
        still.push(outcome.stood_still.0 as f64 / 1e3);
        std::thread::sleep(Duration::from_millis(2));
        if n % 2 == 0 {
            rig.fleet.move_to(&[End::Port(rig.sources[0])], to).map_err(BenchError::setup)?;
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let account = rig.end()?;
    let detail = |name: &str| {
        let details = &account.ports[0].details;
        details.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
    };
    let (returned, disordered) = (account.ports[0].counters.ledger.delivered, detail("out_of_order"));
    let lost = account.ledger.dropped.nonzero().map(|(reason, count)| format!("{count} {reason}"));
    let lost: Vec<_> = lost.collect();
    if returned < 100_000 || disordered > 0 || account.ledger.dropped.total() > 0 {
        return Err(BenchError::Invalid(format!(
            "{returned} packets came back, {disordered} out of order, lost: {}",
            if lost.is_empty() { "none".to_owned() } else { lost.join(", ") }
        )));
    }
    let mut results =
        vec![Measurement::new("two-workers", "x", &ratios), Measurement::new("move-us", "us", &still)];
    for (workers, ratios) in &more {
        results.push(Measurement::new(&format!("workers-{workers}"), "x", ratios));
    }
    let mut curve = Series::new("firewalls of ten rules", Model::Hyper.role());
    let counts: Vec<f64> = [1, 2].into_iter().chain(more.iter().map(|(n, _)| *n)).map(|n| n as f64).collect();
    for (workers, rates) in counts.iter().zip(&rates) {
        curve.push(*workers, Reading::median(rates));
    }
    let experiment = Experiment::new(
        "scale",
        "Two workers, and moves between them",
        "Do two workers forward twice as much as one? For how long are all stopped when a function moves, and does a flow stay in order?",
    )
    .setup("Two firewalls of ten rules, 64 B, sources that always have packets, in one pool: on one worker, and on two.")
    .setup("A function that sends everything back moves between two workers 200 times at a million packets a second in 1,000 numbered flows; \
            none was lost or overtaken.")
    .figure(Figure::lines(
        "Throughput of firewalls",
        Axis::linear("workers", "").ticks(counts),
        Axis::linear("throughput", "Mp/s"),
        [curve],
    ));
    Ok(Found::new(verdicts("scale", experiment, &results), results))
}
