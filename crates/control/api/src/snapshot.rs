//! Functions saved with what they know.

use crate::Name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A function as it was at one moment, kept in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Its name.
    pub name: Name,
    /// The function that was saved.
    pub function: Name,
    /// Digest of its image.
    pub image: String,
    /// When it was saved.
    #[schemars(extend("format" = "date-time"))]
    pub saved: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// The tenant that it belongs to; one that is imported belongs to none, and administrators alone see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Name>,
    /// This host has not sealed it as it is: it comes from elsewhere, was changed, or was saved before there
    /// were seals.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
    /// The function's spec at that moment; one that is restored under another name has it too.
    pub spec: Value,
}

/// What a snapshot is to be called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Save {
    /// Its name. A snapshot of this name must not be there yet.
    pub name: Name,
}

/// Whose an imported snapshot becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adopt {
    /// The tenant; it must be there.
    pub tenant: Name,
}

/// What a new key for snapshots has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RotatedKey {
    /// The number of the key, which is no secret.
    pub key: String,
    /// Snapshots that it has sealed.
    pub sealed: u64,
    /// Snapshots that are imported, and stay so.
    pub imported: u64,
}

/// Which function a snapshot becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// Its name: a new one for a clone. A function of this name is replaced, with what it knows.
    pub function: Name,
}
