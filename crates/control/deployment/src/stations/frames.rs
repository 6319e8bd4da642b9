//! What became of the frames of neighbour protocols.

use super::Stations;
use super::station::Station;
use crate::Host;
use neighbours::Fault;
use std::collections::BTreeMap;

/// Frames of neighbour protocols, since a station is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StationFrames {
    /// Frames that it got.
    pub received: u64,
    /// Those of them that were of no protocol that is spoken, or for other stations.
    pub ignored: u64,
    /// Frames that it sent: questions, answers and announcements.
    pub sent: u64,
    /// Frames without effect, by reason: a name of [`Fault`] for what came; `missed` for what a port had no
    /// room for, or more of than a station may get; `unanswered` for questions beyond what may be answered;
    /// `unsent` for what found no room on its way out. All reasons are there.
    pub dropped: BTreeMap<&'static str, u64>,
}

/// Frames of a device's stations, and how many neighbours they know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFrames {
    /// Frames of all of them together.
    pub frames: StationFrames,
    /// Entries of their tables.
    pub neighbours: usize,
}

impl StationFrames {
    fn add(&mut self, other: StationFrames) {
        self.received += other.received;
        self.ignored += other.ignored;
        self.sent += other.sent;
        for (reason, count) in other.dropped {
            *self.dropped.entry(reason).or_default() += count;
        }
    }
}

impl Host {
    /// What became of the frames of each device that has addresses, and of the interfaces with addresses of
    /// their own that open it. Waits for no worker.
    pub fn station_frames(&self) -> BTreeMap<String, DeviceFrames> {
        self.stations.frames()
    }
}

impl Stations {
    fn frames(&self) -> BTreeMap<String, DeviceFrames> {
        let mut all: BTreeMap<String, DeviceFrames> = BTreeMap::new();
        for (name, station) in &self.shared.lock().stations {
            let of_device = all.entry(name.device.clone()).or_default();
            of_device.frames.add(station.frames());
            of_device.neighbours += station.device.neighbours_count();
        }
        all
    }
}

impl Station {
    pub(super) fn frames(&self) -> StationFrames {
        let counters = self.device.counters();
        let dropped = Fault::ALL.iter().zip(counters.dropped).map(|(fault, count)| (fault.name(), count));
        let mut dropped: BTreeMap<&'static str, u64> = dropped.collect();
        let received = counters.taken + counters.ignored + dropped.values().sum::<u64>();
        dropped.insert("missed", self.missed());
        dropped.insert("unanswered", counters.unanswered);
        dropped.insert("unsent", counters.lost + self.unsent);
        StationFrames { received, ignored: counters.ignored, sent: counters.sent, dropped }
    }
}
