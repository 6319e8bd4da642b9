//! From acknowledged to durable: a thread that writes whatever was committed to disk, in groups, and wakes
//! the threads that wait.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::NotDurable;
use crate::mark::{Mark, MarkFile};
use crate::object::Revision;
use crate::settings::UNDURABLE_MAX;

/// What is called when a revision is on disk, or never will be.
pub(crate) type WhenDurable = Box<dyn FnOnce(Result<(), NotDurable>) + Send>;

/// What writes the log to disk: `fdatasync` of it, or a test's own.
pub(crate) type SyncLog = Box<dyn FnMut() -> io::Result<()> + Send>;

/// How far the disk is.
pub(crate) struct Durability {
    state: Mutex<State>,
    /// Wakes the thread.
    work: Condvar,
    /// Wakes the threads that wait.
    done: Condvar,
}

struct State {
    committed: Revision,
    durable: Revision,
    /// The thread sleeps until it is woken.
    resting: bool,
    /// A thread waits: the next group is not gathered any longer.
    hurry: bool,
    stop: bool,
    failed: Option<NotDurable>,
    waiting: Vec<(Revision, WhenDurable)>,
}

impl State {
    /// What is known of a revision, if anything is.
    fn verdict(&self, revision: Revision) -> Option<Result<(), NotDurable>> {
        if revision <= self.durable {
            Some(Ok(()))
        } else if let Some(failed) = &self.failed {
            Some(Err(failed.clone()))
        } else if revision > self.committed {
            Some(Err(NotDurable::NotCommitted { asked: revision, last: self.committed }))
        } else {
            None
        }
    }

    fn fail(&mut self, what: String) {
        let after = self.durable;
        self.failed.get_or_insert(NotDurable::Failed { after, what });
    }

    /// Takes out those whose revision is decided.
    fn decided(&mut self) -> Vec<(WhenDurable, Result<(), NotDurable>)> {
        let mut decided = Vec::new();
        for (revision, when) in std::mem::take(&mut self.waiting) {
            match self.verdict(revision) {
                Some(verdict) => decided.push((when, verdict)),
                None => self.waiting.push((revision, when)),
            }
        }
        decided
    }
}

impl Durability {
    /// Everything up to `revision` is on disk.
    pub fn new(revision: Revision) -> Self {
        let state = State {
            committed: revision,
            durable: revision,
            resting: false,
            hurry: false,
            stop: false,
            failed: None,
            waiting: Vec::new(),
        };
        Self { state: Mutex::new(state), work: Condvar::new(), done: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No one can leave the state half changed: nothing that may panic runs while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while too much is acknowledged that is not durable, and says whether more is accepted at all.
    pub fn admit(&self) -> Result<(), NotDurable> {
        let mut state = self.state();
        loop {
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            if state.committed.0 - state.durable.0 < UNDURABLE_MAX {
                return Ok(());
            }
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A commit is in the log.
    pub fn committed(&self, revision: Revision) {
        let mut state = self.state();
        state.committed = revision;
        if std::mem::take(&mut state.resting) {
            drop(state);
            self.work.notify_one();
        }
    }

    /// A write to disk failed elsewhere.
    pub fn fail(&self, what: String) {
        let mut state = self.state();
        state.fail(what);
        let decided = state.decided();
        drop(state);
        self.tell(decided);
    }

    pub fn durable(&self) -> Revision {
        self.state().durable
    }

    pub fn failure(&self) -> Option<NotDurable> {
        self.state().failed.clone()
    }

    /// Blocks until a revision is on disk.
    pub fn wait(&self, revision: Revision) -> Result<(), NotDurable> {
        let mut state = self.state();
        loop {
            if let Some(verdict) = state.verdict(revision) {
                return verdict;
            }
            state.hurry = true;
            self.work.notify_one();
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Calls `when` once a revision is on disk: at once, or from the thread.
    pub fn when(&self, revision: Revision, when: WhenDurable) {
        let mut state = self.state();
        match state.verdict(revision) {
            Some(verdict) => {
                drop(state);
                when(verdict);
            }
            None => {
                state.waiting.push((revision, when));
                state.hurry = true;
                drop(state);
                self.work.notify_one();
            }
        }
    }

    fn tell(&self, decided: Vec<(WhenDurable, Result<(), NotDurable>)>) {
        self.done.notify_all();
        for (when, verdict) in decided {
            when(verdict);
        }
    }

    /// What the thread does until [`stop`](Self::stop); what was committed before that is written first.
    /// `untouched` is the mark of a store to which nothing is committed: revisions that were left out when it
    /// was opened are not in it.
    pub fn run(&self, gather: Duration, mark: &MarkFile, untouched: Mark, sync: &mut SyncLog) {
        let mut state = self.state();
        let mut closed = untouched;
        loop {
            while state.committed == state.durable && !state.stop && state.failed.is_none() {
                state.resting = true;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.resting = false;
            if state.failed.is_some() || state.committed == state.durable {
                break;
            }
            let (gathered, _) = self
                .work
                .wait_timeout_while(state, gather, |state| !state.hurry && !state.stop)
                .unwrap_or_else(PoisonError::into_inner);
            state = gathered;
            state.hurry = false;
            let target = state.committed;
            drop(state);
            let synced = sync().and_then(|()| mark.write(Mark { durable: target, closed: false }));
            state = self.state();
            match synced {
                Ok(()) if state.failed.is_none() => {
                    state.durable = target;
                    closed = Mark { durable: target, closed: true };
                }
                Ok(()) => {}
                Err(error) => state.fail(error.to_string()),
            }
            let decided = state.decided();
            drop(state);
            self.tell(decided);
            state = self.state();
        }
        let failed = state.failed.is_some();
        drop(state);
        if !failed {
            // Without this mark the next to open the store skips some revisions, and that is all.
            let _ = mark.write(closed).and_then(|()| mark.sync());
        }
    }

    /// Lets the thread come to an end.
    pub fn stop(&self) {
        self.state().stop = true;
        self.work.notify_one();
    }
}
