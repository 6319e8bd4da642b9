//! The network function `nat`: hosts behind its inside interface share the IPv4 addresses of a pool
//! (RFC 4787, RFC 5382, RFC 5508).
//!
//! A packet's way:
//! 1. [`usual`] reads the common packet (IPv4 without options, TCP or UDP) and finds its [`session`]. The
//!    whole batch is read first, then all lines of the indexes are fetched, then all sessions; memory answers
//!    for the whole batch at once that way. A usual packet is rewritten by what its session says. Where it
//!    begins one, what that is noted in is fetched the same way, and [`translator`] begins it.
//! 2. Every other packet takes the [`slow`] way: [`view`] reads it, [`translator`] finds or begins its
//!    session in [`binding`] and [`ports`], [`icmp`] turns errors inside out, later fragments follow their
//!    first one's [`course`].
//! 3. What is sent from inside to the pool is translated twice and goes back to the inside.
//! 4. With a prefix for it, packets of IPv6 become packets of IPv4 and back ([`nat64`]).
//! 5. What may not be translated passes as it is or is dropped; [`unsolicited`] answers late.
//!
//! Limits: 1,024 addresses in the pool, 4,000,000 sessions; memory is taken once, at the start.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

pub mod binding;
pub mod course;
pub mod icmp;
pub mod metrics;
pub mod nat64;
pub mod permissions;
pub mod ports;
pub mod segments;
pub mod session;
pub mod settings;
pub mod slow;
mod state;
pub mod translator;
pub mod unsolicited;
pub mod usual;
pub mod view;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::String;
use metrics::Tally;
use nf_sdk::ticks::Ticks;
use nf_sdk::{
    Batch, Config, Error, Host, Nanos, NetworkFunction, StateReader, StateWriter, superfluid_function,
};
use settings::Settings;
use slow::Slow;
use translator::Translator;
use usual::Window;

/// How often sessions are swept when no packets come.
const SWEEP_INTERVAL: Nanos = Nanos::from_millis(250);
/// Most sessions that a batch sweeps.
const SWEEP_PER_BATCH: usize = 512;
/// Most sessions that the timer sweeps at a time.
const SWEEP_PER_TIMER: usize = 1 << 18;

/// The function.
pub struct Nat {
    translator: Translator,
    slow: Slow,
    tally: Tally,
    ticks: Ticks,
    timer_is_set: bool,
    window: Box<Window>,
    /// What the look-ahead reads comes here: loads without a use of their result are left out by compilers.
    touched: u32,
}

impl Nat {
    /// Moves time on.
    fn advance(&mut self, now: Nanos, sweep: usize) {
        let tick = self.ticks.at(now);
        self.translator.advance(now, tick, sweep);
    }

    fn set_timer(&mut self, host: &mut Host, now: Nanos) {
        let is_needed = !self.translator.sessions.is_empty()
            || !self.translator.unsolicited.is_empty()
            || self.translator.fragments.held() > 0;
        if is_needed && !self.timer_is_set {
            self.timer_is_set = true;
            host.timer_set(now.saturating_add(SWEEP_INTERVAL));
        }
    }
}

impl NetworkFunction for Nat {
    fn new(config: &Config) -> Result<Nat, Error> {
        let settings = Settings::read(config)?;
        let no_memory = || Error::Refused(String::from("not enough memory for max_sessions and max_hosts"));
        Ok(Nat {
            translator: Translator::new(settings, &config.secret()?).ok_or_else(no_memory)?,
            slow: Slow::default(),
            tally: Tally::default(),
            ticks: Ticks::default(),
            timer_is_set: false,
            window: Box::default(),
            touched: 0,
        })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        self.advance(now, SWEEP_PER_BATCH);
        self.touched ^= usual::look_up(&self.translator, batch, &mut self.window);
        let (packets, host) = batch.split();
        let Nat { translator, slow, tally, window, .. } = self;
        usual::translate(translator, packets, window, tally, |translator, packet, ahead, tally| {
            usual::unusual(translator, slow, packet, ahead, tally, host);
        });
        self.tally.flush(self.translator.turnover, batch.host());
        self.set_timer(batch.host(), now);
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        self.timer_is_set = false;
        self.advance(now, SWEEP_PER_TIMER);
        self.slow.timer(&mut self.translator, &mut self.tally, host);
        self.tally.flush(self.translator.turnover, host);
        self.set_timer(host, now);
    }

    fn finish(&mut self, host: &mut Host, _now: Nanos) -> bool {
        self.slow.give_up(&mut self.translator, &mut self.tally, host);
        self.tally.flush(self.translator.turnover, host);
        false
    }

    fn report(&self, out: &mut String, _now: Nanos) -> bool {
        metrics::report(&self.translator, &self.tally, out);
        true
    }

    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        state::export(&self.translator, out)
    }

    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        state::import(&mut self.translator, entries)
    }
}

superfluid_function!(Nat);
