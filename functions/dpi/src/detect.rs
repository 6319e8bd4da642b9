//! A payload's way through the rules.
//!
//! 1. The [`crate::filter`] names the literals that occur, in the payload and across its seam with the stream
//!    before it.
//! 2. Rules that need one of them, and those that have no literal, are compared with the packet's headers.
//! 3. What is left is decided by [`crate::inspect`], in the packet, or in the stream's last bytes and the new
//!    ones. A rule that lacks something yet waits in the stream's window.
//! 4. Messages of applications go the same way, each of their parts with a filter of its own; a rule that
//!    lacks a body yet waits for the message's end.

use crate::budget::Budget;
use crate::caches::Caches;
use crate::conditions::{self, Context};
use crate::filter::groups::Groups;
use crate::filter::literals::Literals;
use crate::filter::{Filter, Findings};
use crate::flow::windows::{Pending, Window};
use crate::inspect::{Failed, Subject, inspect, inspect_again};
use crate::message::fields::Fields;
use crate::message::http::bit;
use crate::message::{Limits, Message};
use crate::rules::buffer::{Buffer, FIELDS};
use crate::rules::{Pattern, Protocol, Rule, Rules, Scope};
use alloc::vec;
use alloc::vec::Vec;

/// Most rules of a message that wait for its end because they lack something yet that is still to be looked
/// for, and most of those that lack a literal of the payload, which are not compared before it is there.
const MAX_WAITING: usize = 64;
const MAX_LACKING: usize = 64;
/// Bytes of a body without its encodings that cost as much as a comparison.
const BODY_UNIT: usize = 8;
/// What reading a message costs, and how many bytes of its parts as much as a comparison.
const MESSAGE: u32 = 80;
const READ_UNIT: usize = 8;
/// What reading a line of a head costs.
const LINE: u32 = 4;

/// What a payload is to packets and streams, and hence which rules are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Portion {
    /// A packet's that is part of no stream: rules about packets, and rules about streams as if it were one.
    Alone,
    /// A packet's whose stream has had these bytes, or will have them: rules about packets.
    Elsewhere,
    /// A packet's that its stream goes on with, behind so many bytes: all rules.
    Next {
        /// Bytes that are not new.
        skip: usize,
    },
    /// An earlier packet's that its stream has come to: rules about streams.
    Held,
}

impl Portion {
    /// The packet itself is looked at.
    pub fn is_packet(self) -> bool {
        self != Portion::Held
    }

    /// For a stream, bytes that are not new.
    pub fn skip(self) -> Option<usize> {
        match self {
            Portion::Alone | Portion::Elsewhere => None,
            Portion::Next { skip } => Some(skip),
            Portion::Held => Some(0),
        }
    }
}

/// A payload with what it is. As one, because in the sandbox arguments beyond a few are passed in memory,
/// written in other pieces than they are read in.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The payload.
    pub payload: &'a [u8],
    /// What it is to packets and streams.
    pub portion: Portion,
}

/// The stream that a payload belongs to.
#[derive(Debug)]
pub struct Stream<'a> {
    /// Its last bytes.
    pub window: Option<&'a mut Window>,
    /// Number of the first new byte.
    pub position: u64,
    /// Bytes of the payload that are not new.
    pub skip: usize,
}

/// All rules, and what finds them.
#[derive(Debug)]
pub struct Detector {
    rules: Rules,
    literals: Literals,
    groups: Groups,
    findings: Findings,
    /// Bytes around a seam, and a stream's last bytes with the new ones.
    seam: Vec<u8>,
    assembled: Vec<u8>,
    candidates: Vec<u32>,
    /// Rules without a literal that the packet's headers may fit.
    unfiltered: Vec<u32>,
    /// Rules that matched in the payload that was shown last.
    matched: Vec<u32>,
    /// Number of the packet that a rule matched in last.
    stamps: Vec<u32>,
    stamp: u32,
    hits: Vec<u64>,
    /// How often each rule was not verified to the end.
    unfinished: Vec<u64>,
    window: usize,
    caches: Caches,
    has_addresses: bool,
    /// Number of the payload that a literal was found in last, and that of the payload that was shown last.
    met: Vec<u32>,
    payload: u32,
    /// Filters of the parts of messages.
    parts: Vec<(Buffer, Filter)>,
    /// Rules about messages without a literal.
    always: Vec<u32>,
    fields: Fields,
    limits: Limits,
    /// Rules that were forgotten while they waited.
    pub pending_lost: u64,
}

