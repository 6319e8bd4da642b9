//! Manifests: what a network function says of itself, in its folder's `function.yaml` and inside its image.
//!
//! The life of a manifest:
//! 1. Its author writes `function.yaml` beside the source.
//! 2. When the image is built the text is checked by [`Manifest::parse`] and goes into the image, unchanged.
//! 3. The loader of the image parses it again: an image may come from anywhere.
//! 4. The operator's configuration is checked against [`Manifest::schema`].
//!
//! ```yaml
//! name: firewall                  # a lower-case letter, then letters, digits and `-`
//! version: 1.0.0
//! abi: 1
//! summary: Drops what no rule lets through.
//! language: rust                  # rust or c
//! access: read                    # write: the function may change the bytes of packets
//! interfaces: [inside, outside]   # in the order of their numbers
//! optional_interfaces: [outside]  # optional: those that may have no wire
//! memory_limit: 128MiB
//! resident: 64MiB                 # optional: populated at the start; default: what it has then, from 2 MiB on
//! drop_reasons: [denied, invalid] # optional
//! counters: [accepted]            # optional
//! memory_layout: 1                # optional: other images with the same one go on with this one's memory
//! differences: [routes_file]      # optional: files of `config` whose changes it takes while it runs
//! config:                         # optional: the schema of the function's configuration
//!   max_flows: {type: integer, min: 1, max: 4000000, default: 65536}
//! ```
//!
//! Limits: [`MAX_TEXT`] bytes; 64 interfaces, 256 drop reasons, 256 counters; private memory below the packet
//! window.

#![forbid(unsafe_code)]

mod parse;
#[cfg(test)]
mod tests;

use schema::Schema;
use std::fmt;

/// Longest manifest, in bytes.
pub const MAX_TEXT: usize = 256 << 10;

/// What a function says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its name.
    pub name: FunctionName,
    /// Its version, `MAJOR.MINOR.PATCH`.
    pub version: String,
    /// Version of the contract with the host; equal to [`nf_abi::ABI_VERSION`].
    pub abi: u32,
    /// What it does, in one line.
    pub summary: String,
    /// How its source is compiled.
    pub language: Language,
    /// What it may do with the bytes of packets.
    pub access: Access,
    /// Names of its interfaces in the order of their numbers; at least one.
    pub interfaces: Vec<String>,
    /// Those of them that may be left without a wire.
    pub optional_interfaces: Vec<String>,
    /// Most private memory of an instance, in bytes; at most [`nf_abi::PRIVATE_MAX`].
    pub memory_limit: u64,
    /// Bytes of it that are populated when an instance starts, at most `memory_limit`; `None`: what it has
    /// when it has started.
    pub resident: Option<u64>,
    /// Names of its drop reasons in the order of their numbers.
    pub drop_reasons: Vec<String>,
    /// Names of its counters in the order of their numbers.
    pub counters: Vec<String>,
    /// Whether it reads the flow hash of packets.
    pub flow_hash: bool,
    /// Version of how it lays out its memory. Its author promises that an image with the same one goes on
    /// with the memory of another; without one, none but the same image does.
    pub memory_layout: Option<u32>,
    /// Files of its configuration of which it takes what has changed while it runs.
    pub differences: Vec<String>,
    /// What configuration it takes.
    pub schema: Schema,
    /// The text that all this was read from.
    pub source: String,
}

impl Manifest {
    /// The number of an interface that is given by name or by number.
    pub fn interface(&self, reference: &str) -> Option<u16> {
        let by_name = self.interfaces.iter().position(|name| name == reference);
        let by_number = || reference.parse().ok().filter(|n| *n < self.interfaces.len());
        by_name.or_else(by_number).and_then(|n| u16::try_from(n).ok())
    }
}

/// A function's name: a lower-case letter, then lower-case letters, digits and `-`, 32 characters at most.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionName(String);

impl FunctionName {
    /// `None` unless it is a name.
    pub fn new(text: &str) -> Option<FunctionName> {
        let name = text.len() <= 32
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        name.then(|| FunctionName(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a function's source is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// By cargo, for `wasm32-unknown-unknown`.
    Rust,
    /// By clang, freestanding.
    C,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Language::Rust => "rust",
            Language::C => "c",
        })
    }
}

/// What a function may do with the bytes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only read them: its packet window is mapped read-only.
    Read,
    /// Change them.
    Write,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
        })
    }
}
