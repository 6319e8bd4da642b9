//! What functions find, what happens to them, and what they report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an event of a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FunctionEventKind {
    /// It found something.
    Alert,
    /// It trapped, ran too long, or could not be started.
    Fault,
    /// It was started again.
    Restarted,
    /// Alerts or log lines were lost before this one: they came faster than they could be kept.
    Lost,
}

/// An event of a function, kept by the daemon: a bounded number of each function, over a restart of the
/// daemon too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionEvent {
    /// Its number: they grow by one, so that a gap shows events that are no longer kept.
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_u64))]
    pub number: u64,
    /// When the daemon took it.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// What it is.
    pub what: FunctionEventKind,
    /// Of faults and restarts: what happened, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Of alerts: what the function found, a JSON object if it keeps its contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<Value>,
    /// Of `lost`: how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
}

/// What a function reports of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionReport {
    /// When it did.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// True: as it is now, or was less than a second ago. False: it could not be asked, and this is what it
    /// reported last.
    pub current: bool,
    /// What it reported, JSON if it keeps its contract.
    pub report: Value,
}
