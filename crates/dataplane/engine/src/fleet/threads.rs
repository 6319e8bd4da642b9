//! The threads of a fleet's workers: where they run, how they begin and how they end.

use super::{Fleet, FleetError};
use crate::control::account::Account;
use crate::control::quiesce::{Quiesced, Remote};
use crate::parking::slot::Asked;
use crate::worker::Worker;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// The thread that a worker gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadPlan {
    /// Its name, as the kernel shows it.
    pub name: String,
    /// The processors that it may run on; `None`: all that the process may.
    pub processors: Option<Vec<usize>>,
}

/// Where the workers are.
pub(super) enum Crew {
    /// In the hands of the thread that has the fleet.
    #[expect(clippy::vec_box, reason = "workers move between threads by their address")]
    Here(Vec<Box<Worker>>),
    /// On their threads.
    Working(Vec<Remote>, Vec<JoinHandle<()>>),
}

impl Fleet {
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
                // The thread that waits for this has gone only if it failed for another reason.
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

    /// Drains all workers, drops what is still held, closes the ports, ends the threads, and gives the final
    /// account.
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
                let on_the_way = |workers: &mut Quiesced<'_>| -> u64 {
                    workers.iter_mut().map(|worker| worker.on_the_way()).sum()
                };
                let left = on_the_way(workers);
                if left > 0 {
                    return left;
                }
                let more = workers.iter_mut().any(|worker| worker.finish_functions());
                on_the_way(workers) + u64::from(more)
            })?;
            if left == 0 {
                break;
            }
            if !here {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        self.sweep_switches()?;
        let account = self.with(|workers, state| state.finish(workers))?;
        let mut crew = self.crew();
        if let Crew::Working(remotes, threads) = std::mem::replace(&mut *crew, Crew::Here(Vec::new())) {
            end_threads(&remotes, threads);
        }
        Ok(account)
    }
}

/// Ends the threads of workers.
fn end_threads(remotes: &[Remote], threads: Vec<JoinHandle<()>>) {
    for remote in remotes {
        remote.ask(Asked::Stop);
    }
    for thread in threads {
        // It has nothing to tell, and a panic of its own has been reported.
        let _ = thread.join();
    }
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
