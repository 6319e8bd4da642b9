//! What is asked of functions, and their snapshots.

use crate::exchange::{Ask, TimeLimit};
use crate::{Answer, Change, Client, ClientError, Written};
use api::{FunctionReport, Object, RotatedKey, Snapshot, Upgrade, paths};
use http_client::http::Method;
use serde::de::IgnoredAny;
use serde_json::json;

impl Client {
    /// Pauses a function; packets wait in its queue.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn pause(&self, function: &str, durable: bool) -> Result<Object, ClientError> {
        self.ask(of(function, "pause").with_flag("durable", durable))
    }

    /// Lets a paused function go on.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn resume(&self, function: &str, durable: bool) -> Result<Object, ClientError> {
        self.ask(of(function, "resume").with_flag("durable", durable))
    }

    /// Starts a function anew, without what it knew.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn restart(&self, function: &str) -> Result<Object, ClientError> {
        self.ask(of(function, "restart"))
    }

    /// Lets another image take over a function's packets and state.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn upgrade(
        &self,
        function: &str,
        upgrade: &Upgrade,
        change: &Change,
    ) -> Result<Answer<Written>, ClientError> {
        let ask = of(function, "upgrade").with_flag("allow_restart", change.allow_restart);
        let ask = change.of(ask).with_json(upgrade);
        self.written(self.send(ask, TimeLimit::Usual)?)
    }

    /// What a function reports of itself.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn report(&self, function: &str) -> Result<FunctionReport, ClientError> {
        self.ask(Ask::get(paths::of_function(function, "report")))
    }

    /// Saves a function with what it knows.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn save(&self, function: &str, snapshot: &str) -> Result<Snapshot, ClientError> {
        self.ask(of(function, "snapshots").with_json(&json!({"name": snapshot})))
    }

    /// Makes a function of a snapshot.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn restore(
        &self,
        snapshot: &str,
        function: &str,
        change: &Change,
    ) -> Result<Answer<Written>, ClientError> {
        let ask = Ask::new(Method::POST, paths::restore(snapshot));
        let ask = change.of(ask).with_json(&json!({"function": function}));
        self.written(self.send(ask, TimeLimit::Usual)?)
    }

    /// Gives an imported snapshot to a tenant.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn adopt_snapshot(&self, snapshot: &str, tenant: &str) -> Result<Snapshot, ClientError> {
        let ask = Ask::new(Method::POST, paths::adopt(snapshot));
        self.ask(ask.with_json(&json!({"tenant": tenant})))
    }

    /// Makes a new key for snapshots, which seals those that are the host's own.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn rotate_snapshot_key(&self) -> Result<RotatedKey, ClientError> {
        self.ask(Ask::new(Method::POST, paths::SNAPSHOT_KEYS))
    }

    /// Removes a snapshot.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn delete_snapshot(&self, name: &str) -> Result<(), ClientError> {
        let ask = Ask::new(Method::DELETE, paths::snapshot(name));
        self.ask::<IgnoredAny>(ask).map(|_| ())
    }
}

fn of(function: &str, part: &str) -> Ask {
    Ask::new(Method::POST, paths::of_function(function, part))
}
