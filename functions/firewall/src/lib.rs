//! The network function `firewall`: filters IPv4 and IPv6 by ordered rules and tracks connections, as a
//! transparent bridge between its two interfaces.
//!
//! A packet's way:
//! 1. [`header`] reads it: the common packet by a few fixed loads, every other completely.
//! 2. Stateless: [`rule_set`] finds the first rule that matches, by [`linear`] or [`bit_vector`] search, and
//!    counts it.
//! 3. Stateful: the whole batch is read first, then all flows are looked up in [`flow_table`], then each
//!    packet goes by its flow's state ([`tracker`], [`tcp`]); memory answers for the whole batch at once that
//!    way. Only a packet that opens a flow comes to the rules.
//! 4. [`fragments`] lets later fragments follow the first.
//!
//! Limits: 4,096 rules; memory for flows is taken once, at the start; sixteen VLAN tags, eight extension
//! headers and, where that is asked for, four tunnels are looked through. The packet is never written.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

pub mod bit_vector;
pub mod flow_table;
pub mod fragments;
pub mod header;
pub mod judge;
pub mod linear;
pub mod metrics;
pub mod rule;
pub mod rule_set;
pub mod settings;
mod state;
pub mod tcp;
pub mod tracker;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::String;
use header::{Class, Common, KEY4, parse};
use judge::{Judge, judge_tracked};
use metrics::{Reason, Tally};
use nf_sdk::headers::tunnel::Tunnels;
use nf_sdk::ticks::Ticks;
use nf_sdk::{
    Batch, Config, Error, Host, MAX_BATCH, Nanos, NetworkFunction, PacketTime, StateReader, StateWriter,
    Verdict, superfluid_function,
};
use settings::Settings;
use tracker::{Ahead, COMMON, SWEEP_PER_BATCH, Tracker, usual, usual_elsewhere};

/// How often the table is swept when no packets come.
const SWEEP_INTERVAL: Nanos = Nanos::from_millis(250);
/// Most groups of a table that the timer sweeps at a time.
const SWEEP_PER_TIMER: usize = 1 << 15;

/// Verdict of an accepted packet, by the interface (0 or 1) that it came in by: on to the other one.
#[inline(always)]
fn onward(ingress: u32) -> u32 {
    const OUTWARD: u32 = Verdict::Interface(1).encode();
    const CHANGE: u32 = OUTWARD ^ Verdict::Interface(0).encode();
    OUTWARD ^ (ingress * CHANGE)
}

/// What is kept of the packets of a batch.
struct Window {
    /// Each is reached by an address of its own: the fields of one are then at fixed distances from it, which
    /// the sandbox's loads and stores include, while distances in an array are added one by one.
    ahead: [Box<Ahead<[u32; KEY4]>>; MAX_BATCH],
    /// The slots that probably have the keys.
    slots: [u32; MAX_BATCH],
}

/// The function.
pub struct Firewall {
    judge: Judge,
    tracker: Option<Tracker>,
    /// Flows that come from another instance have to be accepted by the rules.
    recheck: bool,
    tally: Tally,
    time: PacketTime,
    ticks: Ticks,
    timer_is_set: bool,
    window: Box<Window>,
    /// What the look-ahead reads comes here: loads without a use of their result are left out by compilers.
    touched: u32,
}

impl NetworkFunction for Firewall {
    fn new(config: &Config) -> Result<Firewall, Error> {
        let settings = Settings::read(config)?;
        let no_memory = || Error::Refused(String::from("not enough memory for rules and flows"));
        let tracker =
            if settings.stateful { Some(Tracker::new(&settings).ok_or_else(no_memory)?) } else { None };
        Ok(Firewall {
            tracker,
            recheck: settings.recheck,
            judge: Judge::new(settings).ok_or_else(no_memory)?,
            tally: Tally::default(),
            time: PacketTime::default(),
            ticks: Ticks::default(),
            timer_is_set: false,
            window: Box::new(Window {
                ahead: core::array::from_fn(|_| Box::default()),
                slots: [0; MAX_BATCH],
            }),
            touched: 0,
        })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        self.time.see(batch.newest());
        self.time.seen(now);
        let time = self.time.latest();
        let tick = self.ticks.at(time);
        self.judge.now = tick;
        match &mut self.tracker {
            None => filter(&mut self.judge, &mut self.tally, batch),
            Some(tracker) => {
                tracker.advance(now, time, tick, SWEEP_PER_BATCH);
                self.touched ^= look_up(tracker, &self.judge, batch, &mut self.window);
                track(tracker, &mut self.judge, &mut self.tally, batch, &mut self.window);
                self.tally.flush_turnover(tracker.turnover(), batch.host());
                if !self.timer_is_set && tracker.flows() > 0 {
                    self.timer_is_set = true;
                    batch.host().timer_set(now.saturating_add(SWEEP_INTERVAL));
                }
            }
        }
        self.tally.flush(batch.host());
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        self.timer_is_set = false;
        let Some(tracker) = &mut self.tracker else { return };
        let time = self.time.at(now);
        tracker.advance(now, time, self.ticks.at(time), SWEEP_PER_TIMER);
        self.tally.flush_turnover(tracker.turnover(), host);
        if tracker.flows() > 0 {
            self.timer_is_set = true;
            host.timer_set(now.saturating_add(SWEEP_INTERVAL));
        }
    }

