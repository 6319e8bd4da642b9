//! The network function `dpi`: finds what a file of rules in Snort's language describes, in streams and in
//! packets, and alerts or drops, as a transparent bridge between its two interfaces or as an observer.
//!
//! A packet's way (`way`, and from what matches to the verdict `ruling`):
//! 1. [`header`] reads it, and [`checksums`] whether a receiver will; fragments wait for the whole datagram.
//!    [`flow`] finds its flow and says what its payload is to the stream of a TCP connection: new, there
//!    already, ahead, and then it waits for what lies before, or nothing, because the receiver ignores it.
//! 2. [`message`] cuts messages of applications out of the stream, if rules ask for them.
//! 3. [`detect`] finds the rules that match: [`filter`] names those worth a look by samples of the payload,
//!    [`inspect`] decides.
//! 4. [`bits`] has what rules remember for others, [`threshold`] counts matches of rules that want it;
//!    [`event`] writes alerts; the rules' actions make the verdict.
//!
//! Rules are read by [`rules`] when the instance is made.
//!
//! Limits: 65,536 rules of 64 contents each, contents of 255 bytes; flows, windows, held segments and counts
//! in memory that is bounded; work for a packet is bounded by [`budget::Budget`]. The packet is never
//! written.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

pub mod bits;
pub mod budget;
mod caches;
pub mod checksums;
pub mod conditions;
pub mod detect;
pub mod event;
pub mod filter;
pub mod flow;
pub mod header;
pub mod inspect;
mod leftover;
pub mod message;
pub mod metrics;
mod protocol_name;
pub mod rules;
mod ruling;
pub mod settings;
mod state;
pub mod threshold;
mod way;

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use bits::Hosts;
use budget::Reserve;
use detect::Detector;
use flow::tracker::Tracker;
use metrics::{Count, Reason, Tally};
use nf_sdk::fragments::{Fragments, Limits};
use nf_sdk::{
    Batch, Config, Error, Host, Nanos, NetworkFunction, PacketTime, Severity, StateReader, StateWriter,
    Verdict, superfluid_function,
};
use rules::text::clip;
use settings::{LONGEST_LINE, Settings};
use threshold::Thresholds;
use way::Arrival;

/// How often flows are swept.
const SWEEP_INTERVAL: Nanos = Nanos::from_millis(500);
/// Most datagrams of which fragments are kept.
const MAX_DATAGRAMS: usize = 2048;
/// Names of the interfaces that packets pass, as in the manifest.
const INTERFACES: [&str; 2] = ["inside", "outside"];
/// The interface that copies of suspicious packets leave by.
const SUSPICIOUS: u16 = 2;

/// The function.
pub struct Dpi {
    settings: Settings,
    detector: Detector,
    reserve: Reserve,
    tracker: Tracker,
    fragments: Fragments,
    thresholds: Thresholds,
    hosts: Hosts,
    tally: Tally,
    /// The last alert's text.
    text: String,
    /// What matched in the packet.
    matched: Vec<u32>,
    /// What packets say, and what it was when the last one came or the last timer fired.
    time: PacketTime,
    now: Nanos,
    timer_is_set: bool,
    /// The packet matched an alert or drop rule, or is dropped with its flow.
    is_suspicious: bool,
}

impl NetworkFunction for Dpi {
    fn new(config: &Config) -> Result<Dpi, Error> {
        let (settings, rules) = Settings::read(config)?;
        let detector = Detector::new(rules, settings.stream_window, settings.body_limit);
        let no_memory = || Error::Refused(String::from("not enough memory for the table of flows"));
        let secret = config.secret()?;
        Ok(Dpi {
            tracker: Tracker::new(&settings, detector.window(), &secret).ok_or_else(no_memory)?,
            fragments: Fragments::new(
                Limits {
                    datagrams: MAX_DATAGRAMS,
                    bytes: settings.fragment_memory,
                    timeout: settings.fragment_timeout,
                    // What is dropped when it cannot be matched as a whole has to be refused.
                    makes_room: !settings.drops_overload,
                },
                settings.fragment_overlap,
                secret.seed("fragments"),
            ),
            thresholds: Thresholds::new(settings.max_thresholds, &secret),
            hosts: Hosts::new(settings.max_thresholds, secret.seed("bits")),
            settings,
            detector,
            reserve: Reserve::FULL,
            tally: Tally::default(),
            text: String::new(),
            matched: Vec::new(),
            time: PacketTime::default(),
            now: Nanos(0),
            timer_is_set: false,
            is_suspicious: false,
        })
    }

