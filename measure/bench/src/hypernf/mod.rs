//! HyperNF's experiments, and what goes beyond them: shares, models, load.
//!
//! Each module has one bench or two; `superfluid bench hypernf` runs them all and makes a page of what they
//! found. How the models are set up is in [`rig`]; `docs/hypernf.md` is for readers of the paper.

pub(crate) mod account;
pub(crate) mod chains;
pub(crate) mod consolidation;
mod devices;
pub(crate) mod dynamic;
pub(crate) mod load;
pub(crate) mod models;
pub(crate) mod rig;
pub(crate) mod scale;
pub(crate) mod shares;
pub(crate) mod shares_cost;
pub(crate) mod timing;

use crate::{Bound, Measurement, feed, promises};
use plots::{Experiment, Reading, Verdict};

/// Told the part that is done and what is being measured.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(f64, &str);

/// What a bench found: its figures, and the same with plots.
pub(crate) struct Found {
    pub(crate) results: Vec<Measurement>,
    pub(crate) experiments: Vec<Experiment>,
}

impl Found {
    pub(crate) fn new(experiment: Experiment, results: Vec<Measurement>) -> Found {
        Found { results, experiments: vec![experiment] }
    }
}

/// Adds a bench's figures to its experiment.
pub(crate) fn verdicts(bench: &str, experiment: Experiment, results: &[Measurement]) -> Experiment {
    results.iter().fold(experiment, |experiment, result| {
        let reading = match result.missing {
            Some(why) => Reading::missing(why),
            None => Reading::spread(result.value, result.low, result.high),
        };
        let verdict = Verdict::new(format!("{bench}/{}", result.name), reading, result.unit);
        experiment.verdict(match promises::of(bench, &result.name).map(|promise| promise.bound) {
            Some(Bound::AtMost(most) | Bound::Within(_, most)) => verdict.at_most(most),
            Some(Bound::AtLeast(least)) => verdict.at_least(least),
            None => verdict,
        })
    })
}
