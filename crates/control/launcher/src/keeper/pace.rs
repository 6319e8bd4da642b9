//! How often a tenant's containers are started, or their limits changed: each costs some processes of root's,
//! in no account of the tenant's.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// From one to the next, in the long run; and how many at once.
const APART: Duration = Duration::from_millis(500);
const AT_ONCE: u32 = 32;

/// A token bucket for each tenant, kept as the moment at which it is full again.
#[derive(Debug, Default)]
pub(super) struct Paces {
    full: HashMap<String, Instant>,
}

impl Paces {
    /// When the next one of a tenant may be asked for, if it has to wait.
    pub(super) fn waits_until(&self, tenant: &str, now: Instant) -> Option<Instant> {
        let ready = self.full.get(tenant)?.checked_sub(APART * (AT_ONCE - 1))?;
        (ready > now).then_some(ready)
    }

    /// One of a tenant is asked for.
    pub(super) fn spend(&mut self, tenant: &str, now: Instant) {
        self.full.retain(|_, full| *full > now);
        let full = self.full.entry(tenant.to_owned()).or_insert(now);
        *full += APART;
    }
}
