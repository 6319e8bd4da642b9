//! What each tenant may have of the thread that asks the links: asks, and how much its functions are told.

use super::pace::Pace;
use neighbours::Asker;
use std::collections::{BTreeSet, HashMap};
use telemetry::clock::Nanos;

/// From one ask of a tenant to the next, in the long run, and how many at once: all neighbours of four
/// devices.
const ASKS_APART: Nanos = Nanos(500_000);
const ASKS_AT_ONCE: u64 = 4096;
/// The same for entries that its functions are told.
const ENTRIES_APART: Nanos = Nanos(5_000);
const ENTRIES_AT_ONCE: u64 = 65_536;

/// A tenant with functions that open stations.
#[derive(Debug)]
pub(super) struct Tenant {
    /// As which it asks.
    pub(super) asker: Asker,
    /// Its asks; what is beyond is lost, and functions ask again for it.
    pub(super) asks: Pace,
    /// Entries that its functions are told.
    pub(super) told: Pace,
}

/// All of them, by their names.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    pub(super) by_name: HashMap<String, Tenant>,
    /// How many there have been.
    count: u64,
}

impl Tenants {
    /// There is no other than these any more.
    pub(super) fn follow(&mut self, names: &BTreeSet<&str>) -> BTreeSet<Asker> {
        self.by_name.retain(|name, _| names.contains(name.as_str()));
        for name in names {
            if !self.by_name.contains_key(*name) {
                self.count += 1;
                let (asks, told) =
                    (Pace::new(ASKS_APART, ASKS_AT_ONCE), Pace::new(ENTRIES_APART, ENTRIES_AT_ONCE));
                // A number of its own, also where one of this name was there before; the first one is the
                // device's.
                let tenant = Tenant { asker: Asker(self.count), asks, told };
                self.by_name.insert((*name).to_owned(), tenant);
            }
        }
        self.by_name.values().map(|tenant| tenant.asker).collect()
    }
}
