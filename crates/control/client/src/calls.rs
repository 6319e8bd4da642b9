//! What is asked without changing anything.

use crate::exchange::Ask;
use crate::{Client, ClientError};
use api::{
    DeviceNeighbours, Graph, Health, Image, Kind, List, Object, Operation, PastEvents, Snapshot, paths,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Objects that are asked for at a time.
const PAGE: u64 = 1000;

/// Most objects that are listed: above any host's.
const MOST_OBJECTS: usize = 10_000_000;

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects after this name; from the first without it.
    pub after: Option<String>,
    /// At most so many, up to 1000; without it as many as the daemon gives.
    pub limit: Option<u64>,
    /// Of this tenant alone: functions and ports.
    pub tenant: Option<String>,
}

/// Lists that have no pages.
#[derive(Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

impl Client {
    /// A part of the objects of a kind.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn list(&self, kind: Kind, page: &Page) -> Result<List, ClientError> {
        let mut ask = Ask::get(paths::objects(kind));
        for (name, value) in [
            ("after", page.after.clone()),
            ("limit", page.limit.map(|limit| limit.to_string())),
            ("tenant", page.tenant.clone()),
        ] {
            if let Some(value) = value {
                ask = ask.with(name, &value);
            }
        }
        self.ask(ask)
    }

    /// All objects of a kind, part after part; those that come and go meanwhile are there or are not.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn all(&self, kind: Kind, tenant: Option<&str>) -> Result<Vec<Object>, ClientError> {
        let mut page = Page { limit: Some(PAGE), tenant: tenant.map(str::to_owned), ..Page::default() };
        let mut objects = Vec::new();
        loop {
            let list = self.list(kind, &page)?;
            objects.extend(list.items);
            match list.next {
                None => return Ok(objects),
                // A daemon that repeats its pages would be asked for ever.
                Some(next) if objects.len() > MOST_OBJECTS || page.after.as_ref() >= Some(&next) => {
                    return Err(self.endless());
                }
                Some(next) => page.after = Some(next),
            }
        }
    }

    /// One object.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn object(&self, kind: Kind, name: &str) -> Result<Object, ClientError> {
        self.ask(Ask::get(paths::object(kind, name)))
    }

    /// What a device is on its links, and all neighbours that it knows, part after part; those that come and
    /// go meanwhile are there or are not.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn neighbours(&self, device: &str) -> Result<DeviceNeighbours, ClientError> {
        let ask = || Ask::get(paths::neighbours(device)).with("limit", &PAGE.to_string());
        let mut told: DeviceNeighbours = self.ask(ask())?;
        while let Some(next) = told.next.take() {
            let part: DeviceNeighbours = self.ask(ask().with("after", &next))?;
            if part.next.as_ref() == Some(&next) || told.items.len() > MOST_OBJECTS {
                return Err(self.endless());
            }
            told.items.extend(part.items);
            told.next = part.next;
        }
        Ok(told)
    }

    /// How the daemon is.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn health(&self) -> Result<Health, ClientError> {
        self.ask(Ask::get(paths::HEALTH))
    }

    /// The latest changes and notices of the last `seconds`, up to 3600, from the daemon's memory: at most
    /// `limit` of them, up to 8192, or as many as the daemon gives.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn past_events(&self, seconds: u64, limit: Option<u64>) -> Result<PastEvents, ClientError> {
        let mut ask = Ask::get(paths::PAST_EVENTS).with("seconds", &seconds.to_string());
        if let Some(limit) = limit {
            ask = ask.with("limit", &limit.to_string());
        }
        self.ask(ask)
    }

    /// The account of every packet.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn account(&self) -> Result<Value, ClientError> {
        self.ask(Ask::get(paths::ACCOUNT))
    }

    /// Where the host's memory goes.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn memory(&self) -> Result<Value, ClientError> {
        self.ask(Ask::get(paths::MEMORY))
    }

    /// What is wired to what, with what has passed.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn graph(&self) -> Result<Graph, ClientError> {
        self.ask(Ask::get(paths::GRAPH))
    }

    /// The images on the host.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn images(&self) -> Result<Vec<Image>, ClientError> {
        self.items(paths::IMAGES)
    }

    /// All snapshots.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn snapshots(&self) -> Result<Vec<Snapshot>, ClientError> {
        self.items(paths::SNAPSHOTS)
    }

    /// One snapshot.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn snapshot(&self, name: &str) -> Result<Snapshot, ClientError> {
        self.ask(Ask::get(paths::snapshot(name)))
    }

    /// All operations that are not forgotten.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn operations(&self) -> Result<Vec<Operation>, ClientError> {
        self.items(paths::OPERATIONS)
    }

    /// One operation.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn operation(&self, id: &str) -> Result<Operation, ClientError> {
        self.ask(Ask::get(paths::operation(id)))
    }

    fn endless(&self) -> ClientError {
        let reason = "a list that does not come to its end".to_owned();
        ClientError::Unreadable { daemon: self.daemon(), reason }
    }

    fn items<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, ClientError> {
        self.ask::<Items<T>>(Ask::get(path)).map(|list| list.items)
    }
}
