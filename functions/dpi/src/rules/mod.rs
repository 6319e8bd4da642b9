//! Rules: what they mean, and how a file of them is read.
//!
//! 1. [`text`] splits the file into logical lines; [`parse`] takes each apart into header and options.
//! 2. [`network`] reads addresses and ports down to [`ranges`], [`options`] and [`content`] read what is in
//!    parentheses, [`regex`] compiles expressions; [`lacking`] tells what Suricata takes of what is refused.
//! 3. [`Rules::parse`] gives all rules, or all faults and no rule.

pub mod bits;
pub mod buffer;
pub mod bytes;
pub mod classification;
pub mod compare;
pub mod content;
mod dialect;
pub mod lacking;
pub mod network;
pub mod options;
pub mod parse;
pub mod ranges;
mod reading;
pub mod regex;
pub mod text;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use bits::{Bits, Owner};
use buffer::{App, Buffer};
use bytes::{ByteExtract, ByteJump, ByteTest, Number};
use compare::{Compare, Flags};
use content::Content;
use network::{Addresses, Ports};
use regex::Regex;
use text::{by_count, decimal, say};

/// Most rules in a file.
pub const MAX_RULES: usize = 65_536;

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The packet passes, and no other rule is applied to it.
    Pass,
    /// The packet is dropped, with an alert.
    Drop,
    /// An alert.
    Alert,
}

/// What packets a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Any that is IP.
    Ip,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP and ICMPv6.
    Icmp,
}

/// Which end of a flow sent a packet. The client is the end that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

/// What the contents of a rule are searched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each packet's payload.
    Packet,
    /// The stream, where the packet is part of one; else the packet's payload.
    Stream,
    /// Either of them: offsets count from the payload's beginning or from the stream's.
    Both,
    /// The stream alone.
    OnlyStream,
}

/// The option `flow`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowCondition {
    /// Which end sent the packet.
    pub direction: Option<Direction>,
    /// Whether both sides have agreed.
    pub established: Option<bool>,
}

/// When an alert is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdKind {
    /// For the first `count` matches of an interval.
    Limit,
    /// For every `count`th match of an interval.
    Threshold,
    /// Once in an interval, at the `count`th match.
    Both,
    /// For every match of an interval behind the `count`th: `detection_filter`.
    Beyond,
}

/// What matches are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// The packet's source.
    Source,
    /// The packet's destination.
    Destination,
    /// Both.
    Pair,
    /// The rule alone.
    Rule,
}

/// The option `threshold`, or `detection_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// How matches are counted.
    pub kind: ThresholdKind,
    /// What they are counted by.
    pub track: Track,
    /// Matches.
    pub count: u32,
    /// Length of the interval.
    pub seconds: u32,
}

/// Whether data is at a place: `isdataat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAt {
    /// How far.
    pub bytes: Number,
    /// From the end of the last match, else from the beginning.
    pub is_relative: bool,
    /// It must not be.
    pub is_negated: bool,
}

/// Something that is looked for in a payload.
#[derive(Debug)]
pub enum Element {
    /// Bytes.
    Content(Content),
    /// A regular expression.
    Regex(Regex),
    /// That there is data.
    DataAt(DataAt),
    /// The length of all data: `bsize`, `urilen`.
    Length(Compare),
    /// A comparison of a number in the data.
    Test(ByteTest),
    /// A place that a number in the data tells.
    Jump(ByteJump),
    /// A number that others refer to.
    Extract(ByteExtract),
}

impl Element {
    /// Its place counts from the end of the match before.
    pub fn is_relative(&self) -> bool {
        match self {
            Element::Content(content) => content.relative.is_some(),
            Element::Regex(regex) => regex.is_relative,
            Element::DataAt(data) => data.is_relative,
            Element::Length(_) => false,
            Element::Test(test) => test.source.is_relative,
            Element::Jump(jump) => jump.source.is_relative,
            Element::Extract(extract) => extract.source.is_relative,
        }
    }

    /// It is no match of its own, but the lack of one or the presence of data.
    pub fn is_condition(&self) -> bool {
        match self {
            Element::Content(content) => content.is_negated,
            Element::Regex(regex) => regex.is_negated,
            Element::DataAt(_) | Element::Length(_) | Element::Test(_) => true,
            Element::Jump(_) | Element::Extract(_) => false,
        }
    }
}

/// A match and what is relative to it.
pub type Chain = Vec<Element>;

