//! What of a refusal a tenant is told.
//!
//! 1. [`Refusal::told_to_tenant`] says it for each kind of refusal; a new kind has to be entered there.
//! 2. A fault says what its words were made from ([`FaultSource`]). Those of the request, and of one object
//!    of the tenant's, are told.
//! 3. Faults that a look at all objects found are not told.
//!    [`Control::own_faults`](crate::Control::own_faults) looks at the change again with the tenant's objects
//!    alone, and what it finds is told in their place: it knows nothing of other tenants.
//! 4. Where that leaves something out, one line says so, the same whatever was left out.
//!
//! Administrators are told everything.

use crate::answer::{faulty, refused};
use crate::control::{ObjectChange, Refusal};
use crate::rights::Rights;
use crate::state::State;
use crate::wanted::Wanted;
use api::{Fault, FaultSource, ObjectName, Problem, ProblemType};
use std::collections::BTreeSet;

/// What stands for faults that a tenant is not told.
const LEFT_OUT: &str =
    "it does not go with what is not the tenant's: something there needs what is to change, or is in its way";

/// What of a refusal a tenant is told.
enum Told {
    /// These words: they are about what the request names, which was the tenant's to name.
    Words(ProblemType, String),
    /// Of faults, those that are the tenant's to know.
    Faults(ProblemType, Vec<Fault>),
    /// The same words always.
    Always(ProblemType, &'static str),
    /// The same words always; the daemon's log has the rest.
    Logged(ProblemType, &'static str, String),
}

impl Refusal {
    fn told_to_tenant(self) -> Told {
        match self {
            Refusal::Invalid(faults) => Told::Faults(ProblemType::Invalid, faults),
            Refusal::Conflict(faults) => Told::Faults(ProblemType::Conflict, faults),
            Refusal::Registry(faults) => Told::Faults(ProblemType::Registry, faults),
            Refusal::Launcher { of_tenant, .. } => Told::Faults(ProblemType::Invalid, of_tenant),
            Refusal::NotFound(what) => Told::Words(ProblemType::NotFound, what),
            Refusal::TooMuch(what) => Told::Words(ProblemType::NoRoom, what),
            Refusal::Busy(_) => Told::Always(ProblemType::Busy, "the host cannot do it now; try it again"),
            Refusal::NoRoom(what) => Told::Logged(ProblemType::NoRoom, "the host has no room for it", what),
            Refusal::Broken(what) => Told::Logged(ProblemType::Internal, UNTOLD, what),
            Refusal::Work(work) => Told::Logged(ProblemType::Internal, UNTOLD, work.what),
        }
    }
}

/// What a tenant is told of what broke.
const UNTOLD: &str = "the daemon's log says more to its administrator";

impl State {
    /// Why the host refuses a change.
    pub fn refusal(&self, wanted: &Wanted, refusal: Refusal) -> Problem {
        self.told(&wanted.rights, Some(wanted), refusal)
    }

    /// Why the host refuses what is asked of one object, or of none.
    pub fn refused(&self, rights: &Rights, refusal: Refusal) -> Problem {
        self.told(rights, None, refusal)
    }

    fn told(&self, rights: &Rights, wanted: Option<&Wanted>, refusal: Refusal) -> Problem {
        let Some(tenant) = rights.tenant() else { return refused(refusal) };
        let named = |id: &ObjectName| {
            wanted.is_some_and(|wanted| wanted.objects.iter().any(|object| object.id == *id))
        };
        match refusal.told_to_tenant() {
            Told::Words(of, words) => Problem::new(of, words),
            Told::Always(of, words) => Problem::new(of, words),
            Told::Logged(of, words, rest) => {
                let severity = crate::log::Severity::Error;
                crate::log::log(
                    severity,
                    "a tenant's request could not be carried out",
                    &[("detail", rest.into())],
                );
                Problem::new(of, words)
            }
            Told::Faults(of, faults) => {
                let (told, left_out): (Vec<Fault>, Vec<Fault>) =
                    faults.into_iter().partition(|fault| match &fault.source {
                        FaultSource::Request => true,
                        FaultSource::Object(id) => named(id) || self.owners.is_of(id, tenant),
                        FaultSource::Host => false,
                    });
                faulty(of, self.with_own(tenant, wanted, told, &left_out))
            }
        }
    }

    /// Adds what stands for faults that are left out.
    fn with_own(
        &self,
        tenant: &str,
        wanted: Option<&Wanted>,
        mut told: Vec<Fault>,
        left_out: &[Fault],
    ) -> Vec<Fault> {
        if left_out.is_empty() {
            return told;
        }
        let own = wanted.map(|wanted| self.control.own_faults(tenant, &self.changes(tenant, wanted)));
        let own = own.unwrap_or_default();
        let covered = own.len() >= left_out.len();
        told.extend(own);
        if !covered {
            told.push(Fault::of_request("", LEFT_OUT));
        }
        told
    }

    /// What a tenant's request comes to: what it says, and what it prunes.
    fn changes(&self, tenant: &str, wanted: &Wanted) -> Vec<ObjectChange> {
        let change = |id: &ObjectName, spec, snapshot| ObjectChange {
            kind: id.kind,
            name: id.name.clone(),
            spec,
            paused: false,
            snapshot,
        };
        let named = wanted.objects.iter();
        let mut changes: Vec<_> =
            named.map(|object| change(&object.id, object.spec.clone(), object.snapshot.clone())).collect();
        if wanted.prune {
            let named: BTreeSet<&ObjectName> = wanted.objects.iter().map(|object| &object.id).collect();
            let ids = self.prunable(tenant).into_iter();
            changes.extend(ids.filter(|id| !named.contains(id)).map(|id| change(&id, None, None)));
        }
        changes
    }
}
