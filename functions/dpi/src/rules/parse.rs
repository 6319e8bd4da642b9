//! A rule file's way to [`Rules`]: header, options, and what holds between rules.

use super::bits::Names;
use super::buffer::{App, Buffer};
use super::lacking;
use super::network::{Addresses, Ports, TOO_DEEP, TOO_MANY, Variables, addresses, ports};
use super::options::{Draft, Wanted};
use super::reading::Reading;
use super::text::{Fault, Faults, Logical, decimal, logical_lines, nearest, quoted, say};
use super::{Action, Element, MAX_RULES, Pattern, Protocol, Rule, Rules, Scope};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

/// Longest rule, continuation lines included.
const MAX_LINE: usize = 32 * 1024;
/// Most elements of a rule.
const MAX_ELEMENTS: usize = 64;

/// A part of a rule, and where it begins in the logical line.
type Part<'a> = (usize, &'a [u8]);

/// What is looked for in the payload or in a buffer, with the number of its sticky buffer.
type List = (Option<(Buffer, usize)>, Vec<Element>);

/// Sets that were read before, by their text.
#[derive(Default)]
struct Known {
    addresses: BTreeMap<Vec<u8>, u32>,
    ports: BTreeMap<Vec<u8>, u32>,
    /// The rule with this `gid` and `sid`.
    identities: BTreeMap<(u32, u32), Identity>,
    bits: Names,
}

/// A rule that others may have the `gid` and `sid` of.
#[derive(Clone, Copy)]
struct Identity {
    revision: u32,
    line: u32,
}

/// What becomes of rules that ask for what this function does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unsupported {
    /// The file is refused.
    #[default]
    Refuse,
    /// They are left out, and counted.
    Skip,
}

/// A rule's ends and what stands between them.
struct Header {
    action: Action,
    protocol: Protocol,
    app: Option<App>,
    scope: Option<Scope>,
    ends: [(u32, u32); 2],
    is_bidirectional: bool,
}

/// Protocols in rules, with the application's protocol and what contents are searched in.
fn protocol(name: &[u8]) -> Option<(Protocol, Option<App>, Option<Scope>)> {
    Some(match name.to_ascii_lowercase().as_slice() {
        b"ip" => (Protocol::Ip, None, None),
        b"tcp" => (Protocol::Tcp, None, None),
        b"tcp-pkt" => (Protocol::Tcp, None, Some(Scope::Packet)),
        b"tcp-stream" => (Protocol::Tcp, None, Some(Scope::OnlyStream)),
        b"udp" => (Protocol::Udp, None, None),
        b"icmp" => (Protocol::Icmp, None, None),
        b"http" | b"http1" => (Protocol::Tcp, Some(App::Http), None),
        b"tls" | b"ssl" => (Protocol::Tcp, Some(App::Tls), None),
        b"dns" => (Protocol::Ip, Some(App::Dns), None),
        _ => return None,
    })
}

impl Rules {
    /// Reads a file of rules.
    ///
    /// # Errors
    /// All faults, and no rule.
    pub fn parse(bytes: &[u8], variables: &Variables) -> Result<Rules, Faults> {
        Rules::parse_with(bytes, variables, Unsupported::Refuse)
    }

