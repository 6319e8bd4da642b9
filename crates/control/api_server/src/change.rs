//! A change, from what is wanted to what is done.
//!
//! 0. What a tenant may not change is refused; it is looked at again in steps 1 and 4. Images that are named
//!    by something that may come to mean something else are pinned to what they mean now. If a registry has
//!    to be asked, that is work too, and nothing else waits for it.
//! 1. The objects that are named are [claimed](crate::claims): changes of one object come one after the
//!    other. What there is, is read from the store, and the preconditions are compared with it.
//! 2. What is as it should be is left out. If nothing is left, that is the answer.
//! 3. The host prepares the rest: it checks it, opens and starts whatever it needs, and lets functions that
//!    change hand over to their successors. A function that would begin anew instead is refused unless the
//!    client allows it. Other changes go on meanwhile, and so do answers.
//! 4. From here on one change is made at a time. If the store or the host have changed since step 1, all is
//!    compared once more; where it comes to something else, everything begins anew.
//! 5. The store commits. If it cannot, what was prepared is dropped, functions that handed over are taken
//!    back, and nothing happened.
//! 6. The host carries out the rest of what it prepared, which cannot fail.
//!
//! When the host says in step 3 that it needs work first, the work is done as an operation, and everything
//! begins anew.

use crate::answer::faulty;
use crate::claims::{Claim, Claimed, Place};
use crate::compare::Compared;
use crate::control::{ObjectChange, Prepared, Refusal, ResolvedImages, Work};
use crate::operations::runs;
use crate::pin::{First, Pinned, functions, pin};
use crate::rights::Rights;
use crate::state::{Permit, State};
use crate::wanted::{Wanted, WantedObject};
use api::{Difference, Fault, Kind, Operation, Problem, ProblemType};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::{CommitError, Revision};
use telemetry::steps;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// From so many objects on, a change is made on a thread of its own, so that others are served meanwhile.
const LARGE: usize = 64;

/// How often one change may need more work; the host is broken if it needs more.
const ROUNDS: usize = 16;

/// How often a change is made ready anew because others changed what it is about.
const ATTEMPTS: usize = 8;

/// For how long a request waits for work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitLimit {
    Not,
    For(Duration),
}

/// How a change ended, or did not yet.
pub(crate) enum Outcome {
    Done(Difference),
    Later(Box<Operation>),
}

/// Is told once how a change ended.
type Told = Box<dyn FnOnce(Result<&Difference, &Problem>) + Send>;

/// What is to be told how a change ended: by the job that ends it, or by the request where there is none.
struct Ended(Mutex<Option<Told>>);

impl Ended {
    /// Tells it, unless it has been told.
    fn tell(&self, outcome: Result<&Difference, &Problem>) {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(told) = told {
            told(outcome);
        }
    }
}

/// How far a change came without waiting.
enum Begun {
    Done(Difference),
    Later(First),
    /// Another change of the same is under way.
    Waits(Arc<Pinned>),
    Ready(Arc<Pinned>, MadeReady),
}

/// What step 3 came to.
enum Ready {
    Prepared(Box<dyn Prepared>),
    Refused(Refusal),
}

enum Attempt {
    Done(Difference),
    Work(Work),
    /// A tenant's, to be carried out where workers do not wait for a thread of low priority.
    Ready(MadeReady),
}

/// What a tenant wants, prepared.
struct MadeReady {
    compared: Compared,
    prepared: Box<dyn Prepared>,
    claim: Claim,
}

/// Waits until the objects of a place are free.
async fn first(place: &Place, until: Instant) -> Result<(), Problem> {
    let late = |_| Problem::new(ProblemType::Busy, "other changes of the same take long");
    timeout_at(until, place.is_first()).await.map_err(late)
}

