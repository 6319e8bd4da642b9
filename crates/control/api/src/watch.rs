//! Looking at packets on their way: traces and captures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most packets that one trace follows.
pub const TRACED_MAX: u64 = 10_000;

/// Packets that a trace follows when nothing is said of it.
pub const TRACED: u64 = 10;

/// Least and most bytes of a packet that a trace tells at each place.
pub const TRACED_HEADS: (u32, u32) = (14, 256);

/// Which packets are to be followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Where packets are picked: a port, a function, a function's interface, such as `fw:inside` or `fw:0`, a
    /// device, or a side of one, such as `edge:lan`. Without it at all ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Which packets, in the language of pcap-filter(7); also `dropped` and `passed`. Without it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// How many packets are followed; 10 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub count: Option<u64>,
    /// For how long packets are picked, such as `10s`; without it until there are enough, or the client stops
    /// reading.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// A packet that is put there where `at` says, and followed, instead of those that come: an Ethernet
    /// frame in hexadecimal. It really goes its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9a-fA-F]{2})*$"))]
    pub inject: Option<String>,
    /// So many of a packet's first bytes are told with it, and again at each place that it left with others;
    /// none without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 14, max = 256))]
    pub heads: Option<u32>,
}

/// Which packets are to be captured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Where: a port, a function, a function's interface, such as `fw:inside` or `fw:0`, a device, a side of
    /// one, such as `edge:lan`, or a wire, such as `lan~fw:0`.
    pub at: String,
    /// Which packets, in the language of pcap-filter(7); also `dropped` and `passed`. Without it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// How many packets; without it any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<u64>,
    /// Most bytes of each packet; without it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 14, max = 4_294_967_295_u32))]
    pub snap: Option<u32>,
    /// For how long, such as `10s`; without it until there are enough, or the client stops reading.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

/// A line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "trace", rename_all = "snake_case")]
pub enum TraceLine {
    /// A packet has come to its end, or to the end of what was seen of it.
    Packet(TracedPacket),
    /// Nothing happens, and the trace goes on.
    Alive,
    /// Nothing more comes.
    Ended(TraceEnd),
}

/// A packet and its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracedPacket {
    /// Its number in the trace, from 1.
    pub packet: u64,
    /// It is a copy of this one, made on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<u64>,
    /// When it was first seen.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// Its length then, in bytes.
    pub length: u32,
    /// Its headers then, in words.
    pub what: String,
    /// Its first bytes then, in hexadecimal, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Where it was seen, in order.
    pub hops: Vec<TraceHop>,
    /// How it ended.
    pub end: WayEnd,
    /// From when it was first seen until it was last, in nanoseconds.
    pub took_ns: u64,
}

/// A packet at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceHop {
    /// The port, function or device: `port/lan`, `function/fw`, `device/edge`.
    pub at: String,
    /// What happened: `received`, `injected`, `called`, `gave up`, `transmitted`, `trapped`, `down`, `lost`,
    /// or of a device `passed`.
    pub what: String,
    /// The function's interface that it came in by, or the device's port or opener.
    #[serde(default, rename = "in", skip_serializing_if = "Option::is_none")]
    pub ingress: Option<String>,
    /// What the function decided: `interface`, `service`, `hold`, `drop`, `consume`, `none`, `bad`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The function's interface that it went out by, the device's port or opener, the service, or the slot
    /// that it is held in.
    #[serde(default, rename = "out", skip_serializing_if = "Option::is_none")]
    pub egress: Option<String>,
    /// Why it ended here, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Nanoseconds after it was first seen.
    pub after_ns: u64,
    /// Nanoseconds that it waited for the function, since it was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<u64>,
    /// Cycles that the function took for it: its part of what the call took for the whole batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// Packets of that batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Its first bytes as it left this place, in hexadecimal, if they were asked for and are others than
    /// before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// How a packet's way ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WayEnd {
    /// A port has sent it.
    Transmitted,
    /// The function was where it was going.
    Consumed,
    /// A function dropped it.
    Dropped,
    /// It was lost, for the reason of its last hop.
    Lost,
    /// A function holds it.
    Held,
    /// It was not seen again, at any place that is looked at.
    Unseen,
}

/// How a trace ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceEnd {
    /// Packets that were told of.
    pub packets: u64,
    /// Packets that should have been followed and were not, because there were too many at a time.
    pub missed: u64,
    /// Ports and functions that were looked at.
    pub places: u64,
    /// Ports and functions that were too many to be looked at.
    pub places_left_out: u64,
}
