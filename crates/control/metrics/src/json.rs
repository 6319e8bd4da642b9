//! Accounts as JSON, one object a line. The names are part of the interface; `docs/configuration.md` lists
//! them.

use engine::{
    Account, DeviceAccount, InstanceAccount, PortAccount, PortDevicesAccount, SwitchAccount, WorkerTime,
};
use port::PortStatus;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use telemetry::clock::Cycles;
use telemetry::{DropCounters, Ledger};

/// What a container, a program or a virtual machine has done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerAccount {
    /// Its name.
    pub name: String,
    /// `running`, `starting` or `down`.
    pub state: &'static str,
    /// Why it does not run.
    pub reason: Option<String>,
    /// Packets that it was given, and their bytes.
    pub packets: u64,
    /// See `packets`.
    pub bytes: u64,
    /// Packets that wait at its ports.
    pub queue: u64,
    /// What its ports lost.
    pub dropped: DropCounters,
    /// Copies that it should have been given as an observer and was not.
    pub missed: u64,
    /// What the engine used for its packets, where no function in the sandbox was charged for it.
    pub engine: Cycles,
    /// What its processes have used since they were started.
    pub processes: Cycles,
    /// The part of its worker's core that it is promised, 0 to 1; 0 without a worker.
    pub promised: f64,
    /// The worker that it stays beside, counted from 0.
    pub worker: Option<usize>,
    /// Bytes of memory that it has, and may have.
    pub memory: u64,
    /// See `memory`.
    pub memory_limit: u64,
    /// How often it ended, or could not be started.
    pub faults: u64,
    /// How often it was started again.
    pub restarts: u64,
}

/// An account; `kind` is `account` or `final`. Text that is written part by part: a host may have tens of
/// thousands of functions.
pub fn account(kind: &str, account: &Account, containers: &[ContainerAccount]) -> String {
    text(&Shown { kind, account, containers, sums: true })
}

/// What of an account is a tenant's, and no more: without sums, which are the host's.
pub fn account_of_tenant(account: &Account, containers: &[ContainerAccount]) -> String {
    text(&Shown { kind: "account", account, containers, sums: false })
}

fn text(shown: &Shown<'_>) -> String {
    // About as much as it takes: text that grows is copied, and what it leaves behind stays with the process
    // for a while.
    let mut text =
        Vec::with_capacity(4096 + 512 * (shown.account.instances.len() + shown.account.ports.len()));
    // Only a map whose keys are no text cannot be written, and there are none.
    let written = serde_json::to_writer(&mut text, shown);
    written.ok().and_then(|()| String::from_utf8(text).ok()).unwrap_or_default()
}

struct Shown<'a> {
    kind: &'a str,
    account: &'a Account,
    containers: &'a [ContainerAccount],
    sums: bool,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Shown { kind, account, containers, sums } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("event", kind)?;
        map.serialize_entry("time", &account.at.nanos.0)?;
        if *sums {
            map.serialize_entry("packets", &ledger(&account.ledger))?;
            map.serialize_entry("in_flight", &account.in_flight)?;
            // Of parts of different moments it cannot be said.
            if account.at_one_moment {
                map.serialize_entry("balanced", &account.balance().is_ok())?;
            }
        }
        map.serialize_entry("ports", &Named(&account.ports, |port| (&port.name, self::port(port))))?;
        let of = |function| Named(&account.instances, function);
        map.serialize_entry("functions", &of(|function| (&function.name, self::function(function))))?;
        let containers = Named(containers, |one| (&one.name, self::container(one)));
        map.serialize_entry("containers", &containers)?;
        let devices = Named(&account.devices, |device| (&device.name, self::device(device)));
        map.serialize_entry("devices", &devices)?;
        if *sums {
            map.serialize_entry(
                "switches",
                &Named(&account.switches, |switch| (&switch.name, self::switch(switch))),
            )?;
            map.serialize_entry(
                "port_devices",
                &Named(&account.port_devices, |port| (&port.name, port_devices(port))),
            )?;
            map.serialize_entry("pools", &Named(&account.pools, |pool| (&pool.0, self::pool(pool))))?;
            map.serialize_entry("workers", &account.workers.iter().map(worker).collect::<Vec<_>>())?;
        }
        map.end()
    }
}

/// Many of a kind, each made when it is written.
struct Named<'a, T>(&'a [T], fn(&T) -> (&String, Value));

impl<T> Serialize for Named<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(self.1))
    }
}

