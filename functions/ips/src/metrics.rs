//! What is counted, and the report.

use crate::Ips;
use crate::connections::Turnover;
use alloc::string::String;
use nf_sdk::{Host, Json};

/// Drop reason of a packet of a connection that is to end.
pub const BLOCKED: u16 = 0;
/// Drop reason of another packet where those are dropped.
pub const OTHER: u16 = 1;

/// Counters, by their places in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Packets that passed.
    Passed = 0,
    /// Packets whose connection was ended by resets.
    Reset = 1,
    /// Packets whose sender was told that its port is unreachable.
    Unreachable = 2,
    /// Packets of a connection that is to end, dropped.
    Blocked = 3,
    /// Other packets, dropped.
    Other = 4,
    /// Suspicious packets of addresses whose connections are never ended.
    Never = 5,
    /// Packets of a connection whose ends were told often enough.
    Enough = 6,
    /// Packets whose connection was not ended because too many were in this second.
    Limited = 7,
    /// Packets whose connection is not in the table.
    NoTable = 8,
    /// Suspicious packets whose mark names no side.
    Unsided = 9,
    /// Suspicious packets that cannot be read, and fragments.
    Unreadable = 10,
    /// Suspicious resets.
    ResetSeen = 11,
    /// Suspicious packets of other protocols.
    NotTcp = 12,
    /// Resets.
    ResetsSent = 13,
    /// ICMP errors.
    UnreachablesSent = 14,
    /// Those for which there was no buffer.
    Unsent = 15,
}

/// Names in the report and of the manifest's counters.
pub const NAMES: [&str; 19] = [
    "passed",
    "reset",
    "unreachable",
    "blocked",
    "other",
    "never",
    "enough",
    "limited",
    "no-table",
    "unsided",
    "unreadable",
    "reset-seen",
    "not-tcp",
    "resets-sent",
    "unreachables-sent",
    "unsent",
    "connections-added",
    "connections-ended",
    "connections-displaced",
];
/// Place of the first number of [`Turnover`].
const TURNOVER: usize = 16;

/// Counts by [`NAMES`].
#[derive(Debug, Default)]
pub struct Tally {
    totals: [u64; NAMES.len()],
    told: [u64; NAMES.len()],
}

impl Tally {
    /// Counts.
    pub fn add(&mut self, count: Count, amount: u64) {
        if let Some(total) = self.totals.get_mut(count as usize) {
            *total += amount;
        }
    }

    /// Tells the host what was added since the last time.
    pub fn flush(&mut self, turnover: Turnover, host: &mut Host) {
        let Turnover { added, ended, displaced } = turnover;
        for (total, now) in self.totals.iter_mut().skip(TURNOVER).zip([added, ended, displaced]) {
            *total = now;
        }
        for (place, (now, told)) in self.totals.iter().zip(&mut self.told).enumerate() {
            if *now != *told {
                host.counter_add(place as u32, *now - *told);
                *told = *now;
            }
        }
    }
}

/// Writes the report; the README has its shape.
pub(crate) fn report(ips: &Ips, out: &mut String) {
    let mut json = Json::new(out);
    json.object().key("packets").object();
    for (name, total) in NAMES.iter().zip(ips.tally.totals) {
        json.member(name, total);
    }
    json.end_object().key("connections").object();
    json.member("now", ips.connections.len() as u64).member("max", ips.connections.most() as u64);
    json.end_object().end_object();
}
