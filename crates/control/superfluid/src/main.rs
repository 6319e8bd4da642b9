//! The program `superfluid`.
//!
//! 1. [`cli`] reads the command line.
//! 2. `run`: `deployment` knows images and port drivers, `config` makes a wiring of the file, a host carries
//!    it out, [`run`] lets it work and shows it, [`view`] and [`event_json`] are how.
//! 3. `daemon`: the same host, changed by clients; [`daemon_command`] starts the `controller`.
//! 4. `launcher`: starts containers, with rights that the daemon has not; [`launcher_command`].
//! 5. `apply`, `get`, `function` and the others in [`mod@remote`] ask a daemon.
//! 6. `restore` makes a daemon's state of a backup.
//! 7. `check`, `new`, `image`, `vm`, `bench`, `completions` and `man` are the other commands.
//!
//! Exit status: 0 done, 1 something did not hold or broke on the way, 2 the input is wrong and nothing was
//! started, 3 something that is needed is missing.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench_command;
mod check;
mod cli;
mod command_groups;
mod completions;
mod daemon_command;
mod end_signals;
mod event_json;
mod event_log;
mod hints;
mod hop_capture;
mod image_command;
mod image_registry;
mod launcher_command;
mod live_table;
mod manual;
mod new_command;
mod output;
mod output_file;
mod page_files;
mod progress;
mod remote;
mod restore;
mod run;
mod run_guests;
mod view;
mod vm_command;

use clap::{CommandFactory, FromArgMatches};
use mimalloc::MiMalloc;
use std::io::ErrorKind;
use std::process::ExitCode;

/// What comes and goes with each request of the daemon is freed by other threads than those that asked for
/// it; see 033.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked for.
    Done,
    /// Something did not hold, or broke on the way.
    Failed,
    /// The input is wrong; nothing was started.
    BadInput,
    /// Something that is needed is missing.
    Missing,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        ExitCode::from(match outcome {
            Outcome::Done => 0,
            Outcome::Failed => 1,
            Outcome::BadInput => 2,
            Outcome::Missing => 3,
        })
    }
}

fn main() -> ExitCode {
    if let Err(missing) = processor_suffices() {
        console::error()
            .line(&format!("superfluid: this processor lacks {missing}, which this build needs (x86-64-v3)"));
        console::end();
        return ExitCode::from(3);
    }
    guest_wasm::install_crash_report();
    let matches = match command_groups::grouped(cli::CommandLine::command()).try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return refused(error),
    };
    let command = match cli::CommandLine::from_arg_matches(&matches) {
        Ok(line) => line.command,
        Err(error) => error.exit(),
    };
    let outcome = match command {
        cli::Command::Run(options) => run::run(&options),
        cli::Command::Check(options) => check::check(&options),
        cli::Command::Daemon(options) => daemon_command::daemon(&options),
        cli::Command::Launcher(options) => launcher_command::launcher(&options),
        cli::Command::Restore(options) => restore::restore(&options),
        cli::Command::New(options) => new_command::new(&options),
        cli::Command::Completions(options) => completions::completions(&options),
        cli::Command::Man(options) => manual::man(&options),
        cli::Command::Image(command) => image_command::image(&command),
        cli::Command::Vm(command) => vm_command::vm(&command),
        cli::Command::Bench(options) => bench_command::bench(&options),
        cli::Command::Remote(command) => remote::remote(&command),
        cli::Command::CompileModule => compile_module(),
    };
    console::end();
    outcome.into()
}

/// Says what is wrong with the command line, or what was asked about it, and what was probably meant.
fn refused(mut error: clap::Error) -> ExitCode {
    let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let hint = hints::hint(&mut error, &words);
    let mut status = u8::try_from(error.exit_code()).unwrap_or(2);
    // Help that cannot be shown is a failure, but not one to a reader that has seen enough.
    if let Err(lost) = error.print()
        && status == 0
        && lost.kind() != ErrorKind::BrokenPipe
    {
        console::error().line(&format!("standard output: {lost}"));
        status = 1;
    }
    if let Some(hint) = hint {
        console::error().line(&format!("\n{hint}"));
    }
    console::end();
    ExitCode::from(status)
}

/// Is the compiler of another process of this program.
fn compile_module() -> Outcome {
    match deployment::compile::serve() {
        Ok(()) => Outcome::Done,
        Err(error) => {
            console::error().line(&error.to_string());
            Outcome::Failed
        }
    }
}

/// A build for another architecture needs nothing beyond what every processor of it has.
#[cfg(not(target_arch = "x86_64"))]
fn processor_suffices() -> Result<(), &'static str> {
    Ok(())
}

/// Says by name what the processor lacks, instead of ending in an illegal instruction later.
#[cfg(target_arch = "x86_64")]
fn processor_suffices() -> Result<(), &'static str> {
    for (name, there) in [
        ("AVX2", std::arch::is_x86_feature_detected!("avx2")),
        ("BMI2", std::arch::is_x86_feature_detected!("bmi2")),
        ("FMA", std::arch::is_x86_feature_detected!("fma")),
    ] {
        if !there {
            return Err(name);
        }
    }
    Ok(())
}
