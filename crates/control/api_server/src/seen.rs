//! What a tenant is shown: its own, as if there were nothing else.

use crate::answer::{Answer, faulty};
use crate::calls::missing;
use crate::control::ObjectChange;
use crate::precondition::Precondition;
use crate::rights::Rights;
use crate::state::State;
use crate::stored::{Stored, answered};
use crate::tenancy;
use api::{Difference, Health, Image, Kind, List, Name, Object, ObjectName, Problem, ProblemType, Snapshot};
use serde_json::Value;
use std::collections::HashMap;
use store::{Change, CommitError};

/// How often an object is read anew that was changed while it was looked at.
const LOOKS: usize = 8;

impl State {
    /// Commits a change and notes whose it is. The caller has the lock.
    pub fn commit(&self, writes: &[Change], changes: &[ObjectChange]) -> Result<u64, CommitError> {
        let mut beside = self.logins.of_gone(changes);
        beside.extend(tenancy::mark(&self.store, changes));
        let revision = match beside.as_slice() {
            [] => self.store.commit(writes)?.0,
            beside => self.store.commit(&[writes, beside].concat())?.0,
        };
        self.logins.forget_gone(changes);
        self.operations.forget_gone(changes);
        let owned = self.owners.take(revision, changes);
        self.past.changed(revision, changes, &owned);
        Ok(revision)
    }

    /// Whether a client is shown an object that was read.
    pub fn shows(&self, rights: &Rights, id: &ObjectName, read: &store::Object) -> bool {
        let Some(tenant) = rights.tenant() else { return true };
        match id.kind {
            // The index may be a moment behind; what would be shown is this spec.
            Kind::Function | Kind::Port | Kind::Group | Kind::Device => {
                self.owners.tenant_of(&Stored::of(read).spec).as_deref() == Some(tenant)
            }
            _ => self.owners.is_of(id, tenant),
        }
    }

    /// An object that a client is shown, without its status.
    pub fn read(&self, rights: &Rights, id: &ObjectName) -> Result<store::Object, Problem> {
        let read = self.store.read(id.kind.as_str(), &id.name);
        read.filter(|read| self.shows(rights, id, read)).ok_or_else(|| missing(&id.to_string()))
    }

    /// Whether there is an object that a client is shown. Of a tenant's the index says it, however large the
    /// spec is: the index knows of a change before the host carries it out, so that nothing of another tenant
    /// runs under the name while the index still has it as this one's.
    pub fn find(&self, rights: &Rights, id: &ObjectName) -> Result<(), Problem> {
        let there = match rights.tenant() {
            Some(tenant) => self.owners.is_of(id, tenant),
            None => self.store.read(id.kind.as_str(), &id.name).is_some(),
        };
        there.then_some(()).ok_or_else(|| missing(&id.to_string()))
    }

    /// Whether an object is still the client's to change, and has a version that the client means: the caller
    /// has the lock.
    pub fn is_still_what(
        &self,
        rights: &Rights,
        id: &ObjectName,
        precondition: &Precondition,
    ) -> Result<(), Problem> {
        self.tokens.hold(rights)?;
        let version = self.read(rights, id)?.version.0;
        if !precondition.holds(Some(version)) {
            let fault = precondition.not_held(id, Some(version));
            return Err(faulty(ProblemType::PreconditionFailed, vec![fault]));
        }
        Ok(())
    }

    /// An object as it is, with its status.
    pub fn object(&self, rights: &Rights, id: &ObjectName) -> Result<Object, Problem> {
        let mut read = self.read(rights, id)?;
        for _ in 0..LOOKS {
            let mut object = answered(id.kind, &read);
            object.status = self.control.status(id.kind, &id.name, rights.tenant());
            if rights.tenant().is_none() {
                return Ok(object);
            }
            // The status is by name alone: another tenant's object may have been given the name.
            let again = self.read(rights, id)?;
            if again.version == read.version {
                return Ok(object);
            }
            read = again;
        }
        Ok(answered(id.kind, &read))
    }

    /// An object as a change left it that wanted it to have this spec. An administrator's is not read again
    /// where it is what was written of the object just now: an image may have been pinned.
    pub fn changed_object(
        &self,
        rights: &Rights,
        id: &ObjectName,
        spec: Value,
        difference: &Difference,
    ) -> Object {
        let version = difference.revision;
        let as_written = |status| Object { kind: id.kind, name: id.name.clone(), version, spec, status };
        let is_known =
            rights.tenant().is_none() && difference.images.is_empty() && difference.unchanged.is_empty();
        let there = || self.store.read(id.kind.as_str(), &id.name);
        if is_known && there().is_some_and(|there| there.version.0 == version) {
            return as_written(self.control.status(id.kind, &id.name, None));
        }
        match self.object(rights, id) {
            Ok(there) if there.version <= version => there,
            _ => as_written(None),
        }
    }

