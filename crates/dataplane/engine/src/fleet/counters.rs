//! Accounts of instances and ports as they are read while the workers run: see [`crate::board`]. Workers are
//! quiesced for what has to be of one moment alone, and for no longer than it takes to copy that: see
//! [`Snapshot`].

use super::Stopped;
use super::snapshot::Snapshot;
use super::state::{FleetInstance, FleetPort};
use super::{Crew, Fleet, FleetError};
use crate::control::account::{Account, InstanceAccount, PortAccount};
use crate::control::board::{Board, READ_WAIT, Wanted};
use crate::control::quiesce::give_back;
use crate::forwarding::Forwarding;
use crate::ids::{PoolId, SwitchId};
use packet_memory::Pool;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use telemetry::Ledger;

/// Boards that are written in one go by a worker that is taken from its sleep.
const IN_ONE_GO: usize = 256;

/// For how long workers that have come wait for others when all are to be seen at one moment.
pub(super) const GATHER: Duration = Duration::from_micros(200);

/// How long to wait before that is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(2);

/// The boards of all instances and ports. The lock is held for a look at the table, never over a wait.
#[derive(Debug, Default)]
pub(super) struct Boards(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    instances: BTreeMap<FleetInstance, Arc<Board<InstanceAccount>>>,
    ports: BTreeMap<FleetPort, Arc<Board<PortAccount>>>,
    /// What forwards by a decision, and pools: all workers have them in common.
    switches: BTreeMap<SwitchId, (Arc<str>, Forwarding)>,
    pools: BTreeMap<PoolId, Arc<Pool>>,
    /// What instances, ports and relays counted that are no more.
    gone: Ledger,
}

impl Boards {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_instance(&self, instance: FleetInstance, board: Arc<Board<InstanceAccount>>) {
        self.table().instances.insert(instance, board);
    }

    pub(super) fn add_port(&self, port: FleetPort, board: Arc<Board<PortAccount>>) {
        self.table().ports.insert(port, board);
    }

    pub(super) fn add_switch(&self, id: SwitchId, name: &str, forwarding: Forwarding) {
        self.table().switches.insert(id, (name.into(), forwarding));
    }

    pub(super) fn set_forwarding(&self, id: SwitchId, forwarding: Forwarding) {
        self.table().switches.entry(id).and_modify(|(_, there)| *there = forwarding);
    }

    pub(super) fn forget_switch(&self, id: SwitchId) {
        self.table().switches.remove(&id);
    }

    pub(super) fn add_pool(&self, id: PoolId, pool: Arc<Pool>) {
        self.table().pools.insert(id, pool);
    }

    pub(super) fn forget_pool(&self, id: PoolId) {
        self.table().pools.remove(&id);
    }

    /// The board of an instance.
    pub(super) fn of_instance(&self, instance: FleetInstance) -> Option<Arc<Board<InstanceAccount>>> {
        self.table().instances.get(&instance).cloned()
    }

    /// The board of a port.
    pub(super) fn of_port(&self, port: FleetPort) -> Option<Arc<Board<PortAccount>>> {
        self.table().ports.get(&port).cloned()
    }

    fn switches(&self) -> Vec<(Arc<str>, Forwarding)> {
        self.table().switches.values().cloned().collect()
    }

    /// Enters what all workers have in common.
    pub(super) fn put_shared_into(&self, account: &mut Account) {
        let (switches, pools) = (self.switches(), self.table().pools.values().cloned().collect::<Vec<_>>());
        account.add_switches(switches.iter().map(|(name, forwarding)| (&**name, forwarding)));
        account.add_pools(pools.iter());
    }

    pub(super) fn keep_of_gone(&self, ledger: &Ledger) {
        self.table().gone.merge(ledger);
    }

    pub(super) fn gone(&self) -> Ledger {
        self.table().gone.clone()
    }

    pub(super) fn forget_instance(&self, instance: FleetInstance) {
        self.table().instances.remove(&instance);
    }

    pub(super) fn forget_port(&self, port: FleetPort) {
        self.table().ports.remove(&port);
    }
}

