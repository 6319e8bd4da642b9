//! Work that takes longer than a request should: kept to be looked at, bounded, and done a few at a time.

use crate::control::ObjectChange;
use crate::rights::Rights;
use crate::settings::Limits;
use crate::tenancy::deleted_tenants;
use crate::tenant_permits::TenantPermits;
use crate::time;
use api::{Difference, Name, ObjectName, Operation, OperationState, Problem, ProblemType};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, watch};

/// All operations: those that are not ended, and of administrators and each tenant the last that are.
pub(crate) struct Operations {
    /// In the order in which they were asked for or, where they are ended, in which they ended.
    list: Mutex<VecDeque<Begun>>,
    next: AtomicU64,
    /// Tells operations of this process from those of the one before it.
    start: u64,
    most: usize,
    most_of_tenant: usize,
    kept: usize,
    /// Of each tenant, and bytes.
    kept_of_tenant: (usize, usize),
    /// Of administrators, for what is compiled, and for registries that are asked: one that hangs keeps
    /// nothing from being compiled.
    at_once: Arc<Semaphore>,
    asking_at_once: Arc<Semaphore>,
    /// The same of each tenant.
    tenants: TenantPermits,
    tenants_asking: TenantPermits,
}

/// An operation, and the tenant by whose token it was begun.
#[derive(Clone)]
struct Begun {
    /// Counted as they are asked for.
    number: u64,
    operation: Arc<watch::Sender<Operation>>,
    tenant: Option<String>,
}

impl Begun {
    fn is_unended(&self) -> bool {
        self.operation.borrow().ended.is_none()
    }

    fn is_shown(&self, rights: &Rights) -> bool {
        rights.tenant().is_none_or(|tenant| self.tenant.as_deref() == Some(tenant))
    }
}

/// How many ask registries at once, of administrators and of each tenant.
const ASKING_AT_ONCE: (usize, usize) = (4, 1);
/// Images that are compiled at once for each tenant.
const TENANTS_AT_ONCE: usize = 1;

impl Operations {
    pub fn new(limits: &Limits) -> Operations {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        Operations {
            list: Mutex::default(),
            next: AtomicU64::new(1),
            start,
            most: limits.operations,
            most_of_tenant: limits.tenant_operations,
            kept: limits.operations_kept,
            kept_of_tenant: (limits.tenant_operations_kept, limits.tenant_operations_bytes),
            at_once: Arc::new(Semaphore::new(limits.operations_at_once.max(1))),
            asking_at_once: Arc::new(Semaphore::new(ASKING_AT_ONCE.0)),
            tenants: TenantPermits::new(TENANTS_AT_ONCE),
            tenants_asking: TenantPermits::new(ASKING_AT_ONCE.1),
        }
    }

    /// Permits to compile: a tenant has its own.
    pub fn compile_permits(&self, rights: &Rights) -> Arc<Semaphore> {
        rights.tenant().map_or_else(|| self.at_once.clone(), |tenant| self.tenants.of(tenant))
    }

