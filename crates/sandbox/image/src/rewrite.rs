//! Turns what compilers emit into a module that the engine accepts.
//!
//! 1. The module is surveyed: validated with the proposals that compilers switch on by themselves, and
//!    refused when it holds what cannot be rewritten.
//! 2. Its sections are written anew. `memory.copy` and `memory.fill` become calls of two guest functions
//!    ([`bulk`]) appended after the module's own, so that no index shifts; every mutable global is exported;
//!    the memory loses its maximum, which is the manifest's to say; encodings of the reference-types proposal
//!    become plain ones; custom sections go.
//! 3. The outcome is validated with [`crate::limits::FEATURES`]: what does not pass is refused here, not at
//!    load.
//!
//! Rewriting what was rewritten before changes nothing.

mod bulk;
mod encode;
mod error;
mod survey;

pub use error::RewriteError;

use crate::limits;
use wasmparser::{BinaryReaderError, Validator};

/// What becomes of the section that names the functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// It is dropped.
    #[default]
    Dropped,
    /// It is kept, so that a trap's trace shows names; costs up to half the image's size.
    Kept,
}

/// What the rewriting pass did, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lowered {
    /// `memory.copy` instructions that became calls.
    pub memory_copies: u32,
    /// `memory.fill` instructions that became calls.
    pub memory_fills: u32,
    /// `select` instructions with a type that lost it.
    pub typed_selects: u32,
    /// Mutable globals that got an export.
    pub exported_globals: u32,
    /// Custom sections that were dropped.
    pub dropped_sections: u32,
}

/// A rewritten module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The module. It has no manifest yet.
    pub wasm: Vec<u8>,
    /// What was done to it.
    pub lowered: Lowered,
}

/// [`rewrite_counted`] without names and counts.
///
/// # Errors
/// As [`rewrite_counted`].
pub fn rewrite(wasm: &[u8]) -> Result<Vec<u8>, RewriteError> {
    rewrite_counted(wasm, Names::Dropped).map(|rewritten| rewritten.wasm)
}

/// Rewrites a module as compilers emit it.
///
/// # Errors
/// What was found that no image can hold, with the function's name where it lies in a function.
pub fn rewrite_counted(wasm: &[u8], names: Names) -> Result<Rewritten, RewriteError> {
    if wasm.len() > limits::IMAGE_BYTES {
        return Err(RewriteError::TooLarge { found: wasm.len(), allowed: limits::IMAGE_BYTES });
    }
    let survey = survey::survey(wasm)?;
    let rewritten = encode::encode(wasm, &survey, names)?;
    Validator::new_with_features(limits::FEATURES)
        .validate_all(&rewritten.wasm)
        .map_err(|error| RewriteError::Unsupported { message: error.message().to_owned() })?;
    Ok(rewritten)
}

fn invalid(error: BinaryReaderError) -> RewriteError {
    RewriteError::Invalid { message: error.message().to_owned(), offset: error.offset() }
}
