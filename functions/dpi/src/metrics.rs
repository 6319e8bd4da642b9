//! What is counted, and the report.

use crate::Dpi;
use crate::flow::tracker::Turnover;
use crate::rules::Action;
use alloc::string::String;
use nf_sdk::{Host, Json, Verdict};

/// Why a packet is dropped; the numbers are places in the manifest's `drop_reasons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Reason {
    /// It matched a drop rule.
    Rule = 0,
    /// A packet of its flow did.
    Flow = 1,
    /// A header is cut short or contradicts itself.
    Malformed = 2,
    /// A fragment.
    Fragment = 3,
    /// To match it would have taken too much work, or there was no room to keep it.
    Overload = 4,
    /// Its receiver ignores it.
    Ignored = 5,
    /// It came by the interface that copies leave by.
    FromSuspicious = 6,
}

/// Counters, by their places in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Packets that pass.
    Accepted = 0,
    /// The first of the reasons.
    Rule = 1,
    /// Alerts that were told.
    Alerts = 8,
    /// Matches that a threshold kept back.
    Suppressed = 9,
    /// Alerts that the host had no room for.
    Lost = 10,
    /// Bytes of payload.
    Bytes = 11,
    /// Packets whose headers cannot be read.
    Malformed = 12,
    /// Fragments.
    Fragments = 13,
    /// Datagrams that were put together from fragments.
    Datagrams = 14,
    /// Fragments that there was no room for, and datagrams of which one never came.
    FragmentsLost = 15,
    /// Packets with a wrong checksum.
    WrongChecksums = 16,
    /// Packets and segments that their receivers ignore for another reason.
    Ignored = 17,
    /// Packets that were not matched to the end, or could not be kept.
    Overloads = 18,
    /// The first of what [`Turnover`] has.
    Opened = 19,
    /// Places where a stream goes on without bytes that never came.
    Gaps = 25,
    /// Rules that waited for more of a stream and were forgotten.
    PendingLost = 28,
    /// Directions whose messages were not read any further.
    MessagesLost = 29,
    /// Copies of suspicious packets.
    Copies = 30,
    /// Those for which there was no buffer.
    CopiesLost = 31,
}

/// Names in the report and in the manifest.
pub const NAMES: [&str; 32] = [
    "accepted",
    "rule",
    "flow",
    "malformed",
    "fragment",
    "overload",
    "ignored",
    "from-suspicious",
    "alerts",
    "alerts-suppressed",
    "alerts-lost",
    "bytes",
    "malformed-seen",
    "fragments-seen",
    "datagrams",
    "fragments-lost",
    "checksum-errors",
    "ignored-seen",
    "overloads",
    "flows-opened",
    "flows-expired",
    "flows-evicted",
    "streams-evicted",
    "segments-held",
    "segments-lost",
    "gaps",
    "repeated",
    "conflicts",
    "pending-lost",
    "messages-lost",
    "copies",
    "copies-lost",
];

/// Counts, by [`NAMES`].
#[derive(Debug, Default)]
pub struct Tally {
    /// Since the start.
    pub totals: [u64; NAMES.len()],
    batch: [u64; NAMES.len()],
    turnover: [u64; 9],
    ignored: u64,
}

impl Tally {
    /// Counts.
    #[inline(always)]
    pub fn add(&mut self, count: Count, amount: u64) {
        self.batch[count as usize] += amount;
    }

    /// Counts a packet; its verdict.
    #[inline]
    pub fn judge(&mut self, judgement: Result<(), Reason>, onward: u32) -> u32 {
        match judgement {
            Ok(()) => {
                self.batch[Count::Accepted as usize] += 1;
                onward
            }
            Err(reason) => {
                self.batch[Count::Rule as usize + reason as usize] += 1;
                Verdict::Drop(reason as u16).encode()
            }
        }
    }

