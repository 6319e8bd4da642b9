//! Observations: which instance or port is shown what passes where.

use crate::{Edge, Endpoint};
use capture::Filter;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// An observer, where it stands, and which of the packets there it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Observation {
    /// The instance that observes, or the port, which transmits copies.
    pub observer: String,
    /// Where it stands.
    pub at: Watched,
    /// The packets that it is shown; `None`: all.
    pub filter: Option<Shown>,
    /// One of so many of those on average; 1: each.
    pub one_of: u32,
}

/// Where an observer stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Watched {
    /// An instance, by name: packets before it is called, of one interface or all. An instance that observes
    /// runs on its worker.
    Instance(String, Option<u16>),
    /// A port, by name: what it receives and what it transmits.
    Port(String),
    /// A device, by name: what its ports bring and what its openers send. Of one side, named by the port:
    /// what the device takes from the port, and what leaves by it.
    Device(String, Option<String>),
    /// A wire, both ways.
    Wire(Edge),
}

impl Watched {
    /// The names of what it is at.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (one, other) = match self {
            Watched::Instance(name, _) | Watched::Port(name) | Watched::Device(name, _) => {
                (name.as_str(), None)
            }
            Watched::Wire(edge) => {
                let [one, other] = edge.ends();
                (one.name(), Some(other.name()))
            }
        };
        std::iter::once(one).chain(other)
    }

    /// The instance that an instance runs beside that observes it.
    pub fn beside(&self) -> Option<&str> {
        match self {
            Watched::Instance(name, _) => Some(name),
            Watched::Port(_) | Watched::Device(..) | Watched::Wire(_) => None,
        }
    }

    /// The device that it is at, if it is at one, at a side of one or at the wire of an opener.
    pub fn device(&self) -> Option<&str> {
        match self {
            Watched::Device(name, _) => Some(name),
            Watched::Wire(edge) => edge.opening().map(|(_, opening)| opening.device.as_str()),
            Watched::Instance(..) | Watched::Port(_) => None,
        }
    }
}

/// As in the operator's file, interfaces by number: `gate:0`, `bridge0:nic1`, `gate:1~lan`.
impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Watched::Instance(name, None) | Watched::Port(name) | Watched::Device(name, None) => {
                f.write_str(name)
            }
            Watched::Instance(name, Some(interface)) => write!(f, "{name}:{interface}"),
            Watched::Device(name, Some(port)) => write!(f, "{name}:{port}"),
            Watched::Wire(edge) => {
                let [one, other] = edge.ends();
                write!(f, "{one}~{other}")
            }
        }
    }
}

impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.observer, self.at)
    }
}

/// A filter, known and ordered by its text.
#[derive(Clone, Debug)]
pub struct Shown(pub Arc<Filter>);

impl PartialEq for Shown {
    fn eq(&self, other: &Shown) -> bool {
        self.0.text() == other.0.text()
    }
}

impl Eq for Shown {}

impl Hash for Shown {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text().hash(state);
    }
}

impl PartialOrd for Shown {
    fn partial_cmp(&self, other: &Shown) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Shown {
    fn cmp(&self, other: &Shown) -> Ordering {
        self.0.text().cmp(other.0.text())
    }
}

/// Which devices observers are at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedDevices(BTreeMap<String, BTreeSet<Option<String>>>);

impl WatchedDevices {
    /// Those of some observations.
    pub fn of<'a>(observations: impl Iterator<Item = &'a Observation>) -> WatchedDevices {
        let mut watched = WatchedDevices::default();
        for seen in observations {
            if let Watched::Device(device, side) = &seen.at {
                watched.0.entry(device.clone()).or_default().insert(side.clone());
            }
        }
        watched
    }

    /// Whether what a device gets from a port is shown to an observer at the device or at this side of it.
    pub fn sees(&self, device: &str, port: &str) -> bool {
        self.0
            .get(device)
            .is_some_and(|sides| sides.contains(&None) || sides.iter().flatten().any(|side| side == port))
    }
}

impl Endpoint {
    /// Whether this is the same place as an end of an edge, which knows the order of openers beside.
    pub fn is_at(&self, end: &Endpoint) -> bool {
        match (self, end) {
            (Endpoint::Device(one), Endpoint::Device(other)) => {
                (&one.device, &one.port) == (&other.device, &other.port)
            }
            (one, other) => one == other,
        }
    }
}
