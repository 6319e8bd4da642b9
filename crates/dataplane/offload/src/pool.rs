//! The threads, and what is asked of them.

use crate::queue::{Bounds, FairQueue, Next, Usage};
use crate::share::Share;
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use telemetry::clock::Nanos;

/// How work beside the workers is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Threads; fewer than 2 count as 2, since one tenant never has all of them.
    pub threads: usize,
    /// Nice value of the threads, 0 to 19.
    pub nice: i32,
    /// Most jobs of one tenant that wait.
    pub waiting: usize,
    /// What each tenant may use; `None`: without a bound.
    pub share: Option<Share>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { threads: 4, nice: 15, waiting: 1024, share: Some(Share::default()) }
    }
}

/// Why a job is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too many jobs of the tenant wait.
    #[error(
        "{waiting} pieces of work of tenant `{tenant}` wait already, and {waiting} is the most; try again when some are done"
    )]
    Full {
        /// Whose.
        tenant: String,
        /// How many wait, which is the bound.
        waiting: usize,
    },
    /// The program is ending, or the tenant is gone.
    #[error("the work was not done: the program ends, or the tenant was deleted")]
    Stopped,
    /// The job panicked.
    #[error("the work broke off: a defect of the program")]
    Broken,
}

type Job = Box<dyn FnOnce() + Send>;

struct State {
    queue: FairQueue<Job>,
    stopped: bool,
    /// Threads that there are, and those of them that wait ([`waiting`]).
    threads: usize,
    waiting: usize,
}

impl State {
    /// Threads that serve or could.
    fn serving(&self) -> usize {
        self.threads - self.waiting
    }
}

struct Shared {
    state: Mutex<State>,
    /// Something came or ended.
    changed: Condvar,
    began: Instant,
    /// Threads that serve at a time, and their nice value.
    threads: usize,
    nice: i32,
    /// A thread was refused its nice value.
    priority_refused: AtomicBool,
}

thread_local! {
    /// The pool and the tenant that this thread does a job for.
    static PLACE: RefCell<Option<(Arc<Shared>, String)>> = const { RefCell::new(None) };
}

/// Does something that waits and uses no processor, for another thread say. Within a job, the job gives up
/// its place meanwhile: another thread serves, and what the tenant has running does not count this job.
/// Elsewhere it is just done.
pub fn waiting<T>(wait: impl FnOnce() -> T) -> T {
    let Some((shared, tenant)) = PLACE.take() else { return wait() };
    let away = Away { shared, tenant };
    away.shared.give_up(&away.tenant);
    wait()
}

/// What charges processor time to the tenant that this thread does a job for, if it does one.
pub(crate) fn charging() -> Option<impl FnOnce(Nanos) + Send + use<>> {
    let (shared, tenant) = PLACE.with_borrow(Clone::clone)?;
    Some(move |used| {
        let now = shared.now();
        shared.state().queue.charge(&tenant, used, now);
    })
}

/// Charges processor time that something else used for the job of this thread, another process say. Elsewhere
/// nothing is charged.
pub fn charge_job(used: Nanos) {
    charging().into_iter().for_each(|charge| charge(used));
}

/// A job that waits.
struct Away {
    shared: Arc<Shared>,
    tenant: String,
}

impl Drop for Away {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.waiting -= 1;
        state.queue.goes_on(&self.tenant);
        drop(state);
        PLACE.set(Some((self.shared.clone(), std::mem::take(&mut self.tenant))));
    }
}

impl Shared {
    /// One more thread.
    fn spawn(self: &Arc<Shared>) -> io::Result<()> {
        let shared = self.clone();
        let number = {
            let mut state = self.state();
            state.threads += 1;
            state.threads
        };
        let spawned = thread::Builder::new().name(format!("offload-{number}")).spawn(move || {
            // Of a thread, on Linux. A refusal leaves it as it is: it works, at the workers' expense, unless
            // it had as low a priority before.
            let nice = shared.nice;
            if rustix::process::setpriority_process(None, nice).is_err()
                && !rustix::process::getpriority_process(None).is_ok_and(|own| own >= nice)
            {
                shared.priority_refused.store(true, Relaxed);
            }
            shared.serve();
        });
        spawned.map(drop).inspect_err(|_| self.state().threads -= 1)
    }

