//! Network functions: what they were shown, lost, took and were promised. Those that run beside the sandbox
//! (containers, programs, virtual machines) are among them with what they have of it.

use crate::column::{self, Column, ledger_columns, sparse};
use crate::host::Host;
use crate::text::{Labels, Samples, Text, Value};
use crate::{Family, Type, container};
use engine::InstanceAccount;
use telemetry::clock::Nanos;
use telemetry::histogram::Histogram;
use telemetry::{DropReason, Latencies, Ledger};

/// What is known of a function and is not counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Function<'a> {
    /// Whose it is.
    pub tenant: &'a str,
    /// The image that it was made from, as the operator names it.
    pub image: &'a str,
    /// The image's digest, `sha256:` and 64 digits.
    pub digest: &'a str,
    /// Alerts and faults that were kept of it, and alerts and log lines of it that were lost, if they are
    /// kept.
    pub events: Option<(u64, u64)>,
    /// How long calls take, in nanoseconds, if that is measured.
    pub calls: Option<&'a Histogram>,
    /// How long packets wait for it, in nanoseconds, if that is measured.
    pub waiting: Option<&'a Histogram>,
}

const LABELS: &[&str] = &["function", "tenant", "image"];
const WITH_REASON: &[&str] = &["function", "tenant", "image", "reason"];
const WITH_COUNTER: &[&str] = &["function", "tenant", "image", "counter"];

static INFO: Family = Family::info(
    "superfluid_function",
    &["function", "tenant", "image", "digest"],
    "A function, and the digest of its image.",
);

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family::counter(name, unit, LABELS, help)
}

const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family::gauge(name, unit, LABELS, help)
}

static FUNCTION: [Column<InstanceAccount>; 18] = [
    Column::one(
        gauge(
            "superfluid_function_up",
            "",
            "1 when it can be called, 0 when it is down and will be started again.",
        ),
        |function, _| Value::flag(function.down.is_none()),
    ),
    Column::one(gauge("superfluid_function_paused", "", "1 when it is paused."), |function, _| {
        Value::flag(function.paused)
    }),
    Column::one(
        gauge(
            "superfluid_function_worker",
            "",
            "Number of the worker that it is on; of containers, programs and virtual machines, of those that stay beside one.",
        ),
        |function, _| Value::Count(function.worker.into()),
    ),
    Column::one(
        counter("superfluid_function_packets", "packets", "Packets that it was shown."),
        |function, _| Value::Count(function.packets),
    ),
    Column::one(
        counter(
            "superfluid_function_bytes",
            "bytes",
            "Bytes of these packets, at the length that it left them at.",
        ),
        |function, _| Value::Count(function.bytes),
    ),
    Column::one(
        counter("superfluid_function_calls", "calls", "Calls into it with packets."),
        |function, _| Value::Count(function.calls),
    ),
    Column::one(
        gauge("superfluid_function_queue_packets", "packets", "Packets in its queue."),
        |function, _| Value::Count(function.queue),
    ),
    Column::one(
        gauge(
            "superfluid_function_in_flight_packets",
            "packets",
            "Packets that wait for it, that it holds or that it has just given up.",
        ),
        |function, _| Value::Count(function.in_flight),
    ),
    Column::one(
        gauge("superfluid_function_memory_bytes", "bytes", "Memory that it has for itself."),
        |function, _| Value::Count(function.memory),
    ),
    Column::one(
        counter(
            "superfluid_function_cpu_seconds",
            "seconds",
            "Processor time that it got, what ports did on its behalf included.",
        ),
        |function, clock| Value::Time(clock.span(function.cycles)),
    ),
    Column::one(
        gauge(
            "superfluid_function_cpu_promised_ratio",
            "ratio",
            "Share of a processor that it is promised when all functions there want all that they can get.",
        ),
        |function, _| Value::Ratio(function.promised),
    ),
    Column::one(
        counter(
            "superfluid_function_faults",
            "faults",
            "Traps, and calls that had to be ended; of containers, programs and virtual machines, ends of processes and starts that failed.",
        ),
        |function, _| Value::Count(function.faults),
    ),
    Column::one(
        counter("superfluid_function_restarts", "restarts", "Starts after faults."),
        |function, _| Value::Count(function.restarts),
    ),
    Column::one(
        counter(
            "superfluid_function_throttled_seconds",
            "seconds",
            "Time during which it had work and its cap held it back.",
        )
        .sparse(),
        |function, clock| Value::Time(clock.span(function.throttled)),
    ),
    Column::one(
        counter("superfluid_function_overruns", "calls", "Calls that took longer than a slice.").sparse(),
        |function, _| Value::Count(function.overruns),
    ),
    Column::one(
        counter("superfluid_function_suspensions", "times", "Times that a call was switched out.").sparse(),
        |function, _| Value::Count(function.suspensions),
    ),
    Column::one(
        counter(
            "superfluid_function_missed_packets",
            "packets",
            "Packets that it should have observed and did not.",
        )
        .sparse(),
        |function, _| Value::Count(function.missed),
    ),
    Column::each(
        Family::counter(
            "superfluid_function_own_counts",
            "",
            WITH_COUNTER,
            "What it counts itself, by the names that its image has for that.",
        )
        .sparse(),
        "counter",
        |function, _, take| named(&function.counters, take),
    ),
];

