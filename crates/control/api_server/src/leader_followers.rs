//! The leader thread answers all connections; a follower takes over while the leader is blocked by a job
//! (the pattern is called leader/followers).
//!
//! All connections are served by one thread at a time: to wake another one for each small change costs more
//! than many a change. So an administrator's small change is made on that thread, and most take a tenth of a
//! millisecond. One that takes longer, for whatever reason, delays no other request:
//! 1. [`LeaderFollowers::run_on_leader`] puts a job into a list. The leader stops answering, does the job and
//!    goes on answering.
//! 2. A follower checks every [`CHECK_INTERVAL`] whether the same job is still being done. If so, it becomes
//!    the leader, and a new thread becomes the follower.
//! 3. The former leader ends when its job does. The result goes to the request that waits for it, as ever.
//!
//! Limits: a request waits for two checks at most for a job that is not its own. Jobs of tenants are never
//! done here, so that no tenant can make that happen again and again.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{Builder, Thread, park, park_timeout};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, oneshot};

/// How often the follower checks whether a job is still being done.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Checks without a job after which the follower parks until there is one.
const IDLE_CHECKS: u32 = 200;

/// What is done on the leader, and then told to the request that waits for it.
trait Job: Send {
    fn work(&mut self);

    /// Within the runtime where there is one: it need not be woken for what it hears from itself.
    fn tell(self: Box<Self>);
}

struct Closure<F, R> {
    job: Option<F>,
    result: Option<R>,
    tell: oneshot::Sender<R>,
}

impl<F: FnOnce() -> R + Send, R: Send> Job for Closure<F, R> {
    fn work(&mut self) {
        self.result = self.job.take().map(|job| job());
    }

