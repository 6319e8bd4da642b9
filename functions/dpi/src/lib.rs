//! The network function `dpi`: finds what a file of rules in Snort's language describes, in streams and in
//! packets, and alerts or drops, as a transparent bridge between its two interfaces or as an observer.
//!
//! A packet's way:
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
pub mod settings;
mod state;
pub mod threshold;

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use bits::Hosts;
use budget::Budget;
use conditions::Context;
use detect::{Carrier, Detector, Portion, Stream};
use event::Alert;
use flow::tcp::Place;
use flow::tracker::{Seen, Tracker};
use flow::{Fate, Flow, Side};
use header::{Frame, View};
use metrics::{Count, Reason, Tally};
use nf_sdk::fragments::{Fragments, Limits, Outcome};
use nf_sdk::{
    Batch, Config, Error, Host, Nanos, NetworkFunction, PacketTime, Severity, StateReader, StateWriter,
    Verdict, superfluid_function,
};
use packet::tunnel::Level;
use rules::bits::{Act, Bits, Owner};
use rules::buffer::App;
use rules::text::{clip, decimal};
use rules::{Action, Direction, Scope, Skipped};
use settings::Settings;
use threshold::{Outcome as Counted, Thresholds};

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
    /// What was left out of the rules has been said.
    is_announced: bool,
    /// The packet matched an alert or drop rule, or is dropped with its flow.
    is_suspicious: bool,
}

/// A packet on its way.
struct Passage<'a> {
    view: &'a View<'a>,
    time: Nanos,
    ingress: usize,
    flow: Option<Seen>,
    /// Number of a flow that is gone, of which nothing can be dropped any more.
    ended: Option<u64>,
    is_established: bool,
    /// Its receiver ignores it: what it matches says nothing about its flow.
    is_ignored: bool,
}

