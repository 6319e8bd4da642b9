//! The account as metrics, with what the wiring knows of each function.

use ::metrics::{Function, Memory, Notation, TenantMemory};
use api_server::Exposition;
use deployment::{Catalog, HostMemory};
use engine::Account;
use std::collections::HashMap;
use telemetry::clock::{Cycles, Nanos};
use wiring::Wiring;

/// Writes what was counted up to now.
pub(crate) fn write(
    account: &Account,
    busy: &[Cycles],
    (wiring, memory, limit): (&Wiring, &HostMemory, Option<u64>),
    catalog: &Catalog,
    started: Nanos,
    events: impl Fn(&str) -> (u64, u64),
    (exposition, to): (Exposition, &mut String),
) {
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
    ::metrics::Host { account, clock, busy, version, started, functions: &functions, memory }
        .write(notation, to);
}
