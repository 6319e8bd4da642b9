//! The audit log as the server uses it: no request waits for the disk but those that have a line to write.
//!
//! 1. [`AuditQueue::write`] appends a line to the queue and returns. Lines are written in the order in which
//!    they were appended.
//! 2. The request that appended it calls [`AuditQueue::written`] before it is answered, so that what a client
//!    was told is logged. A change has its line written by its own job ([`AuditQueue::write_here`]), so that
//!    there is nothing to wait for, any other request by a job for that, or, where no job may be done for it,
//!    by the log's thread. One of them writes at a time.
//!    While the disk hangs these requests wait, and no other does: at most one line for each of them, and for
//!    each operation under way, is in the queue.
//! 3. Room for a line is reserved before a change is made. As long as there is some from before,
//!    [`AuditQueue::admit`] needs neither the disk nor another thread.
//! 4. An operation that outlasts its request calls [`AuditQueue::wake`] instead: the thread writes its line.
//! 5. How the log is ([`AuditQueue::trouble`], [`AuditQueue::lost`]) is what was found last; to ask takes no
//!    time.
//! 6. When the queue is dropped, what is in it is written first.

use crate::audit::Audit;
use crate::audit_rate::{Free, Group};
use crate::leader_followers::LeaderFollowers;
use serde::Serialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// A disk that has not answered for so long is told of.
const LONG: Duration = Duration::from_secs(5);

/// What is asked of the log.
#[derive(Debug)]
enum Job {
    /// A record as JSON's text.
    Write(String),
    WriteFree(Group, Free, Value),
    /// Reserves room, see [`Audit::admit`].
    Admit(u64, oneshot::Sender<Result<(), String>>),
    /// Looks whether what stood in the way has gone.
    Look,
    Reopen(Sender<()>),
}

/// How the log is, as was found last.
#[derive(Debug, Default)]
struct Standing {
    trouble: Option<String>,
    lost: u64,
}

/// What is to be done, and the thread's orders.
#[derive(Debug, Default)]
struct Pending {
    jobs: VecDeque<Job>,
    /// The thread is to do what there is.
    awake: bool,
    /// The thread is to end when all is done.
    ends: bool,
}

#[derive(Debug)]
struct Shared {
    pending: Mutex<Pending>,
    changed: Condvar,
    /// Held by the thread that writes.
    audit: Mutex<Audit>,
    standing: Mutex<Standing>,
    /// Since when a job is being done.
    since: Mutex<Option<Instant>>,
    /// A [`Job::Look`] is in the queue.
    looks: AtomicBool,
    /// Jobs that are done.
    done: watch::Sender<u64>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn wake(&self) {
        locked(&self.pending).awake = true;
        self.changed.notify_one();
    }

    /// Does all that is in the queue.
    fn work(&self, audit: &Audit) {
        loop {
            let Some(job) = locked(&self.pending).jobs.pop_front() else { return };
            *locked(&self.since) = Some(Instant::now());
            let answer: Option<Box<dyn FnOnce()>> = match job {
                Job::Write(record) => {
                    audit.write_text(&record);
                    None
                }
                Job::WriteFree(group, kind, record) => {
                    audit.write_free(group, kind, record);
                    None
                }
                Job::Admit(names, tell) => {
                    let admitted = audit.admit(names);
                    // A request that has ended takes no answer.
                    Some(Box::new(move || drop(tell.send(admitted))))
                }
                Job::Look => {
                    self.looks.store(false, SeqCst);
                    None
                }
                Job::Reopen(tell) => {
                    audit.reopen();
                    Some(Box::new(move || {
                        let _ = tell.send(());
                    }))
                }
            };
            *locked(&self.standing) = standing(audit);
            *locked(&self.since) = None;
            if let Some(answer) = answer {
                answer();
            }
            self.done.send_modify(|done| *done += 1);
        }
    }

    /// What the thread does until the queue is dropped.
    fn serve(&self) {
        let mut pending = locked(&self.pending);
        loop {
            let idle = |pending: &mut Pending| !pending.awake && !pending.ends;
            pending = self.changed.wait_while(pending, idle).unwrap_or_else(PoisonError::into_inner);
            pending.awake = false;
            let ends = pending.ends;
            drop(pending);
            self.work(&locked(&self.audit));
            if ends {
                return;
            }
            pending = locked(&self.pending);
        }
    }

