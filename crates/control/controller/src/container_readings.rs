//! What containers have done, from what the launcher says of them and what their interfaces' ports count: the
//! graph and the history show them beside the functions in the sandbox.

use super::controller::Controller;
use super::standing::Standing;
use api::FunctionState;
use engine::{Account, PortAccount};
use std::collections::{BTreeMap, HashMap};
use telemetry::{DropCounters, Latencies};
use wiring::{Container, Wiring, container_port};

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ContainerReading {
    /// Whose it is.
    pub(super) tenant: String,
    /// Whether it runs.
    pub(super) state: FunctionState,
    /// Processor time that its processes have had since it was started and the engine used for its packets,
    /// in nanoseconds: half a second old at most.
    pub(super) cpu_ns: u64,
    /// Packets that it was given, and their bytes.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Packets that wait in the rings of its ports.
    pub(super) queue: u64,
    /// What its ports lost.
    pub(super) dropped: DropCounters,
    /// Copies that it should have been given as an observer and was not.
    pub(super) missed: u64,
    /// How long packets took until it was given them.
    pub(super) latencies: Latencies,
}

impl Controller {
    /// All containers of a wiring, by name.
    pub(super) fn container_readings(
        &self,
        wiring: &Wiring,
        account: &Account,
    ) -> BTreeMap<String, ContainerReading> {
        if wiring.containers.is_empty() {
            return BTreeMap::new();
        }
        let ports: HashMap<&str, &PortAccount> =
            account.ports.iter().map(|port| (port.name.as_str(), port)).collect();
        let clock = guest_wasm::watchdog::clock();
        let beside = self.host.beside(false).into_iter();
        let engine_ns: HashMap<String, u64> =
            beside.map(|(name, reading)| (name, clock.span(reading.meter.used()).0)).collect();
        let reading = |(name, container): (&String, &Container)| {
            let condition = self.containers.get().and_then(|keeper| keeper.condition(name));
            let condition = condition.unwrap_or_default();
            let named = container.interfaces.iter().map(|it| container_port(name, &it.name));
            let counted = named.filter_map(|port| ports.get(port.as_str()).copied());
            let port = |name: &str| ports.get(name).copied();
            let state = Standing::of((name, container), &condition, &self.attaching, port).state;
            let engine = engine_ns.get(name).copied().unwrap_or(0);
            let cpu_ns = condition.cpu_us.saturating_mul(1000).saturating_add(engine);
            (name.clone(), read(&container.tenant, state, cpu_ns, counted))
        };
        wiring.containers.iter().map(reading).collect()
    }
}

/// What the ports of one counted.
pub(super) fn read<'a>(
    tenant: &str,
    state: FunctionState,
    cpu_ns: u64,
    ports: impl Iterator<Item = &'a PortAccount>,
) -> ContainerReading {
    let mut reading = ContainerReading {
        tenant: tenant.to_owned(),
        state,
        cpu_ns,
        packets: 0,
        bytes: 0,
        queue: 0,
        dropped: DropCounters::default(),
        missed: 0,
        latencies: Latencies::default(),
    };
    for PortAccount { counters, in_flight, details, latencies, .. } in ports {
        reading.packets += counters.ledger.delivered;
        reading.bytes += counters.delivered_bytes;
        reading.queue += in_flight;
        reading.dropped.merge(&counters.ledger.dropped);
        let missed = details.iter().filter(|(name, _)| *name == "packets_missed").map(|(_, count)| count);
        reading.missed += missed.sum::<u64>();
        reading.latencies.merge(latencies);
    }
    reading
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::{PortCounters, PortStatus};
    use telemetry::DropReason;

    #[test]
    fn a_container_has_done_what_its_ports_counted() {
        let port = |name: &str, delivered: u64| {
            let mut counters = PortCounters { delivered_bytes: 100 * delivered, ..PortCounters::default() };
            counters.ledger.delivered = delivered;
            counters.ledger.dropped[DropReason::PortFull] = 2;
            let mut latencies = Latencies::default();
            latencies.record(200, delivered);
            let (status, details) = (PortStatus::Up, vec![("copied", 1), ("packets_missed", delivered)]);
            PortAccount { name: name.to_owned(), status, counters, in_flight: 3, details, latencies }
        };
        let ports = [port("ids:in", 5), port("ids:out", 7)];
        let reading = read("red", FunctionState::Starting, 9_000, ports.iter());
        assert_eq!((reading.packets, reading.bytes, reading.queue, reading.cpu_ns), (12, 1200, 6, 9_000));
        assert_eq!((reading.dropped.total(), reading.latencies.count(), reading.missed), (4, 12, 12));
        assert!(reading.state == FunctionState::Starting && reading.tenant == "red");
    }
}
