//! What is wired to what, with what has passed up to now.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ports, functions, devices, switches and services, and what leads from one to another: at a moment. Two of
/// them make rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Graph {
    /// When this was so, in nanoseconds of the daemon's clock.
    pub time_ns: u64,
    /// In the order of their names. A tenant is shown its own.
    pub nodes: Vec<GraphNode>,
    /// Between nodes that are shown, in the order of their ends.
    pub edges: Vec<GraphEdge>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// A port.
    Port,
    /// A device.
    Device,
    /// A switch.
    Switch,
    /// A function, be it a container: the ports of that are its interfaces here.
    Function,
    /// A service: its tenant's functions send to it without a wire.
    Service,
}

/// What packets pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GraphNode {
    /// Its name; of a service, its number, or its tenant and number such as `red:7`.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Whose it is; switches are the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Of a function `running`, `paused`, `frozen`, `starting` or `down`, of a port `up`, `down` or
    /// `finished`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The worker that a function is on, counted from 0. Containers are on none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    /// Packets: that a function was called with, that a container was given, that a port received and
    /// delivered, that came into a device. Left out where nothing counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Their bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Packets that were lost or dropped there.
    pub drops: u64,
}

/// What an edge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EdgeKind {
    /// A wire.
    Wire,
    /// A device is over a port.
    Over,
    /// A function or a service opens a device.
    Opens,
    /// A function observes.
    Observes,
    /// A service leads somewhere.
    Leads,
}

/// Packets one way along an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EdgeTraffic {
    /// Packets.
    pub packets: u64,
    /// Their bytes, where they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// What leads from one node to another, both ways. Numbers that nothing counts are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GraphEdge {
    /// What it is.
    pub kind: EdgeKind,
    /// One node.
    pub from: String,
    /// The interface of it, if it is a function; the side of it, if it is a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_part: Option<String>,
    /// The other node.
    pub to: String,
    /// The interface or side of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_part: Option<String>,
    /// From the one to the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub there: Option<EdgeTraffic>,
    /// The other way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<EdgeTraffic>,
    /// Packets that were lost at an end of it, where that is a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<u64>,
}
