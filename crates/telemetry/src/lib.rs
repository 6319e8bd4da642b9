//! What is counted, and under which name: drop reasons, the ledger of packets, and the counters of ports and
//! instances.
//!
//! 1. Whoever takes, makes, hands over or loses a packet adds to its own [`Ledger`].
//! 2. At any quiet point the ledgers of a host add up to one that [`Ledger::balance`] checks against the packets
//!    that the owners say they hold.
//!
//! Limits: counters are plain integers of the worker that owns them; nothing here is shared or atomic.

mod drop_reason;
mod ledger;

pub use drop_reason::{DropCounters, DropReason};
pub use ledger::{Imbalance, Ledger};
