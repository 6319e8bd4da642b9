//! The network function `policer`: holds traffic to rates by token buckets, one for each key, as a
//! transparent bridge between its two interfaces.
//!
//! A packet's way:
//! 1. [`header`] reads it: the common packet by a few fixed loads, every other completely. [`length`] says
//!    what it counts for.
//! 2. The first [`policer`] that matches it makes its key.
//! 3. The whole batch is read first, then all buckets are looked up in [`table`]; memory answers for the
//!    whole batch at once that way. A key without a bucket gets one, if need be that of a key whose bucket is
//!    full, else uses the one that all such keys of its policer share.
//! 4. [`meter`] refills the bucket to the nanosecond and takes the packet out of it, or gives it another
//!    colour.
//!
//! Limits: 64 policers, 2,000,000 buckets; memory is taken once, at the start. The packet is never written.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

pub mod header;
pub mod length;
pub mod meter;
pub mod metrics;
pub mod policer;
pub mod settings;
mod state;
pub mod table;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use header::{Class, Seen, common, read};
use length::Counting;
use meter::{GREEN, Level};
use metrics::{Decisions, MARKED, PASSED, Reason, Tally};
use nf_sdk::usual::onward;
use nf_sdk::{
    Batch, Config, Error, Host, MAX_BATCH, Nanos, NetworkFunction, Packet, PacketTime, StateReader,
    StateWriter, superfluid_function,
};
use policer::{Action, Policer};
use settings::{NonIp, Settings};
use table::{BucketTable, Key};

/// How often full buckets are looked for while there are any.
const SWEEP_INTERVAL: Nanos = Nanos::from_millis(50);
/// In so many steps the whole table is looked through: in 8 s.
const SWEEP_STEPS: usize = 160;

/// Nanoseconds from the first batch on; they never run backwards.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    epoch: Option<Nanos>,
    pub(crate) now: u64,
}

impl Clock {
    #[inline(always)]
    fn advance(&mut self, now: Nanos) -> u64 {
        self.now = self.now.max(now.since(*self.epoch.get_or_insert(now)).0);
        self.now
    }
}

/// Stands for the number of a policer where there is none.
const NONE: u32 = u32::MAX;
/// Stands for the slot of a bucket that has none.
const SHARED: u32 = u32::MAX;

/// What is known of a packet before its bucket is looked at.
#[derive(Debug, Default)]
struct Ahead {
    key: Key,
    hash: u64,
    /// The number of its policer, or [`NONE`].
    policer: u32,
    ingress: u32,
    bytes: u32,
    packets: u32,
    /// The verdict and the counter without a policer.
    verdict: u32,
    counter: u32,
}

/// What is kept of the packets of a batch.
struct Window {
    /// Each is reached by an address of its own: the fields of one are then at fixed distances from it, which
    /// the sandbox's loads and stores include, while distances in an array are added one by one.
    ahead: [Box<Ahead>; MAX_BATCH],
    /// The slots that probably have the keys.
    slots: [u32; MAX_BATCH],
}

/// Policers and their buckets.
pub(crate) struct Policing {
    pub(crate) policers: Vec<Policer>,
    /// By policer: the bucket of all its packets, or of those that have none of their own.
    pub(crate) shared: Vec<Level>,
    pub(crate) decisions: Vec<Decisions>,
    pub(crate) table: BucketTable,
    pub(crate) tally: Tally,
    pub(crate) clock: Clock,
    pub(crate) unpoliced: u64,
    pub(crate) top: usize,
    counting: Counting,
    non_ip: NonIp,
}

/// The function.
pub struct Policers {
    policing: Policing,
    window: Box<Window>,
    time: PacketTime,
    timer_is_set: bool,
    /// What the look-ahead reads comes here: loads without a use of their result are left out by compilers.
    touched: u64,
}

