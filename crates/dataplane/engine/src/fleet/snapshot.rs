//! What an account needs of one moment, copied while all workers are quiesced.
//!
//! 1. [`State::blank_snapshot`] makes room for the numbers of each part before a worker is quiesced.
//! 2. [`Snapshot::copy`] fills it, and does nothing else: for so long the workers stand still.
//! 3. Names, histograms, details and sums are added when they have gone on.

use super::state::{Home, State};
use crate::control::account::{Account, InstanceAccount, InstanceCounts, PortAccount, PortCounts, Reports};
use crate::control::board::Board;
use crate::control::quiesce::Quiesced;
use crate::ids::{InstanceId, PortId};
use crate::state::accounting::WorkerTime;
use port::PortStatus;
use std::collections::HashMap;
use std::sync::Arc;
use telemetry::Ledger;
use telemetry::clock::Moment;

/// An instance or a port: where it is, where the rest of its part is read, and its numbers.
struct Part<Id, Account, Counts> {
    home: Home<Id>,
    board: Arc<Board<Account>>,
    counts: Counts,
}

/// See the module's documentation.
pub(super) struct Snapshot {
    at: Moment,
    workers: Vec<WorkerTime>,
    /// Of what is no more, and of wires between workers.
    ledger: Ledger,
    in_flight: u64,
    instances: Vec<Part<InstanceId, InstanceAccount, InstanceCounts>>,
    ports: Vec<Part<PortId, PortAccount, PortCounts>>,
    /// By worker, where they were asked for.
    reports: Vec<Reports>,
}

impl State {
    /// Room for the numbers of all instances and ports.
    pub(super) fn blank_snapshot(&self) -> Snapshot {
        let instances = self.instances().filter_map(|(instance, home)| {
            let board = self.boards.of_instance(instance)?;
            Some(Part { home: *home, board, counts: InstanceCounts::default() })
        });
        let ports = self.ports().filter_map(|(port, home)| {
            Some(Part { home: *home, board: self.boards.of_port(port)?, counts: PortCounts::default() })
        });
        Snapshot {
            at: Moment::default(),
            workers: Vec::new(),
            ledger: self.boards.gone(),
            in_flight: 0,
            instances: instances.collect(),
            ports: ports.collect(),
            reports: Vec::new(),
        }
    }

    /// The end of all workers, after draining.
    pub(super) fn finish(&mut self, workers: &mut Quiesced<'_>) -> Account {
        // The functions' reports and how ports were are of the time before the ports are closed; the counts
        // are of afterwards.
        let reports = workers.iter_mut().map(|worker| worker.reports(true)).collect();
        let place = |home: Home<PortId>| (home.worker, home.id.index());
        let status = |(worker, index)| workers[worker].account_of_port(index).status;
        let places = self.ports().map(|(_, home)| place(*home));
        let mut statuses: HashMap<(usize, usize), PortStatus> =
            places.map(|place| (place, status(place))).collect();
        workers.iter_mut().for_each(|worker| worker.put_down());
        let mut snapshot = Snapshot { reports, ..self.blank_snapshot() };
        snapshot.copy(workers);
        let mut account = snapshot.account();
        account.instances =
            snapshot.instances(|home, _| Some(workers[home.worker].account_of(home.id.index(), None)));
        account.ports = snapshot.ports(|home, _| {
            let port = workers[home.worker].account_of_port(home.id.index());
            let status = statuses.remove(&place(home)).unwrap_or_else(|| port.status.clone());
            Some(PortAccount { status, ..port })
        });
        self.boards.put_shared_into(&mut account);
        account
    }
}

impl Snapshot {
    /// Asks the functions for their reports, one worker after the other: none stands still for another's.
    pub(super) fn ask_for_reports(&mut self, workers: &mut Quiesced<'_>) {
        for number in 0..workers.len() {
            self.reports.push(workers[number].reports(true));
            workers.release(number);
        }
    }

    /// Copies all numbers as they are now. The workers are quiesced.
    pub(super) fn copy(&mut self, workers: &mut Quiesced<'_>) {
        self.at = workers[0].time.clock.moment();
        for worker in workers.iter() {
            let (ledger, in_flight) = worker.counts_of_relays();
            self.ledger.merge(&ledger);
            self.in_flight += in_flight;
            self.workers.push(worker.time.spent);
        }
        for Part { home, counts, .. } in &mut self.instances {
            *counts = workers[home.worker].counts_of(home.id.index());
        }
        for Part { home, counts, .. } in &mut self.ports {
            *counts = workers[home.worker].counts_of_port(home.id.index());
        }
    }

    pub(super) fn boards(&self) -> impl Iterator<Item = &Arc<Board<InstanceAccount>>> {
        self.instances.iter().map(|part| &part.board)
    }

    pub(super) fn boards_of_ports(&self) -> impl Iterator<Item = &Arc<Board<PortAccount>>> {
        self.ports.iter().map(|part| &part.board)
    }

    /// Its sums.
    pub(super) fn account(&self) -> Account {
        let mut account = Account::empty(self.at);
        account.workers.clone_from(&self.workers);
        account.ledger.merge(&self.ledger);
        account.in_flight += self.in_flight;
        for Part { counts, .. } in &self.instances {
            account.ledger.merge(&counts.ledger);
            account.in_flight += counts.in_flight;
        }
        for Part { counts, .. } in &self.ports {
            account.ledger.merge(&counts.counters.ledger);
            account.in_flight += counts.in_flight;
        }
        account
    }

    /// The parts of the instances, with its numbers. What else there is of one is read where `rest` finds it.
    pub(super) fn instances(
        &mut self,
        mut rest: impl FnMut(Home<InstanceId>, &Board<InstanceAccount>) -> Option<InstanceAccount>,
    ) -> Vec<InstanceAccount> {
        let all = std::mem::take(&mut self.instances);
        // One by one into their place: tens of thousands that are put together in between take far more
        // memory.
        let mut parts = Vec::with_capacity(all.len());
        for Part { home, board, counts } in all {
            let Some(mut part) = rest(home, &board) else { continue };
            counts.put_into(&mut part);
            part.report = self.reports.get_mut(home.worker).and_then(|all| all.remove(&home.id.index()));
            parts.push(part);
        }
        parts
    }

    /// The same of the ports.
    pub(super) fn ports(
        &mut self,
        mut rest: impl FnMut(Home<PortId>, &Board<PortAccount>) -> Option<PortAccount>,
    ) -> Vec<PortAccount> {
        let part = |Part { home, board, counts }: Part<PortId, PortAccount, PortCounts>| {
            let mut part = rest(home, &board)?;
            counts.put_into(&mut part);
            Some(part)
        };
        std::mem::take(&mut self.ports).into_iter().filter_map(part).collect()
    }
}
