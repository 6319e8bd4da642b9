//! What rules make of a packet: they are shown payloads and messages, and what those say that match is done.
//!
//! 1. A payload is shown to the detector with what is known of its flow, and then the messages that it
//!    completes.
//! 2. Of the rules that match, bits decide first and thresholds last; then the actions make the [`Ruling`],
//!    and alerts are written.

use crate::bits::Hosts;
use crate::budget::Budget;
use crate::conditions::Context;
use crate::detect::{Carrier, Portion, Shown, Stream};
use crate::event::{self, Alert};
use crate::flow::tracker::{Seen, Tracker};
use crate::flow::{Fate, Flow, Side};
use crate::message;
use crate::metrics::Count;
use crate::rules::bits::{Act, Bits, Owner};
use crate::rules::buffer::App;
use crate::rules::{Action, Direction, Scope};
use crate::threshold::Outcome as Counted;
use crate::way::Passage;
use crate::{Dpi, INTERFACES};
use alloc::vec::Vec;
use core::ops::Range;
use nf_sdk::Host;

/// What the rules that matched make of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ruling {
    Go,
    Pass,
    Drop,
}
impl Dpi {
    /// Shows a payload to the rules, and does what those say that match.
    pub(crate) fn show(
        &mut self,
        passage: &Passage<'_>,
        shown: Shown<'_>,
        budget: &mut Budget,
        host: &mut Host,
    ) -> Ruling {
        let Shown { payload, portion } = shown;
        if let (Some(Seen { flow, side, .. }), Some(skip)) = (passage.flow, portion.skip()) {
            if self.detector.window() > 0 && !self.tracker.keep_window(flow, side, self.now) {
                // What came before was forgotten.
                budget.cut_short();
            }
            if let Some(at) = self.tracker.take_urgent(flow, side, payload.len().saturating_sub(skip)) {
                return self.show_around(passage, shown, skip..skip + at, budget, host);
            }
        }
        let view = passage.view;
        let mut context = Context {
            view,
            direction: None,
            is_established: passage.is_established,
            judges_addresses: portion != Portion::Held,
            app: None,
        };
        let (mut stream, mut is_dns) = (None, false);
        let reads = self.detector.limits().reads;
        if let Some(Seen { flow: number, side, .. }) = passage.flow {
            let direction = if side == 0 { Direction::ToServer } else { Direction::ToClient };
            context.direction = Some(direction);
            if reads {
                is_dns = view.protocol == packet::protocol::UDP && message::dns::recognise(payload).is_some();
                let refused = self.tracker.sessions.share.refused;
                context.app = self.recognise(number, direction, is_dns, payload, portion);
                if self.tracker.sessions.share.refused != refused {
                    budget.cut_short();
                }
            }
            if self.detector.has_addresses() {
                let flow: &mut Flow = self.tracker.table.get_mut(number);
                context.judges_addresses &= !core::mem::replace(&mut flow.sides[side].is_judged, true);
            }
            if let Some(skip) = portion.skip() {
                let Side { window, position, .. } = self.tracker.table.get(number).sides[side];
                let window = self.tracker.windows.get_mut(window);
                let position = position - window.as_ref().map_or(0, |window| window.passed);
                stream = Some(Stream { window, position, skip });
            }
        }
        self.detector.detect(&context, shown, stream, budget);
        if reads && passage.flow.is_some() {
            self.messages(passage, &context, shown, is_dns, budget);
        }
        self.conclude(passage, &context, portion, host)
    }

    /// The same where the byte behind these new ones comes out of band: it is no part of the stream, unless
    /// the receiver asks for that. So a packet is looked at with it, too.
    #[cold]
    fn show_around(
        &mut self,
        passage: &Passage<'_>,
        Shown { payload, portion }: Shown<'_>,
        new: Range<usize>,
        budget: &mut Budget,
        host: &mut Host,
    ) -> Ruling {
        let behind = payload.get(new.end + 1..).unwrap_or_default();
        let stream = [payload.get(new).unwrap_or_default(), behind].concat();
        let without = Shown { payload: &stream, portion: Portion::Held };
        let mut ruling = self.show(passage, without, budget, host);
        if ruling == Ruling::Go && portion.is_packet() {
            ruling = self.show(passage, Shown { payload, portion: Portion::Alone }, budget, host);
        }
        if let Some(seen) = passage.flow {
            self.tracker.pass_urgent(seen.flow, seen.side);
        }
        ruling
    }

