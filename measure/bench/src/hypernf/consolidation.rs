//! Many functions on few processors (HyperNF, section 4.2 and figure 7), and how many a processor carries.

use super::feed::Frames;
use super::rig::{Kit, Nf, Plan};
use super::{Found, Progress, verdicts};
use crate::functions::ten_rules;
use crate::guests::stock;
use crate::{BenchError, Measurement};
use plots::{Axis, Experiment, Figure, Model, Reading, Series, paper};
use std::time::Duration;

/// Functions on one processor, beside one.
const PER_CORE: [usize; 3] = [6, 100, 1000];
/// Functions on two processors, all models.
const TOGETHER: [usize; 6] = [2, 4, 8, 12, 24, 36];
const ROUNDS: usize = 5;

pub(crate) fn run(progress: Progress<'_>) -> Result<Found, BenchError> {
    let kit = Kit::new(65_536)?;
    let ten = kit.prepare(stock("firewall")?, &ten_rules(10))?;
    let nf = Nf::new(&ten, Frames::Computed { size: 256 });
    let all = |model: Model, count: usize, cores: Vec<usize>| -> Result<f64, BenchError> {
        let rig = Plan::cores(model, vec![nf.clone(); count], cores, 1).build(&kit)?;
        rig.start()?;
        // Each of a thousand has its turn many times.
        let (warm_up, window) = if count > 50 { (300, 600) } else { (50, 150) };
        let rates = rig.measure(Duration::from_millis(warm_up), Duration::from_millis(window))?;
        rig.end()?;
        if rates.contains(&0.0) {
            return Err(BenchError::Invalid(format!("one of {count} functions forwards nothing")));
        }
        Ok(rates.iter().sum())
    };

    let mut percent = vec![Vec::new(); PER_CORE.len()];
    let mut density = Series::new("one processor", Model::Hyper.role());
    let mut alone = Vec::new();
    for round in 0..ROUNDS {
        progress(0.5 * round as f64 / ROUNDS as f64, "one processor");
        let one = all(Model::Hyper, 1, vec![1])?;
        alone.push(one / 1e6);
        for (percent, count) in percent.iter_mut().zip(PER_CORE) {
            percent.push(all(Model::Hyper, count, vec![1])? / one * 100.0);
        }
    }
    density.push(1.0, 100.0);
    let mut results = Vec::new();
    for (count, percent) in PER_CORE.into_iter().zip(&percent) {
        density.push(count as f64, Reading::median(percent));
        let name = format!("{count}-per-core");
        results.push(Measurement::new(&name, "%", percent));
    }

    let mut rates = vec![vec![Vec::new(); TOGETHER.len()]; Model::ALL.len()];
    for round in 0..ROUNDS {
        progress(0.5 + 0.5 * round as f64 / ROUNDS as f64, "two processors, four models");
        for (n, count) in TOGETHER.into_iter().enumerate() {
            for (m, model) in Model::ALL.into_iter().enumerate() {
                rates[m][n].push(all(model, count, vec![0, 1])? / 1e6);
            }
        }
    }
    let curves = Model::ALL.into_iter().zip(&rates).map(|(model, rates)| {
        let mut curve = Series::new(model.name(), model.role());
        for (count, rates) in TOGETHER.into_iter().zip(rates) {
            curve.push(count as f64, Reading::median(rates));
        }
        curve
    });
    let experiment = Experiment::new(
        "fig-7",
        "Fig. 7: many functions on few processors",
        "How much of what a processor forwards is left when many functions share it?",
    )
    .setup("Firewalls of ten rules, 256 B, each with two switches and a source that always has packets.")
    .setup("Four models: two processors, one of which split sets aside for I/O.")
    .paper(paper::fig_7())
    .figure(Figure::lines(
        "Functions on two processors, together",
        Axis::linear("functions", "").ticks(TOGETHER.map(|count| count as f64)),
        Axis::linear("throughput", "Mp/s"),
        curves,
    ))
    .figure(Figure::lines(
        "Functions on one processor: together, of what one alone forwards",
        Axis::log("functions", "").ticks([1.0, 6.0, 100.0, 1000.0]),
        Axis::linear("throughput", "%"),
        [density],
    ));
    Ok(Found::new(verdicts("consolidation", experiment, &results), results))
}