/// The payload that a message came with.
#[derive(Clone, Copy, Debug)]
pub struct Carrier<'a> {
    /// The payload.
    pub payload: &'a [u8],
    /// The stream's last bytes, with the payload's.
    pub window: Option<&'a Window>,
    /// Number of the first byte that came with the payload.
    pub from: u64,
    /// Number of the byte behind them.
    pub end: u64,
}

/// Takes the parts of a message's head, as many of its lines as can be paid for.
fn parts_of(message: &Message<'_>, limits: &Limits, fields: &mut Fields, budget: &mut Budget) {
    let most = (budget.left() / LINE) as usize;
    let read = message.parts(limits.wanted, most, fields);
    if read > 0 && read >= most {
        budget.cut_short();
    }
    budget.pay(LINE * read as u32);
}

/// The parts of a kind, and a body that is one as it is.
fn all_parts<'a>(
    fields: &'a Fields,
    plain: Option<(Buffer, &'a [u8])>,
    buffer: Buffer,
) -> impl Iterator<Item = &'a [u8]> {
    let plain = plain.filter(|(known, _)| *known == buffer);
    fields.all(buffer).chain(plain.map(|(_, bytes)| bytes))
}

/// Notes which literals are in a payload, for rules about messages that need one of them there.
#[inline]
fn note_met(found: &[u32], met: &mut [u32], payload: &mut u32) {
    *payload = payload.wrapping_add(1);
    if *payload == 0 {
        met.fill(0);
        *payload = 1;
    }
    for literal in found {
        met[*literal as usize] = *payload;
    }
}

/// Looks for what begins in a stream's last bytes and ends in the new ones, in memory for both. By itself:
/// most segments do without.
#[inline(never)]
fn scan_seam(
    filter: &Filter,
    (window, new): (&Window, &[u8]),
    memory: &mut Vec<u8>,
    literals: &Literals,
    findings: &mut Findings,
) {
    let reach = filter.longest - 1;
    memory.clear();
    window.copy_last(reach, memory);
    let seam = memory.len();
    memory.extend_from_slice(&new[..new.len().min(reach)]);
    filter.scan(memory, seam, literals, findings);
}

