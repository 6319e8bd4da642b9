//! Devices: how many packets came from their ports and from their openers, and what became of those that went
//! to no one end. Packets are counted by their senders as well. Labels are names of devices and ports, which
//! administrators give, and a few words.

use crate::Family;
use crate::column::{self, Column};
use crate::text::{Labels, Text, Value};
use engine::{DeviceAccount, PortDevicesAccount};
use telemetry::clock::Clock;

const LABELS: &[&str] = &["device"];
const PORT: &[&str] = &["port"];

static DEVICE: [Column<DeviceAccount>; 5] = [
    Column::each(
        Family::counter(
            "superfluid_device_packets",
            "packets",
            &["device", "from"],
            "Packets that came into the device: from its ports, from its openers.",
        ),
        "from",
        |device, _, take| {
            take("ports", Value::Count(device.counters.from_ports));
            take("openers", Value::Count(device.counters.from_openers));
        },
    ),
    Column::each(
        Family::counter(
            "superfluid_device_bytes",
            "bytes",
            &["device", "from"],
            "Bytes of these packets, without headers that openers do not see.",
        ),
        "from",
        |device, _, take| {
            take("ports", Value::Count(device.counters.bytes_from_ports));
            take("openers", Value::Count(device.counters.bytes_from_openers));
        },
    ),
    Column::one(
        Family::gauge(
            "superfluid_device_openers",
            "",
            LABELS,
            "Interfaces and services that open the device.",
        ),
        |device, _| Value::Count(device.openers as u64),
    ),
    Column::one(
        Family::counter(
            "superfluid_device_copied_packets",
            "packets",
            LABELS,
            "Copies that were asked for: of a packet to several ends, one less than there are.",
        ),
        |device, _| Value::Count(device.counters.copied),
    ),
    Column::each(
        Family::counter(
            "superfluid_device_drops",
            "packets",
            &["device", "reason"],
            "Packets that went to no end: no-device (nothing receives them), switch-filtered (for a station behind the port that \
             they came by).",
        ),
        "reason",
        |device, _, take| {
            take("no-device", Value::Count(device.counters.unreceived));
            take("switch-filtered", Value::Count(device.counters.filtered));
        },
    ),
];

static AT_PORT: [Column<PortDevicesAccount>; 3] = [
    Column::each(
        Family::counter(
            "superfluid_port_devices_packets",
            "packets",
            &["port", "direction"],
            "Packets between a port and those of its devices that choose by policies: received, transmitted.",
        ),
        "direction",
        |port, _, take| {
            take("received", Value::Count(port.counters.received));
            take("transmitted", Value::Count(port.counters.transmitted));
        },
    ),
    Column::one(
        Family::counter(
            "superfluid_port_devices_seen_packets",
            "packets",
            PORT,
            "Packets that were shown to the observers of devices that take none.",
        ),
        |port, _| Value::Count(port.counters.seen),
    ),
    Column::one(
        Family::counter(
            "superfluid_port_devices_unwanted_packets",
            "packets",
            PORT,
            "Packets that no device at the port wants, dropped as no-device.",
        ),
        |port, _| Value::Count(port.counters.unwanted),
    ),
];

pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    DEVICE.iter().map(|column| &column.family).chain(AT_PORT.iter().map(|column| &column.family))
}

pub(crate) fn write(
    devices: &[DeviceAccount],
    ports: &[PortDevicesAccount],
    clock: &Clock,
    text: &mut Text<'_>,
) {
    let labels = Labels::named("device", devices.iter().map(|device| device.name.as_str()));
    column::write(&DEVICE, devices, &labels, clock, text);
    let labels = Labels::named("port", ports.iter().map(|port| port.name.as_str()));
    column::write(&AT_PORT, ports, &labels, clock, text);
}
