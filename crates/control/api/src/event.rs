//! What happens, told to clients that follow.

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
    /// These are told as they happen, to clients that follow at that time; those of functions are kept, see
    /// `/v1/functions/{name}/events`.
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
