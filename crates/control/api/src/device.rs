//! How a virtual device is.

use crate::StationFrames;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Packets and bytes since the device is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Whether packets can pass a device, which is what its ports say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceState {
    /// All of its ports are up, or it has none.
    Up,
    /// Some are, and some are not.
    Degraded,
    /// None is.
    Down,
}

/// How a device is: the `status` of its object. Numbers that nothing counts are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceStatus {
    /// When this was so, in nanoseconds of the daemon's clock: two readings make a rate.
    pub time_ns: u64,
    /// Whether its ports are up.
    pub state: DeviceState,
    /// Why it is not, of the first port that is not up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its ports, in their order.
    pub ports: Vec<DevicePort>,
    /// What opens it, in the order in which it gets packets. A tenant is shown its own.
    pub openers: Vec<DeviceOpener>,
    /// Openers of other tenants, which a tenant is not shown.
    #[serde(default)]
    pub other_openers: u64,
    /// Copies that were asked for: of a packet to several ends, one less than there are.
    pub copied: u64,
    /// Packets that were lost in it, by reason; `bad-tunnel` at ports that are its alone.
    pub drops: BTreeMap<String, u64>,
    /// Its addresses on its link.
    pub addresses: Vec<DeviceAddress>,
    /// Neighbours in its table.
    pub neighbours: u64,
    /// What became of the frames of its neighbour protocols, if it has addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<StationFrames>,
    /// Policies that never get a packet, or lose some to other devices at their port; links without room for
    /// the headers that are put on.
    pub warnings: Vec<String>,
}

/// One port of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DevicePort {
    /// The port.
    pub port: String,
    /// `up`, `down`, or `finished`: it brings no more packets.
    pub state: String,
    /// Why it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the device took from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Traffic>,
    /// What left by it, where it is known of this device alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Traffic>,
}

/// What opens a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceOpener {
    /// An interface of a function, such as `ids:inside`, or a service, such as `service 7`.
    pub opener: String,
    /// Whose it is.
    pub tenant: String,
    /// The port whose side it opens alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// Of openers that get the same packets, the lowest has the packet itself.
    pub order: u32,
    /// It observes: it gets nothing but what it is shown.
    pub observes: bool,
    /// What it sent into the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Traffic>,
    /// What went from the device to it, where the device says so without looking at packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Traffic>,
}

/// An address of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceAddress {
    /// With the length of its network's prefix: `192.0.2.9/24`.
    pub address: String,
    /// `valid`; `tentative`, until it is known to be its alone; `deprecated`; `duplicate`: another station
    /// has it.
    pub state: String,
}
