//! Work that takes longer than a request should.

use crate::{Difference, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperationState {
    /// Others come first.
    Waiting,
    /// It is being worked on.
    Running,
    /// It is done: `difference` says what it changed.
    Done,
    /// It came to nothing: `problem` says why. Nothing was changed.
    Failed,
}

/// A change that needs work first, such as compiling an image. It is carried out when that is done, whether
/// or not a client waits. Operations are forgotten when the daemon ends, those under way with what they were
/// about to change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Names it in paths.
    pub id: String,
    /// What is done, in words for the operator.
    pub what: String,
    /// How far it is.
    pub state: OperationState,
    /// When it was asked for.
    #[schemars(extend("format" = "date-time"))]
    pub asked: String,
    /// When it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub ended: Option<String>,
    /// What it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}
