//! Why something was not done to a fleet.

use crate::control::events::Stopped;
use crate::ids::WireError;

/// Why something was not done to a fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The workers have stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A wire was not laid.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// There is no such worker.
    #[error("there is no worker {worker}; allowed: 0 to {last}")]
    NoWorker {
        /// The number asked for.
        worker: usize,
        /// The last one.
        last: usize,
    },
    /// A frozen function cannot be thawed, and stays as it is.
    #[error("`{instance}` is frozen and cannot be thawed now: {reason}")]
    Frozen {
        /// Its name.
        instance: String,
        /// Why.
        reason: String,
    },
    /// The function is in the middle of a call that was switched out, and cannot be moved now.
    #[error("`{instance}` is in the middle of a call; it can be moved when that has ended")]
    Suspended {
        /// Its name.
        instance: String,
    },
}
