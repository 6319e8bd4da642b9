//! Images that functions can be made from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An image on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// What a function's `image` calls it.
    pub reference: String,
    /// Its digest, `sha256:` and 64 digits.
    pub digest: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it has been compiled for this host, so that functions are made from it at once.
    pub compiled: bool,
    /// Version of the function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it does, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}
