//! The network function `dpi`: finds what a file of rules in Snort's language describes, in streams and in
//! packets, and alerts or drops, as a transparent bridge between its two interfaces or as an observer.
//!
//! A packet's way:
//! 1. [`header`] reads it; [`flow`] finds its flow and says what its payload is to the stream of a TCP
//!    connection: new, there already, or ahead, and then it waits for what lies before.
//! 2. [`detect`] finds the rules that match: [`filter`] names those worth a look by samples of the payload,
//!    [`inspect`] decides.
//! 3. [`threshold`] counts matches of rules that want it; [`event`] writes alerts; the rules' actions make
//!    the verdict.
//!
//! Rules are read by [`rules`] when the instance is made.
//!
//! Limits: 65,536 rules of 64 contents each, contents of 255 bytes; flows, windows, held segments and counts
//! in memory that is bounded; work for a packet is bounded by [`budget::Budget`]. The packet is never
//! written.
#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

pub mod budget;
pub mod detect;
pub mod event;
pub mod filter;
pub mod flow;
pub mod header;
pub mod inspect;
pub mod metrics;
mod protocol_name;
pub mod rules;
pub mod settings;
mod state;
pub mod threshold;

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use budget::Budget;
use detect::{Context, Detector, Portion, Stream};
use event::Alert;
use flow::tcp::Place;
use flow::tracker::{Seen, Tracker};
use flow::{Fate, Flow};
use header::{Frame, View};
use metrics::{Count, Reason, Tally};
use nf_sdk::{
    Batch, Config, Error, Host, Nanos, NetworkFunction, StateReader, StateWriter, Verdict,
    superfluid_function,
};
use packet::tunnel::Level;
use rules::{Action, Direction, Scope};
use settings::Settings;
use threshold::{Outcome, Thresholds};

/// How often flows are swept.
const SWEEP_INTERVAL: Nanos = Nanos::from_millis(500);
/// Names of the interfaces, as in the manifest.
const INTERFACES: [&str; 2] = ["inside", "outside"];

/// The function.
pub struct Dpi {
    settings: Settings,
    detector: Detector,
    tracker: Tracker,
    thresholds: Thresholds,
    tally: Tally,
    /// The last alert's text.
    text: String,
    /// What matched in the packet.
    matched: Vec<u32>,
    /// Of the last batch.
    now: Nanos,
    timer_is_set: bool,
}

/// A packet on its way.
struct Passage<'a> {
    view: &'a View<'a>,
    time: Nanos,
    ingress: usize,
    flow: Option<Seen>,
    is_established: bool,
}

/// What the rules that matched make of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ruling {
    Go,
    Pass,
    Drop,
}

impl NetworkFunction for Dpi {
    fn new(config: &Config) -> Result<Dpi, Error> {
        let (settings, rules) = Settings::read(config)?;
        let detector = Detector::new(rules, settings.stream_window);
        let no_memory = || Error::Refused(String::from("not enough memory for the table of flows"));
        Ok(Dpi {
            tracker: Tracker::new(&settings, detector.window()).ok_or_else(no_memory)?,
            thresholds: Thresholds::new(settings.max_thresholds),
            settings,
            detector,
            tally: Tally::default(),
            text: String::new(),
            matched: Vec::new(),
            now: Nanos(0),
            timer_is_set: false,
        })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        self.now = now;
        self.tracker.begin(now);
        let (packets, host) = batch.split();
        for mut packet in packets {
            let ingress = usize::from(packet.ingress() & 1);
            let time = Some(packet.timestamp()).filter(|time| time.0 != 0).unwrap_or(now);
            let judgement = self.frame(packet.bytes(), ingress, time, host);
            let onward = Verdict::Interface(1 - ingress as u16).encode();
            packet.verdict_encoded(self.tally.judge(judgement, onward));
        }
        self.flush(host);
        if !self.timer_is_set && !self.tracker.table.is_empty() {
            self.timer_is_set = true;
            host.timer_set(now.saturating_add(SWEEP_INTERVAL));
        }
    }