    /// Reads a file of rules; with what this function does not have, as `unsupported` says.
    ///
    /// # Errors
    /// All faults, and no rule.
    pub fn parse_with(
        bytes: &[u8],
        variables: &Variables,
        unsupported: Unsupported,
    ) -> Result<Rules, Faults> {
        let (mut rules, mut faults, mut known) = (Rules::default(), Faults::default(), Known::default());
        // Lines of rules that the file has in a newer revision.
        let mut older = BTreeSet::new();
        for line in logical_lines(bytes) {
            if line.text.len() > MAX_LINE {
                faults.push(
                    line.fault(0, String::from("a rule of more than 32768 bytes; allowed: up to 32768")),
                );
                continue;
            }
            let mut reading = Reading::default();
            let mut rule = rules.rule(&line, variables, &mut known, &mut reading);
            older.extend(reading.replaces);
            if rule.is_some() && rules.list.len() >= MAX_RULES {
                rules.remove(&mut older);
            }
            if rule.is_some() && rules.list.len() >= MAX_RULES {
                rule = None;
                let text = String::from("more than 65536 rules; allowed: up to 65536");
                reading.faults.push(line.fault(0, text));
                reading.lacks(String::from("room for more than 65536 rules"));
            }
            if let Some(rule) = rule {
                rules.list.push(rule);
                continue;
            }
            let lack = reading.lack().cloned();
            match lack {
                Some(name) if unsupported == Unsupported::Skip => {
                    let sid = reading.identity.map_or(0, |(_, sid)| sid);
                    rules.skipped.list.push((line.place(0).0, sid, name));
                }
                Some(name) => {
                    *faults.lacking.entry(name).or_default() += 1;
                    faults.extend(reading.faults);
                }
                None => faults.extend(reading.faults),
            }
        }
        rules.remove(&mut older);
        rules.skipped.total = rules.skipped.list.len();
        for (.., name) in &rules.skipped.list {
            *rules.skipped.reasons.entry(name.clone()).or_default() += 1;
        }
        rules.bits = known.bits.len();
        if faults.is_empty() { Ok(rules) } else { Err(faults) }
    }

    /// Takes out the rules of these lines, of which the file has newer ones: all at once, because each look
    /// for one goes through what there is.
    fn remove(&mut self, lines: &mut BTreeSet<u32>) {
        if !lines.is_empty() {
            self.replaced += lines.len();
            self.list.retain(|rule| !lines.contains(&rule.line));
            self.unknown_classes.retain(|(line, _)| !lines.contains(line));
            self.skipped.list.retain(|(line, ..)| !lines.contains(line));
            lines.clear();
        }
    }

