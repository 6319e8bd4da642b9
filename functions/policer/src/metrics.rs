//! What is counted, and the report.

use crate::Policing;
use crate::meter::{GREEN, RED, YELLOW};
use crate::policer::Action;
use alloc::collections::BinaryHeap;
use alloc::string::String;
use core::cmp::Reverse;
use nf_sdk::{Host, Json, Verdict};

/// Why a packet is dropped; the numbers are places in the manifest's `drop_reasons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Reason {
    /// Beyond the limits, with three colours yellow.
    Exceeded = 0,
    /// Red.
    Violated = 1,
    /// A header is cut short or impossible.
    Malformed = 2,
    /// Neither IPv4 nor IPv6.
    NonIp = 3,
}

impl Reason {
    /// The verdict that drops a packet for this reason.
    #[inline(always)]
    pub const fn verdict(self) -> u32 {
        Verdict::Drop(self as u16).encode()
    }

    /// Its place in [`NAMES`].
    #[inline(always)]
    pub const fn counter(self) -> usize {
        2 + self as usize
    }
}

/// Names in the report and of the manifest's first counters: packets that passed, those of them that were
/// marked, then the reasons.
pub const NAMES: [&str; 6] = ["passed", "marked", "exceeded", "violated", "malformed", "non-ip"];
/// Place of packets that passed.
pub const PASSED: usize = 0;
/// Place of packets that were marked.
pub const MARKED: usize = 1;

/// Packets and their bytes, as they were metered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets as they came: one that is yet to be segmented is one.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What a policer decided, by colour.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decisions {
    /// Green, yellow, red; the last is never used and makes the places a power of two.
    pub colours: [Count; 4],
    /// Packets that found no room for a bucket of their own.
    pub shared: u64,
}

/// Counts of packets, by [`NAMES`].
#[derive(Debug, Default)]
pub struct Tally {
    /// Since the start.
    pub totals: [u64; NAMES.len()],
    /// Buckets that were made and forgotten, and packets without one of their own, since the start.
    pub turnover: [u64; 3],
    told: [u64; NAMES.len() + 3],
}

impl Tally {
    /// Tells the host what was added since the last time: a host call for each counter that changed.
    #[inline(always)]
    pub fn flush(&mut self, host: &mut Host) {
        let now = self.totals.iter().chain(&self.turnover);
        for (place, (now, told)) in now.zip(&mut self.told).enumerate() {
            if *now != *told {
                host.counter_add(place as u32, *now - *told);
                *told = *now;
            }
        }
    }
}

fn word(action: &Action) -> &'static str {
    match action {
        Action::Pass => "pass",
        Action::Drop(_) => "drop",
        Action::Mark { .. } => "mark",
    }
}

/// Writes the report; the README has its shape.
pub(crate) fn report(policing: &Policing, out: &mut String) {
    let mut json = Json::new(out);
    json.object().key("packets").object();
    for (name, total) in NAMES.iter().zip(policing.tally.totals) {
        json.member(name, total);
    }
    json.member("unpoliced", policing.unpoliced).end_object();
    json.key("policers").array();
    for (number, (policer, decisions)) in policing.policers.iter().zip(&policing.decisions).enumerate() {
        json.object().member("number", number as u64);
        if !policer.name.is_empty() {
            json.key("name").text(&policer.name);
        }
        for (colour, name) in [(GREEN, "conform"), (YELLOW, "exceed"), (RED, "violate")] {
            if colour == RED && !policer.limits.has_three_colours() {
                continue;
            }
            let Count { packets, bytes } = decisions.colours[colour];
            json.key(name).object().key("action").text(word(&policer.actions[colour]));
            json.member("packets", packets).member("bytes", bytes).end_object();
        }
        if policer.keyed {
            json.member("shared", decisions.shared);
        }
        json.end_object();
    }
    let [made, forgotten, shared] = policing.tally.turnover;
    json.end_array().key("buckets").object();
    json.member("live", policing.table.len() as u64).member("max", policing.table.limit() as u64);
    json.member("made", made).member("forgotten", forgotten).member("shared", shared).end_object();
    top(policing, &mut json);
    json.end_object();
}

/// The buckets that most was beyond the limits of.
fn top(policing: &Policing, json: &mut Json<'_>) {
    let table = &policing.table;
    let mut leaders = BinaryHeap::with_capacity(policing.top + 1);
    for slot in table.iter() {
        let excess = table.excess(slot);
        if excess.packets > 0 {
            leaders.push(Reverse((excess.bytes, excess.packets, Reverse(slot))));
            if leaders.len() > policing.top {
                leaders.pop();
            }
        }
    }
    json.key("top").array();
    for Reverse((bytes, packets, Reverse(slot))) in leaders.into_sorted_vec() {
        let (key, level) = table.get(slot);
        let Some((number, policer)) = policing.policer_of(&key) else { continue };
        json.object().member("policer", number as u64);
        if !policer.name.is_empty() {
            json.key("name").text(&policer.name);
        }
        policer.describe(&key, json);
        json.key("beyond").object().member("packets", packets).member("bytes", bytes).end_object();
        let (bytes, packets) = policer.limits.room(&level, policing.clock.now);
        json.key("room").object();
        if let Some(bytes) = bytes {
            json.member("bytes", bytes);
        }
        if let Some(packets) = packets {
            json.member("packets", packets);
        }
        json.end_object().end_object();
    }
    json.end_array();
}
