//! Other rules for a firewall that works at full load: connections that are broken, and for how long its
//! worker and its own packets wait. The change goes the way of `apply`: objects are checked, prepared, handed
//! over and carried out.

use super::pause::host;
use crate::statistics::median;
use crate::{BenchError, Measurement, RUNS};
use ::deployment::{Catalog, Host};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use wiring::{Plan, Wiring};

/// Connections that the function knows, and for how many its table has room.
const SIZES: [(&str, u64, u64); 2] = [("", 10_000, 65_536), ("-262144", 262_144, 524_288)];
/// Changes of one run.
const CHANGES: usize = 10;
/// Longest time until all connections have begun.
const TIME_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    let (mut broken, mut found) = (0, Vec::new());
    for (number, (suffix, flows, room)) in SIZES.into_iter().enumerate() {
        let begun = number as f64 / SIZES.len() as f64;
        let changed = changes(flows, room, &mut |done| {
            progress(begun + done / SIZES.len() as f64, "other rules at full load");
        })?;
        broken += changed.broken;
        let blocked = format!("blocked{suffix}-us");
        found.push(Measurement::new(&blocked, "us", &changed.blocked));
        // What the function's own packets wait for depends on what it has to hand over.
        found.push(Measurement::new(&format!("paused{suffix}-us"), "us", &changed.paused));
    }
    found.insert(0, Measurement::new("broken", "connections", &[broken as f64]));
    Ok(found)
}

/// What changes of a firewall came to.
struct Changed {
    broken: u64,
    /// For how long its worker stood still, in microseconds, by run.
    blocked: Vec<f64>,
    /// For how long its own packets waited.
    paused: Vec<f64>,
}

/// The operator's file with one of two sets of rules, both of which accept what is sent.
fn document(flows: u64, room: u64, rules: &str) -> String {
    format!(
        "superfluid: 1\n\
         ports:\n  source: {{type: generator, flows: {flows}, order: random}}\n  sink: {{type: sink}}\n\
         functions:\n  fw:\n    image: firewall\n    config:\n      max_flows: {room}\n      rules: [{rules}]\n\
         chains:\n  one: [source, fw, sink]\n"
    )
}

fn changes(flows: u64, room: u64, progress: &mut dyn FnMut(f64)) -> Result<Changed, BenchError> {
    let sets = [
        "{name: all, action: accept, protocol: udp}",
        "{name: no-mail, action: drop, protocol: tcp, destination_ports: \"25\"}, {name: every, action: accept, protocol: udp}",
    ];
    let (mut host, catalog) = host(&document(flows, room, sets[0]))?;
    let wirings: Vec<Wiring> =
        sets.iter().map(|rules| read(flows, room, rules, &catalog)).collect::<Result<_, _>>()?;
    let began = Instant::now();
    while opened(&host)? < flows {
        if began.elapsed() > TIME_LIMIT {
            let there = opened(&host)?;
            return Err(BenchError::Setup(format!(
                "{there} of {flows} connections have begun after a minute"
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = opened(&host)?;
    let (mut all_blocked, mut all_paused) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        progress(run as f64 / RUNS as f64);
        let (mut blocked, mut paused) = (Vec::new(), Vec::new());
        for change in 0..CHANGES {
            let from = &wirings[change % 2];
            let to = &wirings[(change + 1) % 2];
            let (stood_still, waited) = apply(&mut host, &catalog, Plan::between(from, to))?;
            blocked.push(stood_still);
            paused.push(waited);
            // Every connection sends before the next change.
            std::thread::sleep(Duration::from_millis(flows / 500));
        }
        all_blocked.push(median(&blocked));
        all_paused.push(median(&paused));
    }
    // A connection that is not known any more begins again with its next packet.
    let broken = opened(&host)? - before;
    let account = host.stop().map_err(BenchError::setup)?;
    account.balance().map_err(BenchError::setup)?;
    let lost: u64 = account.ledger.dropped.nonzero().map(|(_, count)| count).sum();
    Ok(Changed { broken: broken + lost, blocked: all_blocked, paused: all_paused })
}

fn read(flows: u64, room: u64, rules: &str, catalog: &Catalog) -> Result<Wiring, BenchError> {
    let read = config::check("bench", &document(flows, room, rules), catalog);
    read.map(|read| read.wiring).map_err(|faults| {
        BenchError::Setup(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })
}

/// Connections that have begun.
fn opened(host: &Host) -> Result<u64, BenchError> {
    let account = host.account_of("fw").ok_or_else(|| BenchError::Setup("there is no `fw`".to_owned()))?;
    if let Some(reason) = account.down {
        return Err(BenchError::Invalid(format!("the function was stopped: {reason}")));
    }
    let opened = account.counters.iter().find(|(name, _)| name == "flows-opened");
    opened.map(|(_, count)| *count).ok_or_else(|| BenchError::Setup("it counts no connections".to_owned()))
}

/// Makes a change; for how long the worker stood still, and the function's own packets waited, in
/// microseconds.
fn apply(host: &mut Host, catalog: &Catalog, plan: Plan) -> Result<(f64, f64), BenchError> {
    let mut prepared = host.prepare(plan, HashMap::new(), catalog).map_err(BenchError::setup)?;
    prepared.hand_over(false).map_err(BenchError::setup)?;
    let [taken] = prepared.taken_over() else {
        return Err(BenchError::Invalid("the function did not hand over".to_owned()));
    };
    let (stood_still, waited) = (taken.stood_still.0 as f64 / 1e3, taken.waited.0 as f64 / 1e3);
    let done = host.carry_out(prepared).map_err(BenchError::setup)?;
    match done.troubles.first() {
        None => Ok((stood_still, waited)),
        Some(trouble) => Err(BenchError::Invalid(trouble.clone())),
    }
}
