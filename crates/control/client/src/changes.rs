//! What changes objects.

use crate::exchange::{Ask, TimeLimit};
use crate::{Answer, Client, ClientError, Written};
use api::{Desired, Difference, Kind, Operation, OperationState, paths};
use http_client::http::{Method, header};
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The first time between two looks at an operation, and the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// How a change is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The answer waits until it is on disk.
    pub durable: bool,
    /// What takes longer is answered at once, and not after a moment in which it may be done.
    pub at_once: bool,
    /// What must hold of the object.
    pub only: Only,
    /// The daemon is to tell how long each step takes.
    pub timed: bool,
    /// Functions that run may begin anew where they cannot hand over; for what applies a document or upgrades
    /// a function.
    pub allow_restart: bool,
    /// The snapshot that a function begins with; for what puts a function.
    pub from: Option<String>,
}

/// What must hold of an object, so that it is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Only {
    /// Nothing.
    #[default]
    Always,
    /// There is none.
    IfAbsent,
    /// It has this version.
    IfVersion(u64),
}

impl Change {
    pub(crate) fn of(&self, ask: Ask) -> Ask {
        let ask = ask.with_flag("durable", self.durable).timed(self.timed);
        let ask = if self.at_once { ask.with("wait", "false") } else { ask };
        match self.only {
            Only::Always => ask,
            Only::IfAbsent => ask.only_if(header::IF_NONE_MATCH, "*".to_owned()),
            Only::IfVersion(version) => ask.only_if(header::IF_MATCH, format!("\"{version}\"")),
        }
    }
}

impl Client {
    /// Creates an object, or makes another of it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn put(
        &self,
        kind: Kind,
        name: &str,
        spec: &Value,
        change: &Change,
    ) -> Result<Answer<Written>, ClientError> {
        let ask = Ask::new(Method::PUT, paths::object(kind, name));
        let ask = ask.with_flag("allow_restart", change.allow_restart);
        let ask = match &change.from {
            Some(snapshot) => ask.with("from", snapshot),
            None => ask,
        };
        let ask = change.of(ask).with_json(&Desired { spec: spec.clone() });
        self.written(self.send(ask, TimeLimit::Usual)?)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn delete(&self, kind: Kind, name: &str, change: &Change) -> Result<Answer<Difference>, ClientError> {
        let ask = Ask::new(Method::DELETE, paths::object(kind, name));
        self.answered(self.send(change.of(ask), TimeLimit::Usual)?)
    }

    /// Makes what there is what a whole document says; all of it or nothing. With `prune`, what it does not
    /// name is deleted.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn apply(
        &self,
        document: &Value,
        prune: bool,
        change: &Change,
    ) -> Result<Answer<Difference>, ClientError> {
        let ask = Ask::new(Method::POST, paths::APPLY).with_flag("prune", prune).with_json(document);
        let ask = ask.with_flag("allow_restart", change.allow_restart);
        self.answered(self.send(change.of(ask), TimeLimit::Usual)?)
    }

    /// What [`Client::apply`] would change. Registries are asked whether tags have moved only if it is to
    /// `resolve`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn difference(
        &self,
        document: &Value,
        prune: bool,
        resolve: bool,
    ) -> Result<Answer<Difference>, ClientError> {
        let ask = Ask::new(Method::POST, paths::APPLY).with("dry_run", "true").with_flag("prune", prune);
        let ask = ask.with_flag("resolve", resolve);
        self.answered(self.send(ask.with_json(document), TimeLimit::Usual)?)
    }

    /// Waits for an operation's end, at most for `limit`; `look` sees how far it is, each time that one
    /// looks.
    ///
    /// # Errors
    /// [`ClientError`]: what it failed with, or that it goes on.
    pub fn wait_for(
        &self,
        mut operation: Operation,
        limit: Duration,
        mut look: impl FnMut(&Operation),
    ) -> Result<Difference, ClientError> {
        let end = Instant::now() + limit;
        let mut pause = LOOKS.0;
        loop {
            look(&operation);
            match operation.state {
                OperationState::Done => return Ok(operation.difference.unwrap_or_default()),
                OperationState::Failed => {
                    return Err(match operation.problem {
                        Some(problem) => ClientError::Refused(Box::new(crate::exchange::shown(problem))),
                        None => ClientError::Unreadable {
                            daemon: self.daemon(),
                            reason: "an operation that failed without a reason".to_owned(),
                        },
                    });
                }
                OperationState::Waiting | OperationState::Running => {}
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let Operation { id, what, .. } = operation;
                return Err(ClientError::Unfinished {
                    id: crate::harmless(&id, 80),
                    what: crate::harmless(&what, 160),
                    limit,
                });
            }
            sleep(pause.min(left));
            pause = (pause * 2).min(LOOKS.1);
            operation = self.operation(&operation.id)?;
        }
    }
}