impl State {
    /// Makes a change; `ended` is told how it ended, also when the client does not wait any more. Where one
    /// job does all of it, that job writes its line of the audit log as well.
    pub async fn change(
        self: &Arc<State>,
        wanted: Wanted,
        limit: WaitLimit,
        ended: impl FnOnce(Result<&Difference, &Problem>) + Send + 'static,
    ) -> Result<Outcome, Problem> {
        let rights = wanted.rights.clone();
        let ended = Arc::new(Ended(Mutex::new(Some(Box::new(ended)))));
        let begun = self.begin(wanted, &ended).await;
        let begun = begun.and_then(|begun| match begun {
            Err(difference) => Ok(Err(difference)),
            Ok(first) => Ok(Ok((self.operations.begin(first.what(), &rights)?, first))),
        });
        let (operation, first) = match begun {
            Ok(Ok(operation)) => operation,
            Ok(Err(difference)) => {
                ended.tell(Ok(&difference));
                return Ok(Outcome::Done(difference));
            }
            Err(problem) => {
                ended.tell(Err(&problem));
                return Err(problem);
            }
        };
        let mut seen = operation.subscribe();
        let state = self.clone();
        // Not of the request: it goes on when the client leaves.
        tokio::spawn(async move {
            let outcome = state.work(first, &operation).await;
            ended.tell(outcome.as_ref());
            state.audit.wake();
            state.operations.end(&operation, &outcome);
        });
        if let WaitLimit::For(time) = limit {
            // A client that waits no longer gets the operation as it is then.
            let _ = timeout(time, seen.wait_for(|operation| operation.ended.is_some())).await;
        }
        let operation = seen.borrow().clone();
        match (operation.difference.clone(), operation.problem.clone()) {
            (Some(difference), _) => Ok(Outcome::Done(difference)),
            (None, Some(problem)) => Err(problem),
            (None, None) => Ok(Outcome::Later(Box::new(operation))),
        }
    }

    /// Does it, if that can be done at once; else, what has to be done first.
    async fn begin(
        self: &Arc<State>,
        wanted: Wanted,
        ended: &Arc<Ended>,
    ) -> Result<Result<First, Difference>, Problem> {
        let (rights, large) = (wanted.rights.clone(), self.takes_long(&wanted));
        let (timing, ended) = (wanted.timing.clone(), ended.clone());
        let wants_all = matches!(rights, Rights::All);
        let permit = self.permit(&rights).await?;
        let begun = self.work_within(&rights, permit, large, move |state| {
            let begun = state.begin_now(wanted);
            timing.measure(|| {
                match &begun {
                    Ok(Begun::Done(difference)) => ended.tell(Ok(difference)),
                    Err(problem) => ended.tell(Err(problem)),
                    Ok(Begun::Later(_) | Begun::Waits(_) | Begun::Ready(..)) => return,
                }
                // Others wait for the log: a thread of low priority does not write it.
                if wants_all {
                    state.audit.write_here();
                }
                steps::done("audit");
            });
            begun
        });
        let (begun, permit) = begun.await?;
        let (pinned, ready) = match begun? {
            Begun::Done(difference) => return Ok(Err(difference)),
            Begun::Later(first) => return Ok(Ok(first)),
            Begun::Waits(pinned) => (pinned, None),
            Begun::Ready(pinned, ready) => (pinned, Some((ready, permit))),
        };
        Ok(match self.attempt(&pinned, ready).await? {
            Whole::Work(work) => Ok(First::Work(pinned, work)),
            Whole::Done(difference) => Err(difference),
        })
    }

    fn begin_now(&self, mut wanted: Wanted) -> Result<Begun, Problem> {
        // Before anything is read or fetched for a client that has no right to it.
        self.admit(&wanted)?;
        self.read_again(&mut wanted);
        let asker = self.logins.asker(&wanted.rights);
        let resolved = self.control.resolve_images(&functions(&wanted), wanted.resolve, &asker);
        let pinned = match resolved.map_err(|refusal| self.refusal(&wanted, refusal))? {
            ResolvedImages::Now(images) => Arc::new(pin(wanted, images)),
            ResolvedImages::After(resolution) => {
                return Ok(Begun::Later(First::Resolve(wanted, resolution)));
            }
        };
        let began = pinned.wanted.timing.now();
        let of_tenant = pinned.wanted.rights.tenant().is_some();
        let Ok(claim) = self.claims.try_take(of_tenant, pinned.claimed()) else {
            return Ok(Begun::Waits(pinned));
        };
        pinned.wanted.timing.step("turn", began);
        Ok(match self.attempt_now(&pinned, claim)? {
            Attempt::Work(work) => Begun::Later(First::Work(pinned, work)),
            Attempt::Done(difference) => Begun::Done(difference),
            Attempt::Ready(ready) => Begun::Ready(pinned, ready),
        })
    }

