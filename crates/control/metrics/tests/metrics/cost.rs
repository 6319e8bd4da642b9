//! `cargo test --release -p metrics -- --ignored --nocapture cost`: what a scrape of very many functions
//! takes.

use crate::sample::{account, function, text};
use metrics::{Function, Notation};
use std::time::Instant;
use telemetry::{DropReason, Ledger};

const FUNCTIONS: u64 = 20_000;

#[test]
#[ignore = "a measurement"]
fn cost() {
    let of = |n: u64| {
        let mut function = function(&format!("function-{n}"), n);
        function.ledger = Ledger { consumed: n, ..Ledger::default() };
        function.ledger.dropped[DropReason::Function] = n;
        function.ledger.dropped[DropReason::QueueFull] = n;
        function.own_drops.truncate(1);
        function.counters.truncate(2);
        (function.missed, function.overruns, function.suspensions) = (0, 0, 0);
        function.throttled.0 = 0;
        function
    };
    let account = account((1..=FUNCTIONS).map(of).collect());
    let digest = format!("sha256:{}", "0".repeat(64));
    let known =
        |_: &str| Function { tenant: "tenant", image: "firewall", digest: &digest, ..Function::default() };
    for notation in Notation::ALL {
        let mut length = (0, 0, 0);
        let mut times: Vec<f64> = (0..9)
            .map(|_| {
                let begin = Instant::now();
                let text = text(&account, notation, &known);
                let time = begin.elapsed().as_secs_f64() * 1e3;
                length = (text.len(), text.capacity(), text.lines().count());
                time
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let (bytes, capacity, lines) = length;
        println!(
            "{FUNCTIONS} functions, {notation:?}: {:.1} ms, from {:.1} to {:.1}; {bytes} bytes in {lines} lines, {capacity} bytes \
             taken",
            times[4], times[0], times[8]
        );
    }
}
