//! What can be set, and the fixed bounds.

use std::time::Duration;

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long the first commit after a rest waits for others before all are written to disk together. A
    /// thread that waits for durability cuts it short. With the time that the disk takes, and a write that is
    /// under way already, this makes up the 10 ms that are promised.
    pub gather: Duration,
    /// Changes kept in memory for followers of the store.
    pub changes_kept: usize,
    /// Bytes that all objects together may take in memory, names and bookkeeping included.
    pub max_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { gather: Duration::from_millis(2), changes_kept: 16_384, max_bytes: 1 << 30 }
    }
}

/// Bytes of a kind, at most.
pub const KIND_MAX: usize = 64;
/// Bytes of a name, at most.
pub const NAME_MAX: usize = 1_024;
/// Bytes of a value, at most.
pub const VALUE_MAX: usize = 4 << 20;
/// Changes of a commit, at most.
pub const CHANGES_MAX: usize = 10_000;
/// Objects of a page, at most; a request for more gets so many.
pub const PAGE_MAX: usize = 10_000;
/// Commits that may be acknowledged and not yet durable. A commit beyond waits for the disk. This is also by
/// how much revisions skip after a crash, so that none is given out twice that the disk never saw.
pub(crate) const UNDURABLE_MAX: u64 = 1 << 20;
/// Bytes of the log, about, from which on it is carried over into the main file in the background.
pub(crate) const LOG_CARRY: u64 = 8 << 20;
/// Bytes of the log, about, from which on commits wait while it is carried over.
pub(crate) const LOG_MAX: u64 = 4 * LOG_CARRY;
