//! What all requests share.

use crate::audit_queue::AuditQueue;
use crate::body::{room, units};
use crate::claims::Claims;
use crate::connection_groups::ConnectionGroups;
use crate::control::Control;
use crate::counts::Counts;
use crate::leader_followers::LeaderFollowers;
use crate::logins::Logins;
use crate::notices::Notices;
use crate::operations::Operations;
use crate::owners::Owners;
use crate::page::Page;
use crate::past::Past;
use crate::rights::Rights;
use crate::settings::{Limits, Settings};
use crate::spare::Spare;
use crate::tenant_permits::TenantPermits;
use crate::tokens::Tokens;
use api::{ObjectName, Problem, ProblemType};
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{Store, Subscription};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::timeout;

/// Bytes of a body, or of a stored object, up to which an administrator's is read on the thread that answers
/// without a job of its own.
pub(crate) const SMALL: usize = 16 << 10;

/// Requests of a tenant that are worked on at a time.
const TENANTS_THREADS: usize = 2;

/// Requests of readers of the host that take a thread, at a time. Tenants take none of them.
const READERS_THREADS: usize = 2;

/// One of the threads that a tenant has, or readers of the host share; administrators need none.
pub(crate) struct Permit(
    #[allow(dead_code, reason = "given back when it is dropped")] Option<OwnedSemaphorePermit>,
);

fn broken() -> Problem {
    Problem::new(ProblemType::Internal, "a thread of the daemon broke")
}

/// What all requests share.
pub(crate) struct State {
    pub store: Arc<Store>,
    pub control: Arc<dyn Control>,
    /// Held while a change that has been made ready is committed and carried out.
    changing: Mutex<()>,
    pub claims: Claims,
    /// The threads that answer, one at a time.
    pub threads: Arc<LeaderFollowers>,
    pub connections: Arc<ConnectionGroups>,
    pub spare: Spare,
    /// What each tenant has at a time.
    tenants_threads: TenantPermits,
    /// Those of readers of the host, together.
    readers_threads: Arc<Semaphore>,
    pub notices: Notices,
    pub operations: Operations,
    pub audit: AuditQueue,
    pub counts: Counts,
    pub bodies: Arc<Semaphore>,
    /// Of each tenant.
    pub tenants_bodies: TenantPermits,
    /// For answers that are not read yet: of each tenant, and of readers of the host together.
    pub tenants_answers: TenantPermits,
    pub readers_answers: Arc<Semaphore>,
    /// Of readers of the host, whose requests have none: what they send all the same takes nothing of the
    /// others' room.
    pub readers_bodies: Arc<Semaphore>,
    pub tokens: Tokens,
    pub owners: Arc<Owners>,
    /// What happened in the last hour.
    pub past: Arc<Past>,
    pub logins: Logins,
    /// What browsers are given, if the page is served.
    pub page: Option<Page>,
    pub limits: Limits,
    pub version: String,
    pub started: String,
    pub openapi: Bytes,
    /// What is told of calls and their steps.
    pub spans: Option<trace_export::Exporter>,
    /// The last revision, for clients that follow.
    pub revision: watch::Sender<u64>,
    /// True when the server ends: streams do then, too.
    pub ending: watch::Sender<bool>,
    _told: Subscription,
}

