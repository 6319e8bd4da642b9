//! The account as metrics, with what the wiring knows of each function.

use super::attaching::Attaching;
use super::container_readings;
use super::containers::container_digest;
use super::standing::Standing;
use ::metrics::{Container, Function, Memory, Notation, Station, TenantBackground, TenantMemory};
use api::FunctionState;
use api_server::Exposition;
use deployment::{BesideReading, Catalog, DeviceFrames, HostMemory};
use engine::{Account, PortAccount};
use launcher::keeper::Condition;
use offload::Usage;
use std::collections::{BTreeMap, HashMap};
use telemetry::clock::{Cycles, Nanos};
use wiring::{Wiring, container_port};

/// What the host knows beside the account.
pub(crate) struct Known<'a> {
    pub(crate) wiring: &'a Wiring,
    pub(crate) memory: &'a HostMemory,
    /// How the keeper has a container.
    pub(crate) condition: &'a dyn Fn(&str) -> Option<Condition>,
    /// Which of them have attached.
    pub(crate) attaching: &'a Attaching,
    /// Most bytes that may be promised.
    pub(crate) limit: Option<u64>,
    /// What the engine knows of containers.
    pub(crate) beside: &'a HashMap<String, BesideReading>,
    /// What is done beside the workers, by tenant.
    pub(crate) background: &'a BTreeMap<String, Usage>,
    /// Frames of devices that are stations.
    pub(crate) stations: &'a BTreeMap<String, DeviceFrames>,
}

/// Writes what was counted up to now.
pub(crate) fn write(
    account: &Account,
    busy: &[Cycles],
    known: &Known<'_>,
    catalog: &Catalog,
    started: Nanos,
    events: impl Fn(&str) -> (u64, u64),
    (exposition, to): (Exposition, &mut String),
) {
    let Known { wiring, memory, condition, attaching, limit, beside, background, stations } = *known;
    let notation = match exposition {
        Exposition::Prometheus => Notation::Prometheus,
        Exposition::OpenMetrics => Notation::OpenMetrics,
    };
    let mut digests: HashMap<&str, String> = HashMap::new();
    for instance in wiring.instances.values() {
        digests.entry(&instance.image).or_insert_with(|| {
            catalog
                .load(&instance.image)
                .map(|image| format!("sha256:{}", image.digest()))
                .unwrap_or_default()
        });
    }
    let functions: Vec<Function<'_>> = account
        .instances
        .iter()
        .map(|counted| {
            let known = wiring.instances.get(&counted.name);
            let image = known.map_or("", |known| known.image.as_str());
            Function {
                tenant: known.map_or("", |known| known.tenant.as_str()),
                image,
                digest: digests.get(image).map_or("", String::as_str),
                events: Some(events(&counted.name)),
                calls: None,
                waiting: None,
            }
        })
        .collect();
    let (clock, version) = (*guest_wasm::watchdog::clock(), env!("CARGO_PKG_VERSION"));
    let tenants: Vec<TenantMemory<'_>> = memory
        .tenants
        .iter()
        .map(|tenant| TenantMemory {
            name: &tenant.name,
            promised: tenant.promised,
            reserve: tenant.memory.reserve,
            limit: tenant.memory.limit,
        })
        .collect();
    let memory = Memory { tenants: &tenants, promised: memory.promised(), limit };
    let background: Vec<TenantBackground<'_>> = background
        .iter()
        .map(|(name, usage)| TenantBackground { name, used: usage.used, waiting: usage.waiting as u64 })
        .collect();
    let ports: HashMap<&str, &PortAccount> = match wiring.containers.is_empty() {
        true => HashMap::new(),
        false => account.ports.iter().map(|port| (port.name.as_str(), port)).collect(),
    };
    let containers = wiring.containers.iter().map(|(name, container)| {
        let condition = condition(name).unwrap_or_default();
        let port = |name: &str| ports.get(name).copied();
        let standing = Standing::of((name, container), &condition, attaching, port);
        let named = container.interfaces.iter().map(|it| container_port(name, &it.name));
        let at_ports = named.filter_map(|name| port(&name));
        let counted = container_readings::read(&container.tenant, standing.state, 0, at_ports);
        let reading = beside.get(name);
        let engine = reading.map_or(Nanos(0), |reading| clock.span(reading.meter.used()));
        Container {
            name: name.clone(),
            tenant: container.tenant.clone(),
            up: standing.state == FunctionState::Running,
            starting: standing.state == FunctionState::Starting,
            faults: condition.faults,
            restarts: condition.restarts,
            used: Nanos(condition.cpu_us.saturating_mul(1000)),
            engine,
            promised: reading.and_then(|reading| reading.promised).unwrap_or(0.0),
            memory: condition.memory,
            image: container.image.clone(),
            digest: container_digest(container).unwrap_or_default(),
            events: events(name),
            worker: container.worker,
            packets: counted.packets,
            bytes: counted.bytes,
            queue: counted.queue,
            dropped: counted.dropped,
            missed: counted.missed,
            latencies: counted.latencies,
        }
    });
    let containers: Vec<Container> = containers.collect();
    let stations = stations.iter().map(|(device, DeviceFrames { frames, neighbours })| Station {
        device: device.clone(),
        received: frames.received,
        ignored: frames.ignored,
        sent: frames.sent,
        dropped: frames.dropped.iter().map(|(reason, count)| (*reason, *count)).collect(),
        neighbours: *neighbours as u64,
    });
    let stations: Vec<Station> = stations.collect();
    ::metrics::Host {
        account,
        clock,
        busy,
        version,
        started,
        functions: &functions,
        containers: &containers,
        memory,
        background: &background,
        stations: &stations,
    }
    .write(notation, to);
}
