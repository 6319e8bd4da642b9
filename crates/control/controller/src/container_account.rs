//! What containers, programs and virtual machines have done, for an account: what the launcher says of their
//! processes, what the engine used for their packets, and what their ports count.

use super::attaching::Attaching;
use super::container_readings;
use super::standing::Standing;
use ::metrics::json::ContainerAccount;
use deployment::Host;
use engine::{Account, PortAccount};
use launcher::Keeper;
use launcher::keeper::Why;
use std::collections::HashMap;
use telemetry::clock::Nanos;
use wiring::{Container, container_port};

/// What it is known from, beside an account.
#[derive(Clone, Copy)]
pub struct ContainerSources<'a> {
    /// Where their packets pass.
    pub host: &'a Host,
    /// What the launcher says of them.
    pub keeper: Option<&'a Keeper>,
    /// Which of them have attached.
    pub attaching: &'a Attaching,
    /// What part of a core each is promised that stays beside a worker.
    pub promised: &'a HashMap<String, f64>,
}

impl std::fmt::Debug for ContainerSources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContainerSources").finish_non_exhaustive()
    }
}

/// What these have done, in their order, in words for the reader that `words` knows.
pub fn container_accounts<'a>(
    containers: impl IntoIterator<Item = (&'a String, &'a Container)>,
    account: &Account,
    from: ContainerSources<'_>,
    words: impl Fn(&Why) -> String,
) -> Vec<ContainerAccount> {
    let mut containers = containers.into_iter().peekable();
    if containers.peek().is_none() {
        return Vec::new();
    }
    let ports: HashMap<&str, &PortAccount> =
        account.ports.iter().map(|port| (port.name.as_str(), port)).collect();
    let clock = guest_wasm::watchdog::clock();
    let beside = from.host.beside(false);
    let one = |(name, container): (&String, &Container)| {
        let condition = from.keeper.and_then(|keeper| keeper.condition(name)).unwrap_or_default();
        let port = |name: &str| ports.get(name).copied();
        let standing = Standing::of((name, container), &condition, from.attaching, port);
        let named = container.interfaces.iter().map(|it| container_port(name, &it.name));
        let counted = named.filter_map(|name| port(&name));
        let read = container_readings::read(&container.tenant, standing.state, 0, counted);
        ContainerAccount {
            name: name.clone(),
            state: standing.state.as_str(),
            reason: standing.reason.as_ref().map(&words),
            packets: read.packets,
            bytes: read.bytes,
            queue: read.queue,
            dropped: read.dropped,
            missed: read.missed,
            engine: beside.get(name).map(|reading| reading.meter.used()).unwrap_or_default(),
            processes: clock.cycles(Nanos(condition.cpu_us.saturating_mul(1000))),
            promised: from.promised.get(name).copied().unwrap_or(0.0),
            worker: container.worker,
            memory: condition.memory,
            memory_limit: container.promised_memory(),
            faults: condition.faults,
            restarts: condition.restarts,
        }
    };
    containers.map(one).collect()
}