/// How a frame came.
#[derive(Clone, Copy)]
struct Arrival {
    time: Nanos,
    ingress: usize,
    /// Its transport checksum need not be computed, because it was verified or is not finished.
    is_vouched_for: bool,
    /// A checksum is not finished: of this packet, or of one inside.
    is_unfinished: bool,
    /// It was put together from fragments.
    is_whole: bool,
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
        let detector = Detector::new(rules, settings.stream_window, settings.body_limit);
        let no_memory = || Error::Refused(String::from("not enough memory for the table of flows"));
        Ok(Dpi {
            tracker: Tracker::new(&settings, detector.window()).ok_or_else(no_memory)?,
            fragments: Fragments::new(
                Limits {
                    datagrams: MAX_DATAGRAMS,
                    bytes: settings.fragment_memory,
                    timeout: settings.fragment_timeout,
                },
                settings.fragment_overlap,
                0,
            ),
            thresholds: Thresholds::new(settings.max_thresholds),
            hosts: Hosts::new(settings.max_thresholds),
            settings,
            detector,
            tally: Tally::default(),
            text: String::new(),
            matched: Vec::new(),
            time: PacketTime::default(),
            now: Nanos(0),
            timer_is_set: false,
            is_announced: false,
            is_suspicious: false,
        })
    }

    fn process(&mut self, batch: &mut Batch<'_>, now: Nanos) {
        if let Some(first) = batch.packets().next() {
            self.time.see(first.timestamp());
            self.now = self.time.latest();
        }
        // No sender knows the host's time as exactly as a secret is made of it.
        if self.tracker.begin(now.0, self.now) {
            self.fragments.set_seed(now.0.wrapping_mul(0x9fb2_1c65_1e98_df25).rotate_left(31));
        }
        if !core::mem::replace(&mut self.is_announced, true) {
            announce(self.detector.skipped(), batch.host());
        }
        let (packets, host) = batch.split();
        for mut packet in packets {
            if packet.ingress() == SUSPICIOUS && self.settings.copies {
                // Another opener of a device there could make up packets of known connections.
                let verdict = self.tally.judge(Err(Reason::FromSuspicious), 0);
                packet.verdict_encoded(verdict);
                continue;
            }
            let ingress = usize::from(packet.ingress() & 1);
            let time = Some(packet.timestamp()).filter(|time| time.0 != 0).unwrap_or(now);
            self.time.see(packet.timestamp());
            self.now = self.time.latest();
            let is_unfinished = checksums::are_unfinished(packet.record());
            let is_vouched_for = is_unfinished || checksums::are_verified(packet.record());
            let arrival = Arrival { time, ingress, is_vouched_for, is_unfinished, is_whole: false };
            self.is_suspicious = false;
            let mut judgement = self.frame(packet.bytes(), arrival, host);
            if packet.ingress() == SUSPICIOUS {
                // Without copies it is looked at all the same: what an observer is shown has the interface of another function.
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
        self.tally.flush(&self.tracker.turnover, host);
    }

    /// The frame's packet, and those inside of it.
    fn frame(&mut self, frame: &[u8], arrival: Arrival, host: &mut Host) -> Result<(), Reason> {
        match header::outermost(frame) {
            Ok(level) => self.levels(frame, level, arrival, host),
            Err(_) => self.malformed(),
        }
    }

    /// A packet in a frame, and those inside of it.
    fn levels(
        &mut self,
        frame: &[u8],
        outermost: Level,
        mut arrival: Arrival,
        host: &mut Host,
    ) -> Result<(), Reason> {
        let mut level = outermost;
        while self.level(frame, &level, arrival, host)? {
            level = match self.settings.tunnels.inside(frame, &level) {
                Ok(Some(inside)) => inside,
                Ok(None) => break,
                Err(_) => return self.malformed(),
            };
            // A port verifies the outermost checksum alone.
            arrival.is_vouched_for = arrival.is_unfinished;
        }
        Ok(())
    }

    fn malformed(&mut self) -> Result<(), Reason> {
        self.tally.add(Count::Malformed, 1);
        if self.settings.drops_malformed { Err(Reason::Malformed) } else { Ok(()) }
    }

    /// One packet; whether there may be others inside.
    fn level(
        &mut self,
        frame: &[u8],
        level: &Level,
        arrival: Arrival,
        host: &mut Host,
    ) -> Result<bool, Reason> {
        let view = match header::read(frame, level) {
            Frame::Ip(view) => view,
            Frame::Other => return Ok(true),
            Frame::Malformed => return self.malformed().map(|()| true),
        };
        self.detector.begin();
        let is_wrong = self.settings.verifies && !arrival.is_vouched_for && !checksums::are_right(&view);
        if is_wrong || view.ttl < self.settings.min_ttl {
            self.tally.add(if is_wrong { Count::WrongChecksums } else { Count::Ignored }, 1);
            let ruling = self.alone(&view, arrival, host);
            // What is inside is not taken out.
            return self
                .judge(ruling, self.settings.drops_ignored.then_some(Reason::Ignored))
                .map(|()| false);
        }
        if view.is_fragment {
            self.fragment(&view, frame, level, arrival, host).map(|()| false)
        } else {
            self.packet(&view, arrival, host).map(|()| true)
        }
    }

    /// The verdict on a packet that is dropped for some other reason when no rule has decided.
    fn judge(&self, ruling: Ruling, otherwise: Option<Reason>) -> Result<(), Reason> {
        match (ruling, otherwise) {
            (Ruling::Drop, _) => Err(Reason::Rule),
            (Ruling::Go, Some(reason)) => Err(reason),
            (Ruling::Go | Ruling::Pass, _) => Ok(()),
        }
    }

    /// A packet that is part of no flow.
    fn alone(&mut self, view: &View<'_>, arrival: Arrival, host: &mut Host) -> Ruling {
        let Arrival { time, ingress, .. } = arrival;
        let passage =
            Passage { view, time, ingress, flow: None, ended: None, is_established: false, is_ignored: true };
        let mut budget = Budget::new(view.payload.len());
        self.show(&passage, view.payload, Portion::Alone, &mut budget, host)
    }

    /// A fragment: rules about addresses see it, and with the last one all rules see the datagram.
    fn fragment(
        &mut self,
        view: &View<'_>,
        frame: &[u8],
        level: &Level,
        arrival: Arrival,
        host: &mut Host,
    ) -> Result<(), Reason> {
        self.tally.add(Count::Fragments, 1);
        if self.settings.drops_fragments {
            return Err(Reason::Fragment);
        }
        let ruling = self.alone(view, arrival, host);
        if ruling == Ruling::Drop {
            return Err(Reason::Rule);
        }
        let outcome = match self.part(frame, level) {
            // One in another one is what no host sends.
            Some((part, dissection)) if !arrival.is_whole => {
                let [first, second] = view.vlans.map(|vlan| u64::from(vlan.unwrap_or(0)));
                let tunnels = view.path.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
                self.fragments.take(&part, &dissection, tunnels ^ first ^ second << 12, self.now)
            }
            _ => Outcome::Discarded,
        };
        match outcome {
            Outcome::Waiting => Ok(()),
            Outcome::Whole(frame) => {
                self.tally.add(Count::Datagrams, 1);
                let Ok(mut whole) = header::outermost(&frame) else { return self.malformed() };
                (whole.path, whole.dissection.tags) = (level.path, level.dissection.tags);
                let arrival =
                    Arrival { is_whole: true, is_vouched_for: false, is_unfinished: false, ..arrival };
                self.levels(&frame, whole, arrival, host)
            }
            Outcome::Discarded => {
                self.tally.add(Count::Ignored, 1);
                self.judge(ruling, self.settings.drops_ignored.then_some(Reason::Ignored))
            }
            Outcome::Refused => {
                self.tally.add(Count::FragmentsLost, 1);
                self.judge(ruling, self.settings.drops_overload.then_some(Reason::Overload))
            }
        }
    }

    /// A fragment as a frame of its own, without what is around it.
    fn part(&self, frame: &[u8], level: &Level) -> Option<(Vec<u8>, packet::Dissection)> {
        let network = level.dissection.network?;
        let packet = frame.get(level.dissection.l3_offset..network.end)?;
        let ethertype: [u8; 2] = if network.source.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] };
        let part = [&[0; 12], ethertype.as_slice(), packet].concat();
        let dissection = packet::dissect(&part).ok()?;
        Some((part, dissection))
    }

    /// A packet in one piece.
    fn packet(&mut self, view: &View<'_>, arrival: Arrival, host: &mut Host) -> Result<(), Reason> {
        let Arrival { time, ingress, .. } = arrival;
        let seen = self.tracker.packet(view, ingress as u8, self.now);
        if !self.tracker.ended.is_empty() {
            self.look_at_ended(host);
            self.detector.begin();
        }
        let flow = self.tracker.table.get(seen.flow);
        // The segment that completes a handshake is not yet part of what was agreed, unless it has data.
        let is_established = seen.was_established || !view.payload.is_empty() && flow.is_established();
        match flow.fate {
            Fate::Open => {}
            Fate::Dropped => {
                self.is_suspicious = true;
                return Err(Reason::Flow);
            }
            Fate::Passed => return Ok(()),
        }
        self.tally.add(Count::Bytes, view.payload.len() as u64);
        let mut is_ignored = seen.place == Place::Ignored;
        let passage =
            Passage { view, time, ingress, flow: Some(seen), ended: None, is_established, is_ignored };
        let mut budget = Budget::new(view.payload.len());
        if view.protocol != packet::protocol::TCP {
            // There is no stream, and nothing waits for it.
            let ruling = self.show(&passage, view.payload, Portion::Alone, &mut budget, host);
            return self.judge_within(ruling, budget.was_spent(), false);
        }
        let (portion, is_unseen) = match seen.place {
            Place::None | Place::Ignored => (Portion::Alone, false),
            // Whether the receiver takes the first or the second is not known.
            Place::Old if self.tracker.differs(seen, view.payload) => {
                is_ignored = true;
                (Portion::Alone, false)
            }
            Place::Old => (Portion::Elsewhere, false),
            Place::Next { skip }
                if !self.tracker.is_holding(seen.flow, seen.side) && seen.sure == view.payload.len() =>
            {
                is_ignored = skip > 0 && self.tracker.differs(seen, view.payload);
                (Portion::Next { skip }, false)
            }
            Place::Next { .. } | Place::Ahead if self.tracker.hold(seen, view) => (Portion::Elsewhere, false),
            Place::Next { skip } => (Portion::Next { skip }, false),
            // What cannot be held will never be seen in its stream.
            Place::Ahead => (Portion::Alone, true),
        };
        let shown =
            if let Portion::Next { .. } = portion { &view.payload[..seen.sure] } else { view.payload };
        let mut ruling = self.show(&passage, shown, portion, &mut budget, host);
        if let Portion::Next { skip } = portion {
            self.tracker.advance(seen.flow, seen.side, shown.len() - skip);
        }
        let flow = self.tracker.table.get(seen.flow);
        let is_ending = seen.is_end || seen.has_ended;
        if ruling == Ruling::Go
            && (is_ending || flow.sides.iter().any(|side| side.held != 0 || side.is_finished))
        {
            ruling = self.look_behind(&passage, seen, is_ignored, &mut budget, host);
        }
        self.judge_within(ruling, budget.was_spent() || is_unseen, is_ignored)
    }

    /// The verdict on a packet that may have asked for more work than there is for it, or that its receiver
    /// ignores.
    fn judge_within(&mut self, ruling: Ruling, is_overloaded: bool, is_ignored: bool) -> Result<(), Reason> {
        self.tally.add(Count::Overloads, u64::from(is_overloaded));
        let otherwise = match () {
            () if is_overloaded && self.settings.drops_overload => Some(Reason::Overload),
            () if is_ignored && self.settings.drops_ignored => Some(Reason::Ignored),
            () => None,
        };
        self.judge(ruling, otherwise)
    }

    /// What waited for a segment: others that are held, behind it or behind a gap, and what a connection's end
    /// tells.
    #[inline(never)]
    fn look_behind(
        &mut self,
        passage: &Passage<'_>,
        seen: Seen,
        is_ignored: bool,
        budget: &mut Budget,
        host: &mut Host,
    ) -> Ruling {
        let mut ruling = Ruling::Go;
        if !is_ignored {
            ruling = self.held(passage, seen, budget, host);
        }
        if ruling == Ruling::Go && self.tracker.acknowledged(seen) {
            ruling = self.behind_gap(passage, seen, budget, host);
        }
        if ruling == Ruling::Go && seen.is_end {
            ruling = self.look_at_end(passage, seen, host);
        }
        if ruling == Ruling::Go && seen.has_ended {
            ruling = self.look_at_waiting(passage, seen, host);
        }
        if ruling == Ruling::Go {
            ruling = self.end_messages(passage, seen, host);
        }
        ruling
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
        let reversed = view.reversed();
        let seen = Seen { side: 1 - seen.side, ..seen };
        if let Some((session, share)) =
            self.tracker.sessions.get_mut(self.tracker.table.get(seen.flow).session)
        {
            let direction = if seen.side == 0 { Direction::ToServer } else { Direction::ToClient };
            session.gap(direction, share);
        }
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
            app: None,
        };
        let mut stream = None;
        let reads = self.detector.limits().reads;
        if let Some(Seen { flow: number, side, .. }) = passage.flow {
            let direction = if side == 0 { Direction::ToServer } else { Direction::ToClient };
            context.direction = Some(direction);
            if reads {
                context.app = self.recognise(number, direction, view, payload, portion);
            }
            if self.detector.has_addresses() {
                let flow: &mut Flow = self.tracker.table.get_mut(number);
                context.judges_addresses &= !core::mem::replace(&mut flow.sides[side].is_judged, true);
            }
            if let Some(skip) = portion.skip() {
                if self.detector.window() > 0 {
                    self.tracker.window(number, side, self.now);
                }
                let Side { window, position, .. } = self.tracker.table.get(number).sides[side];
                stream = Some(Stream { window: self.tracker.windows.get_mut(window), position, skip });
            }
        }
        self.detector.detect(&context, payload, portion, stream, budget);
        if reads && passage.flow.is_some() {
            self.messages(passage, &context, payload, portion, budget);
        }
        self.conclude(passage, &context, portion, host)
    }

    /// Does what the rules say that matched in what was shown.
    #[inline]
    fn conclude(
        &mut self,
        passage: &Passage<'_>,
        context: &Context<'_>,
        portion: Portion,
        host: &mut Host,
    ) -> Ruling {
        let matched = self.detector.matched();
        if matched.is_empty() {
            return Ruling::Go;
        }
        self.matched.clear();
        self.matched.extend_from_slice(matched);
        self.rule(passage, context, portion, host)
    }

    /// The application's protocol, as far as it is known with this payload.
    fn recognise(
        &mut self,
        flow: u32,
        direction: Direction,
        view: &View<'_>,
        payload: &[u8],
        portion: Portion,
    ) -> Option<Option<App>> {
        let new = match portion {
            Portion::Next { skip } => payload.get(skip..).unwrap_or_default(),
            Portion::Held => payload,
            Portion::Alone | Portion::Elsewhere => &[],
        };
        let is_dns = view.protocol == packet::protocol::UDP && message::dns::recognise(payload).is_some();
        if is_dns || !new.is_empty() {
            self.tracker.session(flow);
        }
        let number = self.tracker.table.get(flow).session;
        let (session, _) = self.tracker.sessions.get_mut(number)?;
        if is_dns {
            session.is_dns();
        }
        session.recognise(direction, new);
        session.app()
    }

    /// Shows the messages to the rules that a payload completes.
    #[inline(never)]
    fn messages(
        &mut self,
        passage: &Passage<'_>,
        context: &Context<'_>,
        payload: &[u8],
        portion: Portion,
        budget: &mut Budget,
    ) {
        let (Some(Seen { flow, side, .. }), Some(direction)) = (passage.flow, context.direction) else {
            return;
        };
        let limits = *self.detector.limits();
        let flow = self.tracker.table.get(flow);
        let Some((session, share)) = self.tracker.sessions.get_mut(flow.session) else { return };
        let window = self.tracker.windows.get(flow.sides[side].window);
        let new = portion.skip().map(|skip| payload.get(skip..).unwrap_or_default());
        let position = flow.sides[side].position;
        let end = position + new.map_or(0, <[u8]>::len) as u64;
        let detector = &mut self.detector;
        let mut sink = |message: &message::Message<'_>, waiting: &mut Vec<u32>| {
            let carrier = Carrier { payload, window: window.filter(|_| new.is_some()), end };
            detector.message(context, message, waiting, &carrier, budget);
        };
        match new {
            Some(new) => session.feed(direction, (new, position), &limits, share, &mut sink),
            None if context.view.protocol == packet::protocol::UDP
                && message::dns::recognise(payload).is_some() =>
            {
                let app = App::Dns;
                let whole = message::Message {
                    app,
                    direction,
                    head: payload,
                    body: Some(&[]),
                    begins: true,
                    start: position,
                };
                sink(&whole, &mut Vec::new());
            }
            None => {}
        }
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
        for place in 0..self.matched.len() {
            let number = self.matched[place];
            let rule = &self.detector.rules()[number as usize];
            let has_bits =
                rule.bits.iter().all(|bits| apply(bits, passage, &mut self.tracker, &mut self.hosts));
            if !has_bits {
                continue;
            }
            self.detector.hit(number);
            let rule = &self.detector.rules()[number as usize];
            if rule.action == Action::Pass {
                let in_stream = rule.scope != Scope::Packet && portion.skip().is_some();
                if in_stream || rule.is_address_only {
                    self.set_fate(passage, Fate::Passed);
                }
                return Ruling::Pass;
            }
            let view = passage.view;
            let outcome = rule.threshold.as_ref().map_or(Counted::Tell, |threshold| {
                let ends = [view.source.ip(), view.destination.ip()];
                self.thresholds.count(number, threshold, ends, passage.time)
            });
            let is_blocked = rule.action == Action::Drop && self.settings.drops && passage.ended.is_none();
            if outcome != Counted::Nothing && is_blocked {
                (ruling, ends_flow) = (Ruling::Drop, self.settings.drops_flows);
            }
            self.is_suspicious |= is_blocked && outcome != Counted::Nothing;
            if rule.is_silent {
                continue;
            }
            self.is_suspicious |= outcome != Counted::Nothing;
            if outcome != Counted::Tell {
                self.tally.add(Count::Suppressed, 1);
                continue;
            }
            self.text.clear();
            let alert = Alert {
                rule,
                view,
                time: passage.time,
                flow: passage.ended.or_else(|| passage.flow.map(|seen| self.tracker.table.get(seen.flow).id)),
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
        if let Some(seen) = passage.flow.filter(|_| !passage.is_ignored) {
            self.tracker.table.get_mut(seen.flow).fate = fate;
        }
    }
}

