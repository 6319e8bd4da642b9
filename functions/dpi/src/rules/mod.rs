//! Rules: what they mean, and how a file of them is read.
//!
//! 1. [`text`] splits the file into logical lines; [`parse`] takes each apart into header and options.
//! 2. [`network`] reads addresses and ports down to [`ranges`], [`options`] and [`content`] read what is in
//!    parentheses, [`regex`] compiles expressions.
//! 3. [`Rules::parse`] gives all rules, or all faults and no rule.

pub mod classification;
pub mod compare;
pub mod content;
pub mod network;
pub mod options;
pub mod parse;
pub mod ranges;
pub mod regex;
pub mod text;

use alloc::string::String;
use alloc::vec::Vec;
use compare::{Compare, Flags};
use content::Content;
use network::{Addresses, Ports};
use regex::Regex;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
}

/// The option `threshold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// How matches are counted.
    pub kind: ThresholdKind,
    /// By the packet's source, else by its destination.
    pub by_source: bool,
    /// Matches.
    pub count: u32,
    /// Length of the interval.
    pub seconds: u32,
}

/// Whether data is at a place: `isdataat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAt {
    /// How far.
    pub bytes: u32,
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
}

impl Element {
    /// Its place counts from the end of the match before.
    pub fn is_relative(&self) -> bool {
        match self {
            Element::Content(content) => content.relative.is_some(),
            Element::Regex(regex) => regex.is_relative,
            Element::DataAt(data) => data.is_relative,
        }
    }

    /// It is no match of its own, but the lack of one or the presence of data.
    pub fn is_condition(&self) -> bool {
        match self {
            Element::Content(content) => content.is_negated,
            Element::Regex(regex) => regex.is_negated,
            Element::DataAt(_) => true,
        }
    }
}

/// A rule.
#[derive(Debug)]
pub struct Rule {
    /// What it does.
    pub action: Action,
    /// For which packets.
    pub protocol: Protocol,
    /// Numbers of sets in [`Rules`]: addresses and ports of the source, then of the destination.
    pub ends: [(u32, u32); 2],
    /// Source and destination may be the other way round.
    pub is_bidirectional: bool,
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
    /// Conditions that depend on no match.
    pub conditions: Vec<Element>,
    /// Each a match and what is relative to it.
    pub chains: Vec<Vec<Element>>,
    /// What contents are searched in.
    pub scope: Scope,
    /// Nothing but addresses is looked at: such a rule is applied once for each direction of a flow.
    pub is_address_only: bool,
    /// Chain and place in it of the content that the operator named with `fast_pattern`.
    pub fast: Option<(usize, usize)>,
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
    pub priority: u8,
    /// Where it begins in the file.
    pub line: u32,
}

impl Rule {
    /// It looks for something in the payload, and hence at no packet without one.
    pub fn has_content(&self) -> bool {
        !self.chains.is_empty() || !self.conditions.is_empty()
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
}
