//! Memory: what is promised, and what may be.

use crate::Family;
use crate::column::{self, Column};
use crate::text::{Labels, Text, Value};
use telemetry::clock::Clock;

/// What a tenant is promised of the host's memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct TenantMemory<'a> {
    /// Its name.
    pub name: &'a str,
    /// What its pools and its functions may come to take.
    pub promised: u64,
    /// What is kept for it, whether it asks for it or not.
    pub reserve: u64,
    /// The most that it is promised, if there is such a bound.
    pub limit: Option<u64>,
}

/// What the host promises, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory<'a> {
    /// The tenants, in the order in which they are told.
    pub tenants: &'a [TenantMemory<'a>],
    /// What is promised to all together.
    pub promised: u64,
    /// The most that may be, if there is such a bound.
    pub limit: Option<u64>,
}

/// Of one tenant, without its name.
struct Numbers {
    promised: u64,
    reserve: u64,
    limit: Option<u64>,
}

static TENANT: [Column<Numbers>; 2] = [
    Column::one(
        Family::gauge(
            "superfluid_tenant_memory_promised_bytes",
            "bytes",
            &["tenant"],
            "What a tenant's pools and functions may come to take.",
        ),
        |tenant, _| Value::Count(tenant.promised),
    ),
    Column::one(
        Family::gauge(
            "superfluid_tenant_memory_reserved_bytes",
            "bytes",
            &["tenant"],
            "What is kept for a tenant, whether it asks for it or not.",
        ),
        |tenant, _| Value::Count(tenant.reserve),
    ),
];

static LIMIT: [Column<Numbers>; 1] = [Column::one(
    Family::gauge(
        "superfluid_tenant_memory_limit_bytes",
        "bytes",
        &["tenant"],
        "The most that a tenant is promised, of those that have such a bound.",
    ),
    |tenant, _| Value::Count(tenant.limit.unwrap_or(0)),
)];

static PROMISED: Family = Family::gauge(
    "superfluid_memory_promised_bytes",
    "bytes",
    &[],
    "What all together are promised, with what is kept for tenants that do not ask for it.",
);

static MOST: Family = Family::gauge(
    "superfluid_memory_limit_bytes",
    "bytes",
    &[],
    "The most that may be promised; not told when there is no bound.",
);

pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    let columns = TENANT.iter().chain(&LIMIT).map(|column| &column.family);
    [&PROMISED, &MOST].into_iter().chain(columns)
}

pub(crate) fn write(memory: &Memory<'_>, clock: &Clock, text: &mut Text<'_>) {
    let none = Labels::none();
    text.family(&PROMISED, &none).one(0, Value::Count(memory.promised));
    let mut most = text.family(&MOST, &none);
    if let Some(limit) = memory.limit {
        most.one(0, Value::Count(limit));
    }
    tenants(&TENANT, memory.tenants, clock, text);
    let bounded: Vec<_> = memory.tenants.iter().filter(|tenant| tenant.limit.is_some()).copied().collect();
    tenants(&LIMIT, &bounded, clock, text);
}

fn tenants(columns: &[Column<Numbers>], tenants: &[TenantMemory<'_>], clock: &Clock, text: &mut Text<'_>) {
    let labels = Labels::named("tenant", tenants.iter().map(|tenant| tenant.name));
    let rows: Vec<Numbers> = tenants
        .iter()
        .map(|tenant| Numbers { promised: tenant.promised, reserve: tenant.reserve, limit: tenant.limit })
        .collect();
    column::write(columns, &rows, &labels, clock, text);
}
