//! The command line: which bench, and how its results are shown.

use bench::{Bench, BenchError, Experiment, Inputs};
use clap::Parser;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Measures what is promised, on this machine.
#[derive(Parser, Debug)]
#[command(name = "superfluid-bench", bin_name = "superfluid bench", version, after_help = benches())]
pub(crate) struct Options {
    /// Which bench.
    name: String,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Write the data of experiments, and a page with plots of them, into this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Of `compare`: all captures in this folder and below it, in place of those that it brings along.
    #[arg(long, value_name = "DIR")]
    captures: Option<PathBuf>,
    /// Of `compare`: all files *.rules in this folder, in place of the rules that it brings along.
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
    /// Of `vm`: the folder that `superfluid vm build --kernel tiny` wrote, in place of a kernel that it
    /// makes.
    #[arg(long, value_name = "DIR")]
    kernel: Option<PathBuf>,
    /// Be the process that a bench measures.
    #[arg(long, hide = true, num_args = 0.., value_name = "NUMBER")]
    measured: Option<Vec<usize>>,
}

/// What `--help` ends with: all benches.
fn benches() -> String {
    let hypernf: Vec<_> = bench::HYPERNF.iter().map(|bench| bench.name()).collect();
    format!(
        "Examples:\n  superfluid bench call\n  superfluid bench functions --json\n  superfluid bench hypernf --report report\n  \
         superfluid bench compare --captures captures --rules rules\n\nBenches: {}; \
         hypernf, which runs {}. Ends with 0 when every bound holds, else with 1.",
        bench::NAMES.join(", "),
        hypernf.join(", ")
    )
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Every bound holds.
    Done,
    /// One does not, or something broke on the way.
    Failed,
    /// The command line is wrong; nothing was measured.
    BadInput,
}

/// Runs what the command line asks for.
pub(crate) fn bench(options: &Options) -> ExitCode {
    ExitCode::from(match measure(options) {
        Outcome::Done => 0,
        Outcome::Failed => 1,
        Outcome::BadInput => 2,
    })
}

fn measure(options: &Options) -> Outcome {
    if let Some(arguments) = &options.measured {
        return match bench::child(&options.name, arguments) {
            // The process that measures may have gone, and its end of the pipe with it.
            Ok(figure) => match writeln!(std::io::stdout(), "{figure}") {
                Ok(()) => Outcome::Done,
                Err(_) => Outcome::Failed,
            },
            Err(error) => {
                say(&error);
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
                say(&format_args!("{error}, hypernf"));
                return Outcome::BadInput;
            }
        }
    };
    if benches != [Bench::Compare] && (options.captures.is_some() || options.rules.is_some()) {
        say(&format_args!("bench {}: --captures and --rules are options of `compare`", options.name));
        return Outcome::BadInput;
    }
    if benches != [Bench::Vm] && options.kernel.is_some() {
        say(&format_args!("bench {}: --kernel is an option of `vm`", options.name));
        return Outcome::BadInput;
    }
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
                            say(&format_args!("{}: {error}", directory.display()));
                            return Outcome::Failed;
                        }
                    }
                }
                experiments.extend(found);
            }
            Err(error) => {
                say(&format_args!("bench {}: {error}", bench.name()));
                holds = false;
            }
        }
    }
    if let Some(directory) = &options.report {
        if experiments.is_empty() {
            say(&format_args!("bench {}: there is nothing to plot", options.name));
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
            say(&format_args!("{}: {error}", directory.display()));
            return Outcome::Failed;
        }
        say(&format_args!("{}", directory.join("index.html").display()));
    }
    if holds { Outcome::Done } else { Outcome::Failed }
}

/// Runs a bench, which is the `number`th of so many, and shows what came out; whether all bounds hold, and
/// its experiments.
fn one(
    bench: Bench,
    number: usize,
    of: usize,
    options: &Options,
) -> Result<(bool, Vec<Experiment>), BenchError> {
    let shown = !options.json && std::io::stderr().is_terminal();
    let inputs = Inputs {
        captures: options.captures.clone(),
        rules: options.rules.clone(),
        kernel: options.kernel.clone(),
    };
    let found = bench.run(&inputs, &mut |fraction, what| {
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
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    let (report, experiments) = found?;
    let text = if options.json { format!("{}\n", report.to_json()) } else { report.to_table() };
    // A reader that has seen enough is no failure; the next bench is measured all the same.
    let shown = std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush());
    match shown {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            say(&format_args!("standard output: {error}"));
            Ok((false, experiments))
        }
        _ => Ok((report.holds(), experiments)),
    }
}

/// A line on standard error; one that is gone can be told nothing.
pub(crate) fn say(line: &dyn Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_bench_is_named_by_the_help() {
        let help = Options::command().render_long_help().to_string();
        let words: Vec<_> =
            help.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')).collect();
        for name in bench::NAMES {
            assert!(words.contains(name), "{name}: {help}");
        }
    }
}
