//! What virtual devices are on their links, and the neighbours that they know there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A device on its links, and a part of the neighbours that it knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceNeighbours {
    /// What it is on its links, and what interfaces are there that open it with addresses of their own; none
    /// where there are no addresses.
    pub stations: Vec<Station>,
    /// Its neighbours, in the order of their addresses.
    pub items: Vec<Neighbour>,
    /// There are more: `after` for the next part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What others on a link know a device by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Station {
    /// The interface whose it is, `gate:inside`; the device's own without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The link-layer address.
    pub mac: String,
    /// Bytes of the largest IP packet.
    pub mtu: u16,
    /// The ports at which it is.
    pub ports: Vec<String>,
    /// Its addresses.
    pub addresses: Vec<StationAddress>,
    /// Its client of DHCP, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhcp: Option<DhcpClient>,
    /// Routers, the best first.
    pub gateways: Vec<String>,
    /// Multicast groups that it tells routers of.
    pub groups: Vec<String>,
    /// What became of the frames of its protocols.
    #[serde(default)]
    pub frames: StationFrames,
}

/// Frames of neighbour protocols, since the station is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StationFrames {
    /// Frames that it got.
    pub received: u64,
    /// Those of them that were of no protocol that is spoken, or for other stations.
    pub ignored: u64,
    /// Frames that it sent: questions, answers and announcements.
    pub sent: u64,
    /// Frames without effect, by reason, without what did not occur: `malformed`, `checksum`, `hop-limit`,
    /// `address`, `limited` (more than may be processed), `missed` (the port had no room), `unanswered` (more
    /// than may be answered), `unsent` (no room on the way out).
    pub dropped: BTreeMap<String, u64>,
}

/// An address of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StationAddress {
    /// With the length of its network's prefix: `192.0.2.9/24`.
    pub address: String,
    /// Whether it may be used.
    pub state: AddressState,
    /// Where it comes from.
    pub origin: AddressOrigin,
    /// When its lease or lifetime ends, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub until: Option<String>,
}

/// Whether an address may be used (RFC 4862, section 2; RFC 5227).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AddressState {
    /// It is not yet known to be the device's alone; it answers nothing.
    Tentative,
    /// It is used.
    Preferred,
    /// It answers, but is no source where there is another.
    Deprecated,
    /// Another station has it.
    Duplicate,
}

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AddressOrigin {
    /// The device's `addresses`.
    Static,
    /// The link-layer address (RFC 4862, section 5.3).
    LinkLocal,
    /// A router's advertisement (RFC 4862, section 5.5).
    Router,
    /// A DHCP server.
    Dhcp,
    /// What opens the device formed it (RFC 4862, section 5.5; RFC 8981).
    Opener,
}

/// How far a client of DHCP is (RFC 2131, section 4.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DhcpClient {
    /// `waiting`, `selecting`, `requesting`, `bound`, `renewing` or `rebinding`.
    pub state: String,
    /// The server, while there is a lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// When the lease ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub until: Option<String>,
}

/// What is known about a neighbour (RFC 4861, section 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NeighbourState {
    /// It is asked for, and has not answered yet.
    Incomplete,
    /// It answered a short while ago.
    Reachable,
    /// It answered some time ago.
    Stale,
    /// It is about to be asked whether it is still there.
    Delay,
    /// It is asked whether it is still there.
    Probe,
    /// It did not answer, and is not asked for until 20 s have passed.
    Unreachable,
}

impl NeighbourState {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            NeighbourState::Incomplete => "incomplete",
            NeighbourState::Reachable => "reachable",
            NeighbourState::Stale => "stale",
            NeighbourState::Delay => "delay",
            NeighbourState::Probe => "probe",
            NeighbourState::Unreachable => "unreachable",
        }
    }
}

/// By which protocol neighbours are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NeighbourProtocol {
    /// ARP (RFC 826).
    Arp,
    /// Neighbour discovery (RFC 4861).
    Nd,
}

/// A neighbour of a device: one that a function has asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Neighbour {
    /// The interface that knows it, `gate:inside`; the device itself without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Its address.
    pub address: String,
    /// Its link-layer address, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// What is known about it.
    pub state: NeighbourState,
    /// Since when it has this link-layer address, or is asked for, or was found unreachable.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// The port by which it answered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// How it is asked for.
    pub protocol: NeighbourProtocol,
}
