//! How a guest ends before its time.

use telemetry::clock::Nanos;

/// The guest did what it may not, and is finished.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestFault {
    /// An instruction trapped: an access outside its memory, `unreachable`, a stack overflow.
    #[error("trapped: {0}")]
    Trap(String),
    /// One call took longer than it may.
    #[error("stopped: one call took longer than {}", .limit.as_secs_f64_text())]
    TimedOut {
        /// The longest time allowed.
        limit: Nanos,
    },
    /// It answered what the contract does not allow.
    #[error("broke the contract: {0}")]
    Contract(String),
}

/// Why a guest's state was not handed out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct HandOutFault {
    /// What it did.
    pub fault: GuestFault,
    /// The guest is finished; else it is as it was before.
    pub finished: bool,
}

trait SecondsText {
    fn as_secs_f64_text(&self) -> String;
}

impl SecondsText for Nanos {
    fn as_secs_f64_text(&self) -> String {
        format!("{:.3} ms", self.as_secs_f64() * 1e3)
    }
}
