//! What makes a graph impossible to place.

use crate::graph::Part;
use thiserror::Error;

/// Why a graph cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GraphFault {
    /// There is no worker.
    #[error("there are 0 workers; at least 1 is needed")]
    NoWorkers,
    /// A wire or a pair names a part that does not exist.
    #[error("part {} is named in a pair, but there are only {count} parts", part.0)]
    NoSuchPart {
        /// As it was named.
        part: Part,
        /// How many there are.
        count: usize,
    },
    /// A part is pinned to a worker that does not exist.
    #[error("part {} is pinned to worker {worker}, but there are only {workers} workers", part.0)]
    NoSuchWorker {
        /// The part that is pinned.
        part: Part,
        /// The worker that it is pinned to.
        worker: usize,
        /// How many there are.
        workers: usize,
    },
    /// Two that may never be apart are pinned to different workers.
    #[error("parts {} and {} may not be apart, but are pinned to different workers", one.0, other.0)]
    PinnedApart {
        /// The one.
        one: Part,
        /// The other.
        other: Part,
    },
}
