//! Many workers that work as one: ports and instances by numbers of the fleet, wires between workers, moves.
//!
//! The life of a fleet:
//! 1. [`Fleet::new`] makes its workers. Pools, tenants and switches are everybody's; each port and each instance is on one
//!    worker. [`Fleet::link`] connects ends wherever they are.
//! 2. [`Fleet::start`] gives each worker its thread.
//! 3. From then on everything is done at a [`Meeting`](crate::meeting): an account, a pause, a move, another wire. It is the same code
//!    as before the start.
//! 4. [`Fleet::stop`] drains all workers together and gives the final account.
//!
//! A wire whose ends are on two workers is two relays (`port::relay`), one for each direction; a relay is named by the worker
//! it comes from and the end it leads to, so that wires, services and switches share it.
//!
//! Limits: at most 65,536 workers; a move stops all workers for as long as it takes the last one to come to the meeting.

mod state;
mod wires;

pub use state::{End, FleetInstance, FleetPort};

use crate::account::Account;
use crate::control::{Command, Event, Remote, Stopped};
use crate::ids::{PoolId, SwitchId, WireError};
use crate::instance::InstanceSetup;
use crate::meeting::Meeting;
use crate::tap::Tap;
use crate::worker::{Tell, Worker, WorkerSettings};
use clock::{Clock, Nanos};
use cpu_share::{Claim, TenantId};
use guest::Guest;
use packet_memory::Pool;
use port::Port;
use rustix::thread::{CpuSet, sched_setaffinity};
use state::State;
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use virtual_switch::Switch;

/// The thread that a worker gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadPlan {
    /// Its name, as the kernel shows it.
    pub name: String,
    /// The processors that it may run on; `None`: all that the process may.
    pub processors: Option<Vec<usize>>,
}

/// Why something was not done to a fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The workers have stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A wire was not laid.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// There is no such worker.
    #[error("there is no worker {worker}; allowed: 0 to {last}")]
    NoWorker {
        /// The number asked for.
        worker: usize,
        /// The last one.
        last: usize,
    },
    /// The function is in the middle of a call that was switched out, and cannot be moved now.
    #[error("`{instance}` is in the middle of a call; it can be moved when that has ended")]
    Suspended {
        /// Its name.
        instance: String,
    },
}

/// What was moved, and how long it stood still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Ports and instances that are now on another worker.
    pub parts: usize,
    /// From when the first worker stood still until all went on.
    pub stood_still: Nanos,
}

/// Where the workers are.
enum Crew {
    /// In the hands of whoever has the fleet.
    #[expect(clippy::vec_box, reason = "workers move between threads by their address")]
    Here(Vec<Box<Worker>>),
    /// On their threads.
    Working(Vec<Remote>, Vec<JoinHandle<()>>),
}

/// See the module's documentation.
pub struct Fleet {
    crew: Mutex<Crew>,
    state: Arc<Mutex<State>>,
    clock: Clock,
    drain: Nanos,
    workers: usize,
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
        let count = workers.len();
        Ok(Fleet {
            crew: Mutex::new(Crew::Here(workers)),
            state: Arc::default(),
            clock,
            drain,
            workers: count,
        })
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Takes a tenant in, with its claim on each worker.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn add_tenant(&self, claim: Claim) -> Result<TenantId, FleetError> {
        self.with(move |workers, _| {
            let mut ids = workers.iter_mut().map(|worker| worker.add_tenant(claim));
            let first = ids.next();
            let same = ids.all(|id| Some(id) == first);
            debug_assert!(same, "all workers have the same tenants");
            first.unwrap_or(TenantId(0))
        })
    }

    /// Takes a pool in.
    ///
    /// # Errors
    /// [`WireError::TooMany`], or [`FleetError::Stopped`].
    pub fn add_pool(&self, pool: Arc<Pool>) -> Result<PoolId, FleetError> {
        self.with(move |workers, _| {
            let mut id = Err(WireError::Absent);
            for worker in workers {
                id = worker.add_pool(pool.clone());
            }
            Ok(id?)
        })?
    }

