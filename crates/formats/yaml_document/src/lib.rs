//! YAML text as a tree whose every node knows its line and column, and faults that say where they are.
//!
//! The life of a document:
//! 1. [`text`] takes a file's bytes for UTF-8, or says at which byte they are not.
//! 2. [`Document::parse`] makes a tree of [`Node`]s, or one [`Fault`].
//! 3. A reader walks the tree with a [`Location`], which remembers the way down (`ports.lan.mtu`), and
//!    reports what is wrong there with [`Location::report`]; all faults of a text are collected, not only the
//!    first.
//! 4. [`spelling`] finds the name that was probably meant, and words the names that were allowed.
//!
//! Scalars stay text: what `10` means is for the reader to decide. Of YAML 1.2 this leaves out what a
//! configuration has no use for and what makes it surprising: anchors and aliases, tags, several documents in
//! one text, keys that are not text, and keys given twice are refused.
//!
//! Limits: [`MAX_TEXT`] bytes, [`MAX_DEPTH`] levels, [`MAX_NODES`] nodes; [`MAX_FAULTS`] faults of one text
//! are told.

#![forbid(unsafe_code)]

mod location;
mod node;
mod parse;
pub mod spelling;
#[cfg(test)]
mod tests;

pub use location::{Fault, FaultKind, Location, Position};
pub use node::{Document, Key, Node, NodeValue};
pub use parse::text;

/// Longest text, in bytes.
pub const MAX_TEXT: usize = 4 << 20;

/// Deepest nesting of lists and maps.
pub const MAX_DEPTH: usize = 64;

/// Most scalars, lists and maps in one document.
pub const MAX_NODES: usize = 1_000_000;

/// Most faults that are collected; the last one then says that there are more.
pub const MAX_FAULTS: usize = 1000;