    /// Whether there is room for a line that names objects in so many bytes, without a look at the disk.
    /// Lines that wait, or are being written, take their room first.
    fn has_room(&self, names: u64) -> bool {
        let Ok(audit) = self.audit.try_lock() else { return false };
        locked(&self.pending).jobs.is_empty() && audit.has_room(names)
    }

    /// Does all that is in the queue on this thread, which may be kept by the disk; if another thread is at
    /// it, the log's thread comes after that one.
    fn help(&self) {
        match self.audit.try_lock() {
            Ok(audit) => self.work(&audit),
            Err(TryLockError::Poisoned(poisoned)) => self.work(&poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => self.wake(),
        }
    }
}

fn standing(audit: &Audit) -> Standing {
    let (trouble, lost) = (audit.trouble(), audit.lost());
    Standing { trouble, lost }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct AuditQueue {
    shared: Arc<Shared>,
    /// Jobs that were appended, or are about to be.
    asked: AtomicU64,
    done: watch::Receiver<u64>,
    thread: Option<JoinHandle<()>>,
}

impl AuditQueue {
    /// Begins the thread.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn begin(audit: Audit) -> io::Result<AuditQueue> {
        let mut queue = AuditQueue::without_thread(audit);
        let serving = queue.shared.clone();
        let thread = std::thread::Builder::new().name("audit".into());
        queue.thread = Some(thread.spawn(move || serving.serve())?);
        Ok(queue)
    }

    fn without_thread(audit: Audit) -> AuditQueue {
        let (tell, done) = watch::channel(0);
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            changed: Condvar::new(),
            standing: Mutex::new(standing(&audit)),
            since: Mutex::default(),
            audit: Mutex::new(audit),
            looks: AtomicBool::new(false),
            done: tell,
        });
        AuditQueue { shared, asked: AtomicU64::new(0), done, thread: None }
    }

    fn ask(&self, job: Job) {
        // Counted before it is queued, so that `written` waits for it.
        self.asked.fetch_add(1, SeqCst);
        locked(&self.shared.pending).jobs.push_back(job);
    }

    /// Appends a line to the queue, see [`Audit::write`]. [`written`](AuditQueue::written) or
    /// [`wake`](AuditQueue::wake) is to follow.
    pub fn write(&self, record: &impl Serialize) {
        // Records are maps with keys of text, which can always be written.
        self.ask(Job::Write(serde_json::to_string(record).unwrap_or_default()));
    }

    /// The same for a line that cost a client nothing, see [`Audit::write_free`].
    pub fn write_free(&self, group: Group, kind: Free, record: Value) {
        self.ask(Job::WriteFree(group, kind, record));
    }

    /// Has the thread write what is in the queue.
    pub fn wake(&self) {
        self.shared.wake();
    }

    /// Writes what is in the queue on the calling thread, which the disk may keep for a while; or leaves it
    /// to the thread that is at it.
    pub fn write_here(&self) {
        self.shared.help();
    }

    /// Writes what is in the queue: by a job on the thread that answers, if there is a `leader` to do jobs,
    /// and else by the log's thread.
    async fn flush(&self, leader: Option<&LeaderFollowers>) {
        match leader {
            Some(leader) => {
                let shared = self.shared.clone();
                // A job that breaks leaves what is in the queue to the thread.
                if leader.run_on_leader(move || shared.help()).await.is_none() {
                    self.wake();
                }
            }
            None => self.wake(),
        }
    }

    /// Waits until all lines are written that were appended before this was called.
    pub async fn written(&self, leader: Option<&LeaderFollowers>) {
        let wanted = self.asked.load(SeqCst);
        if *self.done.borrow() >= wanted {
            return;
        }
        self.flush(leader).await;
        // The thread ends only with the queue itself.
        let _ = self.done.clone().wait_for(|done| *done >= wanted).await;
    }

    /// Reserves room for the line of a change that names objects in so many bytes, before it is made.
    ///
    /// # Errors
    /// As [`Audit::admit`].
    pub async fn admit(&self, names: u64, leader: Option<&LeaderFollowers>) -> Result<(), String> {
        if self.shared.has_room(names) {
            return Ok(());
        }
        let (tell, told) = oneshot::channel();
        self.ask(Job::Admit(names, tell));
        self.flush(leader).await;
        told.await.unwrap_or_else(|_| Err("the audit log has ended".to_owned()))
    }

    /// Opens the file anew: another program has given it another name. It waits for the disk.
    pub fn reopen(&self) {
        let (tell, told) = channel();
        self.ask(Job::Reopen(tell));
        self.wake();
        let _ = told.recv();
    }

    /// Why the last line could not be written; the thread then looks whether the next one can be. Or that the
    /// disk does not answer.
    pub fn trouble(&self) -> Option<String> {
        let waits = locked(&self.shared.since).map(|since| since.elapsed());
        if let Some(waits) = waits.filter(|waits| *waits >= LONG) {
            let waits = waits.as_secs();
            return Some(format!(
                "the audit log: the disk has not answered for {waits} s; changes wait until it does"
            ));
        }
        let trouble = locked(&self.shared.standing).trouble.clone();
        if trouble.is_some() && !self.shared.looks.swap(true, SeqCst) {
            self.ask(Job::Look);
            self.wake();
        }
        trouble
    }

    /// Lines that were lost since the start.
    pub fn lost(&self) -> u64 {
        locked(&self.shared.standing).lost
    }
}

