//! Workers: where their time went.

use crate::Family;
use crate::column::{self, Column};
use crate::text::{Labels, Text, Value};
use engine::WorkerTime;
use telemetry::clock::{Clock, Cycles};

/// A worker's time, and what it charged to functions, if that is known.
type Row = (WorkerTime, Option<Cycles>);

static WORKER: [Column<Row>; 1] = [Column::each(
    Family::counter(
        "superfluid_worker_seconds",
        "seconds",
        &["worker", "mode"],
        "What a worker's time went into: busy (for functions and ports), overhead (looking around), asleep, withheld (others had \
         the processor).",
    ),
    "mode",
    |(time, busy), clock, take| {
        let mut mode = |name, cycles| take(name, Value::Time(clock.span(cycles)));
        if let Some(busy) = busy {
            mode("busy", *busy);
        }
        mode("overhead", time.overhead);
        mode("asleep", time.asleep);
        mode("withheld", time.withheld);
    },
)];

pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    WORKER.iter().map(|column| &column.family)
}

pub(crate) fn write(workers: &[WorkerTime], busy: &[Cycles], clock: &Clock, text: &mut Text<'_>) {
    let rows: Vec<Row> = workers.iter().enumerate().map(|(n, time)| (*time, busy.get(n).copied())).collect();
    let numbers: Vec<String> = (0..rows.len()).map(|n| n.to_string()).collect();
    let labels = Labels::named("worker", numbers.iter().map(String::as_str));
    column::write(&WORKER, &rows, &labels, clock, text);
}
