//! What can go wrong, one enum per operation.

use std::io;
use std::path::PathBuf;

use crate::object::{Precondition, Revision};

/// Why a store could not be opened. Nothing in its folder was changed then, but for a new folder that may be
/// left empty.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder is in use.
    #[error(
        "{folder}: the store is in use by another process or another part of this one; a store has one user at a time"
    )]
    InUse {
        /// The store's folder.
        folder: PathBuf,
    },
    /// A later version of the program wrote it.
    #[error(
        "{file}: the store has format version {found}, and this program reads up to {newest}; use the newer program, or a back-up that the older one made"
    )]
    Newer {
        /// The store's main file.
        file: PathBuf,
        /// The version found.
        found: u32,
        /// The newest version known here.
        newest: u32,
    },
    /// The store is damaged.
    #[error(
        "{file}: the store is damaged: {what}; restore a back-up into an empty folder (`superfluid restore`)"
    )]
    Damaged {
        /// The file in which it was seen.
        file: PathBuf,
        /// What was found, and what should have been.
        what: String,
    },
    /// Commits that were durable are gone.
    #[error(
        "{folder}: commits are lost: revision {durable} was durable, and the store ends at {found}; restore a back-up into an empty folder (`superfluid restore`), or remove the file `durable` to go on without them"
    )]
    Lost {
        /// The store's folder.
        folder: PathBuf,
        /// The last revision known to have been durable.
        durable: Revision,
        /// The last revision in the store.
        found: Revision,
    },
    /// More is stored than may be in memory.
    #[error("{folder}: the store holds {found} bytes, and at most {allowed} are allowed (max_bytes)")]
    TooLarge {
        /// The store's folder.
        folder: PathBuf,
        /// Bytes that the objects would take in memory.
        found: u64,
        /// The limit.
        allowed: u64,
    },
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The database refused, without the file being damaged.
    #[error("{file}: {what}")]
    Database {
        /// The store's main file.
        file: PathBuf,
        /// The database's own words.
        what: String,
    },
}

/// Why nothing was committed. The store is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A precondition did not hold.
    #[error("{kind} {name}: expected {expected}, found {}", found.map_or("no such object".into(), |version| format!("version {version}")))]
    Conflict {
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
        /// What was asked for.
        expected: Precondition,
        /// The version there is.
        found: Option<Revision>,
    },
    /// An object is changed twice in one commit.
    #[error("{kind} {name}: changed twice in one commit, and once is allowed")]
    Twice {
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
    },
    /// A kind, a name, a value or a commit is too long, or empty.
    #[error("{of}: {what} of {found}, and {least} to {most} are allowed")]
    Size {
        /// The object, or the commit.
        of: String,
        /// What is counted, with its unit.
        what: &'static str,
        /// What was found.
        found: usize,
        /// The smallest that is allowed.
        least: usize,
        /// The largest that is allowed.
        most: usize,
    },
    /// The store's memory is used up.
    #[error("the store would hold {found} bytes, and at most {allowed} are allowed (max_bytes)")]
    TooLarge {
        /// Bytes that the objects would take in memory.
        found: u64,
        /// The limit.
        allowed: u64,
    },
    /// The disk is full. When there is space again, commits succeed again.
    #[error("the store's disk is full: {0}; free some space and try again")]
    DiskFull(String),
    /// The database could not write. The next commit may succeed.
    #[error("the store could not be written: {0}")]
    Write(String),
    /// A file of the store was removed or replaced. What is committed into it would be gone with the process.
    #[error("{0}; nothing is accepted until the store is opened again")]
    Removed(String),
    /// Something could not be made durable earlier, and so nothing is accepted any more.
    #[error(transparent)]
    NotDurable(#[from] NotDurable),
}

/// Why a commit is not known to be on disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotDurable {
    /// The system could not write to disk what it had accepted. It may have dropped it, and to ask again
    /// would be told that all is well; therefore this is final until the store is opened again.
    #[error(
        "the store could not be made durable after revision {after}: {what}; nothing more is accepted until it is opened again"
    )]
    Failed {
        /// The last revision that is certainly on disk.
        after: Revision,
        /// The system's answer.
        what: String,
    },
    /// No such commit was made.
    #[error("revision {asked} was not committed yet; the last one is {last}")]
    NotCommitted {
        /// The revision asked for.
        asked: Revision,
        /// The last one there is.
        last: Revision,
    },
}

/// Why the changes after a revision cannot be told: a follower of the store lists it anew and goes on from
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the changes after revision {asked} are gone; those after {oldest} up to {newest} are known; list the objects anew"
)]
pub struct Gone {
    /// The revision asked for.
    pub asked: Revision,
    /// The earliest that can be asked for.
    pub oldest: Revision,
    /// The store's revision.
    pub newest: Revision,
}

/// Why a back-up could not be made. What was begun of it is removed.
#[derive(Debug, thiserror::Error)]
pub enum BackUpError {
    /// There is something already.
    #[error("{0}: a back-up is written to a folder that is empty or does not exist yet")]
    NotEmpty(PathBuf),
    /// The path cannot be said to the database.
    #[error("{0}: the path of a back-up must be valid UTF-8")]
    NotUtf8(PathBuf),
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no room for the copy.
    #[error("{folder}: the disk is full: {what}; free some space and try again")]
    DiskFull {
        /// The back-up's folder.
        folder: PathBuf,
        /// The database's own words.
        what: String,
    },
    /// The database could not copy.
    #[error("{folder}: {what}")]
    Copy {
        /// The back-up's folder.
        folder: PathBuf,
        /// The database's own words.
        what: String,
    },
    /// The copy was read back and is not right.
    #[error(transparent)]
    Check(#[from] OpenError),
}
