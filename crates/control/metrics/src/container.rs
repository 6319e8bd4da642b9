//! Functions that are containers, programs or virtual machines: whether they run, what their processes take,
//! and what they have of the families of functions in the sandbox. Their packets are those of their ports.

use crate::Family;
use crate::column::{self, Column};
use crate::text::{Labels, Samples, Text, Value};
use telemetry::clock::{Clock, Nanos};
use telemetry::{DropCounters, DropReason, Latencies};

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
    /// Its image or program, as the operator names it.
    pub image: String,
    /// The digest that the image's manifest must have, as far as it is known; empty of a program.
    pub digest: String,
    /// Faults and restarts that were kept of it, and log lines of it that were lost.
    pub events: (u64, u64),
    /// The worker on whose processors it stays, and which its ports are on.
    pub worker: Option<usize>,
    /// Packets that it was given by its ports.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that wait in the rings of its ports.
    pub queue: u64,
    /// What its ports lost.
    pub dropped: DropCounters,
    /// Copies that it should have been given as an observer and was not.
    pub missed: u64,
    /// How long packets took until it was given them.
    pub latencies: Latencies,
}

impl Container {
    /// Processor time of its processes and for its packets.
    fn got(&self) -> Nanos {
        Nanos(self.used.0.saturating_add(self.engine.0))
    }
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
        |container, _| Value::Time(container.got()),
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

/// Adds what one has of a family of functions, under the labels number `n`; of a family of what only the
/// sandbox has, nothing. Which these are, and why, a test lists.
pub(crate) fn as_function(container: &Container, n: usize, family: &Family, samples: &mut Samples<'_>) {
    let value = match family.name {
        "superfluid_function" => return samples.more(n, ("digest", &container.digest), Value::Count(1)),
        "superfluid_function_up" => Value::flag(container.up),
        "superfluid_function_worker" => match container.worker {
            Some(worker) => Value::Count(worker as u64),
            None => return,
        },
        "superfluid_function_missed_packets" => Value::Count(container.missed),
        "superfluid_function_events" => Value::Count(container.events.0),
        "superfluid_function_lost_events" => Value::Count(container.events.1),
        "superfluid_function_packets" => Value::Count(container.packets),
        "superfluid_function_bytes" => Value::Count(container.bytes),
        "superfluid_function_queue_packets" => Value::Count(container.queue),
        "superfluid_function_memory_bytes" => Value::Count(container.memory),
        "superfluid_function_cpu_seconds" => Value::Time(container.got()),
        "superfluid_function_cpu_promised_ratio" => Value::Ratio(container.promised),
        "superfluid_function_faults" => Value::Count(container.faults),
        "superfluid_function_restarts" => Value::Count(container.restarts),
        "superfluid_function_drops" => {
            for reason in DropReason::ALL {
                samples.more(n, ("reason", reason.name()), Value::Count(container.dropped[*reason]));
            }
            return;
        }
        _ => return,
    };
    samples.one(n, value);
}

pub(crate) fn write(containers: &[Container], clock: &Clock, text: &mut Text<'_>) {
    let mut labels = Labels::default();
    for container in containers {
        labels.push(&[("function", container.name.as_str()), ("tenant", container.tenant.as_str())]);
    }
    column::write(&CONTAINER, containers, &labels, clock, text);
}