    async fn work(
        self: &Arc<State>,
        first: First,
        operation: &watch::Sender<Operation>,
    ) -> Result<Difference, Problem> {
        let ends = || Problem::new(ProblemType::Busy, "the daemon ends");
        let (wanted, mut work) = match first {
            First::Work(wanted, work) => (wanted, work),
            First::Resolve(wanted, resolution) => {
                let permits = self.operations.registry_permits(&wanted.rights);
                let turn = permits.acquire_owned().await.map_err(|_| ends())?;
                runs(operation, &resolution.what);
                let began = wanted.timing.now();
                let images = self.long(&wanted.rights, resolution.run).await?;
                wanted.timing.step("fetch", began);
                drop(turn);
                let images = images.map_err(|refusal| self.refusal(&wanted, refusal))?;
                let wanted = Arc::new(pin(wanted, images));
                match self.attempt(&wanted, None).await? {
                    Whole::Done(difference) => return Ok(difference),
                    Whole::Work(work) => (wanted, work),
                }
            }
        };
        for _ in 0..ROUNDS {
            let permits = self.operations.compile_permits(&wanted.wanted.rights);
            let turn = permits.acquire_owned().await.map_err(|_| ends())?;
            runs(operation, &work.what);
            let began = wanted.wanted.timing.now();
            let done = self.long(&wanted.wanted.rights, work.run).await?;
            wanted.wanted.timing.step("compile", began);
            drop(turn);
            done.map_err(|refusal| self.refusal(&wanted.wanted, refusal))?;
            match self.attempt(&wanted, None).await? {
                Whole::Done(difference) => return Ok(difference),
                Whole::Work(more) => work = more,
            }
        }
        Err(Problem::new(
            ProblemType::Internal,
            format!("{} again and again, and nothing is done", work.what),
        ))
    }

    /// Does what takes long and is mostly waited for, a tenant's in its turn.
    async fn long<R: Send + 'static>(
        self: &Arc<State>,
        rights: &Rights,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Problem> {
        if rights.tenant().is_some() {
            return self.in_turn(rights, self.limits.longest_wait, move |_| work()).await;
        }
        let broken = |error: tokio::task::JoinError| Problem::new(ProblemType::Internal, error.to_string());
        tokio::task::spawn_blocking(work).await.map_err(broken)
    }

    /// Steps 1 to 6, a tenant's in as many jobs as it needs; it may be `ready` from before.
    async fn attempt(
        self: &Arc<State>,
        pinned: &Arc<Pinned>,
        mut ready: Option<(MadeReady, Permit)>,
    ) -> Result<Whole, Problem> {
        let wanted = &pinned.wanted;
        for _ in 0..ATTEMPTS {
            let (made, permit) = match ready.take() {
                Some(ready) => ready,
                None => match self.attempt_alone(pinned).await? {
                    (Attempt::Done(difference), _) => return Ok(Whole::Done(difference)),
                    (Attempt::Work(work), _) => return Ok(Whole::Work(work)),
                    (Attempt::Ready(made), permit) => (made, permit),
                },
            };
            let pinned = pinned.clone();
            let finish = move |state: &State| {
                let MadeReady { compared, prepared, claim } = made;
                let Pinned { wanted, images } = &*pinned;
                let done = wanted.timing.measure(|| state.finish_now(wanted, images, compared, prepared));
                drop(claim);
                done
            };
            if let Some(difference) = self.promptly_within(&wanted.rights, permit, true, finish).await?? {
                return Ok(Whole::Done(difference));
            }
        }
        Err(overtaken())
    }

    /// Steps 1 to 6 while nothing else changes any of it, of a tenant's as far as it prepares. The objects
    /// are claimed where the tenant's turn has come: until then they would be kept from an administrator.
    async fn attempt_alone(self: &Arc<State>, pinned: &Arc<Pinned>) -> Result<(Attempt, Permit), Problem> {
        let wanted = &pinned.wanted;
        let (began, large) = (wanted.timing.now(), self.takes_long(wanted));
        let until = Instant::now() + self.limits.body_time;
        let mut place = self.stand(&wanted.rights, pinned.claimed());
        loop {
            first(&place, until).await?;
            let permit = self.permit(&wanted.rights).await?;
            let theirs = pinned.clone();
            let attempt = move |state: &State| {
                place.take().map(|claim| {
                    theirs.wanted.timing.step("turn", began);
                    state.attempt_now(&theirs, claim)
                })
            };
            let (attempted, permit) = self.work_within(&wanted.rights, permit, large, attempt).await?;
            match attempted {
                Ok(attempt) => return Ok((attempt?, permit)),
                Err(again) => place = again,
            }
        }
    }

