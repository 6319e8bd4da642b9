//! Any text is read as rules or refused with places. What is read says what a plain reading of the text does:
//! lines, actions, ends, numbers and contents; and contents are found in a payload where that reading finds
//! them, which keeps all places at which a match may have ended.

use dpi::budget::Budget;
use dpi::detect::Detector;
use dpi::inspect::{Subject, inspect};
use dpi::rules::network::Variables;
use dpi::rules::{Action, Element, Rule, Rules};
use std::collections::BTreeSet;
use std::net::IpAddr;

const VARIABLES: [(&str, &str); 2] = [("A", "[10.0.0.0/8,!10.1.0.0/16]"), ("P", "[80,1000:]")];

/// Addresses and ports that ends are asked for, beside those that the rule names.
const ADDRESSES: [&str; 8] =
    ["0.0.0.0", "10.0.0.1", "10.1.2.3", "192.0.2.1", "255.255.255.255", "::", "::1", "2001:db8::1"];
const PORTS: [u16; 6] = [0, 1, 80, 1000, 1500, 65_535];

/// A content, and where it has to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    bytes: Vec<u8>,
    is_negated: bool,
    nocase: bool,
    offset: i64,
    depth: Option<i64>,
    distance: Option<i64>,
    within: Option<i64>,
    at_end: bool,
}

/// A rule as the plain reading has it.
#[derive(Debug)]
struct Plain {
    line: u32,
    words: Vec<String>,
    sid: u32,
    gid: u32,
    revision: u32,
    contents: Vec<Wanted>,
    /// A number that is read from the payload may be a place.
    takes_numbers: bool,
}

/// Logical lines that are neither empty nor comments, each with the number of the line that its first word
/// stands in.
fn lines(data: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let (mut all, mut is_open) = (Vec::<(u32, Vec<u8>)>::new(), false);
    for (number, line) in (1..).zip(data.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let first = line.trim_ascii().first();
        if !is_open {
            if matches!(first, None | Some(b'#')) {
                continue;
            }
            all.push((number, vec![]));
        }
        let before = line.strip_suffix(b"\\");
        let Some((place, text)) = all.last_mut() else { continue };
        if text.trim_ascii().is_empty() {
            *place = number;
        }
        text.extend(before.unwrap_or(line));
        is_open = before.is_some();
    }
    all
}

fn plain((line, text): (u32, Vec<u8>)) -> Option<Plain> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let body = text[open + 1..].trim_ascii_end().strip_suffix(b")")?;
    let (mut words, mut depth, mut is_new) = (Vec::<String>::new(), 0i32, true);
    for byte in &text[..open] {
        depth = match byte {
            b'[' => depth + 1,
            b']' => (depth - 1).max(0),
            _ => depth,
        };
        if byte.is_ascii_whitespace() && depth == 0 {
            is_new = true;
            continue;
        }
        if std::mem::take(&mut is_new) {
            words.push(String::new());
        }
        words.last_mut()?.push(char::from(*byte));
    }
    let mut rule = Plain { line, words, sid: 0, gid: 1, revision: 0, contents: vec![], takes_numbers: false };
    let (mut option, mut is_escaped) = (vec![], false);
    for byte in body {
        if *byte == b';' && !is_escaped {
            rule.take(&std::mem::take(&mut option))?;
            continue;
        }
        is_escaped = *byte == b'\\' && !is_escaped;
        option.push(*byte);
    }
    Some(rule)
}

impl Plain {
    fn take(&mut self, option: &[u8]) -> Option<()> {
        let colon = option.iter().position(|byte| *byte == b':').unwrap_or(option.len());
        let name = option[..colon].trim_ascii().to_ascii_lowercase();
        let value = option.get(colon + 1..).unwrap_or_default();
        let value = value.trim_ascii();
        let number = || std::str::from_utf8(value).ok()?.parse::<i64>().ok();
        let last = self.contents.last_mut();
        match name.as_slice() {
            b"sid" => self.sid = number()? as u32,
            b"gid" => self.gid = number()? as u32,
            b"rev" => self.revision = number()? as u32,
            b"byte_extract" => self.takes_numbers = true,
            b"content" | b"uricontent" => {
                let after = value.strip_prefix(b"!");
                let text = after.unwrap_or(value).trim_ascii().strip_prefix(b"\"")?.strip_suffix(b"\"")?;
                let bytes = bytes(text)?;
                self.contents.push(Wanted { bytes, is_negated: after.is_some(), ..Wanted::default() });
            }
            b"nocase" => {
                let last = last?;
                last.nocase = true;
                last.bytes.make_ascii_lowercase();
            }
            b"startswith" => {
                let last = last?;
                last.depth = Some(last.bytes.len() as i64);
            }
            b"endswith" => last?.at_end = true,
            b"offset" => last?.offset = number().unwrap_or(0),
            b"depth" => last?.depth = Some(number().unwrap_or(0)),
            b"distance" => last?.distance = Some(number().unwrap_or(0)),
            b"within" => {
                let last = last?;
                last.within = Some(number().unwrap_or(0));
                last.distance = last.distance.or(Some(0));
            }
            _ => {}
        }
        Some(())
    }

