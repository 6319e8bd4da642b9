//! `superfluid bench`.

use crate::Outcome;
use crate::cli::BenchOptions;
use bench::Bench;
use std::io::{IsTerminal, Write};

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
    let bench = match Bench::from_name(&options.name) {
        Ok(bench) => bench,
        Err(error) => {
            eprintln!("{error}");
            return Outcome::BadInput;
        }
    };
    let shown = !options.json && std::io::stderr().is_terminal();
    let report = bench.run(&mut |fraction, what| {
        if shown {
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
    match report {
        Ok(report) => {
            if options.json {
                println!("{}", report.to_json());
            } else {
                print!("{}", report.to_table());
            }
            if report.holds() { Outcome::Done } else { Outcome::Failed }
        }
        Err(error) => {
            eprintln!("bench {}: {error}", bench.name());
            Outcome::Failed
        }
    }
}
