//! What devices count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use virtual_switch::SwitchPort;

/// Packets that came in by one plug, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entered {
    /// Packets.
    pub packets: u64,
    /// Their bytes, without headers that openers do not see.
    pub bytes: u64,
}

/// What a device counted since the first of those that took over from each other was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Packets from its ports.
    pub from_ports: u64,
    /// Bytes of these, without headers that openers do not see.
    pub bytes_from_ports: u64,
    /// Packets from its openers.
    pub from_openers: u64,
    /// Bytes of these.
    pub bytes_from_openers: u64,
    /// Copies that were asked for: one less than the plugs to which a packet went.
    pub copied: u64,
    /// Packets that nothing received; dropped as `no-device`.
    pub unreceived: u64,
    /// Packets for a station behind the port by which they came, or for an address that no bridge forwards;
    /// dropped as `switch-filtered`.
    pub filtered: u64,
}

/// What was counted at a port between it and its devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortDevicesCounters {
    /// Packets from the port.
    pub received: u64,
    /// Packets from devices to the port.
    pub transmitted: u64,
    /// Packets that were shown to devices that take none, once for each of these.
    pub seen: u64,
    /// Packets that no device wants; dropped as `no-device`.
    pub unwanted: u64,
}

/// A counter's place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    FromPort,
    FromOpener,
    /// Copies of a device; what was shown, at a port.
    Copied,
    Nowhere,
    Filtered,
    BytesFromPort,
    BytesFromOpener,
}

const COUNTS: usize = Count::BytesFromOpener as usize + 1;

/// What is counted at one plug. Workers that count at once should not share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; COUNTS]);

impl Stripe {
    fn of(&self, count: Count) -> u64 {
        self.0[count as usize].load(Ordering::Relaxed)
    }
}

/// Counters by plug. Programs that take over from each other share those of the plugs that both have.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    plugs: Vec<Arc<Stripe>>,
    /// Of plugs that the program does not have.
    others: Arc<Stripe>,
}

impl Counters {
    /// Those of plugs with these numbers, going on from those before.
    pub(crate) fn new(plugs: impl Iterator<Item = SwitchPort>, before: Option<&Counters>) -> Counters {
        let (mut all, others) =
            before.map(|before| (before.plugs.clone(), before.others.clone())).unwrap_or_default();
        let count = plugs.map(|plug| usize::from(plug.0) + 1).max().unwrap_or(0);
        all.resize_with(all.len().max(count), Arc::default);
        Counters { plugs: all, others }
    }

    #[inline]
    pub(crate) fn add(&self, plug: SwitchPort, count: Count, more: u64) {
        if more > 0 {
            let stripe = self.plugs.get(usize::from(plug.0)).unwrap_or(&self.others);
            stripe.0[count as usize].fetch_add(more, Ordering::Relaxed);
        }
    }

    fn of(&self, count: Count) -> u64 {
        let all = self.plugs.iter().chain([&self.others]);
        all.map(|stripe| stripe.of(count)).fold(0, u64::wrapping_add)
    }

    pub(crate) fn entered(&self, plug: SwitchPort) -> Entered {
        let Some(stripe) = self.plugs.get(usize::from(plug.0)) else { return Entered::default() };
        let sum = |port, opener| stripe.of(port).wrapping_add(stripe.of(opener));
        Entered {
            packets: sum(Count::FromPort, Count::FromOpener),
            bytes: sum(Count::BytesFromPort, Count::BytesFromOpener),
        }
    }

    pub(crate) fn of_device(&self) -> DeviceCounters {
        DeviceCounters {
            from_ports: self.of(Count::FromPort),
            bytes_from_ports: self.of(Count::BytesFromPort),
            from_openers: self.of(Count::FromOpener),
            bytes_from_openers: self.of(Count::BytesFromOpener),
            copied: self.of(Count::Copied),
            unreceived: self.of(Count::Nowhere),
            filtered: self.of(Count::Filtered),
        }
    }

    pub(crate) fn at_port(&self) -> PortDevicesCounters {
        PortDevicesCounters {
            received: self.of(Count::FromPort),
            transmitted: self.of(Count::FromOpener),
            seen: self.of(Count::Copied),
            unwanted: self.of(Count::Nowhere),
        }
    }
}
