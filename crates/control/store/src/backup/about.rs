//! What an archive says of itself.

use serde::{Deserialize, Serialize};

/// The layout that is written and read here.
pub const FORMAT: u32 = 1;

/// The first entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The layout: [`FORMAT`].
    #[serde(rename = "superfluid_backup")]
    pub format: u32,
    /// The version of the program that wrote it.
    pub program: String,
    /// When, as RFC 3339 has it.
    pub created: String,
    /// The revision of the objects in it.
    pub revision: u64,
    /// How many files there are.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}
