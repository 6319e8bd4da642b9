//! Why a packet was lost. Every loss has exactly one reason.

use std::fmt;
use std::ops::{Index, IndexMut};

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Why the engine or a port dropped a packet. A function's own reasons are counted by the function, beside
        /// [`DropReason::Function`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason { $($(#[$doc])* $variant,)* }

        impl DropReason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)*];

            /// The name shown to people and programs.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }
        }
    };
}

drop_reasons! {
    /// The function decided so.
    Function = "function",
    /// The function left the verdict empty.
    NoVerdict = "no-verdict",
    /// The verdict, offset or length that the function gave back is none it may give.
    BadVerdict = "bad-verdict",
    /// The function trapped or ran too long while it had the packet.
    FunctionTrapped = "function-trapped",
    /// The function is waiting for its restart and fails closed.
    FunctionDown = "function-down",
    /// Nothing is wired to the interface that the function chose.
    NoRoute = "no-route",
    /// The service table has no such service.
    UnknownService = "unknown-service",
    /// The packet has been through as many functions as it may.
    HopBudget = "hop-budget",
    /// The next function's queue is full.
    QueueFull = "queue-full",
    /// A switch found that the packet is where it belongs already, or that it must not be forwarded.
    SwitchFiltered = "switch-filtered",
    /// An observer was not entitled to run and its queue of copies is full.
    ObserverBehind = "observer-behind",
    /// The function holds and owns as many packets as it may.
    HoldQuota = "hold-quota",
    /// The function held the packet longer than it may.
    HoldExpired = "hold-expired",
    /// Still held or queued when the engine stopped.
    HeldAtStop = "held-at-stop",
    /// The receiving pool has no free buffer.
    NoBuffer = "no-buffer",
    /// The packet is longer than a buffer of its pool.
    TooLong = "too-long",
    /// The port's transmit ring or the kernel's queue is full.
    PortFull = "port-full",
    /// The port is down.
    PortDown = "port-down",
    /// The kernel refused the packet.
    PortRefused = "port-refused",
    /// The bytes do not make up what they claim to be (a capture's record, a header that the port needs).
    Malformed = "malformed",
    /// The operator asked for this loss, by a port's `fault`.
    InjectedFault = "injected-fault",
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One counter for each [`DropReason`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropCounters([u64; DropReason::ALL.len()]);

impl DropCounters {
    /// All reasons together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The reasons that occurred.
    pub fn nonzero(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&reason| (reason, self[reason])).filter(|&(_, count)| count > 0)
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &DropCounters) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

impl Index<DropReason> for DropCounters {
    type Output = u64;
    fn index(&self, reason: DropReason) -> &u64 {
        &self.0[reason as usize]
    }
}

impl IndexMut<DropReason> for DropCounters {
    fn index_mut(&mut self, reason: DropReason) -> &mut u64 {
        &mut self.0[reason as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_counters_separate() {
        let names: std::collections::BTreeSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::ALL.len());
        let mut counters = DropCounters::default();
        for (n, &reason) in DropReason::ALL.iter().enumerate() {
            counters[reason] += n as u64;
        }
        for (n, &reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(counters[reason], n as u64);
        }
        assert_eq!(counters.total(), (0..DropReason::ALL.len() as u64).sum());
    }
}
