//! Accounts of instances and ports as they are read while the workers run, without quiescing a worker:
//! see [`crate::board`].

use super::Stopped;
use super::state::{FleetInstance, FleetPort};
use super::{Crew, Fleet, FleetError};
use crate::control::account::{Account, InstanceAccount, PortAccount};
use crate::control::board::{Board, READ_WAIT, Wanted};
use crate::control::quiesce::give_back;
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
    /// What those counted that are no more.
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

    pub(super) fn keep_of_gone(&self, gone: &Ledger) {
        self.table().gone = gone.clone();
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
        let board = self.boards.table().instances.get(&instance)?.clone();
        self.read(&board, Wanted::Instance)
    }

    /// The same of one port.
    pub fn counters_of_port(&self, port: FleetPort) -> Option<PortAccount> {
        let board = self.boards.table().ports.get(&port)?.clone();
        self.read(&board, Wanted::Port)
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
        if let Ok(crew) = self.crew.try_lock()
            && matches!(&*crew, Crew::Here(workers) if workers.is_empty())
        {
            return Err(Stopped.into());
        }
        let (instances, ports, gone) = {
            let table = self.boards.table();
            let instances: Vec<_> = table.instances.values().cloned().collect();
            let ports: Vec<_> = table.ports.values().cloned().collect();
            (instances, ports, table.gone.clone())
        };
        let mut wanted = vec![vec![Wanted::Worker]; self.viewers.len()];
        let homes = instances.iter().map(|board| (board.home(), Wanted::Instance as fn(usize) -> Wanted));
        let homes =
            homes.chain(ports.iter().map(|board| (board.home(), Wanted::Port as fn(usize) -> Wanted)));
        for ((worker, index), wants) in homes {
            if let Some(wanted) = wanted.get_mut(worker) {
                wanted.push(wants(index));
            }
        }
        for (worker, wanted) in wanted.iter().enumerate() {
            self.refresh_all(worker, wanted);
        }
        let mut account = Account { at_one_moment: false, ..Account::empty(self.clock.moment()) };
        account.ledger.merge(&gone);
        for viewer in &self.viewers {
            let part = viewer.worker.read().unwrap_or_default();
            account.workers.push(part.time);
            account.ledger.merge(&part.relays.0);
            account.in_flight += part.relays.1;
            // All workers know all of them.
            if account.pools.is_empty() && account.switches.is_empty() {
                account.pools = part.pools;
                part.switches.put_into(&mut account);
            }
        }
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

    /// Everything at one moment, without reports. Workers that have come wait 200 us at most for one that is
    /// in a call; then they go on, and it is tried again for so long. `None`: they have not come together.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn account_within(&self, time: Duration) -> Result<Option<Account>, FleetError> {
        let until = Instant::now() + time;
        loop {
            let account = self.with(|workers, state| {
                workers.gather_until(Instant::now() + GATHER).then(|| state.account(workers, false))
            })?;
            if account.is_some() || Instant::now() >= until {
                return Ok(account);
            }
            std::thread::sleep(TRY_AGAIN);
        }
    }

    /// Whether a worker has come to the end of a turn while it was waited for; one that sleeps is woken.
    pub fn answers(&self, worker: usize, time: Duration) -> bool {
        self.viewers.get(worker).is_some_and(|viewer| {
            let question = viewer.ask(Wanted::Worker);
            viewer.wait_while_it_answers(question, time)
        })
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
