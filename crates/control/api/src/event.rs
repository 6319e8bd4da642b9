//! What happens, told to clients that follow, and kept for an hour for those that come later.

use crate::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Happened {
    /// It was created or replaced.
    Put,
    /// It was deleted.
    Deleted,
}

/// One line of the stream of events. `event` says which it is; readers pass over those that they do not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// An object was created, replaced or deleted. All objects of one change have its revision; to go on
    /// later, ask for the events after the last revision whose lines came all.
    Changed {
        /// The change.
        #[schemars(range(min = 1, max = 9_007_199_254_740_991_u64))]
        revision: u64,
        /// The object's kind.
        kind: Kind,
        /// The object's name.
        name: String,
        /// What happened.
        happened: Happened,
    },
    /// Something happened to what runs: a function failed or was started again, a port went down or came up.
    /// These are told as they happen, to clients that follow at that time. `/v1/past-events` has those of the
    /// last hour, and `/v1/functions/{name}/events` keeps those of a function, with what it found.
    Notice {
        /// When.
        #[schemars(extend("format" = "date-time"))]
        time: String,
        /// Kind of the object that it happened to.
        kind: Kind,
        /// Name of the object that it happened to.
        name: String,
        /// What, in one word: `fault`, `restarted`, `up`, `down`.
        what: String,
        /// What, in words for the operator.
        text: String,
    },
    /// Nothing happened for a while, and the stream is alive. All changes up to this revision have been told.
    Alive {
        /// The last revision.
        #[schemars(range(max = 9_007_199_254_740_991_u64))]
        revision: u64,
    },
    /// Notices were lost, because the reader was too slow. Changes were not.
    Lost {
        /// How many.
        notices: u64,
    },
    /// The reader was too slow and changes are no longer known. The last line: list the objects anew and
    /// follow from there.
    Gone {
        /// Changes after this revision can still be asked for.
        #[schemars(range(max = 9_007_199_254_740_991_u64))]
        oldest: u64,
        /// The last revision.
        #[schemars(range(max = 9_007_199_254_740_991_u64))]
        newest: u64,
    },
}

/// What happened in the last hour, from the daemon's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PastEvents {
    /// All that happened after this is here. Before it the daemon was started, or there were more events than
    /// are kept or were asked for.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// The events, in the order of time.
    pub items: Vec<PastEvent>,
}

/// One thing that happened: a change of an object, or a notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PastEvent {
    /// When, by the clock as it was then.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// How long ago that is, in milliseconds: a clock that was set meanwhile makes no difference.
    pub age_ms: u64,
    /// Kind of the object.
    pub kind: Kind,
    /// Name of the object.
    pub name: String,
    /// What, in one word: `put` and `deleted` of changes, `fault`, `restarted`, `up`, `down`, `moved`,
    /// `notice` of notices. What functions find is not here: it is kept for each of them.
    pub what: String,
    /// What, in words for the operator, of a notice. A long one is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The revision of a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_u64))]
    pub revision: Option<u64>,
}