    fn started(&mut self, host: &mut Host) {
        for mut line in self.detector.file().notices(&self.settings.rules_file) {
            clip(&mut line, LONGEST_LINE);
            host.log(Severity::Warning, &line);
        }
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        if let Some(first) = batch.packets().next() {
            self.time.see(first.timestamp());
            self.now = self.time.latest();
        }
        self.tracker.begin(self.now);
        let (packets, host) = batch.split();
        for mut packet in packets {
            if packet.ingress() == SUSPICIOUS && self.settings.copies {
                // Another opener of a device there could make up packets of known connections.
                let verdict = self.tally.judge(Err(Reason::FromSuspicious), 0);
                packet.verdict_encoded(verdict);
                continue;
            }
            let ingress = usize::from(packet.ingress() & 1);
            let time = packet.timestamp();
            self.time.see(time);
            self.now = self.time.latest();
            let record = packet.record();
            let (unfinished, of_segments) =
                (checksums::unfinished(record), checksums::are_of_segments(record));
            let is_vouched_for = of_segments || checksums::are_verified(record);
            let from = packet.ingress();
            let arrival = Arrival {
                time,
                ingress,
                from,
                is_vouched_for,
                of_segments,
                unfinished,
                is_snapped: record.snapped() > 0,
                whole: None,
            };
            self.is_suspicious = false;
            let mut judgement = self.frame(packet.bytes(), arrival, host);
            if packet.ingress() == SUSPICIOUS {
                // Without copies it is looked at all the same: what an observer is shown has the interface of
                // another function.
                judgement = Err(Reason::FromSuspicious);
            } else if self.is_suspicious && self.settings.copies {
                self.copy(packet.bytes(), ingress, host);
            }
            let onward = Verdict::Interface(1 - ingress as u16).encode();
            packet.verdict_encoded(self.tally.judge(judgement, onward));
        }
        self.time.seen(now);
        self.flush(host);
        if !self.timer_is_set && self.has_flows() {
            self.timer_is_set = true;
            host.timer_set(now.saturating_add(SWEEP_INTERVAL));
        }
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        self.timer_is_set = false;
        self.now = self.time.at(now);
        self.tracker.sweep(self.now);
        self.fragments.expire(self.now);
        self.look_at_ended(host);
        self.flush(host);
        if self.has_flows() {
            self.timer_is_set = true;
            host.timer_set(now.saturating_add(SWEEP_INTERVAL));
        }
    }

    fn report(&self, out: &mut String, _now: Nanos) -> bool {
        metrics::report(self, out);
        true
    }

    fn export_state(&self, out: &mut StateWriter<'_>) -> bool {
        state::export(&self.tracker, self.tracker.time(self.now), out)
    }

    fn import_state(&mut self, entries: &mut StateReader<'_>) -> bool {
        let now = self.tracker.time(self.now);
        state::import(&mut self.tracker, now, entries)
    }
}

impl Dpi {
    /// What is known of flows and streams.
    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// Something is known that time ends.
    fn has_flows(&self) -> bool {
        !self.tracker.table.is_empty() || self.fragments.count() > 0
    }

    /// Sends a copy of a suspicious packet, whose mark says by which interface the packet came.
    #[cold]
    fn copy(&mut self, packet: &[u8], ingress: usize, host: &mut Host) {
        let mark = 1 + ingress as u64;
        // The host takes bytes from the function's own memory alone, where the packet is not.
        let bytes = packet.to_vec();
        let sent =
            host.packet_new(&bytes).and_then(|slot| host.emit(slot, Verdict::Interface(SUSPICIOUS), mark));
        self.tally.add(if sent.is_ok() { Count::Copies } else { Count::CopiesLost }, 1);
    }

    fn flush(&mut self, host: &mut Host) {
        let expired = core::mem::take(&mut self.fragments.turnover.expired);
        self.tally.add(Count::FragmentsLost, expired);
        self.tally.add(Count::MessagesLost, core::mem::take(&mut self.tracker.sessions.share.lost));
        self.tally.add(Count::PendingLost, core::mem::take(&mut self.detector.pending_lost));
        let robbed = core::mem::take(&mut self.tracker.windows.pending_lost);
        self.tally.add(Count::PendingLost, robbed);
        self.tally.flush(&self.tracker.turnover, host);
    }
}

superfluid_function!(Dpi);