    /// Permits to ask a registry: a tenant has its own.
    pub fn registry_permits(&self, rights: &Rights) -> Arc<Semaphore> {
        rights.tenant().map_or_else(|| self.asking_at_once.clone(), |tenant| self.tenants_asking.of(tenant))
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<Begun>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new one, which waits.
    pub fn begin(&self, what: &str, rights: &Rights) -> Result<Arc<watch::Sender<Operation>>, Problem> {
        let tenant = rights.tenant().map(str::to_owned);
        let mut list = self.list();
        let full = |number: usize, whose: &str| {
            let what = format!("{number} operations{whose} are not ended, which is as many as may be");
            Err(Problem::new(ProblemType::Busy, what))
        };
        let unended = || list.iter().filter(|begun| begun.is_unended());
        if unended().count() >= self.most {
            return full(self.most, "");
        }
        if tenant.is_some() {
            if unended().filter(|begun| begun.tenant == tenant).count() >= self.most_of_tenant {
                return full(self.most_of_tenant, " of the tenant");
            }
            // Administrators have room, whatever tenants do.
            if unended().filter(|begun| begun.tenant.is_some()).count() >= self.most.div_ceil(2) {
                return full(self.most.div_ceil(2), " of tenants");
            }
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
        list.push_back(Begun { number, operation: operation.clone(), tenant });
        self.forget_oldest(&mut list, rights.tenant());
        Ok(operation)
    }

    /// An operation is at its end. Outcomes are forgotten in the order in which they came: one that took long
    /// is there to be asked for, however many that were begun after it ended before it.
    pub fn end(&self, operation: &Arc<watch::Sender<Operation>>, outcome: &Result<Difference, Problem>) {
        let mut list = self.list();
        let at = list.iter().position(|begun| Arc::ptr_eq(&begun.operation, operation));
        if let Some(begun) = at.and_then(|at| list.remove(at)) {
            list.push_back(begun);
        }
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

    /// Forgets the outcomes of a tenant, or of administrators, that are more than are kept, the oldest first.
    /// What others asked for stays.
    fn forget_oldest(&self, list: &mut VecDeque<Begun>, tenant: Option<&str>) {
        let (most, most_bytes) = match tenant {
            None => (self.kept, usize::MAX),
            Some(_) => self.kept_of_tenant,
        };
        let is_theirs = |begun: &Begun| begun.tenant.as_deref() == tenant && !begun.is_unended();
        let (mut kept, mut bytes) = (0, 0);
        let mut oldest = 0;
        for (at, begun) in list.iter().enumerate().rev().filter(|(_, begun)| is_theirs(begun)) {
            bytes += size(&begun.operation.borrow());
            // The last one is there to be looked at, whatever its size.
            if kept > 0 && (kept >= most || bytes > most_bytes) {
                oldest = at + 1;
                break;
            }
            kept += 1;
        }
        let mut at = 0;
        list.retain(|begun| {
            at += 1;
            at > oldest || !is_theirs(begun)
        });
    }

    /// The tenants are deleted: what they asked for is not the next one's of that name.
    pub fn forget_gone(&self, changes: &[ObjectChange]) {
        for tenant in deleted_tenants(changes) {
            self.list().retain(|begun| begun.is_unended() || begun.tenant.as_deref() != Some(tenant));
        }
    }

    pub fn find(&self, id: &Name, rights: &Rights) -> Option<Operation> {
        let list = self.list();
        let found = list.iter().find(|begun| begun.is_shown(rights) && *id == *begun.operation.borrow().id);
        found.map(|begun| begun.operation.borrow().clone())
    }

    /// All that a client is shown, in the order in which they were asked for: a tenant those of its tokens.
    pub fn all(&self, rights: &Rights) -> Vec<Operation> {
        let mut shown: Vec<Begun> =
            self.list().iter().filter(|begun| begun.is_shown(rights)).cloned().collect();
        shown.sort_by_key(|begun| begun.number);
        shown.iter().map(|begun| begun.operation.borrow().clone()).collect()
    }

    pub fn unended(&self) -> usize {
        self.list().iter().filter(|begun| begun.is_unended()).count()
    }
}

/// Bytes of an operation, about.
fn size(operation: &Operation) -> usize {
    let names = |list: &[ObjectName]| list.iter().map(|id| id.name.len() + 32).sum::<usize>();
    let difference = operation.difference.as_ref().map_or(0, |difference| {
        let Difference { created, changed, unchanged, deleted, restarted, images, .. } = difference;
        [created, changed, unchanged, deleted].into_iter().map(|list| names(list)).sum::<usize>()
            + restarted.iter().map(|name| name.len() + 24).sum::<usize>()
            + images.iter().map(|(name, image)| name.len() + image.len() + 48).sum::<usize>()
    });
    let problem = operation.problem.as_ref().map_or(0, |problem| {
        let faults = problem.faults.iter().map(|fault| fault.at.len() + fault.message.len() + 64);
        problem.detail.len() + faults.sum::<usize>()
    });
    operation.what.len() + difference + problem + 256
}

/// It is being worked on, by this in words.
pub(crate) fn runs(operation: &watch::Sender<Operation>, what: &str) {
    operation.send_modify(|operation| {
        operation.state = OperationState::Running;
        operation.what = what.to_owned();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::rights_of as tenant;
    use api::Kind;

    fn ended(operations: &Operations, rights: &Rights, names: usize) -> Name {
        let operation = operations.begin("compiling", rights).expect("room");
        let created = (0..names).map(|n| ObjectName::new(Kind::Function, format!("f{n}"))).collect();
        operations.end(&operation, &Ok(Difference { created, ..Difference::default() }));
        let id = operation.borrow().id.clone();
        Name::new(id).expect("a name")
    }

    #[test]
    fn what_took_long_is_there_when_it_ends_whatever_was_begun_and_ended_meanwhile() {
        let operations = Operations::new(&Limits::default());
        for rights in [Rights::All, tenant("red")] {
            let slow = operations.begin("compiling", &rights).expect("room");
            (0..1000).for_each(|_| drop(ended(&operations, &rights, 1)));
            operations.end(&slow, &Ok(Difference::default()));
            ended(&operations, &rights, 1);
            let id = Name::new(slow.borrow().id.clone()).expect("a name");
            let found = operations.find(&id, &rights).expect("it is the last outcome but one");
            assert!(found.ended.is_some());
            // It was asked for before all that are still there.
            assert_eq!(operations.all(&rights)[0].id, found.id);
        }
    }

    #[test]
    fn what_one_tenant_asks_for_pushes_out_nothing_of_others_and_has_a_bound_in_bytes() {
        let operations = Operations::new(&Limits::default());
        let (red, blue, all) = (tenant("red"), tenant("blue"), Rights::All);
        let [theirs, ours] = [&blue, &all].map(|rights| ended(&operations, rights, 1));
        (0..1000).for_each(|_| drop(ended(&operations, &red, 1)));
        assert!(operations.find(&theirs, &blue).is_some() && operations.find(&ours, &all).is_some());
        // One is begun after those that are kept.
        assert_eq!(operations.all(&red).len(), Limits::default().tenant_operations_kept + 1);
        let last = ended(&operations, &red, 100_000);
        assert!(operations.find(&last, &red).is_some(), "the last one is there to be looked at");
        let _unended = operations.begin("compiling", &red).expect("room");
        (0..3).for_each(|_| drop(ended(&operations, &red, 100_000)));
        // Each of them is more than the bound: the last one, and the one before it until the next is begun.
        let ended = operations.all(&red).iter().filter(|one| one.ended.is_some()).count();
        assert_eq!((ended, operations.all(&red).len()), (2, 3), "ended ones, and with the one that is not");
        let gone = ObjectChange {
            kind: Kind::Tenant,
            name: "blue".to_owned(),
            spec: None,
            paused: false,
            snapshot: None,
        };
        operations.forget_gone(&[gone]);
        assert!(operations.all(&blue).is_empty() && operations.find(&ours, &all).is_some());
    }
}
