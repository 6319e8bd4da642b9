//! What devices count.
//!
//! 1. Each worker that has a device counts in a set of its own ([`Counts`]), to which nothing else writes:
//!    counting is a load and a store, and no cache line goes from one processor to another for it.
//! 2. A reader adds the sets of all workers up, and what the sets counted that are no more.
//! 3. Programs that take over from each other have all of that in common. A worker that gets another program
//!    gets another set; what the one before counted is kept as it ends.

use crate::decisions::Way;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// What a worker counts at one plug. The first one of a set is for plugs that the program does not have, and
/// for programs that do not count by plug.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot([AtomicU64; COUNTS]);

/// Where the slot of a plug is.
fn place(plug: SwitchPort) -> usize {
    usize::from(plug.0) + 1
}

/// What one worker counts of a device, or of the devices at a port.
#[derive(Debug, Default)]
pub struct Counts {
    own: Arc<[Slot]>,
    all: Arc<Counters>,
}

impl Counts {
    /// Packets came in by a plug.
    #[inline]
    pub fn enter(&self, from: SwitchPort, is_port: bool, packets: u64, bytes: u64) {
        let (packet, byte) = match is_port {
            true => (Count::FromPort, Count::BytesFromPort),
            false => (Count::FromOpener, Count::BytesFromOpener),
        };
        let Some(slot) = self.slot(from) else { return };
        slot.add(packet, packets);
        slot.add(byte, bytes);
    }

    /// Devices at a port that take none of them were shown packets, one each time.
    #[inline]
    pub fn see(&self, from: SwitchPort, times: u64) {
        self.add(from, Count::Copied, times);
    }

    /// Packets that came in by a plug go one way.
    pub fn go(&self, from: SwitchPort, way: Way, packets: u64) {
        match way {
            Way::To(_) | Way::Flood | Way::Seen => {}
            Way::Each(several) => self.add(from, Count::Copied, packets * (several.count() as u64 - 1)),
            Way::Filter => self.add(from, Count::Filtered, packets),
            Way::Nowhere => self.add(from, Count::Nowhere, packets),
        }
    }

    #[inline]
    fn add(&self, plug: SwitchPort, count: Count, more: u64) {
        self.slot(plug).into_iter().for_each(|slot| slot.add(count, more));
    }

    #[inline]
    fn slot(&self, plug: SwitchPort) -> Option<&Slot> {
        self.own.get(place(plug)).or(self.own.first())
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        let mut parts = self.all.parts();
        parts.workers.retain(|set| !Arc::ptr_eq(set, &self.own));
        if parts.ended.len() < self.own.len() {
            parts.ended.resize_with(self.own.len(), Sums::default);
        }
        parts.ended.iter_mut().zip(&*self.own).for_each(|(sums, slot)| add(sums, &slot.read()));
    }
}

/// By the places of [`Count`].
type Sums = [u64; COUNTS];

fn add(sums: &mut Sums, more: &Sums) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
}

impl Slot {
    #[inline]
    fn add(&self, count: Count, more: u64) {
        let count = &self.0[count as usize];
        count.store(count.load(Relaxed).wrapping_add(more), Relaxed);
    }

    fn read(&self) -> Sums {
        std::array::from_fn(|count| self.0[count].load(Relaxed))
    }
}

/// What all workers count of programs that take over from each other.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<Parts>);

#[derive(Debug, Default)]
struct Parts {
    workers: Vec<Arc<[Slot]>>,
    /// Of sets that are no more, by the places of their slots.
    ended: Vec<Sums>,
}

impl Counters {
    /// Workers take this lock when they get a program or lose one, and readers; no packet waits for it.
    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A set for one more worker, with a slot for each of so many plugs.
    pub(crate) fn counts(self: &Arc<Counters>, plugs: usize) -> Counts {
        let own: Arc<[Slot]> = (0..=plugs).map(|_| Slot::default()).collect();
        self.parts().workers.push(own.clone());
        Counts { own, all: self.clone() }
    }

    /// The sums over all workers: of one place, or of all.
    fn sums(&self, of: Option<usize>) -> Sums {
        let parts = self.parts();
        let mut sums = Sums::default();
        let wanted = |place: usize| of.is_none_or(|of| of == place);
        for (_, more) in parts.ended.iter().enumerate().filter(|(place, _)| wanted(*place)) {
            add(&mut sums, more);
        }
        for set in &parts.workers {
            let slots = set.iter().enumerate().filter(|(place, _)| wanted(*place));
            slots.for_each(|(_, slot)| add(&mut sums, &slot.read()));
        }
        sums
    }

    pub(crate) fn entered(&self, plug: SwitchPort) -> Entered {
        let sums = self.sums(Some(place(plug)));
        let sum = |port: Count, opener: Count| sums[port as usize].wrapping_add(sums[opener as usize]);
        Entered {
            packets: sum(Count::FromPort, Count::FromOpener),
            bytes: sum(Count::BytesFromPort, Count::BytesFromOpener),
        }
    }

    pub(crate) fn of_device(&self) -> DeviceCounters {
        let sums = self.sums(None);
        let of = |count: Count| sums[count as usize];
        DeviceCounters {
            from_ports: of(Count::FromPort),
            bytes_from_ports: of(Count::BytesFromPort),
            from_openers: of(Count::FromOpener),
            bytes_from_openers: of(Count::BytesFromOpener),
            copied: of(Count::Copied),
            unreceived: of(Count::Nowhere),
            filtered: of(Count::Filtered),
        }
    }

    pub(crate) fn at_port(&self) -> PortDevicesCounters {
        let sums = self.sums(None);
        let of = |count: Count| sums[count as usize];
        PortDevicesCounters {
            received: of(Count::FromPort),
            transmitted: of(Count::FromOpener),
            seen: of(Count::Copied),
            unwanted: of(Count::Nowhere),
        }
    }
}
