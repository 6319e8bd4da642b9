//! What can go wrong.

use crate::backup::FILES_MAX;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why an archive is not written to its end.
#[derive(Debug, Error)]
pub enum WriteError {
    /// A file of the folder.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There are too many.
    #[error("{found} files; allowed: {FILES_MAX}, the most of a backup")]
    Many {
        /// How many.
        found: u64,
    },
    /// The archive could not be written.
    #[error("the backup was not taken: {0}")]
    Archive(#[source] io::Error),
}

/// Why an archive is not what it should be, or could not be unpacked.
#[derive(Debug, Error)]
pub enum BackupError {
    /// It does not begin as backups do.
    #[error("this is no backup: {0}; allowed: a file that `superfluid backup` wrote")]
    NoBackup(String),
    /// It is of another layout.
    #[error("this backup has layout {found}, written by superfluid {program}; allowed: layout {allowed}")]
    Format {
        /// Its layout.
        found: u32,
        /// The program that wrote it.
        program: String,
        /// The layout that is read here.
        allowed: u32,
    },
    /// It ends too early, or its entries cannot be told apart.
    #[error("this backup was cut off or damaged after {files} of {of} files: {reason}")]
    CutOff {
        /// Whole files before it.
        files: u64,
        /// Files that there should be.
        of: u64,
        /// What was found.
        reason: String,
    },
    /// Something is in it that `superfluid backup` does not write.
    #[error("this backup is damaged: found {found}; allowed: {allowed}")]
    Entry {
        /// What.
        found: String,
        /// What could be there.
        allowed: &'static str,
    },
    /// A file is not what it was.
    #[error("this backup is damaged: {name} does not have the checksum that it had")]
    Sum {
        /// The file.
        name: String,
    },
    /// A file could not be written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}
