//! The network function `load-balancer`: clients reach services at virtual addresses, and servers share their
//! connections out.
//!
//! A packet's way:
//! 1. [`usual`] reads the common packet (IPv4 without options, TCP or UDP). [`ends`] tells the service that
//!    it is for, or the server that it is from, and its [`connection`] the server. The whole batch is read
//!    first, then all lines of the index are fetched, then all connections; memory answers for the whole
//!    batch at once that way.
//! 2. Every other packet takes the [`slow`] way: [`view`] reads it, [`balancer`] finds its connection or
//!    chooses a server for it by [`maglev`], [`least`] or [`affinity`]; [`icmp`] does the same for errors.
//! 3. Its destination becomes the server's end (and the source of an answer the virtual one, RFC 1624), or IP
//!    stays as it is; [`links`] writes Ethernet addresses, and where they are not known the packet waits.
//! 4. [`checks`] find out which servers are up.
//!
//! A changed configuration or file of servers is another instance, made beside the workers; the change on the
//! packets' way is the hand-over of what [`state`] knows.
//!
//! Limits: 1,024 services, 16,384 servers, 4,000,000 connections; frames with VLAN tags are for no service,
//! and so are packets from the servers' side to a virtual address. Memory is taken once, at the start.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

pub mod affinity;
pub mod balancer;
pub mod checks;
pub mod connection;
pub mod ends;
pub mod icmp;
pub mod least;
pub mod links;
pub mod maglev;
pub mod metrics;
pub mod probe;
pub mod servers_file;
pub mod services;
pub mod settings;
pub mod slow;
mod state;
pub mod usual;
pub mod view;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::String;
use balancer::Balancer;
use checks::Checks;
use links::Links;
use metrics::{Reason, Tally};
use nf_sdk::later_fragments::Fragments;
use nf_sdk::ticks::Ticks;
use nf_sdk::{
    Batch, Config, Error, Host, Nanos, NetworkFunction, StateReader, StateWriter, superfluid_function,
};
use settings::Settings;
use slow::{Around, Course, drop_held};
use usual::Window;

/// How often connections are swept when no packets come.
const SWEEP_INTERVAL: Nanos = Nanos::from_millis(250);
/// How soon tables are made anew for which one call had no time.
const STALE_INTERVAL: Nanos = Nanos::from_millis(10);
/// Most entries that a batch sweeps.
const SWEEP_PER_BATCH: usize = 512;
/// Most entries that the timer sweeps at a time.
const SWEEP_PER_TIMER: usize = 1 << 18;

/// The function.
pub struct LoadBalancer {
    balancer: Balancer,
    links: Links,
    checks: Checks,
    fragments: Fragments<Course>,
    tally: Tally,
    ticks: Ticks,
    passes: bool,
    deadline: Option<Nanos>,
    window: Box<Window>,
    /// What the look-ahead reads comes here: loads without a use of their result are left out by compilers.
    touched: u32,
}

impl LoadBalancer {
    /// Moves time on.
    fn advance(&mut self, now: Nanos, sweep: usize) {
        let tick = self.ticks.at(now);
        self.balancer.advance(now, tick, sweep);
    }

    /// Takes over what the platform tells of the devices, and begins what depends on them.
    #[cold]
    fn update(&mut self, host: &mut Host, now: Nanos) {
        self.links.update(&mut self.balancer.services, host, now);
        self.work(host, now);
    }

    /// Does what is due, and sets the timer to what is due next.
    fn work(&mut self, host: &mut Host, now: Nanos) {
        let over = self.fragments.expired(self.balancer.connections.now, false);
        drop_held(over, &mut self.tally, host);
        self.links.keep(host, now);
        let mut checks = self.checks.timer(&mut self.balancer.services, &self.links, host, now);
        if self.balancer.services.has_stale() {
            self.balancer.services.refresh();
            checks = Some(now.saturating_add(STALE_INTERVAL));
        }
        let needs_sweep = !self.balancer.connections.is_empty() || self.fragments.held() > 0;
        let sweep = needs_sweep.then(|| now.saturating_add(SWEEP_INTERVAL));
        let next = [checks, sweep, self.links.next_keep()].into_iter().flatten().min();
        if let Some(next) = next {
            host.timer_set(next);
        }
        self.deadline = next;
    }

    /// Makes sure that the timer comes for what packets have begun.
    fn set_timer(&mut self, host: &mut Host, now: Nanos) {
        let is_stale = self.balancer.services.has_stale();
        let needs_sweep = !self.balancer.connections.is_empty() || self.fragments.held() > 0;
        let soon = now.saturating_add(if is_stale { STALE_INTERVAL } else { SWEEP_INTERVAL });
        if (is_stale || needs_sweep) && self.deadline.is_none_or(|deadline| deadline > soon) {
            self.deadline = Some(soon);
            host.timer_set(soon);
        }
    }
}

impl NetworkFunction for LoadBalancer {
    fn new(config: &Config) -> Result<LoadBalancer, Error> {
        let settings = Settings::read(config)?;
        let (passes, fragment_timeout) = (settings.passes, settings.fragment_timeout);
        let secret = config.secret()?;
        let fragments = Fragments::new(fragment_timeout, secret.seed("fragments"));
        let balancer = Balancer::new(settings, &secret).map_err(Error::Refused)?;
        Ok(LoadBalancer {
            checks: Checks::new(balancer.services.servers.len(), secret),
            balancer,
            links: Links::new(Reason::NoNeighbour as u16),
            fragments,
            tally: Tally::default(),
            ticks: Ticks::default(),
            passes,
            deadline: None,
            window: Box::default(),
            touched: 0,
        })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        self.advance(now, SWEEP_PER_BATCH);
        if !self.links.was_updated {
            self.update(batch.host(), now);
        }
        self.touched ^= usual::look_up(&self.balancer, batch, &mut self.window);
        let (packets, host) = batch.split();
        let LoadBalancer { balancer, links, checks, fragments, tally, window, passes, .. } = self;
        usual::send(balancer, links, packets, window, tally, |balancer, links, packet, tally| {
            let passes = *passes;
            let mut around = Around { links, checks, fragments, tally, host, passes, now };
            around.packet(balancer, packet);
        });
        self.tally.flush(&self.balancer.turnover, &self.checks.turns, batch.host());
        self.set_timer(batch.host(), now);
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        self.advance(now, SWEEP_PER_TIMER);
        self.work(host, now);
        self.tally.flush(&self.balancer.turnover, &self.checks.turns, host);
    }

    fn devices(&mut self, host: &mut Host, now: Nanos) {
        self.update(host, now);
    }

    fn finish(&mut self, host: &mut Host, _now: Nanos) -> bool {
        let all = self.fragments.expired(0, true);
        drop_held(all, &mut self.tally, host);
        self.tally.flush(&self.balancer.turnover, &self.checks.turns, host);
        false
    }

    fn report(&self, out: &mut String, _now: Nanos) -> bool {
        metrics::report(self, out);
        true
    }

    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        state::export(self, out)
    }

    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        state::import(self, entries)
    }
}

superfluid_function!(LoadBalancer);
