//! A payload's way through the rules.
//!
//! 1. The [`crate::filter`] names the literals that occur, in the payload and across its seam with the stream
//!    before it.
//! 2. Rules that need one of them, and those that have no literal, are compared with the packet's headers.
//! 3. What is left is decided by [`crate::inspect`], in the packet, or in the stream's last bytes and the new
//!    ones. A rule that lacks something yet waits in the stream's window.

use crate::budget::Budget;
use crate::filter::Findings;
use crate::filter::groups::Groups;
use crate::filter::literals::Literals;
use crate::flow::windows::{Pending, Window};
use crate::header::View;
use crate::inspect::{Subject, inspect};
use crate::rules::{Direction, Element, Protocol, Rule, Rules, Scope};
use alloc::vec;
use alloc::vec::Vec;
use packet::protocol;

/// Most expressions whose searches keep their memory.
const MAX_CACHES: usize = 64;

/// What rules look at beside the payload.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Headers.
    pub view: &'a View<'a>,
    /// Which end sent the packet; `None` without a flow.
    pub direction: Option<Direction>,
    /// Both sides of the flow have agreed.
    pub is_established: bool,
    /// Rules about addresses alone are applied.
    pub judges_addresses: bool,
}

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
    fn is_packet(self) -> bool {
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
    /// Rules that matched in the payload that was shown last.
    matched: Vec<u32>,
    /// Number of the packet that a rule matched in last.
    stamps: Vec<u32>,
    stamp: u32,
    hits: Vec<u64>,
    /// How often each rule was not verified to the end.
    unfinished: Vec<u64>,
    window: usize,
    expressions: Vec<u32>,
    has_addresses: bool,
    /// Rules that were forgotten while they waited.
    pub pending_lost: u64,
}