impl Fleet {
    /// The account of one instance without its report, as of now, or of a reader before where its worker is
    /// in a long call. A worker that runs is not stopped for it, and none is waited for longer than 20 ms.
    /// `None`: there is no such instance.
    pub fn counters_of(&self, instance: FleetInstance) -> Option<InstanceAccount> {
        self.read(&*self.boards.of_instance(instance)?, Wanted::Instance)
    }

    /// The same of one port.
    pub fn counters_of_port(&self, port: FleetPort) -> Option<PortAccount> {
        self.read(&*self.boards.of_port(port)?, Wanted::Port)
    }

    /// The account of one port as it was when it was read last, or added: its worker is not asked.
    pub fn last_counters_of_port(&self, port: FleetPort) -> Option<PortAccount> {
        self.boards.of_port(port)?.read()
    }

    fn read<T: Clone>(&self, board: &Board<T>, wanted: fn(usize) -> Wanted) -> Option<T> {
        let until = Instant::now() + READ_WAIT;
        loop {
            let (worker, index) = board.home();
            self.refresh(worker, wanted(index), until);
            // It may have moved meanwhile, and somewhere else is asked then.
            if board.home() == (worker, index) || Instant::now() >= until {
                return board.read();
            }
        }
    }

    /// Everything, each part as it was at a moment of its own, so that the sums need not balance. No worker
    /// stands still for it, and one that is in a long call is not waited for longer than 20 ms: what was read
    /// of its parts before is shown then.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn survey(&self) -> Result<Account, FleetError> {
        self.check_runs()?;
        let (instances, ports, gone) = {
            let table = self.boards.table();
            let instances: Vec<_> = table.instances.values().cloned().collect();
            let ports: Vec<_> = table.ports.values().cloned().collect();
            (instances, ports, table.gone.clone())
        };
        self.refresh_boards(instances.iter(), ports.iter());
        let mut account = Account { at_one_moment: false, ..Account::empty(self.clock.moment()) };
        account.ledger.merge(&gone);
        for viewer in &self.viewers {
            let part = viewer.worker.read().unwrap_or_default();
            account.workers.push(part.time);
            account.ledger.merge(&part.relays.0);
            account.in_flight += part.relays.1;
        }
        self.boards.put_shared_into(&mut account);
        account.instances.reserve_exact(instances.len());
        for instance in instances.iter().filter_map(|board| board.read()) {
            account.ledger.merge(&instance.ledger);
            account.in_flight += instance.in_flight;
            account.instances.push(instance);
        }
        for port in ports.iter().filter_map(|board| board.read()) {
            account.ledger.merge(&port.counters.ledger);
            account.in_flight += port.in_flight;
            account.ports.push(port);
        }
        Ok(account)
    }

    /// Everything, with the ledgers, the numbers of packets and calls and the times of functions at one
    /// moment at which all workers are quiesced; instances and ports in the order they were added. Workers go
    /// on as soon as these are copied: names, histograms, what functions count themselves and the details of
    /// ports are read afterwards, like those of [`Fleet::survey`].
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn account(&self, with_reports: bool) -> Result<Account, FleetError> {
        let snapshot = self.with(|workers, state| {
            let mut snapshot = state.blank_snapshot();
            if with_reports {
                snapshot.ask_for_reports(workers);
            }
            workers.gather();
            snapshot.copy(workers);
            snapshot
        })?;
        Ok(self.account_of(snapshot))
    }

    /// The same, without reports. Workers that have come wait 200 us at most for one that is in a call; then
    /// they go on, and it is tried again for so long. `None`: they have not come together.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn account_within(&self, time: Duration) -> Result<Option<Account>, FleetError> {
        let until = Instant::now() + time;
        loop {
            let snapshot = self.with(|workers, state| {
                let mut snapshot = state.blank_snapshot();
                let all_are_here = workers.gather_until(Instant::now() + GATHER);
                all_are_here.then(|| {
                    snapshot.copy(workers);
                    snapshot
                })
            })?;
            if snapshot.is_some() || Instant::now() >= until {
                return Ok(snapshot.map(|snapshot| self.account_of(snapshot)));
            }
            std::thread::sleep(TRY_AGAIN);
        }
    }

    /// Adds what need not be of the snapshot's moment.
    fn account_of(&self, mut snapshot: Snapshot) -> Account {
        self.refresh_boards(snapshot.boards(), snapshot.boards_of_ports());
        let mut account = snapshot.account();
        account.instances = snapshot.instances(|_, board| board.read());
        account.ports = snapshot.ports(|_, board| board.read());
        self.boards.put_shared_into(&mut account);
        account
    }

    /// Takes stations that have not been heard of for too long out of the switches' tables, so that accounts
    /// show those that are known. The calling thread goes through the tables itself, and the workers go on
    /// meanwhile.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn sweep_switches(&self) -> Result<(), FleetError> {
        self.check_runs()?;
        let now = self.clock.now();
        self.boards.switches().iter().for_each(|(_, table)| table.sweep(now));
        Ok(())
    }

    /// Without waiting for a thread that has quiesced workers: they have not stopped then.
    fn check_runs(&self) -> Result<(), FleetError> {
        match self.crew.try_lock() {
            Ok(crew) if matches!(&*crew, Crew::Here(workers) if workers.is_empty()) => Err(Stopped.into()),
            _ => Ok(()),
        }
    }

    /// Whether a worker has come to the end of a turn while it was waited for; one that sleeps is woken.
    pub fn answers(&self, worker: usize, time: Duration) -> bool {
        self.viewers.get(worker).is_some_and(|viewer| {
            let question = viewer.ask(Wanted::Worker);
            viewer.wait_while_it_answers(question, time)
        })
    }

    /// Has boards, and what workers count beside them, written anew, as far as the workers answer.
    fn refresh_boards<'a>(
        &self,
        instances: impl Iterator<Item = &'a Arc<Board<InstanceAccount>>>,
        ports: impl Iterator<Item = &'a Arc<Board<PortAccount>>>,
    ) {
        let mut wanted = vec![vec![Wanted::Worker]; self.viewers.len()];
        let instances = instances.map(|board| (board.home(), Wanted::Instance as fn(usize) -> Wanted));
        let ports = ports.map(|board| (board.home(), Wanted::Port as fn(usize) -> Wanted));
        for ((worker, index), wants) in instances.chain(ports) {
            if let Some(wanted) = wanted.get_mut(worker) {
                wanted.push(wants(index));
            }
        }
        for (worker, wanted) in wanted.iter().enumerate() {
            self.refresh_all(worker, wanted);
        }
    }

    /// Has boards of one worker written anew, as far as it answers.
    fn refresh_all(&self, worker: usize, wanted: &[Wanted]) {
        for some in wanted.chunks(IN_ONE_GO) {
            if self.refresh_in_hand(worker, some) {
                continue;
            }
            let Some(viewer) = self.viewers.get(worker) else { return };
            let last = some.iter().fold(0, |_, wanted| viewer.ask(*wanted));
            if !viewer.wait_while_it_answers(last, READ_WAIT) {
                return;
            }
        }
    }

    /// Writes boards of a worker that has no thread, or that sleeps.
    fn refresh_in_hand(&self, worker: usize, wanted: &[Wanted]) -> bool {
        // Without waiting for a thread that has quiesced workers: it may wait for one in a long call.
        let Ok(mut crew) = self.crew.try_lock() else { return false };
        match &mut *crew {
            Crew::Here(workers) => {
                if let Some(worker) = workers.get_mut(worker) {
                    for wanted in wanted {
                        worker.write_board(*wanted);
                    }
                }
                true
            }
            Crew::Working(remotes, _) => {
                // One that sleeps is not woken for it.
                let Some(remote) = remotes.get(worker) else { return false };
                let Some(mut worker) = remote.slot.take() else { return false };
                worker.time.restart_asleep();
                for wanted in wanted {
                    worker.write_board(*wanted);
                }
                give_back(worker, remote);
                true
            }
        }
    }

    /// Has a board written anew, as far as that is done soon.
    fn refresh(&self, worker: usize, wanted: Wanted, until: Instant) {
        if !self.refresh_in_hand(worker, &[wanted])
            && let Some(viewer) = self.viewers.get(worker)
        {
            viewer.wait(viewer.ask(wanted), until);
        }
    }
}
