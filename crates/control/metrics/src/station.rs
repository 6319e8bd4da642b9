//! Devices with addresses: the frames of neighbour protocols by which the platform speaks for them.

use crate::Family;
use crate::column::{self, Column};
use crate::text::{Labels, Text, Value};
use telemetry::clock::Clock;

/// Frames of a device, and of interfaces with addresses of their own that open it, since it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Station {
    /// The device.
    pub device: String,
    /// Frames that it got.
    pub received: u64,
    /// Those of them that were of no protocol that is spoken, or for other stations.
    pub ignored: u64,
    /// Frames that it sent.
    pub sent: u64,
    /// Frames without effect, by reason.
    pub dropped: Vec<(&'static str, u64)>,
    /// Entries of its table.
    pub neighbours: u64,
}

static STATION: [Column<Station>; 3] = [
    Column::each(
        Family::counter(
            "superfluid_device_neighbour_frames",
            "frames",
            &["device", "what"],
            "Frames of neighbour protocols: received, of these ignored (of no such protocol, or for other stations), and \
             sent.",
        ),
        "what",
        |station, _, take| {
            take("received", Value::Count(station.received));
            take("ignored", Value::Count(station.ignored));
            take("sent", Value::Count(station.sent));
        },
    ),
    Column::each(
        Family::counter(
            "superfluid_device_neighbour_drops",
            "frames",
            &["device", "reason"],
            "Frames of neighbour protocols without effect: malformed, checksum, hop-limit, address, limited (more than may \
             be processed), missed (the port had no room), unanswered (more than may be answered), unsent.",
        ),
        "reason",
        |station, _, take| {
            station.dropped.iter().for_each(|(reason, count)| take(reason, Value::Count(*count)));
        },
    ),
    Column::one(
        Family::gauge(
            "superfluid_device_neighbours",
            "",
            &["device"],
            "Neighbours in the tables of the device and of interfaces with addresses of their own.",
        ),
        |station, _| Value::Count(station.neighbours),
    ),
];

pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    STATION.iter().map(|column| &column.family)
}

pub(crate) fn write(stations: &[Station], clock: &Clock, text: &mut Text<'_>) {
    let labels = Labels::named("device", stations.iter().map(|station| station.device.as_str()));
    column::write(&STATION, stations, &labels, clock, text);
}
