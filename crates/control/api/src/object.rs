//! Objects as they are sent and answered.

use crate::{Kind, ObjectName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a client wants an object to be: the body of a PUT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Desired {
    /// What stands in the operator's file for this entry, as JSON: sizes, times, rates and shares are text
    /// with a unit.
    pub spec: Value,
}

/// An object: what it is to be, and how it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its name among that kind.
    pub name: String,
    /// The revision that last wrote it. `If-Match` takes it, in quotes.
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_u64))]
    pub version: u64,
    /// What it is to be: what stands in the operator's file for this entry, as JSON.
    pub spec: Value,
    /// How it is, as far as there is something to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
}

impl Object {
    /// Which object it is.
    pub fn id(&self) -> ObjectName {
        ObjectName::new(self.kind, self.name.clone())
    }
}

/// A part of the objects of one kind, in the order of their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct List {
    /// The objects.
    pub items: Vec<Object>,
    /// The revision that the list shows; a client that follows the events after it misses nothing.
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub revision: u64,
    /// There are more: `after` for the next part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How the daemon is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Whether changes are accepted, and written to disk and to the audit log.
    pub healthy: bool,
    /// What is not as it should be, one line each.
    pub troubles: Vec<String>,
    /// What does not pass packets as it should, one line each: ports that are down, or lose more than they
    /// pass on. The daemon itself is as it should be all the same.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Version of the program.
    pub version: String,
    /// When the daemon started.
    #[schemars(extend("format" = "date-time"))]
    pub started: String,
    /// How many objects there are.
    pub objects: u64,
    /// The last revision.
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub revision: u64,
    /// The last revision that is on disk.
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub durable: u64,
}

/// What an interface of a function is attached to, as its `attach` says it: in a text, or in a map's `to`.
pub fn attached_to(end: &Value) -> Option<&str> {
    end.as_str().or_else(|| end.get("to")?.as_str())
}
