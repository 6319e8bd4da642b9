//! How making an instance and calling it fails.

use clock::Nanos;
use guest::{GuestFault, LogLine};
use wasmtime::Trap;

/// Why an instance was not made.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// No memory, no address space, no mapping.
    #[error("{name}: no memory for an instance: {reason}")]
    Memory {
        /// The function.
        name: String,
        /// What was refused.
        reason: String,
    },
    /// The image does not keep the contract.
    #[error("{name}: {reason}")]
    Contract {
        /// The function.
        name: String,
        /// What is missing or wrong.
        reason: String,
    },
    /// It trapped or ran too long while it started.
    #[error("{name}: starting it {fault}{}", LogSuffix(.log))]
    Fault {
        /// The function.
        name: String,
        /// How it ended.
        fault: GuestFault,
        /// What it logged before.
        log: Vec<LogLine>,
    },
    /// It refused its configuration.
    #[error("{name}: sf_init answered {code}{}", LogSuffix(.log))]
    Refused {
        /// The function.
        name: String,
        /// The function's own error number.
        code: i32,
        /// What it logged before.
        log: Vec<LogLine>,
    },
}

struct LogSuffix<'a>(&'a [LogLine]);

impl std::fmt::Display for LogSuffix<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|line| write!(f, "; it says: {}", line.text))
    }
}

/// How a call ended before its time.
pub(crate) fn fault(error: &wasmtime::Error, limit: Nanos) -> GuestFault {
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => GuestFault::TimedOut { limit },
        Some(trap) => GuestFault::Trap(trap.to_string().trim_start_matches("wasm trap: ").to_owned()),
        None => GuestFault::Trap(format!("{error:#}")),
    }
}
