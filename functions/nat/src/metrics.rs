//! What is counted, and the report.

use crate::translator::Translator;
use alloc::string::String;
use nf_sdk::{Host, Json, Verdict};

/// Why a packet is dropped; the numbers are places in the manifest's `drop_reasons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Reason {
    /// A header contradicts itself, is cut short, or a checksum that has to be right is wrong.
    Malformed = 0,
    /// Neither TCP, UDP nor an ICMP message that can be translated.
    Protocol = 1,
    /// From outside, for an address that is inside or for a port of the pool without a mapping.
    NoMapping = 2,
    /// From outside, and the mapping does not let it in.
    Filtered = 3,
    /// TCP without a connection, an ICMP reply or error about nothing that was sent.
    NoSession = 4,
    /// There is no room for another session, and nothing can make room.
    TableFull = 5,
    /// The inside host has as many sessions or ports as one may have.
    HostLimit = 6,
    /// The outside address has no free port.
    NoPort = 7,
    /// A later fragment whose first one did not come or overlaps it, or that there is no room for.
    Fragment = 8,
    /// It has no counterpart in the other version of IP, or no hops left there.
    Untranslatable = 9,
}

/// Names in the report and in the manifest: packets that were translated from inside, from outside and back
/// to the inside, packets that pass as they are, then the reasons.
pub const NAMES: [&str; 14] = [
    "outward",
    "inward",
    "hairpinned",
    "passed",
    "malformed",
    "protocol",
    "no-mapping",
    "filtered",
    "no-session",
    "table-full",
    "host-limit",
    "no-port",
    "fragment",
    "untranslatable",
];
/// The place of the first reason.
const REASONS: usize = 4;

impl Reason {
    /// The verdict that drops a packet for this reason.
    pub const fn verdict(self) -> Verdict {
        Verdict::Drop(self as u16)
    }
}

/// What became of a packet that is not dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// Translated on its way out.
    Outward = 0,
    /// Translated on its way in.
    Inward = 1,
    /// Translated twice, from inside to inside.
    Hairpinned = 2,
    /// Not translated.
    AsIs = 3,
}

/// Names of what began and ended, in the order of the manifest's counters behind [`NAMES`].
pub const TURNOVER: [&str; 4] = ["sessions-opened", "sessions-expired", "sessions-evicted", "answers"];

/// Counts.
#[derive(Debug, Default)]
pub struct Tally {
    /// Packets since the start, by [`NAMES`].
    pub totals: [u64; NAMES.len()],
    batch: [u32; NAMES.len()],
    told: [u64; TURNOVER.len()],
}

impl Tally {
    /// Counts usual packets of a batch, of both directions.
    #[inline(always)]
    pub fn add(&mut self, outward: u32, inward: u32) {
        self.batch[0] += outward;
        self.batch[1] += inward;
    }

    /// Counts a packet.
    pub fn passed(&mut self, passed: Passed) {
        self.batch[passed as usize] += 1;
    }

    /// Counts a packet that is dropped.
    pub fn dropped(&mut self, reason: Reason) {
        self.batch[REASONS + reason as usize] += 1;
    }

    /// Tells the host what is new: a host call for each counter that changed.
    #[inline(always)]
    pub fn flush(&mut self, turnover: [u64; TURNOVER.len()], host: &mut Host) {
        for (place, count) in self.batch.iter_mut().enumerate() {
            if *count != 0 {
                self.totals[place] += u64::from(*count);
                host.counter_add(place as u32, u64::from(*count));
                *count = 0;
            }
        }
        if turnover != self.told {
            for (place, (now, before)) in turnover.iter().zip(&self.told).enumerate() {
                if now != before {
                    host.counter_add((NAMES.len() + place) as u32, now - before);
                }
            }
            self.told = turnover;
        }
    }
}

/// Writes the report.
pub fn report(translator: &Translator, tally: &Tally, out: &mut String) {
    let mut json = Json::new(out);
    json.object().key("packets").object();
    for (name, total) in NAMES.iter().zip(tally.totals) {
        json.member(name, total);
    }
    let [opened, expired, evicted, answers] = translator.turnover;
    json.end_object().key("sessions").object();
    json.member("now", translator.sessions.len() as u64).member("max", translator.sessions.limit() as u64);
    json.member("opened", opened).member("expired", expired).member("evicted", evicted).end_object();
    let bindings = &translator.bindings;
    json.key("mappings").object();
    json.member("now", bindings.mappings() as u64).member("hosts", bindings.hosts() as u64).end_object();
    json.key("pool").object();
    json.member("addresses", bindings.ports.addresses() as u64);
    json.member("ports", bindings.ports.in_use()).end_object();
    json.member("fragments_held", translator.fragments.held() as u64);
    json.member("answers", answers).end_object();
}