    /// The job of this thread waits: another thread takes its place, where the system has one.
    fn give_up(self: &Arc<Shared>, tenant: &str) {
        let mut state = self.state();
        state.waiting += 1;
        state.queue.waits(tenant);
        let few = state.serving() < self.threads;
        drop(state);
        if few {
            // Where the system has none, others wait until this job goes on.
            let _ = self.spawn();
        }
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Nanos {
        Nanos::from(self.began.elapsed())
    }

    /// What a thread does until the end.
    fn serve(self: &Arc<Shared>) {
        let mut state = self.state();
        // Those that waited have come back: there is one too many.
        while !state.stopped && state.serving() <= self.threads {
            match state.queue.next(self.now()) {
                Next::Run(tenant, job) => {
                    drop(state);
                    PLACE.set(Some((self.clone(), tenant.clone())));
                    let before = processor_time();
                    // What a job leaves behind when it panics is its own: it shares nothing with the next one
                    // but what is behind locks.
                    let _ = catch_unwind(AssertUnwindSafe(job));
                    let used = processor_time().since(before);
                    PLACE.set(None);
                    state = self.state();
                    state.queue.done(&tenant, used, self.now());
                    // A place of this tenant is free, which another thread may be waiting for.
                    if state.queue.has_jobs() {
                        self.changed.notify_all();
                    }
                }
                Next::Wait(until) => {
                    let span = Duration::from(until.since(self.now())).max(Duration::from_micros(1));
                    let waited = self.changed.wait_timeout(state, span);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Next::Idle => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        state.threads -= 1;
        drop(state);
        // What this thread was woken for is another one's.
        self.changed.notify_one();
    }
}

/// Processor time that the calling thread has used.
#[must_use]
pub fn processor_time() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    Nanos(seconds.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0))
}

/// Threads beside the packet workers. See the crate's page.
pub struct Offload {
    shared: Arc<Shared>,
}

impl Offload {
    /// Starts the threads.
    ///
    /// # Errors
    /// The kernel's refusal of a thread.
    pub fn new(settings: &Settings) -> io::Result<Offload> {
        let threads = settings.threads.max(2);
        let bounds = Bounds { waiting: settings.waiting, running: threads - 1, share: settings.share };
        let queue = FairQueue::new(bounds);
        let state = Mutex::new(State { queue, stopped: false, threads: 0, waiting: 0 });
        let (changed, began, nice) = (Condvar::new(), Instant::now(), settings.nice.clamp(0, 19));
        let priority_refused = AtomicBool::new(false);
        let shared = Arc::new(Shared { state, changed, began, threads, nice, priority_refused });
        // Made first: should a thread be refused, dropping it ends those before.
        let offload = Offload { shared };
        (0..threads).try_for_each(|_| offload.shared.spawn())?;
        Ok(offload)
    }

    /// The system refused a thread its low priority: what is done here takes processors from the workers.
    pub fn was_refused_priority(&self) -> bool {
        self.shared.priority_refused.load(Relaxed)
    }

    /// Puts a job into its tenant's queue and returns at once. What the job used is charged to the tenant.
    ///
    /// # Errors
    /// [`Refused::Full`], [`Refused::Stopped`]; the job is dropped.
    pub fn submit(&self, tenant: &str, job: impl FnOnce() + Send + 'static) -> Result<(), Refused> {
        let now = self.shared.now();
        let mut state = self.shared.state();
        if state.stopped {
            return Err(Refused::Stopped);
        }
        let pushed = state.queue.push(tenant, Box::new(job), now);
        drop(state);
        pushed.map_err(|waiting| Refused::Full { tenant: tenant.to_owned(), waiting })?;
        self.shared.changed.notify_one();
        Ok(())
    }

    /// The same, and blocks until the job has ended, [`waiting`]. Must not be called by a packet worker.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn run<T: Send + 'static>(
        &self,
        tenant: &str,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let (give, take) = sync_channel(1);
        let (began, begun) = sync_channel::<()>(1);
        self.submit(tenant, move || {
            let _ = began.send(());
            // The caller waits for it.
            let _ = give.send(job());
        })?;
        waiting(|| take.recv()).map_err(|_| match begun.try_recv() {
            Ok(()) => Refused::Broken,
            Err(_) => Refused::Stopped,
        })
    }

    /// Does a job on the calling thread, in the tenant's account: for work that no other tenant is to be
    /// protected from, or that must not have a low priority. The job of a tenant without a bound is charged
    /// with the time that it takes, be it on a processor or not.
    pub fn run_here<T>(&self, tenant: &str, job: impl FnOnce() -> T) -> T {
        // Of a job of this pool all of it is charged at its end.
        if PLACE.with_borrow(|place| place.as_ref().is_some_and(|(own, _)| Arc::ptr_eq(own, &self.shared))) {
            return job();
        }
        if self.shared.state().queue.is_bounded(tenant) {
            let before = processor_time();
            let done = job();
            self.charge(tenant, processor_time().since(before));
            return done;
        }
        // Nothing is held to what is counted: the clock that needs no call of the kernel will do, by which
        // the time counts as well for which the thread had to wait.
        let began = self.shared.now();
        let done = job();
        self.charge(tenant, self.shared.now().since(began));
        done
    }

    /// Waits for a thread of the pool, which then works for the tenant until the [`Slot`] is dropped: for
    /// work that must not wait once it has begun. Must not be called by a packet worker. A job that asks for
    /// it is [`waiting`].
    ///
    /// # Errors
    /// [`Refused`].
    pub fn slot(&self, tenant: &str) -> Result<Slot, Refused> {
        let (jobs, todo) = channel::<Job>();
        let (began, begun) = sync_channel(1);
        self.submit(tenant, move || {
            let _ = began.send(());
            todo.into_iter().for_each(|job| job());
        })?;
        waiting(|| begun.recv()).map_err(|_| Refused::Stopped)?;
        Ok(Slot { jobs })
    }

    /// Charges a tenant with processor time that was used for it elsewhere, in a child process say.
    pub fn charge(&self, tenant: &str, used: Nanos) {
        let now = self.shared.now();
        self.shared.state().queue.charge(tenant, used, now);
    }

    /// Another share for one tenant; `None`: without a bound.
    pub fn set_share(&self, tenant: &str, share: Option<Share>) {
        let now = self.shared.now();
        self.shared.state().queue.set_share(tenant, share, now);
        self.shared.changed.notify_all();
    }

    /// Drops the jobs of a tenant that wait, and what is known of it.
    pub fn forget(&self, tenant: &str) {
        // What is dropped may take long, so not under the lock.
        let jobs = self.shared.state().queue.forget(tenant);
        drop(jobs);
    }

    /// What was done for a tenant.
    pub fn usage(&self, tenant: &str) -> Usage {
        self.shared.state().queue.usage(tenant, self.shared.now())
    }

    /// Threads that there are, those that wait included.
    #[cfg(test)]
    pub(crate) fn threads(&self) -> usize {
        self.shared.state().threads
    }

    /// The same of all tenants that are known here.
    pub fn usages(&self) -> BTreeMap<String, Usage> {
        self.shared.state().queue.usages(self.shared.now())
    }
}

/// A thread of the pool that works for one tenant. Its processor time is charged when it is given back, which
/// is when this is dropped.
pub struct Slot {
    jobs: Sender<Job>,
}

impl Slot {
    /// Does a job on the thread and waits for it.
    ///
    /// # Errors
    /// [`Refused::Broken`]: it panicked, or one before it did.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, Refused> {
        let (give, take) = sync_channel(1);
        let job: Job = Box::new(move || {
            // The caller waits for it.
            let _ = give.send(job());
        });
        self.jobs.send(job).map_err(|_| Refused::Broken)?;
        waiting(|| take.recv()).map_err(|_| Refused::Broken)
    }
}

impl Drop for Offload {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.stopped = true;
        let jobs = state.queue.clear();
        drop(state);
        self.shared.changed.notify_all();
        drop(jobs);
    }
}