    fn attempt_now(&self, pinned: &Pinned, claim: Claim) -> Result<Attempt, Problem> {
        let Pinned { wanted, images } = pinned;
        wanted.timing.measure(|| self.change_now(wanted, images, claim))
    }

    fn stand(&self, rights: &Rights, wanted: impl IntoIterator<Item = Claimed>) -> Place {
        self.claims.stand(rights.tenant().is_some(), wanted)
    }

    /// Waits until nothing else changes any of it, and a tenant's turn has come.
    pub async fn claim_when_due(
        self: &Arc<State>,
        rights: &Rights,
        wanted: impl IntoIterator<Item = Claimed>,
    ) -> Result<(Claim, Permit), Problem> {
        let until = Instant::now() + self.limits.body_time;
        let mut place = self.stand(rights, wanted);
        loop {
            first(&place, until).await?;
            let permit = self.due(rights).await?;
            match place.take() {
                Ok(claim) => return Ok((claim, permit)),
                Err(again) => place = again,
            }
        }
    }

    /// Steps 1 to 6, of a tenant's as far as it prepares; what is changed is claimed.
    fn change_now(
        &self,
        wanted: &Wanted,
        images: &BTreeMap<String, String>,
        claim: Claim,
    ) -> Result<Attempt, Problem> {
        let mut refused_before = false;
        for _ in 0..ATTEMPTS {
            let mut compared = self.compared(wanted, images)?;
            steps::done("compare");
            if compared.changes.is_empty() {
                return Ok(Attempt::Done(compared.difference));
            }
            let mut prepared = match self.made_ready(wanted, &compared) {
                Ok(Ready::Prepared(prepared)) => prepared,
                Ok(Ready::Refused(Refusal::Work(work))) => return Ok(Attempt::Work(work)),
                // It may be refused for what another change has just taken away.
                Ok(Ready::Refused(_)) if !refused_before && self.has_changed(&compared) => {
                    refused_before = true;
                    continue;
                }
                Ok(Ready::Refused(refusal)) => return Err(self.refusal(wanted, refusal)),
                Err(problem) => return Err(problem),
            };
            if wanted.dry_run {
                let restarted = self.shown_functions(&wanted.rights, prepared.would_restart());
                compared.difference.restarted = restarted;
                return Ok(Attempt::Done(compared.difference));
            }
            if wanted.rights.tenant().is_some() {
                return Ok(Attempt::Ready(MadeReady { compared, prepared, claim }));
            }
            let difference = match prepared.hand_over(wanted.allow_restart) {
                Ok(()) => self.carry_out(wanted, images, compared, prepared)?,
                Err(_) if !refused_before && self.has_changed(&compared) => {
                    refused_before = true;
                    None
                }
                Err(refusal) => return Err(self.refusal(wanted, refusal)),
            };
            if let Some(difference) = difference {
                return Ok(Attempt::Done(difference));
            }
        }
        Err(overtaken())
    }

    /// Step 3; nothing is handed over yet.
    fn made_ready(&self, wanted: &Wanted, compared: &Compared) -> Result<Ready, Problem> {
        let prepared = match wanted.dry_run {
            true => self.control.try_out(&compared.changes),
            false => self.control.prepare(&compared.changes),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => return Ok(Ready::Refused(refusal)),
        };
        steps::done("prepare");
        if !wanted.dry_run && !wanted.allow_restart {
            let faults: Vec<Fault> = begin_anew(&compared.changes, &prepared.restarted()).collect();
            if !faults.is_empty() {
                return Err(faulty(ProblemType::Conflict, faults));
            }
        }
        Ok(Ready::Prepared(prepared))
    }

    /// The end of step 3, for moments of which workers stand still, and steps 4 to 6, of a tenant's; `None`
    /// if everything is to begin anew.
    fn finish_now(
        &self,
        wanted: &Wanted,
        images: &BTreeMap<String, String>,
        compared: Compared,
        mut prepared: Box<dyn Prepared>,
    ) -> Result<Option<Difference>, Problem> {
        match prepared.hand_over(wanted.allow_restart) {
            Ok(()) => self.carry_out(wanted, images, compared, prepared),
            // It may be refused for what another change has just taken away.
            Err(_) if self.has_changed(&compared) => Ok(None),
            Err(refusal) => Err(self.refusal(wanted, refusal)),
        }
    }

