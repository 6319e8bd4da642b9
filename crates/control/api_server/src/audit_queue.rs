//! The audit log as the server uses it: one thread writes, and nothing else waits for the disk.
//!
//! 1. [`AuditQueue::write`] hands a line to the thread and returns. Lines are written in the order in which
//!    they were handed over.
//! 2. A request that changed something, or was refused, waits in [`AuditQueue::written`] before it is
//!    answered, so that what a client was told is logged. While the disk hangs these requests wait, and no
//!    other does: at most one line for each of them, and for each operation under way, is in the queue.
//! 3. How the log is ([`AuditQueue::trouble`], [`AuditQueue::lost`]) is what the thread said last; to ask
//!    takes no time.
//! 4. When the queue is dropped, what is in it is written first.

use crate::audit::{Audit, Free};
use serde_json::Value;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::{oneshot, watch};

/// What the thread is asked for.
enum Job {
    Write(Value),
    WriteFree(Free, Value),
    /// Reserves room, see [`Audit::admit`].
    Admit(u64, oneshot::Sender<Result<(), String>>),
    /// Looks whether what stood in the way has gone.
    Look,
    Reopen(Sender<()>),
}

/// How the log is, as the thread said last.
#[derive(Debug, Default)]
struct Standing {
    trouble: Option<String>,
    lost: u64,
}

#[derive(Debug, Default)]
struct Shared {
    standing: Mutex<Standing>,
    /// A [`Job::Look`] is in the queue.
    looks: AtomicBool,
}

impl Shared {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct AuditQueue {
    shared: Arc<Shared>,
    /// `None` while it is dropped.
    jobs: Option<Sender<Job>>,
    /// Jobs that were handed over, or are about to be.
    asked: AtomicU64,
    /// Jobs that are done.
    done: watch::Receiver<u64>,
    thread: Option<JoinHandle<()>>,
}

impl AuditQueue {
    /// Begins the thread.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn begin(audit: Audit) -> io::Result<AuditQueue> {
        let (jobs, queue) = channel();
        let (tell, done) = watch::channel(0);
        let shared: Arc<Shared> = Arc::default();
        say(&audit, &shared);
        let told = shared.clone();
        let thread = std::thread::Builder::new().name("audit".into());
        let thread = thread.spawn(move || work(&audit, &queue, &told, &tell))?;
        Ok(AuditQueue { shared, jobs: Some(jobs), asked: AtomicU64::new(0), done, thread: Some(thread) })
    }

    fn ask(&self, job: Job) {
        // Counted before it is queued, so that what counts it waits for it.
        self.asked.fetch_add(1, SeqCst);
        if let Some(jobs) = &self.jobs {
            // The thread takes jobs as long as there is a sender.
            let _ = jobs.send(job);
        }
    }

    /// Has a line written, see [`Audit::write`].
    pub fn write(&self, record: Value) {
        self.ask(Job::Write(record));
    }

    /// Has a line written that cost a client nothing, see [`Audit::write_free`].
    pub fn write_free(&self, kind: Free, record: Value) {
        self.ask(Job::WriteFree(kind, record));
    }

    /// Waits until all lines are written that were handed over before this was called.
    pub async fn written(&self) {
        let wanted = self.asked.load(SeqCst);
        // The thread ends only with the queue itself.
        let _ = self.done.clone().wait_for(|done| *done >= wanted).await;
    }

    /// Reserves room for the line of a change that names objects in so many bytes, before it is made.
    ///
    /// # Errors
    /// As [`Audit::admit`].
    pub async fn admit(&self, names: u64) -> Result<(), String> {
        let (tell, told) = oneshot::channel();
        self.ask(Job::Admit(names, tell));
        told.await.unwrap_or_else(|_| Err("the audit log has ended".to_owned()))
    }

    /// Opens the file anew: another program has given it another name. It waits for the disk.
    pub fn reopen(&self) {
        let (tell, told) = channel();
        self.ask(Job::Reopen(tell));
        let _ = told.recv();
    }

    /// Why the last line could not be written; the thread then looks whether the next one can be.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.shared.standing().trouble.clone();
        if trouble.is_some() && !self.shared.looks.swap(true, SeqCst) {
            self.ask(Job::Look);
        }
        trouble
    }

    /// Lines that were lost since the start.
    pub fn lost(&self) -> u64 {
        self.shared.standing().lost
    }
}

impl Drop for AuditQueue {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn say(audit: &Audit, shared: &Shared) {
    let (trouble, lost) = (audit.trouble(), audit.lost());
    *shared.standing() = Standing { trouble, lost };
}

fn work(audit: &Audit, queue: &Receiver<Job>, shared: &Shared, done: &watch::Sender<u64>) {
    while let Ok(job) = queue.recv() {
        let answer: Option<Box<dyn FnOnce()>> = match job {
            Job::Write(record) => {
                audit.write(&record);
                None
            }
            Job::WriteFree(kind, record) => {
                audit.write_free(kind, record);
                None
            }
            Job::Admit(names, tell) => {
                let admitted = audit.admit(names);
                // The request may have ended.
                Some(Box::new(move || drop(tell.send(admitted))))
            }
            Job::Look => {
                shared.looks.store(false, SeqCst);
                None
            }
            Job::Reopen(tell) => {
                audit.reopen();
                Some(Box::new(move || {
                    // The request may have ended.
                    let _ = tell.send(());
                }))
            }
        };
        say(audit, shared);
        if let Some(answer) = answer {
            answer();
        }
        done.send_modify(|done| *done += 1);
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
        audit.write(json!({"n": 0}));
        wait(audit.written());
        assert_eq!(lines(), "{\"n\":0}\n");
        for n in 1..100 {
            audit.write(json!({ "n": n }));
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
        audit.write(json!({"n": 0}));
        wait(audit.written());
        assert!(audit.trouble().is_some_and(|trouble| trouble.contains("audit.jsonl")) && audit.lost() == 1);
        std::fs::remove_file(&file).expect("goes");
        audit.reopen();
        // To ask has the thread look.
        let _ = audit.trouble();
        wait(audit.written());
        assert_eq!((audit.trouble(), audit.lost()), (None, 1));
        wait(async { audit.admit(1).await.expect("there is room") });
    }
}
