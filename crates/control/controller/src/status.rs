//! How functions are.

use super::controller::{Controller, lock};
use api::{FunctionMemory, FunctionState, FunctionStatus, Kind, Latency, ObjectName};
use engine::InstanceAccount;
use std::time::{Duration, Instant};
use telemetry::Latencies;
use telemetry::clock::Cycles;

impl Controller {
    /// How one is; `None`: it is not there.
    pub(super) fn function_status(&self, name: &str) -> Option<FunctionStatus> {
        let host = &self.host;
        let (account, image) = (host.account_of(name)?, host.image_of(name)?);
        let known = host.function_memory(name, account.memory, account.frozen);
        let image = self.catalog.load(&image).map(|image| digest(&image));
        let got_share = share_of(self, name, account.cycles);
        let memory = FunctionMemory {
            private: account.memory,
            page_tables: known.as_ref().map_or(0, |known| known.page_tables),
            runtime: known.as_ref().map_or(0, |known| known.runtime),
            promised: known.as_ref().map_or(0, |known| known.promised),
            disk: self.folder.bytes_of(name),
        };
        Some(status_of(account, memory, image.unwrap_or_default(), got_share))
    }
}

/// What a tenant is told of an object of its own that was left out: why may be another tenant's business.
const NOT_STARTED: &str = "it could not be started with the daemon; the administrator is told why";

impl Controller {
    /// How a function is that could not be started when the daemon began.
    pub(super) fn status_left_out(&self, name: &str, tenant: Option<&str>) -> Option<FunctionStatus> {
        let reason = lock(&self.left_out).get(&ObjectName::new(Kind::Function, name)).cloned()?;
        Some(FunctionStatus::down(if tenant.is_some() { NOT_STARTED.to_owned() } else { reason }))
    }
}

/// The share of a core that a function got since it was last asked for, a tenth of a second ago or more.
pub(super) fn share_of(controller: &Controller, name: &str, cycles: Cycles) -> f64 {
    let now = Instant::now();
    let mut shares = lock(&controller.shares);
    let Some(before) = shares.get_mut(name) else {
        shares.insert(name.to_owned(), (cycles, now, 0.0));
        return 0.0;
    };
    let passed = now.duration_since(before.1);
    if passed >= Duration::from_millis(100) {
        let spent = guest_wasm::watchdog::clock().span(cycles.since(before.0));
        *before = (cycles, now, spent.as_secs_f64() / passed.as_secs_f64());
    }
    before.2
}

/// The digest of an image, as others name it.
pub(super) fn digest(image: &image::Image) -> String {
    format!("sha256:{}", image.digest())
}

/// How a function is.
fn status_of(
    account: InstanceAccount,
    memory: FunctionMemory,
    image: String,
    got_share: f64,
) -> FunctionStatus {
    let mut drops: std::collections::BTreeMap<String, u64> =
        account.own_drops.iter().map(|(name, count)| (format!("function:{name}"), *count)).collect();
    drops.extend(account.ledger.dropped.nonzero().map(|(reason, count)| (reason.to_string(), count)));
    let state = match (&account.down, account.paused) {
        (Some(_), _) => FunctionState::Down,
        (None, true) if account.frozen => FunctionState::Frozen,
        (None, true) => FunctionState::Paused,
        (None, false) => FunctionState::Running,
    };
    FunctionStatus {
        state,
        reason: account.down,
        since: None,
        worker: Some(u32::from(account.worker)),
        image,
        packets: account.packets,
        bytes: account.bytes,
        calls: account.calls,
        cycles: account.cycles.0,
        promised_share: account.promised,
        got_share,
        processor: None,
        standby: None,
        queue: account.queue,
        drops,
        latency: latency(&account.latencies),
        memory,
        faults: account.faults,
        restarts: account.restarts,
    }
}

/// How long packets took, in short. Times that are too long to be told apart are the longest that there is.
pub(super) fn latency(counted: &Latencies) -> Option<Latency> {
    // Every JSON reader takes this exactly.
    let most = |nanos: u64| nanos.min((1 << 53) - 1);
    Some(Latency {
        mean_ns: most(counted.sum().checked_div(counted.count())?),
        p50_ns: most(counted.quantile(0.5)?),
        p99_ns: most(counted.quantile(0.99)?),
    })
}
