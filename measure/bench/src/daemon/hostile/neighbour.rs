//! The tenant that is to notice nothing: a chain at half of the load that it could carry alone.

use super::super::Daemon;
use super::metrics::{Sample, quantile, sample};
use crate::statistics::median;
use crate::{BenchError, RUNS};
use api::Kind;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// Functions of the chain.
const CHAIN: usize = 3;
/// Length of the windows of which the worst counts.
const WINDOW: Duration = Duration::from_secs(1);
/// How long a load is given before it is looked at.
const WARM_UP: Duration = Duration::from_millis(500);
const SOURCE: &str = "red_source";
const SINK: &str = "red_sink";

/// The chain, and what is sent through it.
pub(super) struct Neighbour<'a> {
    daemon: &'a Daemon,
    /// Packets a second.
    rate: f64,
}

/// What the chain did in some windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Forwarded over offered in the worst window, in percent.
    pub(super) percent: f64,
    /// The delay that 99% of all packets did not exceed, in seconds.
    pub(super) p99: f64,
}

fn source(rate: Option<f64>) -> Value {
    let mut source = json!({"type": "generator", "tenant": "red", "flows": 131_072, "order": "random"});
    if let Some(rate) = rate {
        source["rate"] = json!(format!("{}pps", rate as u64));
        source["batch"] = json!(32);
    }
    source
}

impl<'a> Neighbour<'a> {
    /// Sets the chain up, alone on its worker, finds out what it can carry, and gives it half of that.
    pub(super) fn start(daemon: &'a Daemon) -> Result<Neighbour<'a>, BenchError> {
        // Ten rules, of which the last one lets everything pass that the generator sends.
        let rule = |n: u16| match n {
            9 => json!({"action": "accept", "protocol": "udp", "destination_ports": 9}),
            n => json!({"action": "drop", "protocol": "udp", "destination_ports": 20_000 + n}),
        };
        let rules: Vec<Value> = (0..10).map(rule).collect();
        let function =
            json!({"image": "firewall", "tenant": "red", "config": {"rules": rules, "stateful": false}});
        let names: Vec<String> = (0..CHAIN).map(|n| format!("red{n}")).collect();
        let functions: serde_json::Map<String, Value> =
            names.iter().map(|name| (name.clone(), function.clone())).collect();
        let chain: Vec<&str> =
            [SOURCE].into_iter().chain(names.iter().map(String::as_str)).chain([SINK]).collect();
        daemon.apply(&json!({
            "superfluid": 1,
            "tenants": {
                "red": {"cpu": {"weight": 300}}, "blue": {"cpu": {"weight": 100}}, "green": {},
            },
            "ports": {SOURCE: source(None), SINK: {"type": "sink", "tenant": "red"}},
            "functions": functions,
            "chains": {"red": chain},
        }))?;
        sleep(WARM_UP);
        let mut rates = Vec::new();
        for _ in 0..RUNS {
            let before = sample(daemon, SINK)?;
            sleep(WINDOW / 4);
            rates.push(rate_between(&before, &sample(daemon, SINK)?));
        }
        let rate = median(&rates) / 2.0;
        if rate < 1000.0 {
            return Err(BenchError::Invalid(format!("the chain alone forwards {rate} packets a second")));
        }
        daemon.put(Kind::Port, SOURCE, &source(Some(rate)))?;
        Ok(Neighbour { daemon, rate })
    }

    /// Packets a second that it is offered.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Looks at the chain for so many windows.
    pub(super) fn watch(&self, windows: usize) -> Result<Seen, BenchError> {
        sleep(WARM_UP);
        let first = sample(self.daemon, SINK)?;
        let (mut last, mut percent) = (first.clone(), f64::INFINITY);
        for _ in 0..windows {
            sleep(WINDOW);
            let next = sample(self.daemon, SINK)?;
            percent = percent.min(100.0 * rate_between(&last, &next) / self.rate);
            last = next;
        }
        // No packet at all: all of them are still on their way.
        let p99 = quantile(&first, &last, 0.99).unwrap_or(f64::INFINITY);
        Ok(Seen { percent, p99 })
    }
}

fn rate_between(before: &Sample, after: &Sample) -> f64 {
    let passed = after.at.duration_since(before.at).as_secs_f64();
    after.delivered.saturating_sub(before.delivered) as f64 / passed
}
