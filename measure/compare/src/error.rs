//! What keeps captures from being compared.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// Why something could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program could not be started.
    #[error("{program}: {source}")]
    Start {
        /// The program.
        program: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A program did not end in time, and was killed.
    #[error("{program}: it did not end within {limit:?}")]
    TimeOut {
        /// The program.
        program: &'static str,
        /// How long it was given.
        limit: Duration,
    },
    /// A program failed or crashed.
    #[error("{program}: {status}; it said:\n{words}")]
    Failed {
        /// The program.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// Its standard error.
        words: String,
    },
    /// A program said something that is not understood, or not all of what it has.
    #[error("{program}: {found}")]
    Unexpected {
        /// The program.
        program: &'static str,
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
    /// What a peer needs is missing or broken.
    #[error(transparent)]
    Peer(#[from] peers::PeerError),
    /// A command failed.
    #[error(transparent)]
    Testbed(#[from] testbed::TestbedError),
}

impl Error {
    pub(crate) fn file(path: &Path, source: io::Error) -> Error {
        Error::File { path: path.to_owned(), source }
    }
}
