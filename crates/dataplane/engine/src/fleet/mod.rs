//! Many workers that work as one: ports and instances by numbers of the fleet, wires between workers, moves.
//!
//! The life of a fleet:
//! 1. [`Fleet::new`] makes its workers. Pools, tenants and switches are shared by all; each port and each
//!    instance is on one worker. [`Change::link`] connects ends wherever they are.
//! 2. [`Fleet::start`] gives each worker its thread.
//! 3. From then on everything is done with workers that are quiesced ([`Quiesced`]): a pause, a move, another
//!    wire, the ledgers of an account. It is the same code as before the start. A worker that sleeps is not
//!    woken for it, and one that is not concerned works on.
//! 4. [`Fleet::stop`] drains all workers together and gives the final account.
//!
//! A wire whose ends are on two workers is two relays (`port::relay`), one for each direction; a relay is
//! named by the worker it comes from and the end it leads to, so that wires, services and switches share it.
//!
//! Limits: at most 65,536 workers; a move stops all workers for as long as it takes the last one to come.

mod balance;
mod beside;
mod calls;
mod consumers;
mod counters;
mod error;
mod observations;
mod parts;
mod removal;
mod snapshot;
mod state;
mod threads;
mod wires;

pub use balance::{Balanced, Balancer};
pub use beside::Beside;
pub use calls::Moved;
pub use error::FleetError;
pub use observations::{FleetObserver, Place};
pub use parts::{Change, Removed, RemovedPort};
pub use state::{End, FleetInstance, FleetPort};
pub use threads::ThreadPlan;

use crate::control::board::Viewer;
use crate::control::events::{Event, Stopped};
use crate::control::quiesce::Quiesced;
use crate::control::starts::Background;
use crate::state::accounting::{Calls, Shown};
use crate::worker::{Tell, Worker, WorkerSettings};
use counters::Boards;
use cpu_share::Claim;
use state::State;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use telemetry::clock::{Clock, Cycles, Nanos};
use threads::Crew;

/// See the module's documentation.
pub struct Fleet {
    crew: Mutex<Crew>,
    state: Mutex<State>,
    clock: Clock,
    drain: Nanos,
    /// By worker: what it has done.
    shown: Vec<Arc<Shown>>,
    /// By worker: how readers ask.
    viewers: Vec<Arc<Viewer>>,
    boards: Arc<Boards>,
}

impl Fleet {
    /// As many workers as settings, numbered in their order, with one tenant and nothing to do.
    ///
    /// # Errors
    /// The kernel's refusal of an event descriptor.
    pub fn new(
        settings: &[WorkerSettings],
        clock: Clock,
        tell: impl Fn(Event) + Send + Sync + 'static,
    ) -> io::Result<Fleet> {
        let tell: Tell = Arc::new(tell);
        let make = |(number, settings): (u16, &WorkerSettings)| {
            let mut worker = Box::new(Worker::with(*settings, clock, tell.clone())?);
            worker.number = number;
            worker.add_tenant(Claim::default());
            Ok(worker)
        };
        let workers = (0..).zip(settings).map(make).collect::<io::Result<Vec<_>>>()?;
        let drain = settings.iter().map(|settings| settings.drain).max().unwrap_or_default();
        let shown = workers.iter().map(|worker| worker.time.shown.clone()).collect();
        let viewers = workers.iter().map(|worker| worker.upkeep.viewer.clone()).collect();
        let boards = Arc::<Boards>::default();
        let state = State::with_boards(boards.clone());
        Ok(Fleet {
            crew: Mutex::new(Crew::Here(workers)),
            state: Mutex::new(state),
            clock,
            drain,
            shown,
            viewers,
            boards,
        })
    }

    /// Makes starts elsewhere; without this the workers make them themselves, which is for tests and
    /// benchmarks whose functions start quickly. Without effect once the workers have threads.
    #[must_use]
    pub fn with_background(self, background: Arc<dyn Background>) -> Fleet {
        if let Crew::Here(workers) = &mut *self.crew() {
            workers.iter_mut().for_each(|worker| worker.upkeep.background = background.clone());
        }
        self
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.shown.len()
    }

    /// For how long each worker has worked for instances so far, as of its last turn. This costs the workers
    /// nothing.
    pub fn busy(&self) -> Vec<Cycles> {
        self.shown.iter().map(|shown| shown.busy()).collect()
    }

