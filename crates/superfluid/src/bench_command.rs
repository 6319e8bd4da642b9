//! `superfluid bench`.

use crate::Outcome;
use crate::cli::BenchOptions;
use bench::{Bench, BenchError, Experiment};
use std::io::{IsTerminal, Write};
use std::time::Instant;

pub(crate) fn bench(options: &BenchOptions) -> Outcome {
    if options.measured {
        return match bench::rss_child() {
            Ok(kib) => {
                println!("{kib}");
                Outcome::Done
            }
            Err(error) => {
                eprintln!("{error}");
                Outcome::Failed
            }
        };
    }
    let benches = if options.name == "hypernf" {
        bench::HYPERNF.to_vec()
    } else {
        match Bench::from_name(&options.name) {
            Ok(bench) => vec![bench],
            Err(error) => {
                eprintln!("{error}, hypernf");
                return Outcome::BadInput;
            }
        }
    };
    let began = Instant::now();
    let (mut holds, mut experiments) = (true, Vec::new());
    for (n, bench) in benches.iter().enumerate() {
        match one(*bench, n, benches.len(), options) {
            Ok((kept, found)) => {
                holds &= kept;
                if let Some(directory) = &options.report {
                    for experiment in &found {
                        // Each as soon as it is whole: what comes later may not come.
                        if let Err(error) = bench::write_data(directory, experiment) {
                            eprintln!("{}: {error}", directory.display());
                            return Outcome::Failed;
                        }
                    }
                }
                experiments.extend(found);
            }
            Err(error) => {
                eprintln!("bench {}: {error}", bench.name());
                holds = false;
            }
        }
    }
    if let Some(directory) = &options.report {
        if experiments.is_empty() {
            eprintln!("bench {}: there is nothing to plot", options.name);
            return Outcome::BadInput;
        }
        let command = format!("superfluid bench {} --report {}", options.name, directory.display());
        let written = bench::write_page(
            directory,
            &format!("superfluid bench {}", options.name),
            command,
            began.elapsed(),
            experiments,
        );
        if let Err(error) = written {
            eprintln!("{}: {error}", directory.display());
            return Outcome::Failed;
        }
        eprintln!("{}", directory.join("index.html").display());
    }
    if holds { Outcome::Done } else { Outcome::Failed }
}

/// Runs a bench, which is the `number`th of so many, and shows what came out; whether all bounds hold, and its experiments.
fn one(
    bench: Bench,
    number: usize,
    of: usize,
    options: &BenchOptions,
) -> Result<(bool, Vec<Experiment>), BenchError> {
    let shown = !options.json && std::io::stderr().is_terminal();
    let found = bench.run(&mut |fraction, what| {
        if shown {
            let fraction = (number as f64 + fraction) / of as f64;
            let done = (fraction * 30.0) as usize;
            // A bar that cannot be drawn is no reason to stop.
            let _ = write!(
                std::io::stderr(),
                "\r\x1b[K[{}{}] {what}",
                "#".repeat(done),
                " ".repeat(30 - done.min(30))
            );
        }
    });
    if shown {
        eprint!("\r\x1b[K");
    }
    let (report, experiments) = found?;
    if options.json {
        println!("{}", report.to_json());
    } else {
        print!("{}", report.to_table());
    }
    Ok((report.holds(), experiments))
}