/// Says once how many rules were left out, and for want of what.
fn announce(skipped: &Skipped, host: &mut Host) {
    if skipped.total == 0 {
        return;
    }
    let mut reasons: Vec<(&String, &usize)> = skipped.reasons.iter().collect();
    reasons.sort_by_key(|(_, count)| core::cmp::Reverse(**count));
    let mut line = decimal(skipped.total as u64);
    line.push_str(" rules are left out, which ask for what this function does not have:");
    for (place, (name, count)) in reasons.into_iter().enumerate() {
        line.push_str(if place == 0 { " " } else { ", " });
        line.push_str(&decimal(*count as u64));
        line.push(' ');
        line.push_str(name);
    }
    clip(&mut line, settings::LONGEST_LINE);
    host.log(Severity::Warning, &line);
}

/// Whether bits are as a rule asks, or what it changes of them.
fn apply(bits: &Bits, passage: &Passage<'_>, tracker: &mut Tracker, hosts: &mut Hosts) -> bool {
    match bits.owner {
        Owner::Flow => {
            let Some(seen) = passage.flow else { return false };
            let number = tracker.table.get(seen.flow).session;
            let has =
                |name: &u16| tracker.sessions.get(number).is_some_and(|session| session.bits.has(*name));
            match bits.act {
                Act::IsSet => return bits.names.iter().any(has),
                Act::IsNotSet => return !bits.names.iter().any(has),
                Act::Set | Act::Unset | Act::Toggle => {}
            }
            let Some(name) = bits.names.first().copied() else { return true };
            let is_set = bits.act == Act::Set || bits.act == Act::Toggle && !has(&name);
            let number = if is_set { tracker.session(seen.flow) } else { number };
            if let Some((session, _)) = tracker.sessions.get_mut(number) {
                session.bits.put(name, is_set);
            }
        }
        Owner::Host { is_source, seconds } => {
            let end = if is_source { passage.view.source } else { passage.view.destination };
            let (address, now) = (end.ip(), passage.time);
            let Some(name) = bits.names.first().copied() else { return true };
            let has = hosts.has(name, address, now);
            match bits.act {
                Act::IsSet => return has,
                Act::IsNotSet => return !has,
                Act::Set | Act::Unset | Act::Toggle => {}
            }
            let is_set = bits.act == Act::Set || bits.act == Act::Toggle && !has;
            hosts.put(name, address, is_set.then_some(seconds), now);
        }
    }
    true
}

superfluid_function!(Dpi);
