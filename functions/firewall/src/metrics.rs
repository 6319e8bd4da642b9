//! The report.

use alloc::string::String;
use nf_sdk::Json;
use packet_filter::filter::Filter;
use packet_filter::report;
use packet_filter::rule_set::RuleSet;

/// Names in the report and in the manifest, accepted packets first, then the reasons
/// ([`packet_filter::tally::Reason`]).
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

/// Writes the report.
pub fn report(filter: &Filter<RuleSet, { NAMES.len() }>, out: &mut String) {
    let mut json = Json::new(out);
    json.object();
    report::packets(&mut json, &NAMES, &filter.tally);
    report::rules(&mut json, &filter.judge.rules);
    if let Some(tracker) = &filter.tracker {
        report::flows(&mut json, tracker);
    }
    json.member("snapped", filter.judge.snapped).member("unsegmented", filter.judge.unsegmented);
    let fragments = &filter.judge.fragments;
    json.member("fragmented_datagrams", fragments.count() as u64);
    json.member("fragments_held", fragments.waiting.count() as u64).end_object();
}
