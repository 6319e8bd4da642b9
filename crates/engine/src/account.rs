//! The account of a worker at a quiet point: every packet, and where the cycles went.

use crate::fault::Life;
use crate::worker::Worker;
use clock::{Cycles, Moment};
use port::{PortCounters, PortStatus};
use telemetry::{Imbalance, Ledger};

/// One port's part.
#[derive(Clone, Debug)]
pub struct PortAccount {
    /// Its name.
    pub name: String,
    /// How it is.
    pub status: PortStatus,
    /// What it counted.
    pub counters: PortCounters,
    /// Packets in its rings.
    pub in_flight: u64,
    /// What only this kind of port counts.
    pub details: Vec<(&'static str, u64)>,
}

/// One instance's part.
#[derive(Clone, Debug)]
pub struct InstanceAccount {
    /// Its name.
    pub name: String,
    /// Its packets that came to be or ceased to be there.
    pub ledger: Ledger,
    /// Packets it was shown.
    pub packets: u64,
    /// Bytes of these packets, at the length that the function left them at.
    pub bytes: u64,
    /// Calls made into it with packets.
    pub calls: u64,
    /// Faults so far.
    pub faults: u64,
    /// Starts after faults.
    pub restarts: u64,
    /// Packets that it should have observed and did not.
    pub missed: u64,
    /// Cycles spent on it, I/O on its behalf included.
    pub cycles: Cycles,
    /// Packets waiting, held or given up at this moment.
    pub in_flight: u64,
    /// Why it is down, if it is.
    pub down: Option<String>,
    /// Its own drop reasons, those that occurred.
    pub own_drops: Vec<(String, u64)>,
    /// Its own counters.
    pub counters: Vec<(String, u64)>,
    /// Its own report, JSON, when asked for.
    pub report: Option<String>,
}

/// Everything at a quiet point.
#[derive(Clone, Debug)]
pub struct Account {
    /// When.
    pub at: Moment,
    /// All ledgers together.
    pub ledger: Ledger,
    /// Packets found by walking the owners.
    pub in_flight: u64,
    /// The ports, in the order they were added.
    pub ports: Vec<PortAccount>,
    /// The instances, in the order they were added.
    pub instances: Vec<InstanceAccount>,
    /// Cycles that no instance was charged for: looking around with nothing to do.
    pub overhead: Cycles,
    /// Buffers free and in all, by pool.
    pub pools: Vec<(String, usize, usize)>,
}

impl Account {
    /// Whether every packet is accounted for.
    ///
    /// # Errors
    /// [`Imbalance`], a defect.
    pub fn balance(&self) -> Result<(), Imbalance> {
        self.ledger.balance(self.in_flight)
    }
}

impl Worker {
    /// Takes the account. Functions are asked for their reports when `with_reports`; one that faults over it is
    /// treated as at any fault.
    pub fn account(&mut self, with_reports: bool) -> Account {
        let reports: Vec<_> = (0..self.instances.len())
            .map(|index| if with_reports { self.report_of(index) } else { None })
            .collect();
        let mut ledger = Ledger::default();
        let mut in_flight = 0;
        let ports: Vec<_> = self
            .ports
            .iter()
            .map(|node| {
                let mut counters = node.port.counters().clone();
                counters.ledger.merge(&node.ledger);
                let own = node.port.in_flight() + node.outgoing.len() as u64;
                ledger.merge(&counters.ledger);
                in_flight += own;
                PortAccount {
                    name: node.name.clone(),
                    status: node.port.status(),
                    counters,
                    in_flight: own,
                    details: node.port.details(),
                }
            })
            .collect();
        let scheduler = &self.scheduler;
        let instances = self
            .instances
            .iter_mut()
            .zip(reports)
            .map(|(instance, report)| {
                let own = instance.in_flight();
                in_flight += own;
                let counters = &mut instance.counters;
                let mut totals = counters.former.clone();
                let mut down = None;
                match &mut instance.life {
                    Life::Up { guest, .. } => {
                        counters.ledger.generated += guest.take_generated();
                        for (sum, count) in totals.iter_mut().zip(guest.counters()) {
                            *sum += count;
                        }
                    }
                    Life::Down { reason, .. } => down = Some(reason.clone()),
                }
                ledger.merge(&counters.ledger);
                let named = |names: &[String], counts: &[u64]| -> Vec<(String, u64)> {
                    names.iter().cloned().zip(counts.iter().copied()).collect()
                };
                let mut own_drops = named(&instance.drop_reasons, &counters.own_drops);
                own_drops.retain(|(_, count)| *count > 0);
                InstanceAccount {
                    name: instance.name.clone(),
                    ledger: counters.ledger.clone(),
                    packets: counters.packets,
                    bytes: counters.bytes,
                    calls: counters.calls,
                    faults: counters.faults,
                    restarts: counters.restarts,
                    missed: counters.missed,
                    cycles: scheduler.used(instance.entity),
                    in_flight: own,
                    down,
                    own_drops,
                    counters: named(&instance.counter_names, &totals),
                    report,
                }
            })
            .collect();
        let pools = self
            .pools
            .iter()
            .map(|pool| (pool.name().to_owned(), pool.available(), pool.config().buffers as usize))
            .collect();
        let overhead = scheduler.used(self.overhead);
        Account { at: self.clock.moment(), ledger, in_flight, ports, instances, overhead, pools }
    }

    fn report_of(&mut self, index: usize) -> Option<String> {
        let now = self.clock.moment();
        let before = self.switch_account(self.instances[index].entity);
        let report = match &mut self.instances[index].life {
            Life::Up { guest, .. } => guest.report(now),
            Life::Down { .. } => Ok(None),
        };
        let report = match report {
            Ok(report) => {
                self.after_call(index);
                report
            }
            Err(fault) => {
                self.bury(index, &fault, None);
                None
            }
        };
        self.switch_account(before);
        report
    }
}
