//! Why an image is not made.

use std::io;
use std::path::{Path, PathBuf};

/// Why an image is not made: one line, with what was found and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// What is asked for is wrong.
    #[error("{what}: found {found}; allowed: {allowed}")]
    Input {
        /// Which part of the request.
        what: &'static str,
        /// What it is.
        found: String,
        /// What it could be.
        allowed: String,
    },
    /// A program of this host is needed, and not there.
    #[error("there is no `{program}` (Debian: {package})")]
    Missing {
        /// Which.
        program: String,
        /// The package that has it.
        package: &'static str,
    },
    /// Such a program did not do its work.
    #[error("`{command}`: {told}")]
    Command {
        /// What was run.
        command: String,
        /// The last it said.
        told: String,
    },
    /// A library that nothing has.
    #[error("{program} needs the library `{library}`, which is not in {searched}")]
    Library {
        /// What needs it.
        program: String,
        /// Its name.
        library: String,
        /// Where it was looked for.
        searched: String,
    },
    /// Programs of a package that cannot be run without being told more.
    #[error("{0}")]
    Unclear(String),
    /// There is not enough room on the disk.
    #[error("{path}: found {found} MiB of free space; allowed: at least {needed} MiB, {why}")]
    Space {
        /// Where.
        path: PathBuf,
        /// How much there is.
        found: u64,
        /// How much is needed.
        needed: u64,
        /// For what.
        why: &'static str,
    },
    /// A kernel that does not work with everything in it.
    #[error("the program's test fails with every option in the kernel: {0}")]
    Test(String),
    /// A file or folder.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl BuildError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> BuildError {
        let path = path.to_owned();
        move |source| BuildError::File { path, source }
    }

    pub(crate) fn input(
        what: &'static str,
        found: impl std::fmt::Display,
        allowed: impl Into<String>,
    ) -> BuildError {
        let found = printable::harmless(&format!("`{found}`"), 256);
        BuildError::Input { what, found, allowed: allowed.into() }
    }

    /// Whether it is the caller's mistake.
    pub fn is_input(&self) -> bool {
        matches!(self, BuildError::Input { .. } | BuildError::Unclear(_) | BuildError::Library { .. })
    }

    /// Whether this host lacks something.
    pub fn is_missing(&self) -> bool {
        matches!(self, BuildError::Missing { .. } | BuildError::Space { .. })
    }
}
