//! What a change changes.

use crate::ObjectName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a change made different, or would. Each object that the change named stands in one of the first three
/// lists, or in `deleted`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Nothing was changed: it was only tried.
    pub dry_run: bool,
    /// The revision after the change; of a change that was only tried, the present one.
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub revision: u64,
    /// What there was not before.
    pub created: Vec<ObjectName>,
    /// What was something else before.
    pub changed: Vec<ObjectName>,
    /// What was as it should be. It is not touched.
    pub unchanged: Vec<ObjectName>,
    /// What there is no more.
    pub deleted: Vec<ObjectName>,
    /// Functions that were running and begin anew, without what they knew, because the change does not allow
    /// otherwise.
    pub restarted: Vec<String>,
    /// Of functions whose image was named by a tag or as a file: their image with the digest that it is
    /// pinned to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, String>,
}

impl Difference {
    /// Is all as it was?
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.changed.is_empty() && self.deleted.is_empty()
    }
}
