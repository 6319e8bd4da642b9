//! What functions say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A line that a function wrote to its log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// Its number: they grow by one, so that a gap shows lines that are no longer kept.
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_u64))]
    pub number: u64,
    /// When it was written.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// `error`, `warning`, `notice` or `debug`.
    pub severity: String,
    /// What it says.
    pub text: String,
}
