//! The manifest without what only its author reads.

use super::{CutError, with_manifest};
use crate::Image;

/// The image with its manifest's lines that are comments, and empty ones, left out. Whether what is left says
/// the same is for the caller to check: in a block of text such a line would be text.
pub(super) fn without_comments(image: &Image) -> Result<Vec<u8>, CutError> {
    let text: String = image
        .manifest()
        .source
        .lines()
        .filter_map(|line| {
            let kept = line.find(" #").map_or(line, |at| &line[..at]);
            let kept = if line.trim_start().starts_with('#') { "" } else { kept.trim_end() };
            (!kept.is_empty()).then(|| format!("{kept}\n"))
        })
        .collect();
    with_manifest(image, &text)
}