impl Detector {
    /// For these rules; `window`: how far back rules look that need more than a literal.
    pub fn new(rules: Rules, window: usize, body: usize) -> Detector {
        let literals = Literals::new(&rules.list);
        let groups = Groups::new(&rules, &literals);
        let is_in_stream = |rule: &Rule| {
            matches!(rule.protocol, Protocol::Tcp | Protocol::Ip) && rule.scope != Scope::Packet
        };
        let looks_back = rules
            .list
            .iter()
            .zip(&literals.is_whole)
            .any(|(rule, whole)| is_in_stream(rule) && rule.has_content() && !whole);
        let window = match (rules.list.iter().any(is_in_stream), looks_back) {
            (false, _) => 0,
            (true, false) => groups.longest_tcp().saturating_sub(1).max(1),
            (true, true) => window.max(groups.longest_tcp()),
        };
        let of_messages = || rules.list.iter().enumerate().filter(|(_, rule)| rule.has_fields());
        let parts = FIELDS.iter().filter_map(|field| {
            let is_here = |(number, _): &(usize, &Rule)| literals.buffers[*number] == Some(field.buffer);
            let numbers: Vec<u32> = of_messages().filter(is_here).map(|(number, _)| number as u32).collect();
            (!numbers.is_empty())
                .then(|| (field.buffer, Filter::new(&numbers, &literals.of_rule, &rules, &literals)))
        });
        let parts: Vec<(Buffer, Filter)> = parts.collect();
        let has_none = |(number, _): &(usize, &Rule)| literals.of_rule[*number].is_none();
        let always = of_messages().filter(has_none).map(|(number, _)| number as u32).collect();
        let all_buffers = || rules.list.iter().flat_map(|rule| rule.fields.iter().map(|(buffer, _)| *buffer));
        let limits = Limits {
            body,
            bodies: [Buffer::RequestBody, Buffer::ResponseBody]
                .map(|body| all_buffers().any(|buffer| buffer == body)),
            wanted: all_buffers().fold(0, |wanted, buffer| wanted | bit(buffer)),
            reads: rules.list.iter().any(|rule| rule.has_fields() || !rule.apps.is_empty()),
        };
        Detector {
            parts,
            always,
            fields: Fields::default(),
            limits,
            findings: Findings::new(literals.list.len()),
            met: vec![0; literals.list.len()],
            payload: 0,
            seam: Vec::new(),
            assembled: Vec::new(),
            candidates: Vec::new(),
            unfiltered: Vec::new(),
            matched: Vec::new(),
            stamps: vec![0; rules.list.len()],
            stamp: 0,
            hits: vec![0; rules.list.len()],
            unfinished: vec![0; rules.list.len()],
            window,
            caches: Caches::new(&rules.list),
            has_addresses: rules.list.iter().any(|rule| rule.is_address_only),
            pending_lost: 0,
            rules,
            literals,
            groups,
        }
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules.list
    }

    /// What the file of rules has.
    pub fn file(&self) -> &Rules {
        &self.rules
    }

    /// How often each rule matched.
    pub fn hits(&self) -> &[u64] {
        &self.hits
    }

    /// How often each rule was not verified to the end, for the work that it would have taken.
    pub fn unfinished(&self) -> &[u64] {
        &self.unfinished
    }

    /// Bytes that have to be kept of each stream.
    pub fn window(&self) -> usize {
        self.window
    }

    /// What rules ask for of messages.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// There are rules about addresses alone.
    pub fn has_addresses(&self) -> bool {
        self.has_addresses
    }

