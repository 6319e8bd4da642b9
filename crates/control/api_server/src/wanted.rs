//! What a client wants changed.

use crate::aside;
use crate::precondition::Precondition;
use crate::rights::Rights;
use crate::timing::Timing;
use api::{Name, ObjectName};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// What is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub objects: Vec<WantedObject>,
    /// Whatever is not named is deleted.
    pub prune: bool,
    pub dry_run: bool,
    /// Registries are asked what tags mean that functions run with.
    pub resolve: bool,
    /// Of the client that wants it.
    pub rights: Rights,
    /// Functions whose files say something else than when they were read.
    pub others: BTreeSet<String>,
    /// Functions that run may begin anew where they cannot hand over.
    pub allow_restart: bool,
    /// What wants to know how long it takes.
    pub timing: Timing,
    /// Whether what it says is large: it is dropped aside then.
    pub large: bool,
    /// What its body takes of the room for bodies. An operation keeps it to its end, after the answer, too.
    pub _room: Option<Arc<OwnedSemaphorePermit>>,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        if self.large {
            aside::discard(std::mem::take(&mut self.objects));
        }
    }
}

/// What is wanted of one object.
#[derive(Clone, Debug)]
pub(crate) struct WantedObject {
    pub id: ObjectName,
    /// `None`: it is to be deleted, and is there.
    pub spec: Option<Value>,
    pub precondition: Precondition,
    pub snapshot: Option<Name>,
}
