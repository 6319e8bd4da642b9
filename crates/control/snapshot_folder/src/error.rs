//! What can be wrong with the folder, its key, or a file in it.

use std::io;

/// Why something was not done with the folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system refused.
    #[error("{file}: {source}")]
    Io {
        /// The file or folder.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// Something else than a regular file has the name.
    #[error("{file}: found {found}; allowed: a regular file")]
    NoFile {
        /// The file.
        file: String,
        /// What it is.
        found: &'static str,
    },
    /// The file has more bytes than are read.
    #[error("{file}: found {found} bytes; allowed: at most {allowed}")]
    Large {
        /// The file.
        file: String,
        /// Bytes that it has.
        found: u64,
        /// Most bytes.
        allowed: u64,
    },
    /// What was to be written has more bytes than it may.
    #[error("the snapshot `{name}` would have {found} bytes; allowed: at most {allowed}")]
    TooMuch {
        /// The snapshot.
        name: String,
        /// Bytes that it would have.
        found: u64,
        /// Most bytes.
        allowed: u64,
    },
    /// What was to be written has the name of something that stays as it is.
    #[error("`{name}` is no snapshot that can be read, and stays as it is; choose another name")]
    Unreadable {
        /// The snapshot.
        name: String,
    },
    /// The first line is not that of a snapshot.
    #[error("{file}: its first line: {reason}")]
    Line {
        /// The file.
        file: String,
        /// What was found.
        reason: String,
    },
    /// What follows the seal is not what was sealed.
    #[error("{file}: it is damaged: {found}, {sealed} was written")]
    Damaged {
        /// The file.
        file: String,
        /// Length or digest that was found.
        found: String,
        /// Length or digest of the seal.
        sealed: String,
    },
    /// What follows is no snapshot of a function.
    #[error("{file}: {source}")]
    Snapshot {
        /// The file.
        file: String,
        /// Why.
        source: snapshot::DecodeError,
    },
    /// What was saved cannot be a snapshot.
    #[error(transparent)]
    Content(#[from] snapshot::ContentError),
    /// The file of keys is none.
    #[error(
        "{file}: {reason}; allowed: the file as the daemon wrote it; without the file a new key is made, and all snapshots count as imported"
    )]
    Key {
        /// The file.
        file: String,
        /// What was found.
        reason: String,
    },
    /// The system has no random numbers.
    #[error("the system has no random numbers for a key")]
    Random,
}

impl FolderError {
    /// Whether there is no room on the disk.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, FolderError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }
}
