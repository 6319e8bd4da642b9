//! What is wanted, compared with what there is: steps 1 and 2 of a [change](crate::change).

use crate::answer::faulty;
use crate::control::ObjectChange;
use crate::pin::functions;
use crate::state::State;
use crate::stored::{Stored, written};
use crate::wanted::{Wanted, WantedObject};
use api::{Difference, Fault, Kind, ObjectName, Problem, ProblemType};
use std::collections::{BTreeMap, BTreeSet};
use store::Change;

/// What a change comes to.
pub(crate) struct Compared {
    pub difference: Difference,
    /// For the host.
    pub changes: Vec<ObjectChange>,
    /// For the store.
    pub writes: Vec<Change>,
}

impl State {
    /// Steps 1 and 2, as of now.
    pub fn compared(&self, wanted: &Wanted, images: &BTreeMap<String, String>) -> Result<Compared, Problem> {
        // Before anything is read: what is committed meanwhile is noticed.
        let revision = self.store.revision().0;
        let mut difference =
            Difference { dry_run: wanted.dry_run, revision, images: images.clone(), ..Difference::default() };
        self.admit(wanted)?;
        let (changes, writes) = self.compare(wanted, &mut difference)?;
        Ok(Compared { difference, changes, writes })
    }

    /// Steps 1 and 2: what is to be changed, for the host and for the store.
    fn compare(
        &self,
        wanted: &Wanted,
        difference: &mut Difference,
    ) -> Result<(Vec<ObjectChange>, Vec<Change>), Problem> {
        let (mut changes, mut writes, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for WantedObject { id, spec, precondition, snapshot } in &wanted.objects {
            let there = self.store.read(id.kind.as_str(), &id.name);
            let version = there.as_ref().map(|object| object.version.0);
            if !precondition.holds(version) {
                faults.push(precondition.not_held(id, version));
                continue;
            }
            let stored = there.as_ref().map(Stored::of);
            let change = |spec, paused| ObjectChange {
                kind: id.kind,
                name: id.name.clone(),
                spec,
                paused,
                snapshot: snapshot.clone(),
            };
            match (spec, stored) {
                (None, None) => return Err(Problem::new(ProblemType::NotFound, format!("there is no {id}"))),
                (None, Some(_)) => {
                    changes.push(change(None, false));
                    writes.push(Change::delete(id.kind.as_str(), id.name.as_str()));
                    difference.deleted.push(id.clone());
                }
                (Some(spec), Some(stored))
                    if stored.spec == *spec
                        && snapshot.is_none()
                        // It could not be started, and is begun when it is wanted again.
                        && !self.control.lacks(id)
                        && !(id.kind == Kind::Function && wanted.others.contains(&id.name)) =>
                {
                    difference.unchanged.push(id.clone());
                }
                (Some(spec), stored) => {
                    let list =
                        if stored.is_some() { &mut difference.changed } else { &mut difference.created };
                    list.push(id.clone());
                    // What the launcher starts cannot be paused, nor resumed: it forgets that it was.
                    let paused =
                        stored.is_some_and(|stored| stored.paused) && !api::guest_of(spec).is_launched();
                    changes.push(change(Some(spec.clone()), paused));
                    let value = written(spec, paused);
                    writes.push(Change::put(id.kind.as_str(), id.name.as_str(), value));
                }
            }
        }
        if !faults.is_empty() {
            return Err(faulty(ProblemType::PreconditionFailed, faults));
        }
        if wanted.prune {
            self.prune(wanted, difference, &mut changes, &mut writes);
        }
        let faults: Vec<Fault> = changes.iter().filter_map(|change| self.still_has_tokens(change)).collect();
        if !faults.is_empty() {
            return Err(faulty(ProblemType::Conflict, faults));
        }
        Ok((changes, writes))
    }

    /// A tenant that goes would leave its tokens to the next tenant of that name.
    fn still_has_tokens(&self, change: &ObjectChange) -> Option<Fault> {
        if change.kind != Kind::Tenant || change.spec.is_some() {
            return None;
        }
        let tokens = self.tokens.of(&change.name);
        let listed = yaml_document::spelling::listed(tokens.iter().map(String::as_str));
        let message = format!("tokens are for it: {listed}; delete them first");
        (!tokens.is_empty()).then(|| Fault::new(format!("tenants.{}", change.name), message))
    }

    /// Finds functions whose files say something else than when these were read, though their configuration
    /// names the same. Files are an administrator's to name.
    pub fn read_again(&self, wanted: &mut Wanted) {
        if wanted.rights.tenant().is_none() {
            let functions = functions(wanted).into_iter().map(|(name, _)| name.to_owned());
            let others = functions.filter(|name| self.control.has_other_files(name));
            wanted.others = others.collect();
        }
    }

    /// Deletes what is not named, last kinds first, so that nothing loses what it is made from.
    fn prune(
        &self,
        wanted: &Wanted,
        difference: &mut Difference,
        changes: &mut Vec<ObjectChange>,
        writes: &mut Vec<Change>,
    ) {
        let named: BTreeSet<&ObjectName> = wanted.objects.iter().map(|object| &object.id).collect();
        let mut delete = |id: ObjectName| {
            if !named.contains(&id) {
                let name = id.name.clone();
                changes.push(ObjectChange { kind: id.kind, name, spec: None, paused: false, snapshot: None });
                writes.push(Change::delete(id.kind.as_str(), id.name.as_str()));
                difference.deleted.push(id);
            }
        };
        if let Some(tenant) = wanted.rights.tenant() {
            // What names others goes first.
            self.prunable(tenant).into_iter().rev().for_each(delete);
            return;
        }
        for kind in Kind::ALL.into_iter().rev() {
            let mut from = String::new();
            loop {
                let page = self.store.list(kind.as_str(), &from, store::PAGE_MAX);
                for object in page.objects {
                    delete(ObjectName::new(kind, object.name.to_string()));
                }
                match page.next {
                    Some(next) => from = next.to_string(),
                    None => break,
                }
            }
        }
    }
}