impl State {
    pub fn new(
        store: Arc<Store>,
        control: Arc<dyn Control>,
        settings: &Settings,
        audit: AuditQueue,
        spans: Option<trace_export::Exporter>,
        (tokens, owners, logins): (Tokens, Owners, Logins),
        page: Option<Page>,
    ) -> State {
        let revision = watch::Sender::new(store.revision().0);
        let told = {
            let revision = revision.clone();
            store.subscribe(move |committed| {
                revision.send_if_modified(|last| {
                    let newer = committed.0 > *last;
                    *last = committed.0.max(*last);
                    newer
                });
            })
        };
        let owners = Arc::new(owners);
        let past = Arc::new(Past::new(owners.clone()));
        State {
            store,
            control,
            changing: Mutex::default(),
            claims: Claims::default(),
            threads: Arc::default(),
            connections: Arc::new(ConnectionGroups::new(&settings.limits)),
            spare: Spare::new(),
            tenants_threads: TenantPermits::new(TENANTS_THREADS),
            readers_threads: Arc::new(Semaphore::new(READERS_THREADS)),
            notices: Notices::keeping(past.clone()),
            operations: Operations::new(&settings.limits),
            audit,
            counts: Counts::default(),
            bodies: Arc::new(Semaphore::new(room(settings.limits.all_bodies_bytes, &settings.limits))),
            tenants_bodies: TenantPermits::new(room(settings.limits.tenant_bodies_bytes, &settings.limits)),
            tenants_answers: TenantPermits::new(units(settings.limits.tenant_answers_bytes)),
            readers_answers: Arc::new(Semaphore::new(units(settings.limits.readers_answers_bytes))),
            readers_bodies: Arc::new(Semaphore::new(room(0, &settings.limits))),
            tokens,
            owners,
            past,
            logins,
            page,
            limits: settings.limits.clone(),
            version: settings.version.clone(),
            started: crate::time::now(),
            spans,
            openapi: Bytes::from(crate::openapi::document().to_string()),
            revision,
            ending: watch::Sender::new(false),
            _told: told,
        }
    }

    /// Waits until no other change is being committed. That is short: nothing is started, read or fetched
    /// meanwhile.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread that answers, for short jobs of administrators; other clients' are never done there.
    pub fn leader_of(&self, rights: &Rights) -> Option<&LeaderFollowers> {
        matches!(rights, Rights::All).then_some(&*self.threads)
    }

    /// Looks at something of about so many bytes: at once for an administrator if it is small, else as
    /// [`work_on`](State::work_on) does it. What is large takes milliseconds to be read, written and dropped,
    /// and nothing relieves the thread that answers within code of a request.
    ///
    /// # Errors
    /// Those of [`work_on`](State::work_on).
    pub async fn look<R: Send + 'static>(
        self: &Arc<State>,
        rights: &Rights,
        bytes: usize,
        job: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, Problem> {
        match rights {
            Rights::All if bytes <= SMALL => Ok(job(self)),
            _ => self.work_on(rights, bytes > SMALL, job).await,
        }
    }

    /// The same at an object as it is stored.
    pub async fn look_at<R: Send + 'static>(
        self: &Arc<State>,
        rights: &Rights,
        id: &ObjectName,
        job: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, Problem> {
        self.look(rights, self.stored_bytes(id), job).await
    }

    /// Bytes of an object as it is stored.
    pub fn stored_bytes(&self, id: &ObjectName) -> usize {
        self.store.read(id.kind.as_str(), &id.name).map_or(0, |object| object.value.len())
    }

    /// Does what may take its time where no other request waits for it: an administrator's small job on the
    /// thread that answers, which is relieved if it takes long, a large one on a thread of its own, a
    /// tenant's in the tenant's turn at a low priority ([`Control::aside`]), and a reader's on one of the
    /// threads that readers of the host share. It must not stop workers, nor hold what others wait for: that
    /// is for [`promptly`](State::promptly).
    ///
    /// # Errors
    /// The job broke, or the tenant's threads are busy for too long.
    pub async fn work_on<R: Send + 'static>(
        self: &Arc<State>,
        rights: &Rights,
        large: bool,
        job: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, Problem> {
        let permit = self.permit(rights).await?;
        self.work_within(rights, permit, large, job).await.map(|(done, _)| done)
    }

    /// The same on one of the client's threads, which it has then for what comes next.
    ///
    /// # Errors
    /// Those of [`work_on`](State::work_on).
    pub async fn work_within<R: Send + 'static>(
        self: &Arc<State>,
        rights: &Rights,
        permit: Permit,
        large: bool,
        job: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<(R, Permit), Problem> {
        let state = self.clone();
        // A client that leaves gives its thread up when the job is done.
        let job = move |state: &State| (job(state), permit);
        match rights {
            Rights::All if !large => self.threads.run_on_leader(move || job(&state)).await.ok_or_else(broken),
            Rights::Of(_) => self.in_turn(rights, self.limits.body_time, job).await,
            Rights::All | Rights::Reader(_) => {
                tokio::task::spawn_blocking(move || job(&state)).await.map_err(|_| broken())
            }
        }
    }

