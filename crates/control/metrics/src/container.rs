//! Functions that are containers: whether they run, and what their processes take. Their packets are those of
//! their ports.

use crate::Family;
use crate::column::{self, Column};
use crate::text::{Labels, Text, Value};
use telemetry::clock::{Clock, Nanos};

/// A container, as its keeper has it.
#[derive(Clone, Debug)]
pub struct Container {
    /// The function's name.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// It runs, and has attached at its sockets.
    pub up: bool,
    /// It is being started, or runs and has not attached yet.
    pub starting: bool,
    /// How often it ended, or could not be started.
    pub faults: u64,
    /// Starts after that.
    pub restarts: u64,
    /// Processor time of its processes, since it was started.
    pub used: Nanos,
    /// Processor time that the engine used for its packets.
    pub engine: Nanos,
    /// The part of its worker's core that it is promised; 0 where it stays on none.
    pub promised: f64,
    /// Bytes of memory that its processes have.
    pub memory: u64,
}

const LABELS: &[&str] = &["function", "tenant"];

static CONTAINER: [Column<Container>; 9] = [
    Column::one(
        Family::gauge(
            "superfluid_container_up",
            "",
            LABELS,
            "1 when it runs and has attached at its sockets, 0 when it does not, and is being started or will be again.",
        ),
        |container, _| Value::flag(container.up),
    ),
    Column::one(
        Family::gauge(
            "superfluid_container_starting",
            "",
            LABELS,
            "1 when it is being started, or runs and has not attached at its sockets yet.",
        ),
        |container, _| Value::flag(container.starting),
    ),
    Column::one(
        Family::counter(
            "superfluid_container_faults",
            "faults",
            LABELS,
            "Ends that nobody asked for, and starts that were refused.",
        ),
        |container, _| Value::Count(container.faults),
    ),
    Column::one(
        Family::counter("superfluid_container_restarts", "restarts", LABELS, "Starts after faults."),
        |container, _| Value::Count(container.restarts),
    ),
    Column::one(
        Family::counter(
            "superfluid_container_cpu_seconds",
            "seconds",
            LABELS,
            "Processor time of its processes; that of its ports' packets is not in it.",
        ),
        |container, _| Value::Time(container.used),
    ),
    Column::one(
        Family::counter(
            "superfluid_container_engine_cpu_seconds",
            "seconds",
            LABELS,
            "Processor time that the engine used for its packets, where no function in the sandbox was charged for them.",
        ),
        |container, _| Value::Time(container.engine),
    ),
    Column::one(
        Family::counter(
            "superfluid_container_got_cpu_seconds",
            "seconds",
            LABELS,
            "Processor time of its processes and for its packets, together: what cpu bounds.",
        ),
        |container, _| Value::Time(Nanos(container.used.0.saturating_add(container.engine.0))),
    ),
    Column::one(
        Family::gauge(
            "superfluid_container_cpu_promised_ratio",
            "ratio",
            LABELS,
            "The part of its worker's core that it is promised, both together; 0 without a worker.",
        ),
        |container, _| Value::Ratio(container.promised),
    ),
    Column::one(
        Family::gauge(
            "superfluid_container_memory_bytes",
            "bytes",
            LABELS,
            "Memory of its processes, its temporary files included.",
        ),
        |container, _| Value::Count(container.memory),
    ),
];

pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    CONTAINER.iter().map(|column| &column.family)
}

pub(crate) fn write(containers: &[Container], clock: &Clock, text: &mut Text<'_>) {
    let mut labels = Labels::default();
    for container in containers {
        labels.push(&[("function", container.name.as_str()), ("tenant", container.tenant.as_str())]);
    }
    column::write(&CONTAINER, containers, &labels, clock, text);
}