    /// Begins another packet: a rule matches once in each.
    #[inline]
    pub fn begin(&mut self) {
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.stamps.fill(0);
            self.stamp = 1;
        }
    }

    /// Finds the rules that match in a payload; [`Detector::matched`] has them. There is a stream when the
    /// portion is one of a stream.
    #[inline]
    pub fn detect(
        &mut self,
        context: &Context<'_>,
        shown: Shown<'_>,
        mut stream: Option<Stream<'_>>,
        budget: &mut Budget,
    ) {
        let (view, payload) = (context.view, shown.payload);
        let filter =
            self.groups.filter(view.protocol, view.source_port, view.destination_port, context.direction);
        self.findings.begin(budget);
        self.matched.clear();
        if !filter.is_empty() && !payload.is_empty() {
            filter.scan(payload, 0, &self.literals, &mut self.findings);
        }
        let in_payload = self.findings.found.len();
        note_met(&self.findings.found, &mut self.met, &mut self.payload);
        if let Some(Stream { window: Some(window), skip, .. }) = &mut stream
            && filter.longest > 1
        {
            let new = &payload[*skip..];
            // What begins before the payload and ends in it.
            if !window.is_empty()
                && (*skip > 0
                    || window.open > 0
                    || self.findings.reaches_before
                    || filter.may_cross(&window.seam(new)))
            {
                scan_seam(filter, (window, new), &mut self.seam, &self.literals, &mut self.findings);
            }
            window.open = if self.findings.reaches_behind {
                filter.longest - 1
            } else {
                window.open.saturating_sub(new.len())
            };
        }
        let in_stream = self.findings.found.len();
        if let Some(Stream { window: Some(window), .. }) = &stream
            && window.crowded.is_some()
        {
            // Rules were forgotten that waited: their literals are looked for again.
            self.seam.clear();
            window.copy_last(usize::MAX, &mut self.seam);
            filter.scan(&self.seam, 0, &self.literals, &mut self.findings);
        }
        self.findings.end(budget);
        let waiting = stream
            .as_ref()
            .and_then(|stream| stream.window.as_ref())
            .map_or(0, |window| window.pending.len());
        self.unfiltered.clear();
        filter.unfiltered.name(context, !payload.is_empty(), &mut self.unfiltered);
        if self.findings.found.is_empty() && self.unfiltered.is_empty() && waiting == 0 {
            if let Some(Stream { window: Some(window), skip, .. }) = stream {
                window.append(&payload[skip..]);
            }
            return;
        }
        self.judge(context, shown, stream, budget, (in_payload, in_stream));
    }

    /// The rules that match in what was shown, in the order in which they are applied ([`Rule::order`]).
    #[inline]
    pub fn matched(&mut self) -> &[u32] {
        if self.matched.len() > 1 {
            let list = &self.rules.list;
            self.matched.sort_by_key(|number| list[*number as usize].order());
        }
        &self.matched
    }

    /// Forgets what matched, when there is no payload to be shown.
    pub fn forget(&mut self) {
        self.matched.clear();
    }

    /// Counts a match of a rule.
    pub fn hit(&mut self, rule: u32) {
        self.hits[rule as usize] += 1;
    }

    #[inline(never)]
    fn judge(
        &mut self,
        context: &Context<'_>,
        Shown { payload, portion }: Shown<'_>,
        stream: Option<Stream<'_>>,
        budget: &mut Budget,
        (in_payload, in_stream): (usize, usize),
    ) {
        let Detector {
            rules,
            literals,
            findings,
            unfiltered,
            caches,
            stamps,
            stamp,
            matched,
            candidates,
            unfinished,
            ..
        } = self;
        let named = findings.found.iter().map(|literal| literals.list[*literal as usize].rules.len());
        let mut remaining = named.sum::<usize>() + unfiltered.len();
        let skip = stream.as_ref().map_or(0, |stream| stream.skip);
        candidates.clear();
        let packet = Subject { data: payload, new_from: 0, base: 0, is_open: false };
        let mut consider = |number: u32, is_in_payload: bool, has_literal: bool, is_old: bool| {
            let rule = &rules.list[number as usize];
            let to_verify = remaining;
            remaining -= 1;
            if stamps[number as usize] == *stamp
                || payload.is_empty() && rule.has_content()
                || !conditions::hold(rules, rule, context, portion.is_packet())
            {
                return;
            }
            let is_whole = has_literal && literals.is_whole[number as usize];
            if is_whole && is_old {
                // It was met when it came.
                return;
            }
            let of_packet = match rule.scope {
                Scope::Packet | Scope::Both => portion.is_packet() && is_in_payload,
                Scope::Stream => portion == Portion::Alone && is_in_payload,
                Scope::OnlyStream => false,
            };
            let of_stream = rule.scope != Scope::Packet && stream.is_some();
            // A literal in bytes that were there already tells nothing new.
            let is_met = is_whole && (of_packet || of_stream && (!is_in_payload || skip == 0));
            let mut is_verified = || {
                caches.verified(number, &rules.list);
                let is_met = budget.begin(to_verify) && inspect(&rule.payload, &packet, budget);
                unfinished[number as usize] += u64::from(budget.is_spent());
                is_met
            };
            if is_met || of_packet && is_verified() {
                stamps[number as usize] = *stamp;
                matched.push(number);
            } else if of_stream {
                candidates.push(number);
            }
        };
        for (place, literal) in findings.found.iter().enumerate() {
            for rule in &literals.list[*literal as usize].rules {
                consider(*rule, place < in_payload, true, place >= in_stream);
            }
        }
        for rule in unfiltered.iter() {
            consider(*rule, true, false, false);
        }
        if let Some(stream) = stream {
            self.judge_stream(context, payload, stream, budget);
        }
    }

    /// Decides on candidates, and on rules that wait, in the stream.
    fn judge_stream(
        &mut self,
        context: &Context<'_>,
        payload: &[u8],
        stream: Stream<'_>,
        budget: &mut Budget,
    ) {
        let Stream { mut window, position, skip } = stream;
        let data = &payload[skip..];
        let end = position + data.len() as u64;
        let waiting = window.as_ref().map_or(0, |window| window.pending.len());
        if self.candidates.is_empty() && waiting == 0 {
            if let Some(window) = window {
                window.append(data);
            }
            return;
        }
        self.assembled.clear();
        if let Some(window) = &window {
            window.copy_last(usize::MAX, &mut self.assembled);
        }
        let new_from = self.assembled.len();
        self.assembled.extend_from_slice(data);
        let base = position.saturating_sub(new_from as u64);
        let subject = Subject { data: &self.assembled, new_from, base, is_open: true };
        // Whether one of these is met is to be told by what came with it, or behind it.
        let crowded = window.as_mut().and_then(|window| window.crowded.take());
        // Rules that wait come after what this payload has named.
        let named = self.candidates.len();
        if let Some(window) = &window {
            let pending = window.pending.iter().map(|pending| pending.rule);
            self.candidates.extend(pending.filter(|rule| !self.matched.contains(rule)));
        }
        for (place, number) in self.candidates.iter().enumerate() {
            let rule = &self.rules.list[*number as usize];
            // Those that were named are each there once.
            let is_done = self.stamps[*number as usize] == self.stamp
                || place >= named && self.candidates[..named].contains(number);
            if is_done || place >= named && !conditions::hold(&self.rules, rule, context, false) {
                continue;
            }
            // Since a rule waits, it has not matched.
            let mut waits = window
                .as_mut()
                .and_then(|window| window.pending.iter_mut().find(|some| some.rule == *number));
            let from = match (&waits, crowded) {
                (Some(waits), _) => waits.from.min(position),
                (None, Some(crowded)) if rule.payload.is_told_by_end() => crowded.min(position),
                (None, _) => position,
            };
            let subject = Subject { new_from: from.saturating_sub(base) as usize, ..subject };
            self.caches.verified(*number, &self.rules.list);
            let mut failed = waits.as_ref().map_or_else(Failed::default, |waits| {
                let until = usize::try_from(waits.failed.saturating_sub(base)).unwrap_or(usize::MAX);
                Failed { chain: waits.chain, until }
            });
            let is_met = budget.begin(self.candidates.len() - place)
                && inspect_again(&rule.payload, &subject, &mut failed, budget);
            self.unfinished[*number as usize] += u64::from(budget.is_spent());
            let failed = (failed.chain, base + failed.until as u64);
            if let Some(waits) = &mut waits {
                (waits.chain, waits.failed) = failed;
            }
            let (chain, failed) = failed;
            if is_met {
                self.stamps[*number as usize] = self.stamp;
                self.matched.push(*number);
            } else if let Some(window) = &mut window
                && place < named
                && self.literals.of_rule[*number as usize].is_some()
                && !window.remember(Pending { rule: *number, from, end, chain, failed })
            {
                self.pending_lost += 1;
            }
        }
        if let Some(window) = window {
            window.append(data);
            // What lies before the window cannot become part of a match any more.
            let first = end - (window.len() as u64).min(end);
            let (stamps, stamp) = (&self.stamps, self.stamp);
            window.pending.retain(|pending| pending.end > first && stamps[pending.rule as usize] != stamp);
        }
    }

    /// Finds the rules that match because their stream has ended: those that waited for what must not come.
    /// `position`: number of the byte behind its last one.
    pub fn finish(&mut self, context: &Context<'_>, window: &mut Window, position: u64, budget: &mut Budget) {
        self.matched.clear();
        self.assembled.clear();
        window.copy_last(usize::MAX, &mut self.assembled);
        let base = position.saturating_sub(self.assembled.len() as u64);
        let waiting = core::mem::take(&mut window.pending);
        for (place, Pending { rule: number, from, .. }) in waiting.iter().enumerate() {
            let rule = &self.rules.list[*number as usize];
            if self.stamps[*number as usize] == self.stamp
                || !conditions::hold(&self.rules, rule, context, false)
            {
                continue;
            }
            let new_from = from.saturating_sub(base) as usize;
            let subject = Subject { data: &self.assembled, new_from, base, is_open: false };
            self.caches.verified(*number, &self.rules.list);
            let is_met = budget.begin(waiting.len() - place) && inspect(&rule.payload, &subject, budget);
            self.unfinished[*number as usize] += u64::from(budget.is_spent());
            if is_met {
                self.stamps[*number as usize] = self.stamp;
                self.matched.push(*number);
            }
        }
    }

    /// Finds the rules that match in a message.
    #[inline(never)]
    pub fn message(
        &mut self,
        context: &Context<'_>,
        message: &Message<'_>,
        waiting: &mut Vec<u32>,
        carrier: &Carrier<'_>,
        budget: &mut Budget,
    ) {
        if !budget.begin(1) || !budget.pay(MESSAGE) {
            self.pending_lost += waiting.drain(..).len() as u64;
            return;
        }
        let Detector { findings, fields, parts, literals, limits, .. } = self;
        findings.begin(budget);
        fields.clear();
        let is_whole = message.body.is_some();
        // What the bytes of its head and of its body were allowed that came before.
        let head = if message.begins { message.head.len() } else { 0 };
        let body = message.body.map_or(0, <[u8]>::len);
        budget.extend((head + body).saturating_sub(carrier.payload.len()));
        if message.begins {
            parts_of(message, limits, fields, budget);
        }
        // A body without encodings is looked at where it is.
        let mut plain = None;
        if is_whole {
            // Half of what is left may go into undoing encodings, and what its bytes were allowed when they
            // came.
            budget.begin(2);
            let room = (budget.left() as usize / 2).saturating_add(body).saturating_mul(BODY_UNIT);
            let taken = message.take_body(limits.body.min(room), fields);
            if taken.is_cut && room < limits.body {
                budget.cut_short();
            }
            budget.pay((taken.bytes / BODY_UNIT) as u32);
            plain = taken.plain;
        }
        let mut read = 0;
        for (buffer, filter) in parts.iter() {
            for part in all_parts(fields, plain, *buffer) {
                read += part.len() / READ_UNIT;
                filter.scan(part, 0, literals, findings);
            }
        }
        findings.end(budget);
        budget.begin(1);
        budget.pay(u32::try_from(read).unwrap_or(u32::MAX));
        self.candidates.clear();
        let found = self.findings.found.iter().flat_map(|number| &self.literals.list[*number as usize].rules);
        self.candidates.extend(found);
        let list = &self.rules.list;
        self.candidates.extend(self.always.iter().copied().filter(|number| {
            let rule = &list[*number as usize];
            // Once in a message: with its head, or with its end.
            rule.message_app() == Some(message.app)
                && if message.begins { !rule.needs_body() || is_whole } else { rule.needs_body() }
        }));
        if is_whole {
            self.candidates.append(waiting);
        }
        self.assembled.clear();
        let mut candidates = core::mem::take(&mut self.candidates);
        if candidates.iter().any(|number| self.lacks(*number)) {
            self.look_before(context, message.start, carrier, budget);
        }
        if is_whole {
            candidates.retain(|number| !self.lacks(*number));
        }
        if candidates.is_empty() {
            self.candidates = candidates;
            return;
        }
        if !message.begins {
            parts_of(message, &self.limits, &mut self.fields, budget);
        }
        candidates.sort_unstable();
        candidates.dedup();
        let mut lacking = 0;
        for (place, number) in candidates.iter().enumerate() {
            let rule = &self.rules.list[*number as usize];
            if !budget.begin(candidates.len() - place) || !conditions::hold(&self.rules, rule, context, true)
            {
                continue;
            }
            if !is_whole && lacking < MAX_LACKING && self.lacks(*number) {
                lacking += 1;
                waiting.push(*number);
                continue;
            }
            self.caches.verified(*number, &self.rules.list);
            let is_met = if rule.needs_body() && !is_whole {
                false
            } else if self.literals.is_whole[*number as usize] {
                true
            } else {
                let is_there = |(buffer, pattern): &(Buffer, Pattern), budget: &mut Budget| {
                    all_parts(&self.fields, plain, *buffer).any(|part| {
                        inspect(
                            pattern,
                            &Subject { data: part, new_from: 0, base: 0, is_open: false },
                            budget,
                        )
                    })
                };
                if rule.tls_version.is_some() && rule.tls_version != self.fields.version
                    || !rule.fields.iter().all(|field| is_there(field, budget))
                {
                    self.unfinished[*number as usize] += u64::from(budget.is_spent());
                    continue;
                }
                rule.payload.is_empty()
                    || !self.lacks(*number) && self.carries(*number, message.start, carrier, budget)
            };
            self.unfinished[*number as usize] += u64::from(budget.is_spent());
            if is_met {
                self.matched.push(*number);
            } else if !is_whole {
                if waiting.len() - lacking < MAX_WAITING {
                    waiting.push(*number);
                } else {
                    self.pending_lost += 1;
                }
            }
        }
        self.candidates = candidates;
    }

    /// Looks for what rules about messages need of the payload in what a message has of it that came before
    /// the payload which was shown last, and across the seam. Messages do not overlap, so that each byte is
    /// looked through so with the head and with the end of its own.
    fn look_before(&mut self, context: &Context<'_>, start: u64, carrier: &Carrier<'_>, budget: &mut Budget) {
        if carrier.window.is_none() || start >= carrier.from {
            return;
        }
        self.assemble(start, carrier);
        let view = context.view;
        let filter =
            self.groups.filter(view.protocol, view.source_port, view.destination_port, context.direction);
        // The window may have less than the message.
        let new = usize::try_from(carrier.end.saturating_sub(carrier.from)).unwrap_or(usize::MAX);
        let before = self.assembled.len().saturating_sub(new);
        let until = self.assembled.len().min(before + filter.longest);
        self.findings.begin(budget);
        filter.scan(&self.assembled[..until], 0, &self.literals, &mut self.findings);
        self.findings.end(budget);
        for literal in &self.findings.found {
            self.met[*literal as usize] = self.payload;
        }
    }

    /// Takes what a message has of its stream's last bytes, and what has come behind it: not what was said
    /// before.
    fn assemble(&mut self, start: u64, carrier: &Carrier<'_>) {
        if let Some(window) = carrier.window.filter(|_| self.assembled.is_empty()) {
            let length = usize::try_from(carrier.end.saturating_sub(start)).unwrap_or(usize::MAX);
            window.copy_last(length, &mut self.assembled);
        }
    }

    /// Whether the payload that was shown last is without a literal that a rule about messages needs there.
    fn lacks(&self, number: u32) -> bool {
        let literal = self.literals.in_payload[number as usize];
        literal.is_some_and(|literal| self.met[literal as usize] != self.payload)
    }

    /// Whether a rule about a message has what it looks for in the payload, too.
    fn carries(&mut self, number: u32, start: u64, carrier: &Carrier<'_>, budget: &mut Budget) -> bool {
        self.assemble(start, carrier);
        let rule = &self.rules.list[number as usize];
        if carrier.window.is_none() || rule.scope == Scope::Packet {
            let packet = Subject { data: carrier.payload, new_from: 0, base: 0, is_open: false };
            return inspect(&rule.payload, &packet, budget);
        }
        let base = carrier.end.saturating_sub(self.assembled.len() as u64);
        let subject = Subject { data: &self.assembled, new_from: 0, base, is_open: false };
        inspect(&rule.payload, &subject, budget)
    }
}
