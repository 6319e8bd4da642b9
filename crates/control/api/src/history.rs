//! What passed in the last hour.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All objects at one step of the history. Steps are seconds since the daemon's start, counted from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryMoment {
    /// When the daemon was started: what was before is not known.
    #[schemars(extend("format" = "date-time"))]
    pub started: String,
    /// When step 0 was, in milliseconds since 1970, by the clock as it is now: a clock that is set moves all
    /// steps.
    pub start_ms: u64,
    /// The first step that is known.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// The step that this is.
    pub at: u64,
    /// Its length, 1 or 10 seconds: counts are sums over it.
    pub seconds: u64,
    /// Another number whenever other objects are there than before, at the last step.
    pub layout: u64,
    /// Objects for which there is no room, so that they are not here.
    pub left_out: u64,
    /// The objects, by kind: `function`, `port`, `device`, `edge`, `tenant`, and for all but tenants
    /// `worker`, `pool` and `host`.
    pub objects: BTreeMap<String, HistoryObjects>,
}

/// Objects of a kind, as columns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryObjects {
    /// Their names; of an edge its kind and ends, such as `wire/lan~fw:inside`. Left out where the client has
    /// said that it knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// Whose they are, in the order of their names; null: the host's, or not of one tenant alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<Option<String>>>,
    /// Their values, in the order of their names.
    pub values: BTreeMap<String, Vec<u64>>,
}

/// One object over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryLine {
    /// When the daemon was started: what was before is not known.
    #[schemars(extend("format" = "date-time"))]
    pub started: String,
    /// When step 0 was, in milliseconds since 1970, by the clock as it is now.
    pub start_ms: u64,
    /// Kind and name: `function/fw`.
    pub of: String,
    /// The first step that is known of anything.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// In steps of ten seconds, what is before `fine`.
    pub coarse: HistorySpan,
    /// In steps of a second.
    pub fine: HistorySpan,
    /// More of the last minute: of functions and ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minute: Option<HistoryMinute>,
}

/// A part of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistorySpan {
    /// Its first step.
    pub from: u64,
    /// The length of a step in seconds: counts are sums over it.
    pub seconds: u64,
    /// The values, in the order of time.
    pub values: BTreeMap<String, Vec<u64>>,
}

/// What was counted in the last minute, give or take ten seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryMinute {
    /// Packets that were dropped or lost, by reason; a function's own reasons too.
    pub drops: BTreeMap<String, u64>,
    /// How long packets took.
    pub latency: HistoryLatency,
}

/// How long packets took: a histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryLatency {
    /// The upper bounds of the parts, in nanoseconds.
    pub bounds_ns: Vec<u64>,
    /// Packets of each part; the last is of those above all bounds. Empty if nothing was counted.
    pub counts: Vec<u64>,
}
