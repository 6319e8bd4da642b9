//! What is counted, and the report.

use crate::Firewall;
use crate::rule::Action;
use alloc::string::String;
use nf_sdk::{Host, Json, Verdict};

/// Why a packet is dropped; the numbers are places in the manifest's `drop_reasons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Reason {
    /// A rule or the default action says so.
    Denied = 0,
    /// A header contradicts itself.
    Malformed = 1,
    /// It belongs to no flow and cannot open one.
    NoFlow = 2,
    /// It is not valid in the state of its flow.
    BadState = 3,
    /// There is no room for another flow.
    TableFull = 4,
    /// A later fragment without its first one, or one that may not be.
    Fragment = 5,
    /// Neither IPv4 nor IPv6.
    NonIp = 6,
    /// IP that ends before its headers say, or has too many of them.
    Unreadable = 7,
}

/// Names in the report and in the manifest, accepted packets first, then the reasons.
pub const NAMES: [&str; 9] = [
    "accepted",
    "denied",
    "malformed",
    "no-flow",
    "bad-state",
    "table-full",
    "fragment",
    "non-ip",
    "unreadable",
];

impl Reason {
    /// The verdict that drops a packet for this reason.
    #[inline(always)]
    pub const fn verdict(self) -> u32 {
        Verdict::Drop(self as u16).encode()
    }
}

/// Counts of packets, by [`NAMES`].
#[derive(Debug, Default)]
pub struct Tally {
    /// Since the start.
    pub totals: [u64; NAMES.len()],
    batch: [u32; NAMES.len()],
    turnover: [u64; 3],
}

impl Tally {
    /// Counts accepted and denied packets of the batch.
    #[inline(always)]
    pub fn add(&mut self, accepted: u32, denied: u32) {
        self.batch[0] += accepted;
        self.batch[1] += denied;
    }

    /// Counts a packet that took the long way; its verdict.
    pub fn judge(&mut self, judgement: Result<(), Reason>, onward: u32) -> u32 {
        let (place, verdict) = match judgement {
            Ok(()) => (0, onward),
            Err(reason) => (1 + reason as usize, reason.verdict()),
        };
        self.batch[place] += 1;
        verdict
    }

    /// Tells the host what the batch added: a host call for each counter that changed.
    #[inline(always)]
    pub fn flush(&mut self, host: &mut Host) {
        for (place, count) in self.batch.iter_mut().enumerate() {
            if *count != 0 {
                self.totals[place] += u64::from(*count);
                host.counter_add(place as u32, u64::from(*count));
                *count = 0;
            }
        }
    }

    /// Tells the host how many flows began and ended since the last time.
    #[inline(always)]
    pub fn flush_turnover(&mut self, now: [u64; 3], host: &mut Host) {
        if now != self.turnover {
            for (place, (now, before)) in now.into_iter().zip(self.turnover).enumerate() {
                host.counter_add((NAMES.len() + place) as u32, now - before);
            }
            self.turnover = now;
        }
    }
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Accept => "accept",
        Action::Drop => "drop",
    }
}

/// Writes the report.
pub fn report(firewall: &Firewall, out: &mut String) {
    let mut json = Json::new(out);
    json.object().key("packets").object();
    for (name, total) in NAMES.iter().zip(firewall.tally.totals) {
        json.member(name, total);
    }
    json.end_object().key("rules").array();
    let rules = &firewall.judge.rules;
    for (number, (rule, decision)) in rules.rules.iter().zip(&rules.decisions).enumerate() {
        json.object().member("number", number as u64);
        if !rule.name.is_empty() {
            json.key("name").text(&rule.name);
        }
        json.key("action").text(word(rule.action)).member("hits", decision.hits).end_object();
    }
    json.end_array().key("default").object().key("action").text(word(rules.default_action));
    json.member("hits", rules.decisions.last().map_or(0, |decision| decision.hits)).end_object();
    if let Some(tracker) = &firewall.tracker {
        let turnover = tracker.terms.turnover;
        json.key("flows").object();
        json.member("ipv4", tracker.v4.len() as u64).member("max_ipv4", tracker.v4.limit() as u64);
        json.member("ipv6", tracker.v6.len() as u64).member("max_ipv6", tracker.v6.limit() as u64);
        json.member("opened", turnover.opened).member("expired", turnover.expired);
        json.member("evicted", turnover.evicted).end_object();
    }
    json.member("fragmented_datagrams", firewall.judge.fragments.count() as u64).end_object();
}
