//! Pools of packet memory.

use crate::Family;
use crate::column::{self, Column};
use crate::text::{Labels, Text, Value};
use telemetry::clock::Clock;

/// Name, buffers that are free, and all.
type Pool = (String, usize, usize);

static POOL: [Column<Pool>; 2] = [
    Column::one(
        Family::gauge("superfluid_pool_buffers", "buffers", &["pool"], "Buffers that a pool has."),
        |(_, _, all), _| Value::Count(*all as u64),
    ),
    Column::one(
        Family::gauge(
            "superfluid_pool_free_buffers",
            "buffers",
            &["pool"],
            "Buffers of a pool that no packet is in.",
        ),
        |(_, free, _), _| Value::Count(*free as u64),
    ),
];

pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    POOL.iter().map(|column| &column.family)
}

pub(crate) fn write(pools: &[Pool], clock: &Clock, text: &mut Text<'_>) {
    let labels = Labels::named("pool", pools.iter().map(|(name, ..)| name.as_str()));
    column::write(&POOL, pools, &labels, clock, text);
}