    fn rule(
        &mut self,
        line: &Logical,
        variables: &Variables,
        known: &mut Known,
        reading: &mut Reading,
    ) -> Option<Rule> {
        let open = line.text.iter().position(|byte| *byte == b'(').unwrap_or(line.text.len());
        let words = words(&line.text[..open]);
        let (start, first) = words.first().copied().unwrap_or_default();
        let fault =
            |reading: &mut Reading, place: usize, text: String| reading.faults.push(line.fault(place, text));

        let lower = first.to_ascii_lowercase();
        let action = match lower.as_slice() {
            b"alert" => Some(Action::Alert),
            b"drop" => Some(Action::Drop),
            b"pass" => Some(Action::Pass),
            b"config" => {
                fault(
                    reading,
                    start,
                    say(&[&quoted(first), " is no action here; allowed: alert, drop, pass"]),
                );
                reading.lacks(String::from("config"));
                None
            }
            b"reject" | b"rejectsrc" | b"rejectdst" | b"rejectboth" => {
                let why =
                    " sends packets of its own, which this function does not; allowed: alert, drop, pass";
                fault(reading, start, say(&[&quoted(first), why]));
                reading.lacks(String::from("reject"));
                None
            }
            _ => {
                let near = nearest(first, ["alert", "drop", "pass"]);
                let near = near.map_or_else(String::new, |near| say(&[" (did you mean `", near, "`?)"]));
                fault(
                    reading,
                    start,
                    say(&["action ", &quoted(first), &near, "; allowed: alert, drop, pass"]),
                );
                // What is no rule at all has no other faults worth naming.
                return None;
            }
        };
        if words.len() != 7 {
            let place = words.get(7).map_or(open, |(place, _)| *place);
            let why = "a header of other than seven words; allowed: ACTION PROTOCOL SOURCE PORT -> DESTINATION PORT (OPTIONS)";
            fault(reading, place, String::from(why));
            if open == line.text.len() && words.len() > 7 {
                reading.lacks(String::from("options without parentheses"));
            }
            return None;
        }
        let protocol = protocol(words[1].1);
        if protocol.is_none() {
            let other = words[1].1;
            let near =
                nearest(other, ["ip", "tcp", "tcp-pkt", "tcp-stream", "udp", "icmp", "http", "dns", "tls"]);
            let near = near.map_or_else(String::new, |near| say(&[" (did you mean `", near, "`?)"]));
            let why = "; allowed: ip, tcp, tcp-pkt, tcp-stream, udp, icmp, http, dns, tls";
            fault(reading, words[1].0, say(&["protocol ", &quoted(other), &near, why]));
            if lacking::is_protocol(other) {
                let name = String::from_utf8_lossy(other).to_ascii_lowercase();
                reading.lacks(say(&["protocol ", &name]));
            }
        }
        let is_bidirectional = match words[4].1 {
            b"->" => Some(false),
            b"<>" => Some(true),
            other => {
                fault(reading, words[4].0, say(&["direction ", &quoted(other), "; allowed: ->, <>"]));
                None
            }
        };
        let mut sets = [None; 4];
        for (slot, place) in [2usize, 3, 5, 6].into_iter().enumerate() {
            let (at, text) = words[place];
            let number = if slot % 2 == 0 {
                set(&mut known.addresses, &mut self.addresses, text, |text| addresses(text, variables))
            } else {
                set(&mut known.ports, &mut self.ports, text, |text| ports(text, variables))
            };
            match number {
                Ok(number) => sets[slot] = Some(number),
                Err((place, text)) => {
                    let is_large = [TOO_MANY, TOO_DEEP].iter().any(|why| text.ends_with(why));
                    fault(reading, at + place, text);
                    if is_large {
                        reading.lacks(String::from("lists of that size"));
                    }
                }
            }
        }
        if matches!(protocol, Some((Protocol::Icmp, ..))) {
            for slot in [1, 3] {
                if sets[slot].is_some_and(|number: u32| !self.ports[number as usize].is_any()) {
                    fault(
                        reading,
                        words[3 * (slot / 2) + 3].0,
                        String::from("ports in a rule for icmp; allowed: any"),
                    );
                    reading.lacks(String::from("ports in rules for icmp"));
                }
            }
        }
        let mut draft = options(line, open, known, reading)?;
        if let Some((protocol, ..)) = protocol
            && let Err((place, text)) = draft.check(protocol)
        {
            fault(reading, place.unwrap_or(open), text);
            if let Some(missing) = draft.missing.take() {
                reading.lacks(missing);
            }
        }
        let (line_number, _) = line.place(start);
        match draft.sid {
            None => fault(
                reading,
                start,
                String::from("a rule without sid; allowed: `sid:NUMBER;` in every rule"),
            ),
            Some((sid, place)) => {
                let identity = (draft.gid.unwrap_or(1), sid);
                let revision = draft.revision.unwrap_or(0);
                reading.identity = Some(identity);
                let this = Identity { revision, line: line_number };
                let known = known.identities.entry(identity).or_insert(this);
                if known.line != line_number && known.revision < revision {
                    reading.replaces = Some(core::mem::replace(known, this).line);
                } else if known.line != line_number {
                    let (sid, other) = (decimal(u64::from(sid)), decimal(u64::from(known.line)));
                    let allowed = "; allowed: each once, or with a higher rev";
                    fault(
                        reading,
                        place,
                        say(&["sid ", &sid, " is that of the rule in line ", &other, allowed]),
                    );
                }
            }
        }
        if !reading.faults.is_empty() {
            return None;
        }
        let [source, source_ports, destination, destination_ports] = sets;
        let (protocol, app, scope) = protocol?;
        let header = Header {
            action: action?,
            protocol,
            app,
            scope,
            ends: [(source?, source_ports?), (destination?, destination_ports?)],
            is_bidirectional: is_bidirectional?,
        };
        Some(self.assemble(header, draft, line_number))
    }

