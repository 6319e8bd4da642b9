//! Why a packet was lost. Every loss has exactly one reason.

use std::fmt;
use std::ops::{Index, IndexMut};

macro_rules! drop_reasons {
    ($($variant:ident = $name:literal, $meaning:literal, $remedy:literal;)*) => {
        /// Why the engine or a port dropped a packet. A function's own reasons are counted by the function,
        /// beside [`DropReason::Function`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $meaning] $variant,)* }

        impl DropReason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)*];

            /// The name shown to people and programs.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// What it means, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(DropReason::$variant => $meaning,)* }
            }

            /// What an operator does about it.
            pub const fn remedy(self) -> &'static str {
                match self { $(DropReason::$variant => $remedy,)* }
            }
        }
    };
}

// One table for code and documents: `docs/drop-reasons.md` is made of it.
drop_reasons! {
    Function = "function", "The function's verdict was to drop the packet.",
        "Nothing: this is its work. Its own counters say which rule.";
    NoVerdict = "no-verdict", "The function left the packet's verdict empty.",
        "A defect of the function: each packet of a batch needs a verdict.";
    BadVerdict = "bad-verdict", "The function gave a verdict, an offset or a length that it may not give.",
        "A defect of the function: verdicts and extents are in docs/nf-abi.md.";
    FunctionTrapped = "function-trapped", "The function trapped or exceeded `max_call` while it had the packet.",
        "`superfluid function report NAME` shows the fault with its backtrace.";
    FunctionDown = "function-down", "The function waits for its restart, and `fail` is `closed`.",
        "Mend the function, or let packets bypass it with `fail: open`.";
    NoRoute = "no-route", "Nothing is wired to the interface that the function chose.",
        "Add a wire or a chain for that interface.";
    UnknownService = "unknown-service", "The service table of the sender's tenant has no such service.",
        "Add the service, or name the sender's tenant in `for` of its entry.";
    HopBudget = "hop-budget", "The packet passed as many functions as a packet may, or was copied at switches and devices as often.",
        "Look for a loop of wires or services: `superfluid trace` shows its way.";
    QueueFull = "queue-full", "The queue of the next function is full.",
        "The function has too little processor time for its load: raise its weight or cap, add replicas.";
    SwitchFiltered = "switch-filtered", "The switch filters the packet: its destination is behind the port it came from, or is reserved.",
        "Mostly nothing (IEEE 802.1D, 8.6); many of them point to a loop or to a wrong port.";
    NoDevice = "no-device", "No device at the port wants the packet, or the device has no opener that receives it.",
        "Look at the `receive` policies of the devices over the port, and at what opens the device.";
    BadTunnel = "bad-tunnel", "The packet does not have the headers that a device takes off at this port, or they are malformed.",
        "Let the device's `receive` name the tunnel, and look at the packets: `superfluid capture` at the port.";
    NoEncapsulation = "no-encapsulation", "Outside of the port packets have headers, and there are none for this packet: none were taken off it, and none are to be put on.",
        "Give the port an `encapsulate`.";
    NoNeighbour = "no-neighbour", "The headers that a device puts on are for a next hop whose Ethernet address is not known.",
        "`superfluid neighbours DEVICE` shows what was asked; or write `remote_mac` in the `encapsulate`.";
    NoSequence = "no-sequence", "The packet came by a link of a striped bond and has no sequence header, or one of another version or EtherType.",
        "Let both ends of the links be striped bonds with one `ether_type`, and nothing else on the links.";
    OutOfSequence = "out-of-sequence", "The packet came by a link of a striped bond twice, or after the bond had waited for it for 5 ms or 256 packets.",
        "The links' delays differ by too much, or one of them repeats packets: look at `stripe_given_up` of the bond's port.";
    HoldQuota = "hold-quota", "The function holds and owns as many packets as it may.",
        "Raise its `quota`, or let it release packets sooner.";
    HoldExpired = "hold-expired", "The function held the packet for longer than `longest_hold`.",
        "Raise `longest_hold`, or let it release packets sooner.";
    HeldAtStop = "held-at-stop", "The packet was still held or queued when its function, port or worker ended.",
        "Nothing: it is the rest that draining could not deliver.";
    NoBuffer = "no-buffer", "The receiving pool has no free buffer.",
        "Enlarge the tenant's pool, or find out which function holds its packets.";
    TooLong = "too-long", "The packet is longer than a buffer of its pool, or than the link takes by which it leaves a device, and may not be fragmented.",
        "Larger buffers (`buffer_size`), or segmentation offload switched off on the interface.";
    PortFull = "port-full", "The port's transmit ring or the kernel's queue is full.",
        "The interface is slower than its load: larger rings help with bursts only.";
    PortDown = "port-down", "The port is down.",
        "`superfluid describe port NAME` says why; it comes back with its interface.";
    PortRefused = "port-refused", "The kernel refused to transmit the packet.",
        "Often a packet longer than the interface's MTU; the port's log line has the error.";
    Malformed = "malformed", "The bytes do not make up what they claim to be: a capture's record, or a header that the port needs.",
        "Look at the packets: `superfluid capture` at the port.";
    InjectedFault = "injected-fault", "The port's `fault` asks for this loss.",
        "Nothing: it was asked for.";
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

    /// Every reason stands in the document, as this table has it.
    #[test]
    fn the_document_has_this_table() {
        let rows = DropReason::ALL
            .iter()
            .map(|reason| format!("| `{reason}` | {} | {} |\n", reason.meaning(), reason.remedy()));
        let table = format!("| reason | meaning | what helps |\n|---|---|---|\n{}", rows.collect::<String>());
        let document = include_str!("../../../../docs/drop-reasons.md");
        assert!(document.ends_with(&table), "docs/drop-reasons.md must end with this table:\n{table}");
    }
}