    fn report(&self, out: &mut String, _now: Nanos) -> bool {
        metrics::report(self, out);
        true
    }

    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        // Without tracking there is nothing to know, and nothing is lost.
        self.tracker.as_ref().is_none_or(|tracker| state::export(tracker, out))
    }

    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        let has_begun = self.ticks.have_begun();
        let rules = self.recheck.then_some(&self.judge.rules);
        match &mut self.tracker {
            Some(tracker) => state::import(tracker, rules, has_begun, entries),
            None => state::pass_over(entries),
        }
    }
}

/// Rules alone decide.
#[inline(always)]
fn filter(judge: &mut Judge, tally: &mut Tally, batch: &mut Batch<'_>) {
    let (mut accepted, mut denied) = (0, 0);
    for mut packet in batch.packets() {
        let ingress = u32::from(packet.ingress() & 1);
        let onward = onward(ingress);
        let verdict = match Common::new(packet.bytes(), &judge.least) {
            Some(common) => {
                let accept = judge.rules.decide4(&common.view(ingress));
                accepted += u32::from(accept);
                denied += u32::from(!accept);
                if accept { onward } else { Reason::Denied.verdict() }
            }
            None => tally.judge(judge.any(packet.bytes(), ingress), onward),
        };
        packet.verdict_encoded(verdict);
    }
    tally.add(accepted, denied);
}

/// Reads all packets, then finds out where their flows probably are and has those places fetched into the
/// cache.
#[inline(always)]
fn look_up(tracker: &Tracker, judge: &Judge, batch: &mut Batch<'_>, window: &mut Window) -> u32 {
    let count = batch.len();
    for (packet, ahead) in batch.packets().zip(&mut window.ahead) {
        let ingress = u32::from(packet.ingress() & 1);
        let ahead = &mut **ahead;
        ahead.ingress = ingress;
        if let Some(common) = Common::new(packet.bytes(), &judge.least) {
            // What was stored word by word is dear to read as a whole: the hash is made of what is at hand.
            let key = common.key(ingress);
            ahead.hash = tracker.v4.hash(&key);
            ahead.key = key;
            let (flags, end, ack) = common.progress();
            (ahead.flags, ahead.end, ahead.ack) = (u32::from(flags) | COMMON, end, ack);
        } else {
            ahead.flags = 0;
            look_up_other(tracker, &judge.tunnels, packet.bytes(), ingress, ahead);
        }
    }
    for (ahead, slot) in window.ahead.iter().zip(&mut window.slots).take(count) {
        *slot = tracker.v4.probable(ahead.hash);
    }
    let mut touched = 0;
    // A loop of its own, and short: the processor then has all of the batch's reads on their way at a time.
    for eight in window.slots.chunks_exact(8).take(count.div_ceil(8)) {
        touched = eight.iter().fold(touched, |touched, slot| touched ^ tracker.v4.touch(*slot));
    }
    touched
}

/// Reads a packet that is not common.
#[inline(never)]
fn look_up_other(
    tracker: &Tracker,
    tunnels: &Tunnels,
    packet: &[u8],
    ingress: u32,
    ahead: &mut Ahead<[u32; KEY4]>,
) {
    let header = &mut ahead.header;
    parse(packet, ingress, tunnels, header);
    if header.class == Class::Flow6 {
        header.hash6 = tracker.v6.hash(&header.key);
        header.slot6 = tracker.v6.probable(header.hash6);
        ahead.end = tracker.v6.touch(header.slot6);
    }
}

/// Each packet goes by its flow's state.
#[inline(always)]
fn track(
    tracker: &mut Tracker,
    judge: &mut Judge,
    tally: &mut Tally,
    batch: &mut Batch<'_>,
    window: &mut Window,
) {
    let mut accepted = 0;
    for ((mut packet, ahead), slot) in batch.packets().zip(&mut window.ahead).zip(&window.slots) {
        let ahead = &mut **ahead;
        let is_usual = usual(&mut tracker.v4, &tracker.terms, ahead, *slot)
            || ahead.flags != 0 && usual_elsewhere(&mut tracker.v4, &tracker.terms, ahead);
        let verdict = if is_usual {
            accepted += 1;
            onward(ahead.ingress)
        } else {
            if ahead.flags != 0 {
                parse(packet.bytes(), ahead.ingress, &judge.tunnels, &mut ahead.header);
            }
            tally.judge(judge_tracked(judge, tracker, &ahead.header, packet.bytes()), onward(ahead.ingress))
        };
        packet.verdict_encoded(verdict);
    }
    tally.add(accepted, 0);
}

superfluid_function!(Firewall);
