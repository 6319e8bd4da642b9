//! Functions saved with what they know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A function as it was at one moment, kept in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The function that was saved.
    pub function: String,
    /// Digest of its image.
    pub image: String,
    /// When it was saved.
    #[schemars(extend("format" = "date-time"))]
    pub saved: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// The function's spec at that moment; one that is restored under another name has it too.
    pub spec: Value,
}

/// What a snapshot is to be called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Save {
    /// Its name. A snapshot of this name must not be there yet.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"))]
    pub name: String,
}

/// Which function a snapshot becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// Its name: a new one for a clone. A function of this name is replaced, with what it knows.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"))]
    pub function: String,
}
