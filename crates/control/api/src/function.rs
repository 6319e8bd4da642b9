//! How a function is, and what can be asked of one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a function runs as: the key `guest` of its spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestKind {
    /// In the sandbox, which is what a spec means that does not say.
    Wasm,
    /// As a container.
    Container,
    /// As a program of the host, confined as a container is; a virtual machine is QEMU, which is one.
    Program,
}

impl GuestKind {
    /// Whether the launcher starts it, and its interfaces are ports.
    pub fn is_launched(self) -> bool {
        self != GuestKind::Wasm
    }
}

/// What the function of a spec runs as.
pub fn guest_of(spec: &Value) -> GuestKind {
    match spec.get("guest").and_then(Value::as_str) {
        Some("container") => GuestKind::Container,
        Some("program" | "vm") => GuestKind::Program,
        _ => GuestKind::Wasm,
    }
}

/// Whether a function gets packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FunctionState {
    /// It is called with packets.
    Running,
    /// It was paused: packets wait in its queue, and what finds no room there is dropped and counted.
    Paused,
    /// It failed, and is started again in a while.
    Down,
    /// A container, program or virtual machine that is being started, or runs and has not attached at its
    /// sockets yet: no packet reaches it.
    Starting,
    /// It is paused, and what it needs to run has been given up: it takes next to no memory, and is thawed
    /// when it is resumed.
    Frozen,
}

impl FunctionState {
    /// As it is told.
    pub fn as_str(self) -> &'static str {
        match self {
            FunctionState::Running => "running",
            FunctionState::Paused => "paused",
            FunctionState::Down => "down",
            FunctionState::Starting => "starting",
            FunctionState::Frozen => "frozen",
        }
    }
}

/// How a function is: the `status` of its object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionStatus {
    /// Whether it gets packets.
    pub state: FunctionState,
    /// Why it does not run, or what is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when it is down or starting, of a container, program or virtual machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub since: Option<String>,
    /// The worker that it is on, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    /// Digest of the image that it was made from, `sha256:` and 64 digits.
    pub image: String,
    /// Packets that it was called with.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Calls.
    pub calls: u64,
    /// Processor cycles charged to it.
    pub cycles: u64,
    /// Share of a core that it was promised, 0 to 1.
    pub promised_share: f64,
    /// Share of a core that it got lately, 0 to 1. Of a container, what the engine did for its packets and
    /// what its processes used, together.
    pub got_share: f64,
    /// The two parts of that, of a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<ContainerProcessor>,
    /// Those that stand by, of a container or program that others are to stand by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<ContainerStandby>,
    /// Packets in its queue.
    pub queue: u64,
    /// Packets that it lost or dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// How long packets took from their reception to the end of its verdicts, or until a container was given
    /// them, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Memory that it takes.
    pub memory: FunctionMemory,
    /// How often it failed.
    pub faults: u64,
    /// How often it was started again.
    pub restarts: u64,
}

impl FunctionStatus {
    /// Of one that is not there, for this reason.
    pub fn down(reason: String) -> FunctionStatus {
        FunctionStatus {
            state: FunctionState::Down,
            reason: Some(reason),
            since: None,
            worker: None,
            image: String::new(),
            packets: 0,
            bytes: 0,
            calls: 0,
            cycles: 0,
            promised_share: 0.0,
            got_share: 0.0,
            processor: None,
            standby: None,
            queue: 0,
            drops: BTreeMap::new(),
            latency: None,
            memory: FunctionMemory::default(),
            faults: 0,
            restarts: 0,
        }
    }
}

/// What a container got of the processors: what the engine used for its packets, and what its processes used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerProcessor {
    /// Cycles that the engine used for its packets, where no function in the sandbox was charged for them.
    pub engine_cycles: u64,
    /// The same as a share of a core that it got lately.
    pub engine_share: f64,
    /// Cycles that its processes used.
    pub processes_cycles: u64,
    /// The same as a share of a core that it got lately.
    pub processes_share: f64,
}

/// Which guest of a container or a program has its packets, and how many stand by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerStandby {
    /// The guest that has the packets, by the launcher's name; absent where interfaces are sockets of the
    /// library, at each of which the port decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
    /// How many stand by; of several interfaces the fewest.
    pub processes_standby: u64,
    /// How often one has taken over; of several interfaces the most.
    pub takeovers: u64,
}

/// How long packets took, as bounds that are powers of two: up to twice the true values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// In nanoseconds, all packets together over their number.
    pub mean_ns: u64,
    /// Half of the packets did not take longer; in nanoseconds.
    pub p50_ns: u64,
    /// 99 of a hundred did not take longer; in nanoseconds.
    pub p99_ns: u64,
}

/// Memory that a function takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionMemory {
    /// Its own memory; what of it is there, `/v1/memory` tells.
    pub private: u64,
    /// Page tables for it: at most so many.
    pub page_tables: u64,
    /// What the engine keeps for it: at most so many.
    pub runtime: u64,
    /// What it may come to take, all together.
    #[serde(default)]
    pub promised: u64,
    /// Its snapshots on disk.
    pub disk: u64,
}

/// A new image for a running function, which takes over between two batches: no packet is lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// The image that takes over, as in the function's `spec`.
    #[schemars(length(min = 1))]
    pub image: String,
    /// Its configuration; without it, the one that the function has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
}
