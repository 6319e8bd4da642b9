//! Images that functions can be made from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An image on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// What a function's `image` calls it: a name, a file, or a tag in a registry.
    pub reference: String,
    /// The same with the digest that functions are pinned to: of a file, the image's own; of a registry's,
    /// that of its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// The digest of the image itself, `sha256:` and 64 digits, as a function's status has it.
    pub digest: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it has been compiled for this host, so that functions are made from it at once.
    pub compiled: bool,
    /// How many functions are made from it.
    #[serde(default)]
    pub functions: u64,
    /// Version of the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it does, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}
