//! Rules with the shares that a public set has (2021, 14,604 rules): how often each keyword stands in a rule,
//! how long contents are and how many there are, and which ports rules are for. Every keyword is drawn
//! independently with its share; what cannot stand beside another (parts of requests beside parts of
//! responses, HTTP beside UDP) is drawn among the rules that can have it, with the share raised accordingly.
//!
//! One rule in ten is loud: the traffic of [`crate::exchanges`] has what it looks for. The others are silent.
//!
//! Limits: literal parts of expressions alone can be met on purpose, so expressions are a word, digits and a
//! word.

use crate::frames::Numbers;

/// Where in a message a content is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The payload.
    Payload,
    /// The request's target.
    Uri,
    /// Fields of a head.
    Header,
    /// A cookie.
    Cookie,
    /// The request's body.
    Body,
    /// The response's body.
    File,
}

impl Part {
    fn modifier(self) -> &'static str {
        match self {
            Part::Payload | Part::File => "",
            Part::Uri => " http_uri;",
            Part::Header => " http_header;",
            Part::Cookie => " http_cookie;",
            Part::Body => " http_client_body;",
        }
    }

    fn flag(self) -> &'static str {
        match self {
            Part::Payload | Part::File => "",
            Part::Uri => "U",
            Part::Header => "H",
            Part::Cookie => "C",
            Part::Body => "P",
        }
    }
}

/// A content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Letters match in either case.
    pub nocase: bool,
    /// Where it is.
    pub part: Part,
}

/// What is done with the bytes behind the payload's last content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// `byte_test`: they are more than 40,000.
    Test,
    /// `byte_jump`: as many bytes behind them comes `#`.
    Jump,
}

/// A rule.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Its number, from 1.
    pub sid: u32,
    /// UDP instead of TCP.
    pub is_udp: bool,
    /// About what the server says.
    pub to_client: bool,
    /// The port: `HTTP_PORTS`, a number or any.
    pub port: Port,
    /// In order.
    pub contents: Vec<Content>,
    /// The content that is the `fast_pattern`.
    pub fast: Option<usize>,
    /// Words of an expression, in the part of the last content.
    pub pcre: Option<(String, String)>,
    /// The request's method.
    pub method: Option<&'static str>,
    /// The response's status.
    pub status: Option<u16>,
    /// `flowbits`: whether the bit is set, else asked for, and its number.
    pub bit: Option<(bool, u32)>,
    /// `threshold`.
    pub threshold: bool,
    /// `flags:S` and an address.
    pub address: Option<u32>,
    /// A number behind the last content of the payload.
    pub number: Option<Number>,
    /// `isdataat` behind the last content of the payload.
    pub data_at: bool,
    /// The target is shorter.
    pub urilen: Option<usize>,
    /// `dsize`.
    pub dsize: bool,
    /// The traffic has what it looks for.
    pub is_loud: bool,
}

/// Ports of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Port {
    /// Any.
    #[default]
    Any,
    /// `$HTTP_PORTS`.
    Http,
    /// One.
    One(u16),
}

/// What `$HTTP_PORTS` stands for.
pub const HTTP_PORTS: &str = "[80,8080]";

/// What stands in a rule's text where it has each keyword.
pub const KEYWORDS: [&str; 19] = [
    "content:",
    "nocase;",
    "http_uri;",
    "pcre:",
    "fast_pattern;",
    "flowbits:",
    "threshold:",
    "http_method;",
    "file_data;",
    "http_header;",
    "flags:",
    "http_client_body;",
    "byte_test:",
    "byte_jump:",
    "isdataat:",
    "http_stat_code;",
    "urilen:",
    "dsize:",
    "http_cookie;",
];

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.=";
/// What contents of public rules begin with; harmless traffic has them as well.
pub const COMMON: [&str; 14] = [
    "/index",
    ".php?",
    "/admin",
    "User-Agent",
    "Mozilla",
    "id=",
    "<script",
    "function",
    "/wp-",
    "cmd",
    "http",
    "name=",
    "var ",
    "Accept",
];

fn per_mille(numbers: &mut Numbers, share: u64) -> bool {
    numbers.below(1000) < share
}

