//! Ports: whether packets pass, and how many did.

use crate::column::{self, Column, full, ledger_columns, sparse};
use crate::function::latencies;
use crate::text::{Labels, Text, Value};
use crate::{Family, Type};
use engine::PortAccount;
use port::PortStatus;
use telemetry::clock::Clock;
use telemetry::{DropReason, Ledger};

const LABELS: &[&str] = &["port"];

static PORT: [Column<PortAccount>; 6] = [
    Column::one(
        Family::gauge(
            "superfluid_port_up",
            "",
            LABELS,
            "1 when packets can pass, 0 when the port is down and tries again by itself.",
        ),
        |port, _| Value::flag(!matches!(port.status, PortStatus::Down(_))),
    ),
    Column::one(
        Family::gauge(
            "superfluid_port_finished",
            "",
            LABELS,
            "1 when the port is a source that has no more packets to give.",
        ),
        |port, _| Value::flag(port.status == PortStatus::Finished),
    ),
    Column::one(
        Family::counter(
            "superfluid_port_received_bytes",
            "bytes",
            LABELS,
            "Bytes of packets that the port received or generated.",
        ),
        |port, _| Value::Count(port.counters.received_bytes),
    ),
    Column::one(
        Family::counter(
            "superfluid_port_delivered_bytes",
            "bytes",
            LABELS,
            "Bytes of packets that the port delivered.",
        ),
        |port, _| Value::Count(port.counters.delivered_bytes),
    ),
    Column::one(
        Family::counter(
            "superfluid_port_kernel_lost_packets",
            "packets",
            LABELS,
            "Packets that the kernel lost before the port saw them; they are in no other count.",
        ),
        |port, _| Value::Count(port.counters.kernel_lost),
    ),
    Column::one(
        Family::gauge("superfluid_port_in_flight_packets", "packets", LABELS, "Packets in the port's rings."),
        |port, _| Value::Count(port.in_flight),
    ),
];

fn ledger(port: &PortAccount) -> &Ledger {
    &port.counters.ledger
}

static ENDS: [Column<PortAccount>; 2] = ledger_columns!(ends, "superfluid_port_", LABELS, ledger);

static PACKETS: [Column<PortAccount>; 6] =
    ledger_columns!(others, "superfluid_port_", LABELS, &["port", "reason"], sparse, ledger);

static OWN: [Column<PortAccount>; 1] = [Column::each(
    Family::counter(
        "superfluid_port_own_counts",
        "",
        &["port", "counter"],
        "What only this kind of port counts; the README of each says what that is.",
    )
    .sparse(),
    "counter",
    |port, _, take| port.details.iter().for_each(|(name, count)| take(name, Value::Count(*count))),
)];

static LATENCY: Family = Family {
    name: "superfluid_port_latency_seconds",
    kind: Type::Histogram,
    unit: "seconds",
    help: "How long packets took from their reception anywhere until the port was handed them; those of a batch count as the first of them.",
    labels: LABELS,
    sparse: true,
};

fn columns() -> impl Iterator<Item = &'static [Column<PortAccount>]> {
    [&PORT[..], &ENDS, &PACKETS, &OWN].into_iter()
}

pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    columns().flatten().map(|column| &column.family).chain([&LATENCY])
}

pub(crate) fn write(ports: &[PortAccount], clock: &Clock, text: &mut Text<'_>) {
    let labels = Labels::named("port", ports.iter().map(|port| port.name.as_str()));
    columns().for_each(|columns| column::write(columns, ports, &labels, clock, text));
    latencies(&LATENCY, ports.iter().map(|port| &port.latencies), &labels, text);
}
