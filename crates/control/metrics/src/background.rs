//! What is done for tenants beside the workers: starts, hand-overs, compilation.

use crate::Family;
use crate::column::{self, Column};
use crate::text::{Labels, Text, Value};
use telemetry::clock::{Clock, Nanos};

/// What is done for a tenant beside the workers.
#[derive(Clone, Copy, Debug)]
pub struct TenantBackground<'a> {
    /// Its name.
    pub name: &'a str,
    /// Processor time that was charged to it.
    pub used: Nanos,
    /// Jobs that wait for a thread, or for the tenant's share.
    pub waiting: u64,
}

/// Of one tenant, without its name.
struct Numbers {
    used: Nanos,
    waiting: u64,
}

static TENANT: [Column<Numbers>; 2] = [
    Column::one(
        Family::counter(
            "superfluid_tenant_background_seconds",
            "seconds",
            &["tenant"],
            "Processor time used for a tenant beside the workers: starts, hand-overs, freezing, thawing, saving, compilation, requests. Of `default`, which has no bound, starts count with the time that they take.",
        ),
        |tenant, _| Value::Time(tenant.used),
    ),
    Column::one(
        Family::gauge(
            "superfluid_tenant_background_waiting_jobs",
            "jobs",
            &["tenant"],
            "Jobs of a tenant that wait for a thread beside the workers, or for the tenant's share of them.",
        ),
        |tenant, _| Value::Count(tenant.waiting),
    ),
];

pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    TENANT.iter().map(|column| &column.family)
}

pub(crate) fn write(tenants: &[TenantBackground<'_>], clock: &Clock, text: &mut Text<'_>) {
    let labels = Labels::named("tenant", tenants.iter().map(|tenant| tenant.name));
    let number = |tenant: &TenantBackground<'_>| Numbers { used: tenant.used, waiting: tenant.waiting };
    let rows: Vec<Numbers> = tenants.iter().map(number).collect();
    column::write(&TENANT, &rows, &labels, clock, text);
}