impl NetworkFunction for Policers {
    fn new(config: &Config) -> Result<Policers, Error> {
        let settings = Settings::read(config)?;
        let table = BucketTable::new(settings.max_buckets, config.secret()?.seed("buckets"));
        let policing = Policing {
            table: table.ok_or_else(|| Error::Refused(String::from("not enough memory for max_buckets")))?,
            shared: settings.policers.iter().map(|policer| policer.limits.full(0)).collect(),
            decisions: vec![Decisions::default(); settings.policers.len()],
            policers: settings.policers,
            tally: Tally::default(),
            clock: Clock::default(),
            unpoliced: 0,
            top: settings.top,
            counting: settings.counting,
            non_ip: settings.non_ip,
        };
        let ahead = core::array::from_fn(|_| Box::default());
        let window = Box::new(Window { ahead, slots: [0; MAX_BATCH] });
        Ok(Policers { policing, window, time: PacketTime::default(), timer_is_set: false, touched: 0 })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        let policing = &mut self.policing;
        self.time.see(batch.newest());
        self.time.seen(now);
        let now_here = policing.clock.advance(self.time.latest());
        self.touched ^= look_up(policing, batch, &mut self.window);
        police(policing, batch, &self.window, now_here);
        if !self.timer_is_set && !policing.table.is_empty() {
            self.timer_is_set = true;
            batch.host().timer_set(now.saturating_add(SWEEP_INTERVAL));
        }
        policing.tally.flush(batch.host());
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        let policing = &mut self.policing;
        let now_here = policing.clock.advance(self.time.at(now));
        policing.sweep(now_here);
        policing.tally.flush(host);
        self.timer_is_set = !policing.table.is_empty();
        if self.timer_is_set {
            host.timer_set(now.saturating_add(SWEEP_INTERVAL));
        }
    }

    fn report(&self, out: &mut String, _now: Nanos) -> bool {
        metrics::report(&self.policing, out);
        true
    }

    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        state::export(&self.policing, out)
    }

    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        state::import(&mut self.policing, entries)
    }
}

/// Reads all packets, then finds out where their buckets probably are and has those places fetched into the
/// cache.
#[inline(always)]
fn look_up(policing: &mut Policing, batch: &mut Batch<'_>, window: &mut Window) -> u64 {
    let count = batch.len();
    for (packet, ahead) in batch.packets().zip(&mut window.ahead) {
        let ahead = &mut **ahead;
        ahead.ingress = u32::from(packet.ingress() & 1);
        match common(packet.bytes(), u64::from(ahead.ingress)) {
            Some(seen) => policing.assign(&packet, &seen, ahead),
            None => policing.assign_other(&packet, ahead),
        }
    }
    for (ahead, slot) in window.ahead.iter().zip(&mut window.slots).take(count) {
        *slot = policing.table.probable(ahead.hash);
    }
    let mut touched = 0;
    // A loop of its own, and short: the processor then has all of the batch's reads on their way at a time.
    for eight in window.slots.chunks_exact(8).take(count.div_ceil(8)) {
        touched = eight.iter().fold(touched, |touched, slot| touched ^ policing.table.touch(*slot));
    }
    touched
}

/// Each packet is taken out of its bucket.
#[inline(always)]
fn police(policing: &mut Policing, batch: &mut Batch<'_>, window: &Window, now: u64) {
    let mut passed = 0;
    for ((mut packet, ahead), slot) in batch.packets().zip(&window.ahead).zip(&window.slots) {
        let ahead = &**ahead;
        let number = ahead.policer as usize;
        let Some(policer) = policing.policers.get(number) else {
            policing.tally.totals[ahead.counter as usize] += 1;
            policing.unpoliced += u64::from(ahead.counter == PASSED as u32);
            packet.verdict_encoded(ahead.verdict);
            continue;
        };
        let slot = if !policer.keyed {
            SHARED
        } else if policing.table.has(*slot, &ahead.key) {
            *slot
        } else {
            elsewhere(policing, number, &ahead.key, ahead.hash, now)
        };
        let policer = &policing.policers[number];
        let level =
            if slot == SHARED { &mut policing.shared[number] } else { policing.table.level_mut(slot) };
        let colour = policer.limits.take(level, now, ahead.bytes, ahead.packets) & 3;
        let count = &mut policing.decisions[number].colours[colour];
        count.packets += 1;
        count.bytes += u64::from(ahead.bytes);
        let mut verdict = onward(ahead.ingress);
        if colour == GREEN {
            passed += 1;
        } else {
            verdict = policing.beyond(&mut packet, ahead, slot, colour, verdict);
        }
        packet.verdict_encoded(verdict);
    }
    policing.tally.totals[PASSED] += passed;
}

/// The slot of a bucket that is not where it probably is, or [`SHARED`].
#[inline(never)]
fn elsewhere(policing: &mut Policing, number: usize, key: &Key, hash: u64, now: u64) -> u32 {
    if let Some(slot) = policing.table.find(key, hash) {
        return slot;
    }
    let level = policing.policers[number].limits.full(now);
    let mut slot = policing.table.insert(key, hash, &level);
    if slot.is_none() {
        let is_full = |key: &Key, level: &Level| policing.is_full(key, level, now);
        if let Some(victim) = policing.table.victim(hash, is_full) {
            policing.table.remove(victim);
            policing.tally.turnover[1] += 1;
            slot = policing.table.insert(key, hash, &level);
        }
    }
    match slot {
        Some(slot) => {
            policing.tally.turnover[0] += 1;
            slot
        }
        None => {
            policing.tally.turnover[2] += 1;
            policing.decisions[number].shared += 1;
            SHARED
        }
    }
}