/// Lengths of the longest contents: the 5th, 25th, 50th, 75th and 95th percentile are 5, 12, 17, 25 and 47.
fn longest(numbers: &mut Numbers) -> usize {
    let steps = [(0, 4, 5), (50, 5, 12), (250, 12, 17), (500, 17, 25), (750, 25, 47), (950, 47, 64)];
    let place = numbers.below(1000);
    let (_, least, most) = steps.into_iter().rev().find(|(from, ..)| *from <= place).unwrap_or(steps[0]);
    least + numbers.below((most - least) as u64 + 1) as usize
}

fn bytes(length: usize, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::new();
    if length > 9 && numbers.below(2) == 0 {
        bytes.extend(COMMON[numbers.below(COMMON.len() as u64) as usize].bytes());
        if bytes.len() == length {
            // All traffic has it, and not the other way round.
            bytes.reverse();
        }
    }
    while bytes.len() < length {
        bytes.push(LETTERS[numbers.below(LETTERS.len() as u64) as usize]);
    }
    bytes
}

impl Rule {
    fn new(sid: u32, numbers: &mut Numbers) -> Rule {
        let mut rule = Rule { sid, ..Rule::default() };
        rule.is_udp = per_mille(numbers, 90);
        rule.to_client = !rule.is_udp && per_mille(numbers, 220);
        let has_content = per_mille(numbers, 890);
        rule.threshold = per_mille(numbers, 140);
        rule.port = match numbers.below(1000) {
            _ if rule.is_udp => Port::One([53, 123, 5060, 1900][numbers.below(4) as usize]),
            0..550 => Port::Http,
            550..900 => Port::Any,
            _ => Port::One([21, 25, 445, 143, 6667, 3389][numbers.below(6) as usize]),
        };
        rule.is_loud = sid.is_multiple_of(10);
        if !has_content {
            // Addresses that are known to be bad.
            rule.address = Some(0xc612_0000 | sid);
            (rule.to_client, rule.is_udp, rule.port) = (false, false, Port::Any);
            return rule;
        }
        let asks = !rule.is_udp && !rule.to_client;
        let parts = rule.parts(asks, numbers);
        let count = if per_mille(numbers, 350) { 3 } else { 1 + numbers.below(2) as usize };
        let count = count.max(parts.len());
        let length = longest(numbers);
        for place in 0..count {
            let part = parts[place.min(parts.len() - 1)];
            let length = if place == 0 { length } else { 2 + numbers.below(length as u64 - 1) as usize };
            let nocase = per_mille(numbers, 400);
            rule.contents.push(Content { bytes: bytes(length.max(3), numbers), nocase, part });
        }
        rule.contents.sort_by_key(|content| content.part);
        rule.fast = per_mille(numbers, 380).then(|| {
            let lengths = rule.contents.iter().enumerate().map(|(at, content)| (content.bytes.len(), at));
            lengths.max().map_or(0, |(_, at)| at)
        });
        if per_mille(numbers, 470) {
            let word = |numbers: &mut Numbers| {
                String::from_utf8(bytes(3 + numbers.below(4) as usize, numbers)).unwrap_or_default()
            };
            let clean = |word: String| word.replace(['.', '=', '-'], "x");
            rule.pcre = Some((clean(word(numbers)), clean(word(numbers))));
        }
        let is_http = rule.is_http();
        rule.method =
            (asks && per_mille(numbers, 200)).then_some(if numbers.below(2) == 0 { "GET" } else { "POST" });
        if rule.contents.iter().any(|content| content.part == Part::Body) {
            rule.method = Some("POST");
        }
        rule.status = (rule.to_client && is_http && per_mille(numbers, 100)).then_some(404);
        rule.urilen = (asks && per_mille(numbers, 11)).then(|| 700 + numbers.below(300) as usize);
        rule.bit = per_mille(numbers, 180).then(|| (numbers.below(3) != 0, numbers.below(200) as u32));
        if rule.contents.last().is_some_and(|content| content.part == Part::Payload) {
            rule.number = match numbers.below(1000) {
                0..110 => Some(Number::Test),
                110..220 => Some(Number::Jump),
                _ => None,
            };
            rule.data_at = rule.number.is_none() && per_mille(numbers, 120);
            rule.dsize = rule.is_udp && per_mille(numbers, 90);
        }
        rule
    }