    /// Does what the rules say that matched in what was shown.
    #[inline]
    pub(crate) fn conclude(
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
        is_dns: bool,
        payload: &[u8],
        portion: Portion,
    ) -> Option<Option<App>> {
        let new = match portion {
            Portion::Next { skip } => payload.get(skip..).unwrap_or_default(),
            Portion::Held => payload,
            Portion::Alone | Portion::Elsewhere => &[],
        };
        if is_dns || !new.is_empty() {
            self.tracker.session(flow);
        }
        let number = self.tracker.table.get(flow).session;
        let (session, _) = self.tracker.sessions.get_mut(number)?;
        if is_dns {
            session.is_dns();
        }
        session.recognise(direction, new);
        session.app(Some(direction))
    }

    /// Shows the messages to the rules that a payload completes.
    #[inline(never)]
    pub(crate) fn messages(
        &mut self,
        passage: &Passage<'_>,
        context: &Context<'_>,
        Shown { payload, portion }: Shown<'_>,
        is_dns: bool,
        budget: &mut Budget,
    ) {
        let (Some(Seen { flow, side, .. }), Some(direction)) = (passage.flow, context.direction) else {
            return;
        };
        let limits = *self.detector.limits();
        let flow = self.tracker.table.get(flow);
        self.tracker.sessions.touch(flow.session, self.now);
        let Some((session, share)) = self.tracker.sessions.get_mut(flow.session) else { return };
        let window = self.tracker.windows.get(flow.sides[side].window);
        let new = portion.skip().map(|skip| payload.get(skip..).unwrap_or_default());
        let position = flow.sides[side].position - window.map_or(0, |window| window.passed);
        let end = position + new.map_or(0, <[u8]>::len) as u64;
        let detector = &mut self.detector;
        let mut sink = |message: &message::Message<'_>, waiting: &mut Vec<u32>| {
            let window = window.filter(|_| new.is_some());
            let carrier = Carrier { payload, window, from: position, end };
            detector.message(context, message, waiting, &carrier, budget);
        };
        let refused = share.refused;
        match new {
            Some(new) => session.feed(direction, (new, position), &limits, share, &mut sink),
            None if is_dns => {
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
        if share.refused != refused {
            // What there is no memory for is not looked at.
            budget.cut_short();
        }
    }

    /// Does what the rules say that matched.
    #[inline(never)]
    pub(crate) fn rule(
        &mut self,
        passage: &Passage<'_>,
        context: &Context<'_>,
        portion: Portion,
        host: &mut Host,
    ) -> Ruling {
        let (mut ruling, mut ends_flow) = (Ruling::Go, false);
        // What is the same in all alerts of the packet, and how many bytes of their text.
        let mut common = None;
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
                ruling = Ruling::Drop;
                ends_flow |= self.settings.drops_flows && (rule.is_address_only || !passage.is_loose);
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
            let (alert, length) = common.get_or_insert_with(|| {
                let alert = Alert {
                    view,
                    time: passage.time,
                    flow: passage.ended.or_else(|| passage.flow.map(|seen| self.tracker.id(seen.flow))),
                    is_to_server: context.direction != Some(Direction::ToClient),
                    interface: INTERFACES[passage.ingress],
                };
                self.text.clear();
                event::write_packet(&alert, &mut self.text);
                (alert, self.text.len())
            });
            self.text.truncate(*length);
            event::write_rule(alert, rule, is_blocked, &mut self.text);
            let count = if host.event(&self.text).is_ok() { Count::Alerts } else { Count::Lost };
            self.tally.add(count, 1);
        }
        if ends_flow {
            self.set_fate(passage, Fate::Dropped);
        }
        ruling
    }

    pub(crate) fn set_fate(&mut self, passage: &Passage<'_>, fate: Fate) {
        if let Some(seen) = passage.flow.filter(|_| !passage.is_ignored) {
            let flow = self.tracker.table.get_mut(seen.flow);
            flow.fate = fate;
            let is_tcp = flow.protocol() == packet::protocol::TCP;
            if !is_tcp {
                flow.bar(seen.side, passage.from);
            }
        }
    }
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
