//! The account of a worker at a quiescent point: every packet, and where the cycles went.

use crate::control::fault::Life;
use crate::forwarding::Forwarding;
use crate::state::accounting::{NO_INSTANCE, WorkerTime};
use crate::state::ports::PortNode;
use crate::worker::Worker;
use packet_memory::Pool;
use port::{PortCounters, PortStatus};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use telemetry::clock::{Cycles, Moment};
use telemetry::{Imbalance, Latencies, Ledger};
use virtual_device::{DeviceCounters, PortDevicesCounters};
use virtual_switch::SwitchCounters;

/// What functions report of themselves, by the numbers of their instances.
pub(crate) type Reports = BTreeMap<usize, String>;

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
    /// What only this kind of port counts, and the packets that it should have observed and did not.
    pub details: Vec<(&'static str, u64)>,
    /// How long packets took from their reception anywhere until this port was handed them.
    pub latencies: Latencies,
}

/// One instance's part.
#[derive(Clone, Debug, Default)]
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
    /// Its share of a processor when all functions there want all that they can get.
    pub promised: f64,
    /// Cycles during which it had work and a cap held it back.
    pub throttled: Cycles,
    /// Calls that took longer than a slice.
    pub overruns: u64,
    /// Times that a call was switched out.
    pub suspensions: u64,
    /// Bytes of memory that the function has for itself.
    pub memory: u64,
    /// The address in this process at which they begin; 0: unknown.
    pub memory_place: usize,
    /// It is paused.
    pub paused: bool,
    /// It is paused, and what it needs to run has been given up; see
    /// [`Change::freeze`](crate::Change::freeze).
    pub frozen: bool,
    /// Number of the worker that it is on.
    pub worker: u16,
    /// Packets in its queue.
    pub queue: u64,
    /// Packets waiting, held or given up at this moment.
    pub in_flight: u64,
    /// Why it is down, if it is.
    pub down: Option<String>,
    /// Its own drop reasons, those that occurred.
    pub own_drops: Vec<(String, u64)>,
    /// Its own counters.
    pub counters: Vec<(String, u64)>,
    /// How long packets took from their reception to the end of its verdicts.
    pub latencies: Latencies,
    /// Its own report, JSON, when asked for.
    pub report: Option<String>,
}

/// One switch's part. Its packets are those of the senders that hand them to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchAccount {
    /// Its name.
    pub name: String,
    /// Ports that something is plugged into.
    pub ports: usize,
    /// What it counted.
    pub counters: SwitchCounters,
}

/// One virtual device's part. Its packets are those of the senders that hand them to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAccount {
    /// Its name.
    pub name: String,
    /// What it counted.
    pub counters: DeviceCounters,
    /// What opens it.
    pub openers: usize,
}

/// What was counted between a port and the devices over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortDevicesAccount {
    /// The name under which the devices at the port were taken in.
    pub name: String,
    /// What was counted.
    pub counters: PortDevicesCounters,
}

/// Everything at a quiescent point.
#[derive(Clone, Debug)]
pub struct Account {
    /// When.
    pub at: Moment,
    /// All of it is of that moment; else each part is of one of its own shortly before, and the sums need not
    /// balance.
    pub at_one_moment: bool,
    /// All ledgers together.
    pub ledger: Ledger,
    /// Packets found by walking the owners.
    pub in_flight: u64,
    /// The ports, in the order they were added.
    pub ports: Vec<PortAccount>,
    /// The instances, in the order they were added.
    pub instances: Vec<InstanceAccount>,
    /// The switches, in the order they were added.
    pub switches: Vec<SwitchAccount>,
    /// The virtual devices, in the order they were added.
    pub devices: Vec<DeviceAccount>,
    /// The devices at each port together, in the order they were added.
    pub port_devices: Vec<PortDevicesAccount>,
    /// The workers' own time, in the order of their numbers.
    pub workers: Vec<WorkerTime>,
    /// Buffers free and in all, by pool.
    pub pools: Vec<(String, usize, usize)>,
}

/// What of an instance's part has to be of one moment: plain numbers, which are copied in no time.
#[derive(Clone, Debug, Default)]
pub(crate) struct InstanceCounts {
    pub(crate) ledger: Ledger,
    pub(crate) in_flight: u64,
    packets: u64,
    bytes: u64,
    calls: u64,
    faults: u64,
    restarts: u64,
    missed: u64,
    cycles: Cycles,
    throttled: Cycles,
    overruns: u64,
    suspensions: u64,
    paused: bool,
    queue: u64,
}

impl InstanceCounts {
    /// Puts them in the place of others.
    pub(crate) fn put_into(self, account: &mut InstanceAccount) {
        (account.ledger, account.in_flight) = (self.ledger, self.in_flight);
        (account.packets, account.bytes, account.calls) = (self.packets, self.bytes, self.calls);
        (account.faults, account.restarts, account.missed) = (self.faults, self.restarts, self.missed);
        (account.cycles, account.throttled) = (self.cycles, self.throttled);
        (account.overruns, account.suspensions) = (self.overruns, self.suspensions);
        (account.paused, account.queue) = (self.paused, self.queue);
    }
}