    /// Whether its contents are in the data.
    fn is_in(&self, data: &[u8]) -> bool {
        let mut ends = BTreeSet::from([0]);
        for wanted in &self.contents {
            let from = |base: i64| wanted.places(data, base);
            ends = match (wanted.is_negated, wanted.distance.is_some()) {
                (false, true) => ends.iter().flat_map(|base| from(*base)).collect(),
                (false, false) => from(0).collect(),
                (true, true) => ends.into_iter().filter(|base| from(*base).next().is_none()).collect(),
                (true, false) => ends.into_iter().filter(|_| from(0).next().is_none()).collect(),
            };
            if ends.is_empty() {
                return false;
            }
        }
        true
    }
}

impl Wanted {
    /// Where it ends in the data, the match before having ended at `base`.
    fn places(&self, data: &[u8], base: i64) -> impl Iterator<Item = i64> {
        let (first, length) = match self.distance {
            Some(distance) => (base + distance, self.within),
            None => (self.offset, self.depth),
        };
        let last = length.map_or(i64::MAX, |length| first + length);
        data.windows(self.bytes.len()).zip(self.bytes.len() as i64..).filter_map(move |(found, end)| {
            let is_same =
                if self.nocase { found.eq_ignore_ascii_case(&self.bytes) } else { found == self.bytes };
            let is_there = end - found.len() as i64 >= first && end <= last;
            (is_same && is_there && (!self.at_end || end == data.len() as i64)).then_some(end)
        })
    }

    /// The same of a rule's content.
    fn of(element: &Element) -> Option<Wanted> {
        let Element::Content(content) = element else { return None };
        Some(Wanted {
            bytes: content.bytes.clone(),
            is_negated: content.is_negated,
            nocase: content.nocase,
            offset: i64::from(content.offset),
            depth: content.depth.map(i64::from),
            distance: content.relative.map(|relative| i64::from(relative.distance)),
            within: content.relative.and_then(|relative| relative.within).map(i64::from),
            at_end: content.at_end,
        })
    }
}

/// What a content's text stands for.
fn bytes(text: &[u8]) -> Option<Vec<u8>> {
    let (mut all, mut rest) = (vec![], text);
    loop {
        rest = match *rest {
            [] => return Some(all),
            [b'|', ref behind @ ..] => {
                let end = behind.iter().position(|byte| *byte == b'|')?;
                let digits: Vec<u8> =
                    behind[..end].iter().filter(|byte| !byte.is_ascii_whitespace()).copied().collect();
                for pair in digits.chunks(2) {
                    all.push(u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?);
                }
                &behind[end + 1..]
            }
            [b'\\', byte, ref behind @ ..] | [byte, ref behind @ ..] => {
                all.push(byte);
                behind
            }
        };
    }
}

/// Whether a set has something of which `is` says whether it is one of its elements.
fn has(set: &str, is: &dyn Fn(&str) -> bool) -> bool {
    let (is_negated, set) = negation(set);
    has_base(set, is) != is_negated
}

fn negation(mut set: &str) -> (bool, &str) {
    let mut is_negated = false;
    set = set.trim();
    while let Some(rest) = set.strip_prefix('!') {
        (is_negated, set) = (!is_negated, rest.trim());
    }
    (is_negated, set)
}

/// Of a set without the `!` before it.
fn has_base(set: &str, is: &dyn Fn(&str) -> bool) -> bool {
    if let Some(name) = set.strip_prefix('$') {
        return VARIABLES.iter().any(|(known, value)| *known == name && has(value, is));
    }
    let Some(list) = set.strip_prefix('[').and_then(|list| list.strip_suffix(']')) else {
        return set.eq_ignore_ascii_case("any") || is(set);
    };
    let mut depth = 0;
    let parts = list.split(|c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    });
    // A list of ports may end with a comma.
    let parts = parts.filter(|part| !part.trim().is_empty());
    let (negative, positive): (Vec<_>, Vec<_>) = parts.map(negation).partition(|(is_negated, _)| *is_negated);
    let any = |parts: &[(bool, &str)]| parts.iter().any(|(_, set)| has_base(set, is));
    (positive.is_empty() || any(&positive)) && !any(&negative)
}

fn bits(address: IpAddr) -> (u32, u128) {
    match address {
        IpAddr::V4(address) => (32, u128::from(address.to_bits())),
        IpAddr::V6(address) => (128, address.to_bits()),
    }
}