    /// A part of a tenant's objects of a kind.
    pub fn list_of(
        &self,
        rights: &Rights,
        tenant: &str,
        kind: Kind,
        after: Option<&str>,
        limit: usize,
    ) -> List {
        let revision = self.owners.revision();
        let names = self.owners.page(tenant, kind, after, limit.saturating_add(1));
        let (mut items, mut bytes, mut last, mut next) = (Vec::new(), 0, None, None);
        for (n, name) in names.into_iter().enumerate() {
            if n == limit || bytes >= self.limits.list_bytes {
                next = last;
                break;
            }
            let id = ObjectName::new(kind, name);
            bytes += self.stored_bytes(&id);
            items.extend(self.object(rights, &id).ok());
            last = Some(id.name);
        }
        List { items, revision, next }
    }

    /// A snapshot that is a tenant's.
    pub fn snapshot_of(&self, tenant: &str, name: &Name) -> Result<Snapshot, Problem> {
        let found = self.control.snapshot(name).filter(|saved| self.is_saved_of(tenant, saved));
        found.ok_or_else(|| missing_snapshot(name))
    }

    /// A snapshot that a client is shown.
    pub fn snapshot(&self, rights: &Rights, name: &Name) -> Result<Snapshot, Problem> {
        match rights.tenant() {
            Some(tenant) => self.snapshot_of(tenant, name),
            None => self.control.snapshot(name).ok_or_else(|| missing_snapshot(name)),
        }
    }

    /// The snapshots that a client is shown.
    pub fn snapshots(&self, rights: &Rights) -> Vec<Snapshot> {
        match rights.tenant() {
            Some(tenant) => self.control.snapshots_of(tenant),
            None => self.control.snapshots(),
        }
    }

    /// The seal says whose a snapshot is; without one that holds it is the administrators' alone.
    fn is_saved_of(&self, tenant: &str, saved: &Snapshot) -> bool {
        !saved.imported && saved.tenant.as_deref() == Some(tenant)
    }

    /// The images that a client is shown: a tenant those of this program, and those that its functions are
    /// made from.
    pub fn images(&self, rights: &Rights) -> Vec<Image> {
        let mut all = self.control.images();
        let Some(tenant) = rights.tenant() else { return all };
        let mut functions: HashMap<String, u64> = HashMap::new();
        for name in self.owners.page(tenant, Kind::Function, None, usize::MAX) {
            let Ok(read) = self.read(rights, &ObjectName::new(Kind::Function, name)) else { continue };
            if let Some(image) = Stored::of(&read).spec.get("image").and_then(Value::as_str) {
                *functions.entry(image.to_owned()).or_default() += 1;
            }
        }
        all.retain_mut(|image| {
            let named = image.pinned.as_ref().unwrap_or(&image.reference);
            image.functions = functions.get(named).copied().unwrap_or(0);
            image.functions > 0 || (image.pinned.is_none() && !image.reference.contains(['/', '.']))
        });
        all
    }

    /// How the daemon is: a tenant is not told what of the host's is broken.
    pub fn health(&self, rights: &Rights) -> Health {
        let standing = self.store.standing();
        let mut troubles = Vec::new();
        troubles.extend(standing.failure.map(|failure| failure.to_string()));
        troubles.extend(standing.log_trouble);
        troubles.extend(standing.removed);
        troubles.extend(self.audit.trouble());
        troubles.extend(standing.disk);
        troubles.extend(self.control.troubles());
        let unlogged = self.audit.lost();
        if unlogged > 0 {
            troubles
                .push(format!("{unlogged} lines are missing in the audit log, since the daemon was started"));
        }
        let mut health = Health {
            healthy: troubles.is_empty(),
            troubles,
            warnings: self.control.warnings(rights.tenant()),
            version: self.version.clone(),
            started: self.started.clone(),
            objects: standing.objects.saturating_sub(
                self.tokens.count() as u64 + self.logins.count() as u64 + tenancy::beside(&self.store),
            ),
            revision: standing.revision.0,
            durable: standing.durable.0,
        };
        if let Some(tenant) = rights.tenant() {
            if !health.healthy {
                health.troubles = vec!["the daemon's administrator is told more".to_owned()];
            }
            let all = Kind::ALL.into_iter();
            health.objects =
                all.map(|kind| self.owners.page(tenant, kind, None, usize::MAX).len() as u64).sum();
        }
        health
    }
}

/// There is no such snapshot.
pub(crate) fn missing_snapshot(name: &Name) -> Problem {
    missing(&format!("snapshot `{name}`"))
}

/// JSON with items.
pub(crate) fn items(items: &impl serde::Serialize) -> Answer {
    Answer::json(200, &serde_json::json!({"items": items}))
}
