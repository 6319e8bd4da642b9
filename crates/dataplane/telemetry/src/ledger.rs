//! The account of packets: what came in equals what went out, was lost for a reason, or is still here.

use crate::DropCounters;
use std::fmt;

/// Packets that came to be and ceased to be at one place. Sums of ledgers are ledgers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Taken from a port.
    pub received: u64,
    /// Made by a function or by a generator.
    pub generated: u64,
    /// Made by copying another: between tenants, for an observer.
    pub copied: u64,
    /// Made by cutting one into several.
    pub split: u64,
    /// Handed to a port and completed by it.
    pub delivered: u64,
    /// Taken in by a function that they were meant for.
    pub consumed: u64,
    /// Ceased to be by joining another.
    pub merged: u64,
    /// Lost, by reason.
    pub dropped: DropCounters,
}

impl Ledger {
    /// Adds another ledger.
    pub fn merge(&mut self, other: &Ledger) {
        self.received += other.received;
        self.generated += other.generated;
        self.copied += other.copied;
        self.split += other.split;
        self.delivered += other.delivered;
        self.consumed += other.consumed;
        self.merged += other.merged;
        self.dropped.merge(&other.dropped);
    }

    /// Packets that came to be.
    pub fn sources(&self) -> u64 {
        self.received + self.generated + self.copied + self.split
    }

    /// Packets that ceased to be.
    pub fn sinks(&self) -> u64 {
        self.delivered + self.consumed + self.merged + self.dropped.total()
    }

    /// Checks conservation against the packets found by walking their owners.
    ///
    /// # Errors
    /// [`Imbalance`] when a packet was lost without a reason or counted twice.
    pub fn balance(&self, in_flight: u64) -> Result<(), Imbalance> {
        if self.sources() == self.sinks() + in_flight {
            Ok(())
        } else {
            Err(Imbalance { sources: self.sources(), sinks: self.sinks(), in_flight })
        }
    }
}

/// The account does not add up: a defect of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imbalance {
    /// Packets that came to be.
    pub sources: u64,
    /// Packets that ceased to be.
    pub sinks: u64,
    /// Packets that the owners hold.
    pub in_flight: u64,
}

impl fmt::Display for Imbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Imbalance { sources, sinks, in_flight } = self;
        write!(f, "{sources} packets came to be, but {sinks} ended and {in_flight} are in flight")
    }
}

impl std::error::Error for Imbalance {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DropReason;

    #[test]
    fn balances_only_when_nothing_is_missing() {
        let mut ledger = Ledger { received: 10, generated: 2, copied: 3, delivered: 9, ..Ledger::default() };
        ledger.dropped[DropReason::QueueFull] = 4;
        assert_eq!(ledger.balance(2), Ok(()));
        assert_eq!(ledger.balance(1), Err(Imbalance { sources: 15, sinks: 13, in_flight: 1 }));
        let mut twice = ledger.clone();
        twice.merge(&ledger);
        assert_eq!(twice.balance(4), Ok(()));
    }
}
