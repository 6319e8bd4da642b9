//! Results, for people and for programs.

use crate::promises;
use crate::statistics::median;
use serde_json::{Value, json};

/// What was promised of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// It is this or less.
    AtMost(f64),
    /// It is this or more.
    AtLeast(f64),
    /// Not less than the first, which would be a fault of the measurement (a sandbox that beats the same code
    /// outside of it by more than noise was not compared with it), and the second or less.
    Within(f64, f64),
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Its name within the bench.
    pub name: String,
    /// The median of the runs.
    pub value: f64,
    /// Of what.
    pub unit: &'static str,
    /// The lowest run.
    pub low: f64,
    /// The highest run.
    pub high: f64,
    /// Number of runs.
    pub runs: usize,
    /// What was promised, if anything.
    pub bound: Option<Bound>,
    /// The same on a host that other machines use too, where only a quiet one of its own can keep the bound.
    pub on_shared_host: Option<f64>,
    /// Why there is no figure, if there is none: `sender-limited`, the sender alone is hardly faster than the
    /// sides that are compared; `not-measured`, a note says why.
    pub missing: Option<&'static str>,
}

impl Measurement {
    /// A figure from its runs. What is promised of it is known when the bench is
    /// [judged](crate::promises::judge).
    pub(crate) fn new(name: &str, unit: &'static str, runs: &[f64]) -> Measurement {
        Measurement {
            name: name.to_owned(),
            value: median(runs),
            unit,
            low: runs.iter().copied().fold(f64::INFINITY, f64::min),
            high: runs.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            runs: runs.len(),
            bound: None,
            on_shared_host: None,
            missing: None,
        }
    }

    /// A figure that could not be taken. What was promised of it does not hold.
    pub(crate) fn missing(name: &str, unit: &'static str, why: &'static str) -> Measurement {
        Measurement { missing: Some(why), low: f64::NAN, high: f64::NAN, ..Measurement::new(name, unit, &[]) }
    }

    /// Whether the promise is kept. A figure without one keeps it.
    pub fn holds(&self) -> bool {
        match self.bound {
            _ if self.missing.is_some() => false,
            None => true,
            Some(Bound::AtMost(most)) => self.value <= most,
            Some(Bound::AtLeast(least)) => self.value >= least,
            Some(Bound::Within(least, most)) => (least..=most).contains(&self.value),
        }
    }

    /// Whether it is what a shared host can keep; where there is no bound for such a one, whether the promise
    /// is kept.
    pub fn holds_on_shared_host(&self) -> bool {
        match (self.bound, self.on_shared_host) {
            _ if self.missing.is_some() => false,
            (Some(Bound::AtMost(_) | Bound::Within(..)), Some(most)) => self.value <= most,
            (Some(Bound::AtLeast(_)), Some(least)) => self.value >= least,
            _ => self.holds(),
        }
    }
}

/// The outcome of a bench.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Its name.
    pub bench: &'static str,
    /// Where it ran.
    pub machine: String,
    /// The figures.
    pub results: Vec<Measurement>,
    /// What was compared, as far as the names do not say it.
    pub notes: Vec<String>,
}

impl Report {
    /// A bench's figures, judged by what is promised of them.
    pub(crate) fn new(
        bench: &'static str,
        machine: String,
        results: Vec<Measurement>,
        notes: Vec<String>,
    ) -> Report {
        Report { bench, machine, results: promises::judge(bench, results), notes }
    }

    /// Whether every promise is kept.
    pub fn holds(&self) -> bool {
        self.results.iter().all(Measurement::holds)
    }

    /// One JSON object.
    pub fn to_json(&self) -> String {
        let results: Vec<Value> = self
            .results
            .iter()
            .map(|result| {
                let mut object = json!({
                    "name": result.name, "value": rounded(result.value), "unit": result.unit,
                    "low": rounded(result.low), "high": rounded(result.high), "runs": result.runs,
                    "holds": result.holds(),
                });
                match result.bound {
                    Some(Bound::AtMost(most)) => object["bound"] = json!({ "at_most": most }),
                    Some(Bound::AtLeast(least)) => object["bound"] = json!({ "at_least": least }),
                    Some(Bound::Within(least, most)) => {
                        object["bound"] = json!({ "at_least": least, "at_most": most });
                    }
                    None => {}
                }
                if let Some(bound) = result.on_shared_host {
                    object["on_shared_host"] =
                        json!({ "bound": bound, "holds": result.holds_on_shared_host() });
                }
                if let Some(why) = result.missing {
                    object["missing"] = json!(why);
                }
                object
            })
            .collect();
        let mut report = json!({ "bench": self.bench, "machine": self.machine, "results": results });
        if !self.notes.is_empty() {
            report["notes"] = json!(self.notes);
        }
        report.to_string()
    }

