//! What a document would come to.

use crate::{Difference, Fault};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a document comes to that was checked, and nothing more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckReport {
    /// All that is wrong with it; nothing, if it can be applied as far as can be told without starting
    /// anything.
    pub faults: Vec<PlacedFault>,
    /// What is allowed but probably not meant, and what could not be checked.
    pub warnings: Vec<PlacedFault>,
    /// What applying it would change, where nothing is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

/// A [`Fault`], with its place in the text that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlacedFault {
    /// The way down from the document's top, `functions.fw.config.rules[2].action`; empty for the whole.
    pub at: String,
    /// What was found, and what is allowed.
    pub message: String,
    /// The line, counted from 1; absent where the text has no such place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column in that line, in characters, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl PlacedFault {
    /// A fault at a line and a column.
    pub fn new(fault: Fault, place: Option<(u32, u32)>) -> PlacedFault {
        let Fault { at, message, .. } = fault;
        PlacedFault {
            at,
            message,
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
        }
    }
}
