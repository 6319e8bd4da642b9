//! Backups: what a daemon keeps, as one file.
//!
//! The life of a backup:
//! 1. The daemon puts a copy of its store, and links to its images and snapshots, into a folder, while
//!    nothing can be changed.
//! 2. [`write`] makes an archive of that folder, which is sent to the client that asked while it is made.
//! 3. The client reads it through ([`check`]) before it is believed, and [`unpack`] makes the folder again.
//!
//! An archive is a tar file, so that one can look into it with what every system has. In this order:
//!
//! | entry | |
//! |---|---|
//! | `superfluid-backup.json` | [`About`]: the version of this layout, the program, the time, the revision, how many files and bytes follow |
//! | files | as in the daemon's state, in the order of their names; which there can be says [`is_part`] |
//! | `SHA256SUMS` | what `sha256sum --check` reads, of all files before it |
//!
//! So an archive that was cut off is told by what is missing, and one that was damaged by a checksum. What is
//! read is not believed: entries are plain files of known names, each once; links, devices, folders, paths
//! that lead elsewhere and extended headers are refused, and what comes is counted against what the first
//! entry says. Nothing is compressed, so that nothing takes more room than the archive.
//!
//! Limits: [`FILES_MAX`] files. Names have at most 255 bytes.

mod about;
mod error;
mod names;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use about::{About, FORMAT};
pub use error::{BackupError, WriteError};
pub use names::is_part;
pub use read::{check, unpack};
pub use write::write;

/// Most files of an archive.
pub const FILES_MAX: u64 = 1 << 22;

/// The entry that comes first.
const ABOUT: &str = "superfluid-backup.json";
/// The entry that comes last.
const SUMS: &str = "SHA256SUMS";
/// Longest first entry, in bytes.
const ABOUT_MAX: u64 = 64 << 10;
/// Longest name of a file, in bytes.
const NAME_MAX: u64 = 255;
