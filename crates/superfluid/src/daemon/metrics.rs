//! The account as metrics, with what the wiring knows of each function.

use clock::{Cycles, Nanos};
use daemon::Exposition;
use engine::Account;
use host::Catalog;
use metrics::{Function, Notation};
use std::collections::HashMap;
use wiring::Wiring;

/// Writes what was counted up to now.
pub(crate) fn write(
    account: &Account,
    busy: &[Cycles],
    wiring: &Wiring,
    catalog: &Catalog,
    started: Nanos,
    exposition: Exposition,
    to: &mut String,
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
                calls: None,
                waiting: None,
            }
        })
        .collect();
    let (clock, version) = (*guest_wasm::watchdog::clock(), env!("CARGO_PKG_VERSION"));
    metrics::Host { account, clock, busy, version, started, functions: &functions }.write(notation, to);
}