/// The same of a port's part.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortCounts {
    pub(crate) counters: PortCounters,
    pub(crate) in_flight: u64,
}

impl PortCounts {
    fn of(node: &PortNode) -> PortCounts {
        let mut counters = node.port.counters().clone();
        counters.ledger.merge(&node.ledger);
        PortCounts { counters, in_flight: node.port.in_flight() }
    }

    /// Puts them in the place of others.
    pub(crate) fn put_into(self, account: &mut PortAccount) {
        (account.counters, account.in_flight) = (self.counters, self.in_flight);
    }
}

impl Account {
    /// Of nothing.
    pub(crate) fn empty(at: Moment) -> Account {
        Account {
            at,
            at_one_moment: true,
            ledger: Ledger::default(),
            in_flight: 0,
            ports: Vec::new(),
            instances: Vec::new(),
            switches: Vec::new(),
            devices: Vec::new(),
            port_devices: Vec::new(),
            workers: Vec::new(),
            pools: Vec::new(),
        }
    }

    /// Whether every packet is accounted for. Of an account that is not of one moment that cannot be said,
    /// and nothing is found.
    ///
    /// # Errors
    /// [`Imbalance`], a defect.
    pub fn balance(&self) -> Result<(), Imbalance> {
        if self.at_one_moment { self.ledger.balance(self.in_flight) } else { Ok(()) }
    }

    /// Enters the parts of all that forwards by a decision, which workers have in common.
    pub(crate) fn add_switches<'a>(&mut self, all: impl Iterator<Item = (&'a str, &'a Forwarding)>) {
        for (name, forwarding) in all {
            let name = name.to_owned();
            match forwarding {
                Forwarding::Learning(table) => {
                    let (ports, counters) = (table.ports().count(), table.counters());
                    self.switches.push(SwitchAccount { name, ports, counters });
                }
                Forwarding::Device(device) => {
                    let (counters, openers) = (device.counters(), device.settings().openers.len());
                    self.devices.push(DeviceAccount { name, counters, openers });
                }
                Forwarding::Ports(devices) => {
                    self.port_devices.push(PortDevicesAccount { name, counters: devices.counters() });
                }
            }
        }
    }

    /// Enters the buffers free and in all of pools.
    pub(crate) fn add_pools<'a>(&mut self, all: impl Iterator<Item = &'a Arc<Pool>>) {
        let of =
            |pool: &Arc<Pool>| (pool.name().to_owned(), pool.available(), pool.config().buffers as usize);
        self.pools.extend(all.map(of));
    }

    /// Takes over what was known before ports were closed, from an account of the same instances and ports:
    /// the functions' reports, and how ports were.
    pub(crate) fn take_from_before(&mut self, before: Account) {
        for (instance, earlier) in self.instances.iter_mut().zip(before.instances) {
            instance.report = earlier.report;
        }
        for (port, earlier) in self.ports.iter_mut().zip(before.ports) {
            port.status = earlier.status;
        }
    }
}

impl Worker {
    /// Takes the account. Functions are asked for their reports when `with_reports`; one that faults over it
    /// is treated as at any fault.
    pub fn account(&mut self, with_reports: bool) -> Account {
        let mut reports = self.reports(with_reports);
        let ports = self.account_of_ports();
        let instances = self.numbers_of_instances();
        let mut account = Account::empty(self.time.clock.moment());
        let instance = |index| self.account_of(index, reports.remove(&index));
        account.instances = instances.into_iter().map(instance).collect();
        account.workers.push(self.time.spent);
        for (index, port) in ports {
            account.ledger.merge(&port.counters.ledger);
            account.in_flight += port.in_flight;
            if !self.ports[index].relay {
                account.ports.push(port);
            }
        }
        for instance in &account.instances {
            account.ledger.merge(&instance.ledger);
            account.in_flight += instance.in_flight;
        }
        let pools = self.pools.iter().enumerate();
        let is_free = |index: usize| self.free_pools.iter().any(|free| usize::from(free.0) == index);
        account.add_pools(pools.filter(|(index, _)| !is_free(*index)).map(|(_, pool)| pool));
        let switches = self.switches.iter().filter(|node| !node.is_gone);
        account.add_switches(switches.map(|node| (node.name.as_str(), &node.forwarding)));
        account
    }

    /// The ports' parts by their numbers; wires to other workers are among them.
    fn account_of_ports(&mut self) -> Vec<(usize, PortAccount)> {
        self.ports.iter().map(|(index, node)| (index, account_of_node(node))).collect()
    }

    /// A port's part.
    pub(crate) fn account_of_port(&self, index: usize) -> PortAccount {
        account_of_node(&self.ports[index])
    }

    /// Of a port, what has to be of one moment.
    pub(crate) fn counts_of_port(&self, index: usize) -> PortCounts {
        PortCounts::of(&self.ports[index])
    }