    /// Whether anything has been committed since.
    fn has_changed(&self, compared: &Compared) -> bool {
        self.store.revision().0 != compared.difference.revision
    }

    /// Steps 4 to 6; `None` if everything is to begin anew. Functions that have handed over are taken back
    /// then, when what was prepared is dropped.
    fn carry_out(
        &self,
        wanted: &Wanted,
        images: &BTreeMap<String, String>,
        compared: Compared,
        mut prepared: Box<dyn Prepared>,
    ) -> Result<Option<Difference>, Problem> {
        let _turn = self.turn();
        let Some(Compared { mut difference, changes, writes }) = self.again(wanted, images, compared)? else {
            return Ok(None);
        };
        if !prepared.fits().map_err(|refused| self.refusal(wanted, refused))? {
            return Ok(None);
        }
        difference.restarted = self.shown_functions(&wanted.rights, prepared.restarted());
        let revision = self.commit(&writes, &changes).map_err(|error| not_committed(&error))?;
        steps::done("commit");
        prepared.carry_out();
        steps::done("finish");
        difference.revision = revision;
        Ok(Some(difference))
    }

    /// What there was to do, if nothing else has changed that; `None` if it is something else now. The caller
    /// has the turn.
    fn again(
        &self,
        wanted: &Wanted,
        images: &BTreeMap<String, String>,
        before: Compared,
    ) -> Result<Option<Compared>, Problem> {
        self.tokens.hold(&wanted.rights)?;
        if !self.has_changed(&before) {
            return Ok(Some(before));
        }
        let now = self.compared(wanted, images)?;
        Ok((now.changes == before.changes).then_some(now))
    }

    /// Whether a change may take longer than others are to wait for it: it is large, or concerns what runs.
    fn takes_long(&self, wanted: &Wanted) -> bool {
        let concerns_what_runs = |object: &WantedObject| {
            // The guards of devices hand over when groups and devices change.
            let runs = matches!(
                object.id.kind,
                Kind::Function | Kind::Tenant | Kind::Workers | Kind::Group | Kind::Device
            );
            object.spec.is_some()
                && runs
                && self.store.read(object.id.kind.as_str(), &object.id.name).is_some()
        };
        wanted.objects.len() >= LARGE || wanted.prune || wanted.objects.iter().any(concerns_what_runs)
    }

    /// Waits until a revision is on disk.
    pub async fn durable(&self, revision: u64) -> Result<(), Problem> {
        let (tell, told) = tokio::sync::oneshot::channel();
        self.store.when_durable(Revision(revision), move |durable| {
            // A client that no longer waits needs no answer.
            let _ = tell.send(durable);
        });
        match told.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Problem::new(ProblemType::NotDurable, error.to_string())),
            Err(_) => Err(Problem::new(ProblemType::NotDurable, "the store ends")),
        }
    }
}

/// How far a change came that is not in the middle of anything.
enum Whole {
    Done(Difference),
    Work(Work),
}

fn overtaken() -> Problem {
    Problem::new(ProblemType::Busy, "other changes of the same came in between, again and again; try again")
}

/// A fault for each function that would begin anew without leave. A function that is restored has been told
/// to.
fn begin_anew<'a>(changes: &'a [ObjectChange], anew: &'a [String]) -> impl Iterator<Item = Fault> + 'a {
    let restored =
        |name: &String| changes.iter().any(|change| &change.name == name && change.snapshot.is_some());
    anew.iter().filter(move |name| !restored(name)).map(|name| {
        Fault::new(
            format!("functions.{name}"),
            "it would begin anew and lose what it knows; allowed: with `allow_restart=true` (`--allow-restart`)",
        )
    })
}

pub(crate) fn not_committed(error: &CommitError) -> Problem {
    let of = match error {
        CommitError::DiskFull(_) | CommitError::TooLarge { .. } => ProblemType::NoRoom,
        CommitError::Size { .. } => ProblemType::Invalid,
        CommitError::Conflict { .. } | CommitError::Twice { .. } => ProblemType::Conflict,
        CommitError::Write(_) | CommitError::Removed(_) | CommitError::NotDurable(_) => ProblemType::Internal,
    };
    Problem::new(of, error.to_string())
}
