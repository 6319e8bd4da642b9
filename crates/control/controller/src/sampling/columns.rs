//! What is kept of each kind of objects, and how it is read from an account.

use super::super::container_readings::ContainerReading;
use super::super::graph::lost;
use api::FunctionState;
use engine::{InstanceAccount, PortAccount};
use history::{Column, Kind, Rule};
use port::PortStatus;
use telemetry::clock::Clock;
use telemetry::{DropReason, Latencies};

pub(super) const FUNCTION: usize = 0;
pub(super) const PORT: usize = 1;
pub(super) const DEVICE: usize = 2;
pub(super) const EDGE: usize = 3;
pub(super) const TENANT: usize = 4;
pub(super) const WORKER: usize = 5;
pub(super) const POOL: usize = 6;
pub(super) const HOST: usize = 7;

const fn sum(name: &'static str) -> Column {
    Column { name, rule: Rule::Sum }
}

/// What passes between functions is worked out.
const fn derived(name: &'static str) -> Column {
    Column { name, rule: Rule::Derived }
}

const fn highest(name: &'static str) -> Column {
    Column { name, rule: Rule::Highest }
}

/// Where a function is and how it is, in one number: the worker's, and [`PLACE_STATE`] bits.
pub(super) const PLACE: &str = "place";
/// Bits of a place that say how a function is.
const PLACE_STATE: u32 = 3;
/// Stands for no worker, as it is kept: containers have the kernel's processor time. A place is kept as it
/// is, in 12 bits ([`Rule::Last`]), of which workers take less.
const NO_WORKER: u64 = (1 << (12 - PLACE_STATE)) - 1;
const _: () = assert!(wiring::MAX_WORKERS < NO_WORKER as usize);
/// The same as it is told.
const NO_WORKER_TOLD: u64 = 1023;
/// Of ports, how they are.
pub(super) const STATE: &str = "state";

pub(super) static KINDS: [Kind; 8] = [
    Kind {
        name: "function",
        columns: &[
            sum("packets"),
            sum("bytes"),
            sum("cpu_ns"),
            highest("queue"),
            sum("drops"),
            Column { name: PLACE, rule: Rule::Last },
            Column { name: "promised", rule: Rule::Now },
        ],
        has_minute: true,
    },
    Kind {
        name: "port",
        columns: &[
            sum("received"),
            sum("received_bytes"),
            sum("delivered"),
            sum("delivered_bytes"),
            sum("drops"),
            highest("in_flight"),
            Column { name: STATE, rule: Rule::Last },
        ],
        has_minute: true,
    },
    Kind { name: "device", columns: &[sum("packets"), sum("bytes"), sum("drops")], has_minute: false },
    Kind {
        name: "edge",
        columns: &[derived("there"), sum("there_bytes"), derived("back"), sum("back_bytes")],
        has_minute: false,
    },
    Kind {
        name: "tenant",
        columns: &[sum("packets"), sum("bytes"), sum("cpu_ns"), sum("drops")],
        has_minute: false,
    },
    Kind {
        name: "worker",
        columns: &[sum("functions_ns"), sum("overhead_ns"), sum("asleep_ns"), sum("withheld_ns")],
        has_minute: false,
    },
    Kind {
        name: "pool",
        columns: &[Column { name: "free", rule: Rule::Lowest }, Column { name: "buffers", rule: Rule::Now }],
        has_minute: false,
    },
    Kind {
        name: "host",
        columns: &[
            sum("received"),
            sum("received_bytes"),
            sum("delivered"),
            sum("delivered_bytes"),
            sum("drops"),
            sum("cpu_ns"),
        ],
        has_minute: false,
    },
];

/// As clients of the history read it.
fn number_of(state: FunctionState) -> u64 {
    match state {
        FunctionState::Running => 0,
        FunctionState::Paused => 1,
        FunctionState::Frozen => 2,
        FunctionState::Down => 3,
        FunctionState::Starting => 4,
    }
}

/// The state and the worker of a place, as they are told.
pub(super) fn told_of_place(place: u64) -> (u64, u64) {
    let worker = place >> PLACE_STATE;
    let told = if worker == NO_WORKER { NO_WORKER_TOLD } else { worker };
    (place & ((1 << PLACE_STATE) - 1), told)
}

pub(super) fn values_of_function(function: &InstanceAccount, clock: &Clock) -> [u64; 7] {
    let state = number_of(match (&function.down, function.paused, function.frozen) {
        (Some(_), _, _) => FunctionState::Down,
        (None, true, true) => FunctionState::Frozen,
        (None, true, false) => FunctionState::Paused,
        (None, false, _) => FunctionState::Running,
    });
    let own: u64 = function.own_drops.iter().map(|(_, count)| count).sum();
    [
        function.packets,
        function.bytes,
        clock.span(function.cycles).0,
        function.queue,
        lost(&function.ledger.dropped).max(own),
        u64::from(function.worker) << PLACE_STATE | state,
        (function.promised * 1000.0).round() as u64,
    ]
}

/// Of a container, in the same columns.
pub(super) fn values_of_container(container: &ContainerReading) -> [u64; 7] {
    let ContainerReading { packets, bytes, cpu_ns, queue, .. } = *container;
    let place = NO_WORKER << PLACE_STATE | number_of(container.state);
    [packets, bytes, cpu_ns, queue, lost(&container.dropped), place, 0]
}

pub(super) fn values_of_port(port: &PortAccount) -> [u64; 7] {
    let counters = &port.counters;
    let state = match port.status {
        PortStatus::Up => 0,
        PortStatus::Down(_) => 1,
        PortStatus::Finished => 2,
    };
    [
        counters.ledger.received + counters.ledger.generated,
        counters.received_bytes,
        counters.ledger.delivered,
        counters.delivered_bytes,
        lost(&counters.ledger.dropped),
        port.in_flight,
        state,
    ]
}

/// What was lost, by reason; a function's own drops are told by its own reasons where it has some.
pub(super) fn reasons<'a>(
    of: impl Fn(DropReason) -> u64 + 'a,
    with_functions: bool,
) -> impl Iterator<Item = (&'a str, u64)> {
    let all = DropReason::ALL.iter().filter(move |reason| with_functions || **reason != DropReason::Function);
    all.map(move |reason| (reason.name(), of(*reason)))
}

/// A histogram's parts.
pub(super) fn parts(latencies: &Latencies) -> impl Iterator<Item = u64> {
    let counted = latencies.count() > 0;
    let mut before = 0;
    latencies.at_most().filter(move |_| counted).map(move |sum| sum - std::mem::replace(&mut before, sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_kept_whole_and_told_as_it_was() {
        let last = wiring::MAX_WORKERS as u64 - 1;
        let states = [
            FunctionState::Running,
            FunctionState::Paused,
            FunctionState::Frozen,
            FunctionState::Down,
            FunctionState::Starting,
        ];
        for (kept, told) in [(0, 0), (last, last), (NO_WORKER, NO_WORKER_TOLD)] {
            for state in states {
                let place = kept << PLACE_STATE | number_of(state);
                assert!(place < 1 << 12, "{place}");
                assert_eq!(told_of_place(place), (number_of(state), told));
            }
        }
    }
}
