//! The function: each packet goes to the totals and to the flow table.

use crate::config::Settings;
use crate::flow_id::FlowId;
use crate::flow_table::FlowTable;
use crate::sighting;
use crate::totals::Totals;
use crate::{report, state};
use alloc::string::String;
use nf_sdk::{
    Batch, Config, Error, Host, MAX_BATCH, Nanos, NetworkFunction, Severity, StateReader, StateWriter,
    Verdict,
};

/// A packet on its way to the flow table.
#[derive(Clone, Copy, Default)]
struct Pending {
    flow: FlowId,
    hash: u64,
    bytes: u64,
}

/// An instance of the function.
pub struct Monitor {
    settings: Settings,
    totals: Totals,
    table: FlowTable,
    /// The table's hash has a key that strangers cannot know.
    seeded: bool,
    timer_set: bool,
    pending: [Pending; MAX_BATCH],
}

impl Monitor {
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn table(&self) -> &FlowTable {
        &self.table
    }

    /// Adds what another instance saw.
    pub(crate) fn merge(&mut self, other: &state::State) {
        if !self.seeded {
            self.seeded = true;
            self.table.reseed(other.seed);
        }
        self.totals.merge(&other.totals);
        self.table.merge(&other.flows, other.floor);
    }
}

impl NetworkFunction for Monitor {
    fn new(config: &Config) -> Result<Monitor, Error> {
        let settings = Settings::read(config)?;
        Ok(Monitor {
            totals: Totals::new(),
            table: FlowTable::new(settings.flows, 0),
            seeded: false,
            timer_set: false,
            pending: [Pending::default(); MAX_BATCH],
            settings,
        })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        if !self.seeded || (!self.timer_set && self.settings.interval.is_some()) {
            self.first(batch.host(), now);
        }
        self.totals.at(now);
        // First everything that needs the packet, then everything that needs the table: so the misses of one packet in the
        // processor's caches overlap with those of the next.
        let mut waiting = 0;
        for mut packet in batch.packets() {
            let bytes = packet.len() as u64;
            let seen = sighting::look(&packet, self.settings.bidirectional);
            packet.verdict(Verdict::Interface(1 - packet.ingress().min(1)));
            self.totals.count(&seen, bytes);
            if let Some(flow) = seen.flow
                && let Some(place) = self.pending.get_mut(waiting)
            {
                *place = Pending { flow, hash: self.table.hash(&flow), bytes };
                waiting += 1;
            }
        }
        for Pending { flow, hash, bytes } in self.pending.iter().take(waiting) {
            self.table.count(flow, *hash, *bytes);
        }
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        if let Some(interval) = self.settings.interval {
            host.log(Severity::Info, &report::line(self));
            host.timer_set(now.saturating_add(interval));
        }
    }

    fn report(&self, out: &mut String, _now: Nanos) -> bool {
        report::write(self, out);
        true
    }

    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        state::write(self, out)
    }

    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        match state::State::read(entries) {
            Some(state) => {
                self.merge(&state);
                true
            }
            None => false,
        }
    }
}

impl Monitor {
    /// What can only be done once the time is known.
    #[cold]
    fn first(&mut self, host: &mut Host, now: Nanos) {
        if !self.seeded {
            // To the nanosecond, nobody outside knows when the first packet was looked at.
            self.seeded = true;
            self.table.reseed(now.0);
        }
        if let Some(interval) = self.settings.interval {
            self.timer_set = true;
            host.timer_set(now.saturating_add(interval));
        }
    }
}