/// Whether an address is in a range or a prefix, or is this one.
fn is_address(word: &str, address: IpAddr) -> bool {
    let (whole, value) = bits(address);
    let parse = |text: &str| text.trim().parse::<IpAddr>().ok().map(bits).filter(|(bits, _)| *bits == whole);
    if let Some((first, last)) = word.split_once('-') {
        let (first, last) = (parse(first), parse(last));
        return first.zip(last).is_some_and(|((_, first), (_, last))| (first..=last).contains(&value));
    }
    let (network, length) = word.split_once('/').map_or((word, None), |(word, length)| (word, Some(length)));
    let Some((_, network)) = parse(network) else { return false };
    let length = match length.map(|length| (length.parse::<u32>(), length.parse::<IpAddr>())) {
        None => whole,
        Some((Ok(length), _)) => length,
        Some((_, Ok(mask))) => bits(mask).1.count_ones(),
        Some(_) => return false,
    };
    (0..length).all(|bit| (network ^ value) >> (whole - 1 - bit) & 1 == 0)
}

fn is_port(word: &str, port: u16) -> bool {
    let (first, last) = word.split_once(':').unwrap_or((word, word));
    let number = |text: &str, none: u16| if text.is_empty() { Some(none) } else { text.trim().parse().ok() };
    number(first, 0).zip(number(last, u16::MAX)).is_some_and(|(first, last)| (first..=last).contains(&port))
}

/// Holds a rule's header and numbers to the plain reading.
fn compare(rules: &Rules, rule: &Rule, plain: &Plain) {
    let action = match plain.words[0].to_ascii_lowercase().as_str() {
        "alert" => Action::Alert,
        "drop" => Action::Drop,
        _ => Action::Pass,
    };
    assert_eq!((rule.line, rule.action), (plain.line, action));
    assert_eq!((rule.sid, rule.gid, rule.revision), (plain.sid, plain.gid, plain.revision));
    assert_eq!(rule.is_bidirectional, plain.words[4] == "<>");
    for ((addresses, ports), at) in rule.ends.into_iter().zip([2, 5]) {
        let (hosts, numbers) = (&plain.words[at], &plain.words[at + 1]);
        let named = hosts.split(|c: char| !c.is_ascii_hexdigit() && c != '.' && c != ':');
        for address in ADDRESSES.into_iter().chain(named).filter_map(|word| word.parse().ok()) {
            let expected = has(hosts, &|word| is_address(word, address));
            assert_eq!(rules.addresses(addresses).contains(address), expected, "{address} in {hosts}");
        }
        let named = numbers.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
        let near = named.flat_map(|port: u16| [port.saturating_sub(1), port, port.saturating_add(1)]);
        for port in PORTS.into_iter().chain(near) {
            let expected = has(numbers, &|word| is_port(word, port));
            assert_eq!(rules.ports(ports).contains(port), expected, "{port} in {numbers}");
        }
    }
}

pub fn run(data: &[u8]) {
    // What follows the first zero is a payload.
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (data, payload) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let variables: Variables =
        VARIABLES.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    match Rules::parse(data, &variables) {
        Ok(rules) => {
            let mut all: Vec<Plain> =
                lines(data).into_iter().map(|line| plain(line).expect("read")).collect();
            let count = all.len();
            // Of those with one number the last one is the newest.
            let mut known = BTreeSet::new();
            all.reverse();
            all.retain(|plain| known.insert((plain.gid, plain.sid)));
            all.reverse();
            assert_eq!((all.len(), count - all.len()), (rules.list.len(), rules.replaced));
            for (rule, plain) in rules.list.iter().zip(all) {
                compare(&rules, rule, &plain);
                if plain.takes_numbers {
                    continue;
                }
                let mut told: Vec<Wanted> = rule.all_elements().filter_map(Wanted::of).collect();
                let mut expected = plain.contents.clone();
                told.sort();
                expected.sort();
                assert_eq!(told, expected);
                let is_plain = |element: &Element| matches!(element, Element::Content(_));
                if rule.fields.is_empty() && rule.payload.elements().all(is_plain) {
                    let subject = Subject { data: payload, new_from: 0, base: 0, is_open: false };
                    let mut budget = Budget::new(usize::MAX);
                    assert!(budget.begin(1));
                    let is_met = inspect(&rule.payload, &subject, &mut budget);
                    assert!(budget.was_spent() || is_met == plain.is_in(payload), "{plain:?}");
                }
            }
            let count = rules.list.len();
            assert_eq!(Detector::new(rules, 256, 1024).rules().len(), count);
        }
        Err(faults) => {
            let lines = data.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
            assert!(faults.list.iter().all(|fault| (1..=lines).contains(&fault.line) && fault.column > 0));
            assert!(faults.total >= faults.list.len() && !faults.list.is_empty());
            assert!(faults.lines("f", 1024).iter().all(|line| line.len() <= 1024));
        }
    }
}
