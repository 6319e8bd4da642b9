//! The network function `firewall`: filters IPv4 and IPv6 by ordered rules and tracks connections, as a
//! transparent bridge between its two interfaces.
//!
//! What a packet goes through is described in [`packet_filter`]; here is what the operator says of it
//! ([`settings`]) and what he is told ([`metrics`]).
//!
//! Limits: those of `packet_filter`. The packet is never written.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

pub mod metrics;
pub mod settings;

#[cfg(test)]
mod tests;

use alloc::string::String;
use metrics::NAMES;
use nf_sdk::{
    Batch, Config, Error, Host, Nanos, NetworkFunction, StateReader, StateWriter, superfluid_function,
};
use packet_filter::filter::Filter;
use packet_filter::judge::{Judge, judge_tracked};
use packet_filter::rule_set::RuleSet;
use packet_filter::tracker::Tracker;
use settings::Settings;

/// The function.
pub struct Firewall {
    filter: Filter<RuleSet, { NAMES.len() }>,
    /// Flows that come from another instance have to be accepted by the rules.
    recheck: bool,
}

impl NetworkFunction for Firewall {
    fn new(config: &Config) -> Result<Firewall, Error> {
        let Settings { default_action, handling, tracking, recheck, rules } = Settings::read(config)?;
        let secret = config.secret()?;
        let no_memory = || Error::Refused(String::from("not enough memory for rules and flows"));
        let tracker = match tracking {
            Some(tracking) => Some(Tracker::new(&tracking, &secret).ok_or_else(no_memory)?),
            None => None,
        };
        let rules = RuleSet::new(rules, default_action).ok_or_else(no_memory)?;
        Ok(Firewall { filter: Filter::new(Judge::new(rules, handling, &secret), tracker), recheck })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        match self.filter.tracker {
            None => self.filter.process_stateless(batch, now),
            Some(_) => self.filter.process(batch, now, |_, _| true, judge_tracked),
        }
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        self.filter.timer(host, now);
    }

    fn finish(&mut self, host: &mut Host, _now: Nanos) -> bool {
        self.filter.finish(host);
        false
    }

    fn report(&self, out: &mut String, _now: Nanos) -> bool {
        metrics::report(&self.filter, out);
        true
    }

    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        self.filter.export_state(out)
    }

    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        self.filter.import_state(self.recheck, entries)
    }
}

superfluid_function!(Firewall);
