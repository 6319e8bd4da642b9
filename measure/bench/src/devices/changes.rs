//! A device, a policy and an opener that come and go under load: packets that others lose, and for how long
//! their worker stands still. Each change goes the way of `apply`, as it is carried out on the host.

use crate::daemon::pause::host;
use crate::statistics::median;
use crate::{BenchError, Measurement, RUNS};
use ::deployment::{Catalog, Host};
use engine::Account;
use std::collections::HashMap;
use std::time::Duration;
use wiring::{Plan, Wiring};

/// Times that each of the three comes and goes in one run.
const CHANGES: usize = 10;
/// What the function gets: less than both openers together can take, as two that share a port throttle
/// nothing.
const RATE: &str = "1Mpps";
/// Between changes.
const BETWEEN: Duration = Duration::from_millis(2);

/// The operator's file: what the function's device wants of its port, a device beside it, an opener beside.
fn document(policy: &str, device: &str, opener: &str) -> String {
    format!(
        "superfluid: 1\n\
         ports:\n  source: {{type: generator, flows: 1000, order: random, rate: {RATE}}}\n  sink: {{type: sink}}\n\
         devices:\n  edge: {{mode: bridge, share: duplicate, over: {{source: {{receive: \"{policy}\"}}, sink: {{}}}}}}\n{device}\
         functions:\n  f: {{image: forwarder, config: {{reflect: true}}, attach: {{left: edge}}}}\n{opener}"
    )
}

pub(super) fn run(into: &mut Vec<Measurement>) -> Result<(), BenchError> {
    let (policy, none) = ("udp", "");
    let device = "  names: {mode: direct, over: {source: {receive: \"tcp port 53\"}}}\n";
    let opener = "  g: {image: monitor, attach: {left: {to: edge, order: 9}}}\n";
    let base = document(policy, none, none);
    let others = [
        document(policy, device, none),
        document("udp and src net 198.18.0.0/15", none, none),
        document(policy, none, opener),
    ];
    let (host, catalog) = host(&base)?;
    let base = read(&base, &catalog)?;
    let others = others.iter().map(|text| read(text, &catalog)).collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(Duration::from_millis(100));
    let mut blocked = Vec::new();
    for _ in 0..RUNS {
        let mut worst: f64 = 0.0;
        for other in &others {
            let mut came = Vec::new();
            for _ in 0..CHANGES {
                for (from, to) in [(&base, other), (other, &base)] {
                    came.push(apply(&host, &catalog, Plan::between(from, to))?);
                    std::thread::sleep(BETWEEN);
                }
            }
            worst = worst.max(median(&came));
        }
        // Of the three, the one that takes longest.
        blocked.push(worst);
    }
    let account = host.stop().map_err(BenchError::setup)?;
    account.balance().map_err(BenchError::setup)?;
    let lost = lost(&account);
    let passed: u64 = account.ports.iter().map(|port| port.counters.ledger.delivered).sum();
    if passed < 10_000 {
        return Err(BenchError::Invalid(format!("{passed} packets passed")));
    }
    into.push(Measurement::new("change-lost", "packets", &[lost as f64]));
    into.push(Measurement::new("change-blocked-us", "us", &blocked));
    Ok(())
}

/// Packets that ports and functions lost which were there all the time.
fn lost(account: &Account) -> u64 {
    let ports =
        account.ports.iter().map(|port| port.counters.ledger.dropped.total() + port.counters.kernel_lost);
    let functions = account.instances.iter().map(|instance| instance.ledger.dropped.total());
    ports.chain(functions).sum()
}

fn read(document: &str, catalog: &Catalog) -> Result<Wiring, BenchError> {
    let read = config::check("bench", document, catalog);
    read.map(|read| read.wiring).map_err(|faults| {
        BenchError::Setup(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })
}

/// Makes a change; for how long the workers that it touches stood still, in microseconds.
fn apply(host: &Host, catalog: &Catalog, plan: Plan) -> Result<f64, BenchError> {
    let prepared = host.prepare(plan, HashMap::new(), catalog).map_err(BenchError::setup)?;
    let done = host.carry_out(prepared).map_err(BenchError::setup)?;
    match done.troubles.first() {
        None => Ok(done.stood_still.0 as f64 / 1e3),
        Some(trouble) => Err(BenchError::Invalid(trouble.clone())),
    }
}
