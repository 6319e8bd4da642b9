//! The thread that answers, and another that takes its place when it is kept.
//!
//! All connections are served by one thread at a time: to wake another one for each small change costs more
//! than many a change. So an administrator's small change is made on that thread, and most take a tenth of a
//! millisecond. One that takes longer, for whatever reason, keeps no other request waiting:
//! 1. [`Relay::here`] puts a job into a list. The thread that answers leaves off, does the job and goes on
//!    answering.
//! 2. A second thread looks every [`LOOK`] whether the same job is still being done. If so, it answers from
//!    now on, and a third one looks.
//! 3. The first thread ends when its job does. What the job gave goes to the request that waits for it, as
//!    ever.
//!
//! Limits: a request waits for two looks at most for a job that is not its own. Jobs of tenants are never
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

/// How often it is looked at whether a job is still being done.
const LOOK: Duration = Duration::from_millis(5);
/// Looks without a job after which none is taken until there is a job.
const IDLE: u32 = 200;

type Job = Box<dyn FnOnce() + Send>;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Relay {
    jobs: Mutex<VecDeque<Job>>,
    ready: Notify,
    /// Odd while a job is being done by the thread that answers; another number for each job.
    at_work: AtomicU64,
    /// The thread that looks, and whether it sleeps until it is called.
    looks: Mutex<Option<Thread>>,
    sleeps: AtomicBool,
    over: AtomicBool,
    /// Whether the runtime is no more.
    shut: (Mutex<bool>, Condvar),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Relay {
    /// Does a job on the thread that answers; `None` if it broke, or if the server is over.
    pub async fn here<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> Option<R> {
        let (tell, told) = oneshot::channel();
        locked(&self.jobs).push_back(Box::new(move || {
            // The request may have gone.
            let _ = tell.send(job());
        }));
        self.ready.notify_one();
        told.await.ok()
    }

    /// Answers until [`end`](Relay::end), on this thread or on the one that has taken its place. What is
    /// still at work then is waited for for so long.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn run(self: &Arc<Relay>, runtime: Runtime, grace: Duration) -> io::Result<()> {
        let runtime = Arc::new(runtime);
        self.look(Arc::downgrade(&runtime), grace)?;
        self.lead(runtime, grace);
        let mut shut = locked(&self.shut.0);
        while !*shut {
            if !self.over.load(SeqCst) {
                shut = self.shut.1.wait(shut).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // A thread that is kept for ever keeps the runtime as well.
            let (now, late) = self.shut.1.wait_timeout(shut, grace).unwrap_or_else(PoisonError::into_inner);
            shut = now;
            if late.timed_out() {
                break;
            }
        }
        Ok(())
    }

    /// Nothing is answered any more.
    pub fn end(&self) {
        self.over.store(true, SeqCst);
        self.ready.notify_one();
        if let Some(looks) = &*locked(&self.looks) {
            looks.unpark();
        }
        let _told = locked(&self.shut.0);
        self.shut.1.notify_all();
    }

    async fn next(&self) -> Option<Job> {
        loop {
            if self.over.load(SeqCst) {
                return None;
            }
            if let Some(job) = locked(&self.jobs).pop_front() {
                return Some(job);
            }
            self.ready.notified().await;
        }
    }

    /// Answers, and does jobs, until another thread does or the server is over.
    fn lead(&self, runtime: Arc<Runtime>, grace: Duration) {
        while let Some(job) = runtime.block_on(self.next()) {
            let working = self.at_work.fetch_add(1, SeqCst) + 1;
            if self.sleeps.swap(false, SeqCst)
                && let Some(looks) = &*locked(&self.looks)
            {
                looks.unpark();
            }
            // A request whose job breaks is told so by what does not come.
            let _ = catch_unwind(AssertUnwindSafe(job));
            if self.at_work.compare_exchange(working, working + 1, SeqCst, SeqCst).is_err() {
                break;
            }
        }
        // The last one that has it ends what is left.
        if self.over.load(SeqCst)
            && let Some(runtime) = Arc::into_inner(runtime)
        {
            runtime.shutdown_timeout(grace);
            *locked(&self.shut.0) = true;
            self.shut.1.notify_all();
        }
    }

    /// Begins to look, on a thread of its own.
    fn look(self: &Arc<Relay>, runtime: Weak<Runtime>, grace: Duration) -> io::Result<()> {
        let this = self.clone();
        let looking = Builder::new().name("answering".into()).spawn(move || this.watch(runtime, grace))?;
        *locked(&self.looks) = Some(looking.thread().clone());
        Ok(())
    }

    fn watch(self: Arc<Relay>, runtime: Weak<Runtime>, grace: Duration) {
        let mut quiet = 0;
        while !self.over.load(SeqCst) {
            let seen = self.at_work.load(SeqCst);
            if quiet >= IDLE {
                quiet = 0;
                self.sleeps.store(true, SeqCst);
                // A job that has just begun does not see that nothing looks.
                if self.at_work.load(SeqCst) == seen && !self.over.load(SeqCst) {
                    park();
                }
                self.sleeps.store(false, SeqCst);
                continue;
            }
            park_timeout(LOOK);
            let now = self.at_work.load(SeqCst);
            if now != seen || now.is_multiple_of(2) {
                quiet = if now == seen { quiet + 1 } else { 0 };
                continue;
            }
            // The thread with the job has it, too.
            let Some(taken) = runtime.upgrade() else { return };
            if self.at_work.compare_exchange(now, now + 1, SeqCst, SeqCst).is_ok() {
                // Without a third thread the next job that takes long is waited for.
                let _ = self.look(runtime, grace);
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
    fn another_thread_answers_while_a_job_takes_long() {
        let (relay, runtime) = (Arc::new(Relay::default()), runtime());
        let (enter, entered) = channel();
        // Three that end when they may, each of which keeps the thread that answers then.
        let mut gates = Vec::new();
        for _ in 0..3 {
            let (open, gate) = channel::<()>();
            gates.push(open);
            let (theirs, enter) = (relay.clone(), enter.clone());
            runtime.spawn(async move {
                let kept = move || {
                    enter.send(()).expect("is waited for");
                    gate.recv().is_ok()
                };
                assert_eq!(theirs.here(kept).await, Some(true));
            });
        }
        let inside = runtime.handle().clone();
        let theirs = relay.clone();
        let serving = std::thread::spawn(move || theirs.run(runtime, GRACE));
        for _ in 0..3 {
            entered.recv().expect("begins, whatever the others do");
        }
        let ask = |number: u32| {
            let (tell, told) = channel();
            let theirs = relay.clone();
            inside.spawn(async move { tell.send(theirs.here(move || number).await).expect("is waited for") });
            told.recv().expect("is answered")
        };
        assert_eq!(ask(7), Some(7), "while all three are kept");
        gates.iter().for_each(|gate| gate.send(()).expect("waits"));
        assert_eq!(ask(8), Some(8), "after they have ended, too");
        relay.end();
        serving.join().expect("no panic").expect("serves");
    }

    #[test]
    fn a_job_that_breaks_is_told_and_the_next_is_done() {
        let (relay, runtime) = (Arc::new(Relay::default()), runtime());
        let (tell, told) = channel();
        let theirs = relay.clone();
        runtime.spawn(async move {
            let broken = theirs.here(|| std::panic::resume_unwind(Box::new("broken"))).await;
            tell.send((broken, theirs.here(|| 1).await)).expect("is waited for");
            theirs.end();
        });
        relay.run(runtime, GRACE).expect("serves");
        assert_eq!(told.recv(), Ok((None::<()>, Some(1))));
    }
}