    /// The same with its calls: a worker that has time to spare makes more calls of fewer packets.
    fn called(&self) -> Vec<(Cycles, Calls)> {
        self.shown.iter().map(|shown| (shown.busy(), shown.calls())).collect()
    }

    /// Does something with quiesced workers, where nothing of them runs. Those that are not touched work on.
    fn with<R>(&self, deed: impl FnOnce(&mut Quiesced<'_>, &mut State) -> R) -> Result<R, FleetError> {
        let mut crew = self.crew();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *crew {
            Crew::Here(workers) if workers.is_empty() => Err(Stopped.into()),
            Crew::Here(workers) => {
                let mut quiesced = Quiesced::of(std::mem::take(workers));
                let done = deed(&mut quiesced, &mut state);
                *workers = quiesced.into_workers();
                Ok(done)
            }
            Crew::Working(remotes, _) => Ok(deed(&mut Quiesced::empty(remotes), &mut state)),
        }
    }

    /// Lets one worker go around once, before they have threads.
    #[cfg(test)]
    pub(crate) fn turn(&self, worker: usize) -> bool {
        self.with(move |workers, _| workers[worker].turn()).unwrap_or(false)
    }

    /// The same, and it sleeps when there was nothing to do.
    #[cfg(test)]
    pub(crate) fn step(&self, worker: usize) {
        let _ = self.with(move |workers, _| workers[worker].step());
    }

    /// Whether a worker computes the flow hash of what comes in there.
    #[cfg(test)]
    pub(crate) fn computes_flow_hash(&self, worker: usize) -> bool {
        self.with(move |workers, _| workers[worker].polling.flow_hash).unwrap_or(false)
    }

    /// How often the threads of all workers have been woken, and whether all may be parked again where others
    /// find them.
    #[cfg(test)]
    pub(crate) fn wakeups(&self) -> (u64, bool) {
        self.with(|workers, _| {
            let lendable = workers.iter().all(|worker| worker.parking.waits_for.is_lendable());
            (workers.iter().map(|worker| worker.parking.slot.wakeups()).sum(), lendable)
        })
        .unwrap_or_default()
    }

    /// Whether an instance is throttled.
    #[cfg(test)]
    pub(crate) fn throttled(&self, instance: FleetInstance) -> bool {
        self.with(|workers, state| {
            let home = state.instance(instance);
            home.is_some_and(|home| workers[home.worker].instances[home.id.index()].throttled_by.is_some())
        })
        .unwrap_or(false)
    }

    /// The workers that a change quiesces.
    #[cfg(test)]
    pub(crate) fn touched(&self, deed: impl FnOnce(&mut Change<'_, '_>)) -> Vec<usize> {
        self.with(|workers, state| {
            deed(&mut Change::new(workers, state));
            workers.held()
        })
        .unwrap_or_default()
    }

    /// Ports that are polled by another instance than the one that takes what they bring.
    #[cfg(test)]
    pub(crate) fn wrong_consumers(&self) -> Vec<String> {
        self.with(|workers, _| workers.iter().flat_map(|worker| worker.wrong_consumers()).collect())
            .unwrap_or_default()
    }

    /// How many ports and relays have an instance that polls them.
    #[cfg(test)]
    pub(crate) fn consumers(&self) -> usize {
        let of = |worker: &Worker| worker.ports.iter().filter(|(_, node)| node.consumer.is_some()).count();
        self.with(|workers, _| workers.iter().map(of).sum()).unwrap_or_default()
    }

    /// A change of all workers that takes its time.
    #[cfg(test)]
    pub(crate) fn dawdle(&self, time: &'static telemetry::clock::SimulatedTime, span: Nanos) {
        let dawdling = move |quiesced: &mut Quiesced<'_>, _: &mut State| {
            quiesced.gather();
            time.advance(span);
        };
        self.with(dawdling).unwrap_or_default();
    }

    fn check(&self, worker: usize) -> Result<(), FleetError> {
        if worker < self.workers() {
            Ok(())
        } else {
            Err(FleetError::NoWorker { worker, last: self.workers().saturating_sub(1) })
        }
    }

    fn crew(&self) -> MutexGuard<'_, Crew> {
        self.crew.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
