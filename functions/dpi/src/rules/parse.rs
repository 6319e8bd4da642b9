//! A rule file's way to [`Rules`]: header, options, and what holds between rules.

use super::network::{Addresses, Ports, Variables, addresses, ports};
use super::options::Draft;
use super::text::{Fault, Faults, Logical, decimal, logical_lines, nearest, quoted, say};
use super::{Action, Element, MAX_RULES, Protocol, Rule, Rules, Scope};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Longest rule, continuation lines included.
const MAX_LINE: usize = 32 * 1024;
/// Most elements of a rule.
const MAX_ELEMENTS: usize = 64;

/// A part of a rule, and where it begins in the logical line.
type Part<'a> = (usize, &'a [u8]);

/// Sets that were read before, by their text.
#[derive(Default)]
struct Known {
    addresses: BTreeMap<Vec<u8>, u32>,
    ports: BTreeMap<Vec<u8>, u32>,
    /// Line of the first rule with this `gid` and `sid`.
    identities: BTreeMap<(u32, u32), u32>,
}

impl Rules {
    /// Reads a file of rules.
    ///
    /// # Errors
    /// All faults, and no rule.
    pub fn parse(bytes: &[u8], variables: &Variables) -> Result<Rules, Faults> {
        let (mut rules, mut faults, mut known) = (Rules::default(), Faults::default(), Known::default());
        for line in logical_lines(bytes) {
            if rules.list.len() >= MAX_RULES {
                faults.push(line.fault(0, String::from("more than 65536 rules; allowed: up to 65536")));
                break;
            }
            if line.text.len() > MAX_LINE {
                faults.push(
                    line.fault(0, String::from("a rule of more than 32768 bytes; allowed: up to 32768")),
                );
                continue;
            }
            if let Some(rule) = rules.rule(&line, variables, &mut known, &mut faults) {
                rules.list.push(rule);
            }
        }
        if faults.is_empty() { Ok(rules) } else { Err(faults) }
    }

    fn rule(
        &mut self,
        line: &Logical,
        variables: &Variables,
        known: &mut Known,
        faults: &mut Faults,
    ) -> Option<Rule> {
        let before = faults.total;
        let open = line.text.iter().position(|byte| *byte == b'(').unwrap_or(line.text.len());
        let words = words(&line.text[..open]);
        let (start, first) = words.first().copied().unwrap_or_default();
        let mut fault = |place: usize, text: String| faults.push(line.fault(place, text));

        let action = match first {
            b"alert" => Some(Action::Alert),
            b"drop" => Some(Action::Drop),
            b"pass" => Some(Action::Pass),
            b"reject" | b"rejectsrc" | b"rejectdst" | b"rejectboth" => {
                let why =
                    " sends packets of its own, which this function does not; allowed: alert, drop, pass";
                fault(start, say(&[&quoted(first), why]));
                None
            }
            _ => {
                let near = nearest(first, ["alert", "drop", "pass"]);
                let near = near.map_or_else(String::new, |near| say(&[" (did you mean `", near, "`?)"]));
                fault(start, say(&["action ", &quoted(first), &near, "; allowed: alert, drop, pass"]));
                // What is no rule at all has no other faults worth naming.
                return None;
            }
        };
        if words.len() != 7 {
            let place = words.get(7).map_or(open, |(place, _)| *place);
            let why = "a header of other than seven words; allowed: ACTION PROTOCOL SOURCE PORT -> DESTINATION PORT (OPTIONS)";
            fault(place, String::from(why));
            return None;
        }
        let protocol = match words[1].1 {
            b"ip" => Some(Protocol::Ip),
            b"tcp" => Some(Protocol::Tcp),
            b"udp" => Some(Protocol::Udp),
            b"icmp" => Some(Protocol::Icmp),
            other => {
                let near = nearest(other, ["ip", "tcp", "udp", "icmp"]);
                let near = near.map_or_else(String::new, |near| say(&[" (did you mean `", near, "`?)"]));
                let why = "; allowed: ip, tcp, udp, icmp (applications' protocols are not told apart)";
                fault(words[1].0, say(&["protocol ", &quoted(other), &near, why]));
                None
            }
        };
        let is_bidirectional = match words[4].1 {
            b"->" => Some(false),
            b"<>" => Some(true),
            other => {
                fault(words[4].0, say(&["direction ", &quoted(other), "; allowed: ->, <>"]));
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
                Err((place, text)) => fault(at + place, text),
            }
        }
        if matches!(protocol, Some(Protocol::Icmp)) {
            for slot in [1, 3] {
                if sets[slot].is_some_and(|number: u32| !self.ports[number as usize].is_any()) {
                    fault(
                        words[3 * (slot / 2) + 3].0,
                        String::from("ports in a rule for icmp; allowed: any"),
                    );
                }
            }
        }
        let draft = options(line, open, faults);
        let mut fault = |place: usize, text: String| faults.push(line.fault(place, text));
        let draft = draft?;
        if let Some(protocol) = protocol
            && let Err((place, text)) = draft.check(protocol)
        {
            fault(place.unwrap_or(open), text);
        }
        let (line_number, _) = line.place(start);
        match draft.sid {
            None => fault(start, String::from("a rule without sid; allowed: `sid:NUMBER;` in every rule")),
            Some((sid, place)) => {
                let identity = (draft.gid.unwrap_or(1), sid);
                if let Some(other) = known.identities.insert(identity, line_number) {
                    known.identities.insert(identity, other);
                    let (sid, other) = (decimal(u64::from(sid)), decimal(u64::from(other)));
                    fault(
                        place,
                        say(&["sid ", &sid, " is that of the rule in line ", &other, "; allowed: each once"]),
                    );
                }
            }
        }
        if faults.total != before {
            return None;
        }
        let [source, source_ports, destination, destination_ports] = sets;
        let ends = [(source?, source_ports?), (destination?, destination_ports?)];
        Some(self.assemble(action?, protocol?, ends, is_bidirectional?, draft, line_number))
    }