/// What is looked for in a payload, or in a buffer.
#[derive(Debug, Default)]
pub struct Pattern {
    /// Conditions that depend on no match.
    pub conditions: Vec<Element>,
    /// Each a match and what is relative to it. With numbers that are extracted, all in one chain: what
    /// refers to them comes after them.
    pub chains: Vec<Chain>,
}

impl Pattern {
    /// Nothing is looked for.
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty() && self.conditions.is_empty()
    }

    /// Whether bytes that contain nothing that is looked for can make it match: by their number, or by their
    /// values.
    pub fn is_told_by_end(&self) -> bool {
        self.elements().any(Element::is_condition)
    }

    /// All elements.
    pub fn elements(&self) -> impl Iterator<Item = &Element> {
        self.chains.iter().flatten().chain(&self.conditions)
    }

    /// The contents that must be there, with chain and place in it.
    pub fn contents(&self) -> impl Iterator<Item = ((usize, usize), &Content)> {
        self.chains.iter().enumerate().flat_map(|(chain, elements)| {
            elements.iter().enumerate().filter_map(move |(place, element)| match element {
                Element::Content(content) if !content.is_negated => Some(((chain, place), content)),
                _ => None,
            })
        })
    }

    /// Puts elements in order into conditions and chains; where `fast` is then.
    pub fn new(elements: Vec<Element>) -> (Pattern, Option<(usize, usize)>) {
        let (mut pattern, mut fast) = (Pattern::default(), None);
        let is_one = elements.iter().any(|element| matches!(element, Element::Extract(_)));
        for element in elements {
            let is_fast = matches!(&element, Element::Content(content) if content.is_fast);
            match pattern.chains.last_mut() {
                Some(chain) if is_one => chain.push(element),
                _ if element.is_condition() && !element.is_relative() => pattern.conditions.push(element),
                Some(chain) if element.is_relative() => chain.push(element),
                _ => pattern.chains.push(Vec::from([element])),
            }
            if is_fast && let Some(chain) = pattern.chains.last() {
                fast = Some((pattern.chains.len() - 1, chain.len() - 1));
            }
        }
        (pattern, fast)
    }
}

/// A protocol's version of the option `tls.version`: major and minor byte.
pub type Version = [u8; 2];

/// Versions of TLS by their names.
pub const VERSIONS: [(&str, Version); 5] =
    [("1.0", [3, 1]), ("1.1", [3, 2]), ("1.2", [3, 3]), ("1.3", [3, 4]), ("SSLv3", [3, 0])];

/// A rule.
#[derive(Debug)]
pub struct Rule {
    /// What it does.
    pub action: Action,
    /// For which packets.
    pub protocol: Protocol,
    /// Numbers of sets in [`Rules`]: addresses and ports of the source, then of the destination.
    pub ends: [(u32, u32); 2],
    /// Which of these sets are all addresses, and all ports.
    pub any: [(bool, bool); 2],
    /// Source and destination may be the other way round.
    pub is_bidirectional: bool,
    /// It asks something of lengths, flags, times to live, ICMP, protocols' numbers or applications.
    pub asks_more: bool,
    /// Conditions on the flow.
    pub flow: FlowCondition,
    /// Conditions on the payload's length.
    pub size: Option<Compare>,
    /// Conditions on TCP flags.
    pub flags: Option<Flags>,
    /// Conditions on the time to live or hop limit.
    pub ttl: Option<Compare>,
    /// Conditions on the ICMP type.
    pub icmp_type: Option<Compare>,
    /// Conditions on the ICMP code.
    pub icmp_code: Option<Compare>,
    /// Conditions on the protocol's number.
    pub ip_protocol: Vec<Compare>,
    /// The application's protocol, each of which it must be or, negated, must not be.
    pub apps: Vec<(App, bool)>,
    /// The version of TLS.
    pub tls_version: Option<Version>,
    /// What is looked for in the payload.
    pub payload: Pattern,
    /// What is looked for in parts of an application's message, all in the same one.
    pub fields: Vec<(Buffer, Pattern)>,
    /// What contents are searched in.
    pub scope: Scope,
    /// Nothing but addresses is looked at: such a rule is applied once for each direction of a flow.
    pub is_address_only: bool,
    /// The content that the operator named with `fast_pattern`: the number of the field, or none for the
    /// payload, chain and place in it.
    pub fast: Option<(Option<usize>, usize, usize)>,
    /// Bits that are asked for, and then those that are changed.
    pub bits: Vec<Bits>,
    /// It matches in silence.
    pub is_silent: bool,
    /// When alerts are given.
    pub threshold: Option<Threshold>,
    /// The option `msg`.
    pub message: String,
    /// The option `sid`.
    pub sid: u32,
    /// The option `gid`.
    pub gid: u32,
    /// The option `rev`.
    pub revision: u32,
    /// Description of the option `classtype`.
    pub category: &'static str,
    /// 1 is the most severe.
    pub priority: u32,
    /// Where it begins in the file.
    pub line: u32,
    /// What each alert says of it, as JSON.
    pub told: String,
}

