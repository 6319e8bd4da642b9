//! What is read of instances and ports while the workers run: a copy of each one's account, written by the
//! worker that has it.
//!
//! 1. Each instance and each port has a [`Board`], which goes along from worker to worker. A
//!    [`Fleet`](crate::Fleet) knows all of them.
//! 2. A reader asks the worker for one of them ([`Viewer`]), waits for [`READ_WAIT`] at most, and copies what
//!    is on the board.
//! 3. The worker writes the boards that were asked for between two turns, a few at a time
//!    ([`Worker::show_some`]). Where it is in a long call, the reader finds what was written for the reader
//!    before.
//!
//! Nothing is written per packet. A worker waits for no lock: a question that is being asked, or a board that
//! is being read, is seen to in the next turn.

use crate::control::account::{InstanceAccount, PortAccount, account_of_node};
use crate::ids::{InstanceId, PortId};
use crate::state::accounting::WorkerTime;
use crate::worker::Worker;
use port::Bell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use telemetry::Ledger;

/// How long a reader waits for the worker to write what is new.
pub(crate) const READ_WAIT: Duration = Duration::from_millis(20);

/// Most boards that are written in one turn.
const AT_ONCE: usize = 16;

/// Most questions that wait; further ones are answered with the last of them.
const QUESTIONS: usize = 1024;

/// A place for one account.
#[derive(Debug)]
pub(crate) struct Board<T> {
    place: Mutex<Option<T>>,
    /// The worker, and the number there, of what this is of.
    home: AtomicU64,
}

impl<T> Default for Board<T> {
    fn default() -> Board<T> {
        Board { place: Mutex::new(None), home: AtomicU64::new(0) }
    }
}

impl<T: Clone> Board<T> {
    /// What is there; `None`: nothing was written yet.
    pub(crate) fn read(&self) -> Option<T> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The worker that writes here, and the number that it knows this by.
    pub(crate) fn home(&self) -> (usize, usize) {
        let home = self.home.load(Acquire);
        ((home >> 32) as usize, home as u32 as usize)
    }

    /// Another worker writes here from now on.
    pub(crate) fn set_home(&self, worker: u16, index: usize) {
        self.home.store(u64::from(worker) << 32 | u64::from(index as u32), Release);
    }

    /// Writes, unless it is being read at this moment: false.
    fn show(&self, account: T) -> bool {
        match self.place.try_lock() {
            Ok(mut place) => {
                *place = Some(account);
                true
            }
            Err(_) => false,
        }
    }
}

/// What a reader wants to see, by the worker's number for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    Instance(usize),
    Port(usize),
    /// What the worker counts beside them.
    Worker,
}

/// What a worker counts beside its instances and ports, as of its last answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerPart {
    pub(crate) time: WorkerTime,
    /// Of wires to other workers.
    pub(crate) relays: (Ledger, u64),
}

/// How readers ask a worker.
#[derive(Debug)]
pub(crate) struct Viewer {
    bell: Arc<Bell>,
    questions: Mutex<VecDeque<Wanted>>,
    /// How many questions there were, and how many were answered, in their order.
    asked: AtomicU64,
    answered: AtomicU64,
    /// See [`Wanted::Worker`].
    pub(crate) worker: Board<WorkerPart>,
}

impl Viewer {
    pub(crate) fn new(bell: Arc<Bell>) -> Viewer {
        let (asked, answered) = (AtomicU64::new(0), AtomicU64::new(0));
        Viewer { bell, questions: Mutex::default(), asked, answered, worker: Board::default() }
    }

    /// Asks, and says which question that is.
    pub(crate) fn ask(&self, wanted: Wanted) -> u64 {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let question = if questions.len() < QUESTIONS {
            questions.push_back(wanted);
            self.asked.fetch_add(1, Release) + 1
        } else {
            self.asked.load(Relaxed)
        };
        drop(questions);
        self.bell.ring_if_asleep();
        question
    }

    /// Waits until a question was answered, or it is too late.
    pub(crate) fn wait(&self, question: u64, until: Instant) {
        while self.answered.load(Acquire) < question && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Waits until a question was answered: true; or until none has been answered for `longest`.
    pub(crate) fn wait_while_it_answers(&self, question: u64, longest: Duration) -> bool {
        let (mut answered, mut since) = (self.answered.load(Acquire), Instant::now());
        while answered < question {
            if since.elapsed() >= longest {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
            let now = self.answered.load(Acquire);
            if now != answered {
                (answered, since) = (now, Instant::now());
            }
        }
        true
    }
}

impl Worker {
    /// Whether a reader waits for an answer.
    #[inline]
    pub(crate) fn is_asked_to_show(&self) -> bool {
        self.upkeep.viewer.asked.load(Relaxed) != self.upkeep.shown
    }

    /// Answers a few questions of readers.
    #[cold]
    pub(crate) fn show_some(&mut self) {
        let viewer = self.upkeep.viewer.clone();
        // A reader that is asking at this moment is heard in the next turn.
        let Ok(mut questions) = viewer.questions.try_lock() else { return };
        let some = questions.len().min(AT_ONCE);
        let some: Vec<Wanted> = questions.drain(..some).collect();
        drop(questions);
        for wanted in &some {
            self.write_board(*wanted);
        }
        self.upkeep.shown += some.len() as u64;
        viewer.answered.store(self.upkeep.shown, Release);
    }

    /// Writes one board. Says whether that was possible.
    pub(crate) fn write_board(&mut self, wanted: Wanted) -> bool {
        match wanted {
            Wanted::Instance(index) if self.instances.get(index).is_some() => {
                let account = self.account_of(index, None);
                self.instances[index].board.show(account)
            }
            Wanted::Port(index) => {
                self.ports.get(index).is_some_and(|node| node.board.show(account_of_node(node)))
            }
            Wanted::Instance(_) => false,
            Wanted::Worker => {
                let (time, relays) = (self.time.spent, self.counts_of_relays());
                self.upkeep.viewer.worker.show(WorkerPart { time, relays })
            }
        }
    }

    /// The board of an instance, with its account as it is now.
    pub(crate) fn board_of(&mut self, id: InstanceId) -> Arc<Board<InstanceAccount>> {
        self.write_board(Wanted::Instance(id.index()));
        self.instances[id.index()].board.clone()
    }

    /// The board of a port, with its account as it is now.
    pub(crate) fn board_of_port(&mut self, id: PortId) -> Arc<Board<PortAccount>> {
        self.write_board(Wanted::Port(id.index()));
        self.ports[id.index()].board.clone()
    }
}
