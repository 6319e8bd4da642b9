//! Shares beside functions of very different cost, and caps (Superfluidity D5.2, section 4.3.2).

use super::feed::Frames;
use super::rig::{Kit, Nf, Plan, Rig, bridge};
use super::{Found, Progress, verdicts};
use crate::functions::ten_rules;
use crate::guests::{module, stock};
use crate::{BenchError, Measurement, RUNS};
use cpu_share::{Cap, Claim};
use engine::Account;
use plots::{Axis, Experiment, Figure, Model, Reading, Series, paper};
use std::time::Duration;

const WARM_UP: Duration = Duration::from_millis(100);
const WINDOW: Duration = Duration::from_millis(300);
/// Windows in which the cap is looked at.
const WINDOWS: usize = 30;

/// Cycles of a function and of the processor, between two accounts.
fn share(before: &Account, after: &Account, function: usize) -> f64 {
    let used = after.instances[function].cycles.since(before.instances[function].cycles).0 as f64;
    used / after.at.cycles.since(before.at.cycles).0 as f64 * 100.0
}

/// Shares of the processor of each function over one window, in percent.
fn window(rig: &Rig, time: Duration) -> Result<Vec<f64>, BenchError> {
    let before = rig.account()?;
    std::thread::sleep(time);
    let after = rig.account()?;
    Ok((0..before.instances.len()).map(|function| share(&before, &after, function)).collect())
}

pub(crate) fn run(progress: Progress<'_>) -> Result<Found, BenchError> {
    let kit = Kit::new(8192)?;
    let frames = Frames::Computed { size: 64 };
    let cheap = Nf::new(&bridge(&kit)?, frames.clone());
    let dear = Nf::new(&kit.prepare(module("burn")?, "")?, frames.clone());

    let (mut cheap_share, mut packets) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        progress(0.4 * run as f64 / RUNS as f64, "beside 100,000 cycles a packet");
        let rig = Plan::one_core(Model::Hyper, vec![cheap.clone(), dear.clone()]).build(&kit)?;
        rig.start()?;
        rig.open(true)?;
        std::thread::sleep(WARM_UP);
        cheap_share.push(window(&rig, WINDOW)?[0]);
        let account = rig.account()?;
        if std::env::var_os("DEBUG_SHARES").is_some() {
            eprintln!("{:?}", account.workers);
            for i in &account.instances {
                eprintln!(
                    "{} cycles {} packets {} calls {} queue {} overruns {} ledger {:?}",
                    i.name, i.cycles.0, i.packets, i.calls, i.queue, i.overruns, i.ledger
                );
            }
            for i in &account.ports {
                eprintln!("{} {:?}", i.name, i.counters.ledger);
            }
            eprintln!("{:?}", account.pools);
        }
        let dear = &account.instances[1];
        packets.push(dear.cycles.0 as f64 / dear.packets.max(1) as f64);
        rig.end()?;
    }

    let cap = Cap::from_millionths(200_000);
    let ten = kit.prepare(stock("firewall")?, &ten_rules(10))?;
    let capped = Nf::new(&ten, frames).claim(Claim { cap, ..Claim::default() });
    let rig = Plan::one_core(Model::Hyper, vec![capped]).build(&kit)?;
    rig.start()?;
    rig.open(true)?;
    std::thread::sleep(WARM_UP);
    let mut over_time = Series::new("a function with a cap of 20%", Model::Hyper.role());
    let mut shares = Vec::new();
    for n in 0..WINDOWS {
        progress(0.4 + 0.6 * n as f64 / WINDOWS as f64, "a cap of 20% on an idle processor");
        let got = window(&rig, WINDOW)?[0];
        over_time.push((n as f64 + 1.0) * WINDOW.as_secs_f64(), Reading::exact(got));
        shares.push(got);
    }
    rig.end()?;
    let (low, high) =
        shares.iter().fold((f64::MAX, f64::MIN), |(low, high), share| (share.min(low), share.max(high)));
    let results = vec![
        Measurement::new("cheap-share", "%", &cheap_share),
        Measurement::new("cap-20-low", "%", &[low]),
        Measurement::new("cap-20-high", "%", &[high]),
        Measurement::new("dear-cycles-a-packet", "cycles", &packets),
    ];
    let experiment = Experiment::new(
        "shares-cost",
        "Shares beside dear packets, and caps",
        "Does a function that forwards get its half beside one that takes 100,000 cycles for each packet? Does a cap hold where \
         no other function wants the processor?",
    )
    .setup("Equal weights; both always have packets; cycles charged to each over the cycles of the processor.")
    .setup("The cap: one firewall of ten rules, 64 B packets, in windows of 0.3 s; the lowest and the highest window count.")
    .paper(paper::cheap_share())
    .figure(Figure::lines(
        "A cap of 20% on a processor that is otherwise idle",
        Axis::linear("time", "s"),
        Axis::linear("share of the processor", "%"),
        [over_time],
    ));
    Ok(Found::new(verdicts("shares-cost", experiment, &results), results))
}
