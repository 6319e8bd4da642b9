//! A router at full load whose file of routes changes: how many changes a second, from the file to the
//! packets, and whether one is lost. The change goes the way of `apply`: the file is read and checked, a
//! table is made, the old function hands over to the new one. Then the same router beside DPDK's.

use crate::daemon::pause::host;
use crate::frames::Numbers;
use crate::routes;
use crate::{BenchError, Measurement, RUNS, peers::l3fwd};
use ::deployment::{Catalog, Host};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wiring::{Plan, Wiring};

/// Routes, and those of them that a change leads elsewhere.
const ROUTES: usize = 1_000_000;
const CHANGED: usize = 100_000;
/// Changes of one run.
const CHANGES: usize = 2;
/// Longest time until packets go the new way.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Two files of the same destinations; they end with this.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new() -> Result<Folder, BenchError> {
        let path = std::env::temp_dir().join(format!("superfluid-bench-routes-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(BenchError::setup)?;
        let folder = Folder(path);
        let mut prefixes = routes::table(ROUTES - 256, &mut Numbers(31));
        // Where the packets go that are sent: the last 256, all of which are changed.
        prefixes.extend((0..256).map(|n| (16 << 24 | n << 8, 24)));
        for (name, changed) in [("first", false), ("second", true)] {
            let text = routes::file(&prefixes, |n| {
                if changed && n >= ROUTES - CHANGED {
                    "via 203.0.113.2".to_owned()
                } else {
                    format!("via 192.0.2.{}", 2 + n as u64 % routes::NEXT_HOPS)
                }
            });
            std::fs::write(folder.0.join(name), text).map_err(BenchError::setup)?;
        }
        Ok(folder)
    }

    /// The operator's file with one of the two tables.
    fn document(&self, name: &str) -> String {
        let config = routes::configuration(&format!("routes_file: {}", self.0.join(name).display()));
        let config = config
            .replace(
                "interfaces: [",
                "interfaces: [{name: c, mac: '02:00:00:00:00:0c', addresses: [203.0.113.1/24]}, ",
            )
            .replace("neighbours: [", "neighbours: [{address: 203.0.113.2, mac: '02:00:00:00:02:02'}, ");
        let indented: String = config.lines().map(|line| format!("      {line}\n")).collect();
        format!(
            "superfluid: 1\n\
             ports:\n  source: {{type: generator, flows: 65536, source: 172.16.0.0/16, destination: 16.0.0.0/16, source_ports: \"1024\", \
             order: random, destination_mac: '02:00:00:00:00:01'}}\n  \
             first: {{type: sink}}\n  second: {{type: sink}}\n\
             functions:\n  core:\n    image: router\n    config:\n{indented}\
             wires: [[source, core:a], [core:b, first], [core:c, second]]\n"
        )
    }
}

/// The results, and how DPDK's router and ours were configured.
pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    let mut results = changes(progress)?;
    let notes = l3fwd::router(progress, &mut results).unwrap_or_else(|error| {
        results.push(Measurement::missing("l3fwd-ratio", "x", "not-measured"));
        vec![format!("l3fwd: {error}")]
    });
    Ok((results, notes))
}

fn changes(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    progress(0.0, "two files of a million routes");
    let folder = Folder::new()?;
    let documents = ["first", "second"].map(|name| folder.document(name));
    let (mut host, catalog) = host(&documents[0])?;
    let mut wiring = read(&documents[0], &catalog)?;
    await_packets(&host, "first")?;
    let (mut rates, mut paused, mut blocked) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS {
        progress(0.6 * run as f64 / RUNS as f64, "a file of routes that changes at full load");
        for change in 0..CHANGES {
            let next = (change + 1) % 2;
            let began = Instant::now();
            let to = read(&documents[next], &catalog)?;
            let (stood_still, waited) = apply(&mut host, &catalog, Plan::between(&wiring, &to))?;
            wiring = to;
            await_packets(&host, ["first", "second"][next])?;
            rates.push(CHANGED as f64 / began.elapsed().as_secs_f64());
            blocked.push(stood_still);
            paused.push(waited);
        }
    }
    let account = host.stop().map_err(BenchError::setup)?;
    account.balance().map_err(BenchError::setup)?;
    let lost: u64 = account.ledger.dropped.nonzero().map(|(_, count)| count).sum();
    Ok(vec![
        Measurement::new("changes-per-s", "routes/s", &rates),
        Measurement::new("changes-lost", "packets", &[lost as f64]),
        Measurement::new("blocked-us", "us", &blocked),
        Measurement::new("paused-us", "us", &paused),
    ])
}

fn read(document: &str, catalog: &Catalog) -> Result<Wiring, BenchError> {
    let read = config::check("bench", document, catalog);
    read.map(|read| read.wiring).map_err(|faults| {
        BenchError::Setup(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })
}

/// Waits until packets arrive at a port.
fn await_packets(host: &Host, port: &str) -> Result<(), BenchError> {
    let seen = || {
        let account = host.account_of_port(port).map(|account| account.counters.ledger.delivered);
        account.ok_or_else(|| BenchError::Setup(format!("there is no `{port}`")))
    };
    let (before, began) = (seen()?, Instant::now());
    while seen()? == before {
        if began.elapsed() > TIME_LIMIT {
            return Err(BenchError::Invalid(format!("no packet arrives at `{port}`")));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Makes a change; for how long the worker stood still, and the router's own packets waited, in microseconds.
fn apply(host: &mut Host, catalog: &Catalog, plan: Plan) -> Result<(f64, f64), BenchError> {
    let mut prepared = host.prepare(plan, HashMap::new(), catalog).map_err(BenchError::setup)?;
    prepared.hand_over(false).map_err(BenchError::setup)?;
    let [taken] = prepared.taken_over() else {
        return Err(BenchError::Invalid("the function did not hand over".to_owned()));
    };
    let found = (taken.stood_still.0 as f64 / 1e3, taken.waited.0 as f64 / 1e3);
    let done = host.carry_out(prepared).map_err(BenchError::setup)?;
    match done.troubles.first() {
        None => Ok(found),
        Some(trouble) => Err(BenchError::Invalid(trouble.clone())),
    }
}
