//! The folder in which a host keeps its snapshots: one file for each, sealed with a key that only this host
//! has.
//!
//! The life of a snapshot's file:
//! 1. [`Folder::write`] writes what the snapshot is ([`api::Snapshot`], one line of JSON), a seal, and the
//!    function as [`snapshot`] encodes it. The seal is an HMAC-SHA-256 over the snapshot's name, that line,
//!    and length and SHA-256 of the rest.
//! 2. [`Folder::list`] and [`Folder::read`] check the seal. A snapshot whose seal is right is this host's
//!    own, and what it says of its tenant is believed. Any other is *imported*: it has no tenant, and only
//!    administrators see it.
//! 3. [`Folder::load`] reads the rest, and refuses it when it is not what the seal says.
//! 4. [`Folder::adopt`] gives an imported snapshot to a tenant and seals it.
//! 5. [`Folder::rotate`] makes a new key, seals the host's own snapshots with it, and forgets the key before.
//!
//! An imported snapshot is hostile input: every length in it is bounded, and nothing it says decides whose it
//! is.
//!
//! Files in it are opened relative to the folder's descriptor, without following links and without waiting
//! for a pipe; only regular files are read. Names are [`api::Name`]s, which are single components of a path.
//!
//! Limits: files of at most 1 GiB, first lines of at most 4 MiB. One process uses a folder at a time.
//! Replacing a file by an older one of the same name that the same key has sealed is not noticed.

#![forbid(unsafe_code)]

mod error;
mod file;
mod files;
mod folder;
mod key;
mod seal;
mod sizes;
#[cfg(test)]
mod tests;

pub use error::FolderError;
pub use file::{FILE_MAX, LINE_MAX, encoded, read};
pub use folder::{Folder, Rotated};
pub use key::{KEY_FILE, Key, Keys};