    /// Takes a switch in. Forwarding is done in the sender's context on whatever worker that is, unless the switch has a
    /// worker of its own.
    ///
    /// # Errors
    /// [`WireError::TooMany`], or [`FleetError::Stopped`].
    pub fn add_switch(&self, table: Arc<Switch>, home: Option<usize>) -> Result<SwitchId, FleetError> {
        self.with(move |workers, state| {
            let mut id = Err(WireError::Absent);
            for worker in workers {
                id = worker.add_switch(table.clone());
            }
            let id = id?;
            state.add_switch(home);
            Ok(id)
        })?
    }

    /// Takes a port in, on a worker.
    ///
    /// # Errors
    /// [`FleetError::NoWorker`], or [`FleetError::Stopped`].
    pub fn add_port(
        &self,
        worker: usize,
        name: &str,
        pool: PoolId,
        port: Box<dyn Port>,
    ) -> Result<FleetPort, FleetError> {
        self.check(worker)?;
        let name = name.to_owned();
        self.with(move |workers, state| {
            let id = workers[worker].add_port(&name, pool, port);
            share_flow_hash(workers);
            state.add_port(worker, id)
        })
    }

    /// Takes an instance in, on a worker, with its first guest.
    ///
    /// # Errors
    /// [`FleetError::NoWorker`], or [`FleetError::Stopped`].
    pub fn add_instance(
        &self,
        worker: usize,
        setup: InstanceSetup,
        guest: Box<dyn Guest>,
    ) -> Result<FleetInstance, FleetError> {
        self.check(worker)?;
        self.with(move |workers, state| {
            let id = workers[worker].add_instance(setup, guest);
            share_flow_hash(workers);
            state.add_instance(worker, id)
        })
    }

    /// Lays a wire between two ends, both ways.
    ///
    /// # Errors
    /// [`FleetError`], and nothing is laid.
    pub fn link(&self, a: End, b: End) -> Result<(), FleetError> {
        self.with(move |workers, state| state.link(workers, a, b, true))?
    }

    /// Lays a wire one way, see [`Worker::lead`].
    ///
    /// # Errors
    /// [`FleetError`], and nothing is laid.
    pub fn lead(&self, from: End, to: End) -> Result<(), FleetError> {
        self.with(move |workers, state| state.link(workers, from, to, false))?
    }

