//! The program `superfluid-bench`: what `superfluid bench` starts.
//!
//! It lies beside `superfluid`, which it measures: benches of the daemon and of whole hosts start that
//! program.
//!
//! Exit status: 0 every bound holds, 1 one does not, or something broke on the way, 2 the command line is
//! wrong.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod command;
mod tables;

use clap::Parser;
use std::process::ExitCode;
use tables::HugeTables;

/// The allocator of `superfluid`, so that what is measured in this process is what runs in that one; tables
/// of native functions lie on the pages that those of sandboxes lie on.
#[global_allocator]
static ALLOCATOR: HugeTables = HugeTables;

fn main() -> ExitCode {
    guest_wasm::install_crash_report();
    // Images are compiled in a process of their own, which is this program again.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == "compile-module") {
        return match deployment::compile::serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                command::say(&error);
                ExitCode::FAILURE
            }
        };
    }
    command::bench(&command::Options::parse())
}