fn ledger(function: &InstanceAccount) -> &Ledger {
    &function.ledger
}

/// At ports packets come in and go out for the ports' accounts, not for a function's.
static PACKETS: [Column<InstanceAccount>; 6] =
    ledger_columns!(others, "superfluid_function_", LABELS, WITH_REASON, sparse, ledger);

static OWN_DROPS: [Column<InstanceAccount>; 1] = [Column::each(
    Family::counter(
        "superfluid_function_own_drops",
        "packets",
        WITH_REASON,
        "Packets that it dropped by its own verdict, by the names that its image has for reasons: those of reason `function` among \
         its drops.",
    )
    .sparse(),
    "reason",
    |function, _, take| named(&function.own_drops, take),
)];

static EVENTS: Family = counter(
    "superfluid_function_events",
    "events",
    "Alerts, faults and restarts of it that the daemon took.",
);

static LOST_EVENTS: Family = counter(
    "superfluid_function_lost_events",
    "events",
    "Alerts and log lines of it that came faster than they could be kept.",
)
.sparse();

static LATENCY: Family = Family {
    name: "superfluid_function_latency_seconds",
    kind: Type::Histogram,
    unit: "seconds",
    help: "How long packets took from their reception to the end of its verdicts; those of a batch count as the first of them.",
    labels: LABELS,
    sparse: true,
};

static CALLS: Family = Family {
    name: "superfluid_function_call_seconds",
    kind: Type::Histogram,
    unit: "seconds",
    help: "How long calls took, of functions of which that is measured.",
    labels: LABELS,
    sparse: true,
};

static WAITING: Family = Family {
    name: "superfluid_function_waiting_seconds",
    kind: Type::Histogram,
    unit: "seconds",
    help: "How long packets waited to be shown to it, of functions of which that is measured.",
    labels: LABELS,
    sparse: true,
};

/// Bounds of histograms: powers of two of nanoseconds, up to about a second.
const BOUNDS: std::ops::RangeInclusive<u32> = 7..=30;

fn named(counts: &[(String, u64)], take: column::Take<'_>) {
    counts.iter().for_each(|(name, count)| take(name, Value::Count(*count)));
}

fn columns() -> impl Iterator<Item = &'static [Column<InstanceAccount>]> {
    [&FUNCTION[..], &PACKETS, &OWN_DROPS].into_iter()
}

pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    let counts = columns().flatten().map(|column| &column.family);
    std::iter::once(&INFO).chain(counts).chain([&EVENTS, &LOST_EVENTS, &LATENCY, &CALLS, &WAITING])
}