impl Policing {
    /// Finds the packet's policer, and what is left to do without the packet.
    #[inline(always)]
    fn assign(&self, packet: &Packet<'_>, seen: &Seen, ahead: &mut Ahead) {
        let mark = packet.mark();
        let matching = self.policers.iter().position(|policer| policer.matches(&seen.view, mark));
        let Some((number, policer)) = matching.and_then(|n| Some((n, self.policers.get(n)?))) else {
            ahead.policer = NONE;
            (ahead.verdict, ahead.counter) = (onward(ahead.ingress), PASSED as u32);
            return;
        };
        ahead.policer = number as u32;
        ahead.key = policer.key(&seen.view, mark);
        ahead.hash = self.table.hash(&ahead.key);
        let record = packet.record();
        (ahead.bytes, ahead.packets) = if record.gso_type == 0 || record.gso_size == 0 {
            self.counting.whole(packet.original_len() as u32, seen.network)
        } else {
            self.counting.segmented(packet.bytes(), record.gso_type, record.gso_size)
        };
    }

    /// The same for a packet that is not common.
    #[inline(never)]
    fn assign_other(&mut self, packet: &Packet<'_>, ahead: &mut Ahead) {
        let seen = read(packet.bytes(), packet.record().snapped(), u64::from(ahead.ingress));
        let reason = match (seen.class, self.non_ip) {
            (Class::Ip, _) | (Class::NonIp, NonIp::Police) => return self.assign(packet, &seen, ahead),
            (Class::NonIp, NonIp::Pass) => {
                ahead.policer = NONE;
                (ahead.verdict, ahead.counter) = (onward(ahead.ingress), PASSED as u32);
                return;
            }
            (Class::NonIp, NonIp::Drop) => Reason::NonIp,
            (Class::Malformed, _) => Reason::Malformed,
        };
        ahead.policer = NONE;
        (ahead.verdict, ahead.counter) = (reason.verdict(), reason.counter() as u32);
    }

    /// What becomes of a packet that is not green; its verdict.
    #[inline(never)]
    fn beyond(
        &mut self,
        packet: &mut Packet<'_>,
        ahead: &Ahead,
        slot: u32,
        colour: usize,
        onward: u32,
    ) -> u32 {
        if slot != SHARED {
            self.table.exceed(slot, 1, u64::from(ahead.bytes));
        }
        match self.policers[ahead.policer as usize].actions[colour.min(2)] {
            Action::Pass => {
                self.tally.totals[PASSED] += 1;
                onward
            }
            Action::Drop(reason) => {
                self.tally.totals[reason.counter()] += 1;
                reason.verdict()
            }
            Action::Mark { mask, value } => {
                packet.set_mark(packet.mark() & !mask | value & mask);
                self.tally.totals[PASSED] += 1;
                self.tally.totals[MARKED] += 1;
                onward
            }
        }
    }

    /// The policer that made a key.
    pub(crate) fn policer_of(&self, key: &Key) -> Option<(usize, &Policer)> {
        let number = (key[0] >> header::kind::POLICER_AT & 0x3f) as usize;
        self.policers.get(number).map(|policer| (number, policer))
    }

    fn is_full(&self, key: &Key, level: &Level, now: u64) -> bool {
        self.policer_of(key).is_none_or(|(_, policer)| policer.limits.is_full(level, now))
    }

    /// Forgets buckets that are full again, in a part of the table.
    fn sweep(&mut self, now: u64) {
        let Policing { table, policers, .. } = self;
        let is_full = |key: &Key, level: &Level| {
            let number = (key[0] >> header::kind::POLICER_AT & 0x3f) as usize;
            policers.get(number).is_none_or(|policer: &Policer| policer.limits.is_full(level, now))
        };
        let forgotten = table.sweep(table.groups() / SWEEP_STEPS + 1, is_full);
        self.tally.turnover[1] += forgotten as u64;
    }

    /// Makes all buckets full.
    pub(crate) fn forget(&mut self) {
        self.tally.turnover[1] += self.table.len() as u64;
        self.table.clear();
        for (level, policer) in self.shared.iter_mut().zip(&self.policers) {
            *level = policer.limits.full(self.clock.now);
        }
    }
}

superfluid_function!(Policers);
