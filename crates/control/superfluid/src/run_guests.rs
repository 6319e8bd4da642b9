//! Functions that the launcher runs, as a run tells of them: a row of its table, and whether one was down at
//! the end.

use deployment::Host;
use engine::{Account, PortAccount};
use launcher::Keeper;
use launcher::keeper::Phase;
use std::sync::Arc;
use wiring::{Wiring, container_port};

/// All that a run has.
pub(crate) struct RunGuests {
    host: Arc<Host>,
    keeper: Option<Arc<Keeper>>,
    /// Each one with the ports that its interfaces are.
    guests: Vec<(String, Vec<String>)>,
}

/// What one has done since its start, but for what is counted from one moment to another.
#[derive(Clone, Debug, Default)]
pub(crate) struct GuestRow {
    pub(crate) name: String,
    /// Packets that it was given, and their bytes.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets that wait at its ports.
    pub(crate) queue: u64,
    /// What its ports lost.
    pub(crate) dropped: u64,
    /// Processor time of its processes and for its packets.
    pub(crate) cpu_ns: u64,
    pub(crate) state: String,
}

impl RunGuests {
    pub(crate) fn new(host: &Arc<Host>, wiring: &Wiring, keeper: Option<Arc<Keeper>>) -> RunGuests {
        let guests = wiring.containers.iter().map(|(name, container)| {
            let ports = container.interfaces.iter().map(|it| container_port(name, &it.name));
            (name.clone(), ports.collect())
        });
        RunGuests { host: host.clone(), keeper, guests: guests.collect() }
    }

    /// As they are, with what their ports count in this account.
    pub(crate) fn rows(&self, account: &Account) -> Vec<GuestRow> {
        let Some(keeper) = &self.keeper else { return Vec::new() };
        let clock = guest_wasm::watchdog::clock();
        let engine = self.host.beside(false);
        let row = |(name, ports): &(String, Vec<String>)| {
            let condition = keeper.condition(name).unwrap_or_default();
            let used = engine.get(name).map_or(0, |reading| clock.span(reading.meter.used()).0);
            let mut row = GuestRow {
                name: name.clone(),
                cpu_ns: condition.cpu_us.saturating_mul(1000).saturating_add(used),
                state: in_words(&condition.phase, condition.faults),
                ..GuestRow::default()
            };
            for port in account.ports.iter().filter(|port| ports.contains(&port.name)) {
                row.add(port);
            }
            row
        };
        self.guests.iter().map(row).collect()
    }

    /// Why those that are down are.
    pub(crate) fn failures(&self) -> Vec<String> {
        let Some(keeper) = &self.keeper else { return Vec::new() };
        let failure = |(name, _): &(String, Vec<String>)| {
            let condition = keeper.condition(name)?;
            match condition.phase {
                Phase::Down(why) => Some(format!("function {name}: it was down at the end: {why}")),
                Phase::Starting(why) if condition.faults > 0 => {
                    Some(format!("function {name}: it was down at the end: {why}"))
                }
                Phase::Runs | Phase::Starting(_) => None,
            }
        };
        self.guests.iter().filter_map(failure).collect()
    }
}

impl GuestRow {
    fn add(&mut self, port: &PortAccount) {
        self.packets += port.counters.ledger.delivered;
        self.bytes += port.counters.delivered_bytes;
        self.queue += port.in_flight;
        self.dropped += port.counters.ledger.dropped.total();
    }
}

fn in_words(phase: &Phase, faults: u64) -> String {
    match phase {
        Phase::Runs if faults > 0 => format!("{faults} faults"),
        Phase::Runs => "running".to_owned(),
        Phase::Starting(why) => format!("starting: {why}"),
        Phase::Down(why) => format!("down: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use launcher::keeper::Why;

    #[test]
    fn what_is_not_as_usual_is_said() {
        assert_eq!(in_words(&Phase::Runs, 0), "running");
        assert_eq!(in_words(&Phase::Runs, 3), "3 faults");
        assert_eq!(
            in_words(&Phase::Down(Why::own("it ended with status 1")), 3),
            "down: it ended with status 1"
        );
        assert_eq!(
            in_words(&Phase::Starting(Why::own("it waits to be started")), 0),
            "starting: it waits to be started"
        );
    }
}
