//! Work that takes longer than a request should: kept to be looked at, bounded, and done a few at a time.

use crate::settings::Limits;
use crate::time;
use api::{Difference, Operation, OperationState, Problem, ProblemType};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, watch};

/// All operations: those that are not ended, and the last that are.
pub(crate) struct Operations {
    /// In the order in which they were asked for.
    list: Mutex<VecDeque<Arc<watch::Sender<Operation>>>>,
    next: AtomicU64,
    /// Tells operations of this process from those of the one before it.
    start: u64,
    most: usize,
    kept: usize,
    pub at_once: Arc<Semaphore>,
    /// Of those that ask registries, so that one that hangs keeps nobody from compiling.
    pub asking_at_once: Arc<Semaphore>,
}

/// How many ask registries at once.
const ASKING_AT_ONCE: usize = 4;

impl Operations {
    pub fn new(limits: &Limits) -> Operations {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        Operations {
            list: Mutex::default(),
            next: AtomicU64::new(1),
            start,
            most: limits.operations,
            kept: limits.operations_kept,
            at_once: Arc::new(Semaphore::new(limits.operations_at_once.max(1))),
            asking_at_once: Arc::new(Semaphore::new(ASKING_AT_ONCE)),
        }
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<Arc<watch::Sender<Operation>>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new one, which waits.
    pub fn begin(&self, what: &str) -> Result<Arc<watch::Sender<Operation>>, Problem> {
        let mut list = self.list();
        if unended(&list) >= self.most {
            let what = format!("{} operations are not ended, which is as many as may be", self.most);
            return Err(Problem::new(ProblemType::Busy, what));
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let operation = Arc::new(watch::Sender::new(Operation {
            id: format!("{:x}-{number}", self.start),
            what: what.to_owned(),
            state: OperationState::Waiting,
            asked: time::now(),
            ended: None,
            difference: None,
            problem: None,
        }));
        list.push_back(operation.clone());
        let mut ended = list.len() - unended(&list);
        list.retain(|operation| {
            let forget = ended > self.kept && operation.borrow().ended.is_some();
            ended -= usize::from(forget);
            !forget
        });
        Ok(operation)
    }

    pub fn find(&self, id: &str) -> Option<Operation> {
        self.list()
            .iter()
            .find(|operation| operation.borrow().id == id)
            .map(|operation| operation.borrow().clone())
    }

    pub fn all(&self) -> Vec<Operation> {
        self.list().iter().map(|operation| operation.borrow().clone()).collect()
    }

    pub fn unended(&self) -> usize {
        unended(&self.list())
    }
}

fn unended(list: &VecDeque<Arc<watch::Sender<Operation>>>) -> usize {
    list.iter().filter(|operation| operation.borrow().ended.is_none()).count()
}

/// It is being worked on, by this in words.
pub(crate) fn runs(operation: &watch::Sender<Operation>, what: &str) {
    operation.send_modify(|operation| {
        operation.state = OperationState::Running;
        operation.what = what.to_owned();
    });
}

/// It is at its end.
pub(crate) fn ends(operation: &watch::Sender<Operation>, outcome: &Result<Difference, Problem>) {
    operation.send_modify(|operation| {
        operation.ended = Some(time::now());
        match outcome {
            Ok(difference) => {
                operation.state = OperationState::Done;
                operation.difference = Some(difference.clone());
            }
            Err(problem) => {
                operation.state = OperationState::Failed;
                operation.problem = Some(problem.clone());
            }
        }
    });
}