    /// The parts of messages that it looks at.
    fn parts(&self, asks: bool, numbers: &mut Numbers) -> Vec<Part> {
        let mut parts = Vec::new();
        if asks {
            // Shares among the rules about requests, which are 71% of all.
            for (part, share) in [(Part::Uri, 660), (Part::Header, 200), (Part::Body, 80), (Part::Cookie, 12)]
            {
                if per_mille(numbers, share) {
                    parts.push(part);
                }
            }
        } else if self.to_client && per_mille(numbers, 740) {
            parts.push(Part::File);
        }
        if parts.is_empty() {
            parts.push(Part::Payload);
        }
        parts
    }

    /// It looks at parts of HTTP messages.
    pub fn is_http(&self) -> bool {
        self.method.is_some()
            || self.urilen.is_some()
            || self.status.is_some()
            || self.contents.iter().any(|content| content.part != Part::Payload)
    }

    /// As a line.
    pub fn text(&self) -> String {
        use std::fmt::Write;
        let mut out = String::new();
        let port = match self.port {
            Port::Any => "any".to_owned(),
            Port::Http => "$HTTP_PORTS".to_owned(),
            Port::One(port) => port.to_string(),
        };
        let protocol = if self.is_udp { "udp" } else { "tcp" };
        let address = self
            .address
            .map_or("any".to_owned(), |address| std::net::Ipv4Addr::from_bits(address).to_string());
        let ends = match self.to_client {
            true => format!("any {port} -> any any"),
            false => format!("any any -> {address} {port}"),
        };
        // Writing to a string cannot fail.
        let _ = write!(out, "alert {protocol} {ends} (msg:\"rule {}\"; ", self.sid);
        match () {
            () if self.address.is_some() => out += "flags:S; ",
            () if self.is_udp => {}
            () if self.to_client => out += "flow:established,to_client; ",
            () => out += "flow:established,to_server; ",
        }
        if let Some(method) = self.method {
            let _ = write!(out, "content:\"{method}\"; http_method; ");
        }
        if let Some(status) = self.status {
            let _ = write!(out, "content:\"{status}\"; http_stat_code; ");
        }
        if let Some(length) = self.urilen {
            let _ = write!(out, "urilen:<{length}; ");
        }
        if self.dsize {
            out += "dsize:<900; ";
        }
        if self.contents.iter().any(|content| content.part == Part::File) {
            out += "file_data; ";
        }
        for (place, content) in self.contents.iter().enumerate() {
            let _ = write!(out, "content:\"{}\";", escaped(&content.bytes));
            if content.nocase {
                out += " nocase;";
            }
            if self.fast == Some(place) {
                out += " fast_pattern;";
            }
            let _ = write!(out, "{} ", content.part.modifier());
        }
        match self.number {
            Some(Number::Test) => out += "byte_test:2,>,40000,0,relative; ",
            Some(Number::Jump) => out += "byte_jump:1,0,relative; content:\"#\"; distance:0; within:1; ",
            None => {}
        }
        if self.data_at {
            out += "isdataat:20,relative; ";
        }
        if let (Some((before, after)), Some(last)) = (&self.pcre, self.contents.last()) {
            let _ = write!(out, "pcre:\"/{before}\\d{{1,4}}{after}/{}\"; ", last.part.flag());
        }
        match self.bit {
            Some((true, bit)) => {
                let _ = write!(out, "flowbits:set,b{bit}; ");
            }
            Some((false, bit)) => {
                let _ = write!(out, "flowbits:isset,b{bit}; ");
            }
            None => {}
        }
        if self.threshold {
            out += "threshold:type limit, track by_src, count 1, seconds 60; ";
        }
        let _ = write!(out, "sid:{}; rev:1;)", self.sid);
        out
    }

