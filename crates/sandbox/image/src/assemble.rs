//! Makes an image of a compiler's output and a manifest.

use crate::{Image, ImageError, Lowered, Names, RewriteError, rewrite_counted};
use nf_abi::MANIFEST_SECTION;
use std::borrow::Cow;
use thiserror::Error;
use wasm_encoder::{CustomSection, Section};

/// Why a module and a manifest make no image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AssembleError {
    /// The module cannot be rewritten.
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    /// The outcome is refused as any such image would be.
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// Rewrites a module as a compiler emits it, puts the manifest's text into it and loads the outcome.
///
/// # Errors
/// As [`crate::rewrite`] and [`Image::load`].
pub fn assemble(module: &[u8], manifest: &str, names: Names) -> Result<(Image, Lowered), AssembleError> {
    let mut rewritten = rewrite_counted(module, names)?;
    let section = CustomSection { name: MANIFEST_SECTION.into(), data: Cow::Borrowed(manifest.as_bytes()) };
    section.append_to(&mut rewritten.wasm);
    Ok((Image::load(&rewritten.wasm)?, rewritten.lowered))
}
