//! Accounts of instances and ports as they are read while the workers run, without taking a worker into hand: see
//! [`crate::board`].

use super::state::{FleetInstance, FleetPort};
use super::{Crew, Fleet};
use crate::account::{InstanceAccount, PortAccount};
use crate::board::{Board, PATIENCE, Wanted};
use crate::hands::give_back;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The boards of all instances and ports. The lock is held for a look at the table, never over a wait.
#[derive(Debug, Default)]
pub(super) struct Boards(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    instances: BTreeMap<FleetInstance, Arc<Board<InstanceAccount>>>,
    ports: BTreeMap<FleetPort, Arc<Board<PortAccount>>>,
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

    pub(super) fn forget_instance(&self, instance: FleetInstance) {
        self.table().instances.remove(&instance);
    }

    pub(super) fn forget_port(&self, port: FleetPort) {
        self.table().ports.remove(&port);
    }
}

impl Fleet {
    /// The account of one instance without its report, as of now, or of a reader before where its worker is in a long call. A
    /// worker that runs is not stopped for it, and none is waited for longer than 20 ms. `None`: there is no such instance.
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
        let until = Instant::now() + PATIENCE;
        loop {
            let (worker, index) = board.home();
            self.refresh(worker, wanted(index), until);
            // It may have moved meanwhile, and somewhere else is asked then.
            if board.home() == (worker, index) || Instant::now() >= until {
                return board.read();
            }
        }
    }

    /// Has a board written anew, as far as that is done soon.
    fn refresh(&self, worker: usize, wanted: Wanted, until: Instant) {
        // Without waiting for those who have workers in hand: they may wait for one in a long call.
        if let Ok(mut crew) = self.crew.try_lock() {
            match &mut *crew {
                Crew::Here(workers) => {
                    if let Some(worker) = workers.get_mut(worker) {
                        worker.write_board(wanted);
                    }
                    return;
                }
                Crew::Working(remotes, _) => {
                    // One that sleeps is not woken for it.
                    if let Some(remote) = remotes.get(worker)
                        && let Some(mut worker) = remote.berth.take()
                    {
                        worker.look_at_clock_asleep();
                        worker.write_board(wanted);
                        return give_back(worker, remote);
                    }
                }
            }
        }
        if let Some(viewer) = self.viewers.get(worker) {
            viewer.wait(viewer.ask(wanted), until);
        }
    }
}
