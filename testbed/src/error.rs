//! What can go wrong around a test.

use std::io;
use std::time::Duration;

/// What went wrong around a test, as opposed to in what it tests.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// A program is not installed.
    #[error("`{program}` is not installed; on Debian: apt-get install {package}")]
    Missing {
        /// The program.
        program: String,
        /// The package that has it.
        package: &'static str,
    },
    /// A command could not be started.
    #[error("`{command}`: {source}")]
    Start {
        /// The command line.
        command: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A command did not end in time and was killed.
    #[error("`{command}` did not end within {limit:?}; it had printed:\n{output}")]
    TimeOut {
        /// The command line.
        command: String,
        /// How long it was given.
        limit: Duration,
        /// Its output until then.
        output: String,
    },
    /// A command failed.
    #[error("`{command}` ended with {status}; it printed:\n{output}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// Its output.
        output: String,
    },
    /// A command's output is not what it should be.
    #[error("`{command}` printed nothing that is understood:\n{output}")]
    Answer {
        /// The command line.
        command: String,
        /// Its output.
        output: String,
    },
    /// The kernel refused something.
    #[error("{what}: {source}")]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A port could not be opened.
    #[error(transparent)]
    Port(#[from] port_af_packet::OpenError),
    /// A pool could not be made.
    #[error(transparent)]
    Pool(#[from] packet_memory::PoolError),
}
