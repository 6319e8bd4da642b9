//! The kinds of objects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of an object: the section of the operator's file in which it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The workers: the threads that call functions. There is one such object, named `workers`.
    Workers,
    /// A trust domain with a pool of packet memory.
    Tenant,
    /// Where packets come from and go to.
    Port,
    /// A learning switch.
    Switch,
    /// What may reach the openers of devices that name it.
    Group,
    /// A virtual device: what functions open instead of ports.
    Device,
    /// A network function.
    Function,
    /// Functions one after the other, between two ends.
    Chain,
    /// A single connection of two ends.
    Wire,
    /// A function that sees the packets of others.
    Observer,
    /// A number, and the end that packets for it go to that a tenant's functions send.
    Service,
}

impl Kind {
    /// All kinds, such that an object is made from objects of the kinds before it alone.
    pub const ALL: [Kind; 11] = [
        Kind::Workers,
        Kind::Tenant,
        Kind::Port,
        Kind::Switch,
        Kind::Group,
        Kind::Device,
        Kind::Function,
        Kind::Chain,
        Kind::Wire,
        Kind::Observer,
        Kind::Service,
    ];

    /// Its name, as in `kind` of an object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Workers => "workers",
            Kind::Tenant => "tenant",
            Kind::Port => "port",
            Kind::Switch => "switch",
            Kind::Group => "group",
            Kind::Device => "device",
            Kind::Function => "function",
            Kind::Chain => "chain",
            Kind::Wire => "wire",
            Kind::Observer => "observer",
            Kind::Service => "service",
        }
    }

    /// Its section of the operator's file, and its part of a path.
    pub const fn plural(self) -> &'static str {
        match self {
            Kind::Workers => "workers",
            Kind::Tenant => "tenants",
            Kind::Port => "ports",
            Kind::Switch => "switches",
            Kind::Group => "groups",
            Kind::Device => "devices",
            Kind::Function => "functions",
            Kind::Chain => "chains",
            Kind::Wire => "wires",
            Kind::Observer => "observers",
            Kind::Service => "services",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The kind whose plural this is.
    pub fn from_plural(plural: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.plural() == plural)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