impl Detector {
    /// For these rules; `window`: how far back rules look that need more than a literal.
    pub fn new(rules: Rules, window: usize) -> Detector {
        let literals = Literals::new(&rules.list);
        let groups = Groups::new(&rules, &literals);
        let is_in_stream = |rule: &Rule| {
            matches!(rule.protocol, Protocol::Tcp | Protocol::Ip) && rule.scope != Scope::Packet
        };
        let looks_back =
            rules.list.iter().zip(&literals.is_whole).any(|(rule, whole)| is_in_stream(rule) && !whole);
        let window = match (rules.list.iter().any(is_in_stream), looks_back) {
            (false, _) => 0,
            (true, false) => groups.longest_tcp().saturating_sub(1).max(1),
            (true, true) => window.max(groups.longest_tcp()),
        };
        let is_expression = |element: &Element| matches!(element, Element::Regex(_));
        let has_expression =
            |rule: &Rule| rule.chains.iter().flatten().chain(&rule.conditions).any(is_expression);
        let with_expression = rules.list.iter().enumerate().filter(|(_, rule)| has_expression(rule));
        Detector {
            findings: Findings::new(literals.list.len()),
            seam: Vec::new(),
            assembled: Vec::new(),
            candidates: Vec::new(),
            matched: Vec::new(),
            stamps: vec![0; rules.list.len()],
            stamp: 0,
            hits: vec![0; rules.list.len()],
            unfinished: vec![0; rules.list.len()],
            window,
            expressions: with_expression.map(|(number, _)| number as u32).collect(),
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

    /// The rules that match in a payload, by action and then in the file's order. There is a stream when the
    /// portion is one of a stream.
    #[inline]
    pub fn detect(
        &mut self,
        context: &Context<'_>,
        payload: &[u8],
        portion: Portion,
        stream: Option<Stream<'_>>,
        budget: &mut Budget,
    ) -> &[u32] {
        let view = context.view;
        let filter = self.groups.filter(view.protocol, view.source_port, view.destination_port);
        self.findings.begin();
        self.matched.clear();
        if !filter.is_empty() && !payload.is_empty() {
            filter.scan(payload, 0, &self.literals, &mut self.findings);
        }
        let in_payload = self.findings.found.len();
        if let Some(Stream { window: Some(window), skip, .. }) = &stream
            && !window.is_empty()
            && filter.longest > 1
        {
            // What begins before the payload and ends in it.
            let reach = filter.longest - 1;
            self.seam.clear();
            window.copy_last(reach, &mut self.seam);
            let seam = self.seam.len();
            let new = &payload[*skip..];
            self.seam.extend_from_slice(&new[..new.len().min(reach)]);
            filter.scan(&self.seam, seam, &self.literals, &mut self.findings);
        }
        let waiting = stream
            .as_ref()
            .and_then(|stream| stream.window.as_ref())
            .map_or(0, |window| window.pending.len());
        if self.findings.found.is_empty() && filter.always.is_empty() && waiting == 0 {
            if let Some(Stream { window: Some(window), skip, .. }) = stream {
                window.append(&payload[skip..]);
            }
            return &[];
        }
        self.judge(context, payload, portion, stream, budget, in_payload);
        &self.matched
    }

    #[inline(never)]
    fn judge(
        &mut self,
        context: &Context<'_>,
        payload: &[u8],
        portion: Portion,
        stream: Option<Stream<'_>>,
        budget: &mut Budget,
        in_payload: usize,
    ) {
        let Detector {
            rules,
            literals,
            groups,
            findings,
            stamps,
            stamp,
            matched,
            candidates,
            unfinished,
            ..
        } = self;
        let view = context.view;
        let filter = groups.filter(view.protocol, view.source_port, view.destination_port);
        let named = findings.found.iter().map(|literal| literals.list[*literal as usize].rules.len());
        let mut remaining = named.sum::<usize>() + filter.always.len();
        let skip = stream.as_ref().map_or(0, |stream| stream.skip);
        candidates.clear();
        let packet = Subject { data: payload, new_from: 0, base: 0, is_open: false };
        let mut consider = |number: u32, is_in_payload: bool, has_literal: bool| {
            let rule = &rules.list[number as usize];
            let to_verify = remaining;
            remaining -= 1;
            if stamps[number as usize] == *stamp
                || payload.is_empty() && rule.has_content()
                || !matches_header(rules, rule, context, portion.is_packet())
            {
                return;
            }
            let is_whole = has_literal && literals.is_whole[number as usize];
            let of_packet = match rule.scope {
                Scope::Packet | Scope::Both => portion.is_packet() && is_in_payload,
                Scope::Stream => portion == Portion::Alone && is_in_payload,
                Scope::OnlyStream => false,
            };
            let of_stream = rule.scope != Scope::Packet && stream.is_some();
            // A literal in bytes that were there already tells nothing new.
            let is_met = is_whole && (of_packet || of_stream && (!is_in_payload || skip == 0));
            let mut is_verified = || {
                let is_met = budget.begin(to_verify) && inspect(rule, &packet, budget);
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
                consider(*rule, place < in_payload, true);
            }
        }
        for rule in &filter.always {
            consider(*rule, true, false);
        }
        if let Some(stream) = stream {
            self.judge_stream(context, payload, stream, budget);
        }
        let list = &self.rules.list;
        self.matched.sort_unstable_by_key(|number| (list[*number as usize].action, *number));
        for number in &self.matched {
            self.hits[*number as usize] += 1;
        }
        if budget.was_spent() || self.expressions.len() > MAX_CACHES {
            self.release_caches();
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
        // Rules that wait come after what this payload has named.
        let named = self.candidates.len();
        if let Some(window) = &window {
            let pending = window.pending.iter().map(|pending| pending.rule);
            self.candidates.extend(pending.filter(|rule| !self.matched.contains(rule)));
        }
        for (place, number) in self.candidates.iter().enumerate() {
            let rule = &self.rules.list[*number as usize];
            let is_done =
                self.stamps[*number as usize] == self.stamp || self.candidates[..place].contains(number);
            if is_done || place >= named && !matches_header(&self.rules, rule, context, false) {
                continue;
            }
            // Since a rule waits, it has not matched.
            let waits =
                window.as_ref().and_then(|window| window.pending.iter().find(|some| some.rule == *number));
            let from = waits.map_or(position, |waits| waits.from.min(position));
            let subject = Subject { new_from: from.saturating_sub(base) as usize, ..subject };
            let is_met = budget.begin(self.candidates.len() - place) && inspect(rule, &subject, budget);
            self.unfinished[*number as usize] += u64::from(budget.is_spent());
            if is_met {
                self.stamps[*number as usize] = self.stamp;
                self.matched.push(*number);
            } else if let Some(window) = &mut window
                && place < named
                && self.literals.of_rule[*number as usize].is_some()
                && !window.remember(Pending { rule: *number, from: position, end })
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

    /// The rules that match because their stream has ended: those that waited for what must not come.
    /// `position`: number of the byte behind its last one.
    pub fn finish(
        &mut self,
        context: &Context<'_>,
        window: &mut Window,
        position: u64,
        budget: &mut Budget,
    ) -> &[u32] {
        self.matched.clear();
        self.assembled.clear();
        window.copy_last(usize::MAX, &mut self.assembled);
        let base = position.saturating_sub(self.assembled.len() as u64);
        let waiting = core::mem::take(&mut window.pending);
        for (place, Pending { rule: number, from, .. }) in waiting.iter().enumerate() {
            let rule = &self.rules.list[*number as usize];
            if self.stamps[*number as usize] == self.stamp
                || !matches_header(&self.rules, rule, context, false)
            {
                continue;
            }
            let new_from = from.saturating_sub(base) as usize;
            let subject = Subject { data: &self.assembled, new_from, base, is_open: false };
            let is_met = budget.begin(waiting.len() - place) && inspect(rule, &subject, budget);
            self.unfinished[*number as usize] += u64::from(budget.is_spent());
            if is_met {
                self.stamps[*number as usize] = self.stamp;
                self.matched.push(*number);
            }
        }
        let list = &self.rules.list;
        self.matched.sort_unstable_by_key(|number| (list[*number as usize].action, *number));
        for number in &self.matched {
            self.hits[*number as usize] += 1;
        }
        &self.matched
    }

    fn release_caches(&mut self) {
        for number in &self.expressions {
            let rule = &self.rules.list[*number as usize];
            for element in rule.chains.iter().flatten().chain(&rule.conditions) {
                if let Element::Regex(regex) = element {
                    regex.release();
                }
            }
        }
    }
}

/// Whether everything but contents is as the rule says.
fn matches_header(rules: &Rules, rule: &Rule, context: &Context<'_>, as_packet: bool) -> bool {
    let view = context.view;
    let is_protocol = match rule.protocol {
        Protocol::Ip => true,
        Protocol::Tcp => view.protocol == protocol::TCP,
        Protocol::Udp => view.protocol == protocol::UDP,
        Protocol::Icmp => view.icmp.is_some(),
    };
    if !is_protocol
        || rule.is_address_only && !context.judges_addresses
        || rule.scope == Scope::Packet && !as_packet
    {
        return false;
    }
    let flow = rule.flow;
    if flow.direction.is_some_and(|direction| context.direction != Some(direction))
        || flow.established.is_some_and(|established| context.is_established != established)
    {
        return false;
    }
    if view.is_fragment && (rule.has_content() || rule.size.is_some() || rule.flags.is_some()) {
        return false;
    }
    if rule.size.is_some_and(|size| !size.holds(view.payload.len() as u32))
        || rule.flags.is_some_and(|flags| !flags.hold(view.tcp.flags))
        || rule.ttl.is_some_and(|ttl| !ttl.holds(u32::from(view.ttl)))
        || !rule.ip_protocol.iter().all(|compare| compare.holds(u32::from(view.protocol)))
    {
        return false;
    }
    if rule.icmp_type.is_some() || rule.icmp_code.is_some() {
        let Some((kind, code)) = view.icmp else { return false };
        if rule.icmp_type.is_some_and(|compare| !compare.holds(u32::from(kind)))
            || rule.icmp_code.is_some_and(|compare| !compare.holds(u32::from(code)))
        {
            return false;
        }
    }
    let from = (view.source.ip(), view.source_port);
    let to = (view.destination.ip(), view.destination_port);
    let has_ports = protocol::has_ports(view.protocol) && !(view.is_fragment && from.1 == 0 && to.1 == 0);
    let is_end = |(addresses, ports): (u32, u32), (address, port): (core::net::IpAddr, u16)| {
        let (addresses, ports) = (rules.addresses(addresses), rules.ports(ports));
        (ports.is_any() || has_ports && ports.contains(port))
            && (addresses.is_any() || addresses.contains(address))
    };
    let [source, destination] = rule.ends;
    is_end(source, from) && is_end(destination, to)
        || rule.is_bidirectional && is_end(source, to) && is_end(destination, from)
}
