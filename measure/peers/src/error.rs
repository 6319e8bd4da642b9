//! What can go wrong with a peer.

use std::io;
use std::path::PathBuf;
use std::time::Duration;
use testbed::TestbedError;

/// What went wrong with a peer.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Programs are not installed.
    #[error("not installed: {}; as root: scripts/setup bench, or: {command}", programs.join(", "))]
    Missing {
        /// The programs.
        programs: Vec<String>,
        /// What installs them.
        command: String,
    },
    /// Not root.
    #[error("the peers need network namespaces, huge pages and BPF: run it as root")]
    NotRoot,
    /// One processor.
    #[error(
        "the peers need two processors, one for the program that is measured and one for the rest; this \
         process may use {found}"
    )]
    Cores {
        /// How many there are.
        found: usize,
    },
    /// Too few huge pages.
    #[error(
        "the peers are measured with huge pages: {needed} of 2 MiB have to be free, {free} are; scripts/bench reserves \
         them, or: sysctl -w vm.nr_hugepages={needed}"
    )]
    HugePages {
        /// How many are free.
        free: u64,
        /// How many have to be.
        needed: u64,
    },
    /// A program ended, or did not begin its work.
    #[error("{peer}: {what} within {limit:?}; it printed:\n{output}")]
    NotReady {
        /// The program.
        peer: &'static str,
        /// What did not happen.
        what: &'static str,
        /// How long it was given.
        limit: Duration,
        /// Its output until then.
        output: String,
    },
    /// A program said something that is not understood, or not true.
    #[error("{peer}: {found}")]
    Unexpected {
        /// The program.
        peer: &'static str,
        /// What was found.
        found: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused something.
    #[error("{what}: {source}")]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A command failed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
}

/// Says which file it was.
pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> PeerError {
    let path = path.into();
    move |source| PeerError::File { path, source }
}

/// Says what was tried.
pub(crate) fn kernel<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> PeerError {
    move |source| PeerError::Kernel { what, source: source.into() }
}
