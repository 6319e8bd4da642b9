//! Why packets are dropped, and the report.

use crate::identity::Identity;
use crate::layers::{Layer, Layers, Member};
use alloc::string::String;
use nf_sdk::Json;
use packet_filter::filter::Filter;
use packet_filter::{report, tally};

/// Why a packet is dropped; the numbers are places in the manifest's `drop_reasons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A reason of every filter.
    Filter(tally::Reason),
    /// A header contradicts itself.
    Malformed,
    /// Neither IP nor ARP.
    NonIp,
    /// From inside, and claims what is not the device's, or has a VLAN tag.
    Spoofed,
    /// From outside, for an address that is not the device's, or with a VLAN tag.
    Misaddressed,
}

impl From<tally::Reason> for Reason {
    fn from(reason: tally::Reason) -> Reason {
        Reason::Filter(reason)
    }
}

impl From<Reason> for u16 {
    fn from(reason: Reason) -> u16 {
        match reason {
            Reason::Filter(reason) => reason.into(),
            Reason::Malformed => tally::Reason::Malformed.into(),
            Reason::NonIp => tally::Reason::NonIp.into(),
            Reason::Spoofed => 8,
            Reason::Misaddressed => 9,
        }
    }
}

/// Names in the report and in the manifest, accepted packets first, then the reasons.
pub const NAMES: [&str; 11] = [
    "accepted",
    "denied",
    "malformed",
    "no-flow",
    "bad-state",
    "table-full",
    "fragment",
    "non-ip",
    "unreadable",
    "spoofed",
    "misaddressed",
];

/// `members`: rules for what members learned, each with how many addresses it is for and its hits.
fn of_members(json: &mut Json<'_>, layer: &Layer, members: &[Member]) {
    json.key("members").array();
    for of in &layer.of_members {
        json.object();
        if !of.rule.name.is_empty() {
            json.key("name").text(&of.rule.name);
        }
        let addresses = members.iter().filter(|(_, list)| *list == of.list).count();
        json.member("addresses", addresses as u64).member("hits", of.hits).end_object();
    }
    json.end_array();
}

/// Writes the report.
pub fn report(filter: &Filter<Layers, { NAMES.len() }>, identity: &Identity, out: &mut String) {
    let mut json = Json::new(out);
    json.object();
    report::packets(&mut json, &NAMES, &filter.tally);
    let layers = &filter.judge.rules;
    for (name, layer) in [("administrator", &layers.administrator), ("tenant", &layers.tenant)] {
        if let Some(layer) = layer {
            json.key(name).object();
            report::rules(&mut json, &layer.rules);
            if !layer.of_members.is_empty() {
                of_members(&mut json, layer, layers.members());
            }
            json.end_object();
        }
    }
    if let Some(tracker) = &filter.tracker {
        report::flows(&mut json, tracker);
    }
    json.member("addresses", identity.addresses() as u64);
    let fragments = &filter.judge.fragments;
    json.member("fragmented_datagrams", fragments.count() as u64);
    json.member("fragments_held", fragments.waiting.count() as u64).end_object();
}