    /// Shows the packets of an instance to another first. Both are brought to the observed one's worker, and stay together.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn observe(
        &self,
        observer: FleetInstance,
        at: FleetInstance,
        interface: Option<u16>,
    ) -> Result<(), FleetError> {
        self.with(move |workers, state| state.observe(workers, observer, at, interface))?
    }

    /// Enters a service into the table of every worker.
    ///
    /// # Errors
    /// [`FleetError`].
    pub fn serve(&self, service: u16, end: End) -> Result<(), FleetError> {
        self.with(move |workers, state| state.serve(workers, service, end))?
    }

    /// Shows the packets of a port to a tap.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn tap_port(&self, port: FleetPort, tap: Box<dyn Tap>) -> Result<(), FleetError> {
        self.with(move |workers, state| {
            if let Some(home) = state.port(port) {
                workers[home.worker].tap_port(home.id, tap);
            }
        })
    }

    /// Shows the packets of an instance to a tap.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn tap_instance(&self, instance: FleetInstance, tap: Box<dyn Tap>) -> Result<(), FleetError> {
        self.with(move |workers, state| {
            if let Some(home) = state.instance(instance) {
                workers[home.worker].tap_instance(home.id, tap);
            }
        })
    }

    /// Lets an instance stand still: packets wait in its queue, and what finds no room there is its loss.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn pause(&self, instance: FleetInstance) -> Result<(), FleetError> {
        self.with(move |workers, state| {
            if let Some(home) = state.instance(instance) {
                workers[home.worker].pause(home.id);
            }
        })
    }

    /// Lets a paused instance go on.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn resume(&self, instance: FleetInstance) -> Result<(), FleetError> {
        self.with(move |workers, state| {
            if let Some(home) = state.instance(instance) {
                workers[home.worker].resume_instance(home.id);
            }
        })
    }

    /// Changes an instance's claim on its worker.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn set_claim(&self, instance: FleetInstance, claim: Claim) -> Result<(), FleetError> {
        self.with(move |workers, state| {
            if let Some(home) = state.instance(instance) {
                workers[home.worker].set_claim(home.id, claim);
            }
        })
    }

    /// Moves ports and instances, with their queues and standing, to a worker. Whoever observes or is observed comes along.
    /// No packet is lost or overtaken: what was on its way to them arrives before what is sent afterwards.
    ///
    /// # Errors
    /// [`FleetError`], and nothing is moved.
    pub fn move_to(&self, parts: &[End], worker: usize) -> Result<Moved, FleetError> {
        self.check(worker)?;
        let (parts, clock) = (parts.to_vec(), self.clock);
        self.with(move |workers, state| {
            // Each worker's clock stood still when it came: the first to come has waited longest.
            let first = workers.iter().map(|worker| worker.now.nanos).min().unwrap_or_default();
            let parts = state.move_to(workers, &parts, worker)?;
            Ok(Moved { parts, stood_still: clock.now().since(first) })
        })?
    }

    /// Everything at a quiet point of all workers; instances and ports in the order they were added.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn account(&self, with_reports: bool) -> Result<Account, FleetError> {
        self.with(move |workers, state| state.account(workers, with_reports))
    }

    /// Whether all sources have come to their end and nothing is on its way.
    ///
    /// # Errors
    /// [`FleetError::Stopped`].
    pub fn finished(&self) -> Result<bool, FleetError> {
        self.with(|workers, _| {
            let told: Vec<_> = workers.iter_mut().map(|worker| worker.finished()).collect();
            told.contains(&Some(true)) && !told.contains(&Some(false))
        })
    }

    /// Gives each worker a thread. Without effect when they have theirs, or have stopped.
    ///
    /// # Errors
    /// The kernel's refusal of a thread, or of the processors that it is to run on.
    pub fn start(&self, plans: &[ThreadPlan]) -> io::Result<()> {
        let mut crew = self.crew();
        let Crew::Here(workers) = &mut *crew else { return Ok(()) };
        if workers.is_empty() {
            return Ok(());
        }
        let workers = std::mem::take(workers);
        let remotes: Vec<_> = workers.iter().map(|worker| worker.remote()).collect();
        let mut threads = Vec::with_capacity(workers.len());
        let mut failed = Ok(());
        for (number, worker) in workers.into_iter().enumerate() {
            let plan = plans.get(number).cloned().unwrap_or_default();
            let name = if plan.name.is_empty() { format!("worker-{number}") } else { plan.name };
            let (ready, is_ready) = channel();
            let spawned = std::thread::Builder::new().name(name).spawn(move || {
                let pinned = plan.processors.map_or(Ok(()), |processors| pin(&processors));
                // Whoever waits for this has gone only if it failed for another reason.
                let _ = ready.send(pinned);
                drop(worker.work());
            });
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(refusal) => {
                    end_threads(&remotes, threads);
                    return Err(refusal);
                }
            }
            failed = failed.and(is_ready.recv().unwrap_or(Ok(())));
        }
        *crew = Crew::Working(remotes, threads);
        failed
    }

    /// Drains all workers, drops what is still held, closes the ports, ends the threads, and gives the final account.
    ///
    /// # Errors
    /// [`FleetError::Stopped`] when it was stopped before.
    pub fn stop(&self) -> Result<Account, FleetError> {
        self.with(|workers, _| workers.iter_mut().for_each(|worker| worker.close()))?;
        let until = self.clock.now().saturating_add(self.drain);
        let here = matches!(*self.crew(), Crew::Here(_));
        while self.clock.now() < until {
            let left = self.with(move |workers, _| {
                if here {
                    for worker in workers.iter_mut() {
                        worker.turn();
                    }
                }
                workers.iter_mut().map(|worker| worker.on_the_way()).sum::<u64>()
            })?;
            if left == 0 {
                break;
            }
            if !here {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        let account = self.with(|workers, state| state.finish(workers))?;
        let mut crew = self.crew();
        if let Crew::Working(remotes, threads) = std::mem::replace(&mut *crew, Crew::Here(Vec::new())) {
            end_threads(&remotes, threads);
        }
        Ok(account)
    }

    /// Does something with all workers at a quiet point.
    fn with<R: Send + 'static>(
        &self,
        deed: impl FnOnce(&mut [Box<Worker>], &mut State) -> R + Send + 'static,
    ) -> Result<R, FleetError> {
        let mut crew = self.crew();
        let state = self.state.clone();
        match &mut *crew {
            Crew::Here(workers) if workers.is_empty() => Err(Stopped.into()),
            Crew::Here(workers) => {
                Ok(deed(workers, &mut state.lock().unwrap_or_else(PoisonError::into_inner)))
            }
            Crew::Working(remotes, _) => {
                let (answer, received) = channel();
                let meeting = Arc::new(Meeting::new(
                    remotes.len(),
                    Box::new(move |workers| {
                        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                        // Whoever asked waits for the answer.
                        let _ = answer.send(deed(workers, &mut state));
                    }),
                ));
                // All are called in one go, under the lock, so that every worker gets meetings in the same order.
                for remote in remotes.iter() {
                    remote.send(Command::Meet(meeting.clone()))?;
                }
                drop(crew);
                Ok(received.recv().map_err(|_| Stopped)?)
            }
        }
    }

    /// Lets one worker go around once, before they have threads.
    #[cfg(test)]
    pub(crate) fn turn(&self, worker: usize) -> bool {
        self.with(move |workers, _| workers[worker].turn()).unwrap_or(false)
    }

    /// Whether a worker computes the flow hash of what comes in there.
    #[cfg(test)]
    pub(crate) fn computes_flow_hash(&self, worker: usize) -> bool {
        self.with(move |workers, _| workers[worker].flow_hash).unwrap_or(false)
    }

    /// A meeting that takes its time.
    #[cfg(test)]
    pub(crate) fn dawdle(&self, span: Duration) {
        let dawdling = move |_: &mut [Box<Worker>], _: &mut State| {
            let began = std::time::Instant::now();
            while began.elapsed() < span {}
        };
        self.with(dawdling).unwrap_or_default();
    }

    fn check(&self, worker: usize) -> Result<(), FleetError> {
        if worker < self.workers {
            Ok(())
        } else {
            Err(FleetError::NoWorker { worker, last: self.workers.saturating_sub(1) })
        }
    }

    fn crew(&self) -> MutexGuard<'_, Crew> {
        self.crew.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the threads of workers.
fn end_threads(remotes: &[Remote], threads: Vec<JoinHandle<()>>) {
    for remote in remotes {
        // One that has ended needs not be told.
        let _ = remote.send(Command::Stop);
    }
    for thread in threads {
        // It has nothing to tell, and a panic of its own has been reported.
        let _ = thread.join();
    }
}

/// A packet may come in on one worker and be read on another.
fn share_flow_hash(workers: &mut [Box<Worker>]) {
    let read = workers.iter().any(|worker| worker.flow_hash);
    workers.iter_mut().for_each(|worker| worker.flow_hash = read);
}

/// Lets the present thread run on these processors only.
fn pin(processors: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &processor in processors {
        if processor >= CpuSet::MAX_CPU {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("processor {processor}: allowed: 0 to {}", CpuSet::MAX_CPU - 1),
            ));
        }
        set.set(processor);
    }
    sched_setaffinity(None, &set)?;
    Ok(())
}