pub(crate) fn write(host: &Host<'_>, text: &mut Text<'_>) {
    let functions = &host.account.instances;
    let facts = || host.functions.iter().copied().chain(std::iter::repeat(Function::default()));
    let mut labels = Labels::default();
    for (function, Function { tenant, image, .. }) in functions.iter().zip(facts()) {
        labels.push(&[("function", &function.name), ("tenant", tenant), ("image", image)]);
    }
    for guest in host.containers {
        labels.push(&[("function", &guest.name), ("tenant", &guest.tenant), ("image", &guest.image)]);
    }
    let guests = || (functions.len()..).zip(host.containers);
    let of_guests = |family: &Family, samples: &mut Samples<'_>| {
        guests().for_each(|(n, guest)| container::as_function(guest, n, family, samples));
    };
    let facts = || (0..functions.len()).zip(facts());
    let mut info = text.family(&INFO, &labels);
    facts().for_each(|(n, facts)| info.more(n, ("digest", facts.digest), Value::Count(1)));
    of_guests(&INFO, &mut info);
    columns().for_each(|columns| {
        column::write_with(columns, functions, &labels, &host.clock, text, of_guests);
    });
    let mut kept = text.family(&EVENTS, &labels);
    facts().for_each(|(n, facts)| {
        facts.events.into_iter().for_each(|(kept_of, _)| kept.one(n, Value::Count(kept_of)))
    });
    of_guests(&EVENTS, &mut kept);
    let mut lost = text.family(&LOST_EVENTS, &labels);
    facts().for_each(|(n, facts)| {
        facts.events.into_iter().for_each(|(_, lost_of)| lost.one(n, Value::Count(lost_of)))
    });
    of_guests(&LOST_EVENTS, &mut lost);
    let of_functions = functions.iter().map(|function| &function.latencies);
    let took = of_functions.chain(host.containers.iter().map(|guest| &guest.latencies));
    latencies(&LATENCY, took, &labels, text);
    histograms(&CALLS, facts().filter_map(|(n, facts)| Some((n, facts.calls?))), &labels, text);
    histograms(&WAITING, facts().filter_map(|(n, facts)| Some((n, facts.waiting?))), &labels, text);
}

/// Writes how long packets took; of those that had none, nothing.
pub(crate) fn latencies<'a>(
    family: &Family,
    counted: impl Iterator<Item = &'a Latencies>,
    labels: &Labels,
    text: &mut Text<'_>,
) {
    let spelled: Vec<String> = Latencies::bounds().chain([u64::MAX]).map(spell).collect();
    let spelled: Vec<&str> = spelled.iter().map(String::as_str).collect();
    let mut samples = text.family(family, labels);
    for (n, latencies) in counted.enumerate().filter(|(_, latencies)| latencies.count() > 0) {
        let counts: Vec<u64> = latencies.at_most().collect();
        samples.histogram(n, &spelled, &counts, Nanos(latencies.sum()));
    }
}

fn histograms<'a>(
    family: &Family,
    measured: impl Iterator<Item = (usize, &'a Histogram)>,
    labels: &Labels,
    text: &mut Text<'_>,
) {
    let bounds: Vec<u64> = BOUNDS.map(|bits| 1 << bits).chain([u64::MAX]).collect();
    let spelled: Vec<String> = bounds.iter().map(|bound| spell(*bound)).collect();
    let spelled: Vec<&str> = spelled.iter().map(String::as_str).collect();
    let mut samples = text.family(family, labels);
    for (n, histogram) in measured {
        let distribution = histogram.read();
        samples.histogram(n, &spelled, &distribution.at_most(&bounds), Nanos(distribution.sum()));
    }
}

/// A bound in seconds, as Go spells floats: readers compare the text.
fn spell(nanos: u64) -> String {
    if nanos == u64::MAX {
        return "+Inf".to_owned();
    }
    let value = nanos as f64 / 1e9;
    if value >= 1e-4 {
        return value.to_string();
    }
    let text = format!("{value:e}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::spell;

    #[test]
    fn bounds_are_spelled_as_go_does() {
        for (bits, expected) in
            [(7, "1.28e-07"), (10, "1.024e-06"), (16, "6.5536e-05"), (17, "0.000131072"), (30, "1.073741824")]
        {
            assert_eq!(spell(1 << bits), expected);
        }
        assert_eq!(spell(u64::MAX), "+Inf");
    }
}