impl Drop for AuditQueue {
    fn drop(&mut self) {
        locked(&self.shared.pending).ends = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;
    use serde_json::json;
    use std::path::Path;

    fn queue(file: &Path, required: bool) -> AuditQueue {
        let settings = settings::Audit { file: file.to_owned(), bytes: 1 << 20, kept: 2, required };
        AuditQueue::begin(Audit::open(&settings).expect("opens")).expect("a thread")
    }

    fn wait(future: impl Future) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(future);
    }

    #[test]
    fn lines_are_written_in_order_and_before_the_queue_has_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        let audit = queue(&file, true);
        let lines = || std::fs::read_to_string(&file).unwrap_or_default();
        audit.write(&json!({"n": 0}));
        wait(audit.written(None));
        assert_eq!(lines(), "{\"n\":0}\n");
        for n in 1..100 {
            audit.write(&json!({ "n": n }));
        }
        drop(audit);
        let expected: String = (0..100).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        assert_eq!(lines(), expected);
    }

    #[test]
    fn a_log_that_can_be_written_again_is_well_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        std::os::unix::fs::symlink("/dev/full", &file).expect("a link");
        let audit = queue(&file, true);
        audit.write(&json!({"n": 0}));
        wait(audit.written(None));
        assert!(audit.trouble().is_some_and(|trouble| trouble.contains("audit.jsonl")) && audit.lost() == 1);
        std::fs::remove_file(&file).expect("goes");
        audit.reopen();
        // To ask has the thread look.
        let _ = audit.trouble();
        wait(audit.written(None));
        assert_eq!((audit.trouble(), audit.lost()), (None, 1));
        wait(async { audit.admit(1, None).await.expect("there is room") });
    }

    /// Without the log's thread: what is in the queue stays there until the test has it done.
    #[test]
    fn room_that_is_there_is_waited_for_by_none_and_lines_that_wait_have_it_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("audit.jsonl");
        let settings = settings::Audit { file: file.clone(), bytes: 1 << 20, kept: 2, required: true };
        let audit = AuditQueue::without_thread(Audit::open(&settings).expect("opens"));
        let at_once = |names| {
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            std::pin::pin!(audit.admit(names, None)).poll(&mut cx).is_ready()
        };
        assert!(at_once(1), "some is reserved when the log is opened");
        assert!(!at_once(1 << 20), "as much as the log may hold");
        audit.write_here();
        assert!(at_once(1));
        audit.write(&json!({"n": 0}));
        assert!(!at_once(1), "a line waits");
        audit.write_here();
        assert!(at_once(1));
        let disk = locked(&audit.shared.audit);
        assert!(!at_once(1), "a line is being written");
        drop(disk);
        audit.write(&json!({"n": 1}));
        audit.write_here();
        assert!(at_once(1));
        assert_eq!(std::fs::read_to_string(&file).expect("reads"), "{\"n\":0}\n{\"n\":1}\n");
    }

    #[test]
    fn a_disk_that_hangs_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let audit = queue(&folder.path().join("audit.jsonl"), true);
        assert_eq!(audit.trouble(), None);
        *locked(&audit.shared.since) = Instant::now().checked_sub(LONG * 2);
        let told = "the audit log: the disk has not answered for 10 s; changes wait until it does";
        assert_eq!(audit.trouble().as_deref(), Some(told));
        *locked(&audit.shared.since) = None;
        assert_eq!(audit.trouble(), None);
    }
}