/// How a port is in one word, and why it is down.
pub fn port_state(status: &PortStatus) -> (&'static str, Option<&String>) {
    match status {
        PortStatus::Up => ("up", None),
        PortStatus::Down(reason) => ("down", Some(reason)),
        PortStatus::Finished => ("finished", None),
    }
}

fn port(port: &PortAccount) -> Value {
    let (status, reason) = port_state(&port.status);
    json!({
        "status": status, "reason": reason, "packets": ledger(&port.counters.ledger),
        "received_bytes": port.counters.received_bytes, "delivered_bytes": port.counters.delivered_bytes,
        "kernel_lost": port.counters.kernel_lost, "in_flight": port.in_flight,
        "details": port.details.iter().map(|(name, n)| ((*name).to_owned(), json!(n))).collect::<Map<_, _>>(),
    })
}

fn function(function: &InstanceAccount) -> Value {
    let report = function.report.as_ref().map(|text| parsed_or_text(text));
    json!({
        "packets": function.packets, "bytes": function.bytes, "calls": function.calls,
        "cycles": function.cycles.0, "faults": function.faults, "restarts": function.restarts,
        "missed": function.missed, "in_flight": function.in_flight, "down": function.down,
        "promised_share": function.promised, "throttled_cycles": function.throttled.0,
        "queue": function.queue, "overruns": function.overruns, "suspensions": function.suspensions,
        "paused": function.paused, "frozen": function.frozen, "worker": function.worker,
        "ledger": ledger(&function.ledger), "drops": named(&function.own_drops),
        "counters": named(&function.counters), "report": report,
    })
}

fn container(container: &ContainerAccount) -> Value {
    let ContainerAccount { engine, processes, .. } = container;
    json!({
        "state": container.state, "reason": container.reason,
        "packets": container.packets, "bytes": container.bytes, "queue": container.queue,
        "drops": drops(&container.dropped), "missed": container.missed, "cycles": engine.0 + processes.0,
        "engine_cycles": engine.0, "processes_cycles": processes.0,
        "promised_share": container.promised, "worker": container.worker,
        "memory": container.memory, "memory_limit": container.memory_limit,
        "faults": container.faults, "restarts": container.restarts,
    })
}

fn pool((_, free, all): &(String, usize, usize)) -> Value {
    json!({ "buffers": all, "free": free })
}

fn worker(worker: &WorkerTime) -> Value {
    json!({
        "overhead_cycles": worker.overhead.0, "asleep_cycles": worker.asleep.0,
        "withheld_cycles": worker.withheld.0,
    })
}

fn switch(SwitchAccount { ports, counters, .. }: &SwitchAccount) -> Value {
    json!({
        "ports": ports, "stations": counters.entries(), "learned": counters.learned, "moved": counters.moved,
        "aged": counters.aged, "evicted": counters.evicted, "flushed": counters.flushed,
        "deferred": counters.deferred, "flooded": counters.flooded, "returned": counters.returned,
        "reserved": counters.reserved, "no_source": counters.no_source,
    })
}

fn device(DeviceAccount { counters, openers, .. }: &DeviceAccount) -> Value {
    json!({
        "openers": openers, "from_ports": counters.from_ports, "bytes_from_ports": counters.bytes_from_ports,
        "from_openers": counters.from_openers, "bytes_from_openers": counters.bytes_from_openers,
        "copied": counters.copied, "unreceived": counters.unreceived, "filtered": counters.filtered,
    })
}

fn port_devices(PortDevicesAccount { counters, .. }: &PortDevicesAccount) -> Value {
    json!({
        "received": counters.received, "transmitted": counters.transmitted, "seen": counters.seen,
        "unwanted": counters.unwanted,
    })
}

/// What a function wrote as JSON. What is none is the function's own doing, and shown as the text that it is.
pub fn parsed_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Where packets came from and where they ended.
pub fn ledger(ledger: &Ledger) -> Value {
    json!({
        "received": ledger.received, "generated": ledger.generated, "copied": ledger.copied, "split": ledger.split,
        "delivered": ledger.delivered, "consumed": ledger.consumed, "merged": ledger.merged,
        "dropped": drops(&ledger.dropped),
    })
}

fn drops(drops: &DropCounters) -> Value {
    drops
        .nonzero()
        .map(|(reason, count)| (reason.name().to_owned(), json!(count)))
        .collect::<Map<_, _>>()
        .into()
}

fn named(counts: &[(String, u64)]) -> Value {
    counts.iter().map(|(name, count)| (name.clone(), json!(count))).collect::<Map<_, _>>().into()
}