    fn assemble(
        &self,
        action: Action,
        protocol: Protocol,
        ends: [(u32, u32); 2],
        is_bidirectional: bool,
        draft: Draft,
        line: u32,
    ) -> Rule {
        let is_any = |set: u32| self.ports[set as usize].is_any();
        let of_packet = draft.size.is_some()
            || draft.flags.is_some()
            || draft.ttl.is_some()
            || draft.icmp_type.is_some()
            || draft.icmp_code.is_some();
        let is_address_only = !of_packet
            && draft.elements.is_empty()
            && draft.flow.is_none()
            && ends.iter().all(|(_, ports)| is_any(*ports));
        let is_absolute = |element: &Element| matches!(element, Element::Content(c) if c.is_absolute);
        let scope = match draft.stream {
            _ if of_packet || !draft.ip_protocol.is_empty() || draft.elements.is_empty() => Scope::Packet,
            Some(scope) => scope,
            None if draft.elements.iter().any(|(element, _)| is_absolute(element)) => Scope::Both,
            None => Scope::Stream,
        };
        let (mut conditions, mut chains, mut fast) = (Vec::new(), Vec::<Vec<Element>>::new(), None);
        for (element, _) in draft.elements {
            let is_fast = matches!(&element, Element::Content(content) if content.is_fast);
            match chains.last_mut() {
                _ if element.is_condition() && !element.is_relative() => conditions.push(element),
                Some(chain) if element.is_relative() => chain.push(element),
                _ => chains.push(Vec::from([element])),
            }
            if is_fast && let Some(chain) = chains.last() {
                fast = Some((chains.len() - 1, chain.len() - 1));
            }
        }
        let (category, class_priority) = draft.category.unwrap_or(("", 3));
        Rule {
            action,
            protocol,
            ends,
            is_bidirectional,
            flow: draft.flow.unwrap_or_default(),
            size: draft.size,
            flags: draft.flags,
            ttl: draft.ttl,
            icmp_type: draft.icmp_type,
            icmp_code: draft.icmp_code,
            ip_protocol: draft.ip_protocol,
            conditions,
            chains,
            scope,
            is_address_only,
            fast,
            threshold: draft.threshold,
            message: draft.message.unwrap_or_default(),
            sid: draft.sid.map_or(0, |(sid, _)| sid),
            gid: draft.gid.unwrap_or(1),
            revision: draft.revision.unwrap_or(0),
            category,
            priority: draft.priority.unwrap_or(class_priority),
            line,
        }
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
fn options(line: &Logical, open: usize, faults: &mut Faults) -> Option<Draft> {
    let text = &line.text;
    let close =
        text.trim_ascii_end().len().checked_sub(1).filter(|close| text[*close] == b')' && *close > open);
    let Some(close) = close else {
        let (place, what) =
            if open == text.len() { (open, "no options") } else { (text.len(), "options that do not end") };
        faults.push(line.fault(place, say(&[what, "; allowed: (NAME:VALUE; ...) behind the header"])));
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
        let name = name.trim_ascii();
        if name.is_empty() {
            faults.push(line.fault(start, String::from("nothing before `;`; allowed: NAME; or NAME:VALUE;")));
        } else if let Err((place, text)) = draft.option(name, value.map(|(_, value)| value), start) {
            let place = match (place, value) {
                (Some(place), Some((value_start, value))) => {
                    value_start
                        + place
                        + (value.len() - value.trim_ascii_start().len()) * usize::from(place == 0)
                }
                _ => start,
            };
            let known = core::str::from_utf8(name).unwrap_or("option");
            let text = if text.starts_with("unknown") { text } else { say(&[known, ": ", &text]) };
            faults.push(line.fault(place, text));
        } else if !has_end {
            faults.push(
                line.fault(
                    close,
                    say(&["no `;` behind ", &quoted(name), "; allowed: `;` behind every option"]),
                ),
            );
        }
        if draft.elements.len() > MAX_ELEMENTS {
            faults
                .push(line.fault(start, String::from("more than 64 contents in a rule; allowed: up to 64")));
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
