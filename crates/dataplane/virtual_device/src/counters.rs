//! What devices count.

use std::sync::atomic::{AtomicU64, Ordering};
use virtual_switch::SwitchPort;

/// What a device counted since the first of those that took over from each other was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Packets from its ports.
    pub from_ports: u64,
    /// Packets from its openers.
    pub from_openers: u64,
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
}

const COUNTS: usize = Count::Filtered as usize + 1;

/// Workers that count at once should not share a cache line: plugs choose among so many.
const STRIPES: usize = 16;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; COUNTS]);

#[derive(Debug, Default)]
pub(crate) struct Counters([Stripe; STRIPES]);

impl Counters {
    #[inline]
    pub(crate) fn add(&self, plug: SwitchPort, count: Count, more: u64) {
        if more > 0 {
            self.0[usize::from(plug.0) % STRIPES].0[count as usize].fetch_add(more, Ordering::Relaxed);
        }
    }

    fn of(&self, count: Count) -> u64 {
        let parts = self.0.iter().map(|stripe| stripe.0[count as usize].load(Ordering::Relaxed));
        parts.fold(0, u64::wrapping_add)
    }

    pub(crate) fn of_device(&self) -> DeviceCounters {
        DeviceCounters {
            from_ports: self.of(Count::FromPort),
            from_openers: self.of(Count::FromOpener),
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