    /// A table to read.
    pub fn to_table(&self) -> String {
        let mut table = format!("{}\n\n", self.machine);
        for note in &self.notes {
            table += &format!("{}\n\n", note.replace('\n', "\n    "));
        }
        table += &format!(
            "{:<44} {:>10} {:>8} {:>10} {:>10} {:>5}  {:<17}\n",
            "result", "median", "unit", "low", "high", "runs", "promised"
        );
        for result in &self.results {
            let mut promised = match result.bound {
                Some(Bound::AtMost(most)) => format!("at most {most}"),
                Some(Bound::AtLeast(least)) => format!("at least {least}"),
                Some(Bound::Within(least, most)) => format!("{least} to {most}"),
                None => String::new(),
            };
            if let Some(shared) = result.on_shared_host {
                promised += &format!(" ({shared})");
            }
            let verdict = match (result.missing, result.bound, result.holds()) {
                (Some(why), ..) => why,
                (_, None, _) => "",
                (.., true) => "holds",
                (.., false) if result.holds_on_shared_host() => "holds on a shared host",
                (.., false) => "DOES NOT HOLD",
            };
            table += &format!(
                "{:<44} {:>10.2} {:>8} {:>10.2} {:>10.2} {:>5}  {:<17} {}\n",
                format!("{}/{}", self.bench, result.name),
                result.value,
                result.unit,
                result.low,
                result.high,
                result.runs,
                promised,
                verdict
            );
        }
        table
    }
}

/// Three decimals are more than any of these figures is worth.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_that_is_not_kept_is_shown_and_counts() {
        let of = |name, unit, runs: &[f64], bound| Measurement {
            bound: Some(bound),
            ..Measurement::new(name, unit, runs)
        };
        let kept = of("kept", "ns", &[3.0, 1.0, 2.0], Bound::AtMost(2.0));
        let broken = of("broken", "x", &[3.0, 1.0, 2.0], Bound::AtLeast(2.5));
        assert_eq!((kept.value, kept.low, kept.high, kept.holds()), (2.0, 1.0, 3.0, true));
        for (ratio, holds) in [(0.94, false), (0.96, true), (1.4, true), (1.41, false)] {
            let measured = of("ratio", "x", &[ratio], Bound::Within(0.95, 1.4));
            assert_eq!(measured.holds(), holds, "{ratio}");
        }
        let noisy = of("noisy", "ns", &[25.0], Bound::AtMost(15.0));
        let noisy = Measurement { on_shared_host: Some(30.0), ..noisy };
        assert!(!noisy.holds() && noisy.holds_on_shared_host());
        let noisier = Measurement { value: 31.0, ..noisy.clone() };
        assert!(!noisier.holds_on_shared_host());
        let few = of("few", "x", &[1.6], Bound::AtLeast(1.9));
        let few = Measurement { on_shared_host: Some(1.5), ..few };
        assert!(!few.holds() && few.holds_on_shared_host());
        let limited = Measurement::missing("limited", "x", "sender-limited");
        assert!(!limited.holds());
        let results = vec![kept, broken, limited, noisy];
        let report = Report { bench: "b", machine: "m".into(), results, notes: vec!["how".into()] };
        assert!(!report.holds());
        assert!(report.to_table().contains("b/broken"));
        assert!(report.to_table().contains("DOES NOT HOLD"));
        assert!(
            report.to_table().contains("at most 15 (30)   holds on a shared host"),
            "{}",
            report.to_table()
        );
        let json: Value = serde_json::from_str(&report.to_json()).expect("JSON");
        assert_eq!(json["results"][0]["bound"]["at_most"], 2.0);
        assert_eq!(json["results"][1]["holds"], false);
        assert_eq!(json["results"][2]["value"], Value::Null);
        assert_eq!(json["results"][2]["missing"], "sender-limited");
        assert_eq!(json["results"][3]["on_shared_host"], json!({ "bound": 30.0, "holds": true }));
        assert_eq!(json["notes"][0], "how");
        assert!(report.to_table().contains("how") && report.to_table().contains("sender-limited"));
    }
}