    /// Of the wires to other workers together: their ledgers, and what is in flight.
    pub(crate) fn counts_of_relays(&self) -> (Ledger, u64) {
        let (mut ledger, mut in_flight) = (Ledger::default(), 0);
        for (_, node) in self.ports.iter().filter(|(_, node)| node.relay) {
            ledger.merge(&node.port.counters().ledger);
            ledger.merge(&node.ledger);
            in_flight += node.port.in_flight();
        }
        (ledger, in_flight)
    }

    /// The functions' own reports, if they are wanted. They come before all counts: a function may send
    /// packets meanwhile.
    pub(crate) fn reports(&mut self, wanted: bool) -> Reports {
        if !wanted {
            return Reports::new();
        }
        let numbers = self.numbers_of_instances();
        let of = |index| Some((index, self.report_of(index)?));
        numbers.into_iter().filter_map(of).collect()
    }

    fn numbers_of_instances(&self) -> Vec<usize> {
        self.instances.iter().map(|(index, _)| index).collect()
    }

    /// Of an instance, what has to be of one moment.
    pub(crate) fn counts_of(&mut self, index: usize) -> InstanceCounts {
        let instance = &mut self.instances[index];
        let in_flight = instance.in_flight();
        let counters = &mut instance.counters;
        if let Life::Up { guest, .. } = &mut instance.life {
            counters.ledger.generated += std::mem::take(&mut guest.kept_mut().generated);
        }
        InstanceCounts {
            ledger: counters.ledger.clone(),
            in_flight,
            packets: counters.packets,
            bytes: counters.bytes,
            calls: counters.calls,
            faults: counters.faults,
            restarts: counters.restarts,
            missed: counters.missed + instance.missed_elsewhere.load(Relaxed),
            cycles: self.time.scheduler.used(instance.entity),
            throttled: self.time.scheduler.throttled(instance.entity),
            overruns: counters.overruns,
            suspensions: counters.suspensions,
            paused: instance.paused,
            queue: instance.queue.len() as u64,
        }
    }

    pub(crate) fn account_of(&mut self, index: usize, report: Option<String>) -> InstanceAccount {
        let counts = self.counts_of(index);
        let instance = &mut self.instances[index];
        let counters = &instance.counters;
        let mut totals = counters.former.clone();
        let (mut down, mut memory, mut memory_place, mut frozen) = (None, 0, 0, false);
        match &mut instance.life {
            Life::Up { guest, .. } => {
                memory = guest.memory() as u64;
                memory_place = guest.memory_place();
                frozen = guest.is_frozen();
                // Guests and snapshots can make their counters anything; they wrap as in the guest.
                for (sum, count) in totals.iter_mut().zip(&guest.kept().counters) {
                    *sum = sum.wrapping_add(*count);
                }
            }
            Life::Down { reason, .. } => down = Some(reason.clone()),
            Life::Starting { reason, .. } => down = Some(format!("{reason}; it is being started")),
        }
        let named = |names: &[String], counts: &[u64]| -> Vec<(String, u64)> {
            names.iter().cloned().zip(counts.iter().copied()).collect()
        };
        let mut own_drops = named(&instance.drop_reasons, &counters.own_drops);
        own_drops.retain(|(_, count)| *count > 0);
        let mut account = InstanceAccount {
            name: instance.name.clone(),
            promised: self.time.scheduler.promised(instance.entity),
            memory,
            memory_place,
            frozen,
            worker: self.number,
            down,
            own_drops,
            counters: named(&instance.counter_names, &totals),
            latencies: counters.latencies.clone(),
            report,
            ..InstanceAccount::default()
        };
        counts.put_into(&mut account);
        account
    }

    pub(crate) fn report_of(&mut self, index: usize) -> Option<String> {
        if self.instances[index].suspended.is_some() {
            // It would be a second call in the middle of the first.
            return None;
        }
        self.in_account_of(index, |worker| {
            worker.upkeep.note_call(index, &mut worker.instances[index].called);
            let now = worker.time.now;
            let report = match &mut worker.instances[index].life {
                Life::Up { guest, .. } => guest.report(now),
                Life::Down { .. } | Life::Starting { .. } => Ok(None),
            };
            match report {
                Ok(report) => {
                    worker.after_call(index);
                    report
                }
                Err(fault) => {
                    worker.on_guest_fault(index, &fault, None);
                    None
                }
            }
        })
    }

    /// Does something for an instance outside of its turns, between two turns of the worker, and charges it
    /// for that.
    pub(crate) fn in_account_of<R>(&mut self, index: usize, deed: impl FnOnce(&mut Worker) -> R) -> R {
        // The time until the worker was quiesced is charged to no instance, and the thread may be another
        // one.
        self.time.restart();
        self.time.switch(self.instances[index].entity);
        let done = deed(self);
        self.time.switch(NO_INSTANCE);
        done
    }
}

pub(crate) fn account_of_node(node: &PortNode) -> PortAccount {
    let PortCounts { counters, in_flight } = PortCounts::of(node);
    let mut details = node.port.details();
    let missed = node.missed.load(Relaxed);
    if missed > 0 {
        details.push(("packets_missed", missed));
    }
    PortAccount {
        name: node.name.clone(),
        status: node.port.status(),
        counters,
        in_flight,
        details,
        latencies: node.latencies.clone(),
    }
}
