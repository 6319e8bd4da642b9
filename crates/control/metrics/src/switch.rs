//! Switches: which stations they know, and what became of frames that are not for one known station. Packets
//! are counted by their senders.

use crate::Family;
use crate::column::{self, Column};
use crate::text::{Labels, Text, Value};
use engine::SwitchAccount;
use telemetry::clock::Clock;

const LABELS: &[&str] = &["switch"];

const fn entries(name: &'static str, help: &'static str) -> Family {
    Family::counter(name, "entries", LABELS, help)
}

static SWITCH: [Column<SwitchAccount>; 10] = [
    Column::one(
        Family::gauge("superfluid_switch_ports", "ports", LABELS, "Ports that something is plugged into."),
        |switch, _| Value::Count(switch.ports as u64),
    ),
    Column::one(
        Family::gauge(
            "superfluid_switch_stations",
            "stations",
            LABELS,
            "Stations that are known, and those that have aged since the table was last swept.",
        ),
        |switch, _| Value::Count(switch.counters.entries()),
    ),
    Column::one(
        entries("superfluid_switch_learned", "Addresses that were learned and were not in the table."),
        |switch, _| Value::Count(switch.counters.learned),
    ),
    Column::one(
        entries("superfluid_switch_moved", "Stations that were heard at another port than before."),
        |switch, _| Value::Count(switch.counters.moved),
    ),
    Column::one(entries("superfluid_switch_aged", "Entries that ended by their age."), |switch, _| {
        Value::Count(switch.counters.aged)
    }),
    Column::one(
        entries("superfluid_switch_evicted", "Entries that had to give way to another address."),
        |switch, _| Value::Count(switch.counters.evicted),
    ),
    Column::one(entries("superfluid_switch_flushed", "Entries that went with their port."), |switch, _| {
        Value::Count(switch.counters.flushed)
    }),
    Column::one(
        Family::counter(
            "superfluid_switch_deferred_frames",
            "frames",
            LABELS,
            "Frames whose source was not learned because another worker was just writing beside it.",
        ),
        |switch, _| Value::Count(switch.counters.deferred),
    ),
    Column::one(
        Family::counter(
            "superfluid_switch_flooded_frames",
            "frames",
            LABELS,
            "Frames for a group or for a station that is not known.",
        ),
        |switch, _| Value::Count(switch.counters.flooded),
    ),
    Column::each(
        Family::counter(
            "superfluid_switch_filtered_frames",
            "frames",
            &["switch", "reason"],
            "Frames that were not forwarded: returned (for a station at the port that they came from), reserved (for an address \
             that no bridge forwards), no-source (without a station's address as source).",
        ),
        "reason",
        |switch, _, take| {
            let counters = &switch.counters;
            take("returned", Value::Count(counters.returned));
            take("reserved", Value::Count(counters.reserved));
            take("no-source", Value::Count(counters.no_source));
        },
    ),
];

pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    SWITCH.iter().map(|column| &column.family)
}

pub(crate) fn write(switches: &[SwitchAccount], clock: &Clock, text: &mut Text<'_>) {
    let labels = Labels::named("switch", switches.iter().map(|switch| switch.name.as_str()));
    column::write(&SWITCH, switches, &labels, clock, text);
}