    fn assemble(&mut self, header: Header, mut draft: Draft, line: u32) -> Rule {
        let Header { action, protocol, app, scope, ends, is_bidirectional } = header;
        let is_any = |set: u32| self.ports[set as usize].is_any();
        let of_packet = draft.size.is_some()
            || draft.flags.is_some()
            || draft.ttl.is_some()
            || draft.icmp_type.is_some()
            || draft.icmp_code.is_some();
        let mut apps = core::mem::take(&mut draft.apps);
        apps.extend(app.map(|app| (app, false)));
        let asks_more = of_packet || !draft.ip_protocol.is_empty() || !apps.is_empty();
        let is_address_only = !of_packet
            && draft.elements.is_empty()
            && draft.flow.is_none()
            && draft.bits.is_empty()
            && draft.tls_version.is_none()
            && apps.is_empty()
            && ends.iter().all(|(_, ports)| is_any(*ports));
        let is_absolute = |wanted: &Wanted| matches!(&wanted.element, Element::Content(c) if c.is_absolute);
        let in_payload = |wanted: &&Wanted| wanted.buffer.is_none();
        let scope = match scope.or(draft.stream) {
            _ if of_packet || !draft.ip_protocol.is_empty() || draft.elements.is_empty() => Scope::Packet,
            Some(scope) => scope,
            None if draft.elements.iter().filter(in_payload).any(is_absolute) => Scope::Both,
            None => Scope::Stream,
        };
        let mut lists: Vec<List> = Vec::from([(None, Vec::new())]);
        for Wanted { element, buffer, .. } in draft.elements {
            let place = lists.iter().position(|(known, _)| *known == buffer).unwrap_or_else(|| {
                lists.push((buffer, Vec::new()));
                lists.len() - 1
            });
            lists[place].1.push(element);
        }
        let (mut payload, mut fields, mut fast) = (Pattern::default(), Vec::new(), None);
        for (buffer, elements) in lists {
            let (pattern, place) = Pattern::new(elements);
            let number = buffer.map(|_| fields.len());
            if let Some((chain, place)) = place {
                fast = Some((number, chain, place));
            }
            match buffer {
                None => payload = pattern,
                Some((buffer, _)) => fields.push((buffer, pattern)),
            }
        }
        // What is asked for comes before what is changed.
        draft.bits.sort_by_key(|bits| !bits.act.is_question());
        let mut flow = draft.flow.unwrap_or_default();
        if let Some(direction) = fields.iter().find_map(|(buffer, _)| buffer.field().direction) {
            flow.direction = Some(direction);
        }
        let class = draft.category.unwrap_or_default();
        self.unknown_classes.extend(class.unknown.map(|name| (line, name)));
        let mut rule = Rule {
            action,
            protocol,
            ends,
            any: ends.map(|(addresses, ports)| (self.addresses(addresses).is_any(), is_any(ports))),
            is_bidirectional,
            asks_more,
            flow,
            size: draft.size,
            flags: draft.flags,
            ttl: draft.ttl,
            icmp_type: draft.icmp_type,
            icmp_code: draft.icmp_code,
            ip_protocol: draft.ip_protocol,
            apps,
            tls_version: draft.tls_version,
            payload,
            fields,
            scope,
            is_address_only,
            fast,
            bits: draft.bits,
            is_silent: draft.is_silent,
            threshold: draft.threshold,
            message: draft.message.unwrap_or_default(),
            sid: draft.sid.map_or(0, |(sid, _)| sid),
            gid: draft.gid.unwrap_or(1),
            revision: draft.revision.unwrap_or(0),
            category: class.description,
            priority: draft.priority.unwrap_or(class.priority),
            line,
            told: String::new(),
        };
        rule.told = crate::event::of_rule(&rule);
        rule
    }
}

/// Words of a header; what is in brackets is one word with what is around it.
fn words(header: &[u8]) -> Vec<Part<'_>> {
    let (mut words, mut depth, mut start) = (Vec::new(), 0usize, None);
    for (at, byte) in header.iter().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_gap = byte.is_ascii_whitespace() && depth == 0;
        match start {
            None if !is_gap => start = Some(at),
            Some(first) if is_gap => {
                words.push((first, &header[first..at]));
                start = None;
            }
            _ => {}
        }
    }
    if let Some(first) = start {
        words.push((first, header[first..].trim_ascii_end()));
    }
    words
}

