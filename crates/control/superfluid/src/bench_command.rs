//! `superfluid bench`: starts `superfluid-bench`, where that is installed. What measures the product is no
//! part of it.

use crate::Outcome;
use crate::cli::BenchOptions;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The program that measures.
const PROGRAM: &str = "superfluid-bench";

/// Becomes the program that measures; comes back only if there is none.
pub(crate) fn bench(options: &BenchOptions) -> Outcome {
    let program = beside().unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(program).args(&options.arguments).exec();
    console::error().line(&format!(
        "superfluid bench: {PROGRAM}: {error}; allowed: that program beside this one or in $PATH (`make bench` builds it)"
    ));
    Outcome::Missing
}

/// Where it is if it lies beside this program, as after a build.
fn beside() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    beside.is_file().then_some(beside)
}