    /// What has to stand in a part for it to match.
    pub fn sample(&self, part: Part, numbers: &mut Numbers) -> Vec<u8> {
        let mut out = Vec::new();
        for content in self.contents.iter().filter(|content| content.part == part) {
            let mut bytes = content.bytes.clone();
            if content.nocase && numbers.below(2) == 0 {
                bytes.make_ascii_uppercase();
            }
            if !out.is_empty() {
                out.push(b'_');
            }
            out.extend(bytes);
        }
        if out.is_empty() || self.contents.last().map(|content| content.part) != Some(part) {
            return out;
        }
        match self.number {
            Some(Number::Test) => out.extend([0xee, 0xee]),
            Some(Number::Jump) => out.extend([2, b'.', b'.', b'#']),
            None => {}
        }
        if let Some((before, after)) = &self.pcre {
            out.extend(format!("~{before}{}{after}", numbers.below(9999)).bytes());
        }
        if self.data_at {
            out.extend([b'.'; 32]);
        }
        out
    }
}

/// Anything but letters and digits in hexadecimal.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b' ' | b'<' => {
                text.push(char::from(*byte));
            }
            other => text += &format!("|{other:02x}|"),
        }
    }
    text
}

/// So many rules, always the same.
pub fn rules(count: u32) -> Vec<Rule> {
    let mut numbers = Numbers(0x2021_14604);
    let mut rules: Vec<Rule> = (1..=count).map(|sid| Rule::new(sid, &mut numbers)).collect();
    for rule in &mut rules {
        // What is asked for is never there unless another rule sets it: such a rule is loud beside it.
        if matches!(rule.bit, Some((false, _))) {
            rule.is_loud = false;
        }
    }
    rules
}

/// All of them as a file.
pub fn text(rules: &[Rule]) -> String {
    rules.iter().map(|rule| rule.text() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules of a thousand that have this.
    fn share(rules: &[Rule], has: impl Fn(&Rule, &str) -> bool) -> usize {
        rules.iter().filter(|rule| has(rule, &rule.text())).count() * 1000 / rules.len()
    }

    #[test]
    fn shares_are_those_of_a_public_set() {
        let rules = rules(2500);
        let near = |what: &str, least: usize, most: usize| {
            let found = share(&rules, |_, text| text.contains(what));
            assert!((least..=most).contains(&found), "{what}: {found} of 1,000, not {least} to {most}");
        };
        near("alert udp", 70, 110);
        near("content:", 860, 920);
        near("nocase;", 480, 650);
        near("http_uri;", 340, 460);
        near("pcre:", 360, 460);
        near("fast_pattern;", 290, 380);
        near("flowbits:", 130, 190);
        near("threshold:", 110, 170);
        near("http_method;", 110, 190);
        near("file_data;", 110, 170);
        near("http_header;", 90, 160);
        near("flags:S", 80, 130);
        near("http_client_body;", 30, 80);
        near("byte_test:", 15, 50);
        near("byte_jump:", 15, 50);
        near("isdataat:", 10, 45);
        near("http_stat_code;", 5, 30);
        near("urilen:", 4, 12);
        near("dsize:", 4, 12);
        near("http_cookie;", 4, 12);
        near("$HTTP_PORTS", 400, 550);
        let mut longest: Vec<usize> = rules
            .iter()
            .filter_map(|rule| rule.contents.iter().map(|content| content.bytes.len()).max())
            .collect();
        longest.sort_unstable();
        let at = |percent: usize| longest[longest.len() * percent / 100];
        assert!((10..=14).contains(&at(25)) && (15..=19).contains(&at(50)) && (23..=28).contains(&at(75)));
    }

    #[test]
    fn they_are_the_same_each_time_and_one_in_ten_is_loud() {
        assert_eq!(text(&rules(300)), text(&rules(300)));
        let loud = share(&rules(2500), |rule, _| rule.is_loud);
        assert!((60..=100).contains(&loud), "{loud}");
    }

    #[test]
    fn no_content_is_what_all_traffic_has() {
        for rule in rules(2500) {
            let is_common = |content: &Content| COMMON.iter().any(|word| word.as_bytes() == content.bytes);
            assert!(!rule.contents.iter().any(is_common), "{}", rule.text());
        }
    }

    #[test]
    fn a_sample_has_all_that_its_rule_looks_for() {
        let mut numbers = Numbers(1);
        for rule in rules(500) {
            for content in rule.contents.iter().filter(|content| !content.nocase) {
                let sample = rule.sample(content.part, &mut numbers);
                let is_there = sample.windows(content.bytes.len()).any(|window| window == content.bytes);
                assert!(is_there, "{}", rule.text());
            }
        }
    }
}
