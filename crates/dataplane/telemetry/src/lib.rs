//! What is counted, and under which name: drop reasons, the ledger of packets, and how long things took.
//!
//! 1. Each component that takes, makes, hands over or loses a packet adds to its own [`Ledger`].
//! 2. At any quiescent point the ledgers of a host add up to one that [`Ledger::balance`] checks against the
//!    packets that the owners say they hold.
//!
//! Beside them a [`histogram`] counts lengths of time, or whatever else is a number, [`Latencies`] how long
//! packets took, and [`steps`] what the parts of a rare piece of work take.
//!
//! Limits: ledgers are plain integers of the worker that owns them; only histograms can be read while they
//! are written.

pub mod clock;
mod drop_reason;
pub mod histogram;
mod latencies;
mod ledger;
pub mod steps;

pub use drop_reason::{DropCounters, DropReason};
pub use latencies::Latencies;
pub use ledger::{Imbalance, Ledger};