    /// Does something short that others may wait for, because workers stand still meanwhile, or changes do:
    /// on a thread of its own at the usual priority. A tenant's comes in the tenant's turn, and is charged to
    /// it.
    ///
    /// # Errors
    /// Those of [`work_on`](State::work_on).
    pub async fn promptly<R: Send + 'static>(
        self: &Arc<State>,
        rights: &Rights,
        job: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, Problem> {
        let permit = self.due(rights).await?;
        self.promptly_within(rights, permit, true, job).await
    }

    /// Waits for one of the client's threads, and until a tenant's turn comes.
    ///
    /// # Errors
    /// They do not come in time.
    pub async fn due(self: &Arc<State>, rights: &Rights) -> Result<Permit, Problem> {
        let permit = self.permit(rights).await?;
        match rights.tenant() {
            Some(_) => self.in_turn(rights, self.limits.body_time, |_| permit).await,
            None => Ok(permit),
        }
    }

    /// The same as [`promptly`](State::promptly) at once, for what has come in its turn. An administrator's
    /// is done on the thread that answers unless it is `large`, see [`work_on`](State::work_on).
    ///
    /// # Errors
    /// The job broke.
    pub async fn promptly_within<R: Send + 'static>(
        self: &Arc<State>,
        rights: &Rights,
        permit: Permit,
        large: bool,
        job: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, Problem> {
        let Some(tenant) = rights.tenant().map(str::to_owned) else {
            return self.work_within(rights, permit, large, job).await.map(|(done, _)| done);
        };
        let state = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let mut done = None;
            state.control.in_account(&tenant, Box::new(|| done = Some(job(&state))));
            drop(permit);
            done
        });
        done.await.ok().flatten().ok_or_else(broken)
    }

    /// Waits for one of the threads that a tenant has, or readers of the host.
    ///
    /// # Errors
    /// None is free in time.
    pub async fn permit(&self, rights: &Rights) -> Result<Permit, Problem> {
        let (permits, why) = match rights {
            Rights::All => return Ok(Permit(None)),
            Rights::Of(_) => {
                let tenant = rights.tenant().unwrap_or_default();
                (self.tenants_threads.of(tenant), "other requests of the tenant take long")
            }
            Rights::Reader(_) => (self.readers_threads.clone(), "other readers of the host read much"),
        };
        let late = |_| Problem::new(ProblemType::Busy, why);
        let permit = timeout(self.limits.body_time, permits.acquire_owned()).await.map_err(late)?;
        permit
            .map(|permit| Permit(Some(permit)))
            .map_err(|_| Problem::new(ProblemType::Busy, "the daemon ends"))
    }

    /// Does a tenant's job in the tenant's turn. One that has not begun when the client leaves, or within
    /// `limit`, is not done.
    ///
    /// # Errors
    /// The job broke, or did not come to its turn.
    pub async fn in_turn<R: Send + 'static>(
        self: &Arc<State>,
        rights: &Rights,
        limit: Duration,
        job: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, Problem> {
        let (state, tenant) = (self.clone(), rights.tenant().unwrap_or_default().to_owned());
        let ((begins, begun), (tell, told)) = (oneshot::channel(), oneshot::channel());
        let job = move || {
            if begins.send(()).is_ok() {
                // A client that has left takes no answer.
                let _ = tell.send(job(&state));
            }
        };
        self.control.aside(&tenant, Box::new(job)).map_err(|refusal| self.refused(rights, refusal))?;
        let late = "the tenant has used up its share of processor time for requests; try it again later";
        match timeout(limit, begun).await {
            Ok(Ok(())) => told.await.map_err(|_| broken()),
            _ => Err(Problem::new(ProblemType::Busy, late)),
        }
    }
}