impl Rule {
    /// It looks for something in the payload, and hence at no packet without one.
    pub fn has_content(&self) -> bool {
        !self.payload.is_empty()
    }

    /// Everything that is looked for.
    pub fn all_elements(&self) -> impl Iterator<Item = &Element> {
        self.payload.elements().chain(self.fields.iter().flat_map(|(_, pattern)| pattern.elements()))
    }

    /// It is about messages of an application.
    pub fn has_fields(&self) -> bool {
        !self.fields.is_empty() || self.tls_version.is_some()
    }

    /// It can be decided only when a message has ended.
    pub fn needs_body(&self) -> bool {
        self.fields.iter().any(|(buffer, _)| buffer.is_body())
    }

    /// The protocol whose messages it is about.
    pub fn message_app(&self) -> Option<App> {
        match self.fields.first() {
            Some((buffer, _)) => Some(buffer.field().app),
            None => self.tls_version.map(|_| App::Tls),
        }
    }

    /// Its place among others that match in the same packet, as Suricata has it: by action, by what is done
    /// with bits of flows (those that only change some come first, those that ask for none last), those that
    /// ask for bits of hosts before others, by priority and by number.
    pub fn order(&self) -> (Action, u8, bool, u32, u32, u32) {
        let has = |is_of_flow: bool, is_question: bool| {
            let is_such = |bits: &Bits| {
                (bits.owner == Owner::Flow, bits.act.is_question()) == (is_of_flow, is_question)
            };
            self.bits.iter().any(is_such)
        };
        let of_flows = match (has(true, false), has(true, true)) {
            (true, false) => 0,
            (true, true) => 1,
            (false, true) => 2,
            (false, false) => 3,
        };
        (self.action, of_flows, !has(false, true), self.priority, self.sid, self.gid)
    }
}

/// All rules of a file.
#[derive(Debug, Default)]
pub struct Rules {
    /// In the file's order.
    pub list: Vec<Rule>,
    /// Sets of addresses, each once.
    pub addresses: Vec<Addresses>,
    /// Sets of ports, each once.
    pub ports: Vec<Ports>,
    /// How many bits have names.
    pub bits: usize,
    /// Rules that were left out because of what they ask for.
    pub skipped: Skipped,
    /// How many were left out because the file has them in a newer revision.
    pub replaced: usize,
    /// Lines of rules with class types that are not known, and these.
    pub unknown_classes: Vec<(u32, String)>,
}

/// Rules that were left out.
#[derive(Clone, Debug, Default)]
pub struct Skipped {
    /// How many there are.
    pub total: usize,
    /// How many for want of what, by its name.
    pub reasons: BTreeMap<String, usize>,
    /// Each of them: line, `sid` where it could be read, and the name.
    pub list: Vec<(u32, u32, String)>,
}

impl Rules {
    /// Class types that are not known, as `name` has them, and how many rules have each.
    pub fn count_classes(&self, name: impl Fn(&str) -> String) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (_, class) in &self.unknown_classes {
            *counts.entry(name(class)).or_default() += 1;
        }
        counts
    }

    /// What there is to say of a file that is taken, a line each.
    pub fn notices(&self, file: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut add = |count: usize, parts: &[&str]| {
            if count > 0 {
                lines.push(say(&[file, ": ", &decimal(count as u64), &parts.concat()]));
            }
        };
        let where_they_are = " rules are left out, which ask for what this function does not have (the report has each of \
                              them, and `superfluid check --all` lists them with `unsupported: refuse`): ";
        add(self.skipped.total, &[where_they_are, &by_count(&self.skipped.reasons)]);
        add(self.replaced, &[" rules are left out, of which the file has newer revisions"]);
        let named = self.count_classes(classification::suggest);
        let count = self.unknown_classes.len();
        add(count, &[" rules have a class type that is not known, and priority 3: ", &by_count(&named)]);
        lines
    }
}