    fn timer(&mut self, host: &mut Host, now: Nanos) {
        self.timer_is_set = false;
        self.now = now;
        self.tracker.sweep(now);
        self.flush(host);
        if !self.tracker.table.is_empty() {
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
    fn flush(&mut self, host: &mut Host) {
        self.tally.add(Count::PendingLost, core::mem::take(&mut self.detector.pending_lost));
        self.tally.flush(&self.tracker.turnover, host);
    }

    /// The frame's packet, and those inside of it.
    fn frame(&mut self, frame: &[u8], ingress: usize, time: Nanos, host: &mut Host) -> Result<(), Reason> {
        let mut next = header::outermost(frame).map(Some);
        while let Some(level) = match next {
            Ok(level) => level,
            Err(_) => return self.malformed(),
        } {
            self.level(frame, &level, ingress, time, host)?;
            next = self.settings.tunnels.inside(frame, &level);
        }
        Ok(())
    }

    fn malformed(&mut self) -> Result<(), Reason> {
        self.tally.add(Count::Malformed, 1);
        if self.settings.drops_malformed { Err(Reason::Malformed) } else { Ok(()) }
    }

    fn level(
        &mut self,
        frame: &[u8],
        level: &Level,
        ingress: usize,
        time: Nanos,
        host: &mut Host,
    ) -> Result<(), Reason> {
        let view = match header::read(frame, level) {
            Frame::Ip(view) => view,
            Frame::Other => return Ok(()),
            Frame::Malformed => return self.malformed(),
        };
        self.detector.begin();
        if view.is_fragment {
            self.tally.add(Count::Fragments, 1);
            if self.settings.drops_fragments {
                return Err(Reason::Fragment);
            }
            let passage = Passage { view: &view, time, ingress, flow: None, is_established: false };
            let mut budget = Budget::new(0);
            return match self.show(&passage, &[], Portion::Alone, &mut budget, host) {
                Ruling::Drop => Err(Reason::Rule),
                Ruling::Go | Ruling::Pass => Ok(()),
            };
        }
        let seen = self.tracker.packet(&view, self.now);
        // The segment that completes a handshake is not yet part of what was agreed, unless it has data.
        let is_established = seen.was_established
            || !view.payload.is_empty() && self.tracker.table.get(seen.flow).is_established();
        match self.tracker.table.get(seen.flow).fate {
            Fate::Open => {}
            Fate::Dropped => return Err(Reason::Flow),
            Fate::Passed => return Ok(()),
        }
        self.tally.add(Count::Bytes, view.payload.len() as u64);
        let passage = Passage { view: &view, time, ingress, flow: Some(seen), is_established };
        let mut budget = Budget::new(view.payload.len());
        let portion = match seen.place {
            Place::None => Portion::Alone,
            Place::Old => Portion::Elsewhere,
            Place::Next { skip } => Portion::Next { skip },
            // What cannot be held will never be seen in its stream.
            Place::Ahead if self.tracker.hold(seen, &view) => Portion::Elsewhere,
            Place::Ahead => Portion::Alone,
        };
        let mut ruling = self.show(&passage, view.payload, portion, &mut budget, host);
        if let Portion::Next { skip } = portion {
            self.tracker.advance(seen.flow, seen.side, view.payload.len() - skip);
            if ruling == Ruling::Go {
                ruling = self.held(&passage, seen, &mut budget, host);
            }
        }
        if ruling == Ruling::Go && self.tracker.acknowledged(seen, &view) {
            ruling = self.behind_gap(&passage, seen, &mut budget, host);
        }
        let mut judgement = match ruling {
            Ruling::Drop => Err(Reason::Rule),
            Ruling::Go | Ruling::Pass => Ok(()),
        };
        if budget.was_spent() {
            self.tally.add(Count::Overloads, 1);
            if judgement.is_ok() && ruling != Ruling::Pass && self.settings.drops_overload {
                judgement = Err(Reason::Overload);
            }
        }
        judgement
    }

    /// Held segments that the stream has come to.
    fn held(&mut self, passage: &Passage<'_>, seen: Seen, budget: &mut Budget, host: &mut Host) -> Ruling {
        if self.tracker.table.get(seen.flow).sides[seen.side].held == 0 {
            return Ruling::Go;
        }
        while let Some(data) = self.tracker.due(seen.flow, seen.side) {
            budget.extend(data.len());
            let ruling = self.show(passage, &data, Portion::Held, budget, host);
            self.tracker.advance(seen.flow, seen.side, data.len());
            if ruling != Ruling::Go {
                return ruling;
            }
        }
        Ruling::Go
    }

    /// The other side has acknowledged what never came by here: its stream goes on with what is held.
    fn behind_gap(
        &mut self,
        passage: &Passage<'_>,
        seen: Seen,
        budget: &mut Budget,
        host: &mut Host,
    ) -> Ruling {
        let view = passage.view;
        let reversed = View {
            source: view.destination,
            destination: view.source,
            source_port: view.destination_port,
            destination_port: view.source_port,
            payload: &[],
            ..*view
        };
        let seen = Seen { side: 1 - seen.side, ..seen };
        let passage = Passage { view: &reversed, flow: Some(seen), ..*passage };
        self.held(&passage, seen, budget, host)
    }

    /// Shows a payload to the rules, and does what those say that match.
    fn show(
        &mut self,
        passage: &Passage<'_>,
        payload: &[u8],
        portion: Portion,
        budget: &mut Budget,
        host: &mut Host,
    ) -> Ruling {
        let view = passage.view;
        let mut context = Context {
            view,
            direction: None,
            is_established: passage.is_established,
            judges_addresses: portion != Portion::Held,
        };
        let mut stream = None;
        if let Some(Seen { flow: number, side, .. }) = passage.flow {
            if portion.skip().is_some() && self.detector.window() > 0 {
                self.tracker.window(number, side, self.now);
            }
            let flow: &mut Flow = self.tracker.table.get_mut(number);
            context.direction = Some(if side == 0 { Direction::ToServer } else { Direction::ToClient });
            if self.detector.has_addresses() {
                context.judges_addresses &= !core::mem::replace(&mut flow.sides[side].is_judged, true);
            }
            if let Some(skip) = portion.skip() {
                let window = self.tracker.windows.get_mut(flow.sides[side].window);
                stream = Some(Stream { window, position: flow.sides[side].position, skip });
            }
        }
        let matched = self.detector.detect(&context, payload, portion, stream, budget);
        if matched.is_empty() {
            return Ruling::Go;
        }
        self.matched.clear();
        self.matched.extend_from_slice(matched);
        self.rule(passage, &context, portion, host)
    }

    /// Does what the rules say that matched.
    #[inline(never)]
    fn rule(
        &mut self,
        passage: &Passage<'_>,
        context: &Context<'_>,
        portion: Portion,
        host: &mut Host,
    ) -> Ruling {
        let (mut ruling, mut ends_flow) = (Ruling::Go, false);
        for number in &self.matched {
            let rule = &self.detector.rules()[*number as usize];
            if rule.action == Action::Pass {
                let in_stream = rule.scope != Scope::Packet && portion.skip().is_some();
                if in_stream || rule.is_address_only {
                    self.set_fate(passage, Fate::Passed);
                }
                return Ruling::Pass;
            }
            let view = passage.view;
            let outcome = rule.threshold.as_ref().map_or(Outcome::Tell, |threshold| {
                let address = if threshold.by_source { view.source } else { view.destination };
                self.thresholds.count(*number, threshold, address.ip(), passage.time)
            });
            let is_blocked = rule.action == Action::Drop && self.settings.drops;
            if outcome != Outcome::Nothing && is_blocked {
                (ruling, ends_flow) = (Ruling::Drop, self.settings.drops_flows);
            }
            if outcome != Outcome::Tell {
                self.tally.add(Count::Suppressed, 1);
                continue;
            }
            self.text.clear();
            let alert = Alert {
                rule,
                view,
                time: passage.time,
                flow: passage.flow.map(|seen| self.tracker.table.get(seen.flow).id),
                is_to_server: context.direction != Some(Direction::ToClient),
                is_blocked,
                interface: INTERFACES[passage.ingress],
            };
            event::write(&alert, &mut self.text);
            let count = if host.event(&self.text).is_ok() { Count::Alerts } else { Count::Lost };
            self.tally.add(count, 1);
        }
        if ends_flow {
            self.set_fate(passage, Fate::Dropped);
        }
        ruling
    }

    fn set_fate(&mut self, passage: &Passage<'_>, fate: Fate) {
        if let Some(seen) = passage.flow {
            self.tracker.table.get_mut(seen.flow).fate = fate;
        }
    }
}

superfluid_function!(Dpi);