    /// Tells the host what was added.
    pub fn flush(&mut self, turnover: &Turnover, host: &mut Host) {
        let now = [
            turnover.opened,
            turnover.expired,
            turnover.evicted,
            turnover.windows_evicted,
            turnover.held,
            turnover.held_lost,
            turnover.gaps,
            turnover.repeated,
            turnover.conflicts,
        ];
        self.batch[Count::Ignored as usize] +=
            turnover.ignored - core::mem::replace(&mut self.ignored, turnover.ignored);
        for (place, (now, before)) in now.into_iter().zip(&mut self.turnover).enumerate() {
            self.batch[Count::Opened as usize + place] += now - core::mem::replace(before, now);
        }
        for (place, count) in self.batch.iter_mut().enumerate() {
            if *count != 0 {
                self.totals[place] += *count;
                host.counter_add(place as u32, core::mem::take(count));
            }
        }
    }
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Pass => "pass",
        Action::Drop => "drop",
        Action::Alert => "alert",
    }
}

/// Most rules in the report: those that matched most.
const MAX_RULES: usize = 100;
/// Most rules in the report that were left out.
const MAX_SKIPPED: usize = 16_384;

/// Writes the report.
pub fn report(dpi: &Dpi, out: &mut String) {
    let mut json = Json::new(out);
    json.object().key("counters").object();
    for (name, total) in NAMES.iter().zip(dpi.tally.totals) {
        json.member(name, total);
    }
    let (rules, tracker) = (dpi.detector.rules(), &dpi.tracker);
    json.end_object().key("rules").object().member("loaded", rules.len() as u64);
    json.key("matched").array();
    let hits = dpi.detector.hits();
    let mut matched: alloc::vec::Vec<usize> = (0..rules.len()).filter(|rule| hits[*rule] != 0).collect();
    matched.sort_by_key(|rule| (core::cmp::Reverse(hits[*rule]), *rule));
    for number in matched.into_iter().take(MAX_RULES) {
        let rule = &rules[number];
        json.object().member("gid", u64::from(rule.gid)).member("sid", u64::from(rule.sid));
        json.key("action").text(word(rule.action)).key("msg").text(&rule.message);
        json.member("line", u64::from(rule.line)).member("hits", hits[number]).end_object();
    }
    json.end_array().key("unfinished").array();
    let counts = dpi.detector.unfinished();
    let mut unfinished: alloc::vec::Vec<usize> = (0..rules.len()).filter(|rule| counts[*rule] != 0).collect();
    unfinished.sort_by_key(|rule| (core::cmp::Reverse(counts[*rule]), *rule));
    for number in unfinished.into_iter().take(MAX_RULES) {
        let rule = &rules[number];
        json.object().member("gid", u64::from(rule.gid)).member("sid", u64::from(rule.sid));
        json.member("line", u64::from(rule.line)).member("times", counts[number]).end_object();
    }
    json.end_array();
    let file = dpi.detector.file();
    json.member("replaced", file.replaced as u64).key("unknown_classtypes").object();
    for (name, count) in file.count_classes(alloc::string::ToString::to_string) {
        json.member(&name, count as u64);
    }
    json.end_object();
    let skipped = &file.skipped;
    json.key("skipped").object().member("total", skipped.total as u64).key("lacking").object();
    for (name, count) in &skipped.reasons {
        json.member(name, *count as u64);
    }
    json.end_object().key("rules").array();
    for (line, sid, name) in skipped.list.iter().take(MAX_SKIPPED) {
        json.object().member("line", u64::from(*line)).member("sid", u64::from(*sid));
        json.key("lacks").text(name).end_object();
    }
    json.end_array().end_object().end_object().key("flows").object();
    json.member("now", tracker.table.len() as u64).member("max", tracker.table.limit() as u64);
    json.end_object().key("streams").object();
    json.member("window_bytes", dpi.detector.window() as u64);
    json.member("windows", tracker.windows.in_use() as u64)
        .member("max_windows", tracker.windows.limit() as u64);
    json.member("held_bytes", tracker.reorder.bytes() as u64).end_object();
    json.key("messages").object().member("sessions", tracker.sessions.in_use() as u64);
    json.member("free_bytes", tracker.sessions.share.left() as u64).end_object();
    json.member("bits_evicted", dpi.hosts.evicted);
    json.member("thresholds_evicted", dpi.thresholds.evicted).end_object();
}