    fn tell(self: Box<Self>) {
        if let Some(result) = self.result {
            // The request may have gone.
            let _ = self.tell.send(result);
        }
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct LeaderFollowers {
    jobs: Mutex<VecDeque<Box<dyn Job>>>,
    ready: Notify,
    /// Odd while the leader does a job; another number for each job.
    job_number: AtomicU64,
    follower: Mutex<Option<Thread>>,
    /// Whether the follower is parked until there is a job.
    parked: AtomicBool,
    ended: AtomicBool,
    /// Whether the runtime has been shut down.
    shut: (Mutex<bool>, Condvar),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LeaderFollowers {
    /// Does a job on the leader; `None` if it panicked, or if the server has ended.
    pub async fn run_on_leader<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let (tell, told) = oneshot::channel();
        locked(&self.jobs).push_back(Box::new(Closure { job: Some(job), result: None, tell }));
        self.ready.notify_one();
        told.await.ok()
    }

    /// Answers until [`end`](LeaderFollowers::end), on this thread or on a later leader. Jobs that still run
    /// then are waited for for `grace`.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn run(self: &Arc<LeaderFollowers>, runtime: Runtime, grace: Duration) -> io::Result<()> {
        let runtime = Arc::new(runtime);
        self.start_follower(Arc::downgrade(&runtime), grace)?;
        self.lead(runtime, grace);
        let mut shut = locked(&self.shut.0);
        while !*shut {
            if !self.ended.load(SeqCst) {
                shut = self.shut.1.wait(shut).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // A thread that is blocked for ever holds the runtime as well.
            let (now, late) = self.shut.1.wait_timeout(shut, grace).unwrap_or_else(PoisonError::into_inner);
            shut = now;
            if late.timed_out() {
                break;
            }
        }
        Ok(())
    }

    /// Ends it: no further request is answered.
    pub fn end(&self) {
        self.ended.store(true, SeqCst);
        self.ready.notify_one();
        if let Some(follower) = &*locked(&self.follower) {
            follower.unpark();
        }
        let _told = locked(&self.shut.0);
        self.shut.1.notify_all();
    }

    /// The next job; what was done before is told first.
    async fn next(&self, done: Option<Box<dyn Job>>) -> Option<Box<dyn Job>> {
        if let Some(done) = done {
            done.tell();
        }
        loop {
            if self.ended.load(SeqCst) {
                return None;
            }
            if let Some(job) = locked(&self.jobs).pop_front() {
                return Some(job);
            }
            self.ready.notified().await;
        }
    }

    /// Answers, and does jobs, until another thread leads or the server has ended.
    fn lead(&self, runtime: Arc<Runtime>, grace: Duration) {
        let mut done = None;
        while let Some(mut job) = runtime.block_on(self.next(done.take())) {
            let working = self.job_number.fetch_add(1, SeqCst) + 1;
            if self.parked.swap(false, SeqCst)
                && let Some(follower) = &*locked(&self.follower)
            {
                follower.unpark();
            }
            // A request whose job panics finds its channel closed.
            let _ = catch_unwind(AssertUnwindSafe(|| job.work()));
            done = Some(job);
            if self.job_number.compare_exchange(working, working + 1, SeqCst, SeqCst).is_err() {
                break;
            }
        }
        if let Some(done) = done {
            done.tell();
        }
        // The last thread that holds the runtime shuts it down.
        if self.ended.load(SeqCst)
            && let Some(runtime) = Arc::into_inner(runtime)
        {
            runtime.shutdown_timeout(grace);
            *locked(&self.shut.0) = true;
            self.shut.1.notify_all();
        }
    }

    /// Starts the follower, a thread of its own.
    fn start_follower(
        self: &Arc<LeaderFollowers>,
        runtime: Weak<Runtime>,
        grace: Duration,
    ) -> io::Result<()> {
        let this = self.clone();
        let follower = Builder::new().name("answering".into()).spawn(move || this.follow(runtime, grace))?;
        *locked(&self.follower) = Some(follower.thread().clone());
        Ok(())
    }

    fn follow(self: Arc<LeaderFollowers>, runtime: Weak<Runtime>, grace: Duration) {
        let mut quiet = 0;
        while !self.ended.load(SeqCst) {
            let seen = self.job_number.load(SeqCst);
            if quiet >= IDLE_CHECKS {
                quiet = 0;
                self.parked.store(true, SeqCst);
                // A job that began in between did not see `parked`.
                if self.job_number.load(SeqCst) == seen && !self.ended.load(SeqCst) {
                    park();
                }
                self.parked.store(false, SeqCst);
                continue;
            }
            park_timeout(CHECK_INTERVAL);
            let now = self.job_number.load(SeqCst);
            if now != seen || now.is_multiple_of(2) {
                quiet = if now == seen { quiet + 1 } else { 0 };
                continue;
            }
            // The leader holds it as well.
            let Some(taken) = runtime.upgrade() else { return };
            if self.job_number.compare_exchange(now, now + 1, SeqCst, SeqCst).is_ok() {
                // Without a follower the next job that takes long delays the requests.
                let _ = self.start_follower(runtime, grace);
                return self.lead(taken, grace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const GRACE: Duration = Duration::from_secs(60);

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    }

    #[test]
    fn a_follower_answers_while_a_job_takes_long() {
        let (threads, runtime) = (Arc::new(LeaderFollowers::default()), runtime());
        let (enter, entered) = channel();
        // Three jobs that end when they may, each of which blocks the leader of its time.
        let mut gates = Vec::new();
        for _ in 0..3 {
            let (open, gate) = channel::<()>();
            gates.push(open);
            let (theirs, enter) = (threads.clone(), enter.clone());
            runtime.spawn(async move {
                let kept = move || {
                    enter.send(()).expect("is waited for");
                    gate.recv().is_ok()
                };
                assert_eq!(theirs.run_on_leader(kept).await, Some(true));
            });
        }
        let inside = runtime.handle().clone();
        let theirs = threads.clone();
        let serving = std::thread::spawn(move || theirs.run(runtime, GRACE));
        for _ in 0..3 {
            entered.recv().expect("begins, whatever the others do");
        }
        let ask = |number: u32| {
            let (tell, told) = channel();
            let theirs = threads.clone();
            inside.spawn(async move {
                tell.send(theirs.run_on_leader(move || number).await).expect("is waited for")
            });
            told.recv().expect("is answered")
        };
        assert_eq!(ask(7), Some(7), "while all three are kept");
        gates.iter().for_each(|gate| gate.send(()).expect("waits"));
        assert_eq!(ask(8), Some(8), "after they have ended, too");
        threads.end();
        serving.join().expect("no panic").expect("serves");
    }

    #[test]
    fn a_job_that_panics_is_reported_and_the_next_is_done() {
        let (threads, runtime) = (Arc::new(LeaderFollowers::default()), runtime());
        let (tell, told) = channel();
        let theirs = threads.clone();
        runtime.spawn(async move {
            let broken = theirs.run_on_leader(|| std::panic::resume_unwind(Box::new("broken"))).await;
            tell.send((broken, theirs.run_on_leader(|| 1).await)).expect("is waited for");
            theirs.end();
        });
        threads.run(runtime, GRACE).expect("serves");
        assert_eq!(told.recv(), Ok((None::<()>, Some(1))));
    }
}