fn set<T>(
    known: &mut BTreeMap<Vec<u8>, u32>,
    all: &mut Vec<T>,
    text: &[u8],
    read: impl FnOnce(&[u8]) -> Result<T, (usize, String)>,
) -> Result<u32, (usize, String)> {
    if let Some(number) = known.get(text) {
        return Ok(*number);
    }
    let number = all.len() as u32;
    all.push(read(text)?);
    known.insert(text.to_vec(), number);
    Ok(number)
}

/// Reads what is in parentheses; `None` when that cannot be told apart.
fn options(line: &Logical, open: usize, known: &mut Known, reading: &mut Reading) -> Option<Draft> {
    let text = &line.text;
    let close =
        text.trim_ascii_end().len().checked_sub(1).filter(|close| text[*close] == b')' && *close > open);
    let Some(close) = close else {
        let (place, what) =
            if open == text.len() { (open, "no options") } else { (text.len(), "options that do not end") };
        reading
            .faults
            .push(line.fault(place, say(&[what, "; allowed: (NAME:VALUE; ...) behind the header"])));
        if open < text.len() {
            reading.lacks(String::from("options without parentheses"));
        }
        return None;
    };
    let mut draft = Draft::default();
    let mut at = open + 1;
    loop {
        while at < close && text[at].is_ascii_whitespace() {
            at += 1;
        }
        if at >= close {
            return Some(draft);
        }
        let start = at;
        // `;` ends an option, also in quotes, unless a backslash is before it.
        let mut is_escaped = false;
        while at < close && (is_escaped || text[at] != b';') {
            is_escaped = !is_escaped && text[at] == b'\\';
            at += 1;
        }
        let option = &text[start..at];
        let has_end = at < close;
        at += 1;
        let (name, value) = match option.iter().position(|byte| *byte == b':') {
            Some(colon) => (&option[..colon], Some((start + colon + 1, &option[colon + 1..]))),
            None => (option, None),
        };
        let name = &name.trim_ascii().to_ascii_lowercase()[..];
        if name.is_empty() {
            reading
                .faults
                .push(line.fault(start, String::from("nothing before `;`; allowed: NAME; or NAME:VALUE;")));
            continue;
        }
        let text_of = value.map(|(_, value)| value);
        let taken = draft.option(name, text_of, start, &mut known.bits);
        if let Err((place, text)) = taken {
            let place = match (place, value) {
                (Some(place), Some((value_start, value))) => {
                    value_start
                        + place
                        + (value.len() - value.trim_ascii_start().len()) * usize::from(place == 0)
                }
                _ => start,
            };
            let name = core::str::from_utf8(name).unwrap_or("option");
            let text = if text.starts_with("unknown") { text } else { say(&[name, ": ", &text]) };
            reading.faults.push(line.fault(place, text));
            if let Some(missing) = draft.missing.take() {
                reading.lacks(missing);
            }
        } else if !has_end {
            reading.faults.push(
                line.fault(
                    close,
                    say(&["no `;` behind ", &quoted(name), "; allowed: `;` behind every option"]),
                ),
            );
        }
        if draft.elements.len() > MAX_ELEMENTS {
            reading
                .faults
                .push(line.fault(start, String::from("more than 64 contents in a rule; allowed: up to 64")));
            reading.lacks(String::from("rules of that many contents"));
            return None;
        }
    }
}

/// The sets of a header, for tests and groups.
impl Rules {
    /// A set of addresses.
    pub fn addresses(&self, number: u32) -> &Addresses {
        &self.addresses[number as usize]
    }

    /// A set of ports.
    pub fn ports(&self, number: u32) -> &Ports {
        &self.ports[number as usize]
    }
}

impl Faults {
    /// A fault that is about the whole file.
    pub fn of_file(text: String) -> Faults {
        let mut faults = Faults::default();
        faults.push(Fault { line: 1, column: 1, text });
        faults
    }
}
