//! What a worker tells.

use guest::{Ask, Events, LogLine};
use telemetry::clock::Nanos;

/// Something that happened, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A guest trapped, ran too long, or could not be started again.
    Fault {
        /// The instance.
        instance: String,
        /// Why.
        reason: String,
        /// When it will be started again.
        retry_after: Nanos,
    },
    /// An instance was started again.
    Restarted {
        /// The instance.
        instance: String,
    },
    /// A function logged a line.
    Log {
        /// The instance.
        instance: String,
        /// What it said.
        line: LogLine,
    },
    /// A function told what it found.
    Found {
        /// The instance.
        instance: String,
        /// What.
        events: Events,
    },
    /// A function asked for addresses of neighbours.
    Asked {
        /// The instance.
        instance: String,
        /// Which.
        asks: Vec<Ask>,
    },
    /// Something happened to a port.
    Port {
        /// The port.
        port: String,
        /// What.
        event: port::PortEvent,
    },
}

/// The worker has stopped; it cannot be asked any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the worker has stopped")]
pub struct Stopped;
